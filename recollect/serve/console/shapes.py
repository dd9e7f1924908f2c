"""What templates show: rows of the list, messages of a conversation, receipts."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from markupsafe import Markup

from recollect.errors import NotFound
from recollect.knowledge.results import KINDS as SOURCES
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Json, Passage, Summary
from recollect.model.kinds import NOTE
from recollect.model.receipts import Counts, FileReceipt, Receipt
from recollect.serve import links
from recollect.serve.console import rendering
from recollect.serve.console.asking import Wanted
from recollect.serve.console.kinds import CONVERSATIONS, KINDS, Kind, kind_of
from recollect.serve.http.principal import Principal
from recollect.serve.masking import mask_passage

ROWS = 50
WINDOW = 40
_COLLAPSED = {
    "thinking": "Thinking",
    "tool_call": "Tool call",
    "tool_result": "Tool result",
    "context": "Context",
    "summary": "Summary",
}
_AS_WRITTEN = ("tool_call", "tool_result")
_BUDGET = 120_000  # characters of Markdown in one window; what comes after is folded earlier
_FOLDED_EARLY = 1_500
_RENDER_SECONDS = 0.5  # for a window; what comes after is shown as it is written
_PEEK = 140


# -- the list ---


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    title: str
    origin: str
    namespace: str
    updated_at: datetime | None
    message_count: int
    tags: tuple[str, ...]
    url: str
    version: int
    about: str
    """What else there is to say of it, in a few words."""


@dataclass(frozen=True, slots=True)
class Rows:
    items: Sequence[Row]
    offset: int
    total: int
    current: str
    kind: Kind = KINDS[CONVERSATIONS]


def rows(
    library: Library,
    filters: Wanted,
    offset: int,
    limit: int,
    current: str = "",
    source: str = CONVERSATIONS,
) -> Rows:
    """A piece of the list of a kind."""
    if source == CONVERSATIONS:
        found, total = library.conversations(
            limit=limit, offset=offset, search=filters.title, **filters.of_messages()
        )
    else:
        found, total = library.knowledge.list(
            source,
            search=filters.title,
            tags=filters.tags,
            media_types=filters.types,
            limit=limit,
            offset=offset,
        )
    return Rows([_row(item, source) for item in found], offset, total, current, kind_of(source))


def _row(item: Summary, source: str) -> Row:
    when = item.updated_at or item.created_at
    url = (
        links.conversation_url(item.id)
        if source == CONVERSATIONS
        else links.item_url(source, item.id)
    )
    return Row(
        item.id,
        item.title,
        item.source,
        item.project,
        when,
        item.message_count,
        tags_of(item.metadata)[:3],
        url,
        item.version,
        _about(item),
    )


def _about(item: Summary) -> str:
    said = [item.metadata.get(name) for name in ("media_type", "author", "creator")]
    folder = (
        str(item.metadata.get("file") or "").replace("\\", "/").rpartition("/")[0]
        if item.kind == NOTE
        else ""
    )
    return truncate(
        " · ".join(word for word in [*said, folder] if isinstance(word, str) and word), 100
    )


def tags_of(metadata: Mapping[str, Json]) -> tuple[str, ...]:
    tags = metadata.get("tags")
    return tuple(str(tag) for tag in tags) if isinstance(tags, (list, tuple)) else ()


def facets(library: Library, source: str = CONVERSATIONS) -> dict[str, list[tuple[str, int]]]:
    """What a list can be filtered by, with how many have each; most first."""
    known = library.facets() if source == CONVERSATIONS else library.store.facets(SOURCES[source])
    found = {
        name: [(str(value), int(count)) for value, count in known[name]]
        for name in ("projects", "sources", "tags")
    }
    return found | {"types": library.knowledge.media_types() if source == "media" else []}


def conversations_in(known: Mapping[str, Sequence[tuple[str, int]]]) -> int:
    """How many conversations there are in all. Messages are not counted for a page: of a million that takes seconds."""
    return sum(count for _, count in known["sources"])


# -- a conversation ---


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the page shows it."""

    passage: Passage
    index: int
    siblings: tuple[str, ...]
    at: int
    body: Markup
    left: int
    """Characters that are folded away."""

    @property
    def collapsed(self) -> bool:
        return self.passage.type in _COLLAPSED or self.passage.visibility == "hidden"

    @property
    def label(self) -> str:
        if self.passage.visibility == "hidden":
            return f"Hidden {self.passage.role or 'message'}"
        return _COLLAPSED.get(self.passage.type, self.passage.type)

    @property
    def name(self) -> str:
        return self.passage.author or (self.passage.role or "unknown").capitalize()

    @property
    def style(self) -> str:
        return (
            "is-hidden"
            if self.passage.visibility == "hidden"
            else "is-aside"
            if self.collapsed
            else ""
        )

    @property
    def peek(self) -> str:
        return " ".join(self.passage.content[:_PEEK].split())

    @property
    def attachments(self) -> list[str]:
        return [_described(item) for item in self.passage.attachments]

    @property
    def citations(self) -> list[str]:
        return [_described(item) for item in self.passage.citations]


