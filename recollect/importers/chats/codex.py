"""Codex CLI: rollouts (`rollout-*.jsonl`) and the output of `codex exec --json`.

A rollout is one thread, named by the `id` of its first session_meta; later ones were copied with
the history of a fork. Visible text is written twice: response items are used, and events only if
a file has no items of that kind. A rollback moves the canonical path; what was rolled back stays
as a branch. Messages of other roles (developer, system), and what Codex adds to the user's messages
(environment, instructions), are hidden context. Encrypted reasoning is skipped.

Items have no ids that survive copying (times are rewritten, missing ids are filled in). So ids are
made from the text and its turn: the turn's own id, which copies keep, or in older files the first
thread and the prompts so far. Therefore the copy in a fork has the ids of its parent, and a file
that grows keeps its ids.

The events of `exec` have neither times nor the prompt. They repeat, with other ids, what a rollout
of the same thread has in full. So they become documents of their own (`exec:<thread>`) and do not
touch those of the rollouts.
"""

from __future__ import annotations

import hashlib
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
    content_blocks,
    first_line,
    first_records,
    head_text,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.importers.problems import contain_errors
from recollect.importers.records import as_list
from recollect.language.text import moment
from recollect.model.chat_messages import (
    as_lines,
    as_mapping,
    as_text,
    embedded_file,
    linked_file,
    parse_file,
    parse_json,
    unfold_json,
)
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CODEX

SOURCE = CODEX
DESCRIPTION = "Codex CLI sessions (rollout-*.jsonl, codex exec --json)"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ROLLOUT_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_FLAT_TYPES = (
    "message reasoning function_call function_call_output local_shell_call ghost_snapshot".split()
)
_EVENT_TYPES = (
    "thread.started turn.started turn.completed item.started item.updated item.completed".split()
)
_ROLLOUT_START = re.compile(
    rf'[\[{{].{{0,300}}?"type"\s*:\s*"({"|".join(_ROLLOUT_TYPES)})"', re.DOTALL
)
_CWD = re.compile(r"<cwd>([^<]+)</cwd>")
# The end of what an editor's extension puts before the prompt.
_REQUEST = re.compile(r"^## My request for Codex:\s*$", re.MULTILINE)
_METADATA = "cwd git originator cli_version source model_provider session_id forked_from_id".split()
_AGENT_METADATA = ("parent_thread_id", "agent_nickname", "agent_role")
_ADDED_BY_CODEX = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<environments_instructions>",
    "<apps_instructions>",
    "<skills_instructions>",
    "<plugins_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<multi_agent_mode>",
    "<codex_internal_context",
    "<subagent_notification>",
    "<goal_context>",
    "<turn_aborted>",
    "<context_window",
    "<external_",
    "<skill>",
)
_SHELL_COMMAND = "<user_shell_command>"
_OUTPUTS = (
    "function_call_output custom_tool_call_output tool_search_output local_shell_call_output"
).split()
_EMPTY_ITEMS = ("compaction", "compaction_summary", "context_compaction", "ghost_snapshot")
_OUTPUT_METADATA = frozenset(
    "metadata success exit_code wall_time_seconds chunk_id original_token_count".split()
)
_TOOL_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "command_execution": (("command",), ("aggregated_output",)),
    "file_change": (("changes",), ()),
    "mcp_tool_call": (("arguments",), ("result", "error")),
    "collab_tool_call": (("prompt",), ("agents_states",)),
    "web_search": (("query",), ()),
    "todo_list": (("items",), ()),
}
"""The keys of a tool's input and of its output in the events of `exec`, by item type."""


# -- files -------------------------------------------------------------------


def claims(entry: Entry) -> bool:
    return schema(entry) != ""


def schema(entry: Entry) -> str:
    """Which of the two files this is: "rollout" or "exec"; empty if none."""
    name = entry.basename.lower()
    if not name.endswith((".jsonl", ".json")):
        return ""
    head = head_text(entry)
    records = [] if name.endswith(".json") else first_records(head)
    if not records:
        is_rollout = _ROLLOUT_START.match(head.lstrip()) and '"payload"' in head
        return "rollout" if is_rollout else ""
    for record in records:
        type_ = record.get("type")
        if type_ in _EVENT_TYPES:
            return "exec"
        if isinstance(record.get("payload"), dict):
            if type_ in _ROLLOUT_TYPES:
                return "rollout"
        elif is_flat_header(record) or (name.startswith("rollout-") and type_ in _FLAT_TYPES):
            return "rollout"
    return ""


