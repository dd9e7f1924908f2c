"""Searches: one page of results, with the values that the template needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from recollect.errors import SearchTimeout
from recollect.knowledge.options import KnowledgeOptions
from recollect.language.queries.query import parse_query
from recollect.language.text import storable
from recollect.library import Library
from recollect.model.kinds import KIND_TABLE
from recollect.model.search import Page, SearchOptions
from recollect.search.deadline import NOTE as INCOMPLETE
from recollect.search.evidence import UNRELATED
from recollect.search.queries.period_questions import BY_TIME
from recollect.serve.console.request_params import ListFilters, SearchRequest
from recollect.serve.console.tabs import (
    ALL_KINDS,
    CONVERSATIONS,
    ITEM_KINDS,
    MEDIA,
    NOTES,
    TABS,
    count_items,
)
from recollect.serve.console.views.hit_views import api_sources, hit_view
from recollect.serve.console.views.result_views import Result, conversation_result, item_result
from recollect.serve.console.views.suggestions import (
    advice,
    corrected_query,
    matching_verb,
    suggest,
)
from recollect.serve.http.access import Access
from recollect.serve.identity.principal import KNOWLEDGE, READ

_RESULTS_PER_PAGE = 15
_ABSENCE = re.compile(r"(?:Nothing|No [a-z ]+) mentions “[^”]*”(?: or “[^”]*”)*\.")
"""The remark on words that occur nowhere."""
_ITEM_SOURCES = tuple(kind.knowledge for kind in KIND_TABLE if kind.plural in ITEM_KINDS)
_CORRECTION = re.compile("Searched for “[^”]*” instead of “[^”]*”\\. ?")


def _texts(results: Sequence[Result]) -> Iterator[str]:
    """The texts that a page of results shows."""
    for result in results:
        yield result.title
        yield from (line.snippet for line in result.lines)


def searched_kind(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> str:
    """What to search if the person did not choose: everything.

    With filters, which belong to conversations, only conversations.
    """
    if request.kind in (*TABS, ALL_KINDS):
        return request.kind
    if count_items(access, library) and not filters.count:
        return ALL_KINDS
    return CONVERSATIONS


def search(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    """One page of results. Conversations and items have pages of their own, which are merged."""
    kind = searched_kind(access, library, request, filters)
    searches = []
    if kind in (CONVERSATIONS, ALL_KINDS):
        searches.append(partial(_search_conversations, access, library, request, filters))
    if kind != CONVERSATIONS:
        access.require(READ, KNOWLEDGE)
        searches.append(partial(_search_items, access, library, request, filters, kind))
    results = _merge(_in_time(searches))
    results |= {
        "uses_filters": kind == CONVERSATIONS and bool(filters.count),
        "corrected_query": corrected_query(
            request.query, results["corrections"], _texts(results["results"])
        ),
        "suggestions": [],
        "advice": "",
        "verb": matching_verb(request.query, search_options(request).now),
        "next_offset": request.offset + _RESULTS_PER_PAGE,
    }
    if not results["results"]:
        results["suggestions"] = suggest(request, filters, kind)
        results["advice"] = advice(request.query, is_empty=not library.size())
        if results["verb"] == "mentions":  # the heading says so
            results["note"] = _ABSENCE.sub("", results["note"]).strip()
    return {"is_first_page": request.offset == 0, "search_kind": kind, "results": results}


def _in_time(searches: Sequence[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
    """The parts of the page. One that took too long is left out if another one has results."""
    parts: list[dict[str, Any]] = []
    timeout: SearchTimeout | None = None
    for search in searches:
        try:
            parts.append(search())
        except SearchTimeout as error:
            timeout = error
    if timeout is None:
        return parts
    if not any(part["results"] for part in parts):
        raise timeout
    return [part | {"note": f"{part['note']} {INCOMPLETE}".strip()} for part in parts]


def _merge(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of all parts, best first, and what is known about the search."""
    results = [result for part in parts for result in part["results"]]
    nearest = [result for part in parts for result in part["nearest"]]
    best_nearest = sorted(nearest, key=lambda result: -result.score)
    return {
        "results": sorted(results, key=lambda result: -result.score),
        "nearest": best_nearest[:3],
        "note": _note_on_all(parts),
        "corrections": {k: v for part in reversed(parts) for k, v in part["corrections"].items()},
        "matched": parts[0]["matched"],
        "mode": parts[0]["mode"],
        "has_more": any(part["has_more"] for part in parts),
    }


