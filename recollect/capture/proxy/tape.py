"""The bytes of a model's answer, put together beside their way to the client: plain JSON or a stream of events.

Whatever the bytes are, nothing here raises and memory is bounded; an answer
that cannot be read is no answer, and the client has its bytes all the same.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.importers.chats.agentlog import as_mapping, as_text
from recollect.model.documents import Json

READABLE = ("gzip", "x-gzip", "deflate", "identity")
"""The encodings of a body that can be read."""
BYTES = 64_000_000
_MOST_CHOICES = 128

_LINE_END = re.compile(rb"\r\n|\n|\r")
_CONTENT = re.compile(r'"message"\s*:\s*\{.*?"content"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_BROKEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers that were asked for: a message as the protocol has it."""

    index: int
    message: Mapping[str, Json]
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    choices: tuple[Choice, ...]
    """By their index; those that hold nothing are left out unless all do."""
    model: str | None = None
    id: str | None = None
    usage: Mapping[str, Json] | None = None
    whole: bool = True
    """Whether the model came to an end with it."""


class Tape:
    """Takes the bytes of an answer as they come."""

    def __init__(self, content_type: str, content_encoding: str = "", limit: int = BYTES) -> None:
        events = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._body: _Events | _Plain = _Events(limit) if events else _Plain(limit)
        self._unpacked = _Unpacked(content_encoding.strip().lower(), limit)

    @property
    def streamed(self) -> bool:
        return isinstance(self._body, _Events)

    @property
    def readable(self) -> bool:
        return self._unpacked.readable and not self._body.full

    @property
    def ended(self) -> bool:
        """Whether the stream said that nothing follows. Plain JSON ends with its last byte and cannot say so."""
        return self._body.ended

    def feed(self, data: bytes) -> None:
        for piece in self._unpacked.pieces(data):
            self._body.feed(piece)

    def answer(self, *, complete: bool) -> Answer | None:
        """What was said; None when that was nothing. `complete`: the body came to its proper end."""
        return self._body.answer(complete)


def unpacked(data: bytes, encoding: str, limit: int = BYTES) -> bytes | None:
    """A body without its compression; None where it cannot be read."""
    reader = _Unpacked(encoding.strip().lower(), limit)
    found = b"".join(reader.pieces(data))
    return found if reader.readable else None


class _Unpacked:
    """A body without its compression."""

    def __init__(self, encoding: str, limit: int) -> None:
        self.readable = encoding in ("", *READABLE)
        self._packed = encoding not in ("", "identity")
        self._left = limit
        self._window = zlib.MAX_WBITS | 16 if "gzip" in encoding else 0
        self._head = b""
        self._engine = zlib.decompressobj(self._window or zlib.MAX_WBITS)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if not self._packed:
            yield data
            return
        data = self._begun(data)
        try:
            while data and self.readable:
                piece = self._engine.decompress(data, min(self._left, 1_000_000))
                self._left -= len(piece)
                self.readable = self._left > 0
                yield piece
                data = self._engine.unconsumed_tail
                if self._engine.eof:  # another member may follow
                    data = self._engine.unused_data
                    self._engine = zlib.decompressobj(self._window)
        except zlib.error:
            self.readable = False

    def _begun(self, data: bytes) -> bytes:
        """What can be unpacked now. "deflate" is said of bodies with zlib's header of two bytes, and without it."""
        if self._window:
            return data
        data = self._head + data
        if len(data) < 2:
            self._head = data
            return b""
        with_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
        self._window = zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS
        self._engine = zlib.decompressobj(self._window)
        return data


class _Plain:
    """One JSON object."""

    ended = False

    def __init__(self, limit: int) -> None:
        self._data = bytearray()
        self._limit = limit
        self.full = False

    def feed(self, data: bytes) -> None:
        if len(self._data) + len(data) > self._limit:
            self.full = True
        if not self.full:
            self._data += data

    def answer(self, complete: bool) -> Answer | None:
        value = _parsed(self._data)
        if value is None:
            return None if complete else self._rescued()
        found = [as_mapping(choice) for choice in _listed(value.get("choices"))][:_MOST_CHOICES]
        choices = [
            Choice(
                _number(choice.get("index"), place),
                as_mapping(choice["message"]),
                choice.get("finish_reason"),
            )
            for place, choice in enumerate(found)
            if isinstance(choice.get("message"), dict)
        ]
        return _answer(choices, value, whole=True)

    def _rescued(self) -> Answer | None:
        """The text of an answer that broke off."""
        found = _CONTENT.search(self._data.decode("utf-8", "ignore"))
        if found is None:
            return None
        try:
            text = json.loads(f'"{_BROKEN_ESCAPE.sub("", found[1])}"', strict=False)
        except ValueError:
            return None
        return Answer((Choice(0, {"content": text}),), whole=False) if text else None


