"""Scans of a whole conversation: find a text in it, and list its questions.

A scan reads a limited number of messages and says where to continue, so no request takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.language.text import storable
from recollect.library import Library
from recollect.model.documents import Json, Passage
from recollect.model.labels import first_words
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import is_masked, mask_passage

MAX_TEXT = 200
"""Characters of a text to find. Longer texts are cut."""
_SCAN_MESSAGES = 20_000  # per request
_SCAN_CHARS = 20_000_000  # per request
_MARKS = "*_~`"
_BETWEEN_WORDS = (
    rf"[\s{_MARKS}]++"  # between two words: what Markdown shows as a space, or not at all
)


class Scan(NamedTuple):
    """What a scan has found, and the index at which the next one continues."""

    entries: list[Json]
    next_start: int | None

    def as_json(self) -> dict[str, Json]:
        return {"entries": self.entries, "next": self.next_start}


def find_in_conversation(
    library: Library,
    principal: Principal,
    conversation_id: str,
    text: str,
    *,
    through: str = "",
    start: int = 0,
) -> Scan:
    """The indexes of the messages that contain a text. Case does not matter."""
    pattern = text_pattern(text)
    if pattern is None:
        return Scan([], None)
    messages = _Messages(library, conversation_id, through, start)
    entries = []
    for index, passage in messages:
        content = mask_passage(passage, principal.audience).content
        if pattern.search(content):
            entries.append(index)
    return Scan(entries, messages.next_start)


def list_questions(
    library: Library,
    principal: Principal,
    conversation_id: str,
    *,
    through: str = "",
    start: int = 0,
) -> Scan:
    """The messages of people, each as its index and its first words."""
    messages = _Messages(library, conversation_id, through, start)
    entries = [
        [index, first_words(passage.content)]
        for index, passage in messages
        if is_question(passage) and not is_masked(passage, principal.audience)
    ]
    return Scan(entries, messages.next_start)


def is_question(passage: Passage) -> bool:
    """Whether a person wrote this message to the assistant."""
    is_visible_message = passage.type == "message" and passage.visibility != "hidden"
    return is_visible_message and passage.role == "user" and bool(passage.content.strip())


def text_pattern(text: str) -> re.Pattern[str] | None:
    """A pattern that finds a text as the page shows it: between words, Markdown does not count."""
    text = storable(text[:MAX_TEXT]).strip()
    if not text:
        return None
    words = [word for part in text.split() if (word := part.strip(_MARKS))] or [text]
    return re.compile(_BETWEEN_WORDS.join(map(re.escape, words)), re.IGNORECASE)


class _Messages:
    """Messages of a path, until the limit of a scan. Then `next_start` says where to continue."""

    def __init__(self, library: Library, id: str, through: str, start: int) -> None:
        self._path = library.read_path(id, through or None, start)
        self._start = start
        self.next_start: int | None = None

    def __iter__(self) -> Iterator[tuple[int, Passage]]:
        chars = 0
        for index, passage in self._path:
            if index - self._start >= _SCAN_MESSAGES or chars > _SCAN_CHARS:
                self.next_start = index
                return
            chars += len(passage.content)
            yield index, passage
