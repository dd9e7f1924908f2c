"""Codex CLI: rollouts (`rollout-*.jsonl`), `codex exec --json`, and `history.jsonl`.

A rollout is one thread, named by the `id` of its first session_meta; later ones were copied with
the history of a fork. Visible text is written twice: response items are used, and events only if
a file has no items of that kind. A rollback moves the canonical path; what was rolled back stays
as a branch.

Items have no ids that survive copying (times are rewritten, missing ids are filled in). So ids are
made from the text and its turn: the turn's own id, which copies keep, or in older files the first
thread and the prompts so far. Therefore the copy in a fork has the ids of its parent, and a file
that grows keeps its ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    add_records,
    first_line,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.chats.codex_exec import EVENT_TYPES, Events, History, digest
from recollect.importers.chats.codex_items import (
    Draft,
    ItemReader,
    compaction_summary,
    event_drafts,
)
from recollect.importers.entries import Entry
from recollect.importers.problems import contain_errors
from recollect.language.text import moment
from recollect.model.chat_messages import as_mapping, as_text
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CODEX

SOURCE = CODEX
DESCRIPTION = "Codex CLI sessions (rollout-*.jsonl, codex exec --json, history.jsonl)"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ROLLOUT_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_FLAT_TYPES = tuple(
    "message reasoning function_call function_call_output local_shell_call ghost_snapshot".split()
)
_ROLLOUT_START = re.compile(
    rf'[\[{{].{{0,300}}?"type"\s*:\s*"({"|".join(_ROLLOUT_TYPES)})"', re.DOTALL
)
_CWD = re.compile(r"<cwd>([^<]+)</cwd>")
# The end of what an editor's extension puts before the prompt.
_REQUEST = re.compile(r"^## My request for Codex:\s*$", re.MULTILINE)
_METADATA = tuple(
    "cwd git originator cli_version source model_provider session_id forked_from_id".split()
)
_AGENT_METADATA = ("parent_thread_id", "agent_nickname", "agent_role")


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    return _schema(entry) != ""


def _schema(entry: Entry) -> str:
    """Which of the three files this is: "rollout", "exec" or "history"; empty if none."""
    name = entry.basename.lower()
    if not name.endswith((".jsonl", ".json")):
        return ""
    head = head_text(entry)
    records = [] if name.endswith(".json") else first_records(head)
    if not records:
        is_rollout = _ROLLOUT_START.match(head.lstrip()) and '"payload"' in head
        return "rollout" if is_rollout else ""
    for record in records:
        if record.get("type") in EVENT_TYPES:
            return "exec"
        if {"session_id", "ts", "text"} <= record.keys():
            return "history"
        if _is_rollout(record, has_rollout_name=name.startswith("rollout-")):
            return "rollout"
    return ""


def _is_rollout(record: Mapping[str, Json], *, has_rollout_name: bool) -> bool:
    if isinstance(record.get("payload"), dict):
        return record.get("type") in _ROLLOUT_TYPES
    return _is_flat_header(record) or (has_rollout_name and record.get("type") in _FLAT_TYPES)


def _is_flat_header(record: Mapping[str, Json]) -> bool:
    """Whether this is the first line of a file of the first versions."""
    if "type" in record or not {"id", "timestamp"} <= record.keys():
        return False
    return "instructions" in record or "git" in record


# -- files -------------------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    tally = Tally(entry.name)
    reader = _reader(entry, tally)

    def add(number: int, record: Json) -> None:
        if not isinstance(record, dict):
            raise Unusable("line without a record")
        reader.add(number, record)

    yield from add_records(_records(entry), add)
    documents = list(reader.documents(SOURCE.name))
    yield from documents
    if not documents:
        yield Problem("session without messages", where=entry.name, unit="conversations")
    yield from tally.problems()


def _reader(entry: Entry, tally: Tally) -> Events | History | _Rollout:
    schema = _schema(entry)
    if schema == "exec":
        return Events(entry, tally)
    if schema == "history":
        return History(entry, tally)
    return _Rollout(entry, tally)


def _records(entry: Entry) -> Iterator[tuple[int, Json] | Problem]:
    if entry.basename.lower().endswith(".jsonl"):
        return jsonstream.lines(entry)
    return jsonstream.records(entry, ("payload",))


# -- rollouts ----------------------------------------------------------------


@dataclass(slots=True)
class _Turn:
    """The start of a turn."""

    id: str


@dataclass(slots=True)
class _Rollback:
    turns: int


Step = Draft | _Turn | _Rollback


@dataclass(slots=True)
class _Rollout:
    """Reads the lines of one thread."""

    entry: Entry
    tally: Tally
    metas: list[dict[str, Json]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    items: ItemReader = field(default_factory=ItemReader)
    model: str = ""
    cwd: str = ""
    turn_cwd: str = ""
    """The folder of the current turn, which may differ from that of the thread."""

    # -- lines --

    def add(self, _number: int, record: dict[str, Json]) -> None:
        payload = record.get("payload")
        if "payload" not in record:
            self._add_flat(record)
        elif not isinstance(payload, dict):
            raise Unusable("line without a payload")
        else:
            self._add(as_text(record.get("type")), payload, record)

    def _add_flat(self, record: dict[str, Json]) -> None:
        """Add a line of the first versions: an item, or the header without a type."""
        if _is_flat_header(record):
            self.metas.append(record)
        elif "type" in record or "role" in record:
            self._add_item(record, record)
        elif "record_type" not in record:
            raise Unusable("line without a payload")

    def _add(self, type_: str, payload: dict[str, Json], record: Mapping[str, Json]) -> None:
        if type_ == "response_item":
            self._add_item(payload, record)
        elif type_ == "event_msg":
            self._add_event(payload, record)
        elif type_ == "inter_agent_communication":
            self._add_item({**payload, "type": "agent_message"}, record)
        elif type_ == "session_meta":
            self.metas.append({k: v for k, v in payload.items() if k != "base_instructions"})
            self.cwd = self.cwd or as_text(payload.get("cwd"))
        elif type_ == "turn_context":
            self.model = as_text(payload.get("model")) or self.model
            self.turn_cwd = as_text(payload.get("cwd")) or self.turn_cwd
            self.cwd = self.cwd or self.turn_cwd
        elif type_ == "compacted":
            self._add_drafts(compaction_summary(payload), record)
        else:
            self.tally.skip("record type", type_)

    def _add_item(self, item: dict[str, Json], record: Mapping[str, Json]) -> None:
        drafts = self.items.drafts(item)
        if drafts is None:
            self.tally.skip("item type", item.get("type"))
        else:
            self._add_drafts(drafts, record)

    def _add_event(self, event: dict[str, Json], record: Mapping[str, Json]) -> None:
        type_ = event.get("type")
        turns = event.get("num_turns")
        if type_ == "thread_rolled_back" and isinstance(turns, int) and turns > 0:
            self.steps.append(_Rollback(turns))
            return
        if type_ in ("task_started", "turn_started"):
            turn = as_text(event.get("turn_id"))
            if _UUID.fullmatch(turn):
                self.steps.append(_Turn(turn))
            return
        drafts = event_drafts(event)
        if drafts is None:
            self.tally.skip("event without text of its own")
        else:
            self._add_drafts(drafts, record, is_event=True)

    def _add_drafts(
        self, drafts: Iterator[Draft], record: Mapping[str, Json], *, is_event: bool = False
    ) -> None:
        for draft in drafts:
            metadata = dict(draft.passage.metadata)
            if self.turn_cwd and self.turn_cwd != self.cwd:
                metadata["cwd"] = self.turn_cwd
            model = None
            if draft.passage.role == "assistant":
                model = self.model or None
            draft.passage = draft.passage._replace(
                created_at=moment(record.get("timestamp")), model=model, metadata=metadata
            )
            draft.is_event = is_event
            self.steps.append(draft)

    # -- the document --

    def documents(self, source: str) -> Iterator[Document]:
        thread = self._thread_id()
        passages, head = _link(self._steps_without_repeats(), self._first_thread(thread))
        if not passages:
            return
        meta = self.metas[0] if self.metas else {}
        times = [passage.created_at for passage in passages if passage.created_at]
        started_at = moment(meta.get("timestamp"))
        yield Document(
            source=source,
            source_id=thread,
            title=_title(passages),
            project=self._project(passages),
            created_at=started_at or min(times, default=None),
            updated_at=max(times, default=started_at),
            head=head,
            passages=tuple(passages),
            metadata=self._metadata(meta),
            shared_ids=True,
        )

    def _thread_id(self) -> str:
        if self.metas:
            meta = self.metas[0]
            thread = as_text(meta.get("id")) or as_text(meta.get("session_id"))
            if thread:
                return thread
        uuid = _UUID.search(stem(self.entry))
        if uuid:
            return uuid[0]
        return stem(self.entry)

    def _first_thread(self, thread: str) -> str:
        """The thread that the history of this one began with, as far as the file tells."""
        parents = {
            as_text(meta.get("id")): as_text(meta.get("forked_from_id"))
            for meta in reversed(self.metas)
        }
        # The parent of an older fork is not named, but its session_meta is next in the file.
        ids = [as_text(meta.get("id")) for meta in self.metas]
        next_ids = dict(reversed(list(pairwise(ids))))
        visited: set[str] = set()
        current = thread
        while current and current not in visited:
            visited.add(current)
            thread = current
            current = parents.get(thread) or next_ids.get(thread, "")
        return thread

    def _steps_without_repeats(self) -> list[Step]:
        """The steps without events that repeat items."""
        item_kinds = {
            (step.passage.role, step.passage.type)
            for step in self.steps
            if isinstance(step, Draft) and not step.is_event
        }

        def repeats_item(step: Step) -> bool:
            if not isinstance(step, Draft) or not step.is_event:
                return False
            return (step.passage.role, step.passage.type) in item_kinds

        return [step for step in self.steps if not repeats_item(step)]

    def _project(self, passages: list[Passage]) -> str:
        if self.cwd:
            return self.cwd
        for passage in passages:
            cwd = _CWD.search(passage.content) if passage.type == "context" else None
            if cwd:
                return cwd[1]
        return "default"

    def _metadata(self, meta: Mapping[str, Json]) -> dict[str, Json]:
        subagent = as_mapping(as_mapping(meta.get("source")).get("subagent"))
        spawn = as_mapping(subagent.get("thread_spawn"))
        metadata = {key: meta[key] for key in (*_METADATA, *_AGENT_METADATA) if meta.get(key)}
        metadata |= {key: spawn[key] for key in _AGENT_METADATA if spawn.get(key)}
        if self.items.encrypted:
            metadata["encrypted_items"] = self.items.encrypted
        return metadata


def _link(steps: list[Step], first_thread: str) -> tuple[list[Passage], str | None]:
    """The passages with ids and parents, and the head of the thread."""
    passages: list[Passage] = []
    repetitions: Counter[str] = Counter()
    before_prompts: list[str | None] = []
    scope, has_turn_id, head = first_thread, False, None
    for step in steps:
        if isinstance(step, _Turn):
            scope, has_turn_id = step.id, True
            continue
        if isinstance(step, _Rollback):
            if before_prompts:
                index = max(len(before_prompts) - step.turns, 0)
                head = before_prompts[index]
                del before_prompts[index:]
            continue
        passage = step.passage
        if step.is_prompt:
            before_prompts.append(head)
            if not has_turn_id:
                scope = digest(scope, passage.content)
        key = digest(scope, str(passage.role), passage.type, step.call, passage.content)
        id_ = f"{key}:{repetitions[key]}" if repetitions[key] else key
        repetitions[key] += 1
        passages.append(passage._replace(id=id_, parent=head))
        head = id_
    return passages, head


def _title(passages: list[Passage]) -> str:
    for passage in passages:
        if passage.role == "user" and passage.type == "message":
            request = _REQUEST.search(passage.content)
            if request:
                return first_line(passage.content[request.end() :])
            break
    return title_of(passages)
