"""Claude Code: session transcripts (`<session>.jsonl`) and the web export (a JSON with `loglines`).

A file is one session, whatever session ids its records have: resuming copies old records into a new
file with their old uuids. Passage ids are therefore record uuids, shared across the source, which
identify copies. Records without a uuid are numbered by their line, which stays the same while a
file grows. Sub-agents, inline (`isSidechain`) or in `agent-<id>.jsonl`, become documents that name
their parent session. The project is the first `cwd`. Queued prompts are imported unless a later
record repeats them. Embedded files are described, not stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from recollect.importers import jsonstream
from recollect.importers.boundary import contain_errors
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    add_records,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.chats.claude_code_blocks import (
    append_text,
    message_passages,
    queued_passages,
    system_passages,
)
from recollect.importers.chats.claude_code_tree import Node, build_tree
from recollect.importers.entries import Entry
from recollect.model.chat_messages import as_mapping, as_text
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CLAUDE_CODE

SOURCE = CLAUDE_CODE
DESCRIPTION = "Claude Code sessions (*.jsonl, or a web session's *.json)"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_FILE = re.compile(r"agent-(.+)\.jsonl", re.IGNORECASE)
_WEB_EXPORT = re.compile(r'"loglines"\s*:\s*\[')
# A first line that is longer than the head cannot be parsed, but its keys are visible.
_KEYS_IN_LONG_LINE = (re.compile(r'"sessionId"\s*:'), re.compile(r'"(parentUuid|uuid)"\s*:'))
_SESSION_KEYS = ("cwd", "gitBranch", "version")
_SIDECHAIN = "sidechain"


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(".json"):
        return _WEB_EXPORT.search(head_text(entry)) is not None
    if not name.endswith(".jsonl"):
        return False
    head = head_text(entry)
    records = first_records(head)
    if records:
        return any(map(_is_record, records))
    return "\n" not in head and all(key.search(head) for key in _KEYS_IN_LONG_LINE)


def _is_record(record: dict[str, Json]) -> bool:
    if "payload" in record or "projectHash" in record:
        return False
    if "sessionId" in record:
        return isinstance(record.get("type"), str)
    if record.get("type") not in ("summary", "file-history-snapshot"):
        return False
    return not record.keys().isdisjoint(("leafUuid", "snapshot", "messageId"))


# -- files -------------------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    session = _Session(entry)
    yield from add_records(_records(entry), session.add)
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
        records = as_mapping(item[1]).get("loglines")
        if not isinstance(records, list):
            records = [item[1]]
        for record in records:
            number += 1
            yield number, record


# -- sessions ----------------------------------------------------------------


@dataclass(slots=True)
class _Thread:
    """The records of the main conversation, or of one sub-agent."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        """Append a record. Text that continues the previous record's text is joined to it."""
        previous = self.nodes[-1] if self.nodes else None
        if previous is not None and _is_continued(previous, node):
            text = node.passages.pop(0).content
            previous.passages[-1] = append_text(previous.passages[-1], text)
        self.nodes.append(node)

    def drop_repeated_prompts(self) -> None:
        """Empty the records of queued prompts that a later record repeats."""
        prompts: Counter[str] = Counter()
        delivered: Counter[str] = Counter()
        repeats_by_queue = {"operation": delivered, "attachment": prompts}
        for node in reversed(self.nodes):
            if not node.passages or node.passages[0].role != "user":
                continue
            text = node.passages[0].content.strip()
            repeats = repeats_by_queue.get(node.queued_as, Counter())
            if repeats[text]:
                repeats[text] -= 1
                node.passages.clear()
                continue
            if not node.queued_as:
                prompts[text] += 1
            if node.queued_as != "operation":
                delivered[text] += 1


def _is_continued(previous: Node, node: Node) -> bool:
    """Whether both are parts of one API message, and text follows text."""
    if not node.message or previous.message != node.message:
        return False
    if not previous.passages or not node.passages:
        return False
    return _is_answer(previous.passages[-1]) and _is_answer(node.passages[0])


def _is_answer(passage: Passage) -> bool:
    return passage.role == "assistant" and passage.type == "message"


