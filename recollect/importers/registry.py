"""The list of formats, and the search for files that have one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from recollect.errors import InvalidInput, UnknownFormat
from recollect.importers.chats import (
    chatgpt,
    claude,
    claude_code,
    codex,
    gemini_cli,
    letta,
    own,
    programs,
)
from recollect.importers.entries import Entry, Visit, entries, visit_all
from recollect.importers.knowledge import characters, media, notes, prompts, subtitles
from recollect.model.documents import Document
from recollect.model.kinds import CHARACTER, CONVERSATION, KIND_TABLE, MEDIA, NOTE, PROMPT
from recollect.model.receipts import Problem
from recollect.model.sources import Source


class Format(Protocol):
    """What a module of a format provides; see `recollect.importers`."""

    SOURCE: Source
    DESCRIPTION: str

    def claims(self, entry: Entry) -> bool: ...
    def read(self, entry: Entry) -> Iterator[Document | Problem]: ...


_FORMATS: dict[str, tuple[Format, ...]] = {
    CONVERSATION: (
        own,
        chatgpt,
        claude,
        claude_code,
        codex,
        gemini_cli,
        letta,
        *programs.LOGS,
        *programs.DATABASES,
    ),
    NOTE: (notes,),
    MEDIA: (subtitles, media),
    CHARACTER: (characters,),
    PROMPT: (prompts,),
}
FORMATS_BY_KIND = {kind.plural: _FORMATS[kind.name] for kind in KIND_TABLE}
"""The formats of each kind, by the name that `--as` takes."""
CONVERSATION_FORMATS = _FORMATS[CONVERSATION]
FORMATS: tuple[Format, ...] = (
    *CONVERSATION_FORMATS,
    characters,
    prompts,
    subtitles,
    media,
    notes,
)
"""All formats. The first one that claims a file reads it, so generic formats come last."""
_GENERIC: tuple[Format, ...] = (media, notes)


def detect(entry: Entry) -> Format | None:
    """The format of a file, or None if no format claims it."""
    return first_claim(FORMATS, entry)


def find(
    path: Path, kind: str | None = None, within: Path | None = None, visit: Visit = visit_all
) -> Iterator[tuple[Entry, Format] | Problem]:
    """Everything at `path` that can be imported, as `kind` if given, and a Problem for the rest.

    Older files come first: a resumed session then counts as the copy, and the newer of two
    exports wins. For `within` and `visit`, see `entries`. Raises UnknownFormat if there is nothing
    to import.
    """
    candidates: list[tuple[Entry, Format]] = []
    reasons: list[str] = []
    unknown = 0
    for entry in entries(path, within, visit):
        if isinstance(entry, Problem):
            reasons.append(entry.reason)
            yield entry
            continue
        if not visit(entry.name, entry.place, entry.size):
            continue
        format_ = choose_format(entry, kind)
        if format_ is None:
            unknown += 1
        else:
            candidates.append((entry, format_))
    if not candidates:
        raise UnknownFormat(nothing_to_import(path, kind, reasons))
    candidates.sort(key=lambda candidate: (candidate[0].modified, candidate[0].name))
    has_conversations = any(format_ in CONVERSATION_FORMATS for _, format_ in candidates)
    skipped: Counter[str] = Counter()
    for entry, format_ in candidates:
        # Exports of conversations often contain such files, which the user did not write.
        is_guess = format_ in _GENERIC or (format_ is prompts and prompts.is_guess(entry))
        if has_conversations and kind is None and is_guess:
            skipped[format_.SOURCE.name] += 1
        else:
            yield entry, format_
    for name, count in skipped.items():
        reason = f"{name} next to conversations are skipped; import them with --as {name}"
        yield Problem(reason, where=str(path), unit="files", count=count)
    if unknown:
        reason = "contains no conversations" if has_conversations else "unknown format"
        yield Problem(reason, where=str(path), unit="files", count=unknown)


def find_conversations(
    path: Path, sources: Collection[str], visit: Visit = visit_all
) -> Iterator[tuple[Entry, Format]]:
    """The first file at `path` with conversations of these sources, if there is one."""
    formats = tuple(f for f in CONVERSATION_FORMATS if f.SOURCE.name in sources)
    for entry in entries(path, visit=visit):
        if isinstance(entry, Problem) or not visit(entry.name, entry.place, entry.size):
            continue
        format_ = first_claim(formats, entry)
        if format_ is not None:
            yield entry, format_
            return


def choose_format(entry: Entry, kind: str | None) -> Format | None:
    """The format to read a file with, given what kind the user says it is.

    A format that claims the file comes before one that merely accepts it.
    """
    if kind is None:
        return detect(entry)
    formats = FORMATS_BY_KIND.get(kind)
    if formats is None:
        kinds = ", ".join(FORMATS_BY_KIND)
        raise InvalidInput(f"Cannot import as {kind!r}. Use one of: {kinds}.")
    accepting = (f for f in formats if hasattr(f, "accepts") and f.accepts(entry))
    return first_claim(formats, entry) or next(accepting, None)


def first_claim(formats: tuple[Format, ...], entry: Entry) -> Format | None:
    return next((format_ for format_ in formats if format_.claims(entry)), None)


def nothing_to_import(path: Path, kind: str | None, reasons: Sequence[str]) -> str:
    """Why nothing can be imported. `reasons` are why files were skipped."""
    if path.is_dir() and not any(path.iterdir()):
        return f"{path} is an empty folder."
    if path.is_file() and not path.stat().st_size:
        return f"{path} is empty. Download or export it again."
    if reasons:
        why = "; ".join(dict.fromkeys(reason.rstrip(".") for reason in reasons))
        return f"{path} contains nothing that can be imported: {why}."
    if kind is None:
        return f"{path} has no known format. Known formats: {describe_formats(FORMATS)}."
    formats = describe_formats(FORMATS_BY_KIND[kind])
    return f"{path} contains no {kind}. Known formats: {formats}."


def describe_formats(formats: tuple[Format, ...]) -> str:
    return "; ".join(dict.fromkeys(format_.DESCRIPTION for format_ in formats))
