"""One item of a Codex rollout as drafts of passages.

A draft has all of a passage but its id and parent, which depend on the whole
thread. Roles other than the person's and the model's (developer, system) and
what Codex puts into the person's mouth (environment, instructions) are hidden
context. Reasoning is kept as far as it is readable; the encrypted part is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recollect.importers.chats.agentlog import (
    as_lines,
    as_mapping,
    as_text,
    content_blocks,
    embedded_file,
    linked_file,
    parse_json,
    unfold_json,
)
from recollect.model.documents import Json, Passage

_INJECTED = (
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
_SHELL = "<user_shell_command>"
_BESIDE_OUTPUT = {
    "metadata",
    "success",
    "exit_code",
    "wall_time_seconds",
    "chunk_id",
    "original_token_count",
}
_OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "tool_search_output",
    "local_shell_call_output",
)


@dataclass(slots=True)
class Draft:
    passage: Passage
    call: str = ""
    """The id that ties a tool's result to its call."""
    event: bool = False
    """Taken from an event, which repeats an item wherever the file has items of its kind."""

    @property
    def prompt(self) -> bool:
        return self.passage.role == "user" and self.passage.type == "message"


@dataclass(slots=True)
class Reader:
    """Turns items into drafts; remembers the names of the tools that were called."""

    tools: dict[str, str] = field(default_factory=dict)
    encrypted: int = 0
    """How many items hold something that only the provider can read."""

    def drafts(self, item: Mapping[str, Json]) -> Iterator[Draft] | None:
        """What an item holds; None when its type is not known."""
        type_ = as_text(item.get("type"))
        if item.get("encrypted_content"):
            self.encrypted += 1
        if type_ == "message" or (not type_ and "role" in item):
            return _message(item)
        if type_ == "reasoning":
            return _reasoning(item)
        if type_ == "agent_message":
            return _from_agent(item)
        if type_ in _OUTPUTS:
            return self._output(item)
        if type_.endswith("_call"):
            return self._call(item, type_)
        if type_ in ("compaction", "compaction_summary", "context_compaction", "ghost_snapshot"):
            return iter(())
        return None

    def _call(self, item: Mapping[str, Json], type_: str) -> Iterator[Draft]:
        name = as_text(item.get("name")) or type_.removesuffix("_call")
        call = as_text(item.get("call_id"))
        self.tools[call] = name
        arguments = item.get("arguments")
        content = next((item[k] for k in ("input", "action", "revised_prompt") if item.get(k)), "")
        files: tuple[Json, ...] = ()
        if type_ == "image_generation_call":
            files = (embedded_file("image", "image/png", item.get("result")),)
        yield Draft(
            Passage(
                "",
                "assistant",
                unfold_json(arguments)
                if isinstance(arguments, str)
                else as_lines(arguments or content),
                type="tool_call",
                tool=name,
                attachments=files,
                metadata={
                    k: item[k]
                    for k in ("call_id", "status", "namespace")
                    if isinstance(item.get(k), str)
                },
            ),
            call,
        )

    def _output(self, item: Mapping[str, Json]) -> Iterator[Draft]:
        call = as_text(item.get("call_id"))
        content, files, notes = _output_text(item.get("output", item.get("tools", "")))
        tool = self.tools.get(call) or as_text(item.get("name")) or None
        notes |= {"call_id": call} if call else {}
        yield Draft(
            Passage(
                "",
                "tool",
                content,
                type="tool_result",
                tool=tool,
                attachments=tuple(files),
                metadata=notes,
            ),
            call,
        )


# -- messages ----------------------------------------------------------------


def _message(item: Mapping[str, Json]) -> Iterator[Draft]:
    role = as_text(item.get("role"))
    content = content_blocks(item.get("content"))
    texts = [as_text(block.get("text")) for block in content]
    files = tuple(f for f in map(_file, content) if f)
    notes = {k: item[k] for k in ("id", "phase") if isinstance(item.get(k), str)}
    if role == "assistant":
        yield from _said(role, "message", "all", texts, files, notes)
    elif role == "user":
        yield from _asked(texts, files, notes)
    else:
        visibility = "hidden" if role in ("developer", "system") else "all"
        yield from _said("system", "context", visibility, texts, files, notes | {"role": role})


