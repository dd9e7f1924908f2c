"""`recollect config`: show and change the settings."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect import places
from recollect.cli.common import console, define, print_json, safe
from recollect.configuration import ENVIRONMENT, Setting, config_file
from recollect.errors import InvalidInput
from recollect.settings import SETTINGS
from recollect.settings import place as settings_place
from recollect.store.audit_log import SETTING, Entry

_HIDDEN = "********"
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/@]*@")  # in the address of a database
_EXAMPLES = """\
  recollect config                             every setting, its value and where it comes from
  recollect config get embeddings
  recollect config set embeddings off
  recollect config set exclude '~/clients/*, secret-*'
  recollect config unset embeddings
  recollect config path                        the file that `set` writes
"""


def define_config(command: argparse.ArgumentParser) -> None:
    define(command, _list, _EXAMPLES)
    actions = command.add_subparsers(metavar="ACTION")
    for name, run, summary in (
        ("list", _list, "show every setting (the default)"),
        ("get", get, "print one setting"),
        ("set", _set, "write a setting to recollect.toml"),
        ("unset", unset, "remove a setting from recollect.toml"),
        ("path", _path, "print where recollect.toml is"),
    ):
        action = actions.add_parser(name, help=summary, description=summary.capitalize() + ".")
        action.set_defaults(run=run)
        if name in ("get", "set", "unset"):
            action.add_argument("name", metavar="NAME", help="a setting, such as embeddings")
        if name == "set":
            action.add_argument("value", metavar="VALUE")
        if name in ("list", "get"):
            json_help = "print JSON for programs"
            action.add_argument(
                "--json", action="store_true", default=argparse.SUPPRESS, help=json_help
            )


def _list(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json({setting.key: _record(setting) for setting in SETTINGS})
        return 0
    table = Table("setting", "value", "from", "meaning", box=SIMPLE_HEAD, pad_edge=False)
    for setting in SETTINGS:
        record = _record(setting)
        table.add_row(setting.key, safe(text(record["value"])), record["from"], setting.help)
    console().print(table)
    console().print(f"Change them with `recollect config set`, in {safe(str(config_file()))}.")
    return 0


def get(arguments: argparse.Namespace) -> int:
    record = _record(find(arguments.name))
    if arguments.json:
        print_json(record)
    else:
        print(text(record["value"]))
    return 0


def _set(arguments: argparse.Namespace) -> int:
    setting = find(arguments.name)
    setting.check(arguments.value.strip())
    document = read()
    document[setting.key] = arguments.value.strip()
    write(document)
    record_change("set", setting.key)
    print(f"{setting.key} is set in {config_file()}.")
    if setting.origin() == ENVIRONMENT:
        print(f"The environment variable {setting.name} is set too, and takes precedence.")
    return 0


def unset(arguments: argparse.Namespace) -> int:
    setting = find(arguments.name)
    document = read()
    if setting.key not in document:
        print(f"{setting.key} is not set in {config_file()}.")
        return 0
    del document[setting.key]
    write(document)
    record_change("unset", setting.key)
    print(f"{setting.key} was removed from {config_file()}.")
    return 0


def record_change(operation: str, key: str) -> None:
    """Record a change in the audit log, if there is a folder for it."""
    where = settings_place()
    if isinstance(where, Path) and where.exists():
        places.record(where, None, Entry.of(SETTING, operation, [key]))


def _path(arguments: argparse.Namespace) -> int:
    print(config_file())
    return 0


def find(name: str) -> Setting[Any]:
    """A setting by its key or its environment variable."""
    for setting in SETTINGS:
        if name.lower().replace("-", "_") == setting.key or name == setting.name:
            return setting
    raise InvalidInput(f"There is no setting {name!r}. `recollect config` lists them all.")


def _record(setting: Setting[Any]) -> dict[str, Any]:
    value = setting.get()
    if setting.secret and value:
        value = _HIDDEN
    if isinstance(value, str):
        value = _PASSWORD.sub(rf"\g<1>{_HIDDEN}@", value)
    return {"value": value, "from": setting.origin(), "variable": setting.name}


def text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


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


def write(document: Any) -> None:
    """Replace the file in one step. It may hold keys, so only its owner can read it."""
    import os
    import tempfile

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
