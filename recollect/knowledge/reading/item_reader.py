"""Reading an item: a snippet, a chunk, a chunk with its siblings, or all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from recollect.index.meaning import Meaning
from recollect.knowledge.options import validate_query
from recollect.knowledge.reading.chunk_units import CustomChunks, FieldChunks, StoredChunks
from recollect.knowledge.reading.excerpts import (
    first_message,
    fit_snippet,
    full_text,
    message_page,
    units_around,
)
from recollect.knowledge.reading.message_units import MessageUnits, message_units
from recollect.knowledge.reading.units import Units
from recollect.knowledge.results import SnippetOptions, location, result
from recollect.knowledge.retrieval import Retrieval
from recollect.language.queries.query import query_words
from recollect.language.text import identifier
from recollect.model.audience import Audience
from recollect.model.documents import Json, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, PROMPT
from recollect.model.search import Filter, SearchOptions
from recollect.search.everything.kind_queries import KindQuery
from recollect.search.everything.search import search_everything
from recollect.search.results.snippet import best_match, first_match
from recollect.store.audience import visible_store
from recollect.store.base import Store

PAGE_SIZE = 50
LARGEST_PAGE = 200
_CHANGED = "The item has changed since this location was returned."
_NO_PLACE = "The item has no such location."
_AT_QUERY = "This is where the query matches now."
_AT_PLACE = "This is the text that is now in its place."
_AT_BEGINNING = "This is its beginning."


class _Anchor(NamedTuple):
    """The place in an item that an answer is about."""

    unit: int = 0
    offset: int = 0
    """The offset in the unit."""
    score: float = 1.0
    is_match: bool = False
    """Whether the request names this place or it was found by a search."""
    note: str = ""
    """Why this is not the place that the request names."""


class _Reading(NamedTuple):
    """An item that is read, and from where."""

    about: Summary
    units: Units
    anchor: _Anchor
    retrieval: Retrieval
    audience: Audience


class ItemReader:
    """Reads the items of one library."""

    def __init__(self, store: Store, meaning: Meaning) -> None:
        self._store = store
        self._meaning = meaning

    def read(
        self,
        about: Summary,
        retrieval: Retrieval,
        audience: Audience,
        *,
        page: int,
        page_size: int,
        whole_answer: bool,
    ) -> dict[str, Json]:
        """An item and as much of its text as `retrieval` asks for. See `Knowledge.get`."""
        page, page_size = max(1, page), max(1, min(page_size, LARGEST_PAGE))
        units = self._units(about, retrieval, audience)
        anchor = self._anchor(about, units, retrieval, audience)
        if about.kind == CONVERSATION and not anchor.is_match:
            first = first_message(retrieval, page, page_size)
            anchor = anchor._replace(unit=max(0, min(first, len(units) - 1)))
        reading = _Reading(about, units, anchor, retrieval, audience)
        meta = self._meta(reading)
        answer: dict[str, Json] = {"meta": meta, "content": "", "attachments": None}
        if anchor.note:
            answer["note"] = anchor.note
        if retrieval.mode == "snippet":
            answer["content"] = meta["snippet"] or ""
            if whole_answer and retrieval.has_budget:
                return self._fit_snippet(reading, answer)
            return answer
        meta["snippet"] = None  # the text is in `content`
        outer = None
        if whole_answer:
            outer = answer
        if retrieval.mode != "full":
            excerpt = units_around(units, anchor.unit, anchor.offset, retrieval, outer)
            return answer | {"content": excerpt.text, "attachments": excerpt.units}
        if isinstance(units, MessageUnits):
            return answer | message_page(units, retrieval, outer, page, page_size)
        assert isinstance(units, StoredChunks)
        return answer | full_text(units, retrieval, outer)

    def _meta(self, reading: _Reading) -> dict[str, Json]:
        """The item as a result, at the anchor."""
        about, units, anchor, retrieval, audience = reading
        passage, offset = None, 0
        if len(units):
            passage, offset = units.locate(anchor.unit, anchor.offset)
        return result(
            about,
            passage,
            SnippetOptions((), retrieval.snippet_length, audience, offset),
            score=anchor.score,
            score_type="fts",
            is_message=about.kind == CONVERSATION and anchor.is_match,
        )

    def _fit_snippet(self, reading: _Reading, answer: dict[str, Json]) -> dict[str, Json]:
        """The answer with a snippet short enough for the budget."""

        def make_snippet(length: int) -> str:
            shorter = replace(reading.retrieval, snippet_length=length)
            return str(self._meta(reading._replace(retrieval=shorter))["snippet"] or "")

        return fit_snippet(answer, reading.retrieval, make_snippet)

    def _units(self, about: Summary, retrieval: Retrieval, audience: Audience) -> Units:
        if about.kind == CONVERSATION:
            message = retrieval.loc.get("message_id")
            if not isinstance(message, str) or not message:
                message = None
            return message_units(self._store, about, message, audience)
        if about.kind in (PROMPT, CHARACTER):
            return FieldChunks(self._store, about.id, about.message_count, audience)
        chunks = StoredChunks(self._store, about.id, about.message_count, audience)
        if retrieval.mode in ("chunk", "chunk_with_siblings") and not retrieval.prefer_prechunked:
            return CustomChunks(chunks, retrieval)
        return chunks

    def _anchor(
        self, about: Summary, units: Units, retrieval: Retrieval, audience: Audience
    ) -> _Anchor:
        """The place that `loc` names, or else where the query matches, or else the beginning."""
        place, note = None, ""
        if retrieval.has_place:
            place = units.find(retrieval.loc)
            note = _NO_PLACE
            if place is not None and place.is_exact:
                offset = place.offset
                if offset is None:
                    offset = _offset_of_words(units, place.unit, retrieval)
                return _Anchor(place.unit, offset, is_match=True)
            if place is not None or "chunk_uuid" in retrieval.loc:
                note = _CHANGED
        anchor = None
        if retrieval.query.strip() and len(units):
            anchor = self._search_in_item(about, units, retrieval, audience)
        if anchor is not None:
            return anchor._replace(note=_join_notes(note, _AT_QUERY))
        if place is not None:
            note = _join_notes(note, _AT_PLACE)
            return _Anchor(place.unit, place.offset or 0, is_match=True, note=note)
        return _Anchor(note=_join_notes(note, _AT_BEGINNING))

    def _search_in_item(
        self, about: Summary, units: Units, retrieval: Retrieval, audience: Audience
    ) -> _Anchor | None:
        filter_ = Filter(conversations=(identifier(about.id),), kinds=(about.kind,))
        results = search_everything(
            visible_store(self._store, audience),
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
        options = SnippetOptions(results.words, retrieval.snippet_length, audience)
        for _, passage in self._store.passages_by_key([entry.candidate.key]).values():
            place = units.find(location(about, passage, options))
            if place is not None:
                offset = place.offset
                if offset is None:
                    offset = options.place_in(passage) + len(units.heading(place.unit))
                return _Anchor(place.unit, offset, entry.score, is_match=True)
        return None


def _offset_of_words(units: Units, unit: int, retrieval: Retrieval) -> int:
    """Where the words of the query are in a unit, for locations without an offset."""
    words = query_words(retrieval.query)
    return best_match(units.text(unit), words, retrieval.snippet_length) or 0


def _join_notes(reason: str, place: str) -> str:
    """Why an answer is not about the location in the request, and what it is about instead."""
    if not reason:
        return ""
    return f"{reason} {place}"
