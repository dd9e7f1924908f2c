"""What the parent and the parsing process send each other.

Requests to the process are lines of JSON. Its replies are frames: one byte that says what follows,
four bytes with the length, and JSON. Pickle would let a file that takes over the process run code
in the parent.

The first request has the bounds: how much time, memory and output a file may cost.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType, NoneType
from typing import Any

import orjson

from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, Document, Json, Passage
from recollect.model.kinds import KINDS
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

HEADER = struct.Struct("<cI")

READY = b"R"  # the bounds that are active
LOOK = b"L"  # the file that is examined next: name, place, size
FILE = b"F"  # a file that can be imported: name, place, size, source
BEGIN = b"B"  # the number of the file that is read next
PROGRESS = b"P"  # the number of bytes read
DOCUMENT = b"D"  # a document
EXACT_DOCUMENT = b"E"  # a document that only Python's own JSON module can represent: surrogates
PROBLEM = b"!"
DATA = b"+"  # bytes: what the console's process has rendered
FAILURE = b"X"  # the request failed: type and message of the error
END = b"."  # of the reply, or of a file

_TEXT, _TEXT_OR_NONE = (str,), (str, NoneType)
_DOCUMENT_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("source", "source_id", "title", "kind", "project", "id"), _TEXT),
    **dict.fromkeys(("head", "created_at", "updated_at"), _TEXT_OR_NONE),
    **dict.fromkeys(("partial", "shared_ids"), (bool,)),
    "metadata": (dict,),
    "passages": (list,),
}
_PASSAGE_TYPES: Mapping[str, tuple[type, ...]] = {
    **{"id": _TEXT, "role": _TEXT_OR_NONE, "content": _TEXT, "type": _TEXT},
    **dict.fromkeys(("author", "model", "tool", "parent"), _TEXT_OR_NONE),
    **{"created_at": _TEXT_OR_NONE, "updated_at": _TEXT_OR_NONE, "visibility": _TEXT},
    **{"attachments": (list,), "citations": (list,), "metadata": (dict,)},
}
"""The fields of a passage in their order; its position and path are computed by the parent."""
_EMPTY: Mapping[str, Json] = MappingProxyType({})
_valid_signatures: set[tuple[type, ...]] = set()
"""The types of passages that were checked before: most passages have one of a few signatures."""


class MalformedReply(ValueError):
    """The process sent something that is not part of the protocol."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def json_frame(kind: bytes, value: Json) -> bytes:
    # Python's own module, because names of files may contain lone surrogates.
    return frame(kind, json.dumps(value).encode("ascii"))


def problem_frame(problem: Problem) -> bytes:
    fields = (problem.reason, problem.where, problem.failed, problem.unit, problem.count)
    return json_frame(PROBLEM, fields)


def decode_problem(payload: bytes) -> Problem:
    reason, where, failed, unit, count = json.loads(payload)
    require(isinstance(reason, str) and isinstance(where, str) and isinstance(failed, bool))
    require(unit in ("messages", "conversations", "files"))
    require(type(count) is int and 0 < count < 2**31)
    return Problem(reason, where, failed, unit, count)


_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one import. Sizes are in bytes, times in seconds."""

    cpu_seconds: float = LIMITS.parse_seconds
    cpu_seconds_per_megabyte: float = LIMITS.parse_seconds_per_megabyte
    memory: int = LIMITS.parse_memory_bytes
    memory_factor: int = LIMITS.parse_memory_factor
    largest_memory: int = LIMITS.document_memory_bytes
    output: int = LIMITS.parse_output_bytes
    output_factor: int = LIMITS.parse_output_factor
    idle_seconds: float = LIMITS.parse_idle_seconds
    """How long the process may neither compute nor report anything."""
    failure_seconds: float = LIMITS.parse_failure_seconds
    """What files that fail may cost together. Then the rest of the import is skipped."""

    def cpu_seconds_for(self, size: int) -> float:
        return self.cpu_seconds + self.cpu_seconds_per_megabyte * size / _MEGABYTE

    def memory_for(self, size: int) -> int:
        return min(self.memory + self.memory_factor * size, self.largest_memory)

    def output_for(self, size: int) -> int:
        return self.output + self.output_factor * size

    def waiting_seconds_for(self, size: int) -> float:
        """Wall-clock time without a report. Generous, since the computer may be busy."""
        return self.idle_seconds + 20 * self.cpu_seconds_for(size)


# -- documents ---------------------------------------------------------------


def document_frame(document: Document) -> bytes:
    fields = {name: getattr(document, name) for name in _DOCUMENT_TYPES}
    fields["passages"] = [passage[: len(_PASSAGE_TYPES)] for passage in document.passages]
    try:
        return frame(DOCUMENT, orjson.dumps(fields, plain))
    except orjson.JSONEncodeError:  # lone surrogates, huge numbers, keys that are not strings
        return frame(EXACT_DOCUMENT, json.dumps(fields, default=plain).encode("ascii"))


def plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def decode_document(kind: bytes, payload: bytes) -> Document:
    """Raises MalformedReply if the payload is not a document."""
    try:
        fields = orjson.loads(payload) if kind == DOCUMENT else json.loads(payload)
        require(type(fields) is dict and fields.keys() == _DOCUMENT_TYPES.keys())
        require(all(type(fields[name]) in types for name, types in _DOCUMENT_TYPES.items()))
        require(fields["kind"] in KINDS)
        for name in ("created_at", "updated_at"):
            fields[name] = fields[name] and datetime.fromisoformat(fields[name])
        fields["passages"] = tuple(map(_passage, fields["passages"]))
        return Document(**fields)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedReply(f"malformed document ({error})") from error


def _passage(fields: list[Any]) -> Passage:
    signature = tuple(map(type, fields))
    if signature not in _valid_signatures:
        pairs = zip(signature, _PASSAGE_TYPES.values(), strict=True)
        require(all(actual in allowed for actual, allowed in pairs))
        _valid_signatures.add(signature)
    require(fields[3] in PASSAGE_TYPES and fields[10] in VISIBILITIES)
    if fields[8] is not None:
        fields[8] = datetime.fromisoformat(fields[8])
    if fields[9] is not None:
        fields[9] = datetime.fromisoformat(fields[9])
    fields[11] = tuple(fields[11])
    fields[12] = tuple(fields[12])
    if not fields[13]:
        fields[13] = _EMPTY
    return Passage(*fields)


def require(condition: bool) -> None:
    if not condition:
        raise MalformedReply("unexpected type or value")
