"""What is never taken in: conversations that say so, whose project says so, or that a pattern names; and private spans.

A person's or system message may hold a marker; the project's folder, or one
above it, may hold a file; a pattern may name the project. What is put between
`<private>` and `</private>` is replaced before anything is stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Problem
from recollect.settings import EXCLUDE, home

MARKERS = (
    "DO NOT INDEX THIS CHAT",
    "DO NOT INDEX THIS CONVERSATION",
    "<INSTRUCTIONS-TO-EPISODIC-MEMORY>",
)
FILES = (".no-recollect", ".no-conversation-memory")
PRIVATE = "[private]"
_OPEN = "<private>"
# The innermost span, so that spans inside spans go from the inside out.
_SPAN = re.compile(r"<private>(?:(?!</?private>).)*+</private>", re.DOTALL)
# The same in the text of a JSON file: it does not leave its string.
_SPAN_IN_JSON = re.compile(
    rb"(?:<|\\u003[cC])private(?:>|\\u003[eE])"
    rb"(?:(?!(?:<|\\u003[cC])(?:/|\\/)?private(?:>|\\u003[eE]))(?:[^\"\\]|\\.))*+"
    rb"(?:<|\\u003[cC])(?:/|\\/)private(?:>|\\u003[eE])",
    re.DOTALL,
)
_PARENTS = ("parent_session", "parent_thread_id")


def configured(folder: Path | None = None) -> Exclusion:
    """The patterns of RECOLLECT_EXCLUDE, and those of `exclude.txt` in the home, a line each."""
    patterns = list(EXCLUDE.get())
    try:
        lines = (
            ((folder or home()) / "exclude.txt")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()
        )
    except OSError:
        lines = []
    patterns += [line for line in lines if not line.lstrip().startswith("#")]
    return Exclusion(tuple(os.path.expanduser(p) for p in map(str.strip, patterns) if p))  # noqa: PTH111 - a pattern


@dataclass(slots=True)
class Exclusion:
    """The rules of one import. It remembers which sessions were left out, for the sub-agents of theirs that follow."""

    patterns: tuple[str, ...] = ()
    exists: Callable[[Path], bool] = Path.exists
    _folders: dict[str, str] = field(default_factory=dict)
    _left_out: dict[tuple[str, str], str] = field(default_factory=dict)

    def reason(self, document: Document) -> str:
        """Why a conversation must not be taken in; empty where nothing speaks against it."""
        if document.kind != CONVERSATION:
            return ""
        parents = (
            (document.source, str(document.metadata[key]))
            for key in _PARENTS
            if key in document.metadata
        )
        why = (
            next((self._left_out[parent] for parent in parents if parent in self._left_out), "")
            or self._by_project(document)
            or _by_marker(document.passages)
        )
        if why:
            self._left_out[document.source, document.source_id] = why
        return why

    def admitted(self, document: Document) -> Document | Problem:
        """The document without its private spans, or why it is left out."""
        if (
            document.kind != CONVERSATION
        ):  # notes and the like are cut into chunks that know where they begin
            return document
        if why := self.reason(document):
            return Problem(why, document.title or document.source_id, unit="conversations")
        return without_private(document)

    def remember(self, left_out: Iterable[tuple[str, str]]) -> None:
        """Sessions, as (origin, its id), that were left out before."""
        self._left_out |= dict.fromkeys(left_out, "excluded before")

    def _by_project(self, document: Document) -> str:
        project = document.project
        if project not in self._folders:
            self._folders[project] = self._by_pattern(project) or self._by_file(project)
        return self._folders[project]

    def _by_pattern(self, project: str) -> str:
        path = _path(project)
        names = {project, str(path), path.name, *map(str, path.parents)}
        return next(
            (
                f"excluded by the pattern {p}"
                for p in self.patterns
                if any(fnmatchcase(n, p) for n in names)
            ),
            "",
        )

    def _by_file(self, project: str) -> str:
        folder = Path(project)
        if not folder.is_absolute():
            return ""
        for above in (folder, *folder.parents):
            for name in FILES:
                try:
                    if self.exists(above / name):
                        return f"excluded by {above / name}"
                except OSError:
                    continue
        return ""


def is_agent(place: str) -> bool:
    """Whether a file is a sub-agent's, by where it lies; it is read after the session that it is excluded with."""
    above, folder, name = ["", "", *place.replace("\\", "/").split("/")][-3:]
    return name.startswith("agent-") or folder == "subagents" or above == "chats"


def _path(project: str) -> PurePath:
    return PureWindowsPath(project) if re.match(r"[A-Za-z]:\\", project) else PurePosixPath(project)


def _by_marker(passages: Iterable[Passage]) -> str:
    for passage in passages:
        if passage.role in ("user", "system"):
            for marker in MARKERS:
                if marker in passage.content:
                    return f"excluded by the marker {marker}"
    return ""


# -- private spans -----------------------------------------------------------


def without_private(document: Document) -> Document:
    """The document with every private span replaced, wherever it is written."""
    if not (
        _OPEN in document.title
        or _has(document.metadata)
        or any(map(_is_private, document.passages))
    ):
        return document
    passages = tuple(_passage(p) if _is_private(p) else p for p in document.passages)
    return replace(
        document,
        title=_title(document.title),
        metadata=_cleaned(document.metadata),
        passages=passages,
    )


def without_private_text(text: str) -> str:
    while _OPEN in text:
        text, times = _SPAN.subn(PRIVATE, text)
        if not times:
            break
    return text


def without_private_json(line: bytes) -> bytes:
    """The same in the bytes of a JSON file, which stay JSON."""
    while b"private" in line:
        line, times = _SPAN_IN_JSON.subn(PRIVATE.encode(), line)
        if not times:
            break
    return line


def _is_private(passage: Passage) -> bool:
    return (
        _OPEN in passage.content
        or _has(passage.metadata)
        or (bool(passage.attachments) and _has(passage.attachments))
        or (bool(passage.citations) and _has(passage.citations))
    )


def _passage(passage: Passage) -> Passage:
    return passage._replace(
        content=without_private_text(passage.content),
        metadata=_cleaned(passage.metadata),
        attachments=_cleaned(passage.attachments),
        citations=_cleaned(passage.citations),
    )


def _title(title: str) -> str:
    """A title is the start of a message, so a span may be cut off in it."""
    cleaned = without_private_text(title)
    return cleaned[: cleaned.index(_OPEN)] + PRIVATE if _OPEN in cleaned else cleaned


def _has(value: Any) -> bool:
    if isinstance(value, str):
        return _OPEN in value
    if isinstance(value, Mapping):
        return any(_has(v) or _has(k) for k, v in value.items())
    return isinstance(value, (list, tuple)) and any(map(_has, value))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_private_text(value)
    if isinstance(value, Mapping):
        return {_cleaned(k): _cleaned(v) for k, v in value.items()}
    return type(value)(map(_cleaned, value)) if isinstance(value, (list, tuple)) else value
