"""Messages of OpenAI's chat protocol as passages, with ids by which a conversation is known again.

The protocol has no conversations: a client sends the whole history with every
request. So a message's id is a hash of what it says and of all before it, and
the history that comes with the next request leads to what was recorded of the
last one. System prompts are no part of that: they change between requests. An
answer that was seen here has another id than one that a client only claims:
examples which a program sends along with every question continue nothing.
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

ANSWER, TOLD, SYSTEM = "a_", "m_", "s_"
"""How ids begin: of answers that were seen here, of what a client sent, of system prompts."""

_TITLE_LENGTH = 50
_LONGEST_ADDRESS = 2_000
_FILES = ("image", "audio", "file", "video")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the protocol: what it says, and the passages made of it, the last of which stands for it."""

    role: str
    key: str
    passages: tuple[Passage, ...]
    """Without ids and parents, which depend on what stands before."""

    @property
    def system(self) -> bool:
        return self.role == "system"


@dataclass(slots=True)
class _Reader:
    """Reads messages in order; remembers the names of the tools that were called."""

    tools: dict[str, str] = field(default_factory=dict)

    def turn(self, message: Mapping[str, Json]) -> Turn:
        role = as_text(message.get("role"))
        if role == "assistant":
            return self._assistant(message)
        if role in ("tool", "function"):
            return self._result(message)
        said = _content(message.get("content"))
        if role == "user":
            passage = Passage(
                "", "user", said.text, author=_author(message), attachments=said.files
            )
            return Turn("user", _digest("user", said.text.strip(), said.files), (passage,))
        visibility = "hidden" if role in ("system", "developer") else "all"
        passage = Passage(
            "",
            "system",
            said.text,
            type="context",
            author=_author(message),
            visibility=visibility,
            attachments=said.files,
            metadata={} if role == "system" else {"role": role[:100]},
        )
        return Turn("system", _digest(role, said.text.strip(), said.files), (passage,))

    def _assistant(self, message: Mapping[str, Json]) -> Turn:
        said = _content(message.get("content"))
        refusal = said.refusal or as_text(message.get("refusal"))
        audio = as_mapping(message.get("audio"))
        text = said.text or refusal or as_text(audio.get("transcript"))
        files = said.files
        if audio.get("data"):
            files += (embedded_file("audio", "", audio["data"]),)
        passages = [
            Passage("", "assistant", t, type="thinking") for t in [_reasoning(message)] if t.strip()
        ]
        calls = [_call(call) for call in _calls(message)]
        if text or files or not calls:
            notes: dict[str, Json] = {"refusal": True} if refusal and text == refusal else {}
            cited = message.get("annotations")
            citations = tuple(cited) if isinstance(cited, list) else ()
            passages.append(
                Passage(
                    "",
                    "assistant",
                    text,
                    author=_author(message),
                    attachments=files,
                    citations=citations,
                    metadata=notes,
                )
            )
        for call in calls:
            self.tools[call.id] = call.name
            passages.append(
                Passage(
                    "",
                    "assistant",
                    unfold_json(call.arguments),
                    type="tool_call",
                    tool=call.name or None,
                    metadata={"call_id": call.id} if call.id else {},
                )
            )
        # Clients leave out thoughts when they send an answer back, and name a recording by its id.
        told = as_text(audio.get("id")) or _THOUGHTS.sub("", text).strip()
        made = [[call.id, call.name, call.canonical] for call in calls]
        return Turn("assistant", _digest("assistant", told, said.files, made), tuple(passages))

    def _result(self, message: Mapping[str, Json]) -> Turn:
        said = _content(message.get("content"))
        call = as_text(message.get("tool_call_id"))
        passage = Passage(
            "",
            "tool",
            said.text,
            type="tool_result",
            tool=self.tools.get(call) or as_text(message.get("name")) or None,
            attachments=said.files,
            metadata={"call_id": call} if call else {},
        )
        return Turn("tool", _digest("tool", said.text.strip(), said.files, call), (passage,))


def turns_of(messages: Iterable[Json]) -> list[Turn]:
    """The turns of a request. What is no message is left out; the model behind will complain of it."""
    reader = _Reader()
    return [reader.turn(message) for message in messages if isinstance(message, dict)]


def answer_of(message: Mapping[str, Json]) -> Turn:
    return _Reader().turn({**message, "role": "assistant"})