def _asked(texts: list[str], files: tuple[Json, ...], notes: Mapping[str, Json]) -> Iterator[Draft]:
    """What stands under the person's name: first what Codex put there, then their own words."""
    injected = [t for t in texts if t.lstrip().startswith(_INJECTED)]
    own = [t for t in texts if not t.lstrip().startswith(_INJECTED)]
    shell = any(t.lstrip().startswith(_SHELL) for t in own)
    yield from _said("user", "context", "hidden", injected, (), notes)
    yield from _said("user", "context" if shell else "message", "all", own, files, notes)


def _said(
    role: str,
    kind: str,
    visibility: str,
    texts: list[str],
    files: tuple[Json, ...],
    notes: Mapping[str, Json],
) -> Iterator[Draft]:
    text = "\n".join(t for t in texts if t)
    if text.strip() or files:
        yield Draft(
            Passage(
                "",
                role,
                text,
                type=kind,
                visibility=visibility,
                attachments=files,
                metadata=dict(notes),
            )
        )


def _from_agent(item: Mapping[str, Json]) -> Iterator[Draft]:
    """A message from another agent: it asks like the person does, but is not theirs."""
    text = "\n".join(as_text(b.get("text")) for b in content_blocks(item.get("content")))
    notes = {k: item[k] for k in ("id", "recipient") if isinstance(item.get(k), str)}
    if text.strip():
        author = as_text(item.get("author")) or None
        yield Draft(Passage("", "user", text, type="context", author=author, metadata=notes))


def _reasoning(item: Mapping[str, Json]) -> Iterator[Draft]:
    parts = [
        p for key in ("summary", "content") if isinstance(item.get(key), list) for p in item[key]
    ]
    texts = [as_text(p) or as_text(as_mapping(p).get("text")) for p in parts]
    notes: dict[str, Json] = {"encrypted_content": True} if item.get("encrypted_content") else {}
    text = "\n\n".join(t for t in texts if t)
    if text.strip():
        yield Draft(Passage("", "assistant", text, type="thinking", metadata=notes))


def summed_up(compacted: Mapping[str, Json]) -> Iterator[Draft]:
    """The summary that replaced the history so far; the history it was made of stands before it."""
    yield from _said("system", "summary", "all", [as_text(compacted.get("message"))], (), {})


def told(event: Mapping[str, Json]) -> Iterator[Draft] | None:
    """What an event says that older files have nowhere else; None for every other event."""
    type_ = event.get("type")
    message = as_text(event.get("message"))
    if type_ == "user_message":
        images = event.get("images")
        files = (
            tuple(linked_file("image", url) for url in images) if isinstance(images, list) else ()
        )
        return _asked([message], files, {})
    if type_ == "agent_message":
        return _said("assistant", "message", "all", [message], (), {})
    if type_ in ("agent_reasoning", "agent_reasoning_raw_content"):
        return _said("assistant", "thinking", "all", [as_text(event.get("text"))], (), {})
    return None


# -- tools -------------------------------------------------------------------


def _output_text(output: Json) -> tuple[str, list[Json], dict[str, Json]]:
    """A tool's output as text, the files in it, and what stands beside it.

    The text stays as it is, framing included; only where a program wrapped it
    in JSON (`{"output": …, "metadata": …}`) is it taken out.
    """
    if isinstance(output, list):
        files = [f for f in map(_file, map(as_mapping, output)) if f]
        rest = [
            as_mapping(block).get("text", block) for block in output if not _file(as_mapping(block))
        ]
        return "\n".join(_output_text(text)[0] for text in rest), files, {}
    wrapper = as_mapping(
        parse_json(output) if isinstance(output, str) and output.startswith("{") else output
    )
    key = "output" if "output" in wrapper else "content"
    beside = {k: v for k, v in wrapper.items() if k != key}
    if isinstance(wrapper.get(key), (str, list)) and beside.keys() <= _BESIDE_OUTPUT:
        text, files, _ = _output_text(wrapper[key])
        return text, files, beside
    return as_lines(output), [], {}


def _file(block: Mapping[str, Json]) -> dict[str, Json] | None:
    """An image, sound or file in a message, without its bytes; None for any other block."""
    type_ = as_text(block.get("type")).removeprefix("input_").removeprefix("output_")
    if type_ not in ("image", "audio", "file", "local_image"):
        return None
    for key in ("image_url", "audio_url", "file_data", "file_url", "path"):
        if isinstance(block.get(key), str):
            return linked_file(type_, block[key])
    return {"type": type_}
