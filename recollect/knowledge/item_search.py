"""Search over all kinds of items: one list of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from recollect.index.meaning import Meaning
from recollect.knowledge.listing import passages_with_summaries
from recollect.knowledge.options import KnowledgeOptions, validate_query
from recollect.knowledge.reading import LEAST_TEXT, json_length
from recollect.knowledge.result_pages import (
    ResultHistory,
    ResultPage,
    entry_uri,
    passage_uri,
    result_page,
)
from recollect.knowledge.results import SnippetOptions, result
from recollect.knowledge.units import Messages
from recollect.language.queries.query import query_words
from recollect.language.queries.query_tree import Word, matches
from recollect.model.audience import Audience
from recollect.model.documents import Json, Passage, Summary
from recollect.model.kinds import CONVERSATION, MEDIA
from recollect.model.search import SearchOptions
from recollect.search.everything import Entry, Results, search_everything
from recollect.search.snippets import first_match
from recollect.settings import LIMITS
from recollect.store.audience import visible_store
from recollect.store.base import Store
from recollect.store.values import Candidate

MOST_RESULTS = 100
_SCORE_TYPES = {("text",): "fts", ("vector",): "vector", ("text", "vector"): "hybrid"}
"""How a result was found, in the terms of the Knowledge API."""


class ItemSearch:
    """The search of the Knowledge API on one library."""

    def __init__(self, store: Store, meaning: Meaning) -> None:
        self._store = store
        self._meaning = meaning

    def search(
        self,
        query: str,
        options: KnowledgeOptions,
        audience: Audience,
        history: ResultHistory | None,
    ) -> dict[str, Json]:
        """A page of everything that matches. See `Knowledge.search`."""
        with self._store.snapshot():
            return self._page(query, options, audience, history)

    def _page(
        self,
        query: str,
        options: KnowledgeOptions,
        audience: Audience,
        history: ResultHistory | None,
    ) -> dict[str, Json]:
        limit = max(1, min(options.limit, MOST_RESULTS))
        offset = max(0, min(options.offset, LIMITS.page_offset))
        results = self._search(query, options, audience)
        if sorts_media_apart(options):
            media = self._search(query, replace(options, sources=["media"]), audience).entries()
            entries = with_media_order(results.entries(), media)
            skipped = sum(1 for _ in islice(entries, offset))
        else:
            skipped, entries = results.entries_from(offset)
        total = results.total()
        unwritten = self._conversations_without_messages(results, options, audience)
        entries = chain(entries, entries_of(unwritten[offset - skipped :], 0 if total else 1))
        skipped = min(offset, skipped + len(unwritten))
        page = result_page(entries, limit, skipped, history)
        by_uri = self._results(results, page.entries, options, audience)
        answer: dict[str, Json] = {
            "results": [],
            "has_more": page.has_more,
            "next_offset": page.next_offset,
            "total_estimated": total + len(unwritten),
        }
        if total or not unwritten:
            answer |= _remarks(results, page)
        room = options.room - json_length(answer)
        answer["results"] = that_fit(by_uri.values(), room)
        missing = list(by_uri)[len(answer["results"]) :]
        uris = [entry_uri(entry) for entry in page.entries]
        if missing:
            page = page.first(uris.index(missing[0]))
        if history is not None:
            history.returned(map(passage_uri, page.entries))
        answer["has_more"], answer["next_offset"] = page.has_more, None
        if page.has_more:
            answer["next_offset"] = page.next_offset
        if not by_uri and offset == 0:
            nearest = self._results(results, results.nearest(), options, audience)
            if nearest:
                answer["nearest"] = that_fit(nearest.values(), room)
        return answer

    def _search(self, query: str, options: KnowledgeOptions, audience: Audience) -> Results:
        """The results of a search. Raises InvalidInput."""
        kind_queries = options.kind_queries()
        order, media_order = options.order_by, options.media_order
        if has_only_media(options):
            order = media_order
        return search_everything(
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

    def _conversations_without_messages(
        self, results: Results, options: KnowledgeOptions, audience: Audience
    ) -> list[Summary]:
        """Those whose titles match."""
        store, node = visible_store(self._store, audience), results.title_node
        by_message = options.filters.get("chats", {}).get("by") == "message"
        return [
            about
            for filter in results.title_filters
            if CONVERSATION in filter.kinds and not filter.of_passages and not by_message
            for about in store.summaries(replace(filter, empty=True), "", LIMITS.page_offset, 0)[0]
            if node is None or matches(node, about.title, "")
        ]

    def _results(
        self,
        results: Results,
        entries: Sequence[Entry],
        options: KnowledgeOptions,
        audience: Audience,
    ) -> dict[str, dict[str, Json]]:
        """The results of a page by URI, without items that were deleted meanwhile."""
        keys = [entry.candidate.key for entry in entries]
        passages = passages_with_summaries(self._store, keys)
        recent_words: list[Word] = []
        for text in reversed(options.recent_queries):
            recent_words += query_words(text)
        by_uri: dict[str, dict[str, Json]] = {}
        for entry in entries:
            candidate = entry.candidate
            if not candidate.key:
                by_uri[entry_uri(entry)] = self._unwritten(entry, options)
            if candidate.key not in passages:
                continue
            about, passage = passages[candidate.key]
            if entry.by_title:
                passage = self._opening(about, passage, audience)
            snippet_words = results.words
            if recent_words and first_match(passage.content, snippet_words) is None:
                snippet_words = recent_words
            fields = result(
                about,
                passage,
                SnippetOptions(snippet_words, options.snippet_length, audience),
                score=entry.score,
                score_type=_SCORE_TYPES[entry.arms],
                is_message=candidate.kind == CONVERSATION and not entry.by_title,
                by_title=entry.by_title,
            )
            if options.fold:
                fields["copies"] = entry.copies
            by_uri[entry_uri(entry)] = fields
        return by_uri

    def _unwritten(self, entry: Entry, options: KnowledgeOptions) -> dict[str, Json]:
        """A result for a conversation without messages."""
        about = self._store.summary(entry.candidate.document)
        fields = result(about, None, SnippetOptions(), score=entry.score, score_type="fts")
        place = {"snippet": about.title[: options.snippet_length]}
        return fields | place | {"loc": {"conversation_id": about.id}}

    def _opening(self, about: Summary, passage: Passage, audience: Audience) -> Passage:
        """The first message of a conversation, if it is not the passage that was found."""
        if passage.position == 0:
            return passage
        units = Messages(self._store, about.id, None, audience)
        if not len(units):
            return passage
        return units.passage(0)


def entries_of(conversations: Iterable[Summary], score: float) -> Iterator[Entry]:
    for a in conversations:
        place = (0, "", a.id, a.title, None, None, "", a.created_at, a.source, a.kind, a.project)
        candidate = Candidate(*place, position=0, canonical=True, passages=0, content="")
        yield Entry(candidate, score, by_title=True)


def that_fit(results: Iterable[dict[str, Json]], room: float) -> list[Json]:
    """The first results that fit; of a single one, as much of its snippet as does."""
    fitting: list[Json] = []
    for fields in results:
        length = json_length(fields) + len(", ")
        if length > room and fitting:
            break
        if length > room:
            size = max(LEAST_TEXT, len(fields["snippet"]) - int(length - room))
            fields["snippet"] = fields["snippet"][:size]
        room -= length
        fitting.append(fields)
    return fitting


def _remarks(results: Results, page: ResultPage) -> dict[str, Json]:
    """What the reader should know about the results. Fields that say nothing are left out."""
    remarks: dict[str, Json] = {
        "seen": page.seen,
        "partial": results.is_partial,
        "weak": results.is_weak,
        "note": results.note,
        "corrections": dict(results.corrections),
    }
    return {name: value for name, value in remarks.items() if value}


def has_only_media(options: KnowledgeOptions) -> bool:
    return all(source == "media" for source in options.sources or ("all",))


def sorts_media_apart(options: KnowledgeOptions) -> bool:
    """Whether media are among other kinds, and in another order."""
    has_media = not options.sources or "media" in options.sources
    return has_media and options.order_by != options.media_order and not has_only_media(options)


def with_media_order(entries: Iterator[Entry], media: Iterator[Entry]) -> Iterator[Entry]:
    """The results with the media in the order of a search for media alone.

    They stay in the places that media have.
    """
    for entry in entries:
        yield next(media, entry) if entry.candidate.kind == MEDIA else entry
