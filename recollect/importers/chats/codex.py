"""Codex CLI: rollouts (`rollout-*.jsonl`).

A rollout is one thread, named by the `id` of its first session_meta; later ones were copied with
the history of a fork. Visible text is written twice: response items are used, and events only if
a file has no items of that kind. A rollback moves the canonical path; what was rolled back stays
as a branch. Messages of other roles (developer, system), and what Codex adds to the user's messages
(environment, instructions), are hidden context. Encrypted reasoning is skipped.

Items have no ids that survive copying (times are rewritten, missing ids are filled in). So ids are
made from the text and its turn: the turn's own id, which copies keep, or in older files the first
thread and the prompts so far. Therefore the copy in a fork has the ids of its parent, and a file
that grows keeps its ids.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from recollect.importers.chats.agentlog import (
    UUID,
    Tally,
    Unusable,
    content_blocks,
    first_line,
    first_records,
    head_text,
    read_log,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.importers.records import as_list, contain_errors
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
DESCRIPTION = "Codex CLI sessions (rollout-*.jsonl)"

_RECORD_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_FLAT_TYPES = (
    "message reasoning function_call function_call_output local_shell_call ghost_snapshot".split()
)
_REQUEST = "\n## My request for Codex:"
"""The end of what an editor's extension puts before the prompt."""
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


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith((".jsonl", ".json")):
        return False
    head = head_text(entry)
    records = [] if name.endswith(".json") else first_records(head)
    if not records:  # a list, or a first line that is longer than the head
        start = head.lstrip()[:400].replace(" ", "")
        has_type = any(f'"type":"{type_}"' in start for type_ in _RECORD_TYPES)
        return has_type and start.startswith(("[", "{")) and '"payload"' in head
    for record in records:
        type_ = record.get("type")
        if isinstance(record.get("payload"), dict):
            if type_ in _RECORD_TYPES:
                return True
        elif is_flat_header(record) or (name.startswith("rollout-") and type_ in _FLAT_TYPES):
            return True
    return False


def is_flat_header(record: Mapping[str, Json]) -> bool:
    """Whether this is the first line of a file of the first versions."""
    if "type" in record or not {"id", "timestamp"} <= record.keys():
        return False
    return "instructions" in record or "git" in record


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    return read_log(entry, _Rollout(entry), marks=("payload",))


def digest(*parts: str) -> str:
    """An id made from the content of something that has none."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:32]


@dataclass(slots=True)
class _Step:
    """A passage without its id and parent, or the start of a turn, or a rollback."""

    passage: Passage | None = None
    call: str = ""
    """The id that links a tool's result to its call."""
    is_event: bool = False
    """From an event. It repeats an item if the file has items of its kind."""
    turn: str = ""
    rolled_back: int = 0
    """How many turns a rollback removes."""

    @property
    def kind(self) -> tuple[str | None, str]:
        return (self.passage.role, self.passage.type) if self.passage else (None, "")