class _Events:
    """Server-sent events, each a piece of the answer."""

    def __init__(self, limit: int) -> None:
        self._line = bytearray()
        self._searched = 0
        self._event: list[bytes] = []
        self._left = limit
        self._said: dict[str, Json] = {}
        self._choices: dict[int, _Pieces] = {}
        self._failed = False
        self.ended = False
        self.full = False

    def feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.full = True
        if self.full or self.ended:
            return
        self._line += data
        at = 0
        for end in _LINE_END.finditer(self._line, self._searched):
            if end[0] == b"\r" and end.end() == len(self._line):
                break  # a line feed may follow
            self._take(bytes(self._line[at : end.start()]))
            at = end.end()
        del self._line[:at]
        self._searched = max(0, len(self._line) - 1)

    def _take(self, line: bytes) -> None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._event.append(value.removeprefix(b" "))
            return
        event = b"\n".join(self._event)
        self._event.clear()
        if event.strip() == b"[DONE]":
            self.ended = True
        elif event and (chunk := _parsed(event)) is not None:
            self._add(chunk)

    def _add(self, chunk: Mapping[str, Json]) -> None:
        self._failed |= bool(chunk.get("error"))
        for name in ("id", "model", "usage"):
            if chunk.get(name):
                self._said[name] = chunk[name]
        for place, choice in enumerate(map(as_mapping, _listed(chunk.get("choices")))):
            index = _number(choice.get("index"), place)
            if index not in self._choices and len(self._choices) >= _MOST_CHOICES:
                continue
            pieces = self._choices.setdefault(index, _Pieces())
            pieces.add(as_mapping(choice.get("delta")) or as_mapping(choice.get("message")))
            if choice.get("finish_reason"):
                pieces.finish_reason = choice["finish_reason"]

    def answer(self, complete: bool) -> Answer | None:
        if complete:  # the last event may lack its empty line
            self._take(bytes(self._line).rstrip(b"\r"))
            self._take(b"")
            self._line.clear()
            self._searched = 0
        choices = [
            Choice(i, p.message(), p.finish_reason) for i, p in sorted(self._choices.items())
        ]
        finished = bool(choices) and all(c.finish_reason for c in choices)
        whole = (self.ended or finished) and not self._failed and not self.full
        return _answer(choices, self._said, whole=whole)


@dataclass(slots=True)
class _Pieces:
    """One choice of a stream, growing."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: list[_CallPieces] = field(default_factory=list)
    older: _CallPieces | None = None
    annotations: list[Json] = field(default_factory=list)
    audio: dict[str, list[str]] = field(default_factory=dict)
    finish_reason: str | None = None

    def add(self, delta: Mapping[str, Json]) -> None:
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if text := _text(delta.get(name)):
                self.texts.setdefault(name, []).append(text)
        for place, call in enumerate(map(as_mapping, _listed(delta.get("tool_calls")))):
            self._call(call, place).add(call)
        if older := as_mapping(delta.get("function_call")):
            self.older = self.older or _CallPieces(0)
            self.older.add({"function": older})
        self.annotations += _listed(delta.get("annotations"))
        for name, value in as_mapping(delta.get("audio")).items():
            if isinstance(value, str):
                self.audio.setdefault(name, []).append(value)

    def _call(self, call: Mapping[str, Json], place: int) -> _CallPieces:
        """The call that a piece belongs to. Some servers number them all 0, or not at all: a new id is a new call."""
        index = _number(call.get("index"), place)
        id_ = as_text(call.get("id"))
        for known in reversed(self.calls):
            if known.index == index:
                if id_ and known.id and id_ != known.id:
                    break
                return known
        self.calls.append(_CallPieces(index))
        return self.calls[-1]

    def message(self) -> dict[str, Json]:
        found: dict[str, Json] = {name: "".join(pieces) for name, pieces in self.texts.items()}
        if self.calls:
            found["tool_calls"] = [call.call() for call in self.calls]
        if self.older is not None:
            found["function_call"] = self.older.call()["function"]
        if self.annotations:
            found["annotations"] = self.annotations
        if self.audio:
            once = ("id", "expires_at")
            found["audio"] = {k: v[0] if k in once else "".join(v) for k, v in self.audio.items()}
        return found


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
        told = "input" if self.kind == "custom" else "arguments"
        return {
            "id": self.id,
            "type": self.kind,
            self.kind: {"name": self.name, told: "".join(self.arguments)},
        }


def _answer(choices: list[Choice], said: Mapping[str, Json], *, whole: bool) -> Answer | None:
    spoken = [c for c in choices if any(c.message.get(k) for k in c.message if k != "role")]
    kept = spoken or (choices if whole else [])
    if not kept:
        return None
    model, usage = as_text(said.get("model")) or None, said.get("usage")
    return Answer(
        tuple(sorted(kept, key=lambda c: c.index)),
        model,
        as_text(said.get("id")) or None,
        usage if isinstance(usage, dict) else None,
        whole,
    )


def _parsed(data: bytes | bytearray) -> dict[str, Json] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _listed(value: Json) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Json, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "".join(as_text(as_mapping(part).get("text")) for part in value)
    return as_text(value)
