"""One item of a Codex rollout as drafts of passages.

A draft has everything of a passage except its id and parent, which depend on the whole thread.
Messages of other roles (developer, system), and what Codex adds to the user's messages
(environment, instructions), are hidden context. Encrypted reasoning is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recollect.importers.chats.agentlog import content_blocks
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
from recollect.model.documents import Json, Passage

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
_OUTPUT_METADATA = set(
    "metadata success exit_code wall_time_seconds chunk_id original_token_count".split()
)
_OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "tool_search_output",
    "local_shell_call_output",
)
_EMPTY_ITEMS = ("compaction", "compaction_summary", "context_compaction", "ghost_snapshot")


@dataclass(slots=True)
class Draft:
    passage: Passage
    call: str = ""
    """The id that links a tool's result to its call."""
    is_event: bool = False
    """From an event. It repeats an item if the file has items of its kind."""

    @property
    def is_prompt(self) -> bool:
        return self.passage.role == "user" and self.passage.type == "message"


@dataclass(slots=True)
class ItemReader:
    """Converts items to drafts. Remembers the names of the tools that were called."""

    tools: dict[str, str] = field(default_factory=dict)
    encrypted: int = 0
    """The number of items with content that only the provider can read."""

    def drafts(self, item: Mapping[str, Json]) -> Iterator[Draft] | None:
        """The drafts of an item; None if its type is unknown."""
        type_ = as_text(item.get("type"))
        if item.get("encrypted_content"):
            self.encrypted += 1
        if type_ == "message" or (not type_ and "role" in item):
            return _message(item)
        if type_ == "reasoning":
            return _reasoning(item)
        if type_ == "agent_message":
            return _agent_message(item)
        if type_ in _OUTPUTS:
            return iter([self._output(item)])
        if type_.endswith("_call"):
            return iter([self._call(item, type_)])
        if type_ in _EMPTY_ITEMS:
            return iter(())
        return None

    def _call(self, item: Mapping[str, Json], type_: str) -> Draft:
        name = as_text(item.get("name")) or type_.removesuffix("_call")
        call = as_text(item.get("call_id"))
        self.tools[call] = name
        files: tuple[Json, ...] = ()
        if type_ == "image_generation_call":
            files = (embedded_file("image", "image/png", item.get("result")),)
        passage = Passage(
            "",
            "assistant",
            _call_text(item),
            type="tool_call",
            tool=name,
            attachments=files,
            metadata=_strings(item, ("call_id", "status", "namespace")),
        )
        return Draft(passage, call)

    def _output(self, item: Mapping[str, Json]) -> Draft:
        call = as_text(item.get("call_id"))
        content, files, metadata = _output_text(item.get("output", item.get("tools", "")))
        if call:
            metadata["call_id"] = call
        passage = Passage(
            "",
            "tool",
            content,
            type="tool_result",
            tool=self.tools.get(call) or as_text(item.get("name")) or None,
            attachments=tuple(files),
            metadata=metadata,
        )
        return Draft(passage, call)


def _strings(item: Mapping[str, Json], keys: tuple[str, ...]) -> dict[str, Json]:
    return {key: item[key] for key in keys if isinstance(item.get(key), str)}


# -- messages ----------------------------------------------------------------


def _message(item: Mapping[str, Json]) -> Iterator[Draft]:
    role = as_text(item.get("role"))
    blocks = content_blocks(item.get("content"))
    texts = [as_text(block.get("text")) for block in blocks]
    files = tuple(file for file in map(parse_file, blocks) if file)
    metadata = _strings(item, ("id", "phase"))
    if role == "assistant":
        message = Passage("", role, "", attachments=files, metadata=metadata)
        yield from _with_texts(message, texts)
    elif role == "user":
        yield from _user_message(texts, files, metadata)
    else:
        visibility = "hidden" if role in ("developer", "system") else "all"
        metadata["role"] = role
        context = Passage("", "system", "", type="context", visibility=visibility)
        yield from _with_texts(context._replace(attachments=files, metadata=metadata), texts)


