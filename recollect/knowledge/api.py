"""The Knowledge API: find, read and write items of every kind (see docs/contracts)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Any, NamedTuple, Protocol

from recollect.errors import InvalidInput, NotFound
from recollect.importers.items import cues_of
from recollect.index.meaning import Meaning
from recollect.knowledge import editing, exporting
from recollect.knowledge.excerpts import fit_snippet, full_text, message_page, units_around
from recollect.knowledge.options import KnowledgeOptions, kind_of, parse_texts, validate_query
from recollect.knowledge.results import SnippetOptions, location, result, uri_of
from recollect.knowledge.retrieval import (
    CustomChunks,
    FieldChunks,
    MessageUnits,
    Retrieval,
    StoredChunks,
    Units,
    message_units,
)
from recollect.language.query import parse_query
from recollect.language.query_tree import Word, words
from recollect.language.text import identifier, storable, truncate
from recollect.model.audience import Audience
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, PROMPT
from recollect.model.search import Filter, SearchOptions
from recollect.search.everything import MOST_SORTED, Entry, KindQuery, Results
from recollect.search.snippet import best_match, first_match
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.views.audience import visible_store

MOST_RESULTS = 100
PAGE_SIZE = 50
LARGEST_PAGE = 200
_SCORE_TYPES = {("text",): "fts", ("vector",): "vector", ("text", "vector"): "hybrid"}
"""What a result was found by, in the terms of the Knowledge API."""
_CHANGED = "The item has changed since this location was returned."
_NO_PLACE = "The item has no such location."
_AT_QUERY = "This is where the query matches now."
_AT_PLACE = "This is the text that is now in its place."
_AT_BEGINNING = "This is its beginning."


class ResultHistory(Protocol):
    """Which results a session has returned before, by their URIs."""

    def unseen(self, uris: Iterable[str]) -> list[str]: ...

    def forget(self, uris: Iterable[str]) -> None: ...

    def returned(self, uris: Iterable[str]) -> None: ...


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


class _Page(NamedTuple):
    entries: list[Entry]
    next_offset: int
    has_more: bool
    total: int | None
    """The number of all results, if the end was reached."""
    seen: int = 0
    """How many results were skipped because they had been returned before."""


class Knowledge:
    """A library's notes, media, conversations, characters and prompts."""

    def __init__(self, store: Store, meaning: Meaning, on_change: Callable[[], None]) -> None:
        """`on_change` is called after every change, so that it gets indexed."""
        self._store = store
        self._meaning = meaning
        self._on_change = on_change

    # -- searching ---

    def search(
        self,
        query: str,
        options: KnowledgeOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
        history: ResultHistory | None = None,
    ) -> dict[str, Json]:
        """A page of one list of everything that matches. Raises InvalidInput.

        With a `history`, results that it contains are skipped. If there are no others, they are
        returned again.
        """
        options = options or KnowledgeOptions()
        limit = max(1, min(options.limit, MOST_RESULTS))
        offset = max(0, min(options.offset, LIMITS.page_offset))
        results, entries = self._search(query, options, audience)
        page = _page(entries, limit, offset, history)
        total = page.total
        if total is None:
            total, _ = results.total()
            total = max(total, offset + len(page.entries))
        by_uri = self._results(results, page.entries, options, audience)
        if history is not None:
            history.returned(map(_passage_uri, page.entries))
        next_offset = None
        if page.has_more:
            next_offset = page.next_offset
        answer: dict[str, Json] = {
            "results": list(by_uri.values()),
            "has_more": page.has_more,
            "next_offset": next_offset,
            "total_estimated": total,
        }
        answer |= _remarks(results, page)
        if not by_uri and offset == 0:
            nearest = self._results(results, results.nearest(), options, audience)
            if nearest:
                answer["nearest"] = list(nearest.values())
        return answer

    def _search(
        self, query: str, options: KnowledgeOptions, audience: Audience
    ) -> tuple[Results, Iterator[Entry]]:
        """A search and its results in order. Raises InvalidInput."""
        kind_queries = options.kind_queries()
        order, media_order = options.order_by, options.media_order
        kinds = {kind for kind_query in kind_queries for kind in kind_query.filter.kinds}
        if kinds == {MEDIA}:
            order = media_order
        results = Results(
            visible_store(self._store, audience),
            self._meaning,
            validate_query(query),
            kind_queries,
            SearchOptions(
                options.mode,
                typing=options.typing,
                correct=options.correct,
                rerank=options.rerank,
            ),
            order,
            fold=options.fold,
        )
        entries = results.entries()
        if order != media_order and MEDIA in kinds:
            entries = _with_media_order(entries, media_order, self._store)
        return results, entries

    def _results(
        self,
        results: Results,
        entries: Sequence[Entry],
        options: KnowledgeOptions,
        audience: Audience,
    ) -> dict[str, dict[str, Json]]:
        """The results of a page by URI, without items that were deleted meanwhile."""
        summaries = self._summaries({entry.candidate.document for entry in entries})
        passages = self._store.passages_by_key([entry.candidate.key for entry in entries])
        recent_words: list[Word] = []
        for text in reversed(options.recent_queries):
            recent_words += _query_words(text)
        by_uri: dict[str, dict[str, Json]] = {}
        for entry in entries:
            candidate = entry.candidate
            if candidate.key not in passages or candidate.document not in summaries:
                continue
            about = summaries[candidate.document]
            passage = self._with_page_breaks(about, passages[candidate.key][1])
            if entry.by_title:
                passage = self._opening(about, passage, audience)
            snippet_words = results.words
            if recent_words and first_match(passage.content, snippet_words) is None:
                snippet_words = recent_words
            by_uri[_uri(entry)] = result(
                about,
                passage,
                SnippetOptions(snippet_words, options.snippet_length, audience),
                score=entry.score,
                score_type=_SCORE_TYPES[entry.arms],
                is_message=candidate.kind == CONVERSATION and not entry.by_title,
                by_title=entry.by_title,
            )
        return by_uri

    def _opening(self, about: Summary, passage: Passage, audience: Audience) -> Passage:
        """The first message of a conversation, if it is not the passage that was found."""
        if passage.position == 0:
            return passage
        units = message_units(self._store, about, None, audience)
        if not len(units):
            return passage
        return units.passage(0)

    def _summaries(self, ids: Iterable[str]) -> dict[str, Summary]:
        names = tuple(map(identifier, ids))
        if not names:
            return {}
        filter_ = Filter(conversations=names, hidden=True)
        summaries, _ = self._store.summaries(filter_, "", len(names), 0)
        return {identifier(summary.id): summary for summary in summaries}

    # -- reading ---

    def get(
        self,
        source: str,
        id: str | int,
        retrieval: Retrieval | None = None,
        *,
        audience: Audience = Audience.PERSON,
        page: int = 1,
        page_size: int = PAGE_SIZE,
        whole_answer: bool = False,
    ) -> dict[str, Json]:
        """An item and as much of its text as `retrieval` asks for; by default all of it.

        `page` and `page_size` are for the messages of a conversation. `max_tokens` is the budget of
        the text; with `whole_answer`, of the answer as JSON. Raises NotFound, or InvalidInput if
        the budget is too small.
        """
        about = self.find(source, id)
        retrieval = retrieval or Retrieval(mode="full")
        page, page_size = max(1, page), max(1, min(page_size, LARGEST_PAGE))
        units = self._units(about, retrieval, audience)
        anchor = self._anchor(about, units, retrieval, audience)
        if about.kind == CONVERSATION and not anchor.is_match:
            anchor = anchor._replace(unit=max(0, min((page - 1) * page_size, len(units) - 1)))
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
            passage = self._with_page_breaks(about, passage)
        return result(
            about,
            passage,
            SnippetOptions((), retrieval.snippet_length, audience, offset),
            score=anchor.score,
            score_type="fts",
            is_message=about.kind == CONVERSATION and anchor.is_match,
        )

    def _fit_snippet(self, reading: _Reading, answer: dict[str, Json]) -> dict[str, Json]:
        """The answer with a snippet short enough for the budget. Raises InvalidInput."""

        def make_snippet(length: int) -> str:
            shorter = replace(reading.retrieval, snippet_length=length)
            return str(self._meta(reading._replace(retrieval=shorter))["snippet"] or "")

        return fit_snippet(answer, reading.retrieval, make_snippet)

    def _with_page_breaks(self, about: Summary, passage: Passage) -> Passage:
        """The chunk with its page breaks, if it has none from version 0.1 and is on one page."""
        metadata = passage.metadata
        if "page" not in metadata or "page_breaks" in metadata:
            return passage
        next_page = about.metadata.get("pages")
        following, _ = self._store.passage_page(about.id, passage.position + 1, 1)
        if following:
            next_page = following[0].metadata.get("page")
        if next_page != metadata["page"]:
            return passage
        return passage._replace(metadata={**metadata, "page_breaks": []})

    def find(self, source: str, id: str | int) -> Summary:
        """The item with this id, or the prompt or character with this name. Raises NotFound."""
        kind = kind_of(source)
        by_id: Summary | None = None
        with suppress(NotFound):
            by_id = self._store.summary(str(id))
        if by_id is not None and by_id.kind != kind:
            by_id = None
        is_abbreviated = by_id is None or by_id.id != str(id)
        if is_abbreviated and kind in (PROMPT, CHARACTER):
            match = self._find_by_name(kind, str(id))
            if match is not None:
                return match
        if by_id is not None:
            return by_id
        raise NotFound(f"{kind.capitalize()} not found: {truncate(str(id), 80)}")

    def document(self, source: str, id: str | int) -> Document:
        """An item with its whole content. Raises NotFound."""
        return self._store.document(self.find(source, id).id)

    def _find_by_name(self, kind: str, name: str) -> Summary | None:
        """The item with exactly this name that changed last. Others may contain the name."""
        text = storable(name)
        if not text.strip():
            return None
        start, total = 0, 1
        while start < total:
            summaries, total = self._store.summaries(
                Filter(kinds=(kind,)), text, LIMITS.page_size, start
            )
            for summary in summaries:
                if summary.title.casefold() == name.casefold():
                    return summary
            start += LIMITS.page_size
        return None

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
        results = Results(
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

    # -- writing ---

    def create(self, source: str, fields: Mapping[str, Any]) -> Summary:
        """Create a note, media item, character or prompt. Raises InvalidInput."""
        document = editing.new_document(kind_of(source), fields)
        (outcome,) = self._store.save([document])
        self._on_change()
        return self._store.summary(outcome.id)

    def edit(
        self, source: str, id: str | int, fields: Mapping[str, Any], version: int | None = None
    ) -> Summary:
        """Change the given fields and nothing else.

        Raises NotFound, InvalidInput, or Conflict if the item is not at `version` any more.
        """
        document = self._store.document(self.find(source, id).id)
        if version is None:
            version = document.version
        self._store.rewrite(document.id, editing.edit_document(document, fields), version)
        self._on_change()
        return self._store.summary(document.id)

    def delete(self, source: str, id: str | int) -> Document:
        """Delete an item permanently. Returns the only copy of it. Raises NotFound."""
        document = self._store.pop(self.find(source, id).id)
        self._on_change()
        return document

    def export(self, source: str, id: str | int, format: str) -> exporting.Export:
        """An item as a file, in one of `exporting.FORMATS`. Raises NotFound or InvalidInput."""
        return exporting.export(self._store.document(self.find(source, id).id), format)

    # -- media ---

    def media_types(self) -> list[tuple[str, int]]:
        """The types of the library's media with the number of items, most frequent first."""
        return self._store.media_types()

    def transcript(
        self,
        id: str | int,
        format: str = "text",
        timestamps: bool = False,
        audience: Audience = Audience.PERSON,
    ) -> Json:
        """The transcript of a recording as text, SRT, VTT or JSON.

        Raises NotFound or InvalidInput.
        """
        from recollect.language import transcript

        about = self.find("media", id)
        if format not in transcript.FORMATS:
            raise InvalidInput(
                f"format: {truncate(format, 80)!r} is not one of {', '.join(transcript.FORMATS)}."
            )
        chunks = StoredChunks(self._store, about.id, about.message_count, audience)
        passages = list(chunks.passages())
        cues = list(cues_of(passages))
        if cues:
            return transcript.write(cues, format, timestamps=timestamps)
        if format == "text" and not timestamps:
            return "".join(passage.content for passage in passages)
        raise InvalidInput(
            f"Media {truncate(str(id), 80)} has no times, so it is available only as text."
        )

    # -- listing ---

    def list(
        self,
        source: str,
        *,
        search: str = "",
        tags: Sequence[str] = (),
        media_types: Sequence[str] = (),
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Summary], int]:
        """The items of a kind, last changed first, and how many there are in all.

        `search` is a text that the title or the id must contain.
        """
        filter_ = Filter(
            kinds=(kind_of(source),),
            tags=parse_texts("tags", tags),
            media_types=parse_texts("media_types", media_types),
        )
        limit = max(1, min(limit, LIMITS.page_size))
        offset = max(0, min(offset, LIMITS.page_offset))
        return self._store.summaries(filter_, storable(search), limit, offset)


