"""Temporary roles and databases on the test server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import postgres
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict


@contextmanager
def login(server: str, options: str = "", member_of: str = "") -> Iterator[str]:
    """Create a role that can log in. `options` and `member_of` give it more rights."""
    name = f"recollect_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"create role {name} login password 'secret' {options}")
        if member_of:
            db.execute(f"grant {member_of} to {name}")
    try:
        yield name
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"drop owned by {name}")
            db.execute(f"drop role {name}")


@contextmanager
def own_database(server: str, owner: str = "") -> Iterator[str]:
    """Create a database. The address is for its owner, by default the user who runs the tests."""
    name = f"recollect_test_{uuid.uuid4().hex[:12]}"
    sql = f"create database {name} encoding 'UTF8' template template0"
    if owner:
        sql += f" owner {owner}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(sql)
    try:
        yield of(server, owner, name)
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"drop database {name} with (force)")


def of(server: str, login: str = "", database: str = "") -> str:
    """The address of the server with another login or database."""
    parts = conninfo_to_dict(server)
    if database:
        parts |= {"dbname": database}
    if login:
        parts |= {"user": login, "password": "secret"}
    return postgres.address(parts)


def superuser() -> str:
    """The address of the test server. Skips the test if the user is not a superuser."""
    url = os.environ[postgres.URL]
    with psycopg.connect(url) as db:
        row = db.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
    if not row or not row[0]:
        pytest.skip("only a superuser can prepare this")
    return url
