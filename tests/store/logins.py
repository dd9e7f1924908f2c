"""Roles that log in to the test server, and databases that belong to them; all are gone afterwards."""

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
    """A role that may log in, and what it may beside that."""
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
    """A fresh database of the server, as its owner sees it; without one, as whoever runs the tests."""
    name = f"recollect_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(
            f"create database {name} encoding 'UTF8' template template0 {f'owner {owner}' if owner else ''}"
        )
    try:
        yield of(server, owner, name)
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"drop database {name} with (force)")


def of(server: str, login: str = "", database: str = "") -> str:
    """The same address for another login or database."""
    parts = conninfo_to_dict(server) | ({"dbname": database} if database else {})
    return postgres.address(parts | ({"user": login, "password": "secret"} if login else {}))


def superuser() -> str:
    """The server of this run, where whoever runs the tests may do anything."""
    url = os.environ[postgres.URL]
    with psycopg.connect(url) as db:
        row = db.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
    if not row or not row[0]:
        pytest.skip("only a superuser can prepare this")
    return url
