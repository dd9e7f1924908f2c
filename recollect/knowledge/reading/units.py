"""Units: an item as a sequence of chunks, fields or messages. An answer has consecutive ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from recollect.knowledge.retrieval import LARGEST_OFFSET
from recollect.model.documents import Json, Passage

PASSAGES_AT_ONCE = 32
"""How many passages are read at once."""


class Place(NamedTuple):
    """A place in an item."""

    unit: int
    offset: int | None = None
    """The offset in the text of the unit; None if only the unit is known."""
    is_exact: bool = True
    """False if the passage that a location names is gone, and this is the text in its place."""


class Units(ABC):
    """An item as a sequence of units."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def passage(self, number: int) -> Passage:
        """The passage of a unit, or the one that it begins in."""

    @abstractmethod
    def text(self, number: int) -> str: ...

    @abstractmethod
    def find(self, loc: Mapping[str, Json]) -> Place | None:
        """The place that a location names; None if it names none in this item."""

    def heading(self, number: int) -> str:
        """The text of a unit before that of its passage."""
        return ""

    def locate(self, number: int, offset: int) -> tuple[Passage, int]:
        """The passage at an offset in a unit, and the offset in that passage."""
        return self.passage(number), max(0, offset - len(self.heading(number)))

    def added_length(self, first: int, last: int, number: int) -> int:
        """The characters that a unit next to consecutive units adds to them."""
        return len(self.text(number))

    def render(self, first: int, last: int) -> str:
        """The text of consecutive units."""
        return "".join(self.text(number) for number in range(first, last + 1))

    def parts(self, first: int, last: int) -> list[dict[str, Json]]:
        """The identity of consecutive units, each with its start and end in the text."""
        parts, start = [], 0
        for number in range(first, last + 1):
            end = start + len(self.text(number))
            parts.append(self.identity(number) | {"start": start, "end": end})
            start = end
        return parts

    def identity(self, number: int) -> dict[str, Json]:
        return {"chunk_index": number, "chunk_uuid": self.passage(number).id}


def whole_number(value: Json) -> int | None:
    """A number as clients send it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value < LARGEST_OFFSET:
        return None
    return int(value)