def is_flat_header(record: Mapping[str, Json]) -> bool:
    """Whether this is the first line of a file of the first versions."""
    if "type" in record or not {"id", "timestamp"} <= record.keys():
        return False
    return "instructions" in record or "git" in record


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    tally = Tally(entry.name)
    reader = (_Events if schema(entry) == "exec" else _Rollout)(entry, tally)
    if entry.basename.lower().endswith(".jsonl"):
        records = jsonstream.lines(entry)
    else:
        records = jsonstream.records(entry, ("payload",))

    def add(number: int, record: Json) -> None:
        if not isinstance(record, dict):
            raise Unusable("line without a record")
        reader.add(number, record)

    yield from add_records(records, add)
    documents = list(reader.documents())
    yield from documents
    if not documents:
        yield Problem("session without messages", where=entry.name, unit="conversations")
    yield from tally.problems()


def digest(*parts: str) -> str:
    """An id made from the content of something that has none."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:32]


# -- rollouts ----------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A passage without its id and parent, which depend on the whole thread."""

    passage: Passage
    call: str = ""
    """The id that links a tool's result to its call."""
    is_event: bool = False
    """From an event. It repeats an item if the file has items of its kind."""

    @property
    def kind(self) -> tuple[str | None, str]:
        return self.passage.role, self.passage.type


@dataclass(slots=True)
class _Turn:
    """The start of a turn."""

    id: str


@dataclass(slots=True)
class _Rollback:
    turns: int


_Step = _Draft | _Turn | _Rollback


