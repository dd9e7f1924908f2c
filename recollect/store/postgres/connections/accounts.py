"""Find out who has a library in a database."""

from __future__ import annotations

from typing import Any

import psycopg

from recollect.store.postgres.cluster import PROPAGATE_SETTINGS, is_distributed
from recollect.store.postgres.connections.capabilities import connect_as_login
from recollect.store.postgres.connections.connection import set_owner
from recollect.store.postgres.connections.server_errors import explain_errors, location_of
from recollect.store.postgres.schema import APP, can_use_app_role, is_created


def has_account(url: str, user: str) -> bool:
    """Whether the user has a library in the database. Creates nothing."""
    location = location_of(url)
    with explain_errors(location), connect_as_login(url, location) as connection:
        if not is_created(connection, location):
            return False
        if is_distributed(connection):
            connection.execute(PROPAGATE_SETTINGS)
        return _has_library(connection, user)


def _has_library(connection: psycopg.Connection[Any], user: str) -> bool:
    with connection.transaction():
        if can_use_app_role(connection):
            connection.execute(f"set local role {APP}")
        connection.execute("select set_config('recollect.user', %s, true)", [user])
        account = connection.execute(
            "select id from recollect.account where name = %s", [user]
        ).fetchone()
        if account is None:
            return False
        # An account is never deleted. Only a library has a row in `last_key`.
        (owner,) = account
        connection.execute(set_owner(owner))
        library = connection.execute(
            "select 1 from recollect.last_key where owner = %s", [owner]
        ).fetchone()
        return library is not None
