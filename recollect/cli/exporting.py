"""`recollect export`: write conversations to files that other programs can read."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import chain, count
from pathlib import Path
from typing import TextIO

from recollect.cli.commands import command
from recollect.cli.common import existing, no_library, plural, safe, show, write_file
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

_FORMATS: dict[str, Callable[[Document], str]] = {
    "json": lambda document: json.dumps(as_json(document), indent=2, allow_nan=False) + "\n",
    "txt": as_text,
    "md": as_markdown,
}


@command(
    "export",
    f"""
    conversation?    {REFERENCE} (default: the whole library)
    --format json|txt|md =json  the format
    --skip-damaged   export what can be read of a damaged library, and list what is missing
    -o --output PATH  a file, or a folder for many txt or md files
                     (default, or `-`: standard output)
    """,
    """
    recollect export --output library.json               everything; `import` reads it back
    recollect export 1 --format md                       a number of the last search or list
    recollect export --format txt --output folder/       one file per conversation
    recollect export --skip-damaged --output rest.json   what can be read of a damaged library
    """,
)
def run(arguments: argparse.Namespace) -> None:
    where = place(arguments.home)
    if not arguments.skip_damaged:
        with existing(arguments) as library:
            if arguments.conversation:
                arguments.conversation = resolve(library, arguments, arguments.conversation).id
            export(library, arguments)
        return
    if not exists(where, arguments.user):
        raise no_library(arguments)
    if isinstance(where, Path):
        with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
            copy_key_file(where, Path(folder))
            report = salvage(where, folder, arguments.user)
            with open(folder, arguments.user, background=False) as library:
                export(library, arguments)
        show_report(report, stderr=True)
        return
    damage: list[tuple[str, str]] = []
    with existing(arguments) as library:
        export(library, arguments, lambda id_, reason: damage.append((id_, reason)))
    for id_, reason in damage:
        show(f"[red]skipped[/]: conversation {safe(repr(id_))}: {safe(reason)}", stderr=True)


def export(
    library: Library, arguments: argparse.Namespace, on_damage: OnDamage | None = None
) -> None:
    format_, output = arguments.format, arguments.output
    if output == "-":
        output = None
    if arguments.conversation:
        text = _FORMATS[format_](library.conversation(arguments.conversation))
        write(output, lambda file: file.write(text))
    elif format_ == "json":
        documents = library.documents(on_damage=on_damage)
        write(output, lambda file: write_json(documents, file))
    elif output:
        export_to_folder(library.documents(on_damage=on_damage), format_, Path(output))
    else:
        raise InvalidInput(
            "Exporting many conversations as txt or md needs a folder. Add --output FOLDER, "
            "or name one conversation."
        )
    ids = [arguments.conversation] if arguments.conversation else []
    record(arguments.home, arguments.user, Entry.of(EXPORT, format_, ids))


def write(path: str | None, write: Callable[[TextIO], object]) -> None:
    """Write to a file or to standard output."""
    if path is None:
        write(sys.stdout)
        return
    target = Path(path)
    if target.exists() and not target.is_file():  # renaming a file would replace the device
        with target.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write(file)
        return
    if not target.parent.is_dir():
        raise InvalidInput(f"There is no folder {target.parent}.")
    write_file(target, write)


def export_to_folder(documents: Iterable[Document], format_: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    for document in documents:
        # Some disks do not tell upper from lower case.
        title, id_ = (
            re.sub(r"[^\w-]+", "-", text)[:60] for text in (document.title.strip(), document.id)
        )
        base = f"{title.strip('-') or 'untitled'}-{id_}"
        numbered = (f"{base}-{number}" for number in count(2))
        name = next(n for n in chain([base], numbered) if n.casefold() not in names)
        names.add(name.casefold())
        path = folder / f"{name}.{format_}"
        text = _FORMATS[format_](document)
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
    show(f"Wrote {plural(len(names), 'file')} to {safe(str(folder))}", stderr=True)
