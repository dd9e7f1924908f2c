"""Character cards, versions 1 to 3: JSON, embedded in an image (PNG, APNG), or CHARX.

Searchable parts become fields. The whole card is stored as well, because programs store data of
their own in it (`extensions`) that must survive. An image often has a card of version 3 (`ccv3`)
next to one of version 2 (`chara`) for older programs; the newer one is used. The image is stored
without them.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

from recollect.importers.entries import UNREADABLE, Entry, reject_zip_bomb, unreadable_member
from recollect.importers.items import FIELDS, with_fields
from recollect.importers.jsonstream import decode, peek, records
from recollect.importers.records import (
    UNEXPECTED,
    as_list,
    contain_errors,
    failure,
    join_texts,
    other_fields,
    parse_tags,
    string_or_none,
)
from recollect.language.text import moment
from recollect.model.documents import Document, Json
from recollect.model.kinds import CHARACTER
from recollect.model.receipts import Problem
from recollect.model.sources import CHARACTERS
from recollect.settings import LIMITS

PNG = b"\x89PNG\r\n\x1a\n"
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORD_BYTES = 80
_MAX_TEXT_BYTES = 16_000_000
"""The limit for all texts in an image together."""


class Chunk(NamedTuple):
    """A text in a PNG, and where its chunk is in the file."""

    keyword: str
    """In lower case."""
    text: bytes
    start: int
    end: int


def png_texts(file: IO[bytes], limit: int | None = None) -> Iterator[Chunk]:
    """The texts in a PNG. With `limit`, they are truncated and not decompressed."""
    budget, start = _MAX_TEXT_BYTES, 8
    header = file.read(8) == PNG and file.read(8)
    while header and len(header) == 8:
        size, type_ = struct.unpack(">I4s", header)
        if not type_.isalpha() or type_ == b"IEND":
            return
        end = start + size + 12
        data = b""
        if type_ in _TEXT_CHUNKS and size <= LIMITS.card_bytes:
            data = file.read(size if limit is None else min(size, limit))
        file.seek(size - len(data) + 4, 1)  # a checksum follows
        keyword, separator, value = data.partition(b"\0")
        if separator and len(keyword) < _KEYWORD_BYTES:
            if limit is None:
                value = decompress(type_, value, budget)
                budget -= len(value)
            yield Chunk(keyword.decode("latin-1").strip().lower(), value, start, end)
        start, header = end, file.read(8)


def decompress(type_: bytes, value: bytes, limit: int) -> bytes:
    """The text of a chunk; empty if it is damaged or longer than `limit`."""
    is_compressed = type_ == b"zTXt"
    if type_ == b"iTXt":
        is_compressed = value[:1] == b"\1"
        value = value[2:].split(b"\0", 2)[-1]
    elif is_compressed:
        value = value[1:]
    if not is_compressed:
        return value
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(value, max(limit, 1))
    except zlib.error:
        return b""
    return b"" if decompressor.unconsumed_tail else text


SOURCE = CHARACTERS
DESCRIPTION = "Character cards (JSON, PNG or CHARX)"

_V1_FIELDS = frozenset(
    {"name", "description", "personality", "scenario", "first_mes", "mes_example"}
)
_OLD_NAMES = {
    "char_name": "name",
    "char_persona": "personality",
    "char_greeting": "first_mes",
    "world_scenario": "scenario",
    "example_dialogue": "mes_example",
}
"""The names that another program used for the fields of version 1."""
_KEYWORDS = ("ccv3", "chara")
"""The keywords of cards in a PNG, in order of preference."""
_ASSET_PREFIX = "chara-ext-asset_"
_IMAGES = (".png", ".apng")
_ICON_TYPES = {
    **{suffix: f"image/{suffix}" for suffix in ("png", "webp", "jpeg", "gif", "avif")},
    "apng": "image/png",
    "jpg": "image/jpeg",
}
_MAX_ASSETS = 1_000
_NO_CARD = "contains no character; many web sites remove it from images"
_UNKNOWN_CARD = "card of an unknown shape"


class Avatar(NamedTuple):
    media_type: str
    data: bytes


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    suffix = _suffix(entry)
    try:
        if suffix in _IMAGES:
            with entry.open() as file:
                return any(chunk.keyword in _KEYWORDS for chunk in png_texts(file, limit=80))
        return suffix == ".charx" or (suffix == ".json" and is_card(entry))
    except UNREADABLE:
        return False


def accepts(entry: Entry) -> bool:
    return _suffix(entry) in (*_IMAGES, ".charx", ".json")


def is_card(entry: Entry) -> bool:
    keys = peek(entry)
    if "spec" in keys:
        return b'"chara_card_v' in entry.head().replace(b"\0", b"")
    return {"name", "first_mes"} <= keys or {"char_name", "char_persona"} <= keys


# -- files -------------------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    suffix = _suffix(entry)
    try:
        if suffix == ".charx":
            yield read_charx(entry)
        elif suffix != ".json":
            yield read_image(entry)
        else:
            for item in records(entry, {"spec", "first_mes"}):
                yield item if isinstance(item, Problem) else _record(entry, *item)
    except ValueError as error:
        yield failure(str(error) or _UNKNOWN_CARD, entry.name)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        yield failure(f"archive cannot be read ({error})", entry.name)


def _record(entry: Entry, index: int, record: Json) -> Document | Problem:
    try:
        return character(record, entry, None)
    except UNEXPECTED:
        return failure(_UNKNOWN_CARD, f"record {index}")


def read_image(entry: Entry) -> Document | Problem:
    data = read_whole(entry)
    texts = list(png_texts(io.BytesIO(data)))
    # Like the first programs, accept any other keyword too.
    ranks = {keyword: rank for rank, keyword in enumerate(_KEYWORDS)}
    ranked = sorted(texts, key=lambda chunk: ranks.get(chunk.keyword, len(ranks)))
    card = next(filter(None, (parse_card(chunk.text) for chunk in ranked)), None)
    if card is None:
        return failure(_NO_CARD, entry.name)
    picture, position = b"", 0
    for chunk in texts:
        if chunk.keyword in _KEYWORDS or chunk.keyword.startswith(_ASSET_PREFIX):
            picture += data[position : chunk.start]
            position = chunk.end
    return character(card, entry, Avatar("image/png", picture + data[position:]))


def read_charx(entry: Entry) -> Document | Problem:
    file = entry.path if entry.path is not None else io.BytesIO(read_whole(entry))
    with zipfile.ZipFile(file) as archive:
        reject_zip_bomb(entry.name, archive.infolist(), entry.size)
        names = {name.lower(): name for name in archive.namelist()}
        if "card.json" not in names:
            return failure("contains no card.json", entry.name)
        card = parse_card(read_member(archive, names["card.json"], LIMITS.card_bytes) or b"")
        if card is None:
            return failure(_UNKNOWN_CARD, entry.name)
        return character(card, entry, _icon(card_data(card), archive))


def _icon(card: Mapping[str, Any], archive: zipfile.ZipFile) -> Avatar | None:
    """The icon of a card in an archive; the main one if there are several."""
    icons = [
        asset
        for asset in as_list(card.get("assets"))[:_MAX_ASSETS]
        if isinstance(asset, dict) and asset.get("type") == "icon"
    ]
    names = set(archive.namelist())
    for icon in sorted(icons, key=lambda asset: asset.get("name") != "main"):
        path = re.sub(r"\Aembedd?ed://", "", str(icon.get("uri")))
        media_type = _ICON_TYPES.get(path.rpartition(".")[2].lower())
        if media_type is None or path not in names:
            continue
        data = read_member(archive, path, LIMITS.avatar_bytes)
        if data:
            return Avatar(media_type, data)
    return None


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes | None:
    """A file in an archive; None if it is larger than `limit`."""
    reason = unreadable_member(archive.getinfo(name))
    if reason:
        raise ValueError(reason)
    with archive.open(name) as file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def read_whole(entry: Entry) -> bytes:
    with entry.open() as file:
        data = file.read(LIMITS.card_bytes + 1)
    if len(data) > LIMITS.card_bytes:
        raise ValueError(f"larger than {LIMITS.card_bytes:,} bytes")
    return data


def parse_card(value: bytes) -> dict[str, Any] | None:
    """A card in JSON, or in base64 of JSON."""
    text = value.strip().removeprefix(b"\xef\xbb\xbf")
    try:
        if not text.startswith(b"{"):
            text = base64.b64decode(text + b"=" * (-len(text) % 4))
        card = decode(text.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (binascii.Error, ValueError):
        return None
    return card if isinstance(card, dict) else None


# -- cards -------------------------------------------------------------------


def character(record: Mapping[str, Any], entry: Entry, avatar: Avatar | None) -> Document | Problem:
    """The character on a card."""
    card = card_data(record)
    fields = card_fields(card)
    has_content = any(
        text for name, text in fields.items() if name not in ("name", "creator", "tags")
    )
    if not has_content and "spec" not in record:
        return Problem("contains no character", entry.name, unit="conversations")
    stem = entry.basename.rpartition(".")[0]
    name = fields["name"] or string_or_none(card.get("nickname")) or stem
    fields["name"] = name
    source_id = f"{fields['creator']}/{name}" if fields["creator"] else name
    created_at = _time(card.get("creation_date")) or _time(record.get("create_date"))
    # The later time, so that cards of older versions, which have no times, do not seem newer.
    times = [_time(card.get("modification_date")), entry.modified_at]
    updated_at = max((time for time in times if time is not None), default=created_at)
    document = Document(
        source=SOURCE.name,
        source_id=source_id,
        title=name,
        kind=CHARACTER,
        created_at=created_at or updated_at,
        updated_at=updated_at,
        metadata=_metadata(record, card, entry),
        id=name,
    )
    return with_avatar(with_fields(document, fields), avatar)


def _metadata(record: Mapping[str, Any], card: Mapping[str, Any], entry: Entry) -> dict[str, Json]:
    metadata = {
        "tags": parse_tags(as_list(card.get("tags"))),
        "creator": _text(card.get("creator")).strip(),
        "character_version": _text(card.get("character_version")),
        "spec": string_or_none(record.get("spec")) or "chara_card_v1",
        "nickname": _text(card.get("nickname")),
        "file": entry.basename,
        "card": card,
    }
    if card is record.get("data"):
        used_fields = {*_V1_FIELDS, *card, "spec", "spec_version", "data"}
        metadata["beside"] = other_fields(record, used_fields)
    return {key: value for key, value in metadata.items() if value}


def card_fields(card: Mapping[str, Any]) -> dict[str, str]:
    """The searchable parts of a card, by the names in `items.FIELDS`."""
    keys = {"first_message": "first_mes", "message_example": "mes_example"}
    fields = {name: _text(card.get(keys.get(name, name))) for name in FIELDS[CHARACTER]}
    greetings: list[Json] = []
    for key in ("alternate_greetings", "group_only_greetings"):
        value = card.get(key)
        greetings += value if isinstance(value, list) else [value]
    return {
        **fields,
        "name": fields["name"].strip(),
        "alternate_greetings": "\n\n".join(t for t in greetings if isinstance(t, str) and t),
        "character_book": "\n\n".join(lorebook(card.get("character_book"))),
        "creator": fields["creator"].strip(),
        "tags": ", ".join(parse_tags(as_list(card.get("tags")))),
    }


def card_data(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The card itself.

    The fields around `data` are a copy for programs that only know version 1, and may be outdated.
    """
    data = record.get("data")
    if isinstance(data, dict) and ("spec" in record or "name" in data):
        return data
    if "char_name" in record:
        return {_OLD_NAMES.get(key, key): value for key, value in record.items()}
    return record


