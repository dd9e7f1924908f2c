"""The frame of every page: the list in the sidebar, its filters, and the search box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query
from pydantic import AfterValidator

from recollect.knowledge.results import tags_of
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION, NOTE
from recollect.model.search import Filter
from recollect.model.sources import source_label
from recollect.serve.console.tabs import CONVERSATIONS, MEDIA, Tab, document_url, get_tab

ROWS = 50
"""Rows per request."""

# A form sends an empty value for "Any".
Values = Annotated[
    tuple[str, ...], Query(), AfterValidator(lambda values: tuple(filter(None, values)))
]


@dataclass(frozen=True, slots=True)
class ListFilters:
    """The filters above a list, named as in the address of the page."""

    project: Values = ()
    source: Values = ()
    tag: Values = ()
    role: Values = ()
    model: Values = ()
    type: Values = ()
    after: str = ""
    before: str = ""
    title: str = ""

    @property
    def count(self) -> int:
        """How many filters are set, without the title, which is always visible."""
        values = (self.project, self.source, self.tag, self.role, self.model, self.type)
        return sum(map(bool, (*values, self.after, self.before)))

    @property
    def is_active(self) -> bool:
        return self.count > 0 or bool(self.title)

    def message_filter(self, kinds: str | Sequence[str] = CONVERSATION) -> Filter:
        return Filter.of(
            kinds=kinds,
            projects=self.project,
            sources=self.source,
            tags=self.tag,
            roles=self.role,
            models=self.model,
            after=self.after or None,
            before=self.before or None,
        )

    @property
    def description(self) -> str:
        """The filters in words: `in project web, from ChatGPT`."""
        parts = [f"in project {name}" for name in self.project]
        parts += [f"from {source_label(name)}" for name in self.source]
        parts += [f"tagged {name}" for name in self.tag]
        parts += [f"with role {name}" for name in self.role]
        parts += [f"with a message by {name}" for name in self.model]
        parts += [f"of type {name}" for name in self.type]
        parts += [f"since {self.after}"] if self.after else []
        parts += [f"until {self.before}"] if self.before else []
        return ", ".join(parts)


Filters = Annotated[ListFilters, Depends()]


def frame(library: Library, kind: str, filters: ListFilters, current: str = "") -> dict[str, Any]:
    """The values for the frame. The sidebar lists `kind` and marks the document `current`."""
    return {
        "q": "",
        "filters": filters,
        "facets": list_facets(library, kind),
        "kind": kind,
        "page": list_rows(library, kind, filters, current=current),
    }


class Row(NamedTuple):
    summary: Summary
    title: str
    url: str
    details: str
    """Type, author and folder, for items."""
    tags: Sequence[str]


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
    if kind == CONVERSATIONS:
        filter_, title = filters.message_filter(), filters.title
        pinned = library.conversations(replace(filter_, pinned=True), title=title)
        others = library.conversations(replace(filter_, pinned=False), title=title)
        total = len(library.conversations(filter_, title=title))
        summaries = pinned[offset : offset + limit]
        start = max(0, offset - len(pinned))
        if len(summaries) < limit:
            summaries += others[start : start + limit - len(summaries)]
    else:
        summaries, total = library.knowledge.list(
            kind,
            search=filters.title,
            tags=filters.tag,
            media_types=filters.type,
            limit=limit,
            offset=offset,
        )
    rows = [row(library, summary, kind) for summary in summaries]
    return RowPage(rows, offset, total, current, get_tab(kind))


def first_rows(library: Library, title: str, limit: int) -> list[Row]:
    """The first rows whose title or id contains a text. The others are not counted."""
    summaries: list[Summary] = []
    for is_pinned in (True, False):
        filter_ = Filter.of(kinds=CONVERSATION, pinned=is_pinned)
        summaries += library.conversations(filter_, title=title)[: limit - len(summaries)]
    return [row(library, summary, CONVERSATIONS) for summary in summaries]


def row_index(library: Library, id: str, filters: ListFilters) -> int | None:
    """The place of a conversation in the list; None if the filters exclude it."""
    pinned = replace(filters.message_filter(), pinned=True)
    position = library.conversations(pinned, title=filters.title).position(id)
    if position is not None:
        return position
    others = library.conversations(replace(pinned, pinned=False), title=filters.title)
    position = others.position(id)
    if position is None:
        return None
    return position + library.conversation_page(pinned, title=filters.title, limit=1)[1]


def row(library: Library, summary: Summary, kind: str) -> Row:
    metadata = summary.metadata
    details = [metadata.get(name) for name in ("media_type", "author", "creator")]
    if summary.kind == NOTE:
        details.append(str(metadata.get("file") or "").replace("\\", "/").rpartition("/")[0])
    return Row(
        summary,
        library.label(summary.id, summary.title),
        document_url(kind, summary.id),
        truncate(" · ".join(text for text in details if isinstance(text, str) and text), 100),
        tags_of(metadata)[:3],
    )


def list_facets(library: Library, kind: str = CONVERSATIONS) -> dict[str, list[tuple[str, int]]]:
    """The values a list can be filtered by, with their counts, most frequent first."""
    counts = library.facets(get_tab(kind).kind)
    facets = {name: list(counts[name]) for name in ("projects", "sources", "tags")}
    media_types = library.knowledge.media_types() if kind == MEDIA else []
    return {**facets, "media_types": media_types}
