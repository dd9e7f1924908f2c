"""`recollect keys`, for people and for programs."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from recollect.cli import main
from recollect.places import keys
from recollect.serve.identity.accounts import check


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
    assert entry.keys() == created.keys() - {"key"}
    assert json.loads(run("revoke", created["id"], "--json")) == {"revoked": created["id"]}
    assert json.loads(run("list", "--json"))["keys"][0]["revoked_at"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--expires", "soon"], "not a date"),
        (["--expires", "2001-01-01"], "in the past"),
        (["--toolset", "../x"], "not the name of a toolset"),
        (["--user", ""], "1 to 500"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_invalid_keys_are_rejected(run: Any, arguments: list[str], message: str) -> None:
    assert message in run("add", "x", *arguments, fails=True)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_help_shows_examples(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["add", "--help"], ["revoke", "--help"]):
        with pytest.raises(SystemExit):
            run(*arguments)
        assert "recollect keys" in capsys.readouterr().out
