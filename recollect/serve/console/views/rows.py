"""The rows of the list in the sidebar, and the facets that it can be filtered by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from recollect.knowledge.results import tags_of
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION, KIND_TABLE, NOTE
from recollect.model.search import Filter
from recollect.serve import links
from recollect.serve.console.request_params import ListFilters
from recollect.serve.console.tabs import CONVERSATIONS, MEDIA, Tab, get_tab

ROWS = 50
"""Rows per request."""
_TAGS_PER_ROW = 3
_KIND_NAMES = {kind.plural: kind.name for kind in KIND_TABLE}

Facets = Mapping[str, Sequence[tuple[str, int]]]


class Row(NamedTuple):
    id: str
    title: str
    source: str
    project: str
    updated_at: datetime | None
    message_count: int
    tags: Sequence[str]
    url: str
    version: int
    details: str
    """Type, author and folder, for items."""
    is_pinned: bool = False


class RowPage(NamedTuple):
    rows: Sequence[Row]
    offset: int
    total: int
    current: str
    """The id of the open document."""
    tab: Tab


def list_rows(
    library: Library,
    kind: str,
    filters: ListFilters,
    *,
    offset: int = 0,
    limit: int = ROWS,
    current: str = "",
) -> RowPage:
    """One page of the list of a kind, most recently changed first.

    Pinned conversations come before all others.
    """
    summaries: Sequence[Summary]
    if kind == CONVERSATIONS:
        summaries, total = _list_conversations(library, filters, offset, limit)
    else:
        summaries, total = library.knowledge.list(
            kind,
            search=filters.title,
            tags=filters.tags,
            media_types=filters.media_types,
            limit=limit,
            offset=offset,
        )
    rows = [_row(library, summary, kind) for summary in summaries]
    return RowPage(rows, offset, total, current, get_tab(kind))


def _list_conversations(
    library: Library, filters: ListFilters, offset: int, limit: int
) -> tuple[list[Summary], int]:
    filter = filters.message_filter()
    pinned = library.conversations(replace(filter, pinned=True), title=filters.title)
    others = library.conversations(replace(filter, pinned=False), title=filters.title)
    pinned_total = len(pinned)
    summaries = pinned[offset : offset + limit]
    start = max(0, offset - pinned_total)
    if len(summaries) < limit:
        summaries += others[start : start + limit - len(summaries)]
    return summaries, len(library.conversations(filter, title=filters.title))


def first_rows(library: Library, title: str, limit: int) -> list[Row]:
    """The first rows whose title or id contains a text. The others are not counted."""
    summaries: list[Summary] = []
    for is_pinned in (True, False):
        filter = Filter.of(kinds=CONVERSATION, pinned=is_pinned)
        summaries += library.conversations(filter, title=title)[: limit - len(summaries)]
    return [_row(library, summary, CONVERSATIONS) for summary in summaries]


def row_index(library: Library, id: str, filters: ListFilters) -> int | None:
    """The place of a conversation in the list; None if the filters exclude it."""
    filter = filters.message_filter()
    position = library.list_position(id, replace(filter, pinned=True), title=filters.title)
    if position is not None:
        return position
    position = library.list_position(id, replace(filter, pinned=False), title=filters.title)
    if position is None:
        return None
    _, pinned_total = library.conversation_page(
        replace(filter, pinned=True), title=filters.title, limit=1
    )
    return position + pinned_total


def _row(library: Library, summary: Summary, kind: str) -> Row:
    if kind == CONVERSATIONS:
        url = links.conversation_url(summary.id)
    else:
        url = links.item_url(kind, summary.id)
    return Row(
        id=summary.id,
        title=library.label(summary.id, summary.title),
        source=summary.source,
        project=summary.project,
        updated_at=summary.updated_at or summary.created_at,
        message_count=summary.message_count,
        tags=tags_of(summary.metadata)[:_TAGS_PER_ROW],
        url=url,
        version=summary.version,
        details=_details(summary),
        is_pinned=summary.metadata.get("pinned") is True,
    )


def _details(summary: Summary) -> str:
    parts = [summary.metadata.get(name) for name in ("media_type", "author", "creator")]
    if summary.kind == NOTE:
        file = str(summary.metadata.get("file") or "").replace("\\", "/")
        parts.append(file.rpartition("/")[0])
    return truncate(" · ".join(part for part in parts if isinstance(part, str) and part), 100)


def list_facets(library: Library, kind: str = CONVERSATIONS) -> dict[str, list[tuple[str, int]]]:
    """The values a list can be filtered by, with their counts, most frequent first."""
    counts = library.facets(_KIND_NAMES[kind])
    facets = {
        name: [(str(value), int(count)) for value, count in counts[name]]
        for name in ("projects", "sources", "tags")
    }
    facets["media_types"] = []
    if kind == MEDIA:
        facets["media_types"] = library.knowledge.media_types()
    return facets


def count_conversations(facets: Facets) -> int:
    """The number of conversations. Counting messages would take seconds in a large library."""
    return sum(count for _, count in facets["sources"])
