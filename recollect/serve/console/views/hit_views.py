"""Results of a search over all kinds, as the templates show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.language.queries.query import parse_query
from recollect.language.queries.query_tree import words
from recollect.language.text import moment, storable
from recollect.model.documents import Json
from recollect.model.kinds import KIND_TABLE
from recollect.search.snippets import snippet
from recollect.serve import links
from recollect.serve.console.tabs import CONVERSATIONS, TABS, Tab
from recollect.serve.console.views.forms import FIELD_LABELS
from recollect.serve.console.views.text_windows import WINDOW_PASSAGES, format_clock

_MAX_TAGS = 3
_PLURALS = {kind.knowledge: kind.plural for kind in KIND_TABLE}
_API_NAMES = {kind.plural: kind.knowledge for kind in KIND_TABLE}


class HitView(NamedTuple):
    id: str
    url: str
    tab: Tab
    title: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    score: float
    score_type: str
    """How it was found: by words ("fts"), by meaning ("vector"), or both ("hybrid")."""
    updated_at: datetime | None
    sender: str
    place: str
    """Where in the item: a time, a page or a field."""
    media_type: str
    tags: Sequence[str]


def api_sources(kind: str) -> tuple[str, ...]:
    """The `sources` of the Knowledge API for one kind; none for all kinds."""
    if kind in _API_NAMES:
        return (_API_NAMES[kind],)
    return ()


def hit_view(result: Mapping[str, Json], query: str) -> HitView:
    """A result of the Knowledge API."""
    kind = _PLURALS[result["source"]]
    location = result["loc"] or {}
    text, marks = _mark_words(result["snippet"] or "", query)
    return HitView(
        id=result["id"],
        url=_url(kind, result, location, query),
        tab=TABS[kind],
        title=result["title"] or "",
        snippet=text,
        marks=marks,
        score=result["score"],
        score_type=result["score_type"],
        updated_at=moment(result["last_modified"]),
        sender=result["sender"] or "",
        place=_describe_location(location),
        media_type=result["media_type"] or "",
        tags=(result["tags"] or [])[:_MAX_TAGS],
    )


def _mark_words(text: str, query: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Mark the words of the query in a snippet, without cutting it."""
    try:
        node = parse_query(storable(query)).node
    except InvalidInput:
        return text, ()
    if node is None:
        return snippet(text, [], 4 * len(text) + 8)
    return snippet(text, words(node), 4 * len(text) + 8)


def _url(kind: str, result: Mapping[str, Json], location: Mapping[str, Json], query: str) -> str:
    if kind == CONVERSATIONS:
        return links.conversation_url(result["id"], m=result["message_id"], q=query)
    position = None
    index = location.get("chunk_index")
    if isinstance(index, int) and index >= WINDOW_PASSAGES and "field" not in location:
        position = str(index)
    url = links.item_url(kind, result["id"], q=query, p=position)
    seconds = location.get("seconds")
    if seconds is not None:
        return f"{url}#t={int(seconds)}"
    if location.get("field") in FIELD_LABELS:
        return f"{url}#f-{location['field']}"
    return url


def _describe_location(location: Mapping[str, Json]) -> str:
    seconds = location.get("seconds")
    if seconds is not None:
        return f"at {format_clock(seconds)}"
    page = location.get("page")
    if page is not None:
        return f"page {page}"
    return FIELD_LABELS.get(str(location.get("field")), "").lower()
