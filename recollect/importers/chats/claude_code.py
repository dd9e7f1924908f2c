"""Claude Code: session transcripts (`<session>.jsonl`) and the web export (one JSON with `loglines`).

A file is one session, whatever session ids its records carry: resuming copies
old records into a new file under their old uuids. Passage ids are therefore
record uuids, shared across the origin, and a copy is known by them; records
without a uuid are numbered by their line, which stays true while a file grows.
Sub-agents, inline (`isSidechain`) or in `agent-<id>.jsonl`, become documents
of their own that name their parent session. The project (`cwd`, as the first
record has it) is the namespace. Prompts that waited in the queue are kept
where no later record repeats them. Embedded files are described, not kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    as_mapping,
    as_text,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.chats.claude_code_blocks import announced, joined, spoken, typed
from recollect.importers.chats.claude_code_tree import Node, grown
from recollect.importers.entries import Entry
from recollect.model.documents import Document, Json
from recollect.model.receipts import Problem
from recollect.model.sources import CLAUDE_CODE

SOURCE = CLAUDE_CODE
DESCRIPTION = "Claude Code sessions (*.jsonl, or a web session's *.json)"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_FILE = re.compile(r"agent-(.+)\.jsonl", re.IGNORECASE)
_WEB_EXPORT = re.compile(r'"loglines"\s*:\s*\[')
# A first line that is longer than the head cannot be parsed, but its keys can be seen.
_KEYS_IN_LONG_LINE = (re.compile(r'"sessionId"\s*:'), re.compile(r'"(parentUuid|uuid)"\s*:'))
_COMMON = ("cwd", "gitBranch", "version")


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(".json"):
        return _WEB_EXPORT.search(head_text(entry)) is not None
    if not name.endswith(".jsonl"):
        return False
    head = head_text(entry)
    if found := first_records(head):
        return any(map(_is_record, found))
    return "\n" not in head and all(key.search(head) for key in _KEYS_IN_LONG_LINE)


def _is_record(record: dict[str, Json]) -> bool:
    if "payload" in record or "projectHash" in record:
        return False
    if "sessionId" in record:
        return isinstance(record.get("type"), str)
    return record.get("type") in (
        "summary",
        "file-history-snapshot",
    ) and not record.keys().isdisjoint(("leafUuid", "snapshot", "messageId"))


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    session = _Session(entry)
    for item in _records(entry):
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        try:
            session.add(number, record)
        except Unusable as error:
            yield Problem(str(error), where=f"line {number}", failed=True)
    yield from session.documents()


def _records(entry: Entry) -> Iterator[tuple[int, Json] | Problem]:
    if entry.basename.lower().endswith(".jsonl"):
        yield from jsonstream.lines(entry)
        return
    number = 0
    for item in jsonstream.records(entry):
        if isinstance(item, Problem):
            yield item
            continue
        lines = as_mapping(item[1]).get("loglines")
        for record in lines if isinstance(lines, list) else [item[1]]:
            number += 1
            yield number, record


@dataclass(slots=True)
class _Thread:
    """The main conversation, or that of one sub-agent."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        """Append a record; text that goes on with the previous record's text is joined to it."""
        last = self.nodes[-1] if self.nodes else None
        if (
            node.message
            and last
            and last.message == node.message
            and last.passages
            and node.passages
        ):
            before, after = last.passages[-1], node.passages[0]
            if (before.role, before.type) == (after.role, after.type) == ("assistant", "message"):
                last.passages[-1] = joined(before, after.content)
                del node.passages[0]
        self.nodes.append(node)

    def drop_delivered(self) -> None:
        """Empty the queue's records of prompts that a later record repeats."""
        users: Counter[str] = Counter()
        delivered: Counter[str] = Counter()
        for node in reversed(self.nodes):
            if not node.passages or node.passages[0].role != "user":
                continue
            words = node.passages[0].content.strip()
            repeats = {"operation": delivered, "attachment": users}.get(node.queued, Counter())
            if repeats[words]:
                repeats[words] -= 1
                node.passages.clear()
            else:
                users[words] += not node.queued
                delivered[words] += node.queued != "operation"


