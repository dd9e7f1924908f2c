"""Reading an item: a snippet, a chunk, a chunk with its siblings, or all of it, within a budget."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.importers.items import cues_of, fields_of, text_of
from recollect.index.meaning import Meaning
from recollect.knowledge.options import validate_query
from recollect.knowledge.results import SnippetOptions, location, result
from recollect.knowledge.retrieval import LONGEST_ANSWER, Retrieval
from recollect.knowledge.units import FieldChunks, Messages, StoredChunks, units_of
from recollect.language import transcript
from recollect.language.chunking import count_tokens
from recollect.language.queries.query import query_words
from recollect.language.text import identifier
from recollect.language.transcript import Cue
from recollect.model.audience import Audience
from recollect.model.documents import Json, Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.search.everything import KindQuery, search_everything
from recollect.search.snippets import best_match, first_match
from recollect.store.audience import visible_store
from recollect.store.base import Store

PAGE_SIZE = 50
LARGEST_PAGE = 200
LEAST_TEXT = 40
"""An answer has so many characters of the text, or all that the budget has, also without room for
its description of the item."""
_CHANGED = "The item has changed since this location was returned."
_NO_PLACE = "The item has no such location."
_AT_QUERY = "This is where the query matches now."
_AT_PLACE = "This is the text that is now in its place."
_AT_BEGINNING = "This is its beginning."

Answer = dict[str, Json]


# -- the budget ----------------------------------------------------------------


def json_length(value: Any) -> int:
    """The length of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


