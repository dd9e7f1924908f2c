"""What is never stored: excluded conversations, and private spans.

A conversation is excluded by a marker in a user or system message, by a file in the project's
folder or above it, or by a pattern that matches the project. Text between `<private>` and
`</private>` is replaced before anything is stored.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import orjson

from recollect.errors import InvalidInput
from recollect.home_folder import EXCLUSIONS
from recollect.language.text import storable
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Problem
from recollect.settings import EXCLUDE, READ_ONLY, home
from recollect.store.sqlite.private_files import create_private_folder

MARKERS = (
    "DO NOT INDEX THIS CHAT",
    "DO NOT INDEX THIS CONVERSATION",
    "<INSTRUCTIONS-TO-EPISODIC-MEMORY>",
)
FILES = (".no-recollect", ".no-conversation-memory")
PRIVATE = "[private]"
_OPEN = "<private>"
# The innermost span, so that nested spans are replaced from the inside out.
_SPAN = re.compile(r"<private>(?:(?!</?private>).)*+</private>", re.DOTALL)
# The same inside a JSON string.
_SPAN_IN_JSON = re.compile(
    rb"(?:<|\\u003[cC])private(?:>|\\u003[eE])"
    rb"(?:(?!(?:<|\\u003[cC])(?:/|\\/)?private(?:>|\\u003[eE]))(?:[^\"\\]|\\.))*+"
    rb"(?:<|\\u003[cC])(?:/|\\/)private(?:>|\\u003[eE])",
    re.DOTALL,
)
_PARENTS = ("parent_session", "parent_thread_id")
_MAX_PATTERN = 500
_lock = threading.Lock()


def configured_exclusion(
    folder: Path | None = None, shared_patterns: Sequence[str] = ()
) -> Exclusion:
    """The patterns of RECOLLECT_EXCLUDE, of `exclude.txt` in the home folder, one per line, and of
    the database."""
    patterns = [*EXCLUDE.get(), *read_patterns(folder or home()), *shared_patterns]
    return Exclusion(tuple(os.path.expanduser(pattern) for pattern in patterns))  # noqa: PTH111


def matching_projects(pattern: str, projects: Iterable[str]) -> list[str]:
    """The projects that a pattern would exclude."""
    exclusion = Exclusion((os.path.expanduser(pattern.strip()),))  # noqa: PTH111
    return [project for project in projects if exclusion.matching_pattern(project)]


@dataclass(slots=True)
class Exclusion:
    """The rules of one import. It remembers excluded sessions, so that their sub-agents follow."""

    patterns: tuple[str, ...] = ()
    exists: Callable[[Path], bool] = Path.exists
    _reasons: dict[str, str] = field(default_factory=dict)
    """By project."""
    _sessions: dict[tuple[str, str], str] = field(default_factory=dict)
    """Excluded conversations, with the reason."""

    def reason(self, document: Document) -> str:
        """Why a conversation is excluded; empty if it is not."""
        if document.kind != CONVERSATION:
            return ""
        parents = [(document.source, str(document.metadata.get(key))) for key in _PARENTS]
        reason = next((self._sessions[p] for p in parents if p in self._sessions), "")
        if document.project not in self._reasons:
            self._reasons[document.project] = self.matching_pattern(
                document.project
            ) or self._marker_file(document.project)
        reason = reason or self._reasons[document.project] or reason_of_marker(document.passages)
        if reason:
            self._sessions[document.source, document.source_id] = reason
        return reason

    def admit(self, document: Document) -> Document | Problem:
        """The document without its private spans, or why it is excluded."""
        if document.kind != CONVERSATION:  # the chunks of other kinds have fixed offsets
            return document
        reason = self.reason(document)
        if reason:
            return Problem(reason, document.title or document.source_id, unit="conversations")
        return without_private(document)

    def remember(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Sessions, as (source, source id), that were excluded before."""
        self._sessions |= dict.fromkeys(sessions, "excluded before")

    def matching_pattern(self, project: str) -> str:
        """Why a project is excluded by a pattern; empty if it is not."""
        is_windows = re.match(r"[A-Za-z]:\\", project)
        path: PurePath = PureWindowsPath(project) if is_windows else PurePosixPath(project)
        names = {project, str(path), path.name, *map(str, path.parents)}
        for pattern in self.patterns:
            if any(fnmatchcase(name, pattern) for name in names):
                return f"excluded by the pattern {pattern}"
        return ""

    def _marker_file(self, project: str) -> str:
        folder = Path(project)
        if not folder.is_absolute():
            return ""
        for parent in (folder, *folder.parents):
            for name in FILES:
                try:
                    if self.exists(parent / name):
                        return f"excluded by {parent / name}"
                except OSError:
                    continue
        return ""


