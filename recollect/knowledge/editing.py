"""Writing notes, media, characters and prompts: made, changed and exported, in the same fields for every door."""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.importers.items import (
    FIELDS,
    cues_of,
    fields_of,
    text_of,
    with_cues,
    with_fields,
    with_text,
)
from recollect.importers.knowledge import frontmatter
from recollect.importers.knowledge.characters import card_fields
from recollect.importers.knowledge.notes import links
from recollect.knowledge.results import KINDS, NAMES, tags_of
from recollect.language import transcript
from recollect.language.text import iso, moment, storable, truncate
from recollect.model.documents import Document, Json, Passage
from recollect.model.fields import EXPORT_HEADER
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.model.sources import RECOLLECT
from recollect.transfer.export import as_json

ORIGIN = RECOLLECT.name
MEDIA_TYPES = (
    "video",
    "audio",
    "podcast",
    "pdf",
    "epub",
    "docx",
    "pptx",
    "html",
    "markdown",
    "txt",
    "image",
    "article",
)
"""What media are usually called; any other word may be used."""
FORMATS: Mapping[str, tuple[str, ...]] = {
    NOTE: ("md", "txt", "json"),
    MEDIA: ("txt", "md", "json", "srt", "vtt"),
    CHARACTER: ("json", "png"),
    PROMPT: ("json", "md", "txt"),
}
_WRITABLE: Mapping[str, frozenset[str]] = {
    NOTE: frozenset(("title", "content", "keywords", "tags")),
    MEDIA: frozenset(
        (
            "title",
            "content",
            "transcript",
            "media_type",
            "url",
            "author",
            "language",
            "created_at",
            "keywords",
            "tags",
        )
    ),
    CHARACTER: frozenset((*FIELDS[CHARACTER], "card", "keywords")),
    PROMPT: frozenset((*FIELDS[PROMPT], "tags")),
}
_ON_CARDS = {"first_message": "first_mes", "message_example": "mes_example"}
"""Fields that character cards call something else."""
_LISTS_ON_CARDS = ("alternate_greetings", "tags", "character_book")
_LONGEST_NAME = 500
_FILE_NAME = re.compile(r"[^\w.() -]+")


class Export(NamedTuple):
    name: str
    media_type: str
    data: bytes


# -- writing -----------------------------------------------------------------


def new_document(kind: str, fields: Mapping[str, Any]) -> Document:
    """A new document of what was given. Raises InvalidInput."""
    _check(kind, fields)
    now = datetime.now(UTC)
    new = Document(
        ORIGIN, str(uuid.uuid4()), kind=kind, created_at=_time(fields) or now, updated_at=now
    )
    if kind in FIELDS:
        return edit_document(new, fields)
    if not any(_text(fields, name).strip() for name in ("title", "content", "transcript")):
        raise InvalidInput(f"title: a {kind} needs a title or a content.")
    return edit_document(new, fields)


def edit_document(document: Document, fields: Mapping[str, Any]) -> Document:
    """The document with what was given in place of what it says; all else stays. Raises InvalidInput."""
    _check(document.kind, fields)
    document = replace(document, metadata=_metadata(document, fields), updated_at=datetime.now(UTC))
    if document.kind in FIELDS:
        return _with_fields(document, fields)
    if "title" in fields:
        document = replace(document, title=_line(_text(fields, "title")))
    if (said := _time(fields)) is not None:
        document = replace(document, created_at=said)
    if fields.get("transcript"):
        return _with_transcript(document, fields["transcript"])
    if "content" in fields or not document.passages:
        content = _text(fields, "content")
        if document.kind == NOTE:
            document = replace(document, metadata={**document.metadata, "links": links(content)})
        return with_text(replace(document, title=document.title or _first_line(content)), content)
    return replace(
        document,
        passages=tuple(p._replace(created_at=document.created_at) for p in document.passages),
    )


def _check(kind: str, fields: Mapping[str, Any]) -> None:
    if kind == CONVERSATION:
        raise InvalidInput("Conversations are written message by message, through /conversations.")
    if unknown := sorted(fields.keys() - _WRITABLE[kind]):
        known = ", ".join(sorted(_WRITABLE[kind]))
        raise InvalidInput(
            f"{NAMES[kind]}: there is no field {truncate(unknown[0], 80)!r}; there are {known}."
        )


