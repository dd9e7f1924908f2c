"""Codex CLI: rollouts (`rollout-*.jsonl`), `codex exec --json`, and `history.jsonl`.

A rollout is one thread, named by the `id` of its first session_meta; later
ones were copied in with a fork's history. What is seen is written twice:
response items are taken, and events only where a file has no items of that
kind. A rollback moves the canonical path and keeps what was taken back as a
branch. Items have no ids that survive copying (times are written anew, missing
ids are filled in), so ids are made of what is said and of the turn it is said
in: the turn's own id, which copies keep, or in older files the thread it all
began with and the prompts so far. A fork's copy thus has its parent's ids,
and a grown file keeps those it had.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    as_mapping,
    as_text,
    first_line,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.chats.codex_exec import EVENT_TYPES, Events, History, digest
from recollect.importers.chats.codex_items import Draft, Reader, summed_up, told
from recollect.importers.entries import Entry
from recollect.language.text import moment
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CODEX

SOURCE = CODEX
DESCRIPTION = "Codex CLI sessions (rollout-*.jsonl, codex exec --json, history.jsonl)"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ROLLOUT_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_FLAT_TYPES = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "local_shell_call",
    "ghost_snapshot",
)
_ROLLOUT_START = re.compile(
    rf'[\[{{].{{0,300}}?"type"\s*:\s*"({"|".join(_ROLLOUT_TYPES)})"', re.DOTALL
)
_CWD = re.compile(r"<cwd>([^<]+)</cwd>")
# What an editor's extension sets before the prompt ends here.
_REQUEST = re.compile(r"^## My request for Codex:\s*$", re.MULTILINE)
_NOTED = (
    "cwd",
    "git",
    "originator",
    "cli_version",
    "source",
    "model_provider",
    "session_id",
    "forked_from_id",
)
_NOTED_OF_AGENTS = ("parent_thread_id", "agent_nickname", "agent_role")


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    return _schema(entry) != ""


def _schema(entry: Entry) -> str:
    name = entry.basename.lower()
    if not name.endswith((".jsonl", ".json")):
        return ""
    head = head_text(entry)
    if name.endswith(".json") or not (found := first_records(head)):
        return "rollout" if _ROLLOUT_START.match(head.lstrip()) and '"payload"' in head else ""
    for record in found:
        if record.get("type") in EVENT_TYPES:
            return "exec"
        if {"session_id", "ts", "text"} <= record.keys():
            return "history"
        if _is_rollout(record, named=name.startswith("rollout-")):
            return "rollout"
    return ""


def _is_rollout(record: Mapping[str, Json], *, named: bool) -> bool:
    if isinstance(record.get("payload"), dict):
        return record.get("type") in _ROLLOUT_TYPES
    return _is_flat_start(record) or (named and record.get("type") in _FLAT_TYPES)


def _is_flat_start(record: Mapping[str, Json]) -> bool:
    return (
        {"id", "timestamp"} <= record.keys()
        and "type" not in record
        and ("instructions" in record or "git" in record)
    )


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    tally = Tally(entry.name)
    reader = _reader(entry, tally)
    for item in _records(entry):
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        try:
            if not isinstance(record, dict):
                raise Unusable("line without a record")
            reader.add(number, record)
        except Unusable as error:
            yield Problem(str(error), where=f"line {number}", failed=True)
    documents = list(reader.documents(SOURCE.name))
    yield from documents
    if not documents:
        yield Problem("no messages in the session", where=entry.name, unit="conversations")
    yield from tally.problems()


def _reader(entry: Entry, tally: Tally) -> Events | History | _Rollout:
    schema = _schema(entry)
    if schema == "exec":
        return Events(entry, tally)
    return History(entry, tally) if schema == "history" else _Rollout(entry, tally)


def _records(entry: Entry) -> Iterator[tuple[int, Json] | Problem]:
    if entry.basename.lower().endswith(".jsonl"):
        return jsonstream.lines(entry)
    return jsonstream.records(entry, ("payload",))


@dataclass(slots=True)
class _Turn:
    """The start of a turn, by its own id."""

    id: str


@dataclass(slots=True)
class _Rollback:
    turns: int


@dataclass(slots=True)
class _Rollout:
    """Reads the lines of one thread."""

    entry: Entry
    tally: Tally
    metas: list[dict[str, Json]] = field(default_factory=list)
    steps: list[Draft | _Turn | _Rollback] = field(default_factory=list)
    reader: Reader = field(default_factory=Reader)
    model: str = ""
    cwd: str = ""
    here: str = ""
    """Where the current turn works, which may be elsewhere than where the thread began."""

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
        """A line of the first versions: the item itself, after a header without a type."""
        if _is_flat_start(record):
            self.metas.append(record)
        elif "type" in record or "role" in record:
            self._item(record, record)
        elif "record_type" not in record:
            raise Unusable("line without a payload")

    def _add(self, type_: str, payload: dict[str, Json], record: Mapping[str, Json]) -> None:
        if type_ == "response_item":
            self._item(payload, record)
        elif type_ == "event_msg":
            self._event(payload, record)
        elif type_ == "inter_agent_communication":
            self._item({**payload, "type": "agent_message"}, record)
        elif type_ == "session_meta":
            self.metas.append({k: v for k, v in payload.items() if k != "base_instructions"})
            self.cwd = self.cwd or as_text(payload.get("cwd"))
        elif type_ == "turn_context":
            self.model = as_text(payload.get("model")) or self.model
            self.here = as_text(payload.get("cwd")) or self.here
            self.cwd = self.cwd or self.here
        elif type_ == "compacted":
            self._keep(summed_up(payload), record)
        else:
            self.tally.skip("record type", type_)

    def _item(self, item: dict[str, Json], record: Mapping[str, Json]) -> None:
        drafts = self.reader.drafts(item)
        if drafts is None:
            self.tally.skip("item type", item.get("type"))
        else:
            self._keep(drafts, record)

    def _event(self, event: dict[str, Json], record: Mapping[str, Json]) -> None:
        type_ = event.get("type")
        turns = event.get("num_turns")
        if type_ == "thread_rolled_back" and isinstance(turns, int) and turns > 0:
            self.steps.append(_Rollback(turns))
        elif type_ in ("task_started", "turn_started"):
            if _UUID.fullmatch(as_text(event.get("turn_id"))):
                self.steps.append(_Turn(as_text(event.get("turn_id"))))
        elif (drafts := told(event)) is not None:
            self._keep(drafts, record, event=True)
        else:
            self.tally.skip("event without words of its own")

    def _keep(
        self, drafts: Iterator[Draft], record: Mapping[str, Json], *, event: bool = False
    ) -> None:
        notes = {"cwd": self.here} if self.here != self.cwd and self.here else {}
        for draft in drafts:
            draft.passage = draft.passage._replace(
                created_at=moment(record.get("timestamp")),
                model=(self.model or None) if draft.passage.role == "assistant" else None,
                metadata={**draft.passage.metadata, **notes},
            )
            draft.event = event
            self.steps.append(draft)

    # -- the document --

    def documents(self, origin: str) -> Iterator[Document]:
        thread = self._thread_id()
        passages, head = _linked(self._said_once(), self._root(thread))
        meta = self.metas[0] if self.metas else {}
        times = [p.created_at for p in passages if p.created_at]
        started = moment(meta.get("timestamp"))
        if passages:
            yield Document(
                source=origin,
                source_id=thread,
                title=_title(passages),
                project=self._project(passages),
                created_at=started or min(times, default=None),
                updated_at=max(times, default=started),
                head=head,
                passages=tuple(passages),
                metadata=self._metadata(meta),
                shared_ids=True,
            )

    def _thread_id(self) -> str:
        meta = self.metas[0] if self.metas else {}
        named = _UUID.findall(stem(self.entry))
        return (
            as_text(meta.get("id"))
            or as_text(meta.get("session_id"))
            or (named[0] if named else stem(self.entry))
        )

    def _root(self, thread: str) -> str:
        """The thread that the history of this one began with, as far as the file tells."""
        origins = {
            as_text(meta.get("id")): as_text(meta.get("forked_from_id"))
            for meta in reversed(self.metas)
        }
        seen = {thread}
        while (above := origins.get(thread) or self._copied_from(thread)) and above not in seen:
            seen.add(above)
            thread = above
        return thread

    def _copied_from(self, thread: str) -> str:
        """Older forks do not name their parent, but its session_meta comes with its history."""
        ids = [as_text(meta.get("id")) for meta in self.metas]
        return ids[ids.index(thread) + 1] if thread in ids[:-1] else ""

    def _said_once(self) -> list[Draft | _Turn | _Rollback]:
        items = {
            (s.passage.role, s.passage.type)
            for s in self.steps
            if isinstance(s, Draft) and not s.event
        }
        return [
            step
            for step in self.steps
            if not (
                isinstance(step, Draft)
                and step.event
                and (step.passage.role, step.passage.type) in items
            )
        ]

    def _project(self, passages: list[Passage]) -> str:
        told_to_model = (
            found[1] for p in passages if p.type == "context" and (found := _CWD.search(p.content))
        )
        return self.cwd or next(told_to_model, "default")

    def _metadata(self, meta: Mapping[str, Json]) -> dict[str, Json]:
        spawn = as_mapping(
            as_mapping(as_mapping(meta.get("source")).get("subagent")).get("thread_spawn")
        )
        found = {k: meta[k] for k in (*_NOTED, *_NOTED_OF_AGENTS) if meta.get(k)}
        found |= {k: spawn[k] for k in _NOTED_OF_AGENTS if spawn.get(k)}
        return (
            found | {"encrypted_items": self.reader.encrypted} if self.reader.encrypted else found
        )


def _linked(steps: list[Draft | _Turn | _Rollback], root: str) -> tuple[list[Passage], str | None]:
    """The passages with ids and parents, and the one where the thread stands."""
    passages: list[Passage] = []
    seen: Counter[str] = Counter()
    before_prompts: list[str | None] = []
    scope, in_turn, tip = root, False, None
    for step in steps:
        if isinstance(step, _Turn):
            scope, in_turn = step.id, True
        elif isinstance(step, _Rollback):
            if before_prompts:
                cut = max(len(before_prompts) - step.turns, 0)
                tip = before_prompts[cut]
                del before_prompts[cut:]
        else:
            said = step.passage
            if step.prompt:
                before_prompts.append(tip)
                scope = scope if in_turn else digest(scope, said.content)
            key = digest(scope, str(said.role), said.type, step.call, said.content)
            id_ = f"{key}:{seen[key]}" if seen[key] else key
            seen[key] += 1
            passages.append(said._replace(id=id_, parent=tip))
            tip = id_
    return passages, tip


def _title(passages: list[Passage]) -> str:
    prompt = next((p.content for p in passages if p.role == "user" and p.type == "message"), "")
    asked = _REQUEST.search(prompt)
    return first_line(prompt[asked.end() :]) if asked else title_of(passages)
