"""`Library`: one user's conversations, behind every interface.

Interfaces parse a request, call one method of the library, and format the result. The library
validates arguments, calls the module that does the work, and wakes the background indexer after
every write. Modules that take time to load are imported inside the methods, so that a short command
starts fast.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.home_folder import IMPORTING
from recollect.library.reader import LibraryReader
from recollect.model import undo
from recollect.model.arguments import (
    Moment,
    metadata_changes,
    new_conversation,
    new_message,
    parse_tags,
    require_text,
)
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.forgetting import Selection
from recollect.model.receipts import FileReceipt, Problem, Receipt
from recollect.model.sources import BUS
from recollect.model.undo import Change, Edit
from recollect.progress import Progress, ignore_progress
from recollect.settings import UNDO_MINUTES
from recollect.store.abbreviations import (
    expand_selection,
)

if TYPE_CHECKING:
    from recollect.index.background import BackgroundPass
    from recollect.knowledge.api import Knowledge
    from recollect.memory.api import Memory
    from recollect.transfer.exclusion import Exclusion
    from recollect.transfer.forgetting import ForgetReport
    from recollect.transfer.importing import Admission
    from recollect.transfer.redaction import Redaction
    from recollect.transfer.risks import RiskReport


class Library(LibraryReader):
    """One user's conversations: import, add, search, read, delete."""

    def __enter__(self) -> Library:
        return self

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

    # -- importing ---

    def import_path(
        self,
        *paths: str | Path,
        kind: str | None = None,
        within: Path | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
        job: str = "",
    ) -> Receipt:
        """Import files and folders of any known format.

        The format is detected. `kind` restricts it to conversations, notes, media, characters or
        prompts. Notes and media are identified by their path, or by their path below the folder
        `within`. Messages that the library has are skipped, and a broken record does not stop the
        import. Files are parsed in a process of their own, with limited time and memory.

        If another thread sets `stop`, the import ends at once and keeps what it has saved.
        Imports with the same `job` share one receipt: once it is finished, they return it.
        Raises UnknownFormat if nothing at a path can be read, ImportStopped, and ImportUndone.
        """
        from recollect.importers.sandbox.parsing import Request, open_files
        from recollect.transfer.importing import finished_import, import_files, mark_running

        receipt = finished_import(self._store, job)
        if receipt is not None:
            return receipt
        request = Request(tuple(expand_path(path) for path in paths), kind, within)
        label = ", ".join(map(str, paths))
        with open_files(request, stop=stop) as files, mark_running(self._running_folder):
            receipt = import_files(self._store, label, files, progress, self.exclusion(), job)
        self.wake_indexer()
        return receipt

    def import_items(
        self,
        items: Iterable[Document | Mapping[str, Json] | Problem],
        *,
        label: str = "items",
        job: str = "",
    ) -> Receipt:
        """Import conversations and items that a program has, as `import_path` imports files.

        An item is a Document, or a mapping as `export` writes it: at least an `id` and `messages`,
        each with `role` and `content`, or as OpenAI's and Anthropic's SDKs have them. Items are
        read one by one, so a generator may yield more than fits into memory. Unusable items are
        counted in the receipt, and the import continues. `label` names the import in its receipt;
        `job` is as for `import_path`. A Problem is only noted in it.
        """
        from recollect.transfer.importing import finished_import, import_documents
        from recollect.transfer.restoring import parse_item

        receipt = finished_import(self._store, job)
        if receipt is not None:
            return receipt
        documents = chain.from_iterable(map(parse_item, items))
        receipt = import_documents(self._store, label, documents, self.exclusion(), job)
        self.wake_indexer()
        return receipt

    def import_file(
        self, path: Path, sources: Sequence[str], admission: Admission, folders: Sequence[Path]
    ) -> FileReceipt | None:
        """Import one transcript without a receipt. For files that are imported again as they grow.

        The process that parses it may read `folders`, and is reused for other files in them.
        Returns None if the file has no format of these sources.
        """
        from recollect.importers.sandbox.parsing import Request, open_files
        from recollect.transfer.importing import import_file

        request = Request((path,), sources=tuple(sources))
        with open_files(request, folders) as files:
            receipt = import_file(self._store, files, admission)
        self.wake_indexer()
        return receipt

    def undo_import(self, receipt: int) -> Receipt:
        """Remove what an import added, and restore what it changed."""
        undone = self._store.undo_import(receipt)
        self.wake_indexer()
        return undone

    def receipts(self) -> list[Receipt]:
        """The receipts of all imports, newest first."""
        return self._store.receipts()

    def running_imports(self) -> datetime | None:
        """When the oldest import that runs on this computer was started; None if none runs."""
        from recollect.transfer.importing import running_since

        return running_since(self._running_folder)

    @property
    def _running_folder(self) -> Path:
        return self._archive_folder.parent.parent / IMPORTING / self._archive_folder.name

    def exclusion(self) -> Exclusion:
        """The projects that must not be imported, as configured now."""
        from recollect.store.shared.exclusions import shared_patterns
        from recollect.transfer.exclusion import configured_exclusion

        home_folder = self._archive_folder.parent.parent
        return configured_exclusion(home_folder, shared_patterns(self._open_shared))

    def admission(self, exclusion: Exclusion) -> Admission:
        """The function that decides whether a document may be imported."""
        from recollect.transfer.importing import admission

        return admission(self._store, exclusion)

    # -- adding and changing ---

    def add_conversation(
        self,
        id: str | None = None,
        title: str = "",
        *,
        messages: Iterable[Mapping[str, Json]] = (),
        project: str | None = None,
        created_at: Moment = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Document:
        """Add a conversation, or the messages that an existing one does not have.

        A message is a mapping with `role`, `content`, and optionally `id`, `author`, `created_at`
        and the other fields of a Passage, or a message as OpenAI's and Anthropic's SDKs have it.
        Without an id it is numbered, and without a parent it follows the one before it. New
        messages continue an existing conversation. What is not given stays as it is; `project` is
        "default" in a new one. Raises Conflict if the conversation has another message with one of
        the ids. Then nothing changes.
        """
        from recollect.knowledge.editing import add_conversation

        document = new_conversation(
            id or str(uuid.uuid4()),
            title,
            messages,
            project="default" if project is None else project,
            created_at=created_at,
            metadata=metadata,
        )
        fields = {"project": project, "created_at": created_at}
        defaults = [name for name, value in fields.items() if value is None]
        saved_id = add_conversation(self._store, document, defaults)
        self.wake_indexer()
        return self._store.document(saved_id)

    def ensure_conversation(self, conversation: Document, *, id: str | None = None) -> Summary:
        """Return the conversation with this source and source id, and create it if there is none.

        A new conversation is a copy of the document given, with its id if that is free. With `id`,
        raises Conflict unless the conversation has, or can be given, exactly that id.
        """
        from recollect.knowledge.editing import ensure_conversation

        return ensure_conversation(self._store, conversation, id, self.wake_indexer)

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
        if project is not None:
            require_text(project, "project")
        changes = metadata_changes(metadata, tags, pinned)
        edit = Edit(title=title, project=project, metadata=changes)
        self._store.edit(conversation_id, edit)
        self.wake_indexer()

    def delete_conversation(self, conversation_id: str) -> Document:
        """Delete a conversation for good, and return the only copy. Raises NotFound.

        `restore_document` puts it back. `trash` is a deletion that can be undone.
        """
        deleted = self._store.delete(conversation_id)
        self.wake_indexer()
        self.archive.forget((deleted.source, deleted.source_id))
        return deleted

    def restore_document(self, document: Document) -> tuple[Summary, bool]:
        """Put a deleted document back. Returns it, and whether it was missing.

        Raises Conflict if the library has the document and it differs.
        """
        from recollect.transfer.restoring import restore_document

        id_, is_new = restore_document(self._store, document)
        if is_new:
            self.wake_indexer()
        return self._store.summary(id_), is_new

    def add_message(
        self, conversation_id: str, role: str, content: Json = None, **fields: Any
    ) -> str:
        """Add one message to a conversation. Returns its id once it is durable.

        With an `id`, the call can be repeated: the same message is stored once, and a different one
        with that id raises Conflict. `fields` are the other fields of a Passage, or of a message of
        OpenAI's or Anthropic's SDK. Raises NotFound.
        """
        *earlier, message = new_message(role, content, fields)
        if earlier:
            self._store.extend(conversation_id, [*earlier, message], require_same=True)
        else:
            self._store.append(conversation_id, message)
        self.wake_indexer()
        return message.id

    def add_messages(
        self, conversation_id: str, messages: Sequence[Passage], *, require_same: bool = False
    ) -> int:
        """Add the messages that a conversation does not have, all or none. Returns their number.

        With `require_same`, raises Conflict if it has another message with one of the ids.
        """
        added = self._store.extend(conversation_id, messages, require_same)
        self.wake_indexer()
        return added

    def delete_message(self, conversation_id: str, message_id: str) -> Passage:
        """Delete a message that no other message answers, and return it.

        Raises NotFound, or Conflict if another message answers it.
        """
        deleted = self._store.delete(conversation_id, message_id)
        self.wake_indexer()
        return deleted.passages[0]

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

        Its `position` + 1 is its number in the thread. `fields` are as for `add_message`. If the
        number of the last message is not `expected_last_seq`, raises OutdatedPosition, unless the
        message was stored before.
        """
        *others, message = new_message(role, content, {**fields, "author": author})
        if others:
            raise InvalidInput("A message in a thread is one text.")
        appended = self._store.append(thread_id, message, expected_last_seq)
        self.wake_indexer()
        ((stored,), _) = self._store.passage_page(thread_id, appended.position, 1)
        return stored, appended.new

    # -- changes that can be undone ---

    def rename(self, id: str, title: str) -> Change | None:
        """Change the title of a conversation or item. Raises NotFound."""
        require_text(title, "title")
        return self._edit(id, Edit(undo.RENAME, title=title.strip()))

    def tag(self, id: str, *tags: str) -> Change | None:
        """Add tags. Raises NotFound."""
        return self._edit(id, Edit(undo.TAG, add_tags=parse_tags(tags)))

    def untag(self, id: str, *tags: str) -> Change | None:
        """Remove tags, ignoring case. Raises NotFound."""
        return self._edit(id, Edit(undo.UNTAG, remove_tags=parse_tags(tags)))

    def pin(self, id: str, pinned: bool = True) -> Change | None:
        """Pin a conversation or item, so that lists can show it first, or unpin it."""
        return self._edit(id, Edit(undo.PIN if pinned else undo.UNPIN, pinned=pinned))

    def _edit(self, id: str, edit: Edit) -> Change | None:
        change = self._store.edit(id, edit, undo_until())
        self.wake_indexer()
        return change

    def trash(self, id: str) -> Change:
        """Delete a conversation or item, but keep a copy for undo. Raises NotFound.

        It is gone from every list and search at once. The copy is deleted for good after
        RECOLLECT_UNDO_MINUTES, or earlier by `empty_trash`, `forget` or `redact`.
        """
        document = self._store.document(id, with_passages=False)
        change = self._store.trash(id, undo_until())
        self.wake_indexer()
        self.archive.forget((document.source, document.source_id))
        return change

    def empty_trash(self) -> int:
        """Delete everything that is kept for undo. Returns the number of changes concerned."""
        return self._store.clear_undo_log()

    def changes(self) -> list[Change]:
        """The changes that can be undone now, newest first."""
        return self._store.undo_log()

    def undo(self, number: int | None = None) -> Change:
        """Undo a change, by default the last one, and return it.

        Raises NotFound if it can no longer be undone, and Conflict if a later change contradicts.
        """
        from recollect.transfer.restoring import undo_change

        change = undo_change(self._store, self.archive, number)
        self.wake_indexer()
        return change

    # -- privacy ---

    def forget(
        self,
        selection: Selection,
        progress: Progress | None = None,
        *,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Delete what a selection matches, with everything derived from it. There is no undo.

        It is not imported again. After an interruption, call it again to forget the rest. With
        `dry_run`, it is only counted, with examples. Raises InvalidInput for an empty selection,
        and NotFound for unknown ids.
        """
        from recollect.transfer import forgetting

        selection = expand_selection(self._store, selection)
        if dry_run:
            return forgetting.preview(self._store, selection, progress)
        self._store.clear_undo_log()
        report = forgetting.forget(self._store, self.archive, selection, progress)
        self.wake_indexer()
        return report

    def redact(self, *, report: bool = False, progress: Progress | None = None) -> Redaction:
        """Remove secrets from everything that is stored. With `report`, only list them."""
        from recollect.transfer.redaction import redact

        if not report:
            self._store.clear_undo_log()
        result = redact(self._store, report, progress)
        self.wake_indexer()
        return result

    def audit(self, risks: Sequence[str] = (), progress: Progress | None = None) -> RiskReport:
        """Report secrets and instructions aimed at agents. Changes nothing."""
        from recollect.transfer.risks import RISKS, report_risks

        return report_risks(self._store, tuple(risks) or RISKS, progress)

    # -- indexing ---

    def index(
        self,
        progress: Progress | None = None,
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
            on_wait = lambda: None  # noqa: E731
        catch_up(self._store, progress or ignore_progress, on_wait=on_wait)
        return refresh(self._store, embedding_setting(), progress, on_wait=on_wait)

    def run_background_jobs(self, stop: Callable[[], bool]) -> float | None:
        """Do once what the background indexer would do.

        Returns the seconds after which there may be more to do; None if nothing remains. Raises
        RecollectError.
        """
        return self._background_pass.run(stop)

    @cached_property
    def _background_pass(self) -> BackgroundPass:
        from recollect.index.background import BackgroundPass
        from recollect.memory.background_jobs import background_jobs

        return BackgroundPass(background_jobs(self._store))

    def pause_indexing(self, paused: bool = True) -> None:
        """Stop indexing in the background, in every process, or begin again.

        Meanwhile, new messages can be found by their words at once, but not by their meaning.
        """
        from recollect.index.background import pause, resume

        if paused:
            pause(self._store)
        else:
            resume(self._store)
            self.wake_indexer()

    def repair(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Rebuild the text index, and queue every message for embedding that has no vector."""
        from recollect.index.refresh import repair

        repair(self._store, progress)
        self.wake_indexer()


def undo_until() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=UNDO_MINUTES.get())