class _Session:
    """Reads the records of one file and assigns them to threads."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        agent_file = _AGENT_FILE.fullmatch(entry.basename)
        self._agent = agent_file[1] if agent_file else ""
        self._tally = Tally(entry.name)
        self._main = _Thread()
        self._agents: dict[str, _Thread] = {}
        self._agent_of_record: dict[str, str] = {}
        self._session_ids: Counter[str] = Counter()
        self._fallback_id = ""
        """The id of a session whose first record has none."""
        self._common: dict[str, str] = {}
        """The first value of each of `_SESSION_KEYS`."""
        self._uuids: set[str] = set()
        self._passage_ids: set[str] = set()
        self._messages_with_usage: set[str] = set()
        self._tools: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []

    # -- records --

    def add(self, number: int, record: Json) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise Unusable("line without a record type")
        session = as_text(record.get("sessionId"))
        if session:
            self._session_ids[session] += 1
        elif not self._fallback_id:
            content = json.dumps(record, sort_keys=True).encode()
            digest = hashlib.sha256(content).hexdigest()[:12]
            self._fallback_id = f"{stem(self._entry)}-{digest}"
        for key in _SESSION_KEYS:
            value = as_text(record.get(key))
            if value:
                self._common.setdefault(key, value)
        if not self._add_title(record):
            self._add_node(record, f"{session or self._fallback_id}:{number}")

    def _add_title(self, record: dict[str, Json]) -> bool:
        """Remember the title in a record; False if the record is of another type."""
        type_ = record["type"]
        if type_ in ("ai-title", "custom-title"):
            title = as_text(record.get("aiTitle")) or as_text(record.get("customTitle"))
            if title:
                self._titles[type_] = title
            return True
        if type_ == "summary":
            leaf, summary = as_text(record.get("leafUuid")), as_text(record.get("summary"))
            self._summaries.append((leaf, summary))
            return True
        return False

    def _add_node(self, record: dict[str, Json], numbered_id: str) -> None:
        uuid = as_text(record.get("uuid"))
        node = Node(uuid or numbered_id, as_text(record.get("parentUuid")) or None)
        if uuid in self._uuids:
            self._tally.skip("record repeated in the file")
            return
        self._fill(node, record)
        if any(passage.id in self._passage_ids for passage in node.passages):
            self._tally.skip("record repeated in the file")
            return
        self._passage_ids.update(passage.id for passage in node.passages)
        if uuid:
            self._uuids.add(uuid)
        node.is_prompt = bool(uuid) and any(
            passage.role == "user" and passage.type == "message" for passage in node.passages
        )
        self._annotate(node, record)
        self._thread(node, record).add(node)

    def _fill(self, node: Node, record: dict[str, Json]) -> None:
        type_ = record["type"]
        attachment = as_mapping(record.get("attachment"))
        if type_ in ("user", "assistant"):
            node.is_turn = True
            if type_ == "assistant":
                node.message = as_text(as_mapping(record.get("message")).get("id"))
            node.passages = message_passages(record, node.id, self._tools, self._tally)
        elif type_ == "system":
            self._fill_system(node, record)
        elif type_ == "attachment" and attachment.get("type") == "queued_command":
            node.queued_as = "attachment"
            node.passages = queued_passages(attachment.get("prompt"), record, node.id, self._tally)
        elif type_ == "queue-operation" and _is_enqueued(record):
            node.queued_as = "operation"
            node.passages = queued_passages(record["content"], record, node.id, self._tally)
        else:
            self._tally.skip("record type", type_)

    def _fill_system(self, node: Node, record: dict[str, Json]) -> None:
        if record.get("subtype") == "compact_boundary":
            node.parent = node.parent or as_text(record.get("logicalParentUuid")) or None
            return
        node.passages = system_passages(record, node.id)
        if not node.passages:
            self._tally.skip("system record without text")

    def _annotate(self, node: Node, record: dict[str, Json]) -> None:
        """Add to the passages what differs from the session's first records, and the usage."""
        differences = {
            key: record[key]
            for key in _SESSION_KEYS
            if as_text(record.get(key)) not in ("", self._common.get(key))
        }
        if differences:
            node.passages = [
                passage._replace(metadata={**passage.metadata, **differences})
                for passage in node.passages
            ]
        usage = as_mapping(record.get("message")).get("usage")
        message = node.message or node.id
        is_new = message not in self._messages_with_usage
        if isinstance(usage, dict) and node.passages and is_new:
            self._messages_with_usage.add(message)
            first = node.passages[0]
            node.passages[0] = first._replace(metadata={**first.metadata, "usage": usage})

    def _thread(self, node: Node, record: dict[str, Json]) -> _Thread:
        if record.get("isSidechain") is not True and not self._agent:
            return self._main
        agent = as_text(record.get("agentId")) or self._agent
        if not agent:
            root = node.id if node.id in self._uuids else _SIDECHAIN
            agent = self._agent_of_record.get(node.parent or "", root)
        self._agent_of_record[node.id] = agent
        return self._agents.setdefault(agent, _Thread())

    # -- documents --

    def documents(self) -> Iterator[Document | Problem]:
        session = self._session_id()
        is_empty = True
        title = self._title()
        for agent, thread in [("", self._main), *self._agents.items()]:
            document = self._document(session, agent, thread, title)
            if document is not None:
                is_empty = False
                yield document
        if is_empty:
            yield Problem("session without messages", self._entry.name, unit="conversations")
        yield from self._tally.problems()

    def _document(self, session: str, agent: str, thread: _Thread, title: str) -> Document | None:
        thread.drop_repeated_prompts()
        tree = build_tree(thread.nodes)
        for _ in range(tree.replays):
            self._tally.skip("record replayed by compaction")
        if not tree.passages:
            return None
        times = [passage.created_at for passage in tree.passages if passage.created_at]
        source_id = session
        metadata: dict[str, Json] = dict(self._common)
        if agent:
            source_id, title = f"{session}:{agent}", ""
            metadata |= {"parent_session": session, "agent_id": agent}
        return Document(
            source=SOURCE.name,
            source_id=source_id,
            title=title or title_of(tree.passages),
            project=self._common.get("cwd", "default"),
            created_at=min(times, default=None),
            updated_at=max(times, default=None),
            head=tree.head,
            passages=tuple(tree.passages),
            metadata=metadata,
            shared_ids=True,
        )

    def _session_id(self) -> str:
        name = stem(self._entry)
        if not self._agent and (name in self._session_ids or _UUID.fullmatch(name)):
            return name
        if self._session_ids:
            return self._session_ids.most_common(1)[0][0]
        return self._fallback_id

    def _title(self) -> str:
        title = self._titles.get("custom-title") or self._titles.get("ai-title")
        if title:
            return title
        for leaf, summary in reversed(self._summaries):
            if leaf in self._uuids:
                return summary
        return ""


def _is_enqueued(record: dict[str, Json]) -> bool:
    return record.get("operation", "enqueue") == "enqueue" and bool(record.get("content"))
