"""Items as sequences of units: chunks, fields or messages. An answer has consecutive ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from recollect.importers.items import text_of
from recollect.knowledge.paths import ConversationPath
from recollect.knowledge.results import sender_of
from recollect.knowledge.retrieval import LARGEST_OFFSET, Retrieval
from recollect.language.chunking import CHUNK_TOKENS, chunks
from recollect.language.text import identifier, iso
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Json, Passage, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, PROMPT
from recollect.store.base import Store

_AT_ONCE = 32
"""How many messages are read at once."""


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


def units_of(store: Store, about: Summary, retrieval: Retrieval, audience: Audience) -> Units:
    """The units of an item, as a call asks for them. Raises NotFound if it names no message."""
    if about.kind == CONVERSATION:
        message = retrieval.loc.get("message_id")
        return Messages(store, about.id, message if isinstance(message, str) else None, audience)
    passages = read_passages(store, about, audience)
    if about.kind in (PROMPT, CHARACTER):
        return FieldChunks(passages)
    stored = StoredChunks(passages)
    if retrieval.mode in ("chunk", "chunk_with_siblings") and not retrieval.prefer_prechunked:
        return CustomChunks(stored, retrieval)
    return stored


def read_passages(store: Store, about: Summary, audience: Audience) -> list[Passage]:
    """The passages of an item as this audience reads them."""
    passages, _ = store.passage_page(about.id, 0, about.message_count)
    if audience is Audience.PERSON:
        return passages
    return [
        passage._replace(
            content=MASK,
            attachments=(),
            citations=(),
            metadata={n: passage.metadata[n] for n in ("start", "end") if n in passage.metadata},
        )
        if is_human_only(passage)
        else passage
        for passage in passages
    ]


class Messages(Units):
    """The messages on the canonical path of a conversation, or on one through a message.

    They are read when they are needed: a conversation may have very many.
    """

    def __init__(self, store: Store, id: str, message: str | None, audience: Audience) -> None:
        is_hiding = audience is Audience.AGENT_HIDDEN
        self._path = ConversationPath(store, id, message or None, without_human_only=is_hiding)
        self._masks = audience is Audience.AGENT_MASKED
        self._cache: dict[int, Passage] = {}

    def __len__(self) -> int:
        return len(self._path)

    def passage(self, number: int) -> Passage:
        if number not in self._cache:
            self._cache |= self._path.read(max(0, number - _AT_ONCE // 2), _AT_ONCE)
        return self._cache.get(number) or Passage("", None, "")  # it has just been deleted

    def text(self, number: int) -> str:
        passage = self.passage(number)
        content = MASK if self._masks and is_human_only(passage) else passage.content
        return f"{self.heading(number)}{content}\n"

    def heading(self, number: int) -> str:
        return f"{sender_of(self.passage(number))}: "

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        message, position = loc.get("message_id"), whole_number(loc.get("message_index"))
        number = None
        if isinstance(message, str) and message:
            number = self._path.number_of(message)
        elif position is not None:
            number = self._path.number_at(position)
        offset = whole_number(loc.get("approx_offset"))
        if number is None or offset is None:
            return None if number is None else Place(number)
        end = max(0, len(self.text(number)) - 1)
        return Place(number, min(offset + len(self.heading(number)), end))

    def identity(self, number: int) -> dict[str, Json]:
        passage = self.passage(number)
        return {
            "message_id": passage.id,
            "message_index": passage.position,
            "sender": sender_of(passage),
            "role": passage.role,
            "created_at": iso(passage.created_at),
        }


class StoredChunks(Units):
    """The chunks of a text as they are stored."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages

    def __len__(self) -> int:
        return len(self.passages)

    def passage(self, number: int) -> Passage:
        return self.passages[number]

    def text(self, number: int) -> str:
        return self.passages[number].content

    # -- places ---

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        offset, index = whole_number(loc.get("approx_offset")), whole_number(loc.get("chunk_index"))
        name = loc.get("chunk_uuid")
        if name:
            # Ids depend on the text, so a chunk with the id is the same as it was.
            for number, passage in enumerate(self.passages):
                if passage.id == identifier(str(name)):
                    is_moved = "chunk_index" in loc and index != number
                    return Place(number, None if is_moved else offset_in(passage, offset))
            place = self._find_position(loc)
            return place and place._replace(is_exact=False)
        if index is not None and index < len(self):
            return Place(index, offset_in(self.passages[index], offset))
        return self._find_position(loc)

    def _find_position(self, loc: Mapping[str, Json]) -> Place | None:
        """The place at an offset, a time or a number, whatever is there now."""
        offset, seconds = whole_number(loc.get("approx_offset")), loc.get("seconds")
        if offset is not None and self.passages:
            sizes = [len(passage.content) for passage in self.passages]
            starts = [0, *accumulate(sizes[:-1])]
            if start_of(self.passages[-1]) and self.passages[-1].type != "field":
                starts = list(map(start_of, self.passages))  # a mask is shorter than its text
            number = bisect_right(starts, offset) - 1
            return Place(number, min(offset - starts[number], max(0, sizes[number] - 1)))
        if isinstance(seconds, (int, float)):
            return self._find_seconds(float(seconds))
        index = whole_number(loc.get("chunk_index"))
        return Place(index) if index is not None and index < len(self) else None

    def _find_seconds(self, seconds: float) -> Place | None:
        """The place of what is said at a time."""
        place = None
        for number, passage in enumerate(self.passages):
            times = passage.metadata.get("cues") or []
            if not times or times[0][1] > seconds:
                break
            cue = bisect_right(times, seconds, key=lambda time: time[1]) - 1
            place = Place(number, times[max(cue, 0)][0])
        return place

    def text_page(self, offset: int, room: int) -> tuple[str, int]:
        """The `room` characters from an offset, and the length of the whole text."""
        text = ""
        for number in range(len(self)):
            part, passage = self.text(number), self.passages[number]
            end = whole_number(passage.metadata.get("end"))
            if part == MASK and end is not None:  # as long as the text that it hides
                part = part.ljust(end - len(text))[: max(0, end - len(text))]
            text += part
        return text[offset : offset + room], len(text)


