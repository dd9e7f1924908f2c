"""`recollect export`: write conversations to files that other programs can read."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TextIO

from recollect.cli.common import add_flag, console, define, existing, no_library, plural, safe
from recollect.cli.moving import show_report
from recollect.cli.references import REFERENCE, resolve
from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.model.documents import Document
from recollect.places import exists, open, record, salvage
from recollect.settings import place
from recollect.store.audit_log import EXPORT, Entry
from recollect.store.sqlite.encryption import copy_key_file
from recollect.store.values import OnDamage
from recollect.transfer.export import as_json, as_markdown, as_text, write_json

_EXAMPLES = """\
  recollect export --output library.json               everything; `recollect import` reads it back
  recollect export 1 --format md                       a number of the last search or list
  recollect export --format txt --output folder/       one file per conversation
  recollect export --skip-damaged --output rest.json   what can be read of a damaged library
"""
_TEXT_FORMATS: dict[str, Callable[[Document], str]] = {"txt": as_text, "md": as_markdown}


def define_export(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument(
        "conversation", nargs="?", help=f"{REFERENCE} (default: the whole library)"
    )
    command.add_argument(
        "--format", choices=("json", "txt", "md"), default="json", help="(default: %(default)s)"
    )
    add_flag(
        command,
        "--skip-damaged",
        "export what can be read of a damaged library, and list what is missing",
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="a file, or a folder for many txt or md files (default, or `-`: standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.output == "-":
        arguments.output = None
    if arguments.skip_damaged:
        return export_readable(arguments)
    with existing(arguments) as library:
        if arguments.conversation:
            arguments.conversation = resolve(library, arguments, arguments.conversation).id
        export(library, arguments)
    return 0


def export(
    library: Library, arguments: argparse.Namespace, on_damage: OnDamage | None = None
) -> None:
    write_export(library, arguments, on_damage)
    ids = []
    if arguments.conversation:
        ids.append(arguments.conversation)
    record(arguments.home, arguments.user, Entry.of(EXPORT, arguments.format, ids))


def write_export(
    library: Library, arguments: argparse.Namespace, on_damage: OnDamage | None
) -> None:
    if arguments.conversation:
        export_one(library.conversation(arguments.conversation), arguments)
        return
    documents = library.documents(on_damage=on_damage)
    if arguments.format == "json":
        _write(arguments.output, lambda file: write_json(documents, file))
    elif arguments.output:
        export_to_folder(documents, arguments.format, Path(arguments.output))
    else:
        raise InvalidInput(
            "Exporting many conversations as txt or md needs a folder. Add --output FOLDER, "
            "or name one conversation."
        )


def export_readable(arguments: argparse.Namespace) -> int:
    """Export what can be read, and say on standard error what cannot."""
    where = place(arguments.home)
    if not exists(where, arguments.user):
        raise no_library(arguments)
    if isinstance(where, Path):
        with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
            copy_key_file(where, Path(folder))
            report = salvage(where, folder, arguments.user)
            with open(folder, arguments.user, background=False) as library:
                export(library, arguments)
        show_report(report, stderr=True)
        return 0
    damage: list[tuple[str, str]] = []
    with existing(arguments) as library:
        export(library, arguments, lambda id_, reason: damage.append((id_, reason)))
    out = console(stderr=True)
    for id_, reason in damage:
        out.print(f"[red]skipped[/]: conversation {safe(repr(id_))}: {safe(reason)}")
    return 0


def export_one(document: Document, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        text = json.dumps(as_json(document), indent=2, allow_nan=False) + "\n"
    else:
        text = _TEXT_FORMATS[arguments.format](document)
    _write(arguments.output, lambda file: file.write(text))


def _write(path: str | None, write: Callable[[TextIO], object]) -> None:
    """Write to a file or to standard output.

    A file is written under another name first, so that it is complete or does not exist. A device
    or pipe is written as it is: renaming a file over /dev/null would replace the device.
    """
    if path is None:
        write(sys.stdout)
        return
    target = Path(path)
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write(file)
        return
    draft = target.with_name(target.name + ".part")
    if not target.parent.is_dir():
        raise InvalidInput(f"There is no folder {target.parent}.")
    try:
        with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write(file)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    console(stderr=True).print(f"Wrote {target}")


def export_to_folder(documents: Iterable[Document], format_: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    for document in documents:
        name = unused_name(document, names)
        names.add(name.casefold())
        text = _TEXT_FORMATS[format_](document)
        path = folder / f"{name}.{format_}"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
    console(stderr=True).print(f"Wrote {plural(len(names), 'file')} to {folder}")


def unused_name(document: Document, names: Container[str]) -> str:
    """A name for the file of a conversation. Some disks do not tell upper from lower case."""
    title = re.sub(r"[^\w-]+", "-", document.title).strip("-")[:60]
    id_ = re.sub(r"[^\w-]+", "-", document.id)[:60]
    name = f"{title or 'untitled'}-{id_}"
    numbered = (f"{name}-{number}" for number in count(2))
    return next(n for n in chain([name], numbered) if n.casefold() not in names)
