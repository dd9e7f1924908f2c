"""The tabs of the console: one for each kind of document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.kinds import KIND_TABLE
from recollect.serve import links
from recollect.serve.http.access import Access
from recollect.serve.identity.principal import KNOWLEDGE, READ

CONVERSATIONS, NOTES, MEDIA, CHARACTERS, PROMPTS = (kind.plural for kind in KIND_TABLE)
ALL_KINDS = "all"
"""What to search, if not one kind."""

_NOUNS = {MEDIA: ("media item", "media items")}
_IMPORT_HINTS = {
    NOTES: (
        "Write a note, drop Markdown files anywhere on this page, "
        "or import a folder: recollect import --as notes FOLDER"
    ),
    MEDIA: (
        "Drop PDFs, e-books, articles, documents or transcripts (SRT, VTT) anywhere on this page, "
        "or import a folder: recollect import --as media FOLDER"
    ),
    CHARACTERS: "Drop character cards (PNG, JSON, CHARX) anywhere on this page, or write one.",
    PROMPTS: "Write a prompt, or drop prompt files (JSON, CSV, Markdown) anywhere on this page.",
}


class Tab(NamedTuple):
    """A kind of document, as the console presents it."""

    name: str
    """In addresses: `notes`."""
    kind: str
    source: str
    """Its name in the Knowledge API."""
    label: str
    url: str
    singular: str
    plural: str
    import_hint: str
    """How to add the first ones."""


TABS: Mapping[str, Tab] = {
    kind.plural: Tab(
        kind.plural,
        kind.name,
        kind.knowledge,
        kind.plural.capitalize(),
        "/" if kind.plural == CONVERSATIONS else f"/knowledge/{kind.plural}",
        *_NOUNS.get(kind.plural, (kind.name, kind.plural)),
        _IMPORT_HINTS.get(kind.plural, ""),
    )
    for kind in KIND_TABLE
}
TABS_BY_KIND = {tab.kind: tab for tab in TABS.values()}
TABS_BY_SOURCE = {tab.source: tab for tab in TABS.values()}
ITEM_KINDS = tuple(name for name in TABS if name != CONVERSATIONS)


def get_tab(kind: str) -> Tab:
    """Raises NotFound."""
    if kind not in TABS:
        raise NotFound(f"There is no page for {truncate(kind, 80)!r}.")
    return TABS[kind]


def document_url(kind: str, id: str, **parameters: str | None) -> str:
    """The page of a conversation or item."""
    if kind == CONVERSATIONS:
        return links.conversation_url(id, **parameters)
    return links.item_url(kind, id, **parameters)


def toolset_for(kind: str) -> str:
    """The toolset that a key needs to read this kind. Raises NotFound."""
    return CONVERSATIONS if get_tab(kind).name == CONVERSATIONS else KNOWLEDGE


def can_read_items(access: Access) -> bool:
    return READ in access.principal.scopes and access.principal.has_toolset(KNOWLEDGE)


def count_items(access: Access, library: Library) -> dict[str, int]:
    """How many items there are of each kind; kinds without items are left out."""
    if not can_read_items(access):
        return {}
    counts = {kind: library.knowledge.list(kind, limit=1)[1] for kind in ITEM_KINDS}
    return {kind: count for kind, count in counts.items() if count}