def title_of(text: str) -> str:
    """The title that contract 1 gives a conversation: the start of what was first asked."""
    return truncate(text, _TITLE_LENGTH)


# -- ids -----------------------------------------------------------------------


def linked_to(before: str, turn: Turn) -> str:
    """The hash of a turn and of all before it, whose hash is `before`."""
    return _digest(before, turn.key)


def hash_in(id: str) -> str:
    """The hash that an id was made of; an id that others made stands for itself."""
    return id[2:] if id.startswith((ANSWER, TOLD)) else id


def placed(turn: Turn, id: str, parent: str | None) -> list[Passage]:
    """The passages of a turn, each the parent of the next. The last one has the turn's id."""
    found: list[Passage] = []
    for number, passage in enumerate(turn.passages, 1):
        own = id if number == len(turn.passages) else f"{id}.{number}"
        found.append(passage._replace(id=own, parent=parent))
        parent = own
    return found


def system_id(conversation: str, turn: Turn) -> str:
    """The same prompt has one id in one conversation; in all of a library it would have thousands of places."""
    return SYSTEM + _digest(conversation, turn.key)


def _digest(*parts: Json) -> str:
    told = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


# -- contents ------------------------------------------------------------------


class _Said(NamedTuple):
    text: str
    files: tuple[Json, ...] = ()
    refusal: str = ""


class _Call(NamedTuple):
    id: str
    name: str
    arguments: str

    @property
    def canonical(self) -> str:
        """Arguments with which a client that parses JSON and writes it anew still agrees."""
        try:
            return json.dumps(json.loads(self.arguments), sort_keys=True)
        except (ValueError, RecursionError):
            return self.arguments.strip()


def _content(content: Json) -> _Said:
    if not isinstance(content, list):
        return _Said(as_lines(content) if content is not None else "")
    texts, refusals, files = [], [], []
    for part in content:
        block = as_mapping(part)
        if file := _file(block):
            files.append(file)
        elif block.get("type") == "refusal":
            refusals.append(as_text(block.get("refusal")))
        else:
            texts.append(
                part
                if isinstance(part, str)
                else as_text(block.get("text")) or as_text(block.get("content"))
            )
    return _Said(
        "\n".join(t for t in texts if t), tuple(files), "\n".join(t for t in refusals if t)
    )


def _file(block: Mapping[str, Json]) -> dict[str, Json] | None:
    """An image, sound or file in a message: its kind, name, size and fingerprint, never its bytes."""
    type_ = as_text(block.get("type"))
    kind = next((k for k in _FILES if k in type_), None)
    if kind is None:
        return None
    inner = next(
        (block[k] for k in (type_, "image_url", "input_audio", "file") if block.get(k)), block
    )
    told = as_mapping(inner)
    if isinstance(inner, str):
        found = _at(kind, inner)
    elif kind == "audio" and "data" in told:
        found = embedded_file(kind, f"audio/{as_text(told.get('format'))}", told["data"])
    elif as_text(told.get("file_data")).startswith("data:") or "url" in told:
        found = _at(kind, as_text(told.get("url")) or as_text(told.get("file_data")))
    elif "file_data" in told:
        found = embedded_file(kind, "", told["file_data"])
    else:
        found = {"type": kind}
    names = {"name": told.get("filename"), "file_id": told.get("file_id")}
    return found | {k: v[:500] for k, v in names.items() if isinstance(v, str)}


def _at(kind: str, url: str) -> dict[str, Json]:
    found = linked_file(kind, url)
    if len(as_text(found.get("url"))) > _LONGEST_ADDRESS:
        return {
            "type": kind,
            "url": truncate(url, 200),
            "sha256": hashlib.sha256(url.encode()).hexdigest(),
        }
    return found


def _calls(message: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    older = message.get("function_call")
    return [*found, {"function": older}] if isinstance(older, dict) else found


def _call(call: Mapping[str, Json]) -> _Call:
    inner = as_mapping(call.get("function")) or as_mapping(call.get("custom"))
    arguments = inner.get("arguments", inner.get("input", ""))
    return _Call(
        as_text(call.get("id")),
        as_text(inner.get("name")),
        arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def _reasoning(message: Mapping[str, Json]) -> str:
    return as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))


def _author(message: Mapping[str, Json]) -> str | None:
    return as_text(message.get("name"))[:500] or None
