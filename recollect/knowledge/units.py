"""Items as sequences of units: chunks, fields or messages. An answer has consecutive ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.importers.items import text_of
from recollect.knowledge.paths import ConversationPath
from recollect.knowledge.results import sender_of
from recollect.knowledge.retrieval import LARGEST_OFFSET, Retrieval
from recollect.language.chunking import CHUNK_TOKENS, chunks
from recollect.language.text import iso
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Json, Passage, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, PROMPT
from recollect.store.base import Store

_AT_ONCE = 32
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
    if about.kind in (PROMPT, CHARACTER):
        return FieldChunks(store, about.id, about.message_count, audience)
    stored = StoredChunks(store, about.id, about.message_count, audience)
    if retrieval.mode in ("chunk", "chunk_with_siblings") and not retrieval.prefer_prechunked:
        return CustomChunks(stored, retrieval)
    return stored


class Messages(Units):
    """The messages on the canonical path of a conversation, or on one through a message."""

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
    """The chunks of a text as they are stored, read when they are needed."""

    def __init__(self, store: Store, document: str, size: int, audience: Audience) -> None:
        self._store = store
        self._document = document
        self._size = size
        self._masks = audience is not Audience.PERSON
        self._cache: dict[int, Passage] = {}

    def __len__(self) -> int:
        return self._size

    def passage(self, number: int) -> Passage:
        if number not in self._cache:
            start = max(0, number - _AT_ONCE // 2)
            self._cache |= {p.position: p for p in self._read(start, _AT_ONCE)}
        return self._cache[number]

    def passages(self) -> Iterator[Passage]:
        """All passages in order."""
        for start in range(0, self._size, 8 * _AT_ONCE):
            yield from self._read(start, 8 * _AT_ONCE)

    def _read(self, start: int, count: int) -> list[Passage]:
        passages, _ = self._store.passage_page(self._document, start, count)
        return [self._mask(passage) for passage in passages]

    def _mask(self, passage: Passage) -> Passage:
        if not self._masks or not is_human_only(passage):
            return passage
        metadata = {n: passage.metadata[n] for n in ("start", "end") if n in passage.metadata}
        return passage._replace(content=MASK, attachments=(), citations=(), metadata=metadata)

    def text(self, number: int) -> str:
        return self.passage(number).content

    # -- places ---

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        if loc.get("chunk_uuid"):
            place = self._find_id(loc)
            if place is None:
                place = self._find_position(loc)
                place = place and place._replace(is_exact=False)
            return place
        number = whole_number(loc.get("chunk_index"))
        if number is not None and number < len(self):
            offset = whole_number(loc.get("approx_offset"))
            return Place(number, offset_in(self.passage(number), offset))
        return self._find_position(loc)

    def _find_id(self, loc: Mapping[str, Json]) -> Place | None:
        """The chunk with an id. Ids depend on the text, so the chunk is the same as it was."""
        with suppress(NotFound):
            key = self._store.passage_key(self._document, str(loc["chunk_uuid"]))
            for _, passage in self._store.passages_by_key([key]).values():
                offset = None
                if whole_number(loc.get("chunk_index", passage.position)) == passage.position:
                    offset = offset_in(passage, whole_number(loc.get("approx_offset")))
                return Place(passage.position, offset)
        return None

    def _find_position(self, loc: Mapping[str, Json]) -> Place | None:
        """The place at an offset, a time or a number, whatever is there now."""
        offset, seconds = whole_number(loc.get("approx_offset")), loc.get("seconds")
        if offset is not None:
            return self._find_offset(offset)
        if isinstance(seconds, (int, float)):
            return self._find_seconds(float(seconds))
        number = whole_number(loc.get("chunk_index"))
        return Place(number) if number is not None and number < len(self) else None

    def _find_offset(self, offset: int) -> Place | None:
        """The place of a character of the text; the last one if the text is shorter."""
        place = None
        first, start = self._chunk_at(offset)
        for number in range(first, len(self)):
            length = len(self.passage(number).content)
            place = Place(number, min(offset - start, max(0, length - 1)))
            start += length
            if offset < start:
                break
        return place

    def _find_seconds(self, seconds: float) -> Place | None:
        """The place of what is said at a time."""
        place = None
        for passage in self.passages():
            times = passage.metadata.get("cues") or []
            if not times or times[0][1] > seconds:
                break
            cue = bisect_right(times, seconds, key=lambda time: time[1]) - 1
            place = Place(passage.position, times[max(cue, 0)][0])
        return place

    # -- pages of the text ---

    def text_page(self, offset: int, room: int) -> tuple[str, int]:
        """The `room` characters from an offset, and the length of the whole text."""
        parts: list[str] = []
        length = self._length
        number, start = self._chunk_at(offset)
        while number < len(self) and (length is None or start < offset + room):
            text = self.text(number)
            if length is not None and text == MASK:  # as long as the text that it hides
                size = self.passage(number).metadata.get("end", start) - start
                text = text.ljust(size)[: max(0, size)]
            parts.append(text[max(0, offset - start) : max(0, offset + room - start)])
            start += len(text)
            number += 1
        return "".join(parts), start if length is None else length

    @property
    def _length(self) -> int | None:
        """The length of the text; None if the chunks do not tell where in it they start."""
        last = max(0, len(self) - 1)
        if last and not self._start(last):
            return None
        passages, _ = self._store.passage_page(self._document, last, 1)
        return self._start(last) + len(text_of(passages))

    def _chunk_at(self, offset: int) -> tuple[int, int]:
        """A chunk at or before an offset in the text, and where it starts."""
        if self._length is None:
            return 0, 0
        number = bisect_right(range(1, len(self)), offset, key=self._start)
        return number, self._start(number) if number else 0

    def _start(self, number: int) -> int:
        passages, _ = self._store.passage_page(self._document, number, 1)
        return start_of(passages[0]) if passages else 0


class FieldChunks(StoredChunks):
    """The fields of a character or prompt. The text of each starts with its name."""

    _length = None  # each field starts at 0

    def heading(self, number: int) -> str:
        role = self.passage(number).role
        is_continued = number > 0 and self.passage(number - 1).role == role
        return "" if is_continued else f"{role}: "

    def text(self, number: int) -> str:
        passage = self.passage(number)
        is_last = number + 1 == len(self) or self.passage(number + 1).role != passage.role
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
        for passage in self.passages():
            if passage.role == name:
                place = Place(passage.position, offset_in(passage, offset))
                if (offset or 0) < start_of(passage) + len(passage.content):
                    break
        return place

    def identity(self, number: int) -> dict[str, Json]:
        return {"field": self.passage(number).role} | super().identity(number)


class CustomChunks(Units):
    """A text in chunks of another size than it is stored in. They may overlap."""

    def __init__(self, stored: StoredChunks, retrieval: Retrieval) -> None:
        self._stored = stored
        self._passages = list(stored.passages())
        self._starts = [0]
        for passage in self._passages:
            self._starts.append(self._starts[-1] + len(passage.content))
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
        index = bisect_right(self._starts, self._chunks[number].start) - 1
        return self._passages[min(max(0, index), len(self._passages) - 1)]

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