def _note_on_all(parts: list[dict[str, Any]]) -> str:
    """What is true of all parts.

    A word that only notes have is in no message, but it is found. If the messages are probably
    unrelated, the notes need not be. A project that no message is in may be one of notes.
    """
    note: str = parts[0]["note"]
    if len(parts) == 1:
        return note
    conversations, items = parts
    if items["results"] and not conversations["results"]:
        note = items["note"]
    absent = [word for word in conversations["missing"] if f"“{word}”" in items["note"]]
    remarks = [_ABSENCE.sub("", note).replace(UNRELATED, "").replace(INCOMPLETE, "").strip()]
    if absent:
        quoted = [f"“{word}”" for word in absent]
        remarks.append(f"Nothing mentions {' or '.join(quoted)}.")
    results = [part for part in parts if part["results"]]
    if results and all(part["is_weak"] for part in results):
        remarks.append(UNRELATED)
    if any(part["is_partial"] for part in parts):
        remarks.append(INCOMPLETE)
    return " ".join(filter(None, remarks))


def search_options(request: SearchRequest) -> SearchOptions:
    return SearchOptions(
        request.mode,
        "conversation",
        _RESULTS_PER_PAGE,
        request.offset,
        typing=request.typing,
        correct=request.correct,
    )


def _search_conversations(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    options = search_options(request)
    page = library.search(
        request.query, filters.message_filter(), options, audience=access.principal.audience
    )

    def results(hits: Any) -> list[Result]:
        return [conversation_result(library, access.principal, hit, page) for hit in hits]

    return {
        "results": results(page.hits),
        "nearest": results(page.nearest),
        "note": _without_corrections(page.note, page.corrections),
        "missing": page.missing,
        "is_weak": page.weak,
        "is_partial": page.partial,
        "corrections": page.corrections,
        "matched": page.matched,
        "mode": page.mode,
        # Conversations beyond the ranked ones are counted only as far as they are shown.
        "has_more": len(page.hits) == options.limit and not _is_last(page),
    }


def _is_last(page: Page) -> bool:
    return page.exact and page.offset + len(page.hits) >= page.total


def _without_corrections(note: str, corrections: Mapping[str, str]) -> str:
    """The note without the sentence about corrections, which the page shows with a button.

    The words of the note have their accents, those of the corrections have none.
    """
    return _CORRECTION.sub("", note, count=len(corrections)).strip() if corrections else note


def _search_items(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters, kind: str
) -> dict[str, Any]:
    kind_filters: dict[str, dict[str, Any]] = {}
    if kind == NOTES and filters.tags:
        kind_filters = {NOTES: {"keywords": list(filters.tags)}}
    if kind == MEDIA and filters.media_types:
        kind_filters = {MEDIA: {"media_types": list(filters.media_types)}}
    options = KnowledgeOptions(
        sources=api_sources(kind) or _ITEM_SOURCES,
        limit=_RESULTS_PER_PAGE,
        offset=request.offset,
        mode=request.mode,
        filters=kind_filters,
        typing=request.typing,
        correct=request.correct,
    )
    audience = access.principal.audience
    response = library.knowledge.search(request.query, options, audience=audience)

    is_match = _searches_words(request.query, response.get("note", ""))

    def results(name: str) -> list[Result]:
        views = []
        for result in response.get(name, ()):
            title = library.label(result["id"], result["title"] or "")
            view = hit_view({**result, "title": title}, request.query)
            views.append(item_result(view, is_match=is_match and name == "results"))
        return views

    corrections = response.get("corrections", {})
    return {
        "results": results("results"),
        "nearest": results("nearest"),
        "note": _without_corrections(response.get("note", ""), corrections),
        "is_weak": response.get("weak", False),
        "is_partial": response.get("partial", False),
        "corrections": corrections,
        "matched": "all",
        "mode": request.mode,
        "has_more": response["has_more"],
    }


def _searches_words(query: str, note: str) -> bool:
    """Whether results match words. For fields or a time alone, they are only listed."""
    return parse_query(storable(query)).node is not None and not note.startswith(BY_TIME)
