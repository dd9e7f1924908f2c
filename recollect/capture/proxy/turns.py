"""Messages of OpenAI's chat protocol as passages with ids that identify a conversation.

The protocol has no conversations: a client sends the whole history with every request. The id of a
message is therefore a hash of its content and of everything before it, so that the history of the
next request leads to what was recorded of the last one. System prompts do not count, because they
change between requests. An answer that was recorded here has another id than one that a client only
claims: examples that a program sends with every question continue nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from recollect.importers.chats.agentlog import (
    as_lines,
    as_mapping,
    as_text,
    embedded_file,
    linked_file,
    unfold_json,
)
from recollect.language.text import truncate
from recollect.model.documents import Json, Passage

ANSWER_PREFIX = "a_"
"""Ids of answers that were recorded here."""
CLIENT_PREFIX = "m_"
"""Ids of messages that a client sent."""
SYSTEM_PREFIX = "s_"
"""Ids of system prompts."""

_TITLE_LENGTH = 50
_MAX_URL_LENGTH = 2_000
_FILE_KINDS = ("image", "audio", "file", "video")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the protocol and its passages, the last of which has the id of the turn."""

    role: str
    key: str
    """The hash of the content."""
    passages: tuple[Passage, ...]
    """Without ids and parents, which depend on the messages before."""

    @property
    def is_system(self) -> bool:
        return self.role == "system"


@dataclass(slots=True)
class _Parser:
    """Parses messages in order and remembers the names of the tools that were called."""

    tools: dict[str, str] = field(default_factory=dict)

    def turn(self, message: Mapping[str, Json]) -> Turn:
        role = as_text(message.get("role"))
        if role == "assistant":
            return self._assistant_turn(message)
        if role in ("tool", "function"):
            return self._result_turn(message)
        if role == "user":
            return self._user_turn(message)
        return self._system_turn(message, role)

    def _user_turn(self, message: Mapping[str, Json]) -> Turn:
        content = _parse_content(message.get("content"))
        passage = Passage(
            "", "user", content.text, author=_author(message), attachments=content.files
        )
        return Turn("user", _hash("user", content.text.strip(), content.files), (passage,))

    def _system_turn(self, message: Mapping[str, Json], role: str) -> Turn:
        content = _parse_content(message.get("content"))
        visibility = "all"
        if role in ("system", "developer"):
            visibility = "hidden"
        metadata: dict[str, Json] = {}
        if role != "system":
            metadata["role"] = role[:100]
        passage = Passage(
            "",
            "system",
            content.text,
            type="context",
            author=_author(message),
            visibility=visibility,
            attachments=content.files,
            metadata=metadata,
        )
        return Turn("system", _hash(role, content.text.strip(), content.files), (passage,))

    def _assistant_turn(self, message: Mapping[str, Json]) -> Turn:
        content = _parse_content(message.get("content"))
        refusal = content.refusal or as_text(message.get("refusal"))
        audio = as_mapping(message.get("audio"))
        text = content.text or refusal or as_text(audio.get("transcript"))
        files = content.files
        if audio.get("data"):
            files += (embedded_file("audio", "", audio["data"]),)
        calls = [_parse_call(call) for call in _calls(message)]
        passages: list[Passage] = []
        reasoning = _reasoning(message)
        if reasoning.strip():
            passages.append(Passage("", "assistant", reasoning, type="thinking"))
        if text or files or not calls:
            passage = _answer_passage(message, text, files)
            if refusal and text == refusal:
                passage = passage._replace(metadata={"refusal": True})
            passages.append(passage)
        for call in calls:
            self.tools[call.id] = call.name
            passages.append(_call_passage(call))
        # Clients omit thoughts when they send an answer back, and refer to audio by its id.
        key_text = as_text(audio.get("id")) or _THOUGHTS.sub("", text).strip()
        key_calls = [[call.id, call.name, call.canonical_arguments] for call in calls]
        key = _hash("assistant", key_text, content.files, key_calls)
        return Turn("assistant", key, tuple(passages))

    def _result_turn(self, message: Mapping[str, Json]) -> Turn:
        content = _parse_content(message.get("content"))
        call = as_text(message.get("tool_call_id"))
        passage = Passage(
            "",
            "tool",
            content.text,
            type="tool_result",
            tool=self.tools.get(call) or as_text(message.get("name")) or None,
            attachments=content.files,
            metadata=_call_metadata(call),
        )
        return Turn("tool", _hash("tool", content.text.strip(), content.files, call), (passage,))


def _answer_passage(message: Mapping[str, Json], text: str, files: tuple[Json, ...]) -> Passage:
    citations: tuple[Json, ...] = ()
    annotations = message.get("annotations")
    if isinstance(annotations, list):
        citations = tuple(annotations)
    return Passage(
        "",
        "assistant",
        text,
        author=_author(message),
        attachments=files,
        citations=citations,
        metadata={},
    )


def _call_passage(call: _Call) -> Passage:
    return Passage(
        "",
        "assistant",
        unfold_json(call.arguments),
        type="tool_call",
        tool=call.name or None,
        metadata=_call_metadata(call.id),
    )


def _call_metadata(call_id: str) -> dict[str, Json]:
    if not call_id:
        return {}
    return {"call_id": call_id}


