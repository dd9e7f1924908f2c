"""`recollect postgres prepare` for a login without privileges of its own."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import psycopg
import pytest
from logins import login, of, own_database

from recollect import cli
from recollect.places import keys, shared_database
from recollect.store import shared
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.administration import SHARED_TABLES, prepare_database
from recollect.store.shared.database import Tables


def test_everything_that_servers_share_is_prepared() -> None:
    concepts = set()
    for module in pkgutil.iter_modules(shared.__path__, "recollect.store.shared."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Tables):
                concepts.add(value.name)
    assert {tables.name for tables in SHARED_TABLES} == concepts


@pytest.mark.full
def test_a_login_that_was_granted_access_can_run_a_server(database: str) -> None:
    with login(database, "noinherit") as name, own_database(database) as url:
        with psycopg.connect(url) as db:
            if db.info.server_version < 160000:
                pytest.skip("grants with their own inheritance came with PostgreSQL 16")
        prepare_database(url, name)
        prepare_database(url, name)
        own_url = of(url, name)
        PostgresStore(own_url, "ann").close()
        own_keys = keys(own_url)
        assert own_keys.all_keys() == own_keys.all_sessions() == []
        own_keys.close()
        own_shared = shared_database(own_url)
        for tables in SHARED_TABLES:
            with own_shared.transaction(tables) as transaction:
                assert transaction.get("select count(*) from concept") == len(SHARED_TABLES)
        own_shared.close()


def test_the_status_says_whether_a_database_is_prepared(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with own_database(database) as url:
        for action, line in (
            ("status", "The schema must be created: recollect postgres prepare"),
            ("prepare", "The schema is up to date."),
            ("status", "The schema is up to date."),
        ):
            assert cli.main(["postgres", action, "--home", url]) == 0
            assert line in capsys.readouterr().out
