"""Importers: files in, documents out. They never see a database.

A format is a module with four names:

    NAME    the origin that its documents carry
    LABEL   what a person reads in "known formats"
    claims(entry)   whether this file is of the format, by its name and head
    read(entry)     a generator of Documents, and of Problems for what was left out

and a fifth where a person may say what a file is (`--as notes`):

    accepts(entry)  whether it can be read as this, if somebody says so

`read` streams: memory does not grow with the file. A record that cannot be
used becomes a Problem and the next one is read. What lies beside a file it finds
in `entry.neighbours`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from recollect.errors import InvalidInput, UnknownFormat
from recollect.importers.chats import (
    chatgpt,
    chatgpt_browser,
    claude,
    claude_code,
    codex,
    gemini_cli,
    own,
)
from recollect.importers.entries import Entry, entries
from recollect.importers.knowledge import characters, media, notes, prompts, transcripts
from recollect.model.documents import Document
from recollect.model.receipts import Problem


class Format(Protocol):
    NAME: str
    LABEL: str

    def claims(self, entry: Entry) -> bool: ...
    def read(self, entry: Entry) -> Iterator[Document | Problem]: ...


_CONVERSATIONS: tuple[Format, ...] = (
    own,
    chatgpt,
    claude,
    claude_code,
    codex,
    gemini_cli,
    chatgpt_browser,
)
KINDS: dict[str, tuple[Format, ...]] = {
    "conversations": _CONVERSATIONS,
    "notes": (notes,),
    "media": (transcripts, media),
    "characters": (characters,),
    "prompts": (prompts,),
}
"""What a person may say that files are."""
FORMATS: tuple[Format, ...] = (*_CONVERSATIONS, characters, prompts, transcripts, media, notes)
_GENERIC: tuple[Format, ...] = (media, notes)


def detect(entry: Entry) -> Format | None:
    """The format of one file, or None."""
    return next((f for f in FORMATS if f.claims(entry)), None)


def find(
    path: Path, kind: str | None = None, within: Path | None = None
) -> Iterator[tuple[Entry, Format] | Problem]:
    """What can be imported at `path`, as `kind` where one is said; raises UnknownFormat when nothing can.

    Older files come first: the copies in a resumed session are then known as copies,
    and of two exports the newer one has the last word. `within` is as for `entries`.
    """
    found: list[tuple[Entry, Format]] = []
    unknown = 0
    for entry in entries(path, within):
        if isinstance(entry, Problem):
            yield entry
        elif (format_ := detect(entry) if kind is None else _told(entry, kind)) is not None:
            found.append((entry, format_))
        else:
            unknown += 1
    if not found:
        raise UnknownFormat(_nothing(path, kind))
    conversations = any(format_ in _CONVERSATIONS for _, format_ in found)
    passed: Counter[str] = Counter()
    for entry, format_ in sorted(found, key=lambda item: (item[0].modified, item[0].name)):
        if conversations and kind is None and _generic(entry, format_):
            passed[format_.NAME] += 1
        else:
            yield entry, format_
    for name, count in passed.items():
        reason = f"beside conversations {name} are left alone; take them with --as {name}"
        yield Problem(reason, where=str(path), unit="files", count=count)
    if unknown:
        reason = "no conversations in it" if conversations else "not of a known format"
        yield Problem(reason, where=str(path), unit="files", count=unknown)


def _told(entry: Entry, kind: str) -> Format | None:
    """The format of a file of which somebody says what it is: what is sure comes before what is possible."""
    formats = KINDS.get(kind)
    if formats is None:
        raise InvalidInput(f"Nothing can be imported as {kind!r}. Say one of: {', '.join(KINDS)}.")
    sure = next((f for f in formats if f.claims(entry)), None)
    return sure or next((f for f in formats if getattr(f, "accepts", f.claims)(entry)), None)


def _generic(entry: Entry, format_: Format) -> bool:
    """Whether it is what also lies in exports of conversations, where it is not the person's own."""
    return format_ in _GENERIC or (format_ is prompts and prompts.guessed(entry))


def _nothing(path: Path, kind: str | None) -> str:
    formats = FORMATS if kind is None else KINDS[kind]
    what = "has no known format" if kind is None else f"holds no {kind}"
    return f"{path} {what}. Known formats: {known(formats)}."


def known(formats: tuple[Format, ...] = FORMATS) -> str:
    return "; ".join(dict.fromkeys(f.LABEL for f in formats))
