"""`LibraryReader`: what can be read of one user's library, and how it is opened and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from recollect.configuration import expand_path
from recollect.errors import AmbiguousId, InvalidInput, NotFound, StorageFull
from recollect.home_folder import ARCHIVE
from recollect.language.text import identifier, storable
from recollect.model.arguments import (
    page_offset,
    page_size,
    parse_names,
)
from recollect.model.audience import Audience
from recollect.model.documents import Document, Passage, Summary, View
from recollect.model.fields import session_of
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import (
    Filter,
    FilterArguments,
    MatchCounts,
    Page,
    SearchArguments,
    SearchOptions,
    filter_with,
    options_with,
    require_filter,
)
from recollect.model.sources import PROXY, RECOLLECT
from recollect.settings import home
from recollect.store.abbreviations import (
    AbbreviatedStore,
    expand_filter,
    require_id,
)
from recollect.store.base import Store
from recollect.store.values import Candidate, Findings, OnDamage, Purge

if TYPE_CHECKING:
    from recollect.index.background import Indexer
    from recollect.index.meaning import Meaning
    from recollect.index.status import IndexStatus
    from recollect.knowledge.listing import ConversationList, FacetCache, ListPage
    from recollect.search.engine import Searches
    from recollect.search.literal import TextMatches
    from recollect.store.shared.database import SharedDatabase
    from recollect.transfer.archive import Archive

_LAST_POSITION = 2_000_000_000
FACETS = ("projects", "sources", "tags")


class LibraryReader:
    """A library that can be opened, read and closed. `Library` adds what writes."""

    def __init__(
        self,
        store: Store,
        background: bool = False,
        archive: Path | None = None,
        indexer: Indexer | None = None,
        open_shared: Callable[[], SharedDatabase] | None = None,
    ) -> None:
        """`open_shared` opens the database that servers share, if exclusions are in it, too."""
        self._store: Store = AbbreviatedStore(store)
        self._archive_folder = archive or home() / ARCHIVE / "default"
        self._background: Indexer | None = indexer
        self._open_shared = open_shared
        if not store.read_only:
            with suppress(StorageFull):  # a library on a full disk can be read
                store.clear_undo_log(expired=True)
        if background and indexer is None:
            self._start_background(store)

    def _start_background(self, store: Store) -> None:
        from recollect.index.background import BackgroundThread
        from recollect.memory.background_jobs import background_jobs

        self._background = BackgroundThread(background_jobs(store))
        if store.purge(None).reason:
            self.wake_indexer()  # an earlier process could not purge deleted text

    def __repr__(self) -> str:
        return f"<Library {self._store.path}>"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._background is not None:
            self._background.close()
        if "archive" in self.__dict__:
            self.archive.close()
        self._store.close()

    def wake_indexer(self) -> None:
        """Wake the background indexer, if there is one. Every method that writes calls this."""
        if self._background is not None:
            self._background.wake()

    @cached_property
    def archive(self) -> Archive:
        """Copies of the transcripts that were imported."""
        from recollect.transfer.archive import Archive

        return Archive(self._archive_folder)

    @cached_property
    def _meaning(self) -> Meaning:
        from recollect.index.meaning import Meaning

        return Meaning(self._store)

    def _visible_store(self, audience: Audience) -> Store:
        from recollect.store.audience import visible_store

        return visible_store(self._store, audience)

    def _complete_filter(self, filter: Filter | None, kinds: Sequence[str]) -> Filter:
        """The filter with whole ids, and with these kinds if it names none."""
        return expand_filter(self._store, require_filter(filter).with_default_kinds(kinds))

    # -- searching ---

    def search(
        self,
        text: str | Sequence[str],
        filter: Filter | None = None,
        options: SearchOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
        **arguments: Unpack[SearchArguments],
    ) -> Page:
        """Search for messages, best first: `search("trams", limit=5, role="user")`.

        `text` is a question, or words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the
        fields role: from: in: tag: title: before: after:. A list of two to five texts finds the
        conversations that have all of them; a list of one text is that query.
        """
        from recollect.search.concepts import search_concepts

        options, filters = options_with(options, arguments)
        filter = expand_filter(self._store, filter_with(filter, filters))
        if filter.hidden:
            filter = filter.with_default_kinds(KINDS)  # Observations are hidden, too.
        store = self._visible_store(audience)
        concepts = parse_names(text, "text")
        try:
            if isinstance(text, str) or len(concepts) == 1:
                return self._recent_searches.page(
                    store, self._meaning, concepts[0], filter, options, audience
                )
            with store.snapshot():
                return search_concepts(store, self._meaning, concepts, filter, options)
        finally:
            if self._background is not None:
                self._background.check()  # not before the search, which would share its time

    @cached_property
    def _recent_searches(self) -> Searches:
        from recollect.search.engine import Searches

        return Searches()

    def count_matches(
        self,
        text: str,
        filter: Filter | None = None,
        options: SearchOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
    ) -> MatchCounts | None:
        """Count all messages that contain the words of a search, by source, month and so on.

        None if the search has no words to count. Raises SearchTimeout if there are too many.
        """
        from recollect.search.match_counts import count_matches

        return count_matches(
            self._visible_store(audience),
            self._meaning,
            storable(text),
            require_filter(filter).with_default_kinds(KINDS),
            options or SearchOptions(),
        )

    def related(
        self,
        conversation_id: str,
        message_id: str,
        options: SearchOptions | None = None,
        *,
        kinds: Sequence[str] = (),
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages that resemble a message, in words and in meaning. Raises NotFound."""
        from recollect.search.engine import related

        store = self._visible_store(audience)
        filter = Filter.of(kinds=kinds)
        options = options or SearchOptions()
        with store.snapshot():
            return related(store, self._meaning, conversation_id, message_id, filter, options)

    def recent(
        self,
        text: str | None = None,
        filter: Filter | None = None,
        *,
        limit: int = 50,
        audience: Audience = Audience.PERSON,
        **arguments: Unpack[FilterArguments],
    ) -> list[Candidate]:
        """The newest messages that contain the text, in content or title.

        If there are none, those that contain all its words. Without a text, simply the newest.
        """
        from recollect.search import literal

        filter = self._complete_filter(filter_with(filter, arguments), (CONVERSATION,))
        return literal.recent(self._store, text, filter, limit, audience)

    def find_text(
        self,
        text: str,
        conversation_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        audience: Audience = Audience.PERSON,
    ) -> TextMatches:
        """One page of the messages that contain a text, newest first, and the total number.

        Case does not matter. Each message comes with the id of its conversation. Raises NotFound,
        or SearchTimeout if there are too many messages to read all that may contain the text.
        """
        from recollect.search import literal

        store = self._visible_store(audience)
        return literal.find_text(
            store, text, conversation_id, page_size(limit), page_offset(offset)
        )

    def match_expression(
        self,
        expression: str,
        *,
        conversations: Sequence[str] = (),
        sources: Sequence[str] = (),
        limit: int = 50,
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages whose content matches an expression in the query language of SQLite's FTS5.

        They are in the order of the text engine, with excerpts of twenty words. Raises
        MalformedQuery.
        """
        from recollect.search.literal import match_expression

        filter = Filter.of(conversations=conversations, sources=sources, kinds=CONVERSATION)
        filter = expand_filter(self._store, filter)
        return match_expression(self._visible_store(audience), storable(expression), filter, limit)

    # -- reading ---

    def find_id(self, source: str, source_id: str) -> str | None:
        """The id of the document that a source knows by `source_id`, if the library has it."""
        return self._store.find_id(source, source_id)

    def find_session(self, session: str) -> Summary | None:
        """The conversation of a session, whatever saved or recorded it, or was imported from."""
        for source in (RECOLLECT, PROXY):
            id = self.find_id(source.name, session)
            if id is not None:
                return self.summary(id)
        try:
            summary = self.summary(session)
        except (NotFound, AmbiguousId):
            return None
        is_session = (
            identifier(summary.id) == identifier(session_of(summary)) == identifier(session)
        )
        return summary if is_session and summary.kind == CONVERSATION else None

    def short_id(self, id: str) -> str:
        """The first characters of the id of a conversation or item that no other id begins with."""
        from recollect.knowledge.listing import short_id

        return short_id(self._store, id)

    def resolve_id(self, text: str) -> str:
        """The id of a conversation or item that begins with a text of at least 4 characters.

        An id that is equal to the text always wins. Raises NotFound, or AmbiguousId with the
        candidates if several ids begin with it.
        """
        return require_id(text, self._store.ids_with_prefix)

    def conversation(self, id: str) -> Document:
        """A conversation with the messages of every branch. Raises NotFound."""
        return self._store.document(id)

    def summary(self, id: str) -> Summary:
        """A conversation or item without its content. Raises NotFound."""
        return self._store.summary(id)

    def label(self, id: str, title: str) -> str:
        """The title to show for a conversation: its own, or else its first words."""
        from recollect.knowledge.paths import read_label

        return read_label(self._store, id, title)

    def view(
        self,
        conversation_id: str,
        *,
        through: str | None = None,
        around: str | None = None,
        start: int | None = None,
        limit: int = 50,
    ) -> View:
        """One page of a path through a conversation that has branches.

        The path is the canonical one, or one `through` a message. The page begins at `start`, or
        has the message `around` in its middle. Raises NotFound.
        """
        from recollect.knowledge.paths import view_page

        return view_page(self._store, conversation_id, through, around, start, page_size(limit))

    def read_path(
        self, conversation_id: str, through: str | None = None, start: int = 0
    ) -> Iterator[tuple[int, Passage]]:
        """The messages of a path from the index `start` on, with their indexes. Raises NotFound.

        They are read as needed, so a caller may stop anywhere.
        """
        from recollect.knowledge.paths import read_path

        return read_path(self._store, conversation_id, through, start)

    def message(self, conversation_id: str, message_id: str) -> Passage:
        """One message. Raises NotFound."""
        from recollect.knowledge.paths import read_message

        return read_message(self._store, conversation_id, message_id)

    def messages(
        self, conversation_id: str, after: int = 0, limit: int = 100
    ) -> tuple[list[Passage], int]:
        """The messages after number `after`, in order, and the number of the last one.

        Messages are numbered from 1. Raises NotFound.
        """
        start = max(0, min(after, _LAST_POSITION))
        return self._store.passage_page(conversation_id, start, page_size(limit))

    def conversations_with(self, source: str, message_ids: Sequence[str]) -> list[tuple[str, str]]:
        """The recorded conversations of a source that have some of these messages.

        Returns pairs of conversation id and message id. The conversation changed last is first.
        """
        return self._store.documents_containing(source, message_ids)

    # -- listing and exporting ---

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

    # -- the state of the library ---

    def size(self) -> int:
        """The number of messages, or slightly more if some were deleted. Faster than `stats`."""
        return self._store.size()

    def stats(self) -> dict[str, object]:
        """Counts, sizes, and where the library is."""
        return self._store.stats()

    def version(self) -> object:
        """A value that changes whenever any process has written to the library."""
        return self._store.version()

    @property
    def read_only(self) -> str:
        """Why nothing can be written to this library; empty if it can."""
        return self._store.read_only

    def purge_status(self) -> Purge:
        """Whether files still contain deleted text, and why.

        The background thread purges them as soon as no other program prevents it.
        """
        return self._store.purge(None)

    def verify(self) -> Findings:
        """Compare the indexes with the messages. Changes nothing."""
        from recollect.index.refresh import verify

        return verify(self._store)

    def index_status(self) -> IndexStatus:
        """How much of the library is indexed, and whether indexing is paused."""
        from recollect.index.status import index_status

        if self._background is None:
            return index_status(self._store, is_background=False)
        return index_status(self._store, is_background=True, problem=self._background.problem)
