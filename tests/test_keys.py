"""API keys: what is kept of them, and what opens with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import recollect
from recollect.errors import InvalidInput, NotFound
from recollect.places import keys as keys_of
from recollect.serve.identity.accounts import check, new_key, revoke
from recollect.store.api_keys import ApiKeys


@pytest.fixture
def keys(place: str) -> Iterator[ApiKeys]:
    opened = keys_of(place)
    yield opened
    opened.close()


def test_a_new_key_opens_what_it_was_made_for(keys: ApiKeys, user: str) -> None:
    text, made = new_key(keys, user, "laptop", ["write", "read"], ["bus"], agent=True)
    found = check(keys, text)
    assert found is not None
    assert (found.user, found.name, found.scopes, found.toolsets, found.agent) == (
        user,
        "laptop",
        ("read", "write"),
        ("bus",),
        True,
    )
    assert found.id == made.id
    assert keys.has_any()


def test_only_the_whole_key_opens(keys: ApiKeys, user: str) -> None:
    text, made = new_key(keys, user)
    other, _ = new_key(keys, user)
    wrong = f"rk_{made.id}_{other.rpartition('_')[2][:43].rjust(43, 'A')}"
    for attempt in (
        "",
        "rk_",
        text[:-1],
        text + "x",
        text.upper(),
        wrong,
        f" {text}",
        f"{text}\n",
        "x" * 100_000,
    ):
        assert check(keys, attempt) is None
    assert check(keys, text)


def test_a_revoked_key_opens_nothing_at_once_and_for_ever(
    keys: ApiKeys, place: str, user: str
) -> None:
    text, made = new_key(keys, user)
    elsewhere = keys_of(place)
    revoke(elsewhere, made.id)
    elsewhere.close()
    assert check(keys, text) is None
    first = next(k for k in keys.all_keys() if k.id == made.id).revoked_at
    revoke(keys, text)
    assert next(k for k in keys.all_keys() if k.id == made.id).revoked_at == first
    with pytest.raises(NotFound):
        revoke(keys, "0" * 12)


def test_a_key_expires(keys: ApiKeys, user: str) -> None:
    with pytest.raises(InvalidInput):
        new_key(keys, user, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    text, made = new_key(keys, user, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert check(keys, text)
    assert made.expires_at is not None


def test_that_a_key_is_used_is_noted(keys: ApiKeys, user: str) -> None:
    text, made = new_key(keys, user)
    assert next(k for k in keys.all_keys() if k.id == made.id).used_at is None
    check(keys, text)
    assert next(k for k in keys.all_keys() if k.id == made.id).used_at is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": ""},
        {"user": "x" * 501},
        {"user": "a\0b"},
        {"scopes": ["root"]},
        {"scopes": []},
        {"toolsets": ["Bus; drop"]},
        {"name": "x" * 201},
    ],
)
def test_a_key_that_makes_no_sense_is_refused(keys: ApiKeys, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        new_key(keys, **({"user": "ann"} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_secret_is_in_no_file(keys: ApiKeys, place: str, user: str) -> None:
    text, _ = new_key(keys, user)
    keys.close()
    secret = text.split("_", 2)[2].encode()
    files = [p for p in Path(place).rglob("*") if p.is_file()]
    assert files
    assert not any(secret in p.read_bytes() for p in files)
    assert all(p.stat().st_mode & 0o077 == 0 for p in files)


def test_nothing_is_created_before_the_first_key(keys: ApiKeys, place: str) -> None:
    if not place.startswith("postgresql"):
        assert not keys.has_any()
        assert keys.all_keys() == []
        assert check(keys, f"rk_{'0' * 12}_{'A' * 43}") is None
        assert not Path(place).exists()


def test_the_application_s_role_sees_no_key(database: str, user: str) -> None:
    import psycopg

    with closing(keys_of(database)) as keys, recollect.open(database, user):
        new_key(keys, user)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("set role recollect_app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("select * from recollect_keys.api_key")