def opened(
    library: Library,
    principal: Principal,
    conversation_id: str,
    *,
    through: str = "",
    around: str = "",
    start: int | None = None,
    limit: int = WINDOW,
) -> dict[str, Any]:
    """A window of a conversation, as templates want it. A message that is not there any more is not insisted on."""
    try:
        view = library.view(
            conversation_id,
            through=through or None,
            around=around or None,
            start=start,
            limit=limit,
        )
    except NotFound:
        if not through and not around:
            raise
        through = around = ""
        view = library.view(conversation_id, start=start, limit=limit)
    messages = []
    budget, until = _BUDGET, time.monotonic() + _RENDER_SECONDS
    for index, shown in enumerate(view.messages, view.start):
        passage = mask_passage(shown.passage, principal.audience)
        length = rendering.FOLD if budget > 0 else _FOLDED_EARLY
        body, left = body_of(passage, length, as_written=time.monotonic() > until)
        budget -= len(passage.content) - left
        messages.append(Message(passage, index, tuple(shown.siblings), shown.index, body, left))
    return {
        "document": view.document,
        "view": view,
        "messages": messages,
        "through": through,
        "target": around,
    }


def body_of(passage: Passage, length: int, *, as_written: bool = False) -> tuple[Markup, int]:
    """A message's text as HTML, and how many characters of it are left out."""
    text = passage.content
    shown = rendering.beginning(text, length)
    made = (
        rendering.plain(shown)
        if as_written or passage.type in _AS_WRITTEN
        else rendering.markdown(shown)
    )
    return made, len(text) - len(shown)


def _described(item: Json) -> str:
    """An attachment or citation in a few words: its name and its address, wherever the origin put them."""
    if isinstance(item, Mapping):
        name = _first(item, ("name", "title", "file_name", "filename")) or _first(
            item, ("text", "id")
        )
        address = _first(item, ("url", "uri"))
        if name or address:
            return truncate(
                f"{name} ({address})" if name and address and name != address else name or address,
                300,
            )
    return truncate(
        item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str), 300
    )


def _first(item: Mapping[str, Json], names: Sequence[str]) -> str:
    inner = item.get("metadata")
    for mapping in (item, inner if isinstance(inner, Mapping) else {}):
        for name in names:
            value = mapping.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""


# -- receipts ---


@dataclass(frozen=True, slots=True)
class ReceiptShown:
    id: int
    name: str
    started_at: datetime
    finished_at: datetime | None
    undone_at: datetime | None
    files: Sequence[FileReceipt]
    left_out: Counts
    units: tuple[str, str]
    """What is counted, for people to read."""
    conversations: Counts = field(default_factory=Counts)
    messages: Counts = field(default_factory=Counts)

    @property
    def problems(self) -> int:
        kinds = [c for f in self.files for c in (f.conversations, f.messages)] + [self.left_out]
        return sum(len(c.skipped) + len(c.failed) for c in kinds)

    @property
    def failures(self) -> bool:
        return bool(self.conversations.failed or self.messages.failed or self.left_out.failed)


def receipt_shown(receipt: Receipt, name: str) -> ReceiptShown:
    return ReceiptShown(
        receipt.id,
        name,
        receipt.started_at,
        receipt.finished_at,
        receipt.undone_at,
        receipt.files,
        receipt.left_out,
        receipt.units,
        _summed([f.conversations for f in receipt.files]),
        _summed([f.messages for f in receipt.files]),
    )


def _summed(parts: Sequence[Counts]) -> Counts:
    total = Counts(
        sum(p.new for p in parts), sum(p.same for p in parts), sum(p.changed for p in parts)
    )
    for part in parts:
        for mine, theirs in ((total.skipped, part.skipped), (total.failed, part.failed)):
            for reason, count in theirs.items():
                mine[reason] = mine.get(reason, 0) + count
    return total


def in_words(month: str) -> str:
    """2026-05 as "May 2026"."""
    year, _, number = month.partition("-")
    return f"{calendar.month_name[int(number)]} {year}"