def _metadata(document: Document, fields: Mapping[str, Any]) -> dict[str, Json]:
    about = dict(document.metadata)
    for name in ("url", "author", "language"):
        if name in fields and document.kind == MEDIA:
            about[name] = _text(fields, name) or None
    if document.kind == MEDIA:
        about["media_type"] = (
            _line(_text(fields, "media_type")).lower() or about.get("media_type") or "txt"
        )
    given = fields.get("keywords", fields.get("tags"))
    if given is not None:
        about["tags"] = _words(given) or None
    return {name: value for name, value in about.items() if value is not None}


def _with_fields(document: Document, fields: Mapping[str, Any]) -> Document:
    said = fields_of(document.passages)
    if document.kind == CHARACTER:
        card = _changed_card(document, fields)
        said |= {
            name: text
            for name, text in card_fields(card).items()
            if _ON_CARDS.get(name, name) in card
        }
        tags = _words(card.get("tags") or [])
        document = replace(document, metadata={**document.metadata, "card": card, "tags": tags})
    else:
        said |= {name: _joined(fields[name], name) for name in FIELDS[PROMPT] if name in fields}
        document = replace(
            document, metadata={**document.metadata, "author": said.get("author", "")}
        )
    said["tags" if document.kind == CHARACTER else "keywords"] = ", ".join(
        tags_of(document.metadata)
    )
    said["name"] = _line(said.get("name") or "")
    if not said["name"]:
        raise InvalidInput(f"name: a {document.kind} needs a name.")
    return _with_pictures(with_fields(document, said), document.passages)


def _changed_card(document: Document, fields: Mapping[str, Any]) -> dict[str, Any]:
    card = dict(document.metadata.get("card") or {})
    given = fields.get("card") or {}
    if not isinstance(given, Mapping):
        raise InvalidInput("card must be an object: the card's `data`.")
    if "spec" in given and isinstance(given.get("data"), Mapping):
        given = given["data"]
    card |= given
    card |= {
        _ON_CARDS.get(name, name): _as_on_cards(name, fields[name])
        for name in FIELDS[CHARACTER]
        if name in fields
    }
    if "keywords" in fields or "tags" in fields:
        card["tags"] = _words(fields.get("keywords", fields.get("tags")))
    return card


def _with_pictures(filled: Document, before: Sequence[Passage]) -> Document:
    if not before or not before[0].attachments:
        return filled
    first, *rest = filled.passages
    return replace(filled, passages=(first._replace(attachments=before[0].attachments), *rest))


def _with_transcript(document: Document, given: Any) -> Document:
    if not isinstance(given, str):
        given = json.dumps(given)
    cues = transcript.parse(storable(given)).cues
    if not cues:
        raise InvalidInput(
            "transcript: there are no times in it. Give SRT, VTT, SBV or JSON with segments."
        )
    return with_cues(document, cues)


def _as_on_cards(name: str, value: Any) -> Any:
    """A field as cards have it: greetings are a list, and lore is a book."""
    if name == "alternate_greetings" and isinstance(value, str):
        return [value] if value else []
    if name == "character_book" and isinstance(value, str):
        return {
            "entries": [
                {
                    "keys": [],
                    "content": value,
                    "enabled": True,
                    "insertion_order": 0,
                    "extensions": {},
                }
            ]
        }
    return value if isinstance(value, (list, tuple, Mapping)) else _joined(value, name)


