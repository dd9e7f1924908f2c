"""`recollect export`: write conversations to files that other programs can read."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from recollect.cli.common import console, define, existing, plural
from recollect.errors import InvalidInput
from recollect.model.documents import Document
from recollect.transfer.export import as_json, as_markdown, as_text, write_json

_EXAMPLES = """\
  recollect export --output library.json               everything; `recollect import` reads it back
  recollect export CONVERSATION --format md
  recollect export --format txt --output folder/       one file per conversation
"""
_TEXT_FORMATS: dict[str, Callable[[Document], str]] = {"txt": as_text, "md": as_markdown}


def define_export(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument("conversation", nargs="?", help="its id (default: the whole library)")
    command.add_argument(
        "--format", choices=("json", "txt", "md"), default="json", help="(default: %(default)s)"
    )
    command.add_argument(
        "--output",
        metavar="PATH",
        help="a file, or a folder for many txt or md files (default: standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        if arguments.conversation:
            _export_one(library.conversation(arguments.conversation), arguments)
        elif arguments.format == "json":
            _write(arguments.output, lambda file: write_json(library.documents(), file))
        elif arguments.output:
            _export_to_folder(library.documents(), arguments.format, Path(arguments.output))
        else:
            raise InvalidInput(
                "Exporting many conversations as txt or md needs a folder. Add --output FOLDER, "
                "or name one conversation."
            )
    return 0


def _export_one(document: Document, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        text = json.dumps(as_json(document), indent=2, allow_nan=False) + "\n"
    else:
        text = _TEXT_FORMATS[arguments.format](document)
    _write(arguments.output, lambda file: file.write(text))


def _write(path: str | None, write: Callable[[TextIO], object]) -> None:
    """Write to a file or to standard output.

    A file is written under another name first, so that it is complete or does not exist.
    """
    if path is None:
        write(sys.stdout)
        return
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
        write(file)
    draft.replace(target)
    console(stderr=True).print(f"Wrote {target}")


def _export_to_folder(documents: Iterable[Document], format_: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for document in documents:
        stem = re.sub(r"[^\w-]+", "-", document.title).strip("-")[:60]
        name = re.sub(r"[^\w-]+", "-", document.id)[:60]
        path = folder / f"{stem or 'untitled'}-{name}.{format_}"
        text = _TEXT_FORMATS[format_](document)
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        count += 1
    console(stderr=True).print(f"Wrote {plural(count, 'file')} to {folder}")
