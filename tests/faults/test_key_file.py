"""The file with the API keys: a full disk, an empty or damaged file, a file that disappears.

Whatever happens to it, access never opens up, the error says what is wrong, and the server works
again as soon as the file is right.
"""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from recollect.cli import main
from recollect.errors import RecollectError
from recollect.places import keys as keys_of
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import check, new_key, revoke
from recollect.serve.identity.auth import KEY_CHECK_SECONDS
from recollect.store.api_keys import KeysUnavailable

ADDRESS = "http://127.0.0.1:8765"


@contextmanager
def no_space() -> Iterator[None]:
    """No file may grow beyond a page: the nearest thing to a full disk that needs no mount."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class Clock:
    """The time of the service, so that a test need not wait until keys are looked for again."""

    now = 1000.0

    def __call__(self) -> float:
        self.now += 2 * KEY_CHECK_SECONDS
        return self.now


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    service = Service(tmp_path, ServiceConfig(rate_per_minute=0), Clock())
    with TestClient(make_app(service), ADDRESS) as client:
        yield client
    service.close()


def test_a_key_that_cannot_be_stored_leaves_no_file(tmp_path: Path) -> None:
    with closing(keys_of(tmp_path)) as keys:
        with no_space(), pytest.raises(RecollectError, match="No key was added"):
            new_key(keys, "ann")
        assert list(tmp_path.iterdir()) == []
        assert not keys.has_any()
        text, _ = new_key(keys, "ann")
        assert check(keys, text)
    assert [path.name for path in tmp_path.iterdir()] == ["keys.db"]


def test_the_server_goes_on_after_a_key_could_not_be_stored(
    client: TestClient, tmp_path: Path
) -> None:
    assert client.get("/conversations").status_code == 200
    with closing(keys_of(tmp_path)) as keys, no_space(), pytest.raises(RecollectError):
        new_key(keys, "ann")
    assert client.get("/conversations").status_code == 200


def test_an_empty_file_closes_the_server_until_a_key_is_added(
    client: TestClient, tmp_path: Path
) -> None:
    (tmp_path / "keys.db").touch(0o644)
    for _ in range(2):
        response = client.get("/conversations")
        assert response.status_code == 503
        assert response.json()["detail"] == "The server cannot check API keys: keys.db is empty."
        assert response.headers["Retry-After"]
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    with closing(keys_of(tmp_path)) as keys:
        with pytest.raises(KeysUnavailable, match="Add a key with `recollect keys add`"):
            keys.has_any()
        text, _ = new_key(keys, "ann")
    assert (tmp_path / "keys.db").stat().st_mode & 0o077 == 0
    assert client.get("/conversations").status_code == 401
    headers = {"Authorization": f"Bearer {text}"}
    assert client.get("/conversations", headers=headers).status_code == 200


@pytest.mark.parametrize("damage", ["garbage", "other database", "missing", "folder"])
def test_a_damaged_file_closes_the_server_until_it_is_repaired(
    client: TestClient, tmp_path: Path, damage: str
) -> None:
    path, copy = tmp_path / "keys.db", tmp_path / "copy.db"
    with closing(keys_of(tmp_path)) as keys:
        text, _ = new_key(keys, "ann")
    headers = {"Authorization": f"Bearer {text}"}
    assert client.get("/conversations", headers=headers).status_code == 200
    path.rename(copy)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    if damage == "garbage":
        path.write_bytes(os.urandom(8_192))
    elif damage == "other database":
        with closing(sqlite3.connect(path)) as db:
            db.execute("create table other (x)")
    elif damage == "folder":
        path.mkdir()
    for request_headers in ({}, headers):
        response = client.get("/conversations", headers=request_headers)
        assert response.status_code in (401, 503)
    response = client.get("/conversations", headers=headers)
    assert response.status_code == 503
    assert "keys.db" in response.json()["detail"]
    assert str(tmp_path) not in response.text
    if damage == "folder":
        path.rmdir()
    path.unlink(missing_ok=True)
    copy.rename(path)
    assert client.get("/conversations", headers=headers).status_code == 200
    assert client.get("/conversations").status_code == 401


def test_a_server_with_a_damaged_file_does_not_start_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys.db").write_bytes(os.urandom(8_192))
    assert main(["serve", "--home", str(tmp_path), "--port", "0"]) == 1
    error = capsys.readouterr().err
    assert f"The API keys in {tmp_path} cannot be read: keys.db is damaged." in error
    assert "`recollect restore --to FOLDER`" in error
    assert "delete it and create new keys with `recollect keys add NAME`" in error


def test_a_key_is_accepted_although_its_last_use_cannot_be_stored(tmp_path: Path) -> None:
    with closing(keys_of(tmp_path)) as keys:
        text, _ = new_key(keys, "ann")
        assert keys.has_any()
        with no_space():
            assert check(keys, text)


def test_keys_are_read_if_the_server_starts_on_a_full_disk(tmp_path: Path) -> None:
    with closing(keys_of(tmp_path)) as keys:
        text, key = new_key(keys, "ann")
        other_text, _ = new_key(keys, "bob")
    with closing(keys_of(tmp_path)) as keys:
        with no_space():
            assert keys.has_any()
            assert check(keys, text)
            with pytest.raises(RecollectError):
                revoke(keys, key.id)
        with closing(keys_of(tmp_path)) as other_process:
            revoke(other_process, key.id)
        assert check(keys, text) is None
        assert check(keys, other_text)


def test_two_processes_that_create_the_first_key_keep_both(tmp_path: Path) -> None:
    with closing(keys_of(tmp_path)) as one, closing(keys_of(tmp_path)) as other:
        new_key(one, "ann")
        new_key(other, "bob")
        assert {key.user for key in one.all_keys()} == {"ann", "bob"}