def _joined(value: Any, name: str) -> str:
    """A field as text; lists one to a line, or with commas."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return (", " if name in ("tags", "keywords") else "\n\n").join(
            storable(str(v)) for v in value
        )
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise InvalidInput(f"{name}: give a text.")
    return storable(str(value))


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: give a text, not {truncate(repr(value), 80)}.")
    return storable(value)


def _words(given: Any) -> list[str]:
    values = given.split(",") if isinstance(given, str) else given
    if (
        not isinstance(values, (list, tuple))
        or len(values) > 200
        or not all(isinstance(v, str) for v in values)
    ):
        raise InvalidInput(
            "keywords: give a list of up to 200 texts, or one text with commas between them."
        )
    return list(
        dict.fromkeys(" ".join(storable(v).split())[:_LONGEST_NAME] for v in values if v.strip())
    )


def _time(fields: Mapping[str, Any]) -> datetime | None:
    given = fields.get("created_at")
    if given is None:
        return None
    if (said := moment(given)) is None:
        raise InvalidInput(
            f"created_at: {truncate(repr(given), 80)} is not a date. Use ISO 8601, such as 2026-01-31."
        )
    return said


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NAME]


def _first_line(text: str) -> str:
    return next(
        (_line(line.strip().lstrip("#")) for line in text.splitlines() if line.strip(" #")), ""
    )[:120]


# -- exporting -----------------------------------------------------------------


def export(document: Document, format: str) -> Export:
    """The document as a file. Raises InvalidInput where there is no such file of it."""
    known = FORMATS.get(document.kind, ())
    if format not in known:
        raise InvalidInput(
            f"format: {truncate(format, 80)!r} is not one of {', '.join(known)}, which {NAMES[document.kind]} have."
        )
    text: str | bytes = _FORMATS[document.kind, format](document)
    media_type = {
        "md": "text/markdown",
        "json": "application/json",
        "png": "image/png",
        "vtt": "text/vtt",
        "srt": "application/x-subrip",
    }.get(format, "text/plain")
    return Export(
        f"{_file_name(document)}.{format}",
        media_type,
        text if isinstance(text, bytes) else text.encode("utf-8", "replace"),
    )


def _file_name(document: Document) -> str:
    return (
        _FILE_NAME.sub("_", document.title or document.id or document.kind)[:100].strip(" ._")
        or document.kind
    )


def _note_as_markdown(document: Document) -> str:
    about = document.metadata
    kept = about.get("front_matter")
    values = dict(kept) if isinstance(kept, Mapping) else {}
    values = {"title": document.title, **values}
    values |= {"tags": tags_of(about)} if tags_of(about) else {}
    values |= {"aliases": about["aliases"]} if about.get("aliases") else {}
    values |= _times(document)
    return frontmatter.join(values, text_of(document.passages))


def _media_as_markdown(document: Document) -> str:
    about = document.metadata
    values = {
        "title": document.title,
        **{n: about[n] for n in ("media_type", "url", "author") if about.get(n)},
    }
    values |= {"tags": tags_of(about)} if tags_of(about) else {}
    cues = list(cues_of(document.passages))
    body = transcript.write(cues, "text", timestamps=True) if cues else text_of(document.passages)
    return frontmatter.join(values | _times(document), str(body))


def _times(document: Document) -> dict[str, Json]:
    times = {"created": iso(document.created_at), "updated": iso(document.updated_at)}
    return {name: value for name, value in times.items() if value is not None}


def _transcript_as(kind: str, document: Document) -> str:
    cues = list(cues_of(document.passages))
    if not cues:
        raise InvalidInput(
            f"format: {kind} needs times, and {truncate(document.title, 80)!r} has none."
        )
    return str(transcript.write(cues, kind))


def _prompt_as_json(document: Document) -> str:
    fields = fields_of(document.passages)
    shape = {name: fields.get(name, "") for name in FIELDS[PROMPT]} | {
        "keywords": tags_of(document.metadata)
    }
    return (
        json.dumps(
            shape | {"version": document.version} | _times(document), ensure_ascii=False, indent=2
        )
        + "\n"
    )


def _prompt_as_markdown(document: Document) -> str:
    fields = fields_of(document.passages)
    body = fields.pop("user_prompt", "")
    fields.pop("keywords", None)
    values: dict[str, Json] = {
        "type": "prompt",
        **{name: fields[name] for name in FIELDS[PROMPT] if fields.get(name)},
    }
    values |= {"keywords": tags_of(document.metadata)} if tags_of(document.metadata) else {}
    return frontmatter.join(values | _times(document), body)


def _as_plain_text(document: Document) -> str:
    if document.kind in FIELDS:
        return (
            "\n\n".join(f"{name}:\n{text}" for name, text in fields_of(document.passages).items())
            + "\n"
        )
    return text_of(document.passages)


def _card(document: Document, spec: str) -> dict[str, Json]:
    """The character as a card: what its card said, with what it says now in place of that."""
    data = dict(document.metadata.get("card") or {})
    for name, text in fields_of(document.passages).items():
        if name not in _LISTS_ON_CARDS:
            data[_ON_CARDS.get(name, name)] = text
    for name in (
        "description",
        "personality",
        "scenario",
        "first_mes",
        "mes_example",
        "creator_notes",
        "system_prompt",
        "post_history_instructions",
        "creator",
        "character_version",
    ):
        data.setdefault(name, "")
    data.setdefault("alternate_greetings", [])
    data.setdefault("extensions", {})
    data["tags"] = tags_of(document.metadata)
    if spec == "chara_card_v3":
        data.setdefault("group_only_greetings", [])
    return {"spec": spec, "spec_version": "3.0" if spec == "chara_card_v3" else "2.0", "data": data}


def _card_as_json(document: Document) -> str:
    return json.dumps(_card(document, _spec(document)), ensure_ascii=False, indent=2) + "\n"


def _spec(document: Document) -> str:
    return "chara_card_v3" if document.metadata.get("spec") == "chara_card_v3" else "chara_card_v2"


def _card_as_png(document: Document) -> bytes:
    """The character's picture with the card in it: as V2 for older programs, and as V3 where it is one."""
    picture = _picture(document.passages) or _plain_picture()
    end = picture.rindex(b"IEND") - 4
    chunks = b"".join(
        _png_chunk(
            b"tEXt", key + b"\0" + base64.b64encode(json.dumps(_card(document, spec)).encode())
        )
        for key, spec in ((b"chara", "chara_card_v2"), (b"ccv3", "chara_card_v3"))
        if spec == "chara_card_v2" or spec == _spec(document)
    )
    return picture[:end] + chunks + picture[end:]


