"""API keys: what is stored, and which keys are accepted."""

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
    store = keys_of(place)
    yield store
    store.close()


def test_a_new_key_has_its_user_scopes_and_toolsets(keys: ApiKeys, user: str) -> None:
    text, key = new_key(keys, user, "laptop", ["write", "read"], ["bus"], agent=True)
    stored_key = check(keys, text)
    assert stored_key is not None
    assert (
        stored_key.user,
        stored_key.name,
        stored_key.scopes,
        stored_key.toolsets,
        stored_key.agent,
    ) == (
        user,
        "laptop",
        ("read", "write"),
        ("bus",),
        True,
    )
    assert stored_key.id == key.id
    assert keys.has_any()


def test_only_the_exact_key_is_accepted(keys: ApiKeys, user: str) -> None:
    text, key = new_key(keys, user)
    other, _ = new_key(keys, user)
    wrong = f"rk_{key.id}_{other.rpartition('_')[2][:43].rjust(43, 'A')}"
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


def test_a_revoked_key_is_rejected_at_once_and_forever(
    keys: ApiKeys, place: str, user: str
) -> None:
    text, key = new_key(keys, user)
    elsewhere = keys_of(place)
    revoke(elsewhere, key.id)
    elsewhere.close()
    assert check(keys, text) is None
    first = next(k for k in keys.all_keys() if k.id == key.id).revoked_at
    revoke(keys, text)
    assert next(k for k in keys.all_keys() if k.id == key.id).revoked_at == first
    with pytest.raises(NotFound):
        revoke(keys, "0" * 12)


def test_a_key_expires(keys: ApiKeys, user: str) -> None:
    with pytest.raises(InvalidInput):
        new_key(keys, user, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    text, key = new_key(keys, user, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert check(keys, text)
    assert key.expires_at is not None


def test_the_last_use_of_a_key_is_stored(keys: ApiKeys, user: str) -> None:
    text, key = new_key(keys, user)
    assert next(k for k in keys.all_keys() if k.id == key.id).used_at is None
    check(keys, text)
    assert next(k for k in keys.all_keys() if k.id == key.id).used_at is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": ""},
        {"user": "x" * 501},
        {"user": "a\0b"},
        {"user": " "},
        {"name": " "},
        {"scopes": ["root"]},
        {"scopes": []},
        {"toolsets": ["Bus; drop"]},
        {"name": "x" * 201},
    ],
)
def test_a_key_with_invalid_properties_is_rejected(keys: ApiKeys, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        new_key(keys, **({"user": "ann"} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_no_file_contains_the_secret(keys: ApiKeys, place: str, user: str) -> None:
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


def test_the_database_role_of_the_application_cannot_read_keys(database: str, user: str) -> None:
    import psycopg

    with closing(keys_of(database)) as keys, recollect.open(database, user):
        new_key(keys, user)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("set role recollect_app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("select * from recollect_keys.api_key")