class Budget:
    """How much an answer may have.

    In Python, `max_tokens` is for the text. For a `whole_answer`, it is for the answer as JSON,
    except that it always has some text.
    """

    def __init__(self, retrieval: Retrieval, whole_answer: bool) -> None:
        self.room: float = LONGEST_ANSWER if retrieval.mode == "full" else inf
        if retrieval.has_budget:
            self.room = min(self.room, int(retrieval.budget * retrieval.chars_per_token))
        self.is_of_json = whole_answer and retrieval.has_budget

    def fits(self, answer: Answer) -> bool:
        if self.is_of_json:
            return json_length(answer) <= self.room
        content = answer["content"]
        return (len(content) if isinstance(content, str) else json_length(content)) <= self.room

    def most(self, limit: int, build: Callable[[int], Answer]) -> int:
        """The largest number up to a limit with which the answer fits; 0 if there is none.

        It begins with small numbers, so that no more is read than about twice what fits.
        """
        number = 1
        while number < limit and self.fits(build(number)):
            number *= 2
        numbers = range(number // 2 + 1, min(number, limit) + 1)
        return number // 2 + bisect_left(numbers, True, key=lambda n: not self.fits(build(n)))

    def cut(self, text: str, offset: int, build: Callable[[str], Answer]) -> Answer:
        """The answer with as much of a text around an offset as fits; at least `LEAST_TEXT`."""
        if self.fits(build(text)):
            return build(text)

        def part(size: int) -> str:
            start = max(0, min(offset - size // 2, len(text) - size))
            return text[start : start + size]

        size = self.most(len(text), lambda size: build(part(size)))
        least = int(min(self.room, LEAST_TEXT))
        if size < least:
            size = min(least, len(text))
            while size > 1 and self.is_of_json and json_length(part(size)) - 2 > least:
                size -= 1
        return build(part(size))


# -- reading -------------------------------------------------------------------


class Anchor(NamedTuple):
    """The place in an item that an answer is about."""

    unit: int = 0
    offset: int = 0
    """The offset in the unit."""
    score: float = 1.0
    is_match: bool = False
    """Whether the request names this place or it was found by a search."""
    note: str = ""
    """Why this is not the place that the request names."""


class Reading:
    """One reading of an item: as much of its text as `retrieval` asks for. See `Knowledge.get`."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        about: Summary,
        retrieval: Retrieval,
        audience: Audience,
        whole_answer: bool,
    ) -> None:
        self._store = store
        self._meaning = meaning
        self._about = about
        self._retrieval = retrieval
        self._audience = audience
        self._units = units_of(store, about, retrieval, audience)
        self._budget = Budget(retrieval, whole_answer)

    def answer(self, page: int, page_size: int) -> Answer:
        page, page_size = max(1, page), max(1, min(page_size, LARGEST_PAGE))
        units, mode = self._units, self._retrieval.mode
        first = (page - 1) * page_size
        if mode == "full" and self._retrieval.offset:
            first = self._retrieval.offset
        anchor = self._anchor()
        if isinstance(units, Messages) and not anchor.is_match:
            anchor = anchor._replace(unit=max(0, min(first, len(units) - 1)))
        answer: Answer = {
            "meta": self._meta(anchor, self._retrieval.snippet_length),
            "content": "",
            "attachments": None,
        }
        if anchor.note:
            answer["note"] = anchor.note
        if mode == "snippet":
            return self._snippet(answer, anchor)
        answer["meta"]["snippet"] = None  # the text is in `content`
        if mode != "full":
            return self._window(answer, anchor)
        if isinstance(units, Messages):
            return self._messages(answer, first, page_size, page)
        assert isinstance(units, StoredChunks)
        return self._text(answer, units)

    def _meta(self, anchor: Anchor, snippet_length: int) -> Answer:
        """The item as a result, at the anchor."""
        passage, offset = None, 0
        if len(self._units):
            passage, offset = self._units.locate(anchor.unit, anchor.offset)
        return result(
            self._about,
            passage,
            SnippetOptions((), snippet_length, self._audience, offset),
            score=anchor.score,
            score_type="fts",
            is_message=self._about.kind == CONVERSATION and anchor.is_match,
        )

    def _snippet(self, answer: Answer, anchor: Anchor) -> Answer:
        """The answer with a snippet that fits. It contains it twice."""
        meta = answer["meta"]

        def build(text: str) -> Answer:
            return {**answer, "meta": {**meta, "snippet": text}, "content": text}

        def build_shorter(length: int) -> Answer:
            return build(self._meta(anchor, length)["snippet"] or "")

        text = meta["snippet"] or ""
        if not self._budget.is_of_json or self._budget.fits(build(text)):
            return build(text)
        length = self._budget.most(len(text), build_shorter)
        if length < LEAST_TEXT:
            return self._budget.cut(text, 0, build)
        return build_shorter(length)

    def _window(self, answer: Answer, anchor: Anchor) -> Answer:
        """The unit at the anchor, and its siblings if they are requested and fit.

        As many are added on both sides as window and budget allow, and then on either side.
        """
        units, budget, unit = self._units, self._budget, anchor.unit
        if not len(units):
            return answer

        def build(before: int, after: int) -> Answer:
            first, last = max(0, unit - before), min(unit + after, len(units) - 1)
            text, parts = units.render(first, last), units.parts(first, last)
            return answer | {"content": text, "attachments": parts}

        if not budget.fits(build(0, 0)):
            return self._part_of_unit(answer, unit, anchor.offset)
        window = 0
        if self._retrieval.mode == "chunk_with_siblings":
            asked = self._retrieval.window
            window = len(units) if asked is None else min(asked, len(units))
        both = budget.most(window, lambda number: build(number, number))
        after = both + budget.most(window - both, lambda number: build(both, both + number))
        before = both + budget.most(window - both, lambda number: build(both + number, after))
        return build(before, after)

    def _part_of_unit(self, answer: Answer, number: int, offset: int) -> Answer:
        """A part of one unit, with the offset in its middle.

        If there is hardly room for the text, the description of the unit is left out.
        """
        text, identity = self._units.text(number), self._units.identity(number)

        def build(part: str) -> Answer:
            unit = identity | {"start": 0, "end": len(part), "cut": True}
            return answer | {"content": part, "attachments": [unit]}

        if not self._budget.is_of_json or self._budget.fits(build(text[:LEAST_TEXT])):
            return self._budget.cut(text, offset, build)
        return self._budget.cut(text, offset, lambda part: answer | {"content": part})

    def _messages(self, answer: Answer, first: int, size: int, page: int) -> Answer:
        """A page of messages, or as many of them as fit; part of the first if it does not fit."""
        units = self._units
        start = min(first, len(units))
        if self._retrieval.offset:
            page = start // size + 1
        end = min(start + size, len(units))

        def build(count: int) -> Answer:
            following = start + max(count, 1)  # a message that is too long is cut
            about_page: Answer = {
                "page": page,
                "page_size": size,
                "total": len(units),
                "next_page": page + 1 if end < len(units) else None,
                "next_offset": following if following < len(units) else None,
                "truncated": start + count < end,
            }
            last = start + count - 1
            text, parts = units.render(start, last), units.parts(start, last)
            return answer | {"content": text, "attachments": parts, "page": about_page}

        if start == end:
            return build(0)
        count = self._budget.most(end - start, build)
        return build(count) if count else self._part_of_unit(build(0), start, 0)

    def _text(self, answer: Answer, units: StoredChunks) -> Answer:
        """The fields of a character or prompt, or the text, or a page of it if it is long."""
        retrieval = self._retrieval
        if isinstance(units, FieldChunks) and not retrieval.offset and retrieval.max_tokens is None:
            fields = fields_of(units.passages)
            if sum(map(len, fields.values())) <= LONGEST_ANSWER:
                return answer | {"content": fields}
        text, total = units.text_page(retrieval.offset, int(self._budget.room))

        def build(part: str) -> Answer:
            end = retrieval.offset + len(part)
            page: Answer = {
                "offset": retrieval.offset,
                "total": total,
                "total_tokens": count_tokens(total, retrieval.chars_per_token),
                "next_offset": end if part and end < total else None,
            }
            return answer | {"content": part, "page": page}

        return self._budget.cut(text, 0, build)

    # -- the anchor ---

    def _anchor(self) -> Anchor:
        """The place that `loc` names, or else where the query matches, or else the beginning."""
        units, retrieval = self._units, self._retrieval
        place, problem = None, ""
        if retrieval.has_place:
            place = units.find(retrieval.loc)
            problem = _NO_PLACE
            if place is not None and place.is_exact:
                offset = place.offset
                if offset is None:  # where the words of the query are
                    words = query_words(retrieval.query)
                    text = units.text(place.unit)
                    offset = best_match(text, words, retrieval.snippet_length) or 0
                return Anchor(place.unit, offset, is_match=True)
            if place is not None or "chunk_uuid" in retrieval.loc:
                problem = _CHANGED

        def note(instead: str) -> str:
            return f"{problem} {instead}" if problem else ""

        anchor = self._search() if retrieval.query.strip() and len(units) else None
        if anchor is not None:
            return anchor._replace(note=note(_AT_QUERY))
        if place is not None:
            return Anchor(place.unit, place.offset or 0, is_match=True, note=note(_AT_PLACE))
        return Anchor(note=note(_AT_BEGINNING))

    def _search(self) -> Anchor | None:
        """Where the query matches in the item."""
        about, retrieval = self._about, self._retrieval
        filter_ = Filter(conversations=(identifier(about.id),), kinds=(about.kind,))
        results = search_everything(
            visible_store(self._store, self._audience),
            self._meaning,
            validate_query(retrieval.query),
            [KindQuery(filter_, "message")],
            SearchOptions(),
        )
        entry = next(results.entries(), None)
        if entry is None:
            return None
        is_by_title = first_match(about.title, results.words) is not None
        if about.kind == CONVERSATION and is_by_title and "text" not in entry.arms:
            return None  # the words are in the title and in no message
        options = SnippetOptions(results.words, retrieval.snippet_length, self._audience)
        for _, passage in self._store.passages_by_key([entry.candidate.key]).values():
            place = self._units.find(location(about, passage, options))
            if place is not None:
                offset = place.offset
                if offset is None:
                    offset = options.place_in(passage) + len(self._units.heading(place.unit))
                return Anchor(place.unit, offset, entry.score, is_match=True)
        return None


# -- transcripts ---------------------------------------------------------------


def whole_transcript(chunks: StoredChunks, format: str, timestamps: bool) -> Json:
    """Raises InvalidInput if the text has no times and the format needs them."""
    cues = list(cues_of(chunks.passages))
    if cues:
        return transcript.write(cues, format, timestamps=timestamps)
    require_no_times(format, timestamps)
    return text_of(chunks.passages)


def transcript_page(
    chunks: StoredChunks, retrieval: Retrieval, format: str, timestamps: bool
) -> Answer:
    """As many cues as fit, from the one with the number `retrieval.offset` on.

    A cue is cut only if not even one fits. In a text without times, the offset counts characters.
    Raises InvalidInput like `whole_transcript`.
    """
    offset = retrieval.offset
    budget = Budget(retrieval, whole_answer=True)
    if next(cues_of(chunks.passages), None) is None:
        require_no_times(format, timestamps)
        text, total = chunks.text_page(offset, int(budget.room))
        return budget.cut(
            text, 0, lambda part: _page(part, offset + len(part), (part and total) or 0)
        )
    cues: list[Cue] = []
    length = 0
    for cue in islice(cues_of(chunks.passages), offset, None):
        cues.append(cue)
        length += len(cue.text)
        if length > budget.room and len(cues) > 1:
            break

    def write(cues: list[Cue]) -> Json:
        return transcript.write(cues, format, timestamps=timestamps, first=offset + 1)

    def build(count: int) -> Answer:
        return _page(write(cues[:count]), offset + count, offset + len(cues))

    count = budget.most(len(cues), build)
    if count or not cues:
        return build(count)
    text = cues[0].text

    def build_part(length: int) -> Answer:
        part = write([cues[0]._replace(text=text[:length])])
        return _page(part, offset + 1, offset + len(cues)) | {"cut": True}

    return build_part(max(1, budget.most(len(text), build_part)))


def _page(content: Json, end: int, total: int) -> Answer:
    return {"content": content} | ({"next_offset": end} if end < total else {})


def require_no_times(format: str, timestamps: bool) -> None:
    if format != "text" or timestamps:
        raise InvalidInput("This item has no times, so it is available only as text.")
