"""Claude Code: session transcripts (`<session>.jsonl`) and the web export (a JSON with `loglines`).

A file is one session, whatever session ids its records have: resuming copies old records into a new
file with their old uuids. Passage ids are therefore record uuids, shared across the source, which
identify copies. Records without a uuid are numbered by their line, which stays the same while a
file grows. Sub-agents, inline (`isSidechain`) or in `agent-<id>.jsonl`, become documents that name
their parent session. The project is the first `cwd`. Queued prompts are imported unless a later
record repeats them. Embedded files are described, not stored.

`type: user` rarely means the user: most such records have tool results, and others have text that
the program added. What the user typed outside a prompt (slash commands, shell commands) is visible
context. What the program added (reminders, caveats, `isMeta`) is hidden context. A tool's result is
stored once: `toolUseResult` repeats it, and is used only if the block is empty.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    add_records,
    content_blocks,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.importers.problems import contain_errors
from recollect.language.text import moment
from recollect.model.chat_messages import as_lines, as_mapping, as_text, parse_content
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
_COMMANDS = ("<command-name>", "<command-message>", "<bash-input>", "<user-memory-input>")
_OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_NOTICES = ("<task-notification>", "<agent-message", "<teammate-message")
_ADDED_BY_PROGRAM = (
    "<system-reminder>",
    "<local-command-caveat>",
    "Caveat: The messages below",
    "<ide_opened_file>",
    "<ide_selection>",
    "<user-prompt-submit-hook>",
    "[Request interrupted by user",
)
_METADATA = tuple(
    "requestId isApiErrorMessage permissionMode subtype level sourceToolUseID".split()
)
_REPEATED = "record repeated in the file"


class _Category(NamedTuple):
    role: str
    type: str
    visibility: str = "all"


_PROMPT = _Category("user", "message")
_VISIBLE_CONTEXT = _Category("user", "context")
_HIDDEN_CONTEXT = _Category("user", "context", "hidden")
_OUTPUT = _Category("tool", "tool_result")
_SUMMARY = _Category("system", "summary")
_HIDDEN_NOTICE = _Category("system", "context", "hidden")


# -- files -------------------------------------------------------------------


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(".json"):
        return _WEB_EXPORT.search(head_text(entry)) is not None
    if not name.endswith(".jsonl"):
        return False
    head = head_text(entry)
    records = first_records(head)
    if records:
        return any(map(is_record, records))
    return "\n" not in head and all(key.search(head) for key in _KEYS_IN_LONG_LINE)


def is_record(record: dict[str, Json]) -> bool:
    if "payload" in record or "projectHash" in record:
        return False
    if "sessionId" in record:
        return isinstance(record.get("type"), str)
    if record.get("type") not in ("summary", "file-history-snapshot"):
        return False
    return not record.keys().isdisjoint(("leafUuid", "snapshot", "messageId"))


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
        for record in records if isinstance(records, list) else [item[1]]:
            number += 1
            yield number, record


# -- sessions ----------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """A record: its passages (none if it only connects others) and its place in the tree."""

    id: str
    parent: str | None
    passages: list[Passage] = field(default_factory=list)
    is_prompt: bool = False
    """The user typed it, so a second one under the same parent replaces the first."""
    is_turn: bool = False
    """A message of the user or the assistant. The last one is the head of the conversation."""
    queued_as: str = ""
    """How a prompt that waited in the queue was recorded: "operation" or "attachment"."""
    message: str = ""
    """The id of the API message that the record is a part of."""

    def continues(self, previous: _Node) -> bool:
        """Whether both are parts of one API message, and text follows text."""
        if not self.message or previous.message != self.message:
            return False
        if not previous.passages or not self.passages:
            return False
        ends = (previous.passages[-1], self.passages[0])
        return all((p.role, p.type) == ("assistant", "message") for p in ends)


class _Session:
    """Reads the records of one file: those of the main conversation and of each sub-agent."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        agent_file = _AGENT_FILE.fullmatch(entry.basename)
        self._agent = agent_file[1] if agent_file else ""
        self._tally = Tally(entry.name)
        self._threads: dict[str, list[_Node]] = {"": []}
        """The records of the main conversation, and of each sub-agent."""
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
        type_ = record["type"]
        if type_ in ("ai-title", "custom-title"):
            title = as_text(record.get("aiTitle")) or as_text(record.get("customTitle"))
            if title:
                self._titles[type_] = title
        elif type_ == "summary":
            leaf, summary = as_text(record.get("leafUuid")), as_text(record.get("summary"))
            self._summaries.append((leaf, summary))
        else:
            self._add_node(record, f"{session or self._fallback_id}:{number}")

    def _add_node(self, record: dict[str, Json], numbered_id: str) -> None:
        uuid = as_text(record.get("uuid"))
        node = _Node(uuid or numbered_id, as_text(record.get("parentUuid")) or None)
        if uuid in self._uuids:
            self._tally.skip(_REPEATED)
            return
        self._fill(node, record)
        if any(passage.id in self._passage_ids for passage in node.passages):
            self._tally.skip(_REPEATED)
            return
        self._passage_ids.update(passage.id for passage in node.passages)
        if uuid:
            self._uuids.add(uuid)
        node.is_prompt = bool(uuid) and any(
            passage.role == "user" and passage.type == "message" for passage in node.passages
        )
        self._annotate(node, record)
        thread = self._thread(node, record)
        if thread and node.continues(thread[-1]):
            text = node.passages.pop(0).content
            thread[-1].passages[-1] = append_text(thread[-1].passages[-1], text)
        thread.append(node)

    def _fill(self, node: _Node, record: dict[str, Json]) -> None:
        type_ = record["type"]
        attachment = as_mapping(record.get("attachment"))
        if type_ in ("user", "assistant"):
            message = record.get("message")
            if not isinstance(message, dict):
                raise Unusable("message without content")
            node.is_turn = True
            if type_ == "assistant":
                node.message = as_text(message.get("id"))
            passages = _RecordPassages(node.id, type_, record, self._tools, self._tally)
            model = as_text(message.get("model"))
            passages.model = model if model not in ("", "<synthetic>") else None
            if isinstance(message.get("id"), str):
                passages.metadata["message_id"] = message["id"]
            node.passages = passages.read(message.get("content"))
        elif type_ == "system" and record.get("subtype") == "compact_boundary":
            node.parent = node.parent or as_text(record.get("logicalParentUuid")) or None
        elif type_ == "system":
            node.passages = self._system_passages(node.id, record)
            if not node.passages:
                self._tally.skip("system record without text")
        elif type_ == "attachment" and attachment.get("type") == "queued_command":
            node.queued_as = "attachment"
            node.passages = self._queued_passages(node.id, record, attachment.get("prompt"))
        elif (
            type_ == "queue-operation"
            and record.get("operation", "enqueue") == "enqueue"
            and record.get("content")
        ):
            node.queued_as = "operation"
            node.passages = self._queued_passages(node.id, record, record["content"])
        else:
            self._tally.skip("record type", type_)

    def _system_passages(self, id_: str, record: Mapping[str, Json]) -> list[Passage]:
        passages = _RecordPassages(id_, "system", record, {}, self._tally)
        content = as_text(record.get("content"))
        category = _HIDDEN_NOTICE
        if record.get("subtype") == "away_summary":
            category = _SUMMARY
        elif content.lstrip().startswith(_COMMANDS + _OUTPUTS):
            category = user_category(content)
        passages.add_text(content, category)
        return passages.finish()

    def _queued_passages(
        self, id_: str, record: Mapping[str, Json], content: Json
    ) -> list[Passage]:
        """The passages of a prompt that was queued while the agent was busy."""
        passages = _RecordPassages(id_, "user", record, {}, self._tally)
        passages.metadata = {"queued": True}
        return passages.read(content)

    def _annotate(self, node: _Node, record: dict[str, Json]) -> None:
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

    def _thread(self, node: _Node, record: dict[str, Json]) -> list[_Node]:
        if record.get("isSidechain") is not True and not self._agent:
            return self._threads[""]
        agent = as_text(record.get("agentId")) or self._agent
        if not agent:
            root = node.id if node.id in self._uuids else "sidechain"
            agent = self._agent_of_record.get(node.parent or "", root)
        self._agent_of_record[node.id] = agent
        return self._threads.setdefault(agent, [])

    # -- documents --

    def documents(self) -> Iterator[Document | Problem]:
        session, is_empty = self._session_id(), True
        for agent, nodes in self._threads.items():
            drop_repeated_prompts(nodes)
            tree = _Tree(nodes)
            for _ in range(tree.replays):
                self._tally.skip("record replayed by compaction")
            passages = tree.passages()
            if not passages:
                continue
            is_empty = False
            source_id, title = session, self._title()
            times = [passage.created_at for passage in passages if passage.created_at]
            metadata: dict[str, Json] = dict(self._common)
            if agent:
                source_id, title = f"{session}:{agent}", ""
                metadata |= {"parent_session": session, "agent_id": agent}
            yield Document(
                source=SOURCE.name,
                source_id=source_id,
                title=title or title_of(passages),
                project=self._common.get("cwd", "default"),
                created_at=min(times, default=None),
                updated_at=max(times, default=None),
                head=tree.head(),
                passages=tuple(passages),
                metadata=metadata,
                shared_ids=True,
            )
        if is_empty:
            yield Problem("session without messages", self._entry.name, unit="conversations")
        yield from self._tally.problems()

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
        summaries = reversed(self._summaries)
        return next((summary for leaf, summary in summaries if leaf in self._uuids), "")


