"""Read the answer of a model, plain JSON or a stream of events, while it passes to the client.

Whatever the bytes are, nothing here raises, and memory is bounded. An answer that cannot be read is
not recorded; the client still receives its bytes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recollect.importers.records import as_list
from recollect.model.chat_messages import as_mapping, as_text, chat_messages
from recollect.model.documents import Json

READABLE_ENCODINGS = ("gzip", "x-gzip", "deflate", "identity")
"""The content encodings that can be read."""
MAX_BYTES = 64_000_000
_MAX_CHOICES = 128

_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ANY_HEADER = zlib.MAX_WBITS | 32  # of gzip or zlib


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of an answer, with the message as the protocol has it."""

    index: int
    message: Mapping[str, Json]
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    choices: tuple[Choice, ...]
    """By index, without empty ones unless all are empty."""
    model: str | None = None
    id: str | None = None
    usage: Mapping[str, Json] | None = None
    is_complete: bool = True
    """Whether the model finished it."""


class AnswerReader:
    """Reads the bytes of an answer as they arrive."""

    def __init__(
        self, content_type: str, content_encoding: str = "", limit: int = MAX_BYTES
    ) -> None:
        kind = content_type.partition(";")[0].strip().lower()
        self.is_stream = kind == "text/event-stream"
        self.is_readable = True
        self._events = _EventStream()
        self._plain = bytearray()
        self._room = limit
        encoding = content_encoding.strip().lower()
        if encoding not in ("", *READABLE_ENCODINGS):
            self.is_readable = False
        is_compressed = encoding not in ("", "identity")
        self._engine = zlib.decompressobj(_ANY_HEADER) if is_compressed else None

    @property
    def text_pieces(self) -> Sequence[str]:
        """The pieces of the text of a stream's first choice that have arrived so far."""
        return self._events.text_pieces

    @property
    def has_ended(self) -> bool:
        """Whether the stream announced its end. Plain JSON has no such mark."""
        return self._events.has_ended

    def feed(self, data: bytes) -> None:
        if self._engine is not None and self.is_readable:
            try:
                data = self._engine.decompress(data, self._room + 1)
            except zlib.error:
                self.is_readable = False
        self._room -= len(data)
        self.is_readable = self.is_readable and self._room >= 0
        if self.is_readable and self.is_stream:
            self._events.feed(data)
        elif self.is_readable:
            self._plain += data

    def answer(self, *, complete: bool) -> Answer | None:
        """The answer, if there is any. `complete`: the body was received to its end."""
        if self.is_stream:
            return self._events.answer(complete, self.is_readable)
        value = parse_object(self._plain)
        if value is None:
            return None
        if isinstance(value.get("output"), list):
            return response_answer(value["output"], value)
        items = [as_mapping(choice) for choice in as_list(value.get("choices"))][:_MAX_CHOICES]
        choices = [
            Choice(
                _number(choice.get("index"), place),
                as_mapping(choice["message"]),
                choice.get("finish_reason"),
            )
            for place, choice in enumerate(items)
            if isinstance(choice.get("message"), dict)
        ]
        return make_answer(choices, value, is_complete=True)


def decompress(data: bytes, encoding: str, limit: int = MAX_BYTES) -> bytes | None:
    """Decompress a body; None if that is not possible."""
    if encoding.strip().lower() in ("", "identity"):
        return data
    try:
        return zlib.decompressobj(_ANY_HEADER).decompress(data, limit)
    except zlib.error:
        return None


