"""The library: everything one user remembers, behind every door.

Doors parse, call one method here, and format. The library checks what it is
given, keeps receipts of imports, and leaves storing to the store and ranking
to the search.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import bound, identifier, storable, truncate
from recollect.model import sources
from recollect.model.audience import HUMAN_ONLY, Audience, is_marked_human_only
from recollect.model.documents import (
    Document,
    Json,
    MessageView,
    Passage,
    Summary,
    View,
)
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.receipts import FileReceipt, Receipt
from recollect.model.search import Filter, Page, SearchOptions
from recollect.settings import LIMITS, home
from recollect.store.base import Store
from recollect.store.values import Candidate, Findings, Progress

if TYPE_CHECKING:
    from recollect.importers.entries import Entry
    from recollect.importers.registry import Format
    from recollect.index.background import BackgroundThread, Job, Stop
    from recollect.index.meaning import Meaning
    from recollect.knowledge.api import Knowledge
    from recollect.memory.api import Memory
    from recollect.transfer.archive import Archive
    from recollect.transfer.exclusion import Exclusion
    from recollect.transfer.importing import Admission
    from recollect.transfer.redaction import Redaction

log = logging.getLogger(__name__)

SOURCE = sources.RECOLLECT.name
BUS = sources.BUS.name
"""The origin of threads, in which agents and people write to each other; each is known by its topic."""
PROXY = sources.PROXY.name
"""The origin of what was recorded on its way to a model."""

Moment = str | date | datetime | None
ImportProgress = Callable[[str, int, int], None]
"""Called with (file, bytes read, bytes in all) while an import goes on."""
IndexProgress = Callable[[str, int, int], None]
"""Called with (what is done, how much is done, how much there is) while indexing goes on."""


_OBSERVE_INTERVAL = 10.0
"""Seconds. Each run observes a whole conversation, so one that grows is not observed every time."""


def _observe_job(store: Store) -> Job:
    """The job that observes new and changed conversations."""
    from recollect.index.background import Job

    def run(stop: Stop) -> bool:
        from recollect.memory.backlog import catch_up

        catch_up(store, stop=stop)
        return True

    def has_work_left() -> bool:
        from recollect.memory.backlog import has_backlog

        return has_backlog(store)

    return Job("Observing", run, _OBSERVE_INTERVAL, has_work_left)


def _background_thread(store: Store) -> BackgroundThread:
    from recollect.index.background import BackgroundThread, index_job

    return BackgroundThread([_observe_job(store), index_job(store)])


class Library:
    """One user's conversations: import, add, search, read, export."""

    def __init__(self, store: Store, background: bool = False, archive: Path | None = None) -> None:
        self.store = store
        self._archive = archive or home() / "archive" / "default"
        self._background: BackgroundThread | None = None
        if background:
            self._background = _background_thread(store)

    @cached_property
    def _meaning(self) -> Meaning:
        from recollect.index.meaning import Meaning

        return Meaning(self.store)

    @cached_property
    def knowledge(self) -> Knowledge:
        """Finding and reading across notes, media, conversations, characters and prompts."""
        from recollect.knowledge.api import Knowledge

        return Knowledge(self.store, self._meaning, self.wake_indexer)

    @cached_property
    def archive(self) -> Archive:
        """The files that conversations were taken from, kept for when they are cleaned up."""
        from recollect.transfer.archive import Archive

        return Archive(self._archive)

    def exclusion(self) -> Exclusion:
        """What must not be taken in, as the settings say now."""
        from recollect.transfer.exclusion import configured_exclusion

        return configured_exclusion(self._archive.parent.parent)

    @cached_property
    def memory(self) -> Memory:
        """What is remembered of past work: observations, their details, the conversations; and forgetting."""
        from recollect.memory.api import Memory

        return Memory(self.store, self._meaning, self.wake_indexer, self.delete_conversation)

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._background is not None:
            self._background.close()
        if "archive" in self.__dict__:
            self.archive.close()
        self.store.close()

    # -- importing ---

    def import_path(
        self,
        *paths: str | Path,
        kind: str | None = None,
        within: Path | None = None,
        progress: ImportProgress | None = None,
    ) -> Receipt:
        """Import files or folders of any known format; the format is detected, or is of the `kind` that is said:
        conversations, notes, media, characters or prompts.

        Notes and media are known by where they lie; with `within`, a folder above the paths, by where in it.
        What is in the library already is left alone. Raises UnknownFormat when
        nothing at a path can be read; a broken record never stops the rest.
        """
        from recollect.importers.registry import find
        from recollect.transfer.importing import import_files

        found = [item for path in paths for item in find(Path(path).expanduser(), kind, within)]
        receipt = import_files(
            self.store, ", ".join(map(str, paths)), found, progress, self.exclusion()
        )
        self.wake_indexer()
        return receipt

    def import_file(self, entry: Entry, format: Format, admitted: Admission) -> FileReceipt:
        """Save what a file holds, without a receipt: of one that is followed while it grows."""
        from recollect.transfer.importing import import_file

        taken = import_file(self.store, entry, format, admitted)
        self.wake_indexer()
        return taken

    def undo_import(self, receipt: int) -> Receipt:
        """Take one import back."""
        undone = self.store.undo_import(receipt)
        self.wake_indexer()
        return undone

    def receipts(self) -> list[Receipt]:
        return self.store.receipts()

    # -- adding ---

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
        """Add a conversation, or what is new in it. Messages are mappings with `role` and
        `content`, and optionally `id`, `author`, `created_at` and the other fields of a Passage."""
        conversation = id or str(uuid.uuid4())
        passages: list[Passage] = []
        for number, message in enumerate(messages):
            given = dict(message)
            given.setdefault("id", f"{conversation}:{number}")
            given.setdefault("parent", passages[-1].id if passages else None)
            passages.append(_passage(given))
        started = _moment(created_at, "created_at") or (
            passages[0].created_at if passages else None
        )
        times = [p.created_at for p in passages if p.created_at]
        document = Document(
            source=SOURCE,
            source_id=conversation,
            title=title,
            project=project,
            created_at=started or datetime.now(UTC),
            updated_at=max(times, default=None) or started or datetime.now(UTC),
            passages=tuple(passages),
            metadata=dict(metadata or {}),
        )
        (saved,) = self.store.save([document])
        self.wake_indexer()
        return self.store.document(saved.id)

    def add_message(self, conversation_id: str, role: str, content: str, **fields: Any) -> str:
        """Add one message to a conversation and return its id, once it is durable.

        With an `id` (or `message_id`) this may be repeated: the same message is stored once, and
        another one of that id raises Conflict. The other fields of a Passage may be given too
        (also as `tool_used`, `timestamp`); the time is now unless said.
        """
        named = {_ALIASES.get(name, name): value for name, value in fields.items()}
        id_ = named.get("id") or str(uuid.uuid4())
        passage = _passage({**named, "id": id_, "role": role, "content": content})
        self.store.append(conversation_id, passage)
        self.wake_indexer()
        return passage.id

    def delete_conversation(self, conversation_id: str) -> Document:
        """Remove a conversation for good: text, index, everything. What is returned is the only copy;
        `restore_conversation` puts it back."""
        deleted = self.store.pop(conversation_id)
        self.wake_indexer()
        self.archive.forget((deleted.source, deleted.source_id))
        return deleted

    def restore_conversation(self, document: Document) -> Document:
        """Put a conversation back that was deleted; what is in the library already is left alone."""
        (saved,) = self.store.save([document], index_ids=document.source == PROXY)
        self.wake_indexer()
        return self.store.header(saved.id)

    # -- the calls of contract 1: plain mappings in and out ---

    def create_conversation(
        self,
        conversation_id: str | None = None,
        session_id: str | None = None,
        title: str = "",
        namespace: str = "default",
        metadata: Mapping[str, Json] | None = None,
        origin: str = SOURCE,
    ) -> dict[str, Json]:
        """A new conversation of a session, or the one that it has already.

        With an id alone, also the one of that id. Raises Conflict when the id is another session's, or the
        session's conversation has another id.
        """
        from recollect.model.fields import conversation_shape

        id_ = conversation_id or str(uuid.uuid4())
        session = session_id or id_
        there = self.store.find_id(origin, session)
        if there is None and conversation_id is not None and self._has(id_):
            there = (
                id_ if session_id is None else self.store.find_id(origin, session)
            )  # it may be just made
            if there is None:
                raise Conflict(
                    f"Conversation id {id_[:80]!r} is already used by another conversation."
                )
        if there is None:
            now = datetime.now(UTC)
            (saved,) = self.store.save(
                [
                    Document(
                        origin,
                        session,
                        title,
                        project=namespace,
                        created_at=now,
                        updated_at=now,
                        metadata=dict(metadata or {}),
                        id=id_,
                    )
                ]
            )
            self.wake_indexer()
            there = saved.id
            if saved.created and identifier(there) != identifier(
                id_
            ):  # another took the name meanwhile
                self.store.delete(there)
                raise Conflict(
                    f"Conversation id {id_[:80]!r} is already used by another conversation."
                )
        if conversation_id is not None and identifier(there) != identifier(conversation_id):
            raise Conflict(f"Session {session[:80]!r} already has the conversation {there[:80]!r}.")
        return conversation_shape(self.store.summary(there))

    def _has(self, id: str) -> bool:
        try:
            self.store.header(id)
        except NotFound:
            return False
        return True

    def get_conversation(self, conversation_id: str) -> dict[str, Json]:
        """A conversation with its messages. Raises NotFound."""
        from recollect.model.fields import conversation_shape, message_shape

        document = self.store.document(conversation_id)
        messages = [message_shape(passage, document.id) for passage in document.passages]
        return conversation_shape(document) | {"messages": messages}

    def get_conversation_by_session(self, session_id: str) -> dict[str, Json] | None:
        from recollect.model.fields import conversation_shape

        found = self.store.find_id(SOURCE, session_id) or self.store.find_id(PROXY, session_id)
        return None if found is None else conversation_shape(self.store.summary(found))

    def get_messages(
        self, conversation_id: str, limit: int | None = None, offset: int = 0
    ) -> list[dict[str, Json]]:
        """The messages of a conversation in reading order. Raises NotFound."""
        from recollect.model.fields import message_shape

        found, _ = self.store.passage_page(
            conversation_id, max(offset, 0), _EVERYTHING if limit is None else max(limit, 0)
        )
        return [message_shape(passage, conversation_id) for passage in found]

    def search_messages(
        self, query: str, conversation_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[dict[str, Json]]:
        """The messages that contain a text, newest first."""
        return self.find_messages(query, conversation_id, limit, offset)[0]

    def find_messages(
        self, query: str, conversation_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[list[dict[str, Json]], int]:
        """The same, and how many there are in all."""
        from recollect.model.fields import message_shape

        found, total = self.find_text(query, conversation_id, limit, offset)
        return [message_shape(passage, document) for document, passage in found], total

    def find_text(
        self, query: str, conversation_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[list[tuple[str, Passage]], int]:
        """Messages that contain a text without regard to case, newest first, each with the id of its
        conversation; and how many there are in all."""
        from recollect.language.query import check_size

        check_size(query)
        within = () if conversation_id is None else (self.store.header(conversation_id).id,)
        filter_ = Filter(kinds=(CONVERSATION,), conversations=tuple(map(identifier, within)))
        limit, offset = (
            max(1, min(limit, LIMITS.page_size)),
            max(0, min(offset, LIMITS.page_offset)),
        )
        candidates, total = self.store.find_substring(storable(query), filter_, limit, offset)
        read = self.store.passages_by_key([c.key for c in candidates])
        return [read[c.key] for c in candidates if c.key in read], total

    def update_conversation(
        self,
        conversation_id: str,
        title: str | None = None,
        project: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> None:
        """Change what is said of a conversation; of metadata only the keys given. Raises NotFound."""
        changes = dict(metadata or {})
        if tags is not None:
            changes["tags"] = (
                list(dict.fromkeys(t.strip() for t in _names(tags, "tags") if t.strip())) or None
            )
        self.store.update(conversation_id, title, project, changes or None)
        self.wake_indexer()

    # -- threads ---

    def thread(self, topic: str, metadata: Mapping[str, Json] | None = None) -> Document:
        """The thread of a topic, made on first use."""
        if not topic.strip():
            raise InvalidInput("A thread needs a topic.")
        there = self.store.find_id(BUS, topic)
        if there is None:
            now = datetime.now(UTC)
            thread = Document(
                BUS,
                topic,
                topic,
                created_at=now,
                updated_at=now,
                metadata=dict(metadata or {}),
                id=str(uuid.uuid4()),
            )
            (saved,) = self.store.save([thread])
            self.wake_indexer()
            there = saved.id
        return self.store.header(there)

    def post(
        self,
        thread_id: str,
        author: str,
        content: str,
        *,
        role: str = "user",
        id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        human_only: bool = False,
        created_at: Moment = None,
    ) -> tuple[Passage, bool]:
        """Write into a thread; gives the message with its place (`position` + 1 is its number in the
        thread) and whether it was new."""
        passage = _passage(
            {
                "id": id or str(uuid.uuid4()),
                "role": role,
                "content": content,
                "author": author,
                "metadata": metadata,
                "visibility": "human_only" if human_only else "all",
                "created_at": created_at,
            }
        )
        placed = self.store.append(thread_id, passage)
        self.wake_indexer()
        ((stored,), _) = self.store.passage_page(thread_id, placed.position, 1)
        return stored, placed.new

    def messages(
        self, conversation_id: str, after: int = 0, limit: int = 100
    ) -> tuple[list[Passage], int]:
        """Messages that follow number `after` in order, and the number of the last. Raises NotFound."""
        limit = max(1, min(limit, LIMITS.page_size))
        return self.store.passage_page(conversation_id, max(0, min(after, _EVERYTHING)), limit)

    # -- recording ---

    def recordings(self, messages: Sequence[str]) -> list[tuple[str, str]]:
        """Recorded conversations that hold some of these messages, and which; the one that changed last first."""
        return self.store.documents_containing(PROXY, messages)

    def record(self, conversation_id: str, messages: Sequence[Passage]) -> int:
        """Add those messages that the conversation does not have, in one go; says how many were new."""
        added = self.store.extend(conversation_id, messages)
        self.wake_indexer()
        return added

    # -- reading ---

    def conversation(self, id: str) -> Document:
        """A conversation with every branch. Raises NotFound."""
        return self.store.document(id)

    def document(self, id: str) -> Document:
        """A document of any kind with all its passages. Raises NotFound."""
        return self.store.document(id)

    def passages(self, id: str, start: int, limit: int) -> tuple[list[Passage], int]:
        """The passages of a document from a position on, and how many it has. Raises NotFound."""
        return self.store.passage_page(id, start, limit)

    def conversations(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        projects: Sequence[str] = (),
        sources: Sequence[str] = (),
        kinds: Sequence[str] = (CONVERSATION,),
        search: str = "",
        roles: Sequence[str] = (),
        authors: Sequence[str] = (),
        after: Moment = None,
        before: Moment = None,
        tags: Sequence[str] = (),
    ) -> tuple[list[Summary], int]:
        """Conversations, last changed first, and how many there are in all. Of roles, authors and
        dates at least one message must have them all; `search` is in the title or the id."""
        filter_ = Filter(
            roles=_names(roles, "roles"),
            authors=_names(authors, "authors"),
            after=_moment(after, "after"),
            before=_moment(before, "before", end=True),
            tags=_names(tags, "tags"),
            projects=_names(projects, "projects"),
            sources=_names(sources, "sources"),
            kinds=_names(kinds, "kinds"),
        )
        limit = max(1, min(limit, LIMITS.page_size))
        return self.store.summaries(
            filter_, storable(search), limit, max(0, min(offset, LIMITS.page_offset))
        )

    def documents(
        self, *, kinds: Sequence[str] = KINDS, projects: Sequence[str] = ()
    ) -> Iterator[Document]:
        """Every document, one in memory at a time."""
        return self.store.iter_documents(
            Filter(kinds=_names(kinds, "kinds"), projects=_names(projects, "projects"))
        )

    def view(
        self,
        conversation_id: str,
        *,
        through: str | None = None,
        around: str | None = None,
        start: int | None = None,
        limit: int = 50,
    ) -> View:
        """A part of one way through a conversation with branches: of the canonical way, or of one that
        goes `through` a message. It begins at `start`, or so that the message `around` is in its middle.
        Raises NotFound."""
        from recollect.knowledge.branches import path_through

        document = self.store.header(conversation_id)
        steps = path_through(self.store.positions(conversation_id), through or around)
        limit = max(1, min(limit, LIMITS.page_size))
        if start is None and around is not None:
            wanted = identifier(around)
            middle = next((n for n, step in enumerate(steps) if step.position.id == wanted), 0)
            start = max(0, min(middle - limit // 2, len(steps) - limit))
        start = max(0, min(start or 0, len(steps)))
        part = steps[start : start + limit]
        read = self.store.passages_by_key([step.position.key for step in part])
        shown = tuple(
            MessageView(read[s.position.key][1], s.siblings, s.index)
            for s in part
            if s.position.key in read
        )
        return View(document, shown, start, len(steps))

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        """The projects, sources and tags of a kind, with the number of documents, most first."""
        return self.store.facets(kind)

    def activity(self) -> dict[str, Any]:
        """How many messages there were over time, by origin, model, tool and namespace."""
        from recollect.knowledge.activity import activity_report

        return activity_report(self.store.activity())

    def version(self) -> object:
        """A value that differs whenever anything was written since it was last asked for, by any process."""
        return self.store.version()

    # -- finding ---

    def match_expression(
        self,
        text: str,
        *,
        conversations: Sequence[str] = (),
        limit: int = 50,
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages whose contents match an expression of FTS5's language, in the order of the text engine,
        with excerpts of twenty words. Raises MalformedQuery. `audience` is who reads the page."""
        from recollect.search.expression import match_expression

        within = tuple(map(identifier, _names(conversations, "conversations")))
        filter_ = Filter(conversations=within, kinds=(CONVERSATION,))
        return match_expression(self._visible_store(audience), storable(text), filter_, limit)

    def search(
        self,
        text: str | Sequence[str],
        *,
        mode: str = "both",
        group: str = "message",
        limit: int = 20,
        offset: int = 0,
        roles: Sequence[str] = (),
        authors: Sequence[str] = (),
        after: Moment = None,
        before: Moment = None,
        projects: Sequence[str] = (),
        sources: Sequence[str] = (),
        kinds: Sequence[str] = (),
        conversations: Sequence[str] = (),
        tags: Sequence[str] = (),
        hidden: bool = False,
        now: Moment = None,
        score: str = "rank",
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages that match, best first: a question, words, "phrases", prefix*, AND, OR, NOT, NEAR,
        parentheses, and the fields role: from: in: tag: title: before: after:.

        `mode` is "both" (words and meaning; words alone while there are no vectors), "text" or
        "vector". `group="conversation"` gives each conversation once, with its best messages. Two
        to five texts are concepts that a conversation must all have. Dates are inclusive; a bare
        date is the whole day UTC; `now` is when the question is asked, for "last week" and the
        like. What the origin hides from the person (system prompts) is found only with `hidden`.
        With `score="fts"` hits have the text engine's own score (`ts_rank` or BM25), as a share of the
        best one, and its order. `audience` is who reads the page.
        """
        from recollect.search import engine

        filter_ = Filter(
            roles=_names(roles, "roles"),
            authors=_names(authors, "authors"),
            after=_moment(after, "after"),
            before=_moment(before, "before", end=True),
            projects=_names(projects, "projects"),
            sources=_names(sources, "sources"),
            kinds=_names(
                kinds or (KINDS if hidden else ()), "sources"
            ),  # observations are hidden, too
            conversations=tuple(map(identifier, _names(conversations, "conversations"))),
            tags=_names(tags, "tags"),
            hidden=hidden,
        )
        wish = SearchOptions(
            mode, group, limit, offset, _moment(now, "now") or datetime.now(UTC), score
        )
        self.wake_indexer()
        if isinstance(text, str):
            return engine.search(
                self._visible_store(audience), self._meaning, storable(text), filter_, wish
            )
        return engine.search_concepts(
            self._visible_store(audience), self._meaning, [storable(t) for t in text], filter_, wish
        )

    def _visible_store(self, audience: Audience) -> Store:
        from recollect.store.views.audience import visible_store

        return visible_store(self.store, audience)

    def related(
        self,
        conversation: str,
        message: str,
        *,
        mode: str = "both",
        group: str = "message",
        limit: int = 20,
        offset: int = 0,
    ) -> Page:
        """Messages like a given one, in words and in meaning. Raises NotFound."""
        from recollect.search import engine

        wish = SearchOptions(mode, group, limit, offset, datetime.now(UTC))
        return engine.related(self.store, self._meaning, conversation, message, Filter(), wish)

    def recent(
        self,
        text: str | None = None,
        *,
        roles: Sequence[str] = (),
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
    ) -> list[Candidate]:
        """The newest messages that contain the text literally or all its words, or whose
        conversation's title does; without a text, simply the newest."""
        from recollect.language.query import check_size

        check_size(text or "")
        filter_ = Filter(
            roles=_names(roles, "roles"), after=after, before=before, kinds=(CONVERSATION,)
        )
        return self.store.recent(storable(text) if text else None, filter_, limit)

    # -- care ---

    def index(
        self,
        progress: IndexProgress | None = None,
        on_wait: Callable[[], None] | None = None,
        *,
        wait: bool = True,
    ) -> bool:
        """Observe everything, make it fast to search and embed it, and return when all of it is done.

        If the background indexer or another process is indexing the library, waits until it is done.
        `on_wait` is called before each wait. Without `wait`, leaves the work to it and returns False.
        """
        from recollect.index.refresh import refresh
        from recollect.memory.backlog import catch_up
        from recollect.models.embeddings import embedding_setting

        if not wait:
            on_wait = None
        elif on_wait is None:
            on_wait = _do_nothing
        catch_up(self.store, progress, on_wait=on_wait)
        return refresh(self.store, embedding_setting(), progress, on_wait=on_wait)

    def wake_indexer(self) -> None:
        """Wake the background indexer, if there is one. Whatever changes documents calls this."""
        if self._background is not None:
            self._background.wake()

    def redact(self, *, report: bool = False, progress: IndexProgress | None = None) -> Redaction:
        """Take secrets out of everything that is stored, for good; with `report`, only say where there are any."""
        from recollect.transfer.redaction import redact

        found = redact(self.store, report, progress)
        self.wake_indexer()
        return found

    def stats(self) -> dict[str, object]:
        return self.store.stats()

    def verify(self) -> Findings:
        """Compare everything derived with the messages, without changing anything."""
        from recollect.index.refresh import missing_vectors

        findings = self.store.verify()
        if not findings.damaged:
            findings.never_embedded = sum(len(keys) for _, keys in missing_vectors(self.store))
        return findings

    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild the text index, and queue every message for embedding that was lost from the queue."""
        from recollect.index.refresh import missing_vectors

        self.store.repair(progress)
        for space, keys in missing_vectors(self.store):
            self.store.queue(space, keys)
        self.wake_indexer()


def _do_nothing() -> None:
    pass


_EVERYTHING = 2_000_000_000
_ALIASES = {
    "message_id": "id",
    "tool_used": "tool",
    "timestamp": "created_at",
    "parent_id": "parent",
}
_PASSAGE_FIELDS = frozenset(Passage._fields) - {"position", "canonical"}


def _passage(given: Mapping[str, Any]) -> Passage:
    if unknown := given.keys() - _PASSAGE_FIELDS:
        raise InvalidInput(
            f"A message has no field {sorted(unknown)[0]!r}; extra data goes into `metadata`."
        )
    for name in ("id", "role", "content"):
        if not isinstance(given.get(name), str) or (name != "content" and not given[name]):
            raise InvalidInput(f"A message needs `{name}` as text, not {given.get(name)!r}.")
    fields = dict(given)
    for name in ("created_at", "updated_at"):
        fields[name] = _moment(given.get(name), name)
    for name in ("attachments", "citations"):
        fields[name] = tuple(given.get(name) or ())
    fields["metadata"] = dict(given.get("metadata") or {})
    if is_marked_human_only(fields["metadata"]):
        fields["visibility"] = HUMAN_ONLY
    return Passage(**fields)


def _moment(value: Moment, name: str, *, end: bool = False) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return bound(value if isinstance(value, str) else value.isoformat(), end=end)
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{name}: {truncate(repr(value), 80)} is not a date. "
            "Use ISO 8601, such as 2026-01-31 or 2026-01-31T14:30:00+01:00."
        ) from error


def _names(values: Sequence[str], name: str) -> tuple[str, ...]:
    given = [values] if isinstance(values, str) else values
    if len(given) > 100:
        raise InvalidInput(f"{name}: at most 100 values are accepted.")
    return tuple(storable(v) for v in given)