def drop_repeated_prompts(nodes: Sequence[_Node]) -> None:
    """Empty the records of queued prompts that a later record repeats."""
    prompts: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    repeats_by_queue = {"operation": delivered, "attachment": prompts}
    for node in reversed(nodes):
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


# -- one record --------------------------------------------------------------


class _RecordPassages:
    """Collects the passages of one record. Adds the names of called tools to `tools`."""

    def __init__(
        self, id_: str, role: str, record: Mapping[str, Json], tools: dict[str, str], tally: Tally
    ) -> None:
        self.id = id_
        self.role = role
        self.record = record
        self.model: str | None = None
        self.metadata: dict[str, Json] = {
            key: record[key] for key in _METADATA if isinstance(record.get(key), (str, bool))
        }
        self._tools = tools
        self._tally = tally
        self._created_at = moment(record.get("timestamp"))
        self._passages: list[Passage] = []
        self._attachments: list[Json] = []
        self._continuations: list[str] = []
        """Texts that belong to the last passage."""

    def read(self, content: Json) -> list[Passage]:
        for block in content_blocks(content):
            self._add_block(block)
        return self.finish()

    def _add_block(self, block: Mapping[str, Json]) -> None:
        type_ = as_text(block.get("type"))
        if type_ == "text":
            text = as_text(block.get("text"))
            self.add_text(text, self._category(text))
        elif type_ == "thinking":
            self.add_text(as_text(block.get("thinking")), _Category(self.role, "thinking"))
        elif type_.endswith("tool_use"):
            name, call = as_text(block.get("name")), as_text(block.get("id"))
            self._tools[call] = name
            category = _Category("assistant", "tool_call")
            text = as_lines(block.get("input", ""))
            self._add(text, category, tool=name or None, tool_use_id=call or None)
        elif type_.endswith("tool_result"):
            self._add_tool_result(block)
        elif type_ in ("image", "document"):
            content = parse_content([block])
            self._attachments += content.files
            self.add_text(content.text, self._category(content.text))
        else:
            self._tally.skip("block type", type_)

    def _add_tool_result(self, block: Mapping[str, Json]) -> None:
        call = as_text(block.get("tool_use_id"))
        result = parse_content(block.get("content"))
        content = result.text
        if not content and not result.files:
            content = as_lines(self.record.get("toolUseResult", ""))
        is_error = block.get("is_error")
        self._add(
            content,
            _OUTPUT,
            tool=self._tools.get(call) or None,
            attachments=result.files,
            tool_use_id=call or None,
            is_error=is_error if isinstance(is_error, bool) else None,
        )

    def _category(self, text: str) -> _Category:
        if self.role != "user":
            return _Category(self.role, "message")
        if self.record.get("isCompactSummary") is True:
            return _SUMMARY
        if self.record.get("isMeta") is True:
            return _HIDDEN_CONTEXT
        return user_category(text)

    def _add(
        self,
        content: str,
        category: _Category,
        *,
        tool: str | None = None,
        attachments: tuple[Json, ...] = (),
        **metadata: Json,
    ) -> None:
        self._join_continuations()
        number = len(self._passages)
        self._passages.append(
            Passage(
                id=f"{self.id}:{number}" if number else self.id,
                role=category.role,
                content=content,
                type=category.type,
                model=self.model,
                tool=tool,
                created_at=self._created_at,
                visibility=category.visibility,
                attachments=attachments,
                metadata=self.metadata | {k: v for k, v in metadata.items() if v is not None},
            )
        )

    def add_text(self, content: str, category: _Category) -> None:
        """Add text. Successive blocks of text of the same category become one passage."""
        if not content.strip():
            return
        last = self._passages[-1] if self._passages else None
        if last and (last.role, last.type, last.visibility) == category:
            self._continuations.append(content)
        else:
            self._add(content, category)

    def _join_continuations(self) -> None:
        if self._continuations:
            text = "\n\n".join(self._continuations)
            self._passages[-1] = append_text(self._passages[-1], text)
            self._continuations = []

    def finish(self) -> list[Passage]:
        """All passages, with the attachments on the first that can have them."""
        self._join_continuations()
        if not self._attachments:
            return self._passages
        attachments = tuple(self._attachments)
        for number, passage in enumerate(self._passages):
            if passage.type in ("message", "context", "summary"):
                self._passages[number] = passage._replace(attachments=attachments)
                return self._passages
        self._add("", _Category(self.role, "message"), attachments=attachments)
        return self._passages


