"""As much of a document as is asked for: a look, the chunk that was found, what stands around it, or all of it.

A document is a row of units: chunks of a text as they are stored or as they
are asked for, the fields of a character or prompt, the messages of a
conversation. An answer is a run of them, and never has more tokens than it may.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import InvalidInput, NotFound
from recollect.importers.items import text_of
from recollect.knowledge.branches import path_through
from recollect.knowledge.preferences import DEFAULTS, clamp, preference
from recollect.knowledge.results import sender_of
from recollect.language.chunking import CHUNK_TOKENS, chunks, count_tokens
from recollect.language.text import identifier, iso, truncate
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Json, Passage, Position
from recollect.store.base import Store

MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
LONGEST_ANSWER = 100_000
"""Characters of one answer with everything; the rest is on the next page."""
LARGEST_CHUNK = 8_000
LARGEST_OFFSET = 1_000_000_000
_READ = 32  # passages at once
_OPTIONS = frozenset(
    (
        "mode",
        "snippet_length",
        "max_tokens",
        "chars_per_token",
        "chunk_size_tokens",
        "chunk_overlap_tokens",
        "sibling_window",
        "prefer_prechunked",
        "loc",
        "query",
        "offset",
    )
)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How much of a document is wanted, and from where in it."""

    mode: str = "snippet"
    snippet_length: int = int(DEFAULTS["snippet_length"])
    max_tokens: int | None = None
    chars_per_token: float = float(DEFAULTS["chars_per_token"])
    chunk_size_tokens: int | None = None
    chunk_overlap_tokens: int = 0
    sibling_window: int | None = None
    """Chunks on each side; None: as many as the budget allows, or one where no budget was named."""
    prefer_prechunked: bool = True
    loc: Mapping[str, Json] = field(default_factory=dict)
    """Where it was found: what a result says."""
    query: str = ""
    """What to look for where no `loc` is given."""
    offset: int = 0
    """Of everything: the character to begin with."""

    @property
    def budget(self) -> int:
        return int(DEFAULTS["max_tokens"]) if self.max_tokens is None else self.max_tokens

    @property
    def window(self) -> int | None:
        if self.sibling_window is None and self.max_tokens is None:
            return int(DEFAULTS["sibling_window"])
        return self.sibling_window


def parse_retrieval(
    given: Mapping[str, Any] | None, config: Mapping[str, Any], default: str = "snippet"
) -> Retrieval:
    """What a call asks for: what it says itself, then what its session prefers, then the defaults.

    Numbers are brought within their bounds. Raises InvalidInput where something is said that means nothing.
    """
    said = {name: value for name, value in (given or {}).items() if value is not None}
    if unknown := sorted(said.keys() - _OPTIONS):
        raise InvalidInput(f"retrieval: there is no {truncate(unknown[0], 80)!r}.")
    mode = said.get("mode", default)
    if mode not in MODES:
        raise InvalidInput(
            f"retrieval.mode: {truncate(str(mode), 80)!r} is not one of {', '.join(MODES)}."
        )
    loc, query = said.get("loc", {}), said.get("query", "")
    if not isinstance(loc, Mapping) or not isinstance(query, str):
        raise InvalidInput("retrieval: loc must be an object, and query a text.")
    prechunked = said.get("prefer_prechunked")
    if prechunked is not None and not isinstance(prechunked, bool):
        raise InvalidInput("retrieval.prefer_prechunked must be true or false.")
    size = _number(said, "chunk_size_tokens", 1, LARGEST_CHUNK)
    overlap = _number(said, "chunk_overlap_tokens", 0, LARGEST_CHUNK)
    most = _preferred(said, "max_tokens", config)
    window = _preferred(said, "sibling_window", config)
    if mode == "auto":
        mode = "snippet" if most is None else "chunk_with_siblings"
    return Retrieval(
        mode=mode,
        snippet_length=preference("snippet_length", said.get("snippet_length"), config),
        max_tokens=most,
        chars_per_token=preference("chars_per_token", said.get("chars_per_token"), config),
        chunk_size_tokens=size,
        chunk_overlap_tokens=overlap or 0,
        sibling_window=window,
        prefer_prechunked=(size is None and overlap is None) if prechunked is None else prechunked,
        loc=dict(loc),
        query=query,
        offset=_number(said, "offset", 0, LARGEST_OFFSET) or 0,
    )


