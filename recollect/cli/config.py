"""`recollect config`: show and change the settings."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from recollect import places
from recollect.cli.commands import command
from recollect.cli.common import print_json, print_table, safe, show
from recollect.configuration import ENVIRONMENT, Setting, config_file
from recollect.errors import InvalidInput
from recollect.settings import SETTINGS
from recollect.settings import place as settings_place
from recollect.store.audit_log import SETTING, Entry

_HIDDEN = "********"
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/@]*@")  # in the address of a database
_NAME = "name NAME  a setting, such as embeddings"


@command(
    "config",
    "",
    """
    recollect config                             every setting, its value and where it comes from
    recollect config get embeddings
    recollect config set embeddings off
    recollect config set exclude '~/clients/*, secret-*'
    recollect config unset embeddings
    recollect config path                        the file that `set` writes
    """,
)
@command("config list")
def list_(arguments: argparse.Namespace) -> int | None:
    """Show every setting (the default)."""
    records = {setting.key: record_of(setting) for setting in SETTINGS}
    if arguments.json:
        return print_json(records)
    rows = [
        (
            setting.key,
            safe(text(records[setting.key]["value"])),
            records[setting.key]["from"],
            setting.help,
        )
        for setting in SETTINGS
    ]
    print_table("setting, value, from, meaning", rows)
    show(f"Change them with `recollect config set`, in {safe(str(config_file()))}.")
    return None


@command("config get", _NAME)
def get(arguments: argparse.Namespace) -> int | None:
    """Print one setting."""
    record = record_of(find(arguments.name))
    if arguments.json:
        return print_json(record)
    print(text(record["value"]))
    return None


@command("config set", f"{_NAME}\nvalue VALUE  its value")
def set_(arguments: argparse.Namespace) -> None:
    """Write a setting to recollect.toml."""
    setting, value = find(arguments.name), arguments.value.strip()
    setting.check(value)
    document = read()
    document[setting.key] = value
    write(document, "set", setting.key)
    print(f"{setting.key} is set in {config_file()}.")
    if setting.origin() == ENVIRONMENT:
        print(f"The environment variable {setting.name} is set too, and takes precedence.")


@command("config unset", _NAME)
def unset(arguments: argparse.Namespace) -> None:
    """Remove a setting from recollect.toml."""
    setting, document = find(arguments.name), read()
    if setting.key not in document:
        print(f"{setting.key} is not set in {config_file()}.")
        return
    del document[setting.key]
    write(document, "unset", setting.key)
    print(f"{setting.key} was removed from {config_file()}.")


@command("config path")
def path(arguments: argparse.Namespace) -> None:
    """Print where recollect.toml is."""
    print(config_file())


def find(name: str) -> Setting[Any]:
    """A setting by its key or its environment variable."""
    for setting in SETTINGS:
        if name.lower().replace("-", "_") == setting.key or name == setting.name:
            return setting
    raise InvalidInput(f"There is no setting {name!r}. `recollect config` lists them all.")


def record_of(setting: Setting[Any]) -> dict[str, Any]:
    value = setting.get()
    if setting.secret and value:
        value = _HIDDEN
    if isinstance(value, str):
        value = _PASSWORD.sub(rf"\g<1>{_HIDDEN}@", value)
    return {"value": value, "from": setting.origin(), "variable": setting.name}


def text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def read() -> Any:
    """The file as a document that keeps its comments and order."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        return tomlkit.parse(config_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (OSError, UnicodeDecodeError, ParseError) as error:
        raise InvalidInput(f"{config_file()} cannot be read: {error}") from error


def write(document: Any, operation: str, key: str) -> None:
    """Replace the file in one step. It may hold keys, so only its owner can read it."""
    path = config_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".recollect-", delete=False
        ) as file:
            file.write(document.as_string())
        os.replace(file.name, path)  # noqa: PTH105 - the same on every system
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    where = settings_place()
    if isinstance(where, Path) and where.exists():  # there is a folder for the audit log
        places.record(where, None, Entry.of(SETTING, operation, [key]))