class _Session:
    """Reads the records of one file and sorts them into threads."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        agent = _AGENT_FILE.fullmatch(entry.basename)
        self._agent = agent[1] if agent else ""
        self._tally = Tally(entry.name)
        self._main = _Thread()
        self._agents: dict[str, _Thread] = {}
        self._agent_of: dict[str, str] = {}
        self._sessions: Counter[str] = Counter()
        self._nameless = ""
        self._common: dict[str, str] = {}
        self._uuids: set[str] = set()
        self._taken: set[str] = set()
        self._measured: set[str] = set()
        self._tools: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []

    # -- records --

    def add(self, number: int, record: Json) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise Unusable("line without a record type")
        if session := as_text(record.get("sessionId")):
            self._sessions[session] += 1
        elif not self._nameless:
            digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]
            self._nameless = f"{stem(self._entry)}-{digest}"
        for key in _COMMON:
            if value := as_text(record.get(key)):
                self._common.setdefault(key, value)
        if not self._note_title(record):
            self._connect(record, f"{session or self._nameless}:{number}")

    def _note_title(self, record: dict[str, Json]) -> bool:
        type_ = record["type"]
        if type_ in ("ai-title", "custom-title"):
            title = as_text(record.get("aiTitle")) or as_text(record.get("customTitle"))
            if title:
                self._titles[type_] = title
        elif type_ == "summary":
            self._summaries.append(
                (as_text(record.get("leafUuid")), as_text(record.get("summary")))
            )
        return type_ in ("ai-title", "custom-title", "summary")

    def _connect(self, record: dict[str, Json], numbered: str) -> None:
        uuid = as_text(record.get("uuid"))
        node = Node(uuid or numbered, as_text(record.get("parentUuid")) or None)
        if uuid in self._uuids:
            self._tally.skip("record repeated in the file")
            return
        self._fill(node, record)
        if any(p.id in self._taken for p in node.passages):
            self._tally.skip("record repeated in the file")
            return
        self._taken.update(p.id for p in node.passages)
        if uuid:
            self._uuids.add(uuid)
        node.prompt = bool(uuid) and any(
            p.role == "user" and p.type == "message" for p in node.passages
        )
        self._annotate(node, record)
        self._thread(node, record).add(node)

    def _fill(self, node: Node, record: dict[str, Json]) -> None:
        type_ = record["type"]
        attachment = as_mapping(record.get("attachment"))
        if type_ in ("user", "assistant"):
            node.turn = True
            node.message = (
                as_text(as_mapping(record.get("message")).get("id")) if type_ == "assistant" else ""
            )
            node.passages = spoken(record, node.id, self._tools, self._tally)
        elif type_ == "system":
            self._announce(node, record)
        elif type_ == "attachment" and attachment.get("type") == "queued_command":
            node.queued = "attachment"
            node.passages = typed(attachment.get("prompt"), record, node.id, self._tally)
        elif (
            type_ == "queue-operation"
            and record.get("operation", "enqueue") == "enqueue"
            and record.get("content")
        ):
            node.queued = "operation"
            node.passages = typed(record["content"], record, node.id, self._tally)
        else:
            self._tally.skip("record type", type_)

    def _announce(self, node: Node, record: dict[str, Json]) -> None:
        if record.get("subtype") == "compact_boundary":
            node.parent = node.parent or as_text(record.get("logicalParentUuid")) or None
            return
        node.passages = announced(record, node.id)
        if not node.passages:
            self._tally.skip("system record without text")

    def _annotate(self, node: Node, record: dict[str, Json]) -> None:
        """Note on the passages what differs from the session's first records, and each message's usage once."""
        notes = {
            k: record[k] for k in _COMMON if as_text(record.get(k)) not in ("", self._common.get(k))
        }
        if notes:
            node.passages = [p._replace(metadata={**p.metadata, **notes}) for p in node.passages]
        usage = as_mapping(record.get("message")).get("usage")
        message = node.message or node.id
        if isinstance(usage, dict) and node.passages and message not in self._measured:
            self._measured.add(message)
            first = node.passages[0]
            node.passages[0] = first._replace(metadata={**first.metadata, "usage": usage})

    def _thread(self, node: Node, record: dict[str, Json]) -> _Thread:
        if record.get("isSidechain") is not True and not self._agent:
            return self._main
        root = node.id if node.id in self._uuids else "sidechain"
        agent = (
            as_text(record.get("agentId"))
            or self._agent
            or self._agent_of.get(node.parent or "", root)
        )
        self._agent_of[node.id] = agent
        return self._agents.setdefault(agent, _Thread())

    # -- documents --

    def documents(self) -> Iterator[Document | Problem]:
        session = self._session_id()
        found = False
        for agent, thread in [("", self._main), *self._agents.items()]:
            thread.drop_delivered()
            tree = grown(thread.nodes)
            for _ in range(tree.replays):
                self._tally.skip("record replayed by compaction")
            if tree.passages:
                found = True
                times = [p.created_at for p in tree.passages if p.created_at]
                yield Document(
                    source=SOURCE.name,
                    source_id=f"{session}:{agent}" if agent else session,
                    title=("" if agent else self._title()) or title_of(tree.passages),
                    project=self._common.get("cwd", "default"),
                    created_at=min(times, default=None),
                    updated_at=max(times, default=None),
                    head=tree.head,
                    passages=tuple(tree.passages),
                    metadata=self._metadata(session, agent),
                    shared_ids=True,
                )
        if not found:
            yield Problem(
                "no messages in the session", where=self._entry.name, unit="conversations"
            )
        yield from self._tally.problems()

    def _session_id(self) -> str:
        name = stem(self._entry)
        if not self._agent and (name in self._sessions or _UUID.fullmatch(name)):
            return name
        return self._sessions.most_common(1)[0][0] if self._sessions else self._nameless

    def _title(self) -> str:
        summary = next(
            (text for leaf, text in reversed(self._summaries) if leaf in self._uuids), ""
        )
        return self._titles.get("custom-title") or self._titles.get("ai-title") or summary

    def _metadata(self, session: str, agent: str) -> dict[str, Json]:
        return (
            {**self._common, "parent_session": session, "agent_id": agent}
            if agent
            else dict(self._common)
        )