def _preferred(said: Mapping[str, Any], name: str, config: Mapping[str, Any]) -> int | None:
    """A number only where the call or its session names one."""
    if name in said and clamp(name, said[name]) is None:
        raise InvalidInput(f"retrieval.{name}: {truncate(str(said[name]), 80)!r} is not a number.")
    value = clamp(name, said.get(name))
    return value if value is not None else config.get(name)


def _number(said: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = said.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise InvalidInput(f"retrieval.{name}: {truncate(str(value), 80)!r} is not a number.")
    return int(min(max(value, least), most))


# -- units -------------------------------------------------------------------


class Units(ABC):
    """The document as a row of units."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def passage(self, number: int) -> Passage:
        """The passage that a unit is, or that it begins in."""

    @abstractmethod
    def text(self, number: int) -> str: ...

    @abstractmethod
    def find(self, loc: Mapping[str, Json]) -> tuple[int, int] | None:
        """The unit that a location names, and how far into it; None where it names nothing here."""

    def length(self, first: int, last: int) -> int:
        return sum(len(self.text(number)) for number in range(first, last + 1))

    def render(self, first: int, last: int) -> str:
        return "".join(self.text(number) for number in range(first, last + 1))

    def about(self, first: int, last: int) -> list[dict[str, Json]]:
        """Which units an answer is made of, and where in it each lies."""
        listed, at = [], 0
        for number in range(first, last + 1):
            length = len(self.text(number))
            listed.append(self.named(number) | {"start": at, "end": at + length})
            at += length
        return listed

    def named(self, number: int) -> dict[str, Json]:
        return {"chunk_index": number, "chunk_uuid": self.passage(number).id}


class Stored(Units):
    """The passages of a text, as they are stored; read as they are needed."""

    def __init__(
        self, store: Store, document: str, size: int, audience: Audience = Audience.PERSON
    ) -> None:
        self._store = store
        self._document = document
        self._size = size
        self._masks = audience is not Audience.PERSON
        self._read: dict[int, Passage] = {}

    def __len__(self) -> int:
        return self._size

    def passage(self, number: int) -> Passage:
        if number not in self._read:
            start = max(0, number - _READ // 2)
            found, _ = self._store.passage_page(self._document, start, _READ)
            self._read |= {p.position: self._seen(p) for p in found}
        return self._read[number]

    def text(self, number: int) -> str:
        return self.passage(number).content

    def find(self, loc: Mapping[str, Json]) -> tuple[int, int] | None:
        uuid, index = loc.get("chunk_uuid"), loc.get("chunk_index")
        at = _whole(loc.get("approx_offset"))
        if isinstance(uuid, str) and uuid:
            with suppress(NotFound):
                key = self._store.passage_key(self._document, uuid)
                for _, passage in self._store.passages_by_key([key]).values():
                    return passage.position, self._inside(passage, at)
        if (number := _whole(index)) is not None and number < len(self):
            return number, self._inside(self.passage(number), at)
        if at is not None:
            return self._holding(at)
        seconds = loc.get("seconds")
        return self._saying(float(seconds)) if isinstance(seconds, (int, float)) else None

    def every(self) -> Iterator[Passage]:
        for start in range(0, self._size, _READ * 8):
            found, _ = self._store.passage_page(self._document, start, _READ * 8)
            yield from map(self._seen, found)

    def _seen(self, passage: Passage) -> Passage:
        if not self._masks or not is_human_only(passage):
            return passage
        where = {
            name: passage.metadata[name] for name in ("start", "end") if name in passage.metadata
        }
        return passage._replace(content=MASK, attachments=(), citations=(), metadata=where)

    def _inside(self, passage: Passage, at: int | None) -> int:
        start = _whole(passage.metadata.get("start")) or 0
        return 0 if at is None else min(max(0, at - start), max(len(passage.content) - 1, 0))

    def _holding(self, at: int) -> tuple[int, int] | None:
        start, last = 0, None
        for passage in self.every():
            if at < start + len(passage.content):
                return passage.position, at - start
            start += len(passage.content)
            last = passage
        return None if last is None else (last.position, max(0, len(last.content) - 1))

    def _saying(self, seconds: float) -> tuple[int, int] | None:
        """The chunk in which something is said at that second."""
        found = None
        for passage in self.every():
            times = passage.metadata.get("cues") or []
            if not times or times[0][1] > seconds:
                break
            inside = bisect_right(times, seconds, key=lambda time: time[1]) - 1
            found = passage.position, times[max(inside, 0)][0]
        return found


class Fields(Stored):
    """The fields of a character or prompt, each under its name."""

    def text(self, number: int) -> str:
        passage = self.passage(number)
        goes_on = number > 0 and self.passage(number - 1).role == passage.role
        ends = number + 1 == len(self) or self.passage(number + 1).role != passage.role
        return ("" if goes_on else f"{passage.role}: ") + passage.content + ("\n" if ends else "")

    def find(self, loc: Mapping[str, Json]) -> tuple[int, int] | None:
        name = loc.get("field")
        if not isinstance(name, str) or "chunk_uuid" in loc or "chunk_index" in loc:
            return super().find(loc)
        at = _whole(loc.get("approx_offset")) or 0
        mine = [p for p in self.every() if p.role == name]
        for passage in mine:
            start = _whole(passage.metadata.get("start")) or 0
            if passage is mine[-1] or at < start + len(passage.content):
                return passage.position, self._inside(passage, at)
        return None

    def named(self, number: int) -> dict[str, Json]:
        return {"field": self.passage(number).role} | super().named(number)


class Cut(Units):
    """A text in chunks of another size than it is stored in; they may overlap."""

    def __init__(self, stored: Stored, wanted: Retrieval) -> None:
        self._passages = list(stored.every())
        self._starts = [0]
        for passage in self._passages:
            self._starts.append(self._starts[-1] + len(passage.content))
        self._text = text_of(self._passages)
        self._chunks = chunks(
            self._text,
            wanted.chunk_size_tokens or CHUNK_TOKENS,
            wanted.chunk_overlap_tokens,
            wanted.chars_per_token,
        )
        self._stored = stored

    def __len__(self) -> int:
        return len(self._chunks)

    def passage(self, number: int) -> Passage:
        return self._passages[self._at(self._chunks[number].start)]

    def _at(self, offset: int) -> int:
        return min(max(0, bisect_right(self._starts, offset) - 1), len(self._passages) - 1)

    def text(self, number: int) -> str:
        return self.render(number, number)

    def length(self, first: int, last: int) -> int:
        return self._chunks[last].end - self._chunks[first].start

    def render(self, first: int, last: int) -> str:
        return self._text[self._chunks[first].start : self._chunks[last].end]

    def find(self, loc: Mapping[str, Json]) -> tuple[int, int] | None:
        found = self._stored.find(loc)
        if found is None:
            return None
        at = self._starts[found[0]] + found[1]
        number = max(0, bisect_right(self._chunks, at, key=lambda chunk: chunk.start) - 1)
        return number, at - self._chunks[number].start

    def about(self, first: int, last: int) -> list[dict[str, Json]]:
        begin = self._chunks[first].start
        return [
            {"chunk_index": number, "start": chunk.start - begin, "end": chunk.end - begin}
            for number, chunk in enumerate(self._chunks[first : last + 1], first)
        ]


class Messages(Units):
    """The messages on one way through a conversation."""

    def __init__(
        self, store: Store, document: str, through: str | None, audience: Audience
    ) -> None:
        self._store = store
        self._bones = [step.bone for step in path_through(store.positions(document), through)]
        self._read: dict[int, Passage] = {}
        if audience is Audience.AGENT_HIDDEN:
            read = self._contents(self._bones)
            self._bones = [
                b for b in self._bones if b.key in read and not is_human_only(read[b.key])
            ]
        self._masks = audience is Audience.AGENT_MASKED

    def _contents(self, bones: Sequence[Position]) -> dict[int, Passage]:
        return {
            key: passage
            for key, (_, passage) in self._store.passages_by_key([b.key for b in bones]).items()
        }

    def __len__(self) -> int:
        return len(self._bones)

    def passage(self, number: int) -> Passage:
        bone = self._bones[number]
        if bone.key not in self._read:
            start = max(0, number - _READ // 2)
            self._read |= self._contents(self._bones[start : start + _READ])
        return self._read.get(bone.key) or Passage(bone.id, None, "")  # it may be just deleted

    def masked(self, number: int) -> bool:
        return self._masks and is_human_only(self.passage(number))

    def text(self, number: int) -> str:
        passage = self.passage(number)
        return f"{sender_of(passage)}: {MASK if self.masked(number) else passage.content}\n"

    def find(self, loc: Mapping[str, Json]) -> tuple[int, int] | None:
        named = loc.get("message_id")
        if isinstance(named, str) and named:
            wanted = identifier(named)
            return next(((n, 0) for n, bone in enumerate(self._bones) if bone.id == wanted), None)
        position = _whole(loc.get("message_index"))
        if position is None:
            return None
        return next(
            ((n, 0) for n, bone in enumerate(self._bones) if bone.position >= position), None
        )

    def named(self, number: int) -> dict[str, Json]:
        passage = self.passage(number)
        return {
            "message_id": passage.id,
            "message_index": passage.position,
            "sender": sender_of(passage),
            "role": passage.role,
            "created_at": iso(passage.created_at),
        }


def _whole(value: Json) -> int | None:
    """A number as clients send it; None for anything else."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < LARGEST_OFFSET
    ):
        return None
    return int(value)


