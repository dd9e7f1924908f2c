"""Attachments of messages, and the pictures that the library has. No picture is fetched.

Sources describe attachments in many ways. Most exports contain only a description, so a picture is
often missing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import storable, truncate
from recollect.library import Library
from recollect.model.documents import Json, Passage
from recollect.serve.console.tabs import CHARACTERS
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

IMAGE_TYPES = frozenset(
    ("image/png", "image/apng", "image/jpeg", "image/webp", "image/gif", "image/avif")
)
_MAX_NAME = 300  # characters
_IMAGE_NAME = re.compile(r"\.(?:png|apng|jpe?g|webp|gif|avif|svg|bmp|heic|tiff?)$", re.IGNORECASE)
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,", re.IGNORECASE)
_FILE_NAMES = ("name", "title", "file_name", "filename")
_TYPE_NAMES = ("media_type", "mime_type", "mimeType", "content_type", "file_type", "type")
_NESTED_NAMES = ("source", "image_url", "inlineData", "inline_data", "metadata")
_PORTRAIT = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
    '<rect width="100" height="100" fill="hsl({hue} 32% 46%)"/>'
    '<text x="50" y="50" dy=".35em" text-anchor="middle" font-family="system-ui, sans-serif" '
    'font-size="46" font-weight="600" fill="#fff">{initial}</text></svg>'
)


class AttachmentView(NamedTuple):
    number: int
    """Its place among the attachments of the message."""
    name: str
    is_image: bool
    has_picture: bool
    details: str
    """Dimensions or size; empty if they are not known."""


def describe_all(attachments: Sequence[Json]) -> list[AttachmentView]:
    """The attachments of a message. The second description of the same file is left out."""
    views = []
    file_ids = set()
    for number, item in enumerate(attachments):
        fields = item if isinstance(item, Mapping) else {}
        # ChatGPT describes a picture twice.
        file_id = first_text(fields, ("asset_pointer", "id")).rpartition("/")[2]
        if file_id in file_ids:
            continue
        if file_id:
            file_ids.add(file_id)
        name, has_picture, is_image = describe(item), _encoded(item) is not None, _is_image(fields)
        url = first_text(fields, (*_FILE_NAMES, "url"))
        if is_image and (not url or url.startswith("data:")):
            name = "Image"
        views.append(AttachmentView(number, name, is_image, has_picture, _details(fields)))
    return views


def describe(item: Json) -> str:
    """The name and address of an attachment or citation, wherever the source put them."""
    text = item if isinstance(item, str) else ""
    if isinstance(item, Mapping):
        name = first_text(item, _FILE_NAMES) or first_text(item, ("text", "id"))
        address = first_text(item, ("url", "uri"))
        text = name or address
        if name and address and name != address:
            text = f"{name} ({address})"
    if not text and not isinstance(item, str):
        text = json.dumps(item, ensure_ascii=False, default=str)
    return truncate(text, _MAX_NAME)


def _is_image(fields: Mapping[str, Json]) -> bool:
    types = [str(fields.get(name) or "").lower() for name in _TYPE_NAMES]
    if "image_url" in fields or any(t.startswith(("image", "input_image")) for t in types):
        return True
    name = first_text(fields, ("name", "file_name", "filename"))
    return bool(_IMAGE_NAME.search(name)) or _encoded(fields) is not None


def _details(fields: Mapping[str, Json]) -> str:
    width, height = fields.get("width"), fields.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return f"{width} × {height}"
    for name in ("bytes", "size", "size_bytes", "file_size"):
        size = fields.get(name)
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            return file_size(size)
    return ""


def file_size(count: float) -> str:
    """A number of bytes for people: "731 bytes", "12.3 MB"."""
    if count < 1_000:
        return "1 byte" if count == 1 else f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1_000
        if count < 1_000 or unit == "TB":
            break
    return f"{count:.1f} {unit}"


def first_text(item: Mapping[str, Json], names: Sequence[str]) -> str:
    """The first of these fields that has a text, in the item itself or in its metadata."""
    metadata = item.get("metadata")
    for mapping in (item, metadata if isinstance(metadata, Mapping) else {}):
        for name in names:
            value = mapping.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""


# -- pictures ---


def picture(passage: Passage, number: int) -> tuple[str, bytes]:
    """The media type and the bytes of an attached picture. Raises NotFound."""
    if 0 <= number < len(passage.attachments):
        image = decode(passage.attachments[number])
        if image is not None:
            return image
    raise NotFound("The library has no such picture.")


def portrait(library: Library, principal: Principal, id: str) -> tuple[str, bytes]:
    """A character's picture: from its card, or a drawing of its initial. Raises NotFound."""
    summary = library.knowledge.find(CHARACTERS, id)
    passages, _ = library.messages(summary.id, 0, 1)
    for passage in passages:
        for attachment in mask_passage(passage, principal.audience).attachments:
            image = decode(attachment)
            if image is not None:
                return image
    name = storable(summary.title)
    hue = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=2).digest()) % 360
    initial = next((char.upper()[:1] for char in name if char.isalnum()), "?")
    return "image/svg+xml", _PORTRAIT.format(hue=hue, initial=escape(initial)).encode()


def decode(item: Json) -> tuple[str, bytes] | None:
    media_type, text = _encoded(item) or ("", "")
    with suppress(binascii.Error, ValueError):
        return (media_type, base64.b64decode(text, validate=True)) if media_type else None
    return None


def _encoded(item: Json) -> tuple[str, str] | None:
    """The media type and the base64 text of a picture in an attachment."""
    if not isinstance(item, Mapping):
        return None
    for fields in (item, *(item.get(name) for name in _NESTED_NAMES)):
        if not isinstance(fields, Mapping):
            continue
        for name in ("url", "image_url", "data"):
            value = fields.get(name)
            data_url = _DATA_URL.match(value) if isinstance(value, str) else None
            if data_url and data_url.group(1).lower() in IMAGE_TYPES:
                return data_url.group(1).lower(), str(value)[data_url.end() :]
        media_type = first_text(fields, ("media_type", "mimeType", "mime_type")).lower()
        if media_type in IMAGE_TYPES and isinstance(fields.get("data"), str):
            return media_type, fields["data"]
    return None