def _user_message(
    texts: list[str], files: tuple[Json, ...], metadata: Mapping[str, Json]
) -> Iterator[Draft]:
    """A message of the user: first what Codex added to it, then the user's own words."""
    added, typed = [], []
    has_shell_command = False
    for text in texts:
        start = text.lstrip()
        if start.startswith(_ADDED_BY_CODEX):
            added.append(text)
        else:
            typed.append(text)
            has_shell_command |= start.startswith(_SHELL_COMMAND)
    context = Passage("", "user", "", type="context", metadata=dict(metadata))
    yield from _with_texts(context._replace(visibility="hidden"), added)
    type_ = "context" if has_shell_command else "message"
    yield from _with_texts(context._replace(type=type_, attachments=files), typed)


def _with_texts(template: Passage, texts: list[str]) -> Iterator[Draft]:
    """A draft of the texts, unless there is neither text nor a file."""
    text = "\n".join(text for text in texts if text)
    if text.strip() or template.attachments:
        yield Draft(template._replace(content=text))


def _agent_message(item: Mapping[str, Json]) -> Iterator[Draft]:
    """A message from another agent: in the place of a prompt, but not written by the user."""
    text = "\n".join(as_text(block.get("text")) for block in content_blocks(item.get("content")))
    if text.strip():
        author = as_text(item.get("author")) or None
        metadata = _strings(item, ("id", "recipient"))
        yield Draft(Passage("", "user", text, type="context", author=author, metadata=metadata))


def _reasoning(item: Mapping[str, Json]) -> Iterator[Draft]:
    texts = []
    for key in ("summary", "content"):
        parts = item.get(key)
        if isinstance(parts, list):
            texts += [as_text(part) or as_text(as_mapping(part).get("text")) for part in parts]
    text = "\n\n".join(text for text in texts if text)
    metadata: dict[str, Json] = {}
    if item.get("encrypted_content"):
        metadata["encrypted_content"] = True
    if text.strip():
        yield Draft(Passage("", "assistant", text, type="thinking", metadata=metadata))


def compaction_summary(compacted: Mapping[str, Json]) -> Iterator[Draft]:
    """The summary that replaced the history so far. The history itself is before it in the file."""
    summary = Passage("", "system", "", type="summary")
    yield from _with_texts(summary, [as_text(compacted.get("message"))])


def event_drafts(event: Mapping[str, Json]) -> Iterator[Draft] | None:
    """The drafts of an event whose text older files have nowhere else; None for other events."""
    type_ = event.get("type")
    message = as_text(event.get("message"))
    if type_ == "user_message":
        images = event.get("images")
        files: tuple[Json, ...] = ()
        if isinstance(images, list):
            files = tuple(linked_file("image", url) for url in images)
        return _user_message([message], files, {})
    if type_ == "agent_message":
        return _with_texts(Passage("", "assistant", ""), [message])
    if type_ in ("agent_reasoning", "agent_reasoning_raw_content"):
        thinking = Passage("", "assistant", "", type="thinking")
        return _with_texts(thinking, [as_text(event.get("text"))])
    return None


# -- tools -------------------------------------------------------------------


def _call_text(item: Mapping[str, Json]) -> str:
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        return unfold_json(arguments)
    if arguments:
        return as_lines(arguments)
    for key in ("input", "action", "revised_prompt"):
        if item.get(key):
            return as_lines(item[key])
    return ""


def _output_text(output: Json) -> tuple[str, list[Json], dict[str, Json]]:
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
                texts.append(_output_text(as_mapping(block).get("text", block))[0])
        return "\n".join(texts), files, {}
    wrapper = as_mapping(output)
    if isinstance(output, str) and output.startswith("{"):
        wrapper = as_mapping(parse_json(output))
    key = "output" if "output" in wrapper else "content"
    metadata = {name: value for name, value in wrapper.items() if name != key}
    if isinstance(wrapper.get(key), (str, list)) and metadata.keys() <= _OUTPUT_METADATA:
        text, files, _ = _output_text(wrapper[key])
        return text, files, metadata
    return as_lines(output), [], {}