class _EventStream:
    """Server-sent events, each with a piece of the answer."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._scan_start = 0
        self._event: list[bytes] = []
        self._fields: dict[str, Json] = {}
        self._choices: dict[int, _ChoicePieces] = {}
        self._items: dict[int, Json] = {}
        """The output of the Responses API, by number."""
        self._item_texts: dict[int, list[str]] = {}
        """The pieces of the texts of items that are not done."""
        self._has_error = False
        self.has_ended = False

    @property
    def text_pieces(self) -> Sequence[str]:
        return self._choices[0].texts.get("content", ()) if 0 in self._choices else ()

    def feed(self, data: bytes) -> None:
        if self.has_ended:
            return
        self._line += data
        start = 0
        for end in _LINE_END.finditer(self._line, self._scan_start):
            if end[0] == b"\r" and end.end() == len(self._line):
                break  # a line feed may follow
            self._add_line(bytes(self._line[start : end.start()]))
            start = end.end()
        del self._line[:start]
        self._scan_start = max(0, len(self._line) - 1)

    def _add_line(self, line: bytes) -> None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._event.append(value.removeprefix(b" "))
            return
        event = b"\n".join(self._event)
        self._event.clear()
        if event.strip() == b"[DONE]":
            self.has_ended = True
            return
        chunk = parse_object(event)
        if chunk is not None:
            self._add_chunk(chunk)

    def _add_chunk(self, chunk: Mapping[str, Json]) -> None:
        type_ = as_text(chunk.get("type"))
        self._has_error |= bool(chunk.get("error")) or type_ == "error"
        if type_.startswith("response."):
            number = _number(chunk.get("output_index"), 0)
            response = as_mapping(chunk.get("response"))
            if type_ == "response.output_item.done":
                self._items[number] = chunk.get("item")
            elif type_ in ("response.output_text.delta", "response.refusal.delta"):
                self._item_texts.setdefault(number, []).append(as_text(chunk.get("delta")))
            self._items |= dict(enumerate(as_list(response.get("output"))))
            self.has_ended |= type_ in _LAST_EVENTS
            self._fields = response or self._fields
        for name in ("id", "model", "usage"):
            if chunk.get(name):
                self._fields[name] = chunk[name]
        for place, choice in enumerate(map(as_mapping, as_list(chunk.get("choices")))):
            index = _number(choice.get("index"), place)
            if index not in self._choices and len(self._choices) >= _MAX_CHOICES:
                continue
            pieces = self._choices.setdefault(index, _ChoicePieces())
            pieces.add(as_mapping(choice.get("delta")) or as_mapping(choice.get("message")))
            if choice.get("finish_reason"):
                pieces.finish_reason = choice["finish_reason"]

    def answer(self, complete: bool, is_whole: bool) -> Answer | None:
        """`is_whole`: nothing was left out because the answer is too long."""
        if complete:  # the last event may lack its empty line
            self._add_line(bytes(self._line).rstrip(b"\r"))
            self._add_line(b"")
            self._line.clear()
            self._scan_start = 0
        is_intact = is_whole and not self._has_error
        unfinished = {
            number: {"role": "assistant", "content": "".join(pieces)}
            for number, pieces in self._item_texts.items()
        }
        items = [item for _, item in sorted((unfinished | self._items).items())]
        if items:
            fields = {"status": "in_progress", **self._fields}
            return response_answer(items, fields if is_intact else {**fields, "status": "failed"})
        choices = [
            Choice(index, pieces.message(), pieces.finish_reason)
            for index, pieces in sorted(self._choices.items())
        ]
        has_finished = bool(choices) and all(choice.finish_reason for choice in choices)
        is_complete = is_intact and (self.has_ended or has_finished)
        return make_answer(choices, self._fields, is_complete=is_complete)


def response_answer(items: list[Json], fields: Mapping[str, Json]) -> Answer | None:
    """The answer in the output of the Responses API: one message."""
    messages = [m for m in chat_messages(items) if m["role"] == "assistant"]
    reason = as_mapping(fields.get("incomplete_details")).get("reason") or fields.get("status")
    choices = [Choice(0, message, as_text(reason) or None) for message in messages[:1]]
    is_complete = fields.get("status") in (None, "completed", "incomplete")
    return make_answer(choices, fields, is_complete=is_complete)


@dataclass(slots=True)
class _ChoicePieces:
    """One choice of a stream, as far as it has arrived."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: list[_CallPieces] = field(default_factory=list)
    function_call: _CallPieces | None = None
    """The older form of a call."""
    annotations: list[Json] = field(default_factory=list)
    audio: dict[str, list[str]] = field(default_factory=dict)
    finish_reason: str | None = None

    def add(self, delta: Mapping[str, Json]) -> None:
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            text = _text(delta.get(name))
            if text:
                self.texts.setdefault(name, []).append(text)
        for place, call in enumerate(map(as_mapping, as_list(delta.get("tool_calls")))):
            self._find_call(call, place).add(call)
        function_call = as_mapping(delta.get("function_call"))
        if function_call:
            self.function_call = self.function_call or _CallPieces(0)
            self.function_call.add({"function": function_call})
        self.annotations += as_list(delta.get("annotations"))
        for name, value in as_mapping(delta.get("audio")).items():
            if isinstance(value, str):
                self.audio.setdefault(name, []).append(value)

    def _find_call(self, call: Mapping[str, Json], place: int) -> _CallPieces:
        """The call that a piece belongs to.

        Some servers number all calls 0, or do not number them: a new id means a new call.
        """
        index = _number(call.get("index"), place)
        id_ = as_text(call.get("id"))
        for previous in reversed(self.calls):
            if previous.index == index:
                if id_ and previous.id and id_ != previous.id:
                    break
                return previous
        self.calls.append(_CallPieces(index))
        return self.calls[-1]

    def message(self) -> dict[str, Json]:
        message: dict[str, Json] = {name: "".join(pieces) for name, pieces in self.texts.items()}
        if self.calls:
            message["tool_calls"] = [call.call() for call in self.calls]
        if self.function_call is not None:
            message["function_call"] = self.function_call.call()["function"]
        if self.annotations:
            message["annotations"] = self.annotations
        if self.audio:
            audio = {name: "".join(pieces) for name, pieces in self.audio.items()}
            for name in ("id", "expires_at"):  # repeated in each piece
                if name in self.audio:
                    audio[name] = self.audio[name][0]
            message["audio"] = audio
        return message


