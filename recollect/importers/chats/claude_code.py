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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from recollect.importers.chats.agentlog import (
    UUID,
    Tally,
    Unusable,
    content_blocks,
    first_records,
    head_text,
    read_log,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.importers.records import contain_errors
from recollect.language.text import moment
from recollect.model.chat_messages import as_lines, as_mapping, as_text, parse_content
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CLAUDE_CODE

SOURCE = CLAUDE_CODE
DESCRIPTION = "Claude Code sessions (*.jsonl, or a web session's *.json)"

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
_WITH_FILES = ("message", "context", "summary")


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
    if not name.endswith((".json", ".jsonl")):
        return False
    head = head_text(entry)
    if name.endswith(".json"):
        return '"loglines"' in head
    records = first_records(head)
    if records:
        return any(map(is_record, records))
    # A first line that is longer than the head cannot be parsed, but its keys are visible.
    is_linked = '"uuid":' in head or '"parentUuid":' in head
    return "\n" not in head and '"sessionId":' in head and is_linked


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
    return read_log(entry, _Session(entry), inside="loglines")


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
        ends = [*previous.passages[-1:], *self.passages[:1]]
        return len(ends) == 2 and all((p.role, p.type) == ("assistant", "message") for p in ends)


class _Session:
    """Reads the records of one file: those of the main conversation and of each sub-agent."""

    def __init__(self, entry: Entry) -> None:
        self.tally = Tally(entry.name)
        self._name = stem(entry)
        is_agent = entry.basename.lower().startswith("agent-")
        self._agent = self._name[len("agent-") :] if is_agent else ""
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
        """The names of the tools that were called."""
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []

    # -- records --

    def add(self, number: int, record: dict[str, Json]) -> None:
        type_ = record.get("type")
        if not isinstance(type_, str):
            raise Unusable("line without a record type")
        session = as_text(record.get("sessionId"))
        if session:
            self._session_ids[session] += 1
        elif not self._fallback_id:
            content = json.dumps(record, sort_keys=True).encode()
            self._fallback_id = f"{self._name}-{hashlib.sha256(content).hexdigest()[:12]}"
        for key in _SESSION_KEYS:
            if value := as_text(record.get(key)):
                self._common.setdefault(key, value)
        if type_ in ("ai-title", "custom-title"):
            if title := as_text(record.get("aiTitle")) or as_text(record.get("customTitle")):
                self._titles[type_] = title
            return
        if type_ == "summary":
            leaf, summary = as_text(record.get("leafUuid")), as_text(record.get("summary"))
            self._summaries.append((leaf, summary))
            return
        uuid = as_text(record.get("uuid"))
        numbered_id = f"{session or self._fallback_id}:{number}"
        node = _Node(uuid or numbered_id, as_text(record.get("parentUuid")) or None)
        if uuid not in self._uuids:
            self._fill(node, type_, record)
        if uuid in self._uuids or any(p.id in self._passage_ids for p in node.passages):
            self.tally.skip(_REPEATED)
            return
        self._passage_ids.update(passage.id for passage in node.passages)
        if uuid:
            self._uuids.add(uuid)
            node.is_prompt = any((p.role, p.type) == ("user", "message") for p in node.passages)
        self._annotate(node, record)
        thread = self._thread(node, record)
        if thread and node.continues(thread[-1]):
            first, previous = node.passages.pop(0), thread[-1].passages
            previous[-1] = previous[-1]._replace(
                content=f"{previous[-1].content}\n\n{first.content}"
            )
        thread.append(node)

    def _fill(self, node: _Node, type_: str, record: dict[str, Json]) -> None:
        """Add the passages of a record to its node."""
        message, attachment = record.get("message"), as_mapping(record.get("attachment"))
        content, subtype = record.get("content"), record.get("subtype")
        is_queued = type_ == "queue-operation" and record.get("operation", "enqueue") == "enqueue"
        if type_ in ("user", "assistant"):
            if not isinstance(message, dict):
                raise Unusable("message without content")
            id_, model = as_text(message.get("id")), as_text(message.get("model"))
            node.is_turn = True
            node.message = id_ if type_ == "assistant" else ""
            about = {"message_id": message["id"]} if isinstance(message.get("id"), str) else {}
            node.passages = self._passages(node.id, type_, record, message.get("content"), **about)
            if model not in ("", "<synthetic>"):
                node.passages = [passage._replace(model=model) for passage in node.passages]
        elif type_ == "system" and subtype == "compact_boundary":
            node.parent = node.parent or as_text(record.get("logicalParentUuid")) or None
        elif type_ == "system":
            text = as_text(content)
            node.passages = self._passages(node.id, "system", record, [text] if text else [])
            if not node.passages:
                self.tally.skip("system record without text")
        elif type_ == "attachment" and attachment.get("type") == "queued_command":
            node.queued_as, prompt = "attachment", attachment.get("prompt")
            node.passages = self._passages(node.id, "user", record, prompt, queued=True)
        elif is_queued and content:
            node.queued_as = "operation"
            node.passages = self._passages(node.id, "user", record, content, queued=True)
        else:
            self.tally.skip("record type", type_)

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
        if isinstance(usage, dict) and node.passages and message not in self._messages_with_usage:
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

    # -- the blocks of a record --

    def _passages(
        self, id_: str, role: str, record: Mapping[str, Json], content: Json, **about: Json
    ) -> list[Passage]:
        """The passages of one record. Successive texts of one category become one passage."""
        metadata = {
            key: record[key] for key in _METADATA if isinstance(record.get(key), (str, bool))
        }
        template = Passage(
            "", None, "", created_at=moment(record.get("timestamp")), metadata=metadata | about
        )
        parts: list[tuple[_Category, list[str], Passage]] = []
        files: tuple[Json, ...] = ()
        for block in content_blocks(content):
            type_, text, category = as_text(block.get("type")), as_text(block.get("text")), None
            if type_.endswith(("tool_use", "tool_result")):
                parts.append(self._tool_part(type_, block, record, template))
                continue
            if type_ == "thinking":
                text, category = as_text(block.get("thinking")), _Category(role, "thinking")
            elif type_ in ("image", "document"):
                text, found, *_ = parse_content([block])
                files += found
            elif type_ != "text":
                self.tally.skip("block type", type_)
            if text.strip():
                category = category or _category(role, text, record)
                if not parts or parts[-1][0] != category:
                    parts.append((category, [], template))
                parts[-1][1].append(text)
        if files and not any(part[0].type in _WITH_FILES for part in parts):
            parts.append((_Category(role, "message"), [], template))
        passages = []
        for number, ((role, type_, visibility), texts, passage) in enumerate(parts):
            attachments = passage.attachments
            if type_ in _WITH_FILES:  # the first that can have them
                attachments, files = files, ()
            passages.append(
                passage._replace(
                    id=f"{id_}:{number}" if number else id_,
                    role=role,
                    type=type_,
                    visibility=visibility,
                    content="\n\n".join(texts),
                    attachments=attachments,
                )
            )
        return passages

    def _tool_part(
        self, type_: str, block: Mapping[str, Json], record: Mapping[str, Json], passage: Passage
    ) -> tuple[_Category, list[str], Passage]:
        """A call of a tool, or its result."""
        call = as_text(block.get("id" if type_.endswith("tool_use") else "tool_use_id"))
        about: dict[str, Json] = {"tool_use_id": call} if call else {}
        if type_.endswith("tool_use"):
            category, text = _Category("assistant", "tool_call"), as_lines(block.get("input", ""))
            self._tools[call] = as_text(block.get("name"))
        else:
            category, (text, files, *_) = _OUTPUT, parse_content(block.get("content"))
            if not text and not files:
                text = as_lines(record.get("toolUseResult", ""))
            if isinstance(block.get("is_error"), bool):
                about["is_error"] = block["is_error"]
            passage = passage._replace(attachments=files)
        metadata = {**passage.metadata, **about}
        return (
            category,
            [text],
            passage._replace(tool=self._tools.get(call) or None, metadata=metadata),
        )

    # -- documents --

    def documents(self) -> Iterator[Document]:
        session = self._session_id()
        for agent, nodes in self._threads.items():
            drop_repeated_prompts(nodes)
            tree = _Tree(nodes)
            for _ in range(tree.replays):
                self.tally.skip("record replayed by compaction")
            passages = tree.passages()
            if not passages:
                continue
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

    def _session_id(self) -> str:
        name = self._name
        if not self._agent and (name in self._session_ids or UUID.fullmatch(name)):
            return name
        if self._session_ids:
            return self._session_ids.most_common(1)[0][0]
        return self._fallback_id

    def _title(self) -> str:
        summaries = [summary for leaf, summary in self._summaries if leaf in self._uuids]
        titles = (self._titles.get("custom-title"), self._titles.get("ai-title"), *summaries[-1:])
        return next(filter(None, titles), "")


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


def _category(role: str, text: str, record: Mapping[str, Json]) -> _Category:
    """What a text is, judged by its record, and if it is of a user, by how it begins."""
    start = text.lstrip()
    if role == "system" and record.get("subtype") == "away_summary":
        return _SUMMARY
    if role == "system" and not start.startswith(_COMMANDS + _OUTPUTS):
        return _HIDDEN_NOTICE
    if role == "assistant":
        return _Category(role, "message")
    if record.get("isCompactSummary") is True:
        return _SUMMARY
    if record.get("isMeta") is True:
        return _HIDDEN_CONTEXT
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
        self.replays = 0
        self._nodes = nodes
        self._lines: dict[str, int] = {}
        """The line of every record with passages."""
        self._last_passages: list[str | None] = [None]
        """The last passage of every line."""
        self._parents: dict[str, str | None] = {}
        """The parent of every passage."""
        ids = {node.id for node in nodes}
        has_links = any(node.parent in ids for node in nodes)
        nearest: dict[str, str | None] = {}  # itself if it has passages, or such an ancestor
        before_prompts: dict[str | None, str | None] = {}  # what is before the first, by parent
        originals: dict[object, str] = {}
        current = 0
        for node in parents_first(nodes):
            parent = None if node.parent is None else nearest.get(node.parent)
            if not node.passages:
                nearest[node.id] = parent
                continue
            time, original = node.passages[0].created_at, node.id
            if parent is not None and time is not None:
                content = tuple(
                    (p.role, p.type, p.content, p.metadata.get("tool_use_id"))
                    for p in node.passages
                )
                original = originals.setdefault((parent, time, content), node.id)
            nearest[node.id] = original
            if original != node.id:
                self.replays += 1
                continue
            line = current if parent is None else self._lines[parent]
            # A second prompt without a parent replaces the first only if records name parents.
            can_replace = parent is not None or (has_links and node.parent is None)
            if node.is_prompt and parent in before_prompts and can_replace:
                self._last_passages.append(before_prompts[parent])
                line = len(self._last_passages) - 1
            if node.is_prompt:
                before_prompts.setdefault(parent, self._last_passages[line])
            for passage in node.passages:
                self._parents[passage.id] = self._last_passages[line]
                self._last_passages[line] = passage.id
            self._lines[node.id] = current = line

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


def parents_first(nodes: Sequence[_Node]) -> list[_Node]:
    """File order, but every record after its parent. Cycles come last."""
    ids = {node.id for node in nodes}
    waiting: dict[str, list[_Node]] = {}
    order: dict[str, _Node] = {}
    for node in nodes:
        if node.parent in ids and node.parent not in order:
            waiting.setdefault(str(node.parent), []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            order[current.id] = current
            ready.extend(reversed(waiting.pop(current.id, [])))
    return [*order.values(), *(node for group in waiting.values() for node in group)]
