"""`Library`: one user's conversations, behind every interface.

Interfaces parse a request, call one method of the library, and format the result. The library
validates arguments and wakes the background indexer. Storing is left to the store, ranking to the
search. Imports that cost time are made where they are needed, so that a short command starts fast.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from recollect.errors import InvalidInput, NotFound, StorageFull
from recollect.language.text import for_model, storable
from recollect.model import undo
from recollect.model.arguments import (
    Moment,
    new_conversation,
    new_message,
    page_offset,
    page_size,
    parse_names,
)
from recollect.model.audience import Audience
from recollect.model.documents import Document, Json, Passage, Summary, View
from recollect.model.forgetting import Selection
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.receipts import FileReceipt, Problem, Receipt
from recollect.model.search import Filter, MatchCounts, Page, SearchOptions
from recollect.model.sources import BUS
from recollect.model.undo import Change, Edit
from recollect.settings import UNDO_MINUTES, home
from recollect.store.abbreviations import expand_filter, expand_selection, require_id
from recollect.store.base import Store
from recollect.store.errors import missing_change
from recollect.store.values import Candidate, Findings, OnDamage, Progress, Purge
from recollect.store.views.abbreviated import AbbreviatedStore

if TYPE_CHECKING:
    from recollect.index.background import BackgroundPass, Indexer
    from recollect.index.meaning import Meaning
    from recollect.index.status import EmbeddingStatus, IndexStatus
    from recollect.knowledge.api import Knowledge
    from recollect.knowledge.facets import FacetCache
    from recollect.knowledge.listing import ConversationList, ListPage
    from recollect.memory.api import Memory
    from recollect.memory.observe.model import Budget
    from recollect.search.literal import TextMatches
    from recollect.search.recent_searches import RecentSearches
    from recollect.store.shared.database import SharedDatabase
    from recollect.transfer.archive import Archive
    from recollect.transfer.exclusion import Exclusion
    from recollect.transfer.forgetting import ForgetReport
    from recollect.transfer.importing import Admission
    from recollect.transfer.redaction import Redaction
    from recollect.transfer.risks import RiskReport

ImportProgress = Callable[[str, int, int], None]
"""Called during an import with the file, the bytes read, and the bytes in total."""
IndexProgress = Callable[[str, int, int], None]
"""Called while indexing with the step, the messages processed, and their total."""

_LAST_POSITION = 2_000_000_000


class Library:
    """One user's conversations: import, add, search, read, delete."""

    def __init__(
        self,
        store: Store,
        background: bool = False,
        archive: Path | None = None,
        indexer: Indexer | None = None,
        open_shared: Callable[[], SharedDatabase] | None = None,
    ) -> None:
        """`open_shared` opens the database that servers share, if exclusions and budgets are in it
        and not in files."""
        self._store: Store = AbbreviatedStore(store)
        self._archive_folder = archive or home() / "archive" / "default"
        self._background: Indexer | None = indexer
        self._open_shared = open_shared
        if not store.read_only:
            with suppress(StorageFull):  # a library on a full disk can be read
                store.clear_undo_log(expired=True)
        if background and indexer is None:
            from recollect.index.background import BackgroundThread
            from recollect.memory.background_jobs import background_jobs

            self._background = BackgroundThread(background_jobs(store, self._budget))
            if store.purge_status().reason:
                self.wake_indexer()  # an earlier process could not purge deleted text

    def __repr__(self) -> str:
        return f"<Library {self._store.path}>"

    def __enter__(self) -> Library:
        return self

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

    # -- parts ---

    @cached_property
    def knowledge(self) -> Knowledge:
        """Search and edit notes, media, characters and prompts, and search conversations."""
        from recollect.knowledge.api import Knowledge

        return Knowledge(self._store, self._meaning, self.wake_indexer)

    @cached_property
    def memory(self) -> Memory:
        """Search what was observed in past conversations, read it, and forget it."""
        from recollect.memory.api import Memory

        return Memory(self._store, self._meaning, self.wake_indexer, self.delete_conversation)

    @cached_property
    def archive(self) -> Archive:
        """Copies of the transcripts that were imported."""
        from recollect.transfer.archive import Archive

        return Archive(self._archive_folder)

    @cached_property
    def _recent_searches(self) -> RecentSearches:
        from recollect.search.recent_searches import RecentSearches

        return RecentSearches()

    @cached_property
    def _facet_cache(self) -> FacetCache:
        from recollect.knowledge.facets import FacetCache

        return FacetCache(self._store)

    @cached_property
    def _meaning(self) -> Meaning:
        from recollect.index.meaning import Meaning

        return Meaning(self._store)

    # -- imports ---

    def import_path(
        self,
        *paths: str | Path,
        kind: str | None = None,
        within: Path | None = None,
        progress: ImportProgress | None = None,
        stop: Event | None = None,
        job: str = "",
    ) -> Receipt:
        """Import files and folders of any known format.

        The format is detected, or is one of the `kind` given: conversations, notes, media,
        characters or prompts. Notes and media are identified by their path, or by their path below
        the folder `within`. Messages that the library has are skipped. A broken record does not
        stop the import. Files are parsed in a process of their own, with limited time and memory.
        If another thread sets `stop`, the import ends at once; what it has saved is kept.
        Imports with the same `job` have one receipt: once it is finished, they return it.
        Raises UnknownFormat if nothing at a path can be read, and ImportStopped.
        """
        from recollect.importers.sandbox.files import Request, open_files
        from recollect.transfer.import_receipts import finished_import
        from recollect.transfer.importing import import_files
        from recollect.transfer.running import mark_running

        receipt = finished_import(self._store, job)
        if receipt is not None:
            return receipt
        request = Request(tuple(Path(path).expanduser() for path in paths), kind, within)
        label = ", ".join(map(str, paths))
        with open_files(request, stop=stop) as files, mark_running(self._running_folder):
            receipt = import_files(self._store, label, files, progress, self.exclusion(), job)
        self.wake_indexer()
        return receipt

    def import_items(
        self, items: Iterable[Document | Mapping[str, Json]], *, label: str = "items"
    ) -> Receipt:
        """Import conversations and items that a program has, as `import_path` imports files.

        An item is a Document, or a mapping as `export` writes it: at least an `id` and `messages`,
        each with `role` and `content`. They are read one by one, so a generator may yield more than
        fits into memory. An item that cannot be used is counted in the receipt, and the import
        continues. `label` names the import in its receipt.
        """
        from recollect.transfer.export_parsing import parse_item
        from recollect.transfer.importing import import_documents

        receipt = import_documents(self._store, label, map(parse_item, items), self.exclusion())
        self.wake_indexer()
        return receipt

    def export(
        self,
        target: str | Path | TextIO,
        filter: Filter | None = None,
        *,
        format: str = "json",
    ) -> int:
        """Write conversations and items to a file, and return their number.

        "json" is complete, and `import_path` reads it; "md" and "txt" are for people. `target` is a
        path or an open text file. A file at a path is complete, or not there. Raises InvalidInput.
        """
        from recollect.transfer.export import export_documents, export_to_path

        documents = self.documents(filter)
        if isinstance(target, (str, Path)):
            return export_to_path(documents, Path(target).expanduser(), format)
        return export_documents(documents, target, format)

    def record_failed_import(self, path: str, problem: Problem, job: str = "") -> Receipt:
        """Store the receipt of an import that was given up."""
        from recollect.transfer.import_receipts import record_failed_import

        return record_failed_import(self._store, path, problem, job)

    def prepare_imports(self, folders: Sequence[Path]) -> None:
        """Start the process that parses files of these folders, if it does not wait already."""
        from recollect.importers.sandbox.process import POOL

        POOL.prepare(folders, wait=True)

    def import_file(
        self, path: Path, sources: Sequence[str], admission: Admission, folders: Sequence[Path]
    ) -> FileReceipt | None:
        """Import one transcript without a receipt. For files that are imported again as they grow.

        The process that parses it may read `folders`, and is reused for other files in them.
        Returns None if the file has no format of these sources.
        """
        from recollect.importers.sandbox.files import Request, open_files
        from recollect.transfer.importing import import_file

        request = Request((path,), sources=tuple(sources))
        with open_files(request, folders) as files:
            receipt = import_file(self._store, files, admission)
        self.wake_indexer()
        return receipt

    def exclusion(self) -> Exclusion:
        """The projects that must not be imported, as configured now."""
        from recollect.transfer.exclusion import configured_exclusion

        patterns: list[str] = []
        if self._open_shared is not None:
            from recollect.store.shared.exclusions import SharedExclusions

            with closing(self._open_shared()) as database:
                patterns = SharedExclusions(database).patterns()
        return configured_exclusion(self._archive_folder.parent.parent, patterns)

    def admission(self, exclusion: Exclusion) -> Admission:
        """The function that decides whether a document may be imported."""
        from recollect.transfer.importing import admission

        return admission(self._store, exclusion)

    def undo_import(self, receipt: int) -> Receipt:
        """Remove what an import added, and restore what it changed."""
        undone = self._store.undo_import(receipt)
        self.wake_indexer()
        return undone

    def running_imports(self) -> datetime | None:
        """When the oldest import that runs on this computer was started; None if none runs."""
        from recollect.transfer.running import running_since

        return running_since(self._running_folder)

    @property
    def _running_folder(self) -> Path:
        return self._archive_folder.parent.parent / "importing" / self._archive_folder.name

    def receipts(self) -> list[Receipt]:
        """The receipts of all imports, newest first."""
        return self._store.receipts()

    # -- writing ---

    def add_conversation(
        self,
        id: str | None = None,
        title: str = "",
        *,
        messages: Iterable[Mapping[str, Json]] = (),
        project: str = "default",
        created_at: Moment = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Document:
        """Add a conversation, or the messages that an existing one does not have.

        A message is a mapping with `role`, `content`, and optionally `id`, `author`, `created_at`
        and the other fields of a Passage.
        """
        document = new_conversation(
            id or str(uuid.uuid4()),
            title,
            messages,
            project=project,
            created_at=created_at,
            metadata=metadata,
        )
        (saved,) = self._store.save([document])
        self.wake_indexer()
        return self._store.document(saved.id)

    def ensure_conversation(self, conversation: Document, *, id: str | None = None) -> Summary:
        """Return the conversation with this source and source id, and create it if there is none.

        A new conversation is a copy of the document given, with its id if that is free. With `id`,
        raises Conflict unless the conversation has, or can be given, exactly that id.
        """
        from recollect.knowledge.creation import ensure_conversation

        return ensure_conversation(self._store, conversation, id, self.wake_indexer)

    def add_message(self, conversation_id: str, role: str, content: str, **fields: Any) -> str:
        """Add one message to a conversation. Returns its id once it is durable.

        With an `id`, the call can be repeated: the same message is stored once, and a different one
        with that id raises Conflict. `fields` are the other fields of a Passage. Raises NotFound.
        """
        message = new_message(role, content, fields)
        self._store.append(conversation_id, message)
        self.wake_indexer()
        return message.id

    def add_messages(self, conversation_id: str, messages: Sequence[Passage]) -> int:
        """Add the messages that a conversation does not have, all or none. Returns their number."""
        added = self._store.extend(conversation_id, messages)
        self.wake_indexer()
        return added

    def update_conversation(
        self,
        conversation_id: str,
        title: str | None = None,
        project: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
        pinned: bool | None = None,
    ) -> None:
        """Change a conversation. Metadata keys that are not given stay. Raises NotFound."""
        changes = dict(metadata or {})
        if pinned is not None:
            changes["pinned"] = pinned or None
        if tags is not None:
            names = [tag.strip() for tag in parse_names(tags, "tags")]
            changes["tags"] = list(dict.fromkeys(filter(None, names))) or None
        self._store.update(conversation_id, title, project, changes or None)
        self.wake_indexer()

    def revise_conversation(
        self, conversation_id: str, change: Callable[[Document], Document]
    ) -> None:
        """Replace a conversation by what `change` makes of it, in one transaction.

        `change` may raise to cancel, and may be called more than once. It must keep the messages
        and their order. Raises NotFound.
        """
        self._store.revise(conversation_id, change)
        self.wake_indexer()

    def delete_conversation(self, conversation_id: str) -> Document:
        """Delete a conversation for good, and return the only copy. Raises NotFound.

        `restore_document` puts it back. `trash` is a deletion that can be undone.
        """
        deleted = self._store.pop(conversation_id)
        self.wake_indexer()
        self.archive.forget((deleted.source, deleted.source_id))
        return deleted

    # -- changes that can be undone ---

    def rename(self, id: str, title: str) -> Change | None:
        """Change the title of a conversation or item. Raises NotFound.

        Like the next methods, it returns the change, for `undo`, or None if nothing changed.
        """
        return self._edit(id, Edit(undo.RENAME, title=title.strip()))

    def tag(self, id: str, *tags: str) -> Change | None:
        """Add tags. Raises NotFound."""
        return self._edit(id, Edit(undo.TAG, add_tags=_tag_names(tags)))

    def untag(self, id: str, *tags: str) -> Change | None:
        """Remove tags, in any case. Raises NotFound."""
        return self._edit(id, Edit(undo.UNTAG, remove_tags=_tag_names(tags)))

    def pin(self, id: str) -> Change | None:
        """Pin a conversation or item: lists can show it first. Raises NotFound."""
        return self._edit(id, Edit(undo.PIN, pinned=True))

    def unpin(self, id: str) -> Change | None:
        """Remove the pin. Raises NotFound."""
        return self._edit(id, Edit(undo.UNPIN, pinned=False))

    def trash(self, id: str) -> Change:
        """Delete a conversation or item, but keep a copy for undo. Raises NotFound.

        It is gone from every list and search at once. The copy is deleted for good after
        RECOLLECT_UNDO_MINUTES, or earlier by `empty_trash`, `forget` or `redact`.
        """
        name = self._store.header(id)
        change = self._store.trash(id, _undo_until())
        self.wake_indexer()
        self.archive.forget((name.source, name.source_id))
        return change

    def _edit(self, id: str, edit: Edit) -> Change | None:
        change = self._store.edit(id, edit, _undo_until())
        self.wake_indexer()
        return change

    def changes(self) -> list[Change]:
        """The changes that can be undone now, newest first."""
        return self._store.undo_log()

    def undo(self, number: int | None = None) -> Change:
        """Undo a change, by default the last one, and return it.

        Raises NotFound if it cannot be undone any more, and Conflict if a later change contradicts.
        """
        change = self._find_change(number)
        if change.action == undo.DELETE:
            from recollect.transfer.export_parsing import parse_export

            document = parse_export(self._store.undo_state(change.number))
            self.restore_document(document)
            self.archive.undelete([(document.source, document.source_id)])
        self._store.revert(change.number)
        self.wake_indexer()
        return change

    def _find_change(self, number: int | None) -> Change:
        for change in self._store.undo_log():
            if number is None or change.number == number:
                return change
        if number is None:
            raise NotFound("There is nothing to undo.")
        raise missing_change(number)

    def empty_trash(self) -> int:
        """Delete what is kept for undo. Returns the number of changes that it was kept for."""
        return self._store.clear_undo_log()

    def delete_message(self, conversation_id: str, message_id: str) -> Passage:
        """Delete a message that no other message answers, and return it.

        Raises NotFound, or Conflict if another message answers it.
        """
        deleted = self._store.delete_passage(conversation_id, message_id)
        self.wake_indexer()
        return deleted

    def preview_forget(
        self, selection: Selection, progress: IndexProgress | None = None
    ) -> ForgetReport:
        """Count what `forget` would delete, with examples. Changes nothing."""
        from recollect.transfer import forgetting

        return forgetting.preview(self._store, expand_selection(self._store, selection), progress)

    def forget(self, selection: Selection, progress: IndexProgress | None = None) -> ForgetReport:
        """Delete what a selection matches, with everything derived from it. There is no undo.

        It is not imported again. After an interruption, call it again to forget the rest. Raises
        InvalidInput for an empty selection, and NotFound for unknown ids.
        """
        from recollect.transfer import forgetting

        self._store.clear_undo_log()
        report = forgetting.forget(
            self._store, self.archive, expand_selection(self._store, selection), progress
        )
        self.wake_indexer()
        return report

    def restore_document(self, document: Document) -> tuple[Summary, bool]:
        """Put a deleted document back. Returns it, and whether it was missing.

        Raises Conflict if the library has the document and it differs.
        """
        from recollect.transfer.document_restore import restore_document

        id_, is_new = restore_document(self._store, document)
        if is_new:
            self.wake_indexer()
        return self._store.summary(id_), is_new

    # -- threads of the bus ---

    def thread(self, topic: str, metadata: Mapping[str, Json] | None = None) -> Summary:
        """The thread with this topic. It is created on first use."""
        if not topic.strip():
            raise InvalidInput("A thread needs a topic.")
        return self.ensure_conversation(
            Document(BUS.name, topic, topic, metadata=dict(metadata or {}))
        )

    def post(
        self,
        thread_id: str,
        author: str,
        content: str,
        *,
        role: str = "user",
        expected_last_seq: int | None = None,
        **fields: Any,
    ) -> tuple[Passage, bool]:
        """Add a message to a thread. Returns it, and whether it is new.

        Its `position` + 1 is its number in the thread. `fields` are as for `add_message`. If
        `expected_last_seq` is given and the last message has another number, OutdatedPosition is
        raised, unless the message was stored before.
        """
        message = new_message(role, content, {**fields, "author": author})
        appended = self._store.append(thread_id, message, expected_last_seq)
        self.wake_indexer()
        ((stored,), _) = self._store.passage_page(thread_id, appended.position, 1)
        return stored, appended.new

    # -- reading ---

    def find_id(self, source: str, source_id: str) -> str | None:
        """The id of the document that a source knows by `source_id`, if the library has it."""
        return self._store.find_id(source, source_id)

    def short_id(self, id: str) -> str:
        """The first characters of the id of a conversation or item that no other id begins with."""
        from recollect.knowledge.short_ids import short_id

        return short_id(self._store, id)

    def resolve_id(self, text: str) -> str:
        """The id of a conversation or item that begins with a text of at least 4 characters.

        An id that is equal to the text always wins. Raises NotFound, or AmbiguousId, which has the
        candidates, if several ids begin with it.
        """
        return require_id(text, self._store.ids_with_prefix)

    def conversation(self, id: str) -> Document:
        """A conversation with the messages of every branch. Raises NotFound."""
        return self._store.document(id)

    def summary(self, id: str) -> Summary:
        """A conversation or item without its content. Raises NotFound."""
        return self._store.summary(id)

    def label(self, id: str, title: str) -> str:
        """What to show as the title of a conversation: its title, or else its first words."""
        from recollect.model.labels import MESSAGES_FOR_LABEL, UNTITLED, label_of

        if for_model(title).strip():
            return title
        try:
            passages, _ = self._store.passage_page(id, 0, MESSAGES_FOR_LABEL)
        except NotFound:  # deleted in the meantime
            return UNTITLED
        return label_of(passages)

    def conversations(self, filter: Filter | None = None, *, title: str = "") -> ConversationList:
        """The conversations that match, last changed first. They are read when needed.

        Iterate over the result, or use `len`, an index or a slice. At least one message must match
        the roles, authors and dates of the filter together. `title` is a part of the title or of
        the id. A filter with other `kinds` lists items of those kinds.
        """
        from recollect.knowledge.listing import ConversationList

        filter = expand_filter(self._store, _with_default_kinds(filter, (CONVERSATION,)))
        return ConversationList(self._store, filter, storable(title))

    def conversation_page(
        self,
        filter: Filter | None = None,
        *,
        title: str = "",
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Summary], int]:
        """One page of `conversations`, and the number of all."""
        return self._store.summaries(
            expand_filter(self._store, _with_default_kinds(filter, (CONVERSATION,))),
            storable(title),
            page_size(limit),
            page_offset(offset),
        )

    def list_position(
        self, id: str, filter: Filter | None = None, *, title: str = ""
    ) -> int | None:
        """How many conversations come before this one in `conversations` with the same arguments.

        None if it is not among them. Raises NotFound.
        """
        filter = _with_default_kinds(filter, (CONVERSATION,))
        return self._store.list_position(id, filter, storable(title))

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

        filter = expand_filter(self._store, _with_default_kinds(filter, (CONVERSATION,)))
        return list_page(self._store, filter, storable(title), limit, sort, cursor)

    def documents(
        self, filter: Filter | None = None, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        """Every conversation and item with its content. Only one is in memory at a time.

        Raises DamagedLibrary if one cannot be read. With `on_damage`, it is skipped.
        """
        filter = expand_filter(self._store, _with_default_kinds(filter, KINDS))
        return self._store.iter_documents(filter, on_damage)

    def message(self, conversation_id: str, message_id: str) -> Passage:
        """One message. Raises NotFound."""
        from recollect.knowledge.conversation_view import read_message

        return read_message(self._store, conversation_id, message_id)

    def messages(
        self, conversation_id: str, after: int = 0, limit: int = 100
    ) -> tuple[list[Passage], int]:
        """The messages after number `after`, in order, and the number of the last one.

        Messages are numbered from 1. Raises NotFound.
        """
        start = max(0, min(after, _LAST_POSITION))
        return self._store.passage_page(conversation_id, start, page_size(limit))

    def message_ids(self, conversation_id: str) -> list[str]:
        """The ids of all messages of a conversation. Raises NotFound."""
        return [position.id for position in self._store.positions(conversation_id)]

    def conversations_with(self, source: str, message_ids: Sequence[str]) -> list[tuple[str, str]]:
        """The recorded conversations of a source that have some of these messages.

        Returns pairs of conversation id and message id. The conversation changed last is first.
        """
        return self._store.documents_containing(source, message_ids)

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
        from recollect.knowledge.conversation_view import view_page

        return view_page(self._store, conversation_id, through, around, start, page_size(limit))

    def read_path(
        self, conversation_id: str, through: str | None = None, start: int = 0
    ) -> Iterator[tuple[int, Passage]]:
        """The messages of a path from the index `start` on, with their indexes. Raises NotFound.

        They are read as needed, so a caller may stop anywhere.
        """
        from recollect.knowledge.paths import read_path

        return read_path(self._store, conversation_id, through, start)

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        """The projects, sources and tags in use, each with its number of documents, most first."""
        return self._facet_cache.facets(kind)

    def activity(self) -> dict[str, Any]:
        """The messages that people wrote, by time, source and project, with replies by model
        and calls by tool."""
        from recollect.knowledge.activity import activity_report

        return activity_report(self._store.activity())

    def version(self) -> object:
        """A value that changes whenever any process has written to the library."""
        return self._store.version()

    # -- searching ---

    def search(
        self,
        text: str | Sequence[str],
        filter: Filter | None = None,
        options: SearchOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Search for messages, best first.

        `text` is a question, or words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the
        fields role: from: in: tag: title: before: after:. A list of two to five texts finds the
        conversations that have all of them; a list of one text is that query.
        """
        from recollect.search.concepts import search_concepts

        filter = expand_filter(self._store, filter or Filter())
        if filter.hidden:
            filter = _with_default_kinds(filter, KINDS)  # Observations are hidden, too.
        options = options or SearchOptions()
        store = self._visible_store(audience)
        if self._background is not None:
            self._background.check()
        if not isinstance(text, str) and len(text) == 1:
            text = text[0]
        if isinstance(text, str):
            page = self._recent_searches.page(
                store, self._meaning, storable(text), filter, options, audience
            )
        else:
            concepts = [storable(concept) for concept in text]
            page = search_concepts(store, self._meaning, concepts, filter, options)
        return self._label_human_only(page, audience)

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
            _with_default_kinds(filter, KINDS),
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
        from recollect.search.similar import related

        page = related(
            self._visible_store(audience),
            self._meaning,
            conversation_id,
            message_id,
            Filter.of(kinds=kinds),
            options or SearchOptions(),
        )
        return self._label_human_only(page, audience)

    def _label_human_only(self, page: Page, audience: Audience) -> Page:
        if audience is not Audience.AGENT_MASKED:
            return page
        from recollect.search.human_only import label_human_only

        return label_human_only(self._store, page)

    def recent(
        self,
        text: str | None = None,
        filter: Filter | None = None,
        *,
        limit: int = 50,
        audience: Audience = Audience.PERSON,
    ) -> list[Candidate]:
        """The newest messages that contain the text, or all its words, in content or title.

        Without a text, simply the newest messages.
        """
        from recollect.search import literal

        filter = expand_filter(self._store, _with_default_kinds(filter, (CONVERSATION,)))
        return literal.recent(self._store, text, filter, limit, audience)

    def find_text(
        self, text: str, conversation_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> TextMatches:
        """One page of the messages that contain a text, newest first, and the number of all.

        Case does not matter. Each message comes with the id of its conversation. If a text has no
        words, every message is read; `exact` is False if that took too long. Raises NotFound.
        """
        from recollect.search import literal

        return literal.find_text(
            self._store, text, conversation_id, page_size(limit), page_offset(offset)
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
        from recollect.search.expression import match_expression

        filter = Filter.of(conversations=conversations, sources=sources, kinds=CONVERSATION)
        filter = expand_filter(self._store, filter)
        return match_expression(self._visible_store(audience), storable(expression), filter, limit)

    def _visible_store(self, audience: Audience) -> Store:
        from recollect.store.views.audience import visible_store

        return visible_store(self._store, audience)

    # -- indexing and maintenance ---

    def index(
        self,
        progress: IndexProgress | None = None,
        on_wait: Callable[[], None] | None = None,
        *,
        wait: bool = True,
    ) -> bool:
        """Observe, seal and embed everything that is new, and return when that is complete.

        If the background indexer or another process is indexing the library, waits until it has
        finished. `on_wait` is called before each wait. Without `wait`, leaves the work to the other
        process and returns False.
        """
        from recollect.index.refresh import refresh
        from recollect.memory.backlog import catch_up
        from recollect.models.embeddings import embedding_setting

        if not wait:
            on_wait = None
        elif on_wait is None:
            on_wait = _do_nothing
        catch_up(self._store, progress, on_wait=on_wait, budget=self._budget())
        return refresh(self._store, embedding_setting(), progress, on_wait=on_wait)

    def wake_indexer(self) -> None:
        """Wake the background indexer, if there is one. Every method that writes calls this."""
        if self._background is not None:
            self._background.wake()

    def run_background_jobs(self, stop: Callable[[], bool]) -> float | None:
        """Do once what the background indexer would do.

        Returns the seconds after which there may be more to do; None if nothing is left. Raises
        RecollectError.
        """
        return self._background_pass.run(stop)

    @cached_property
    def _background_pass(self) -> BackgroundPass:
        from recollect.index.background import BackgroundPass
        from recollect.memory.background_jobs import background_jobs

        return BackgroundPass(background_jobs(self._store, self._budget))

    def _budget(self) -> Budget:
        """What may be sent to a model for observations."""
        from recollect.memory.background_jobs import observation_budget

        return observation_budget(self._open_shared)

    def pause_indexing(self) -> None:
        """Stop indexing in the background, in every process, until `resume_indexing`.

        New messages can be found by their words at once, but not by their meaning.
        """
        from recollect.index.pausing import pause

        pause(self._store)

    def resume_indexing(self) -> None:
        """Index in the background again. Other processes notice within seconds."""
        from recollect.index.pausing import resume

        resume(self._store)
        self.wake_indexer()

    def index_status(self) -> IndexStatus:
        """How much of the library is indexed, and whether indexing is paused."""
        from recollect.index.status import index_status

        if self._background is None:
            return index_status(self._store, is_background=False)
        return index_status(self._store, is_background=True, problem=self._background.problem)

    def embedding_status(self) -> list[EmbeddingStatus]:
        """For each embedding model that was used: the share of the messages that has vectors."""
        from recollect.index.status import embedding_status

        return embedding_status(self._store)

    def digest(self, projects: Sequence[str], tokens: int, *, without: str | None = None) -> str:
        """A digest of recent work in these projects, of at most so many tokens.

        `without` is the id of a conversation to leave out.
        """
        from recollect.memory.digest import digest

        return digest(self._store, projects, tokens, without=without)

    def redact(self, *, report: bool = False, progress: IndexProgress | None = None) -> Redaction:
        """Remove secrets from everything that is stored. With `report`, only list them."""
        from recollect.transfer.redaction import redact

        if not report:
            self._store.clear_undo_log()
        result = redact(self._store, report, progress)
        self.wake_indexer()
        return result

    def audit(self, risks: Sequence[str] = (), progress: IndexProgress | None = None) -> RiskReport:
        """Report secrets, instructions aimed at agents, and duplicates. Changes nothing."""
        from recollect.transfer.risks import RISKS, report_risks

        return report_risks(self._store, tuple(risks) or RISKS, progress)

    def size(self) -> int:
        """The number of messages, or slightly more if some were deleted. Faster than `stats`."""
        return self._store.size()

    def stats(self) -> dict[str, object]:
        """Counts, sizes, and where the library is."""
        return self._store.stats()

    @property
    def read_only(self) -> str:
        """Why nothing can be written to this library; empty if it can."""
        return self._store.read_only

    def purge_status(self) -> Purge:
        """Whether files still contain deleted text, and why.

        The background thread purges them as soon as no other program prevents it.
        """
        return self._store.purge_status()

    def missing_features(self) -> tuple[str, ...]:
        """Features that the database could offer but does not, and what that costs."""
        return self._store.missing_features

    def verify(self) -> Findings:
        """Compare the indexes with the messages. Changes nothing."""
        from recollect.index.refresh import missing_vectors

        findings = self._store.verify()
        if not findings.damaged:
            findings.never_embedded = sum(len(keys) for _, keys in missing_vectors(self._store))
        return findings

    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild the text index, and queue every message for embedding that has no vector."""
        from recollect.index.refresh import missing_vectors

        self._store.repair(progress)
        for space, keys in missing_vectors(self._store):
            self._store.queue(space, keys)
        self.wake_indexer()


def _undo_until() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=UNDO_MINUTES.get())


def _tag_names(tags: Sequence[str]) -> tuple[str, ...]:
    names = tuple(filter(None, (tag.strip() for tag in parse_names(tags, "tags"))))
    if not names:
        raise InvalidInput("tags: name at least one tag.")
    return names


def _with_default_kinds(filter: Filter | None, kinds: Sequence[str]) -> Filter:
    filter = filter or Filter()
    if filter.kinds:
        return filter
    return replace(filter, kinds=tuple(kinds))


def _do_nothing() -> None:
    pass