@dataclass(slots=True)
class _CallPieces:
    index: int
    id: str = ""
    name: str = ""
    kind: str = "function"
    arguments: list[str] = field(default_factory=list)

    def add(self, call: Mapping[str, Json]) -> None:
        self.id = self.id or as_text(call.get("id"))
        custom = as_mapping(call.get("custom"))
        if custom:
            self.kind = "custom"
        inner = custom or as_mapping(call.get("function"))
        name = as_text(inner.get("name"))
        if name != self.name:
            self.name += name
        arguments = inner.get("arguments", inner.get("input"))
        if isinstance(arguments, dict):  # Ollama's own shape
            arguments = json.dumps(arguments)
        self.arguments.append(as_text(arguments))

    def call(self) -> dict[str, Json]:
        key = "input" if self.kind == "custom" else "arguments"
        inner = {"name": self.name, key: "".join(self.arguments)}
        return {"id": self.id, "type": self.kind, self.kind: inner}


def make_answer(
    choices: list[Choice], fields: Mapping[str, Json], *, is_complete: bool
) -> Answer | None:
    nonempty = [c for c in choices if any(c.message[name] for name in c.message if name != "role")]
    if nonempty or not is_complete:
        choices = nonempty
    if not choices:
        return None
    return Answer(
        tuple(sorted(choices, key=lambda choice: choice.index)),
        as_text(fields.get("model")) or None,
        as_text(fields.get("id")) or None,
        as_mapping(fields.get("usage")) or None,
        is_complete,
    )


def parse_object(data: bytes | bytearray) -> dict[str, Json] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _number(value: Json, default: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return default


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "".join(as_text(as_mapping(part).get("text")) for part in value)
    return as_text(value)