class FieldChunks(StoredChunks):
    """The fields of a character or prompt. The text of each starts with its name."""

    def heading(self, number: int) -> str:
        role = self.passages[number].role
        is_continued = number > 0 and self.passages[number - 1].role == role
        return "" if is_continued else f"{role}: "

    def text(self, number: int) -> str:
        passage = self.passages[number]
        is_last = number + 1 == len(self) or self.passages[number + 1].role != passage.role
        return self.heading(number) + passage.content + ("\n" if is_last else "")

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        place = super().find(loc)
        if place is None or place.offset is None:
            return place
        return place._replace(offset=place.offset + len(self.heading(place.unit)))

    def _find_position(self, loc: Mapping[str, Json]) -> Place | None:
        """The place in a field. Without a field, an offset counts from the first field on."""
        name = loc.get("field")
        if not isinstance(name, str):
            return super()._find_position(loc)
        offset = whole_number(loc.get("approx_offset"))
        place = None
        for number, passage in enumerate(self.passages):
            if passage.role == name:
                place = Place(number, offset_in(passage, offset))
                if (offset or 0) < start_of(passage) + len(passage.content):
                    break
        return place

    def identity(self, number: int) -> dict[str, Json]:
        return {"field": self.passages[number].role} | super().identity(number)


class CustomChunks(Units):
    """A text in chunks of another size than it is stored in. They may overlap."""

    def __init__(self, stored: StoredChunks, retrieval: Retrieval) -> None:
        self._stored = stored
        self._passages = stored.passages
        self._starts = [0, *accumulate(len(passage.content) for passage in self._passages)]
        self._text = text_of(self._passages)
        self._chunks = chunks(
            self._text,
            retrieval.chunk_size_tokens or CHUNK_TOKENS,
            retrieval.chunk_overlap_tokens,
            retrieval.chars_per_token,
        )

    def __len__(self) -> int:
        return len(self._chunks)

    def passage(self, number: int) -> Passage:
        return self.locate(number, 0)[0]

    def text(self, number: int) -> str:
        return self.render(number, number)

    def render(self, first: int, last: int) -> str:
        return self._text[self._chunks[first].start : self._chunks[last].end]

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        place = self._stored.find(loc)
        if place is None:
            return None
        offset = self._starts[place.unit] + (place.offset or 0)
        number = max(0, bisect_right(self._chunks, offset, key=lambda chunk: chunk.start) - 1)
        return Place(number, offset - self._chunks[number].start, place.is_exact)

    def locate(self, number: int, offset: int) -> tuple[Passage, int]:
        position = self._chunks[number].start + offset
        index = min(bisect_right(self._starts, position), len(self._passages)) - 1
        return self._passages[index], position - self._starts[index]

    def parts(self, first: int, last: int) -> list[dict[str, Json]]:
        begin = self._chunks[first].start
        return [
            {"chunk_index": number, "start": chunk.start - begin, "end": chunk.end - begin}
            for number, chunk in enumerate(self._chunks[first : last + 1], first)
        ]


def whole_number(value: Json) -> int | None:
    """A number as clients send it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < LARGEST_OFFSET else None


def start_of(passage: Passage) -> int:
    """The offset of a passage in its text."""
    return whole_number(passage.metadata.get("start")) or 0


def offset_in(passage: Passage, offset: int | None) -> int | None:
    """An offset in the text as an offset in the passage; None if it is not in the passage."""
    if offset is None:
        return None
    offset -= start_of(passage)
    return offset if 0 <= offset < max(1, len(passage.content)) else None