def is_agent(place: str) -> bool:
    """Whether a file is the transcript of a sub-agent, judging by its path."""
    parts = ["", "", *place.replace("\\", "/").split("/")]
    grandparent, parent, name = parts[-3:]
    return name.startswith("agent-") or parent == "subagents" or grandparent == "chats"


def reason_of_marker(passages: Iterable[Passage]) -> str:
    for passage in passages:
        if passage.role in ("user", "system"):
            for marker in MARKERS:
                if marker in passage.content:
                    return f"excluded by the marker {marker}"
    return ""


# -- private spans -----------------------------------------------------------


def without_private(document: Document) -> Document:
    """The document with every private span replaced: in messages, title and metadata."""
    # Most documents have none: everything but the contents is searched at once.
    values = [document.title, document.metadata, *map(other_values, document.passages)]
    if not any(_OPEN in passage.content for passage in document.passages) and not has(values):
        return document
    title = without_private_text(document.title)
    if _OPEN in title:  # it is the start of a message, so it may contain a span without its end
        title = title[: title.index(_OPEN)] + PRIVATE
    passages = []
    for passage in document.passages:
        if _OPEN in passage.content or has(other_values(passage)):
            metadata, attachments, citations = map(clean, other_values(passage))
            passage = passage._replace(
                content=without_private_text(passage.content),
                metadata=metadata,
                attachments=attachments,
                citations=citations,
            )
        passages.append(passage)
    metadata = clean(document.metadata)
    return replace(document, title=title, metadata=metadata, passages=tuple(passages))


def other_values(passage: Passage) -> tuple[Any, ...]:
    return (passage.metadata, passage.attachments, passage.citations)


def without_private_text(text: str) -> str:
    while _OPEN in text:
        text, times = _SPAN.subn(PRIVATE, text)
        if not times:
            break
    return text


def without_private_json(line: bytes) -> bytes:
    """The same in the bytes of a JSON file, which stays valid JSON."""
    while b"private" in line:
        line, times = _SPAN_IN_JSON.subn(PRIVATE.encode(), line)
        if not times:
            break
    return line


def has(value: Any) -> bool:
    """Whether any text in a JSON value contains the mark. Writing it as JSON is the fastest way."""
    try:
        return _OPEN.encode() in orjson.dumps(value, dict)
    except orjson.JSONEncodeError:  # it contains what only Python can represent
        return is_in(value)


def is_in(value: Any) -> bool:
    if isinstance(value, str):
        return _OPEN in value
    if isinstance(value, Mapping):
        return any(is_in(item) or is_in(key) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(is_in, value))


def clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_private_text(value)
    if isinstance(value, Mapping):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(clean, value))
    return value


# -- exclude.txt -------------------------------------------------------------
#
# Patterns of projects that are never imported, one per line. Lines that start with # are comments.


def read_patterns(home: Path) -> list[str]:
    """The patterns in the order of the file; none if there is no file."""
    lines = [line.strip() for line in _lines(home)]
    return [line for line in lines if line and not line.startswith("#")]


def add_pattern(home: Path, pattern: str) -> None:
    """Add a pattern, unless the file has it. Raises InvalidInput."""
    pattern = validate_pattern(pattern)
    with _lock:
        if pattern not in read_patterns(home):
            write(home, [*_lines(home), pattern])


def remove_pattern(home: Path, pattern: str) -> None:
    """Remove a pattern. Comments and the order of the others stay as they are."""
    with _lock:
        lines = _lines(home)
        others = [line for line in lines if line.strip() != pattern.strip()]
        if others != lines:
            write(home, others)


def validate_pattern(pattern: str) -> str:
    pattern = pattern.strip()
    if not pattern:
        raise InvalidInput("Type a pattern first, such as ~/clients/* or secret-*.")
    if len(pattern) > _MAX_PATTERN or pattern != storable(pattern) or not pattern.isprintable():
        raise InvalidInput(f"A pattern is one line of at most {_MAX_PATTERN} characters.")
    if pattern.startswith("#"):
        raise InvalidInput("A pattern cannot start with #: such lines are comments.")
    return pattern


def _lines(home: Path) -> list[str]:
    try:
        return (home / EXCLUSIONS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def write(home: Path, lines: list[str]) -> None:
    """Replace the file in one step."""
    file = home / EXCLUSIONS
    if READ_ONLY.get():
        raise InvalidInput(f"{file} cannot be changed: RECOLLECT_READ_ONLY is on.")
    try:
        create_private_folder(home)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=home, prefix=".exclude-", delete=False
        ) as temporary:
            temporary.write("".join(f"{line}\n" for line in lines))
        os.replace(temporary.name, file)  # noqa: PTH105 - the same on every system
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from error