class _Rollout:
    """Reads the lines of one thread."""

    def __init__(self, entry: Entry) -> None:
        self.tally = Tally(entry.name)
        self._name = stem(entry)
        self._metas: list[dict[str, Json]] = []
        self._steps: list[_Step] = []
        self._tools: dict[str, str] = {}
        """The names of the tools that were called."""
        self._encrypted = 0
        """The number of items with content that only the provider can read."""
        self._model = ""
        self._cwd = ""
        self._turn_cwd = ""
        """The folder of the current turn, which may differ from that of the thread."""
        self._time: datetime | None = None
        self._is_event = False

    # -- lines --

    def add(self, number: int, record: dict[str, Json]) -> None:
        payload = record.get("payload")
        type_ = as_text(record.get("type"))
        self._time, self._is_event = moment(record.get("timestamp")), type_ == "event_msg"
        if not isinstance(payload, dict):
            # A line of the first versions is an item, or the header without a type.
            if "payload" not in record and is_flat_header(record):
                self._metas.append(record)
            elif "payload" not in record and ("type" in record or "role" in record):
                self._add_item(record)
            elif "record_type" not in record:
                raise Unusable("line without a payload")
        elif type_ == "response_item":
            self._add_item(payload)
        elif type_ == "event_msg":
            self._add_event(payload)
        elif type_ == "inter_agent_communication":
            self._add_item({**payload, "type": "agent_message"})
        elif type_ == "session_meta":
            self._metas.append({k: v for k, v in payload.items() if k != "base_instructions"})
            self._cwd = self._cwd or as_text(payload.get("cwd"))
        elif type_ == "turn_context":
            self._model = as_text(payload.get("model")) or self._model
            self._turn_cwd = as_text(payload.get("cwd")) or self._turn_cwd
            self._cwd = self._cwd or self._turn_cwd
        elif type_ == "compacted":
            # The summary that replaced the history so far, which is before it in the file.
            self._write("system", [as_text(payload.get("message"))], "summary")
        else:
            self.tally.skip("record type", type_)

    def _write(
        self,
        role: str,
        texts: list[str],
        type: str = "message",
        *,
        visibility: str = "all",
        author: str | None = None,
        tool: str | None = None,
        call: str = "",
        files: tuple[Json, ...] = (),
        metadata: Mapping[str, Json] | None = None,
    ) -> None:
        """Add a passage with these texts. Only a tool's call or result may be empty."""
        text = "\n".join(filter(None, texts))
        if not (text.strip() or files or type in ("tool_call", "tool_result")):
            return
        metadata = dict(metadata or {})
        if self._turn_cwd not in ("", self._cwd):
            metadata["cwd"] = self._turn_cwd
        passage = Passage(
            "",
            role,
            text,
            type,
            author=author,
            model=(role == "assistant" and self._model) or None,
            tool=tool,
            created_at=self._time,
            visibility=visibility,
            attachments=files,
            metadata=metadata,
        )
        self._steps.append(_Step(passage, call, self._is_event))

    def _add_item(self, item: dict[str, Json]) -> None:
        type_, call = as_text(item.get("type")), as_text(item.get("call_id"))
        if item.get("encrypted_content"):
            self._encrypted += 1
        if type_ == "message" or (not type_ and "role" in item):
            self._add_message(item)
        elif type_ == "reasoning":
            parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            texts = [as_text(part) or as_text(as_mapping(part).get("text")) for part in parts]
            text = "\n\n".join(filter(None, texts))
            thoughts = {"encrypted_content": True} if item.get("encrypted_content") else {}
            self._write("assistant", [text], "thinking", metadata=thoughts)
        elif type_ == "agent_message":
            # From another agent: in the place of a prompt, but not written by the user.
            texts = [as_text(block.get("text")) for block in content_blocks(item.get("content"))]
            author, about = as_text(item.get("author")) or None, strings(item, "id", "recipient")
            self._write("user", texts, "context", author=author, metadata=about)
        elif type_ in _OUTPUTS:
            content, files, about = output_text(item.get("output", item.get("tools", "")))
            about |= {"call_id": call} if call else {}
            tool = self._tools.get(call) or as_text(item.get("name")) or None
            self._write(
                "tool", [content], "tool_result", tool=tool, call=call, files=files, metadata=about
            )
        elif type_.endswith("_call"):
            tool = self._tools[call] = as_text(item.get("name")) or type_.removesuffix("_call")
            files = ()
            if type_ == "image_generation_call":
                files = (embedded_file("image", "image/png", item.get("result")),)
            arguments = item.get("arguments")
            inputs = (item[key] for key in ("input", "action", "revised_prompt") if item.get(key))
            if isinstance(arguments, str):
                text = unfold_json(arguments)
            else:
                text = as_lines(arguments or next(inputs, ""))
            about = strings(item, "call_id", "status", "namespace")
            self._write(
                "assistant", [text], "tool_call", tool=tool, call=call, files=files, metadata=about
            )
        elif type_ not in _EMPTY_ITEMS:
            self.tally.skip("item type", type_)

    def _add_message(self, item: Mapping[str, Json]) -> None:
        role = as_text(item.get("role"))
        blocks = content_blocks(item.get("content"))
        texts = [as_text(block.get("text")) for block in blocks]
        files = tuple(file for file in map(parse_file, blocks) if file)
        about = strings(item, "id", "phase")
        if role == "assistant":
            self._write(role, texts, files=files, metadata=about)
        elif role == "user":
            self._add_prompt(texts, files, about)
        else:
            visibility = "hidden" if role in ("developer", "system") else "all"
            about["role"] = role
            self._write(
                "system", texts, "context", visibility=visibility, files=files, metadata=about
            )

    def _add_prompt(
        self, texts: list[str], files: tuple[Json, ...], about: Mapping[str, Json]
    ) -> None:
        """A message of the user: first what Codex added to it, then the user's own words."""
        added = [text for text in texts if text.lstrip().startswith(_ADDED_BY_CODEX)]
        typed = [text for text in texts if not text.lstrip().startswith(_ADDED_BY_CODEX)]
        is_command = any(text.lstrip().startswith(_SHELL_COMMAND) for text in typed)
        self._write("user", added, "context", visibility="hidden", metadata=about)
        type_ = "context" if is_command else "message"
        self._write("user", typed, type_, files=files, metadata=about)

    def _add_event(self, event: Mapping[str, Json]) -> None:
        """Add an event whose text older files have nowhere else, or one that moves the thread."""
        type_, turns = event.get("type"), event.get("num_turns")
        message = as_text(event.get("message"))
        if type_ == "thread_rolled_back" and isinstance(turns, int) and turns > 0:
            self._steps.append(_Step(rolled_back=turns))
        elif type_ in ("task_started", "turn_started"):
            turn = as_text(event.get("turn_id"))
            if UUID.fullmatch(turn):
                self._steps.append(_Step(turn=turn))
        elif type_ == "user_message":
            files = tuple(linked_file("image", url) for url in as_list(event.get("images")))
            self._add_prompt([message], files, {})
        elif type_ == "agent_message":
            self._write("assistant", [message])
        elif type_ in ("agent_reasoning", "agent_reasoning_raw_content"):
            self._write("assistant", [as_text(event.get("text"))], "thinking")
        else:
            self.tally.skip("event without text of its own")

    # -- the document --

    def documents(self) -> Iterator[Document]:
        meta = self._metas[0] if self._metas else {}
        uuid = UUID.search(self._name)
        thread = (
            as_text(meta.get("id"))
            or as_text(meta.get("session_id"))
            or (uuid[0] if uuid else self._name)
        )
        passages, head = self._link(self._first_thread(thread))
        if not passages:
            return
        times = [passage.created_at for passage in passages if passage.created_at]
        started_at = moment(meta.get("timestamp"))
        subagent = as_mapping(as_mapping(meta.get("source")).get("subagent"))
        spawn = as_mapping(subagent.get("thread_spawn"))
        metadata = {key: meta[key] for key in (*_METADATA, *_AGENT_METADATA) if meta.get(key)}
        metadata |= {key: spawn[key] for key in _AGENT_METADATA if spawn.get(key)}
        if self._encrypted:
            metadata["encrypted_items"] = self._encrypted
        contexts = (p.content.partition("<cwd>")[2] for p in passages if p.type == "context")
        folders = (context.partition("</cwd>")[0] for context in contexts)
        prompts = (p.content for p in passages if (p.role, p.type) == ("user", "message"))
        _, has_request, request = f"\n{next(prompts, '')}".partition(_REQUEST)
        yield Document(
            source=SOURCE.name,
            source_id=thread,
            title=first_line(request) if has_request else title_of(passages),
            project=self._cwd or next(filter(None, folders), "default"),
            created_at=started_at or min(times, default=None),
            updated_at=max(times, default=started_at),
            head=head,
            passages=tuple(passages),
            metadata=metadata,
            shared_ids=True,
        )

    def _first_thread(self, thread: str) -> str:
        """The thread that the history of this one began with, as far as the file tells."""
        ids = [as_text(meta.get("id")) for meta in self._metas]
        parents = [as_text(meta.get("forked_from_id")) for meta in self._metas]
        named = dict(zip(reversed(ids), reversed(parents), strict=True))
        # The parent of an older fork is not named, but its session_meta is next in the file.
        next_ids = dict(reversed(list(pairwise(ids))))
        visited: set[str] = set()
        current = thread
        while current and current not in visited:
            visited.add(current)
            thread = current
            current = named.get(thread) or next_ids.get(thread, "")
        return thread

    def _link(self, first_thread: str) -> tuple[list[Passage], str | None]:
        """The passages with ids and parents, and the head of the thread."""
        item_kinds = {step.kind for step in self._steps if not step.is_event}
        passages: list[Passage] = []
        repetitions: Counter[str] = Counter()
        before_prompts: list[str | None] = []
        scope, has_turn_id, head = first_thread, False, None
        for step in self._steps:
            passage = step.passage
            if step.turn:
                scope, has_turn_id = step.turn, True
            elif passage is None:
                if before_prompts:
                    index = max(len(before_prompts) - step.rolled_back, 0)
                    head = before_prompts[index]
                    del before_prompts[index:]
            elif not (step.is_event and step.kind in item_kinds):
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


def strings(item: Mapping[str, Json], *keys: str) -> dict[str, Json]:
    return {key: item[key] for key in keys if isinstance(item.get(key), str)}


def output_text(output: Json) -> tuple[str, tuple[Json, ...], dict[str, Json]]:
    """A tool's output as text, the files in it, and its metadata.

    The text stays as it is, unless it is wrapped in JSON (`{"output": …, "metadata": …}`).
    """
    if isinstance(output, list):
        described = [(block, parse_file(as_mapping(block))) for block in output]
        texts = [output_text(as_mapping(b).get("text", b))[0] for b, file in described if not file]
        return "\n".join(texts), tuple(file for _, file in described if file), {}
    wrapper = as_mapping(output)
    if isinstance(output, str) and output.startswith("{"):
        wrapper = as_mapping(parse_json(output))
    key = "output" if "output" in wrapper else "content"
    metadata = {name: value for name, value in wrapper.items() if name != key}
    if isinstance(wrapper.get(key), (str, list)) and metadata.keys() <= _OUTPUT_METADATA:
        text, files, _ = output_text(wrapper[key])
        return text, files, metadata
    return as_lines(output), (), {}
