"""Listing, exporting and counting conversations and items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.language.text import storable
from recollect.library.core import LibraryCore
from recollect.model.arguments import page_offset, page_size
from recollect.model.documents import Document, Summary
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import Filter, FilterArguments, filter_with, require_filter
from recollect.store.values import OnDamage

if TYPE_CHECKING:
    from recollect.knowledge.listing import ConversationList, FacetCache, ListPage


FACETS = ("projects", "sources", "tags")


class Listing(LibraryCore):
    def conversations(self, filter: Filter | None = None, *, title: str = "") -> ConversationList:
        """The conversations that match, last changed first. They are read when needed.

        Iterate over the result, or use `len`, an index or a slice. At least one message must match
        the roles, authors and dates of the filter together. `title` is a part of the title or of
        the id. A filter with other `kinds` lists items of those kinds.
        """
        from recollect.knowledge.listing import ConversationList

        filter = self._complete_filter(filter, (CONVERSATION,))
        return ConversationList(self._store, filter, storable(title))

    def conversation_page(
        self,
        filter: Filter | None = None,
        *,
        title: str = "",
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Summary], int]:
        """One page of `conversations`, and the total number."""
        filter = self._complete_filter(filter, (CONVERSATION,))
        return self._store.summaries(filter, storable(title), page_size(limit), page_offset(offset))

    def list_page(
        self,
        filter: Filter | None = None,
        *,
        title: str = "",
        limit: int = 50,
        sort: str = "updated",
        cursor: str | None = None,
    ) -> ListPage:
        """One page of conversations, and the cursor of the next one.

        `sort` is "updated" (last changed first), "pinned" (the same, but pinned ones first) or
        "added" (newest in the library first). Every conversation is listed once, in the order of
        the moment when the list began, even if some change meanwhile. Raises InvalidInput.
        """
        from recollect.knowledge.listing import list_page

        filter = self._complete_filter(filter, (CONVERSATION,))
        return list_page(self._store, filter, storable(title), limit, sort, cursor)

    def list_position(
        self, id: str, filter: Filter | None = None, *, title: str = ""
    ) -> int | None:
        """How many conversations come before this one in `conversations` with the same arguments.

        None if it is not among them. Raises NotFound.
        """
        filter = require_filter(filter).with_default_kinds((CONVERSATION,))
        return self._store.list_position(id, filter, storable(title))

    def documents(
        self, filter: Filter | None = None, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        """Every conversation and item with its content. Only one is in memory at a time.

        Raises DamagedLibrary if one cannot be read. With `on_damage`, it is skipped.
        """
        return self._store.iter_documents(self._complete_filter(filter, KINDS), on_damage)

    def export(
        self,
        target: str | Path | TextIO,
        filter: Filter | None = None,
        *,
        format: str = "json",
        **arguments: Unpack[FilterArguments],
    ) -> int:
        """Write conversations and items to a path or an open text file. Returns their number.

        "json" is complete, and `import_path` reads it; "md" and "txt" are for people. A path holds
        the whole export or nothing. Raises InvalidInput.
        """
        from recollect.transfer.export import export_documents, export_to_path

        documents = self.documents(filter_with(filter, arguments))
        if isinstance(target, (str, Path)):
            return export_to_path(documents, expand_path(target), format)
        return export_documents(documents, target, format)

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        """The projects, sources and tags in use, each with its number of documents, most first.

        At most 200 of each; `facet_names` searches all of them.
        """
        return self._facet_cache.facets(kind)

    def facet_names(
        self, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
    ) -> list[tuple[str, int]]:
        """All "projects", "sources" or "tags" that contain a text, whatever its case and accents.

        With their numbers of documents of these kinds, most first. Raises InvalidInput.
        """
        if facet not in FACETS:
            raise InvalidInput(f"facet: {facet!r} is not one of {', '.join(FACETS)}.")
        return self._facet_cache.names(facet, text, kinds)

    @cached_property
    def _facet_cache(self) -> FacetCache:
        from recollect.knowledge.listing import FacetCache

        return FacetCache(self._store)

    def activity(self) -> dict[str, Any]:
        """Counts of messages that people wrote by time, source and project, of replies by model,
        and of calls by tool."""
        from recollect.knowledge.listing import activity_report

        return activity_report(self._store.activity())
