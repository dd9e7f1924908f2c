"""Searches: one page of hits, with the values that the template needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recollect.knowledge.options import KnowledgeOptions
from recollect.library import Library
from recollect.model.search import Hit, SearchOptions
from recollect.serve.console.request_params import ListFilters, SearchRequest
from recollect.serve.console.tabs import (
    ALL_KINDS,
    CONVERSATIONS,
    MEDIA,
    NOTES,
    TABS,
    count_items,
)
from recollect.serve.console.views.hit_views import api_sources, hit_view
from recollect.serve.console.views.rows import count_conversations, list_facets
from recollect.serve.http.access import Access
from recollect.serve.identity.principal import KNOWLEDGE, READ
from recollect.serve.masking import mask_hit

_HITS_PER_PAGE = 20


def search(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    """One page of hits.

    If the person did not choose what to search, everything is searched; with filters, which belong
    to conversations, only conversations.
    """
    item_kinds = list(count_items(access, library))
    kind = request.kind
    if kind not in (*TABS, ALL_KINDS):
        kind = CONVERSATIONS
        if item_kinds and not filters.count:
            kind = ALL_KINDS
    values = {
        "is_first_page": request.offset == 0,
        "search_kind": kind,
        "search_tabs": [TABS[name] for name in (CONVERSATIONS, *item_kinds)],
        "searched_conversations": 0,
    }
    if kind != CONVERSATIONS:
        access.require(READ, KNOWLEDGE)
        return values | {"results": _search_items(access, library, request, filters, kind)}
    results = _search_messages(access, library, request, filters)
    if not results["total"]:
        values["searched_conversations"] = count_conversations(list_facets(library))
    return values | {"results": results}


def _search_messages(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters
) -> dict[str, Any]:
    page = library.search(
        request.query,
        filters.message_filter(),
        SearchOptions(
            request.mode,
            request.group,
            _HITS_PER_PAGE,
            request.offset,
            typing=request.typing,
            correct=request.correct,
        ),
        audience=access.principal.audience,
    )
    next_offset = page.offset + len(page.hits)
    return {
        "hits": [_visible_hit(access, library, hit) for hit in page.hits],
        "total": page.total,
        "offset": page.offset,
        "is_exact": page.exact,
        "matched": page.matched,
        "mode": page.mode,
        "note": page.note,
        "corrections": page.corrections,
        "nearest": [_visible_hit(access, library, hit) for hit in page.nearest],
        "next_offset": next_offset,
        "has_more": next_offset < page.total,
        "uses_filters": bool(filters.count),
    }


def _visible_hit(access: Access, library: Library, hit: Hit) -> Hit:
    title = library.label(hit.conversation_id, hit.title)
    return replace(mask_hit(hit, access.principal.audience), title=title)


def _search_items(
    access: Access, library: Library, request: SearchRequest, filters: ListFilters, kind: str
) -> dict[str, Any]:
    kind_filters: dict[str, dict[str, Any]] = {}
    if kind == NOTES and filters.tags:
        kind_filters = {NOTES: {"keywords": list(filters.tags)}}
    if kind == MEDIA and filters.media_types:
        kind_filters = {MEDIA: {"media_types": list(filters.media_types)}}
    options = KnowledgeOptions(
        sources=api_sources(kind),
        limit=_HITS_PER_PAGE,
        offset=request.offset,
        mode=request.mode,
        filters=kind_filters,
        typing=request.typing,
        correct=request.correct,
        fold=True,
    )
    audience = access.principal.audience
    response = library.knowledge.search(request.query, options, audience=audience)
    for result in (*response["results"], *response.get("nearest", ())):
        result["title"] = library.label(result["id"], result["title"] or "")
    total = request.offset + len(response["results"])
    if response["has_more"]:
        total = response["total_estimated"]
    return {
        "hits": [hit_view(result, request.query) for result in response["results"]],
        "total": total,
        "offset": request.offset,
        "is_exact": not response["has_more"],
        "matched": "all",
        "mode": request.mode,
        "note": response.get("note", ""),
        "corrections": response.get("corrections", {}),
        "nearest": [hit_view(result, request.query) for result in response.get("nearest", ())],
        "next_offset": response["next_offset"],
        "has_more": response["has_more"],
        "uses_filters": bool(kind_filters),
    }
