"""What the console has a tab for: conversations, and what else a library holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.library import Library
from recollect.serve.http.access import Access
from recollect.serve.http.principal import READ, Forbidden

KNOWLEDGE = "knowledge"
"""The toolset that a key needs for all but conversations."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    """As addresses say it."""
    label: str
    one: str
    many: str
    way: str
    """How people get some into their library."""

    @property
    def url(self) -> str:
        return "/" if self.name == CONVERSATIONS else f"/knowledge/{self.name}"


CONVERSATIONS = "conversations"
_FOLDER = "or import a folder with"
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(CONVERSATIONS, "Conversations", "conversation", "conversations", ""),
        Kind(
            "notes",
            "Notes",
            "note",
            "notes",
            f"Write one here, drop Markdown files anywhere on this page, {_FOLDER} recollect import --as notes FOLDER.",
        ),
        Kind(
            "media",
            "Media",
            "media item",
            "media items",
            "Drop a PDF, an e-book, an article, a document or a transcript (SRT, VTT) anywhere on this page, "
            f"{_FOLDER} recollect import --as media FOLDER.",
        ),
        Kind(
            "characters",
            "Characters",
            "character",
            "characters",
            "Drop character cards (PNG, JSON, CHARX) anywhere on this page, or write one here.",
        ),
        Kind(
            "prompts",
            "Prompts",
            "prompt",
            "prompts",
            "Write one here, or drop prompts (JSON, CSV, Markdown) anywhere on this page.",
        ),
    )
}
OTHERS = tuple(name for name in KINDS if name != CONVERSATIONS)
EVERYTHING = "all"


def kind_of(name: str) -> Kind:
    """Raises NotFound."""
    if name not in KINDS:
        raise NotFound(f"There is no page for {truncate(name, 80)!r}.")
    return KINDS[name]


def toolset_of(source: str) -> str:
    """The toolset that a key needs to read a kind."""
    return CONVERSATIONS if source == CONVERSATIONS else KNOWLEDGE


def may_read(access: Access) -> bool:
    """Whether the credential may read more than conversations."""
    try:
        access.require(READ, KNOWLEDGE)
    except Forbidden:
        return False
    return True


def amounts(access: Access, library: Library) -> dict[str, int]:
    """How much there is of each kind but conversations, where there is any."""
    if not may_read(access):
        return {}
    counted = {name: library.knowledge.list(name, limit=1)[1] for name in OTHERS}
    return {name: count for name, count in counted.items() if count}