# -- pages ---------------------------------------------------------------------


def _remarks(results: Results, page: _Page) -> dict[str, Json]:
    """What the reader should know about the results. Fields that say nothing are left out."""
    remarks: dict[str, Json] = {
        "seen": page.seen,
        "partial": results.is_partial,
        "weak": results.is_weak,
        "note": results.note,
        "corrections": dict(results.corrections),
    }
    return {name: value for name, value in remarks.items() if value}


def _page(
    entries: Iterator[Entry], limit: int, offset: int, history: ResultHistory | None
) -> _Page:
    skipped = sum(1 for _ in islice(entries, offset))
    if history is not None:
        return _unseen_page(entries, limit, skipped, history)
    page = list(islice(entries, limit))
    end = skipped + len(page)
    has_more = next(entries, None) is not None
    total = None
    if not has_more:
        total = end
    return _Page(page, end, has_more, total)


def _unseen_page(
    entries: Iterator[Entry], limit: int, offset: int, history: ResultHistory
) -> _Page:
    page: list[Entry] = []
    all_entries: list[Entry] = []
    next_offset = offset
    for entry in entries:
        if len(page) == limit:
            seen = next_offset - offset - len(page)
            return _Page(page, next_offset, has_more=True, total=None, seen=seen)
        all_entries.append(entry)
        if history.unseen([_passage_uri(entry)]):
            page.append(entry)
            next_offset = offset + len(all_entries)
    seen = len(all_entries) - len(page)
    if not page and all_entries:  # everything was returned before: start again
        history.forget(map(_passage_uri, all_entries))
        page = all_entries[:limit]
        next_offset = offset + len(page)
        seen = 0
    total = offset + len(all_entries)
    return _Page(page, next_offset, next_offset < total, total, seen)