def _picture(passages: Sequence[Passage]) -> bytes | None:
    """The picture that came with the card, without the cards in it."""
    for attachment in passages[0].attachments if passages else ():
        if isinstance(attachment, Mapping) and attachment.get("media_type") == "image/png":
            data = _decoded(attachment.get("data"))
            if data.startswith(b"\x89PNG\r\n\x1a\n"):
                return _without_texts(data)
    return None


def _decoded(data: Json) -> bytes:
    try:
        return base64.b64decode(data) if isinstance(data, str) else b""
    except ValueError:
        return b""


def _without_texts(data: bytes) -> bytes | None:
    kept, at = [data[:8]], 8
    while at + 8 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if kind not in (b"tEXt", b"zTXt", b"iTXt"):
            kept.append(data[at:end])
        at = end
        if kind == b"IEND":
            return b"".join(kept)
    return None


def _plain_picture() -> bytes:
    """A single grey point, for a character without a picture."""
    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = (
        _png_chunk(b"IHDR", head)
        + _png_chunk(b"IDAT", zlib.compress(b"\0\x80"))
        + _png_chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + parts


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _whole_as_json(document: Document) -> str:
    return json.dumps({**EXPORT_HEADER, "conversations": [as_json(document)]}, ensure_ascii=True)


_FORMATS: Mapping[tuple[str, str], Callable[[Document], str | bytes]] = {
    (NOTE, "md"): _note_as_markdown,
    (NOTE, "txt"): _as_plain_text,
    (NOTE, "json"): _whole_as_json,
    (MEDIA, "txt"): _as_plain_text,
    (MEDIA, "md"): _media_as_markdown,
    (MEDIA, "json"): _whole_as_json,
    (MEDIA, "srt"): lambda document: _transcript_as("srt", document),
    (MEDIA, "vtt"): lambda document: _transcript_as("vtt", document),
    (CHARACTER, "json"): _card_as_json,
    (CHARACTER, "png"): _card_as_png,
    (PROMPT, "json"): _prompt_as_json,
    (PROMPT, "md"): _prompt_as_markdown,
    (PROMPT, "txt"): _as_plain_text,
}
assert {kind for kind, _ in _FORMATS} == FORMATS.keys() <= set(KINDS.values())
