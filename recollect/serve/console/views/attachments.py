"""Attachments of messages: names, descriptions, and pictures that the library has.

Sources describe attachments in many ways. Most exports contain only a description, so a picture is
often missing. No picture is fetched from another server.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.model.documents import Json, Passage
from recollect.serve.console.views.portraits import IMAGE_TYPES

_MAX_NAME = 300  # characters
_IMAGE_NAME = re.compile(r"\.(?:png|apng|jpe?g|webp|gif|avif|svg|bmp|heic|tiff?)$", re.IGNORECASE)
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,", re.IGNORECASE)
_TYPE_NAMES = ("media_type", "mime_type", "mimeType", "content_type", "file_type", "type")
_NESTED_NAMES = ("source", "image_url", "inlineData", "inline_data", "metadata")


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
        file_id = _file_id(item)
        if file_id in file_ids:
            continue
        if file_id:
            file_ids.add(file_id)
        views.append(_view(number, item))
    return views


def picture(passage: Passage, number: int) -> tuple[str, bytes]:
    """The media type and the bytes of an attached picture. Raises NotFound."""
    if 0 <= number < len(passage.attachments):
        image = _decode(passage.attachments[number])
        if image is not None:
            return image
    raise NotFound("The library has no such picture.")


def describe(item: Json) -> str:
    """The name and address of an attachment or citation, wherever the source put them."""
    if isinstance(item, str):
        return truncate(item, _MAX_NAME)
    if isinstance(item, Mapping):
        name = _first_text(item, ("name", "title", "file_name", "filename"))
        name = name or _first_text(item, ("text", "id"))
        address = _first_text(item, ("url", "uri"))
        if name and address and name != address:
            return truncate(f"{name} ({address})", _MAX_NAME)
        if name or address:
            return truncate(name or address, _MAX_NAME)
    return truncate(json.dumps(item, ensure_ascii=False, default=str), _MAX_NAME)


def _view(number: int, item: Json) -> AttachmentView:
    is_image = _is_image(item)
    name = describe(item)
    if is_image and not _has_name(item):
        name = "Image"
    return AttachmentView(number, name, is_image, _encoded(item) is not None, _details(item))


def _has_name(item: Json) -> bool:
    if not isinstance(item, Mapping):
        return False
    name = _first_text(item, ("name", "title", "file_name", "filename", "url"))
    return bool(name) and not name.startswith("data:")


def _is_image(item: Json) -> bool:
    if not isinstance(item, Mapping):
        return False
    for name in _TYPE_NAMES:
        if str(item.get(name) or "").lower().startswith(("image", "input_image")):
            return True
    if "image_url" in item:
        return True
    name = _first_text(item, ("name", "file_name", "filename"))
    return bool(_IMAGE_NAME.search(name)) or _encoded(item) is not None


def _details(item: Json) -> str:
    if not isinstance(item, Mapping):
        return ""
    width, height = item.get("width"), item.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return f"{width} × {height}"
    for name in ("bytes", "size", "size_bytes", "file_size"):
        size = item.get(name)
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            return _format_size(size)
    return ""


def _format_size(size: int) -> str:
    if size < 1_000:
        return f"{size} bytes"
    if size < 1_000_000:
        return f"{size / 1_000:.0f} kB"
    return f"{size / 1_000_000:.1f} MB"


def _file_id(item: Json) -> str:
    """What identifies a file that a source describes twice, as ChatGPT does with pictures."""
    if not isinstance(item, Mapping):
        return ""
    pointer = _first_text(item, ("asset_pointer", "id"))
    return pointer.rpartition("/")[2]


# -- pictures ---


def _decode(item: Json) -> tuple[str, bytes] | None:
    encoded = _encoded(item)
    if encoded is None:
        return None
    media_type, text = encoded
    try:
        return media_type, base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encoded(item: Json) -> tuple[str, str] | None:
    """The media type and the base64 text of a picture in an attachment."""
    for fields in _mappings(item):
        for name in ("url", "image_url", "data"):
            value = fields.get(name)
            if not isinstance(value, str):
                continue
            data_url = _DATA_URL.match(value)
            if data_url and data_url.group(1).lower() in IMAGE_TYPES:
                return data_url.group(1).lower(), value[data_url.end() :]
        media_type = _first_text(fields, ("media_type", "mimeType", "mime_type")).lower()
        if media_type in IMAGE_TYPES and isinstance(fields.get("data"), str):
            return media_type, fields["data"]
    return None


def _mappings(item: Json) -> Iterator[Mapping[str, Json]]:
    if not isinstance(item, Mapping):
        return
    yield item
    for name in _NESTED_NAMES:
        nested = item.get(name)
        if isinstance(nested, Mapping):
            yield nested


def _first_text(item: Mapping[str, Json], names: Sequence[str]) -> str:
    """The first of these fields that has a text, in the item itself or in its metadata."""
    mappings = [item]
    metadata = item.get("metadata")
    if isinstance(metadata, Mapping):
        mappings.append(metadata)
    for mapping in mappings:
        for name in names:
            value = mapping.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""