def lorebook(book: Json) -> Iterator[str]:
    """The entries of a lorebook as text: their name, their keys and their content."""
    entries = book.get("entries") if isinstance(book, dict) else None
    if isinstance(entries, dict):
        entries = list(entries.values())
    for entry in as_list(entries):
        content = _text(entry.get("content")) if isinstance(entry, dict) else ""
        if content:
            name = _text(entry.get("name")) or _text(entry.get("comment"))
            keys = ", ".join(parse_tags(entry.get("keys") or entry.get("key")))
            heading = " · ".join(part for part in (name, keys) if part)
            yield join_texts((heading, content))


def with_avatar(document: Document, avatar: Avatar | None) -> Document:
    if avatar is None or len(avatar.data) > LIMITS.avatar_bytes:
        return document
    attachment = {
        "type": "avatar",
        "media_type": avatar.media_type,
        "size": len(avatar.data),
        "data": base64.b64encode(avatar.data).decode(),
    }
    first, *others = document.passages
    return replace(document, passages=(first._replace(attachments=(attachment,)), *others))


# -- values ------------------------------------------------------------------


def _text(value: Json) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return string_or_none(value) or ""


def _time(value: Json) -> datetime | None:
    if not value:  # some programs write 0 for an unknown time
        return None
    if not isinstance(value, str) or "@" not in value:
        return moment(value)
    text = "".join(value.split()).partition("s")[0]  # 2024-1-31 @ 10h 5m 3s 12ms
    try:
        return datetime.strptime(text, "%Y-%m-%d@%Hh%Mm%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _suffix(entry: Entry) -> str:
    _, dot, suffix = entry.basename.lower().rpartition(".")
    return dot + suffix if dot else ""
