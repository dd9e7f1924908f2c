"""Character cards, versions 1 to 3: JSON, inside a picture (PNG, APNG, old WEBP), or CHARX.

What can be searched becomes a field each; the whole card stays beside them, since
programs keep things of their own in it (`extensions`) that must survive. A picture
holds a card of version 3 (`ccv3`) beside one of version 2 (`chara`) for older
programs; the newer one counts. The picture itself is kept without them.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from recollect.importers.entries import Entry, refuse_bombs
from recollect.importers.items import with_fields
from recollect.importers.jsonstream import UNREADABLE, decode, peek, records
from recollect.importers.knowledge import pictures
from recollect.importers.knowledge.notes import words
from recollect.importers.records import (
    UNEXPECTED,
    as_list,
    join_texts,
    other_fields,
    string_or_none,
)
from recollect.language.text import moment
from recollect.model.documents import Document, Json
from recollect.model.kinds import CHARACTER
from recollect.model.receipts import Problem
from recollect.model.sources import CHARACTERS
from recollect.settings import LIMITS

SOURCE = CHARACTERS
DESCRIPTION = "Character cards (JSON, PNG or CHARX)"

_V1 = frozenset({"name", "description", "personality", "scenario", "first_mes", "mes_example"})
_OLD = {
    "char_name": "name",
    "char_persona": "personality",
    "char_greeting": "first_mes",
    "world_scenario": "scenario",
    "example_dialogue": "mes_example",
}
"""How another program of that time named the fields of version 1."""
_KEYWORDS = ("ccv3", "chara")
_ASSETS = "chara-ext-asset_"
_SPEC = re.compile(rb'"spec"\s*:\s*"chara_card_v')
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})\s*@\s*(\d{1,2})h\s*(\d{1,2})m\s*(\d{1,2})s")
_PICTURES = {".png": "image/png", ".apng": "image/png", ".webp": "image/webp"}
_TYPES = {
    "png": "image/png",
    "apng": "image/png",
    "webp": "image/webp",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "avif": "image/avif",
}
_NOTHING = "no character in it; many sites take it out of pictures"


class Avatar(NamedTuple):
    media_type: str
    data: bytes


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    ending = _ending(entry)
    try:
        if ending == ".charx":
            return True
        if ending in (".png", ".apng"):
            with entry.open() as file:
                return any(name in _KEYWORDS for name, _, _ in pictures.texts(file, longest=80))
        if ending == ".webp":
            return "first_mes" in pictures.comment(_whole(entry))
        return ending == ".json" and _is_card(entry)
    except (ValueError, *UNREADABLE):
        return False


def accepts(entry: Entry) -> bool:
    """Any file of these kinds, if somebody says that it holds a character."""
    return _ending(entry) in (*_PICTURES, ".charx", ".json")


def _is_card(entry: Entry) -> bool:
    keys = peek(entry)
    if "spec" in keys:
        return bool(_SPEC.search(entry.head().replace(b"\0", b"")))
    return {"name", "first_mes"} <= keys or {"char_name", "char_persona"} <= keys


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    ending = _ending(entry)
    try:
        if ending == ".json":
            yield from _from_json(entry)
        elif ending == ".charx":
            yield from _from_charx(entry)
        else:
            yield from _from_picture(entry, ending)
    except ValueError as error:
        yield _failed(str(error) or "card of an unknown shape", entry)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        yield _failed(f"archive that cannot be read ({error})", entry)


def _from_json(entry: Entry) -> Iterator[Document | Problem]:
    for item in records(entry, {"spec", "first_mes"}):
        if isinstance(item, Problem):
            yield item
        else:
            yield _character(item[1], entry, None, f"record {item[0]}")


def _from_picture(entry: Entry, ending: str) -> Iterator[Document | Problem]:
    data = _whole(entry)
    if ending == ".webp":
        card = _loaded(pictures.comment(data).encode()) if data else None
    else:
        found = list(pictures.texts(io.BytesIO(data)))
        # Any text will do where none has the right name; so did the first programs that read them.
        ranked = sorted(
            found,
            key=lambda text: _KEYWORDS.index(text[0]) if text[0] in _KEYWORDS else len(_KEYWORDS),
        )
        card = next((card for _, value, _ in ranked if (card := _loaded(value)) is not None), None)
        ours = [chunk for name, _, chunk in found if name in _KEYWORDS or name.startswith(_ASSETS)]
        data = pictures.without(data, ours)
    if card is None:
        yield _failed(_NOTHING, entry)
    else:
        yield _character(card, entry, Avatar(_PICTURES[ending], data), entry.name)


def _from_charx(entry: Entry) -> Iterator[Document | Problem]:
    with zipfile.ZipFile(
        entry.path if entry.path is not None else io.BytesIO(_whole(entry))
    ) as archive:
        refuse_bombs(entry.name, archive.infolist(), entry.size)
        names = {name.lower(): name for name in archive.namelist()}
        if "card.json" not in names:
            yield _failed("no card.json in it", entry)
            return
        card = _loaded(_member(archive, names["card.json"], LIMITS.card_bytes) or b"")
        if card is None:
            yield _failed("card of an unknown shape", entry)
            return
        yield _character(card, entry, _icon(_data(card), archive), entry.name)


def _icon(card: Mapping[str, Any], archive: zipfile.ZipFile) -> Avatar | None:
    """The picture that a card in an archive names as its own; the main one if there are several."""
    icons = [
        a for a in as_list(card.get("assets")) if isinstance(a, dict) and a.get("type") == "icon"
    ]
    for asset in sorted(icons, key=lambda asset: asset.get("name") != "main"):
        path = re.sub(r"\Aembedd?ed://", "", str(asset.get("uri")))
        kind = _TYPES.get(path.rpartition(".")[2].lower())
        if (
            kind
            and path in archive.namelist()
            and (data := _member(archive, path, LIMITS.avatar_bytes))
        ):
            return Avatar(kind, data)
    return None


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes | None:
    """What a file of an archive holds; nothing where it is larger than it may be."""
    with archive.open(name) as file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def _whole(entry: Entry) -> bytes:
    with entry.open() as file:
        data = file.read(LIMITS.card_bytes + 1)
    if len(data) > LIMITS.card_bytes:
        raise ValueError(f"larger than {LIMITS.card_bytes:,} bytes")
    return data


def _loaded(value: bytes) -> dict[str, Any] | None:
    """A card as JSON, or as base64 of it."""
    text = value.strip().removeprefix(b"\xef\xbb\xbf")
    try:
        if not text.startswith(b"{"):
            text = base64.b64decode(text + b"=" * (-len(text) % 4))
        card = decode(text.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (binascii.Error, ValueError):
        return None
    return card if isinstance(card, dict) else None


# -- cards -------------------------------------------------------------------


def _character(record: Any, entry: Entry, avatar: Avatar | None, where: str) -> Document | Problem:
    try:
        return character(record, entry, avatar)
    except UNEXPECTED:
        return Problem("card of an unknown shape", where, failed=True, unit="conversations")


def character(
    record: Mapping[str, Any], entry: Entry, avatar: Avatar | None = None
) -> Document | Problem:
    card = _data(record)
    fields = card_fields(card)
    if (
        not any(fields[name] for name in fields if name not in ("name", "creator", "tags"))
        and "spec" not in record
    ):
        return Problem("no character in it", entry.name, unit="conversations")
    fields["name"] = (
        fields["name"] or string_or_none(card.get("nickname")) or entry.basename.rpartition(".")[0]
    )
    created_at = _time(card.get("creation_date")) or _time(record.get("create_date"))
    # The later of the two: cards of older versions have no times, and must not seem newer than those that have.
    times = [
        time for time in (_time(card.get("modification_date")), entry.written) if time is not None
    ]
    updated_at = max(times, default=created_at)
    metadata = {
        "tags": words(as_list(card.get("tags"))),
        "creator": fields["creator"],
        "character_version": _said(card.get("character_version")),
        "spec": string_or_none(record.get("spec")) or "chara_card_v1",
        "nickname": _said(card.get("nickname")),
        "file": entry.basename,
        "card": card,
        "beside": other_fields(record, {*_V1, *card, "spec", "spec_version", "data"})
        if card is record.get("data")
        else None,
    }
    document = Document(
        source=SOURCE.name,
        source_id=f"{fields['creator']}/{fields['name']}" if fields["creator"] else fields["name"],
        title=fields["name"],
        kind=CHARACTER,
        created_at=created_at or updated_at,
        updated_at=updated_at,
        metadata={key: value for key, value in metadata.items() if value},
        id=fields["name"],
    )
    return _with_avatar(with_fields(document, fields), avatar)


def card_fields(card: Mapping[str, Any]) -> dict[str, str]:
    """What of a card can be searched, by the names of items.FIELDS."""
    return {
        "name": _said(card.get("name")).strip(),
        "description": _said(card.get("description")),
        "personality": _said(card.get("personality")),
        "scenario": _said(card.get("scenario")),
        "system_prompt": _said(card.get("system_prompt")),
        "first_message": _said(card.get("first_mes")),
        "message_example": _said(card.get("mes_example")),
        "post_history_instructions": _said(card.get("post_history_instructions")),
        "creator_notes": _said(card.get("creator_notes")),
        "alternate_greetings": "\n\n".join(
            text
            for name in ("alternate_greetings", "group_only_greetings")
            for text in _texts(card.get(name))
        ),
        "character_book": "\n\n".join(_lore(card.get("character_book"))),
        "creator": _said(card.get("creator")).strip(),
        "tags": ", ".join(words(as_list(card.get("tags")))),
    }


def _data(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The card itself. What stands around it is a copy for programs that know version 1, and may be out of date."""
    data = record.get("data")
    if isinstance(data, dict) and ("spec" in record or "name" in data):
        return data
    if "char_name" in record:
        return {_OLD.get(key, key): value for key, value in record.items()}
    return record


