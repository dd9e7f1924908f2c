"""Excerpts: as much of an item as an answer has room for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from recollect.importers.items import fields_of
from recollect.knowledge.reading.chunk_units import FieldChunks, StoredChunks
from recollect.knowledge.reading.message_units import MessageUnits
from recollect.knowledge.reading.units import Units
from recollect.knowledge.retrieval import LONGEST_ANSWER, Retrieval
from recollect.language.chunking import count_tokens
from recollect.model.documents import Json

LEAST_TEXT = 40
"""An answer has so many characters of the text, or all that the budget has, also without room for
its description of the item."""
_LARGEST_POSITION = 1_000_000_000


def json_length(value: Any) -> int:
    """The length of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


class Budget:
    """How many characters the text of an answer may have.

    In Python, `max_tokens` is for the text. With an `answer`, it is for the whole answer as JSON:
    its description of the item and of each unit count, and the text counts with its escapes.
    """

    def __init__(
        self, retrieval: Retrieval, answer: Mapping[str, Json] | None = None, copies: int = 1
    ) -> None:
        """`copies`: how often the answer contains the text."""
        self._is_json = answer is not None and retrieval.has_budget
        self._overheads: dict[int, int] = {}
        self.room: float = inf
        if retrieval.mode == "full":
            self.room = LONGEST_ANSWER
        if retrieval.has_budget:
            self.room = min(self.room, int(retrieval.budget * retrieval.chars_per_token))
        if answer is not None and retrieval.has_budget:
            least = min(self.room, LEAST_TEXT)
            self.room = max(least, (self.room - json_length(answer)) // copies)

    def text_length(self, text: str) -> int:
        """The characters that a text takes in the answer."""
        if self._is_json:
            return json_length(text) - 2
        return len(text)

    def unit_length(self, units: Units, number: int) -> int:
        """The characters that a unit takes in the answer."""
        return len(units.text(number)) + self._overhead(units, number)

    def added_length(self, units: Units, first: int, last: int, number: int) -> int:
        """The characters that a unit next to consecutive units adds to the answer."""
        return units.added_length(first, last, number) + self._overhead(units, number)

    def description_length(self, description: Mapping[str, Json]) -> int:
        """The characters that the description of a unit takes in the answer."""
        if not self._is_json:
            return 0
        positions = {"start": _LARGEST_POSITION, "end": _LARGEST_POSITION}
        return json_length({**description, **positions}) + len(", ")

    def _overhead(self, units: Units, number: int) -> int:
        """What a unit takes in addition to its text."""
        if not self._is_json:
            return 0
        if number not in self._overheads:
            text = units.text(number)
            description = self.description_length(units.identity(number))
            self._overheads[number] = self.text_length(text) - len(text) + description
        return self._overheads[number]

    def cut(self, text: str, offset: int, room: float) -> str:
        """The part of a text around an offset that fits, or else one character."""
        if self.text_length(text) <= room:
            return text
        size = int(room)
        while True:
            start = max(0, min(offset - size // 2, len(text) - size))
            part = text[start : start + size]
            length = self.text_length(part)
            if length <= room or size <= 1:
                return part
            size = min(size - 1, int(size * room / length))


# -- snippets ----------------------------------------------------------------


def fit_snippet(
    answer: dict[str, Json], retrieval: Retrieval, make_snippet: Callable[[int], str]
) -> dict[str, Json]:
    """The answer with a snippet of a length that fits. The answer contains it twice."""
    meta = answer["meta"]
    text = meta["snippet"] or ""
    empty = {**answer, "meta": {**meta, "snippet": ""}, "content": ""}
    budget = Budget(retrieval, empty, copies=2)
    length = len(budget.cut(text, 0, budget.room))
    while budget.text_length(text) > budget.room:
        text = make_snippet(length)
        length -= 1
    return {**answer, "meta": {**meta, "snippet": text}, "content": text}


# -- chunks ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of consecutive units, and which units they are."""

    text: str
    units: list[dict[str, Json]] | None


def units_around(
    units: Units,
    anchor: int,
    offset: int,
    retrieval: Retrieval,
    answer: Mapping[str, Json] | None,
) -> Excerpt:
    """The unit at the anchor, and its siblings if they are requested and fit the budget.

    With an `answer`, the budget is for that answer with this content.
    """
    budget = Budget(retrieval, answer)
    if not len(units):
        return Excerpt("", None)
    if budget.unit_length(units, anchor) > budget.room:
        return _part_of_unit(units, anchor, offset, budget)
    first = last = anchor
    if retrieval.mode == "chunk_with_siblings":
        first, last = _extend(units, anchor, retrieval, budget)
    return Excerpt(units.render(first, last), units.parts(first, last))


def _extend(units: Units, anchor: int, retrieval: Retrieval, budget: Budget) -> tuple[int, int]:
    """Add siblings after and before the anchor, in turn, as budget and window allow."""
    first = last = anchor
    window = retrieval.window
    if window is None:
        window = len(units)
    length = budget.unit_length(units, anchor)
    can_add_after = can_add_before = True
    while can_add_after or can_add_before:
        if can_add_after:
            can_add_after = last + 1 < len(units) and last - anchor < window
        if can_add_after:
            added = budget.added_length(units, first, last, last + 1)
            can_add_after = length + added <= budget.room
            length += added * can_add_after
            last += can_add_after
        if can_add_before:
            can_add_before = first > 0 and anchor - first < window
        if can_add_before:
            added = budget.added_length(units, first, last, first - 1)
            can_add_before = length + added <= budget.room
            length += added * can_add_before
            first -= can_add_before
    return first, last


def _part_of_unit(units: Units, number: int, offset: int, budget: Budget) -> Excerpt:
    """A part of one unit, with the offset in its middle.

    If there is hardly room for the text, the description of the unit is left out.
    """
    text = units.text(number)
    description = {**units.identity(number), "cut": True}
    room = budget.room - budget.description_length(description)
    if room < min(LEAST_TEXT, budget.text_length(text)) and room < budget.room:
        return Excerpt(budget.cut(text, offset, budget.room), None)
    part = budget.cut(text, offset, room)
    return Excerpt(part, [units.identity(number) | {"start": 0, "end": len(part), "cut": True}])


# -- complete items ----------------------------------------------------------


def full_text(
    units: StoredChunks, retrieval: Retrieval, answer: Mapping[str, Json] | None
) -> dict[str, Json]:
    """The fields of a character or prompt, or the text of an item, or a page of it if it is long.

    With an `answer`, the budget is for that answer with this content.
    """
    is_whole = not retrieval.offset and retrieval.max_tokens is None
    if isinstance(units, FieldChunks) and is_whole:
        fields = fields_of(units.passages())
        if sum(map(len, fields.values())) <= LONGEST_ANSWER:
            return {"content": fields}
    page: dict[str, Json] = {
        "offset": retrieval.offset,
        "total": _LARGEST_POSITION,
        "total_tokens": _LARGEST_POSITION,
        "next_offset": _LARGEST_POSITION,
    }
    if answer is not None:
        answer = {**answer, "page": page}
    budget = Budget(retrieval, answer)
    text, total = units.text_page(retrieval.offset, int(budget.room))
    text = budget.cut(text, 0, budget.room)
    end = retrieval.offset + len(text)
    page["total"] = total
    page["total_tokens"] = count_tokens(total, retrieval.chars_per_token)
    page["next_offset"] = None
    if text and end < total:
        page["next_offset"] = end
    return {"content": text, "page": page}


def first_message(retrieval: Retrieval, page: int, size: int) -> int:
    """The number of the first message on a page, or the one that an offset names."""
    if retrieval.mode == "full" and retrieval.offset:
        return retrieval.offset
    return (page - 1) * size


def message_page(
    units: MessageUnits,
    retrieval: Retrieval,
    answer: Mapping[str, Json] | None,
    page: int,
    size: int,
) -> dict[str, Json]:
    """A page of messages, or as many of them as fit. An offset in `retrieval` replaces `page`.

    With an `answer`, the budget is for that answer with this content.
    """
    start = min(first_message(retrieval, page, size), len(units))
    if retrieval.offset:
        page = start // size + 1
    end = min(start + size, len(units))
    next_page = None
    if end < len(units):
        next_page = page + 1
    about_page: dict[str, Json] = {
        "page": page,
        "page_size": size,
        "total": len(units),
        "next_page": next_page,
        "next_offset": _LARGEST_POSITION,
        "truncated": False,
    }
    if answer is not None:
        answer = {**answer, "page": about_page}
    excerpt, count = _messages_from(units, start, end, Budget(retrieval, answer))
    about_page["truncated"] = start + count < end
    about_page["next_offset"] = None
    next_message = start + max(count, 1)  # a message that is too long was cut
    if next_message < len(units):
        about_page["next_offset"] = next_message
    return {"content": excerpt.text, "attachments": excerpt.units, "page": about_page}


def _messages_from(
    units: MessageUnits, start: int, end: int, budget: Budget
) -> tuple[Excerpt, int]:
    """As many messages as fit, and their number; part of the first if not even that one fits."""
    if start == end:
        return Excerpt("", []), 0
    count = 0
    length = budget.unit_length(units, start)
    while length <= budget.room:
        count += 1
        if start + count == end:
            break
        length += budget.unit_length(units, start + count)
    if count == 0:
        return _part_of_unit(units, start, 0, budget), 0
    last = start + count - 1
    return Excerpt(units.render(start, last), units.parts(start, last)), count
