"""Read the answer of a model, plain JSON or a stream of events, while it passes to the client.

Whatever the bytes are, nothing here raises, and memory is bounded. An answer that cannot be read is
not recorded; the client still receives its bytes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
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
_MESSAGE = re.compile(r'"message"\s*+:\s*+\{')
_CONTENT = re.compile(r'"content"\s*+:\s*+"((?:[^"\\]++|\\.)*+)', re.DOTALL)
_BROKEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


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
        self._body = _EventStream(limit) if self.is_stream else _PlainBody(limit)
        self._decompressor = _Decompressor(content_encoding.strip().lower(), limit)

    @property
    def is_readable(self) -> bool:
        return self._decompressor.is_readable and not self._body.is_full

    @property
    def text_pieces(self) -> Sequence[str]:
        """The pieces of the text of a stream's first choice that have arrived so far."""
        return self._body.text_pieces

    @property
    def has_ended(self) -> bool:
        """Whether the stream announced its end. Plain JSON has no such mark."""
        return self._body.has_ended

    def feed(self, data: bytes) -> None:
        for piece in self._decompressor.pieces(data):
            self._body.feed(piece)

    def answer(self, *, complete: bool) -> Answer | None:
        """The answer, if there is any. `complete`: the body was received to its end."""
        return self._body.answer(complete)


def decompress(data: bytes, encoding: str, limit: int = MAX_BYTES) -> bytes | None:
    """Decompress a body; None if that is not possible."""
    decompressor = _Decompressor(encoding.strip().lower(), limit)
    content = b"".join(decompressor.pieces(data))
    return content if decompressor.is_readable else None


class _Decompressor:
    def __init__(self, encoding: str, limit: int) -> None:
        self.is_readable = encoding in ("", *READABLE_ENCODINGS)
        self._is_compressed = encoding not in ("", "identity")
        self._room = limit
        self._window = zlib.MAX_WBITS | 16 if "gzip" in encoding else 0
        self._head = b""
        self._engine = zlib.decompressobj(self._window or zlib.MAX_WBITS)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if not self._is_compressed:
            yield data
            return
        data = self._with_header(data)
        try:
            while data and self.is_readable:
                piece = self._engine.decompress(data, min(self._room, 1_000_000))
                self._room -= len(piece)
                self.is_readable = self._room > 0
                yield piece
                data = self._engine.unconsumed_tail
                if self._engine.eof:  # another member may follow
                    data = self._engine.unused_data
                    self._engine = zlib.decompressobj(self._window)
        except zlib.error:
            self.is_readable = False

    def _with_header(self, data: bytes) -> bytes:
        """The data once it is known whether it has a zlib header, which "deflate" leaves open."""
        if self._window:
            return data
        data = self._head + data
        if len(data) < 2:
            self._head = data
            return b""
        has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
        self._window = zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
        self._engine = zlib.decompressobj(self._window)
        return data


class _PlainBody:
    """One JSON object."""

    has_ended = False
    text_pieces: Sequence[str] = ()

    def __init__(self, limit: int) -> None:
        self._data = bytearray()
        self._limit = limit
        self.is_full = False

    def feed(self, data: bytes) -> None:
        if len(self._data) + len(data) > self._limit:
            self.is_full = True
        if not self.is_full:
            self._data += data

    def answer(self, complete: bool) -> Answer | None:
        value = parse_object(self._data)
        if value is None:
            return None if complete else self._partial_answer()
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

    def _partial_answer(self) -> Answer | None:
        """The text of an answer that was interrupted."""
        data = self._data.decode("utf-8", "ignore")
        start = _MESSAGE.search(data)
        match = start and _CONTENT.search(data, start.end())
        if match is None:
            return None
        try:
            text = json.loads(f'"{_BROKEN_ESCAPE.sub("", match[1])}"', strict=False)
        except ValueError:
            return None
        return Answer((Choice(0, {"content": text}),), is_complete=False) if text else None


class _EventStream:
    """Server-sent events, each with a piece of the answer."""

    def __init__(self, limit: int) -> None:
        self._line = bytearray()
        self._scan_start = 0
        self._event: list[bytes] = []
        self._room = limit
        self._fields: dict[str, Json] = {}
        self._choices: dict[int, _ChoicePieces] = {}
        self._items = _ItemPieces()
        self._has_error = False
        self.has_ended = False
        self.is_full = False

    def feed(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room < 0:
            self.is_full = True
        if self.is_full or self.has_ended:
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

    @property
    def text_pieces(self) -> Sequence[str]:
        return self._choices[0].texts.get("content", ()) if 0 in self._choices else ()

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
        self._has_error |= bool(chunk.get("error")) or chunk.get("type") == "error"
        if as_text(chunk.get("type")).startswith("response."):
            self._items.add(chunk)
            self.has_ended |= chunk["type"] in _LAST_EVENTS
            self._fields = as_mapping(chunk.get("response")) or self._fields
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

    def answer(self, complete: bool) -> Answer | None:
        if complete:  # the last event may lack its empty line
            self._add_line(bytes(self._line).rstrip(b"\r"))
            self._add_line(b"")
            self._line.clear()
            self._scan_start = 0
        items = self._items.items()
        if items:
            fields = {"status": "in_progress", **self._fields}
            if self._has_error or self.is_full:
                fields["status"] = "failed"
            return response_answer(items, fields)
        choices = [
            Choice(index, pieces.message(), pieces.finish_reason)
            for index, pieces in sorted(self._choices.items())
        ]
        has_finished = bool(choices) and all(choice.finish_reason for choice in choices)
        is_complete = (self.has_ended or has_finished) and not self._has_error and not self.is_full
        return make_answer(choices, self._fields, is_complete=is_complete)


@dataclass(slots=True)
class _ItemPieces:
    """The output of a stream of the Responses API, as far as it has arrived."""

    done: dict[int, Json] = field(default_factory=dict)
    texts: dict[int, list[str]] = field(default_factory=dict)
    """The pieces of the text of each item."""

    def add(self, event: Mapping[str, Json]) -> None:
        number = _number(event.get("output_index"), 0)
        if event["type"] == "response.output_item.done":
            self.done[number] = event.get("item")
        elif event["type"] in ("response.output_text.delta", "response.refusal.delta"):
            self.texts.setdefault(number, []).append(as_text(event.get("delta")))
        for place, item in enumerate(as_list(as_mapping(event.get("response")).get("output"))):
            self.done[place] = item

    def items(self) -> list[Json]:
        items = {
            number: {"role": "assistant", "content": "".join(pieces)}
            for number, pieces in self.texts.items()
        }
        return [item for _, item in sorted((items | self.done).items())]


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