def _lore(book: Json) -> Iterator[str]:
    """The entries of a lorebook as text: what they are about, and what they say."""
    entries = book.get("entries") if isinstance(book, dict) else None
    for entry in entries.values() if isinstance(entries, dict) else as_list(entries):
        if isinstance(entry, dict) and (content := _said(entry.get("content"))):
            keys = entry.get("keys") or entry.get("key")
            named = [
                _said(entry.get("name")) or _said(entry.get("comment")),
                ", ".join(words(keys)),
            ]
            yield join_texts((" · ".join(filter(None, named)), content))


def _with_avatar(document: Document, avatar: Avatar | None) -> Document:
    if avatar is None or len(avatar.data) > LIMITS.avatar_bytes:
        return document
    picture = {
        "type": "avatar",
        "media_type": avatar.media_type,
        "size": len(avatar.data),
        "data": base64.b64encode(avatar.data).decode(),
    }
    first, *others = document.passages
    return replace(document, passages=(first._replace(attachments=(picture,)), *others))


def _said(value: Json) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return string_or_none(value) or ""


def _texts(value: Json) -> list[str]:
    return [
        text
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str) and text
    ]


def _time(value: Json) -> datetime | None:
    if not value:  # 0 is how some programs say that they do not know
        return None
    written = _DATE.match(value) if isinstance(value, str) else None
    if written is None:
        return moment(value)
    try:
        year, month, day, hour, minute, second = map(int, written.groups())
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _failed(reason: str, entry: Entry) -> Problem:
    return Problem(reason, entry.name, failed=True, unit="conversations")


def _ending(entry: Entry) -> str:
    name = entry.basename.lower()
    return name[name.rfind(".") :] if "." in name else ""
