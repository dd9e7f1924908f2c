"""What the parent and the parsing process send each other.

Requests to the process are lines of JSON. Its replies are frames: one byte that says what follows,
four bytes with the length, and JSON. Pickle would let a file that takes over the process run code
in the parent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import orjson

from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, Document, Json, Passage
from recollect.model.kinds import KINDS
from recollect.model.receipts import Problem

HEADER = struct.Struct("<cI")

READY = b"R"  # the bounds that are active
LOOK = b"L"  # the file that is examined next: name, place, size
FILE = b"F"  # a file that can be imported: name, place, size, source
BEGIN = b"B"  # the number of the file that is read next
PROGRESS = b"P"  # the number of bytes read
DOCUMENT = b"D"  # a document
EXACT_DOCUMENT = b"E"  # a document that only Python's own JSON module can represent
PROBLEM = b"!"
DATA = b"+"  # bytes: what the console's process has rendered
FAILURE = b"X"  # the request failed: type and message of the error
WORN = b"W"  # the process uses too much memory to read another file
END = b"."  # of the reply, or of a file

_EMPTY: Mapping[str, Json] = MappingProxyType({})
_DOCUMENT_FIELDS = 13
_PASSAGE_FIELDS = 14


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


# -- documents ---------------------------------------------------------------


def document_frame(document: Document) -> bytes:
    fields = (
        document.source,
        document.source_id,
        document.title,
        document.kind,
        document.project,
        document.created_at,
        document.updated_at,
        document.head,
        document.metadata,
        document.id,
        document.partial,
        document.shared_ids,
        [passage[:_PASSAGE_FIELDS] for passage in document.passages],
    )
    try:
        return frame(DOCUMENT, orjson.dumps(fields, simplify_mapping))
    except orjson.JSONEncodeError:  # lone surrogates, huge numbers, keys that are not strings
        return frame(EXACT_DOCUMENT, json.dumps(simplify(fields)).encode("ascii"))


def simplify_mapping(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    return str(value)


def simplify(value: Json) -> Json:
    """The value with string keys and JSON types only, as the store would write it."""
    if isinstance(value, Mapping):
        return {str(key): simplify(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [simplify(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return orjson.loads(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return str(value)


def decode_document(kind: bytes, payload: bytes) -> Document:
    """Raises MalformedReply if the payload is not a document."""
    try:
        fields = orjson.loads(payload) if kind == DOCUMENT else json.loads(payload)
        require(type(fields) is list and len(fields) == _DOCUMENT_FIELDS)
        return _document(fields)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedReply(f"malformed document ({error})") from error


def _document(fields: list[Any]) -> Document:
    source, source_id, title, kind, project, created, updated, head, metadata, id_ = fields[:10]
    partial, shared_ids, passages = fields[10:]
    for text in (source, source_id, title, project, id_):
        require(type(text) is str)
    require(kind in KINDS)
    require(head is None or type(head) is str)
    require(type(metadata) is dict and type(passages) is list)
    require(type(partial) is bool and type(shared_ids) is bool)
    return Document(
        source=source,
        source_id=source_id,
        title=title,
        kind=kind,
        project=project,
        created_at=created and datetime.fromisoformat(created),
        updated_at=updated and datetime.fromisoformat(updated),
        head=head,
        passages=tuple(map(_passage, passages)),
        metadata=metadata,
        id=id_,
        partial=partial,
        shared_ids=shared_ids,
    )


_TEXT_OR_NONE = (str, type(None))
_PASSAGE_TYPES = (
    (str,),  # id
    _TEXT_OR_NONE,  # role
    (str,),  # content
    (str,),  # type
    _TEXT_OR_NONE,  # author
    _TEXT_OR_NONE,  # model
    _TEXT_OR_NONE,  # tool
    _TEXT_OR_NONE,  # parent
    _TEXT_OR_NONE,  # created_at
    _TEXT_OR_NONE,  # updated_at
    (str,),  # visibility
    (list,),  # attachments
    (list,),  # citations
    (dict,),  # metadata
)
_valid_signatures: set[tuple[type, ...]] = set()
"""The types of passages that were checked before: most passages have one of a few signatures."""


def _passage(fields: list[Any]) -> Passage:
    signature = tuple(map(type, fields))
    if signature not in _valid_signatures:
        require(len(fields) == _PASSAGE_FIELDS)
        for actual, allowed in zip(signature, _PASSAGE_TYPES, strict=True):
            require(actual in allowed)
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
