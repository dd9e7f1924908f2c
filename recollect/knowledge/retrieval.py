"""Retrieval: returning a snippet, a chunk, a chunk with its siblings, or all of an item.

An item is a sequence of units: chunks as they are stored, chunks of another size, the fields of a
character or prompt, or the messages of a conversation. An answer consists of consecutive units (see
`excerpts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from recollect.errors import InvalidInput, NotFound
from recollect.importers.items import text_of
from recollect.knowledge.branches import missing_message, path_through
from recollect.knowledge.preferences import DEFAULTS, clamp, preference
from recollect.knowledge.results import sender_of
from recollect.language.chunking import CHUNK_TOKENS, chunks, count_tokens
from recollect.language.text import identifier, iso, truncate
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Json, Passage, Position, Summary
from recollect.store.base import Store

MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
LONGEST_ANSWER = 100_000
"""The most characters in one answer with mode "full"; the rest is on the next page."""
LARGEST_CHUNK = 8_000
LARGEST_OFFSET = 1_000_000_000
_PASSAGES_AT_ONCE = 32


class Place(NamedTuple):
    """A place in an item."""

    unit: int
    offset: int | None = None
    """The offset in the text of the unit; None if only the unit is known."""
    is_exact: bool = True
    """False if the passage that a location names is gone, and this is the text in its place."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How much of an item to return, and from where."""

    mode: str = "snippet"
    snippet_length: int = int(DEFAULTS["snippet_length"])
    max_tokens: int | None = None
    chars_per_token: float = float(DEFAULTS["chars_per_token"])
    chunk_size_tokens: int | None = None
    chunk_overlap_tokens: int = 0
    sibling_window: int | None = None
    """Chunks on each side. None: as many as the budget allows, or one if there is no budget."""
    prefer_prechunked: bool = True
    loc: Mapping[str, Json] = field(default_factory=dict)
    """The location to return, from a result."""
    query: str = ""
    """What to search for in the item, if there is no `loc`."""
    offset: int = 0
    """With mode "full": the first character to return."""

    @property
    def budget(self) -> int:
        if self.max_tokens is None:
            return int(DEFAULTS["max_tokens"])
        return self.max_tokens

    @property
    def has_place(self) -> bool:
        """Whether `loc` names a place, and not only an item, as for a conversation's title."""
        return not self.loc.keys() <= {"conversation_id", "media_id"}

    @property
    def has_budget(self) -> bool:
        return self.mode == "chunk_with_siblings" or self.max_tokens is not None

    @property
    def window(self) -> int | None:
        if self.sibling_window is None and self.max_tokens is None:
            return int(DEFAULTS["sibling_window"])
        return self.sibling_window

    def tokens_in(self, characters: int) -> int:
        return count_tokens(characters, self.chars_per_token)


_OPTIONS = frozenset(Retrieval.__dataclass_fields__)


def parse_retrieval(
    options: Mapping[str, Any] | None, config: Mapping[str, Any], default_mode: str = "snippet"
) -> Retrieval:
    """The `retrieval` of a call: its own options, then those of its session, then the defaults.

    Numbers are clamped. Raises InvalidInput if an option is unknown or not valid.
    """
    values = {name: value for name, value in (options or {}).items() if value is not None}
    unknown = sorted(values.keys() - _OPTIONS)
    if unknown:
        raise InvalidInput(f"retrieval: there is no {truncate(unknown[0], 80)!r}.")
    mode = values.get("mode", default_mode)
    if mode not in MODES:
        raise InvalidInput(
            f"retrieval.mode: {truncate(str(mode), 80)!r} is not one of {', '.join(MODES)}."
        )
    loc, query = values.get("loc", {}), values.get("query", "")
    if not isinstance(loc, Mapping) or not isinstance(query, str):
        raise InvalidInput("retrieval: loc must be an object, and query a text.")
    size = _parse_number(values, "chunk_size_tokens", 1, LARGEST_CHUNK)
    overlap = _parse_number(values, "chunk_overlap_tokens", 0, LARGEST_CHUNK)
    prefer_prechunked = values.get("prefer_prechunked", size is None and overlap is None)
    if not isinstance(prefer_prechunked, bool):
        raise InvalidInput("retrieval.prefer_prechunked must be true or false.")
    max_tokens = _optional_preference(values, "max_tokens", config)
    if mode == "auto" and max_tokens is None:
        mode = "snippet"
    elif mode == "auto":
        mode = "chunk_with_siblings"
    return Retrieval(
        mode=mode,
        snippet_length=preference("snippet_length", values.get("snippet_length"), config),
        max_tokens=max_tokens,
        chars_per_token=preference("chars_per_token", values.get("chars_per_token"), config),
        chunk_size_tokens=size,
        chunk_overlap_tokens=overlap or 0,
        sibling_window=_optional_preference(values, "sibling_window", config),
        prefer_prechunked=prefer_prechunked,
        loc=dict(loc),
        query=query,
        offset=_parse_number(values, "offset", 0, LARGEST_OFFSET) or 0,
    )