@dataclass(slots=True)
class _Rollout:
    """Reads the lines of one thread."""

    entry: Entry
    tally: Tally
    metas: list[dict[str, Json]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    """The names of the tools that were called."""
    encrypted: int = 0
    """The number of items with content that only the provider can read."""
    model: str = ""
    cwd: str = ""
    turn_cwd: str = ""
    """The folder of the current turn, which may differ from that of the thread."""

    # -- lines --

    def add(self, _number: int, record: dict[str, Json]) -> None:
        payload = record.get("payload")
        if isinstance(payload, dict):
            self._add(as_text(record.get("type")), payload, record)
        # A line of the first versions is an item, or the header without a type.
        elif "payload" not in record and is_flat_header(record):
            self.metas.append(record)
        elif "payload" not in record and ("type" in record or "role" in record):
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
            # The summary that replaced the history so far, which is before it in the file.
            summary = Passage("", "system", "", type="summary")
            self._add_drafts(with_texts(summary, [as_text(payload.get("message"))]), record)
        else:
            self.tally.skip("record type", type_)

    def _add_item(self, item: dict[str, Json], record: Mapping[str, Json]) -> None:
        type_ = as_text(item.get("type"))
        if item.get("encrypted_content"):
            self.encrypted += 1
        if type_ == "message" or (not type_ and "role" in item):
            self._add_drafts(_message(item), record)
        elif type_ == "reasoning":
            self._add_drafts(reasoning(item), record)
        elif type_ == "agent_message":
            # From another agent: in the place of a prompt, but not written by the user.
            texts = [as_text(block.get("text")) for block in content_blocks(item.get("content"))]
            author = as_text(item.get("author")) or None
            message = Passage("", "user", "", type="context", author=author)
            message = message._replace(metadata=strings(item, ("id", "recipient")))
            text = "\n".join(texts)
            if text.strip():
                self._add_drafts(iter([_Draft(message._replace(content=text))]), record)
        elif type_ in _OUTPUTS:
            self._add_drafts(iter([self._output(item)]), record)
        elif type_.endswith("_call"):
            self._add_drafts(iter([self._call(item, type_)]), record)
        elif type_ not in _EMPTY_ITEMS:
            self.tally.skip("item type", type_)

    def _call(self, item: Mapping[str, Json], type_: str) -> _Draft:
        name = as_text(item.get("name")) or type_.removesuffix("_call")
        call = as_text(item.get("call_id"))
        self.tools[call] = name
        files: tuple[Json, ...] = ()
        if type_ == "image_generation_call":
            files = (embedded_file("image", "image/png", item.get("result")),)
        arguments = item.get("arguments")
        inputs = (item[key] for key in ("input", "action", "revised_prompt") if item.get(key))
        if isinstance(arguments, str):
            text = unfold_json(arguments)
        else:
            text = as_lines(arguments or next(inputs, ""))
        metadata = strings(item, ("call_id", "status", "namespace"))
        passage = Passage("", "assistant", text, "tool_call", tool=name)
        return _Draft(passage._replace(attachments=files, metadata=metadata), call)

    def _output(self, item: Mapping[str, Json]) -> _Draft:
        call = as_text(item.get("call_id"))
        content, files, metadata = output_text(item.get("output", item.get("tools", "")))
        if call:
            metadata["call_id"] = call
        tool = self.tools.get(call) or as_text(item.get("name")) or None
        passage = Passage("", "tool", content, "tool_result", tool=tool)
        return _Draft(passage._replace(attachments=tuple(files), metadata=metadata), call)

    def _add_event(self, event: dict[str, Json], record: Mapping[str, Json]) -> None:
        """Add an event whose text older files have nowhere else, or one that moves the thread."""
        type_ = event.get("type")
        turns = event.get("num_turns")
        message = as_text(event.get("message"))
        if type_ == "thread_rolled_back" and isinstance(turns, int) and turns > 0:
            self.steps.append(_Rollback(turns))
        elif type_ in ("task_started", "turn_started"):
            turn = as_text(event.get("turn_id"))
            if _UUID.fullmatch(turn):
                self.steps.append(_Turn(turn))
        elif type_ == "user_message":
            files = tuple(linked_file("image", url) for url in as_list(event.get("images")))
            self._add_drafts(user_message([message], files, {}), record, is_event=True)
        elif type_ == "agent_message":
            drafts = with_texts(Passage("", "assistant", ""), [message])
            self._add_drafts(drafts, record, is_event=True)
        elif type_ in ("agent_reasoning", "agent_reasoning_raw_content"):
            thinking = Passage("", "assistant", "", type="thinking")
            drafts = with_texts(thinking, [as_text(event.get("text"))])
            self._add_drafts(drafts, record, is_event=True)
        else:
            self.tally.skip("event without text of its own")

    def _add_drafts(
        self, drafts: Iterator[_Draft], record: Mapping[str, Json], *, is_event: bool = False
    ) -> None:
        for draft in drafts:
            metadata = dict(draft.passage.metadata)
            if self.turn_cwd and self.turn_cwd != self.cwd:
                metadata["cwd"] = self.turn_cwd
            model = self.model if draft.passage.role == "assistant" else ""
            draft.passage = draft.passage._replace(
                created_at=moment(record.get("timestamp")), model=model or None, metadata=metadata
            )
            draft.is_event = is_event
            self.steps.append(draft)

    # -- the document --

    def documents(self) -> Iterator[Document]:
        thread = self._thread_id()
        passages, head = self._link(self._first_thread(thread))
        if not passages:
            return
        meta = self.metas[0] if self.metas else {}
        times = [passage.created_at for passage in passages if passage.created_at]
        started_at = moment(meta.get("timestamp"))
        subagent = as_mapping(as_mapping(meta.get("source")).get("subagent"))
        spawn = as_mapping(subagent.get("thread_spawn"))
        metadata = {key: meta[key] for key in (*_METADATA, *_AGENT_METADATA) if meta.get(key)}
        metadata |= {key: spawn[key] for key in _AGENT_METADATA if spawn.get(key)}
        if self.encrypted:
            metadata["encrypted_items"] = self.encrypted
        contexts = (_CWD.search(p.content) for p in passages if p.type == "context")
        cwd = self.cwd or next((match[1] for match in contexts if match), "default")
        yield Document(
            source=SOURCE.name,
            source_id=thread,
            title=title(passages),
            project=cwd,
            created_at=started_at or min(times, default=None),
            updated_at=max(times, default=started_at),
            head=head,
            passages=tuple(passages),
            metadata=metadata,
            shared_ids=True,
        )

    def _thread_id(self) -> str:
        meta = self.metas[0] if self.metas else {}
        uuid = _UUID.search(stem(self.entry))
        return (
            as_text(meta.get("id"))
            or as_text(meta.get("session_id"))
            or (uuid[0] if uuid else stem(self.entry))
        )

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

    def _link(self, first_thread: str) -> tuple[list[Passage], str | None]:
        """The passages with ids and parents, and the head of the thread."""
        drafts = [step for step in self.steps if isinstance(step, _Draft)]
        item_kinds = {draft.kind for draft in drafts if not draft.is_event}
        passages: list[Passage] = []
        repetitions: Counter[str] = Counter()
        before_prompts: list[str | None] = []
        scope, has_turn_id, head = first_thread, False, None
        for step in self.steps:
            if isinstance(step, _Turn):
                scope, has_turn_id = step.id, True
                continue
            if isinstance(step, _Rollback):
                if before_prompts:
                    index = max(len(before_prompts) - step.turns, 0)
                    head = before_prompts[index]
                    del before_prompts[index:]
                continue
            if step.is_event and step.kind in item_kinds:
                continue
            passage = step.passage
            if step.kind == ("user", "message"):
                before_prompts.append(head)
                if not has_turn_id:
                    scope = digest(scope, passage.content)
            key = digest(scope, str(passage.role), passage.type, step.call, passage.content)
            id_ = f"{key}:{repetitions[key]}" if repetitions[key] else key
            repetitions[key] += 1
            passages.append(passage._replace(id=id_, parent=head))
            head = id_
        return passages, head


def title(passages: list[Passage]) -> str:
    prompts = (p.content for p in passages if (p.role, p.type) == ("user", "message"))
    prompt = next(prompts, "")
    request = _REQUEST.search(prompt)
    return first_line(prompt[request.end() :]) if request else title_of(passages)


# -- items -------------------------------------------------------------------


def strings(item: Mapping[str, Json], keys: tuple[str, ...]) -> dict[str, Json]:
    return {key: item[key] for key in keys if isinstance(item.get(key), str)}


def _message(item: Mapping[str, Json]) -> Iterator[_Draft]:
    role = as_text(item.get("role"))
    blocks = content_blocks(item.get("content"))
    texts = [as_text(block.get("text")) for block in blocks]
    files = tuple(file for file in map(parse_file, blocks) if file)
    metadata = strings(item, ("id", "phase"))
    if role == "assistant":
        message = Passage("", role, "", attachments=files, metadata=metadata)
        yield from with_texts(message, texts)
    elif role == "user":
        yield from user_message(texts, files, metadata)
    else:
        visibility = "hidden" if role in ("developer", "system") else "all"
        context = Passage("", "system", "", type="context", visibility=visibility)
        context = context._replace(attachments=files, metadata={**metadata, "role": role})
        yield from with_texts(context, texts)


def user_message(
    texts: list[str], files: tuple[Json, ...], metadata: Mapping[str, Json]
) -> Iterator[_Draft]:
    """A message of the user: first what Codex added to it, then the user's own words."""
    added = [text for text in texts if text.lstrip().startswith(_ADDED_BY_CODEX)]
    typed = [text for text in texts if not text.lstrip().startswith(_ADDED_BY_CODEX)]
    is_command = any(text.lstrip().startswith(_SHELL_COMMAND) for text in typed)
    context = Passage("", "user", "", type="context", metadata=dict(metadata))
    yield from with_texts(context._replace(visibility="hidden"), added)
    type_ = "context" if is_command else "message"
    yield from with_texts(context._replace(type=type_, attachments=files), typed)


def with_texts(template: Passage, texts: list[str]) -> Iterator[_Draft]:
    """A draft of the texts, unless there is neither text nor a file."""
    text = "\n".join(text for text in texts if text)
    if text.strip() or template.attachments:
        yield _Draft(template._replace(content=text))


def reasoning(item: Mapping[str, Json]) -> Iterator[_Draft]:
    parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
    texts = [as_text(part) or as_text(as_mapping(part).get("text")) for part in parts]
    text = "\n\n".join(text for text in texts if text)
    metadata = {"encrypted_content": True} if item.get("encrypted_content") else {}
    if text.strip():
        yield _Draft(Passage("", "assistant", text, type="thinking", metadata=metadata))


def output_text(output: Json) -> tuple[str, list[Json], dict[str, Json]]:
    """A tool's output as text, the files in it, and its metadata.

    The text stays as it is, unless it is wrapped in JSON (`{"output": …, "metadata": …}`).
    """
    if isinstance(output, list):
        texts, files = [], []
        for block in output:
            file = parse_file(as_mapping(block))
            if file:
                files.append(file)
            else:
                texts.append(output_text(as_mapping(block).get("text", block))[0])
        return "\n".join(texts), files, {}
    wrapper = as_mapping(output)
    if isinstance(output, str) and output.startswith("{"):
        wrapper = as_mapping(parse_json(output))
    key = "output" if "output" in wrapper else "content"
    metadata = {name: value for name, value in wrapper.items() if name != key}
    if isinstance(wrapper.get(key), (str, list)) and metadata.keys() <= _OUTPUT_METADATA:
        text, files, _ = output_text(wrapper[key])
        return text, files, metadata
    return as_lines(output), [], {}


# -- exec --------------------------------------------------------


class _Events:
    """Collects the items of each thread. A later event of an item replaces the earlier ones."""

    def __init__(self, entry: Entry, tally: Tally) -> None:
        self._tally = tally
        self._name = stem(entry)
        self._threads: dict[str, dict[str, dict[str, Json]]] = {}
        self._thread = ""
        """Empty before the first event that names a thread."""
        self._runs: Counter[str] = Counter()

    def add(self, number: int, record: dict[str, Json]) -> None:
        type_ = as_text(record.get("type"))
        if type_ == "thread.started":
            self._thread = as_text(record.get("thread_id"))
            self._runs[self._thread] += 1
            return
        items = self._threads.setdefault(self._thread, {})
        if type_.startswith("item."):
            item = as_mapping(record.get("item"))
            key = as_text(item.get("id")) or f"line_{number}"
            run = self._runs[self._thread]
            # A resumed run numbers its items from the start again.
            items[f"{run}:{key}" if run > 1 else key] = item
        elif type_ in ("error", "turn.failed"):
            error = as_mapping(record.get("error")) or record
            items[f"line_{number}"] = {"type": "error", **error}
        elif type_ not in _EVENT_TYPES:
            self._tally.skip("record type", type_)

    def documents(self) -> Iterator[Document]:
        for thread, items in self._threads.items():
            identity = thread or self._name
            passages: list[Passage] = []
            parent = None
            for number, item in enumerate(items.values()):
                for part, passage in enumerate(self._passages(item)):
                    id_ = f"{identity}:{number}:{part}" if part else f"{identity}:{number}"
                    passages.append(passage._replace(id=id_, parent=parent))
                    parent = id_
            if passages:
                yield Document(
                    source=SOURCE.name,
                    source_id=f"exec:{identity}",
                    title=title_of(passages),
                    head=parent,
                    passages=tuple(passages),
                    metadata={"thread_id": thread or "unknown"},
                )

    def _passages(self, item: Mapping[str, Json]) -> list[Passage]:
        type_ = as_text(item.get("type"))
        text = as_text(item.get("text"))
        if type_ == "agent_message":
            return [Passage("", "assistant", text)]
        if type_ == "reasoning":
            return [Passage("", "assistant", text, type="thinking")]
        if type_ == "error":
            return [Passage("", "system", as_text(item.get("message")), type="context")]
        if type_ not in _TOOL_KEYS:
            self._tally.skip("item type", type_)
            return []
        input_keys, output_keys = _TOOL_KEYS[type_]
        keys = ("status", "exit_code", "server")
        metadata = {key: item[key] for key in keys if isinstance(item.get(key), (str, int))}
        call = "\n".join(as_lines(item[key]) for key in input_keys if key in item)
        result = "\n".join(as_lines(item[key]) for key in output_keys if item.get(key))
        tool = as_text(item.get("tool")) or type_
        passages = [Passage("", "assistant", call, "tool_call", tool=tool, metadata=metadata)]
        if result:
            passages.append(
                Passage("", "tool", result, "tool_result", tool=tool, metadata=metadata)
            )
        return passages