def _passage_uri(entry: Entry) -> str:
    """What a history remembers: the passage, so that other passages of an item are still new."""
    return f"{_uri(entry)}#{entry.candidate.key}"


def _with_media_order(entries: Iterator[Entry], order: str, store: Store) -> Iterator[Entry]:
    """The results with media in an order of their own, in the places that media have."""
    results = list(islice(entries, MOST_SORTED))
    media = [entry for entry in results if entry.candidate.kind == MEDIA]
    media.sort(key=lambda entry: -entry.score)
    if order == "recent":
        times = {
            key: changed_at.timestamp()
            for key, _, changed_at in store.change_times([e.candidate.key for e in media])
            if changed_at is not None
        }
        media.sort(key=lambda entry: -times.get(entry.candidate.key, -inf))
    in_order = iter(media)
    for entry in results:
        if entry.candidate.kind == MEDIA:
            entry = next(in_order)
        yield entry
    yield from entries


def _uri(entry: Entry) -> str:
    document, message = entry.identity
    return uri_of(entry.candidate.kind, document, message)


def _query_words(query: str) -> list[Word]:
    if not query.strip():
        return []
    node = parse_query(query).node
    if node is None:
        return []
    return words(node)


def _offset_of_words(units: Units, unit: int, retrieval: Retrieval) -> int:
    """Where the words of the query are in a unit, for locations without an offset."""
    query_words = _query_words(retrieval.query)
    return best_match(units.text(unit), query_words, retrieval.snippet_length) or 0


def _join_notes(reason: str, place: str) -> str:
    """Why an answer is not about the location in the request, and what it is about instead."""
    if not reason:
        return ""
    return f"{reason} {place}"