def _optional_preference(
    values: Mapping[str, Any], name: str, config: Mapping[str, Any]
) -> int | None:
    """A preference without its default: None unless the call or its session has one."""
    if name not in values:
        return config.get(name)
    value: int | None = clamp(name, values[name])
    if value is None:
        raise _not_a_number(name, values[name])
    if name == "max_tokens" and float(values[name]) < 1:
        raise InvalidInput("retrieval.max_tokens: use 1 or more.")
    return value


def _parse_number(values: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN is not equal to itself
        raise _not_a_number(name, value)
    return int(min(max(value, least), most))


def _not_a_number(name: str, value: Any) -> InvalidInput:
    return InvalidInput(f"retrieval.{name}: {truncate(str(value), 80)!r} is not a number.")


# -- units -------------------------------------------------------------------


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
        """What the text of a unit has before that of its passage."""
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
            start = max(0, number - _PASSAGES_AT_ONCE // 2)
            passages, _ = self._store.passage_page(self._document, start, _PASSAGES_AT_ONCE)
            self._cache |= {passage.position: self._mask(passage) for passage in passages}
        return self._cache[number]

    def text(self, number: int) -> str:
        return self.passage(number).content

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        if loc.get("chunk_uuid"):
            place = self._find_id(loc)
            if place is not None:
                return place
            place = self._find_position(loc)
            if place is not None:
                place = place._replace(is_exact=False)
            return place
        number = _whole_number(loc.get("chunk_index"))
        if number is not None and number < len(self):
            offset = _whole_number(loc.get("approx_offset"))
            return Place(number, _offset_in(self.passage(number), offset))
        return self._find_position(loc)

    def _find_position(self, loc: Mapping[str, Json]) -> Place | None:
        """The place at an offset, a time or a number, whatever is there now."""
        offset = _whole_number(loc.get("approx_offset"))
        if offset is not None:
            return self._find_offset(offset)
        seconds = loc.get("seconds")
        if isinstance(seconds, (int, float)):
            return self._find_seconds(float(seconds))
        number = _whole_number(loc.get("chunk_index"))
        if number is not None and number < len(self):
            return Place(number)
        return None

    def passages(self) -> Iterator[Passage]:
        """All passages in order."""
        size = _PASSAGES_AT_ONCE * 8
        for start in range(0, self._size, size):
            passages, _ = self._store.passage_page(self._document, start, size)
            yield from map(self._mask, passages)

    def _mask(self, passage: Passage) -> Passage:
        if not self._masks or not is_human_only(passage):
            return passage
        metadata = {
            name: passage.metadata[name] for name in ("start", "end") if name in passage.metadata
        }
        return passage._replace(content=MASK, attachments=(), citations=(), metadata=metadata)

    def _find_id(self, loc: Mapping[str, Json]) -> Place | None:
        """The chunk with an id. Ids depend on the text, so the chunk is the same as it was."""
        with suppress(NotFound):
            key = self._store.passage_key(self._document, str(loc["chunk_uuid"]))
            for _, passage in self._store.passages_by_key([key]).values():
                offset = None
                if _whole_number(loc.get("chunk_index", passage.position)) == passage.position:
                    offset = _offset_in(passage, _whole_number(loc.get("approx_offset")))
                return Place(passage.position, offset)
        return None

    def _find_offset(self, offset: int) -> Place | None:
        """The place of a character of the text; the last one if the text is shorter."""
        start, last = 0, None
        for passage in self.passages():
            if offset < start + len(passage.content):
                return Place(passage.position, offset - start)
            start += len(passage.content)
            last = passage
        if last is None:
            return None
        return Place(last.position, max(0, len(last.content) - 1))

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


class FieldChunks(StoredChunks):
    """The fields of a character or prompt. The text of each starts with its name."""

    def heading(self, number: int) -> str:
        role = self.passage(number).role
        if number > 0 and self.passage(number - 1).role == role:
            return ""
        return f"{role}: "

    def text(self, number: int) -> str:
        passage = self.passage(number)
        text = self.heading(number) + passage.content
        if number + 1 == len(self) or self.passage(number + 1).role != passage.role:
            text += "\n"
        return text

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
        offset = _whole_number(loc.get("approx_offset"))
        place = None
        for passage in self.passages():
            if passage.role != name:
                continue
            place = Place(passage.position, _offset_in(passage, offset))
            if (offset or 0) < _start_of(passage) + len(passage.content):
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

    def added_length(self, first: int, last: int, number: int) -> int:
        if number > last:
            return self._chunks[number].end - self._chunks[last].end
        return self._chunks[first].start - self._chunks[number].start

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


class MessageUnits(Units):
    """The messages on one path through a conversation."""

    def __init__(self, store: Store, document: str, audience: Audience) -> None:
        self._store = store
        self._document = document
        self._masks = audience is Audience.AGENT_MASKED

    def text(self, number: int) -> str:
        passage = self.passage(number)
        content = passage.content
        if self._masks and is_human_only(passage):
            content = MASK
        return f"{self.heading(number)}{content}\n"

    def heading(self, number: int) -> str:
        return f"{sender_of(self.passage(number))}: "

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        message = loc.get("message_id")
        if isinstance(message, str) and message:
            number = self._number_of(message)
        else:
            number = self._number_at(_whole_number(loc.get("message_index")))
        if number is None:
            return None
        offset = _whole_number(loc.get("approx_offset"))
        if offset is None:
            return Place(number)
        end = max(0, len(self.text(number)) - 1)
        return Place(number, min(offset + len(self.heading(number)), end))

    @abstractmethod
    def _number_of(self, message: str) -> int | None:
        """The number of a message, by its id."""

    @abstractmethod
    def _number_at(self, position: int | None) -> int | None:
        """The number of the first message at or after a position in the conversation."""

    def identity(self, number: int) -> dict[str, Json]:
        passage = self.passage(number)
        return {
            "message_id": passage.id,
            "message_index": passage.position,
            "sender": sender_of(passage),
            "role": passage.role,
            "created_at": iso(passage.created_at),
        }


class LinearMessages(MessageUnits):
    """The messages of a conversation without branches, read when they are needed."""

    def __init__(
        self, store: Store, about: Summary, message: str | None, audience: Audience
    ) -> None:
        """Raises NotFound if there is no such message."""
        super().__init__(store, about.id, audience)
        self._size = about.message_count
        self._cache: dict[int, Passage] = {}
        if message is not None and self._number_of(message) is None:
            raise missing_message(message)

    def __len__(self) -> int:
        return self._size

    def passage(self, number: int) -> Passage:
        if number not in self._cache:
            start = max(0, number - _PASSAGES_AT_ONCE // 2)
            passages, _ = self._store.passage_page(self._document, start, _PASSAGES_AT_ONCE)
            self._cache |= {passage.position: passage for passage in passages}
        if number not in self._cache:  # it has just been deleted
            return Passage("", None, "")
        return self._cache[number]

    def _number_of(self, message: str) -> int | None:
        with suppress(NotFound):
            key = self._store.passage_key(self._document, message)
            for _, passage in self._store.passages_by_key([key]).values():
                return passage.position
        return None

    def _number_at(self, position: int | None) -> int | None:
        if position is None or position >= self._size:
            return None
        return position


class PathMessages(MessageUnits):
    """The messages on one of several paths."""

    def __init__(
        self, store: Store, document: str, message: str | None, audience: Audience
    ) -> None:
        """The path is the canonical one, or one through `message`. Raises NotFound."""
        super().__init__(store, document, audience)
        path = path_through(store.positions(document), message)
        self._positions = [step.position for step in path]
        self._cache: dict[int, Passage] = {}
        if audience is Audience.AGENT_HIDDEN:
            self._hide_human_only()

    def _hide_human_only(self) -> None:
        passages = self._read(self._positions)
        self._positions = [
            position
            for position in self._positions
            if position.key in passages and not is_human_only(passages[position.key])
        ]

    def _read(self, positions: Sequence[Position]) -> dict[int, Passage]:
        passages = self._store.passages_by_key([position.key for position in positions])
        return {key: passage for key, (_, passage) in passages.items()}

    def __len__(self) -> int:
        return len(self._positions)

    def passage(self, number: int) -> Passage:
        position = self._positions[number]
        if position.key not in self._cache:
            start = max(0, number - _PASSAGES_AT_ONCE // 2)
            self._cache |= self._read(self._positions[start : start + _PASSAGES_AT_ONCE])
        if position.key not in self._cache:  # it has just been deleted
            return Passage(position.id, None, "")
        return self._cache[position.key]

    def _number_of(self, message: str) -> int | None:
        id_ = identifier(message)
        for number, position in enumerate(self._positions):
            if position.id == id_:
                return number
        return None

    def _number_at(self, position: int | None) -> int | None:
        if position is None:
            return None
        for number, place in enumerate(self._positions):
            if place.position >= position:
                return number
        return None


def message_units(
    store: Store, about: Summary, message: str | None, audience: Audience
) -> MessageUnits:
    """The messages of a conversation: on the canonical path, or on one through `message`."""
    if audience is not Audience.AGENT_HIDDEN and store.is_linear(about.id):
        return LinearMessages(store, about, message, audience)
    return PathMessages(store, about.id, message, audience)


def _whole_number(value: Json) -> int | None:
    """A number as clients send it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value < LARGEST_OFFSET:
        return None
    return int(value)


def _start_of(passage: Passage) -> int:
    """The offset of a passage in its text."""
    return _whole_number(passage.metadata.get("start")) or 0


def _offset_in(passage: Passage, offset: int | None) -> int | None:
    """An offset in the text as an offset in the passage; None if it is not in the passage."""
    if offset is None:
        return None
    offset -= _start_of(passage)
    if 0 <= offset < max(1, len(passage.content)):
        return offset
    return None
