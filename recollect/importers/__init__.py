"""Importers: files in, documents out. They never see a database.

A format is a module with four names:

    NAME    the origin that its documents carry
    LABEL   what a person reads in "known formats"
    claims(entry)   whether this file is of the format, by its name and head
    read(entry)     a generator of Documents, and of Problems for what was left out

`read` streams: memory does not grow with the file. A record that cannot be
used becomes a Problem and the next one is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from recollect.errors import UnknownFormat
from recollect.importers import chatgpt, chatgpt_browser, claude, claude_code, codex, own
from recollect.importers.files import Entry, entries
from recollect.model import Document, Problem


class Format(Protocol):
    NAME: str
    LABEL: str

    def claims(self, entry: Entry) -> bool: ...
    def read(self, entry: Entry) -> Iterator[Document | Problem]: ...


FORMATS: tuple[Format, ...] = (own, chatgpt, claude, claude_code, codex, chatgpt_browser)


def detect(entry: Entry) -> Format | None:
    """The format of one file, or None."""
    return next((f for f in FORMATS if f.claims(entry)), None)


def find(path: Path) -> Iterator[tuple[Entry, Format] | Problem]:
    """What can be imported at `path`; raises UnknownFormat when nothing can.

    Older files come first: the copies in a resumed session are then known as copies,
    and of two exports the newer one has the last word.
    """
    found: list[tuple[Entry, Format]] = []
    unknown = 0
    for entry in entries(path):
        if isinstance(entry, Problem):
            yield entry
        elif (format_ := detect(entry)) is not None:
            found.append((entry, format_))
        else:
            unknown += 1
    if not found:
        raise UnknownFormat(f"{path} has no known format. Known formats: {known()}.")
    yield from sorted(found, key=lambda item: (item[0].modified, item[0].name))
    if unknown:
        yield Problem("no conversations in it", where=str(path), unit="files", count=unknown)


def known() -> str:
    return "; ".join(f.LABEL for f in FORMATS)
