"""`recollect export`: everything out again, in formats that last."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from recollect.cli.common import Commands, add_command, console, existing
from recollect.errors import InvalidInput
from recollect.model.documents import Document
from recollect.transfer.export import as_json, as_markdown, as_text, write_json

_EXAMPLES = """\
  recollect export --output library.json               everything; `recollect import` reads it back
  recollect export CONVERSATION --format md
  recollect export --format txt --output folder/       one file a conversation
"""
_TEXTS: dict[str, Callable[[Document], str]] = {"txt": as_text, "md": as_markdown}


def register(commands: Commands) -> None:
    command = add_command(
        commands, "export", "export one conversation or everything", run, _EXAMPLES
    )
    command.add_argument("conversation", nargs="?", help="its id; without one, the whole library")
    command.add_argument(
        "--format", choices=("json", "txt", "md"), default="json", help="(default: %(default)s)"
    )
    command.add_argument(
        "--output",
        metavar="PATH",
        help="a file, or a folder for many txt or md files (default: standard output)",
    )


def run(given: argparse.Namespace) -> int:
    with existing(given) as library:
        if given.conversation:
            _one(library.conversation(given.conversation), given)
        elif given.format == "json":
            _to(given.output, lambda file: write_json(library.documents(), file))
        elif given.output:
            _folder(library.documents(), given.format, Path(given.output))
        else:
            raise InvalidInput(
                "Many conversations as txt or md need a folder: add --output FOLDER, or name one conversation."
            )
    return 0


def _one(document: Document, given: argparse.Namespace) -> None:
    if given.format == "json":
        _to(
            given.output,
            lambda file: file.write(
                json.dumps(as_json(document), indent=2, allow_nan=False) + "\n"
            ),
        )
    else:
        _to(given.output, lambda file: file.write(_TEXTS[given.format](document)))


def _to(path: str | None, write: Callable[[TextIO], object]) -> None:
    """Write to standard output, or beside the target and then in its place, so that it is whole or not there."""
    if path is None:
        write(sys.stdout)
        return
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
        write(file)
    draft.replace(target)
    console(stderr=True).print(f"Wrote {target}")


def _folder(documents: Iterable[Document], format_: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for document in documents:
        stem = re.sub(r"[^\w-]+", "-", document.title).strip("-")[:60]
        name = re.sub(r"[^\w-]+", "-", document.id)[:60]
        path = folder / f"{stem or 'untitled'}-{name}.{format_}"
        path.write_text(_TEXTS[format_](document), encoding="utf-8", errors="replace", newline="")
        count += 1
    console(stderr=True).print(f"Wrote {count:,} conversations to {folder}")
