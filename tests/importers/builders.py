"""Builders of small exports for the tests."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.importers.chat_logs import ChatLog
from recollect.importers.chats import chatgpt, claude, claude_code, codex, gemini_cli, letta, own
from recollect.importers.chats.chatgpt import decode_parts
from recollect.importers.chats.programs import DATABASES, LOGS
from recollect.importers.documents.extract import parse_date
from recollect.importers.entries import Entry, entries
from recollect.importers.items import cues_of, fields_of, seconds_at, text_of
from recollect.importers.knowledge import (
    characters,
    frontmatter,
    media,
    notes,
    prompts,
    subtitles,
)
from recollect.importers.knowledge.characters import PNG
from recollect.importers.registry import detect
from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import moment
from recollect.language.transcript import write
from recollect.model import sources as Sources
from recollect.model.audience import MASK
from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, arrange
from recollect.model.receipts import Problem
from recollect.settings import LIMITS, Limits

# The tests of formats take these from here.
__all__ = [
    "DATABASES",
    "LIMITS",
    "MASK",
    "PASSAGE_TYPES",
    "PNG",
    "ROLES",
    "VISIBILITIES",
    "ChatLog",
    "Entry",
    "Limits",
    "Problem",
    "Sources",
    "arrange",
    "cues_of",
    "detect",
    "entries",
    "fields_of",
    "frontmatter",
    "moment",
    "parse_date",
    "seconds_at",
    "text_of",
    "write",
]

SAMPLES = Path(__file__).parents[1] / "samples"
EXAMPLES = Path(__file__).parents[2] / "examples"

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
)


def entry(content: bytes | str | Any, name: str = "conversations.json") -> Entry:
    """A file with these bytes, this text, or this value as JSON."""
    text = content if isinstance(content, (bytes, str)) else json.dumps(content)
    data = text.encode() if isinstance(text, str) else text
    return Entry(name, len(data), lambda: io.BytesIO(data))


def lines_entry(lines: Sequence[object], name: str) -> Entry:
    """A file with a JSON value on each line. Bytes are written as they are."""
    data = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
    )
    data += b"\n" if data and not isinstance(lines[-1], bytes) else b""
    return Entry(name, len(data), lambda: io.BytesIO(data))


def decode_content(raw: str) -> str:
    """The text in a column of ChatGPT Browser."""
    return decode_parts(raw)[0]


def documents(items: Iterable[Document | Problem]) -> list[Document]:
    return [item for item in items if isinstance(item, Document)]


def problems(items: Iterable[Any]) -> list[Problem]:
    return [item for item in items if isinstance(item, Problem)]


def only(items: Iterable[Document | Problem]) -> Document:
    (document,) = documents(items)
    return document


def passage(document: Document, own_id: str) -> Passage:
    return next(p for p in document.passages if p.id == own_id)


def mutate(value: Any, path: list[int], replacement: Any) -> Any:
    """The value with the item at `path` replaced; indexes wrap around at each level."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return replacement
    here, *deeper = path
    if isinstance(value, list):
        at = here % len(value)
        return [*value[:at], mutate(value[at], deeper, replacement), *value[at + 1 :]]
    key = list(value)[here % len(value)]
    return {**value, key: mutate(value[key], deeper, replacement)}


# -- ChatGPT ---------------------------------------------------------------


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([None, 1, "x", {"type": "text", "text": 3}]),
    st.just({"type": "text", "id": 1}),
)


def with_junk(data: st.DataObject, lines: list[Any]) -> list[Any]:
    """The lines with junk in one to three places."""
    lines = copy.deepcopy(lines)
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(_places(lines)[1:]))
        target: Any = lines
        for key in path:
            target = target[key]
        target[last] = copy.deepcopy(data.draw(JUNK))  # further junk may go into it
    return lines


def _places(value: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The paths of all values inside a JSON value."""
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = [*value.items()]
    elif isinstance(value, list):
        items = [*enumerate(value)]
    return [at, *(place for key, inner in items for place in _places(inner, (*at, key)))]


def assert_sound(items: Iterable[Document | Problem]) -> None:
    """Every message has an id of its own and valid fields, and arranging loses none."""
    for document in documents(items):
        ids = [p.id for p in document.passages]
        assert len(ids) == len(set(ids))
        arranged = arrange(document).passages
        assert sorted(p.id for p in arranged) == sorted(ids)
        assert all(
            p.role in ROLES and p.type in PASSAGE_TYPES and p.visibility in VISIBILITIES
            for p in arranged
        )
        assert all(isinstance(p.content, str) for p in arranged)


def message_node(
    text: str, role: str = "user", at: float | None = None, **more: Any
) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": content,
        **more,
    }


def chat(nodes: dict[str, tuple[str | None, dict[str, Any] | None]], **more: Any) -> dict[str, Any]:
    """A conversation from {node id: (parent id, message)}; the last node is the current one."""
    mapping = {
        id_: {
            "id": id_,
            "message": message and {"id": id_, **message},
            "parent": parent,
            "children": [],
        }
        for id_, (parent, message) in nodes.items()
    }
    for id_, (parent, _) in nodes.items():
        if parent in mapping:
            mapping[parent]["children"].append(id_)
    about = {
        "title": "A chat",
        "create_time": 1700000000.0,
        "update_time": 1700000100.5,
        "conversation_id": "c-1",
    }
    return {**about, "mapping": mapping, "current_node": list(nodes)[-1], "id": "c-1", **more}


# -- Claude ----------------------------------------------------------------

ROOT = "00000000-0000-4000-8000-000000000000"


def turn(uuid: str, *blocks: Any, sender: str = "human", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return {
        "uuid": uuid,
        "sender": sender,
        "content": content,
        "created_at": "2026-03-01T10:00:00.000000Z",
        **more,
    }


def claude_chat(*messages: Any, **more: Any) -> dict[str, Any]:
    about = {
        "uuid": "k-1",
        "name": "A talk",
        "created_at": "2026-03-01T10:00:00Z",
        "updated_at": "2026-03-01T11:00:00Z",
    }
    return {**about, "chat_messages": list(messages), **more}


# -- formats -----------------------------------------------------------------

FORMATS: dict[str, Any] = {
    "chatgpt": chatgpt,
    "claude": claude,
    "claude_code": claude_code,
    "codex": codex,
    "codex_history": LOGS[0],
    "gemini_cli": gemini_cli,
    "letta": letta,
    "own": own,
    "characters": characters,
    "media": media,
    "notes": notes,
    "prompts": prompts,
    "subtitles": subtitles,
}


def read_as(format: str, file: Entry) -> Iterator[Document | Problem]:
    """What a file of this format contains."""
    items: Iterator[Document | Problem] = FORMATS[format].read(file)
    return items


def claimed_by(format: str, file: Entry) -> bool:
    """Whether a file is taken for one of this format."""
    return bool(FORMATS[format].claims(file))


def accepted_by(format: str, file: Entry) -> bool:
    """Whether a file can be read as this format if the user says so."""
    return bool(FORMATS[format].accepts(file))
