"""Convert documents and passages to rows and back, the same for both databases.

Rows contain only text that UTF-8 and both databases can store. Text that had to be cleaned (lone
surrogates, NUL) is also stored exactly in `original`, a JSON object of column names and texts, so
reading returns what was saved. The digest covers everything that the source said about a passage:
two rows with the same digest are the same message.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from recollect.errors import InvalidInput
from recollect.language.text import fold, from_micros, identifier, micros, storable
from recollect.model.audience import has_human_only_values
from recollect.model.documents import Document, Json, Passage
from recollect.model.kinds import MEDIA, NOTE
from recollect.settings import LIMITS
from recollect.store.sql.database import Database
from recollect.store.values import Candidate

PASSAGE_TEXTS = ("id", "role", "type", "author", "model", "tool", "parent", "visibility", "content")
PASSAGE_COLUMNS = (
    "digest",
    "position",
    "canonical",
    "created_at",
    "updated_at",
    "attachments",
    "citations",
    "metadata",
    "original",
    *PASSAGE_TEXTS,
)
DOCUMENT_TEXTS = ("id", "source", "source_id", "kind", "title", "project", "head")
DOCUMENT_COLUMNS = (
    *DOCUMENT_TEXTS,
    "created_at",
    "updated_at",
    "metadata",
    "original",
    "partial",
    "shared_ids",
    "version",
)

# What is indexed as the title of a document, and of a passage: only the opening passage has one.
HEADING = "coalesce(d.heading, d.title)"
INDEXED_TITLE = f"case when d.opening = p.key then {HEADING} else '' end"

# Columns with identifiers. They can have any length, but indexes accept only short texts.
_IDENTIFIERS = ("id", "parent", "source", "source_id", "head")
# Identifiers of at most this many characters are stored unchanged.
_SHORT_IDENTIFIER = 250

# What the digest covers: five values and the texts, separated. Formatting is faster than joining.
_DIGEST_VALUES = ("created_at", "updated_at", "attachments", "citations", "metadata")
_DIGEST_FORMAT = "\x1f".join(["%s"] * (5 + len(PASSAGE_TEXTS)))


# -- JSON ---

_EMPTY: tuple[Json, ...] = (None, (), [], {})


def dump(value: Json) -> str | None:
    """A value as JSON with sorted keys; None for an empty value.

    Raises InvalidInput if the value is nested too deeply.
    """
    if not value and value in _EMPTY:
        return None
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        # Lone surrogates, huge numbers, keys that are not strings, or too many levels.
        return json.dumps(simplify(value, 0), separators=(",", ":"), sort_keys=True)


def simplify(value: Json, depth: int) -> Json:
    """The value with string keys and JSON types only."""
    if depth > LIMITS.nesting:
        raise InvalidInput(f"Data is nested deeper than {LIMITS.nesting} levels.")
    if isinstance(value, Mapping):
        return {str(k): simplify(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [simplify(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def load(text: str | None) -> dict[str, Json]:
    return json.loads(text) if text else {}


def load_list(text: str | None) -> tuple[Json, ...]:
    return tuple(json.loads(text)) if text else ()


# -- texts ---


def _clean_texts(
    names: tuple[str, ...], texts: tuple[str | None, ...]
) -> tuple[tuple[str | None, ...], str | None]:
    """The texts as the databases can store them, and the exact texts of those that differ."""
    clean_texts: list[str | None] = []
    original = {}
    for name, text in zip(names, texts, strict=True):
        clean = text
        if text and name in _IDENTIFIERS:
            clean = identifier(text)
        elif text:
            clean = storable(text)
        clean_texts.append(clean)
        if clean is not text:
            original[name] = text
    return tuple(clean_texts), dump(original)


def original_texts(original: str | None, names: tuple[str, ...]) -> dict[str, Any]:
    """The exact texts of cleaned columns."""
    return {name: text for name, text in load(original).items() if name in names}


# -- passages ---


def passage_row(passage: Passage, position: int = 0, canonical: bool = True) -> tuple[Any, ...]:
    """The columns of a passage (PASSAGE_COLUMNS) at a position; the digest comes first.

    This runs for every message of an import, so it is written for speed.
    """
    p = passage
    if len(p.content) > LIMITS.message_characters:
        raise InvalidInput(
            f"Message {p.id} has {len(p.content):,} characters; "
            f"at most {LIMITS.message_characters:,} are accepted."
        )
    values = (
        p.created_at and micros(p.created_at),
        p.updated_at and micros(p.updated_at),
        dump(p.attachments) if p.attachments else None,
        dump(p.citations) if p.citations else None,
        dump(p.metadata) if p.metadata else None,
    )
    texts: tuple[str | None, ...]
    texts = (p.id, p.role, p.type, p.author, p.model, p.tool, p.parent, p.visibility, p.content)
    original = None
    everything = _DIGEST_FORMAT % (values + texts)
    try:
        data = everything.encode()
    except UnicodeEncodeError:  # a lone surrogate
        data = b""
    if not data or "\0" in everything:
        data = everything.encode("unicode_escape")
        texts, original = _clean_texts(PASSAGE_TEXTS, texts)
    elif len(p.id) > _SHORT_IDENTIFIER or (p.parent and len(p.parent) > _SHORT_IDENTIFIER):
        texts, original = _clean_texts(PASSAGE_TEXTS, texts)
    digest = blake2b(data, digest_size=16).digest()
    return (digest, position, canonical, *values, original, *texts)


def passage_digest(passage: Passage) -> bytes:
    digest: bytes = passage_row(passage)[0]
    return digest


def matches_digest(columns: Sequence[Any]) -> bool:
    """Whether a stored passage (PASSAGE_COLUMNS) is what its digest was computed from."""
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    values = [row[name] for name in _DIGEST_VALUES]
    texts = {name: row[name] for name in PASSAGE_TEXTS}
    if row["original"]:
        texts |= original_texts(row["original"], PASSAGE_TEXTS)
    everything = _DIGEST_FORMAT % (*values, *texts.values())
    digest = bytes(row["digest"])
    data = everything.encode("utf-8", "surrogatepass")
    if blake2b(data, digest_size=16).digest() == digest:
        return True
    # Texts with lone surrogates or NUL.
    return blake2b(everything.encode("unicode_escape"), digest_size=16).digest() == digest


def decode_passage(columns: tuple[Any, ...]) -> Passage:
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    texts = {name: row[name] for name in PASSAGE_TEXTS}
    if row["original"]:
        texts |= original_texts(row["original"], PASSAGE_TEXTS)
    return Passage(
        **texts,
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        attachments=load_list(row["attachments"]),
        citations=load_list(row["citations"]),
        metadata=load(row["metadata"]),
        position=row["position"],
        canonical=bool(row["canonical"]),
    )


# -- documents ---


def document_row(document: Document) -> dict[str, Any]:
    texts, original = _clean_texts(
        DOCUMENT_TEXTS, tuple(getattr(document, name) for name in DOCUMENT_TEXTS)
    )
    row: dict[str, Any] = dict(zip(DOCUMENT_TEXTS, texts, strict=True))
    row["created_at"] = micros(document.created_at)
    row["updated_at"] = micros(document.updated_at)
    row["metadata"] = dump(document.metadata)
    row["original"] = original
    row["partial"] = document.partial
    row["shared_ids"] = document.shared_ids
    return row


def decode_document(row: Mapping[str, Any], passages: tuple[Passage, ...] = ()) -> Document:
    texts = {name: row[name] for name in DOCUMENT_TEXTS}
    if row["original"]:
        texts |= original_texts(row["original"], DOCUMENT_TEXTS)
    return Document(
        **texts,
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        metadata=load(row["metadata"]),
        passages=passages,
        partial=bool(row["partial"]),
        shared_ids=bool(row["shared_ids"]),
        version=row["version"],
    )


FILTER_CHARACTERS = 200
"""Characters of metadata that filters compare. Some indexes accept no more."""


def index_columns(row: Mapping[str, Any]) -> dict[str, str | int | None]:
    """What filters and the text index use, as columns of their own."""
    metadata = load(row["metadata"])
    columns: dict[str, str | int | None] = {
        "media_type": None,
        "character_id": None,
        "pinned": None,
        "heading": heading(row),
        **tag_columns(metadata),
    }
    media_type = metadata.get("media_type")
    if isinstance(media_type, str) and media_type:
        columns["media_type"] = fold(storable(media_type))[:FILTER_CHARACTERS]
    character = metadata.get("character_id")
    if isinstance(character, (str, int)):
        columns["character_id"] = storable(str(character))[:FILTER_CHARACTERS]
    if metadata.get("pinned") is True:
        columns["pinned"] = 1
    return columns


def heading(row: Mapping[str, Any]) -> str | None:
    """The title of a note or media item with its keywords; None for other kinds.

    The keywords of characters and prompts are fields. Tags of conversations are for filters only.
    """
    if row["kind"] not in (NOTE, MEDIA):
        return None
    tags = load(row["metadata"]).get("tags")
    if not isinstance(tags, list):
        tags = []
    keywords = ", ".join(storable(tag) for tag in tags if isinstance(tag, str))
    return "\n".join(filter(None, (row["title"], keywords)))


# -- candidates: passages `p` with their documents `d` ---

CANDIDATE_COLUMNS = """p.key, p.id, d.id, d.title, p.role, p.author, p.type, p.created_at,
  d.source, d.kind, d.project, p.position, p.canonical, d.passages, p.content,
  p.visibility, d.heading"""
_CREATED_AT = Candidate._fields.index("created_at")
_CANONICAL = Candidate._fields.index("canonical")


def decode_candidates(rows: Iterable[Sequence[Any]]) -> list[Candidate]:
    return decode_columns(list(zip(*rows, strict=True)))


def decode_columns(columns: list[Iterable[Any]]) -> list[Candidate]:
    """Candidates from the columns of their rows. This is twice as fast as row by row."""
    if not columns:
        return []
    columns[_CREATED_AT] = map(from_micros, columns[_CREATED_AT])
    columns[_CANONICAL] = map(bool, columns[_CANONICAL])
    return list(map(Candidate._make, zip(*columns, strict=True)))


# -- which of them are human-only (see `model/audience.py`) ---

HUMAN_ONLY_COLUMNS = ("visibility", "metadata", "original")
"""The columns that decide."""
# Nearly all messages have these, and are not human-only because of them.
_USUAL_VISIBILITIES = ("all", "hidden")


def is_human_only_row(visibility: str, metadata: str | None, original: str | None) -> bool:
    """Whether the passage with these HUMAN_ONLY_COLUMNS is human-only.

    This runs for every message of an import, so it is written for speed.
    """
    if not metadata and visibility in _USUAL_VISIBILITIES:
        return False
    if original:
        visibility = original_texts(original, PASSAGE_TEXTS).get("visibility", visibility)
    return has_human_only_values(visibility, parse(metadata))


def parse(metadata: str | None) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = orjson.loads(metadata or "{}")
    except orjson.JSONDecodeError:  # lone surrogates or huge numbers
        return load(metadata)
    return parsed


def human_only_keys(rows: Iterable[tuple[Any, ...]]) -> list[int]:
    """The keys of the human-only passages. Each row has a key and HUMAN_ONLY_COLUMNS."""
    return [key for key, *columns in rows if is_human_only_row(*columns)]


# -- tags: `tags` has the folded names for filters, `tag_names` as they are written ---

# Surrounds every tag in the column `tags`.
_DELIMITER = "\x1f"


def tag_columns(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    tags = metadata.get("tags")
    folded_tags = delimit(filter_values(tags))
    names = None
    if folded_tags:
        names = dump_names(tags)
    return {"tags": folded_tags, "tag_names": names}


def tag_pattern(tag: str) -> str:
    """What the column `tags` of a document with this tag contains."""
    return delimit([tag])


def filter_values(tags: Any) -> list[str]:
    if tags is None:
        values: Iterable[Any] = ()
    elif isinstance(tags, Mapping):
        values = tags.values()
    elif isinstance(tags, list):
        values = tags
    else:
        values = (tags,)
    return [storable(str(value)) for value in values]


def delimit(tags: Iterable[str]) -> str:
    return "".join(f"{_DELIMITER}{fold(tag).replace(_DELIMITER, ' ')}{_DELIMITER}" for tag in tags)


def dump_names(tags: Any) -> str:
    if not isinstance(tags, list):
        tags = [tags]
    return json.dumps([str(tag) for tag in tags if tag])


def count_tags(db: Database, kinds: Sequence[str]) -> Counter[str]:
    """The number of documents of these kinds with each tag."""
    counts: Counter[str] = Counter()
    members, value = db.in_list(list(kinds))
    rows = db.rows(
        "select tag_names, count(*) from document "
        f"where {db.own()} and kind in ({members}) and tag_names is not null group by 1",
        (value,),
    )
    for names, count in rows:
        for name in json.loads(names):
            counts[name] += count
    return counts