def append_text(passage: Passage, text: str) -> Passage:
    return passage._replace(content=f"{passage.content}\n\n{text}")


def user_category(content: str) -> _Category:
    """The category of text in a `user` record, judged by how it begins."""
    start = content.lstrip()
    if start.startswith(_OUTPUTS):
        return _OUTPUT
    if start.startswith(_COMMANDS + _NOTICES):
        return _VISIBLE_CONTEXT
    if start.startswith(_ADDED_BY_PROGRAM):
        return _HIDDEN_CONTEXT
    return _PROMPT


# -- the tree ----------------------------------------------------------------


class _Tree:
    """The records of a session as a conversation tree.

    Every record names its parent, but several children seldom mean that the user went back:
    parallel tool calls, progress records and hooks branch as well. So records are appended to a
    line in file order, and a new line begins only if a prompt has an earlier prompt as a sibling.
    Records without passages are transparent. A record with the parent, time and text of another is
    a replay that compaction wrote; it is dropped, and its children become children of the original.
    """

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self._nodes = nodes
        ids = {node.id for node in nodes}
        self._has_links = any(node.parent in ids for node in nodes)
        self._nearest: dict[str, str | None] = {}
        """For every record: itself if it has passages, or else the nearest such ancestor."""
        self._lines: dict[str, int] = {}
        """The line of every record with passages."""
        self._last_passages: list[str | None] = [None]
        """The last passage of every line."""
        self._current_line = 0
        self._before_prompts: dict[str | None, str | None] = {}
        """For every record with a prompt below it: the passage before the first prompt."""
        self._originals: dict[object, str] = {}
        self._parents: dict[str, str | None] = {}
        """The parent of every passage."""
        self.replays = 0
        for node in parents_first(nodes):
            self._append(node)

    def passages(self) -> list[Passage]:
        """The passages in file order with their parents."""
        return [
            passage._replace(parent=self._parents[passage.id])
            for node in self._nodes
            for passage in node.passages
            if passage.id in self._parents
        ]

    def head(self) -> str | None:
        """The last passage of the conversation."""
        included = [node for node in self._nodes if node.id in self._lines]
        turns = [node for node in included if node.is_turn] or included
        return self._last_passages[self._lines[turns[-1].id]] if turns else None

    def _append(self, node: _Node) -> None:
        """Append a record to its line, unless it is a replay."""
        parent = None if node.parent is None else self._nearest.get(node.parent)
        if not node.passages:
            self._nearest[node.id] = parent
            return
        original = self._original(node, parent)
        self._nearest[node.id] = original
        if original != node.id:
            self.replays += 1
            return
        line = self._current_line if parent is None else self._lines[parent]
        # A second prompt without a parent replaces the first only if records name parents at all.
        can_replace = parent is not None or (self._has_links and node.parent is None)
        if node.is_prompt and parent in self._before_prompts and can_replace:
            self._last_passages.append(self._before_prompts[parent])
            line = len(self._last_passages) - 1
        if node.is_prompt:
            self._before_prompts.setdefault(parent, self._last_passages[line])
        for passage in node.passages:
            self._parents[passage.id] = self._last_passages[line]
            self._last_passages[line] = passage.id
        self._lines[node.id] = self._current_line = line

    def _original(self, node: _Node, parent: str | None) -> str:
        """The id of the first record with the same parent, time and text."""
        time = node.passages[0].created_at
        if parent is None or time is None:
            return node.id
        content = tuple(
            (p.role, p.type, p.content, p.metadata.get("tool_use_id")) for p in node.passages
        )
        return self._originals.setdefault((parent, time, content), node.id)


def parents_first(nodes: Sequence[_Node]) -> list[_Node]:
    """File order, but every record after its parent. Cycles come last."""
    ids = {node.id for node in nodes}
    waiting: dict[str, list[_Node]] = {}
    ordered: set[str] = set()
    order: list[_Node] = []
    for node in nodes:
        if node.parent in ids and node.parent not in ordered:
            waiting.setdefault(str(node.parent), []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            ordered.add(current.id)
            order.append(current)
            ready.extend(reversed(waiting.pop(current.id, [])))
    for group in waiting.values():
        order += group
    return order
