"""`recollect keys`, for people and for programs."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from recollect.cli import main
from recollect.places import keys
from recollect.serve.identity.accounts import check, new_key


@pytest.fixture
def run(place: str, user: str, capsys: pytest.CaptureFixture[str]) -> Any:

    def command(*arguments: str, fails: bool = False) -> str:
        code = main(["keys", *arguments, "--home", place])
        out, err = capsys.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


def test_a_key_is_created_shown_once_listed_and_revoked(run: Any, place: str, user: str) -> None:
    assert "There are no keys" in run("list")
    output = run("add", "my laptop", "--user", user)
    assert "not shown again" in output
    (text,) = [word for word in output.split() if word.startswith("rk_")]
    id, secret = text[3:15], text[16:]
    with closing(keys(place)) as api_keys:
        key = check(api_keys, text)
        assert key is not None
        assert (key.user, key.name, key.scopes, key.agent) == (
            user,
            "my laptop",
            ("read", "write"),
            False,
        )
    for listing in (run("list"), run("list", "--json")):
        assert id in listing
        assert secret not in listing
    assert "was revoked" in run("revoke", id)
    with closing(keys(place)) as api_keys:
        assert check(api_keys, text) is None
    assert "revoked" in run("list")
    assert "There is no key" in run("revoke", "ffffffffffff", fails=True)


def test_every_keys_command_prints_json(run: Any, user: str) -> None:
    created = json.loads(
        run(
            "add",
            "agent",
            "--user",
            user,
            "--scope",
            "read",
            "--toolset",
            "bus",
            "--agent",
            "--expires",
            "2099-01-31",
            "--json",
        )
    )
    assert created["key"].startswith(f"rk_{created['id']}_")
    assert (created["scopes"], created["toolsets"], created["agent"]) == (["read"], ["bus"], True)
    assert created["expires_at"].startswith("2099-01-31T23:59:59")
    (entry,) = json.loads(run("list", "--json"))["keys"]
    assert entry.keys() == created.keys() - {"key"} | {"replaced_by"}
    assert json.loads(run("revoke", created["id"], "--json")) == {"revoked": created["id"]}
    assert json.loads(run("list", "--json"))["keys"][0]["revoked_at"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--expires", "soon"], "not a date"),
        (["--expires", "2001-01-01"], "in the past"),
        (["--toolset", "knowlege"], "not the name of a toolset. Use "),
        (["--user", ""], "1 to 500"),
        (["--user", "  "], "1 to 500"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_invalid_keys_are_rejected(run: Any, arguments: list[str], message: str) -> None:
    assert message in run("add", "x", *arguments, fails=True)


@pytest.mark.parametrize("name", ["", "  "])
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_key_needs_a_name(run: Any, place: str, user: str, name: str) -> None:
    assert "needs a name" in run("add", name, fails=True)
    with closing(keys(place)) as api_keys:
        new_key(api_keys, user)
    assert "There is no key" in run("rotate", name, fails=True)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_help_shows_examples(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["add", "--help"], ["revoke", "--help"]):
        with pytest.raises(SystemExit):
            run(*arguments)
        assert "recollect keys" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_key_is_replaced_and_the_old_one_shown_as_such(run: Any, place: str, user: str) -> None:
    old = json.loads(run("add", "laptop", "--user", user, "--json"))
    output = run("rotate", "laptop", "--user", user, "--grace", "1d")
    assert "works until" in output
    (text,) = [word for word in output.split() if word.startswith("rk_")]
    with closing(keys(place)) as api_keys:
        assert check(api_keys, text) and check(api_keys, old["key"])
    listing = run("list")
    assert old["id"] in listing and text[3:15] in listing
    assert "being replaced" in " ".join(listing.split())
    (entry,) = [key for key in json.loads(run("list", "--json"))["keys"] if key["id"] == old["id"]]
    assert entry["replaced_by"] == text[3:15]
    new = json.loads(run("rotate", text[3:15], "--json"))
    assert new["replaces"] == text[3:15]
    with closing(keys(place)) as api_keys:
        assert check(api_keys, text) is None
        assert check(api_keys, new["key"])
    assert "is not a time" in run("rotate", "laptop", "--grace", "soon", fails=True)
    assert "There is no key" in run("rotate", "tablet", fails=True)