# -- choosing ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """A run of units as an answer."""

    text: str
    units: list[dict[str, Json]]


def around(units: Units, anchor: int, offset: int, wanted: Retrieval) -> Taken:
    """The unit that was found, and with siblings as many beside it as fit the budget."""
    siblings = wanted.mode == "chunk_with_siblings"
    budget = wanted.budget if siblings or wanted.max_tokens is not None else None
    if (
        budget is not None
        and count_tokens(units.length(anchor, anchor), wanted.chars_per_token) > budget
    ):
        return _narrowed(units, anchor, offset, int(budget * wanted.chars_per_token))
    first = last = anchor
    if siblings:
        first, last = _grown(units, anchor, wanted)
    return Taken(units.render(first, last), units.about(first, last))


def _grown(units: Units, anchor: int, wanted: Retrieval) -> tuple[int, int]:
    """As far to the right and to the left, in turn, as the budget and the window allow."""
    first = last = anchor
    far = len(units) if wanted.window is None else wanted.window
    right, left = True, True
    while right or left:
        if right:
            right = (
                last + 1 < len(units)
                and last - anchor < far
                and _fits(units, first, last + 1, wanted)
            )
            last += right
        if left:
            left = first > 0 and anchor - first < far and _fits(units, first - 1, last, wanted)
            first -= left
    return first, last


def _fits(units: Units, first: int, last: int, wanted: Retrieval) -> bool:
    return count_tokens(units.length(first, last), wanted.chars_per_token) <= wanted.budget


def _narrowed(units: Units, number: int, offset: int, room: int) -> Taken:
    """A part of one unit, with what was found in its middle."""
    text = units.text(number)
    start = max(0, min(offset - room // 2, len(text) - room))
    part = text[start : start + room]
    return Taken(part, [units.named(number) | {"start": 0, "end": len(part), "cut": True}])


def whole(units: Stored, offset: int, room: int) -> tuple[str, int]:
    """So many characters of a text from an offset on, and how many it has in all."""
    parts, at = [], 0
    for number in range(len(units)):
        text = units.text(number)
        if at + len(text) > offset and at < offset + room:
            parts.append(text[max(0, offset - at) : offset + room - at])
        at += len(text)
    return "".join(parts), at