def parse_turns(messages: Iterable[Json]) -> list[Turn]:
    """The turns of a request. Invalid messages are skipped; the model server will report them."""
    parser = _Parser()
    return [parser.turn(message) for message in messages if isinstance(message, dict)]


def parse_answer(message: Mapping[str, Json]) -> Turn:
    return _Parser().turn({**message, "role": "assistant"})


def conversation_title(text: str) -> str:
    """The title of a new conversation (Persistence API): the start of the first question."""
    return truncate(text, _TITLE_LENGTH)


# -- ids -----------------------------------------------------------------------


def chain_hash(previous: str, turn: Turn) -> str:
    """The hash of a turn and of everything before it, whose hash is `previous`."""
    return _hash(previous, turn.key)


def hash_of_id(id: str) -> str:
    """The hash in an id. An id from elsewhere stands for itself."""
    if id.startswith((ANSWER_PREFIX, CLIENT_PREFIX)):
        return id[2:]
    return id


def turn_passages(turn: Turn, id: str, parent: str | None) -> list[Passage]:
    """The passages of a turn, each the parent of the next. The last has the id of the turn."""
    passages: list[Passage] = []
    for number, passage in enumerate(turn.passages, 1):
        passage_id = id
        if number < len(turn.passages):
            passage_id = f"{id}.{number}"
        passages.append(passage._replace(id=passage_id, parent=parent))
        parent = passage_id
    return passages


def system_prompt_id(conversation: str, turn: Turn) -> str:
    """The id of a system prompt, which is unique to the conversation.

    The same id in the whole library would be found in thousands of conversations.
    """
    return SYSTEM_PREFIX + _hash(conversation, turn.key)


def _hash(*parts: Json) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# -- content -------------------------------------------------------------------


class _Content(NamedTuple):
    text: str
    files: tuple[Json, ...] = ()
    refusal: str = ""


class _Call(NamedTuple):
    id: str
    name: str
    arguments: str

    @property
    def canonical_arguments(self) -> str:
        """The arguments in a form that survives parsing and serializing by a client."""
        try:
            return json.dumps(json.loads(self.arguments), sort_keys=True)
        except (ValueError, RecursionError):
            return self.arguments.strip()


def _parse_content(content: Json) -> _Content:
    if content is None:
        return _Content("")
    if not isinstance(content, list):
        return _Content(as_lines(content))
    texts: list[str] = []
    refusals: list[str] = []
    files: list[Json] = []
    for part in content:
        block = as_mapping(part)
        file = _parse_file(block)
        if file is not None:
            files.append(file)
        elif block.get("type") == "refusal":
            refusals.append(as_text(block.get("refusal")))
        elif isinstance(part, str):
            texts.append(part)
        else:
            texts.append(as_text(block.get("text")) or as_text(block.get("content")))
    return _Content("\n".join(filter(None, texts)), tuple(files), "\n".join(filter(None, refusals)))


def _parse_file(block: Mapping[str, Json]) -> dict[str, Json] | None:
    """A file in a message: its kind, name, size and checksum, never its bytes."""
    type_ = as_text(block.get("type"))
    kind = next((kind for kind in _FILE_KINDS if kind in type_), None)
    if kind is None:
        return None
    names = (type_, "image_url", "input_audio", "file")
    inner = next((block[name] for name in names if block.get(name)), block)
    fields = as_mapping(inner)
    if isinstance(inner, str):
        file = _file_at(kind, inner)
    elif kind == "audio" and "data" in fields:
        file = embedded_file(kind, f"audio/{as_text(fields.get('format'))}", fields["data"])
    elif as_text(fields.get("file_data")).startswith("data:") or "url" in fields:
        file = _file_at(kind, as_text(fields.get("url")) or as_text(fields.get("file_data")))
    elif "file_data" in fields:
        file = embedded_file(kind, "", fields["file_data"])
    else:
        file = {"type": kind}
    for name, value in (("name", fields.get("filename")), ("file_id", fields.get("file_id"))):
        if isinstance(value, str):
            file = file | {name: value[:500]}
    return file


def _file_at(kind: str, url: str) -> dict[str, Json]:
    file = linked_file(kind, url)
    if len(as_text(file.get("url"))) > _MAX_URL_LENGTH:
        checksum = hashlib.sha256(url.encode()).hexdigest()
        return {"type": kind, "url": truncate(url, 200), "sha256": checksum}
    return file


def _calls(message: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    calls: list[Mapping[str, Json]] = []
    tool_calls = message.get("tool_calls")
    if isinstance(tool_calls, list):
        calls += [call for call in tool_calls if isinstance(call, dict)]
    function_call = message.get("function_call")  # the older form
    if isinstance(function_call, dict):
        calls.append({"function": function_call})
    return calls


def _parse_call(call: Mapping[str, Json]) -> _Call:
    inner = as_mapping(call.get("function")) or as_mapping(call.get("custom"))
    arguments = inner.get("arguments", inner.get("input", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return _Call(as_text(call.get("id")), as_text(inner.get("name")), arguments)


def _reasoning(message: Mapping[str, Json]) -> str:
    return as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))


def _author(message: Mapping[str, Json]) -> str | None:
    return as_text(message.get("name"))[:500] or None
