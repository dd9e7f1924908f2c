"""Pictures: the text in their metadata. The picture itself is not analysed."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import Any

from recollect.importers.documents.extract import (
    Extract,
    join_paragraphs,
    parse_date,
    read_bytes,
    require,
    split_keywords,
)
from recollect.importers.documents.package import parse_xml
from recollect.importers.entries import Entry, Unreadable

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".avif", ".heic", ".heif"}
)

_FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "GIF", "TIFF", "BMP", "AVIF")
_OPTIONAL = (".heic", ".heif", ".avif")
"""Formats that Pillow may not support. Such a file is imported by its name alone."""
_DAMAGED_METADATA = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    SyntaxError,
    OSError,
    struct.error,
)
_MAX_XMP_BYTES = 4_000_000
_EXIF_IFD = 0x8769
_DESCRIPTION, _ARTIST, _DATE_TIME = 0x010E, 0x013B, 0x0132
_DATE_TIME_ORIGINAL, _USER_COMMENT = 0x9003, 0x9286
# Tags that Windows writes
_XP_TITLE, _XP_COMMENT, _XP_AUTHOR, _XP_KEYWORDS, _XP_SUBJECT = range(0x9C9B, 0x9CA0)
_TEXT_KEYS = ("description", "comment", "parameters", "prompt", "usercomment")
_CAMERA_TEXT = re.compile(
    r"(?:OLYMPUS|SONY|SAMSUNG|KONICA|MINOLTA) .*|DCF.*|default|ASCII|binary comment", re.IGNORECASE
)


def extract(entry: Entry) -> Extract:
    require("PIL")
    from PIL import Image, UnidentifiedImageError

    data = read_bytes(entry)
    Image.init()  # loads the less common formats
    formats = [name for name in _FORMATS if name in Image.OPEN]
    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            try:
                return read_metadata(image)
            except _DAMAGED_METADATA:
                return Extract()  # it can still be found by its name
    except UnidentifiedImageError as error:
        if entry.basename.lower().endswith(_OPTIONAL):
            return Extract()
        raise Unreadable("damaged, or not a picture") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Unreadable("its declared size is too large for a picture") from error


def read_metadata(image: Any) -> Extract:
    """The metadata in the file's header. The pixels are not decoded."""
    exif = image.getexif()
    details = exif.get_ifd(_EXIF_IFD)
    info = {
        str(key).lower(): _text(value)
        for key, value in image.info.items()
        if isinstance(value, str | bytes)
    }
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
    packet = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
    is_xmp = isinstance(packet, bytes) and len(packet) <= _MAX_XMP_BYTES
    xmp = parse_xml(packet) if is_xmp else None
    texts = [
        *xmp_values(xmp, "description"),
        _text(exif.get(_DESCRIPTION)),
        *(utf16_text(exif.get(tag)) for tag in (_XP_SUBJECT, _XP_COMMENT)),
        user_comment(details.get(_USER_COMMENT)),
        *(info[key] for key in _TEXT_KEYS if key in info),
    ]
    titles = [*xmp_values(xmp, "title"), utf16_text(exif.get(_XP_TITLE)), info.get("title", "")]
    authors = [
        *xmp_values(xmp, "creator"),
        _text(exif.get(_ARTIST)),
        utf16_text(exif.get(_XP_AUTHOR)),
        info.get("author", ""),
    ]
    tags = [
        *xmp_values(xmp, "subject"),
        *split_keywords(utf16_text(exif.get(_XP_KEYWORDS))),
        *split_keywords(info.get("keywords")),
    ]
    date = _text(details.get(_DATE_TIME_ORIGINAL)) or _text(exif.get(_DATE_TIME))
    return Extract(
        text=join_paragraphs(
            dict.fromkeys(text for text in texts if not _CAMERA_TEXT.fullmatch(text))
        ),
        title=next(filter(None, titles), ""),
        author=next(filter(None, authors), ""),
        created_at=parse_date(date.replace(":", "-", 2)),
        tags=tuple(dict.fromkeys(tags)),
    )


def xmp_values(xmp: Any, name: str) -> Iterator[str]:
    """The values of an XMP property: its list items, or its text."""
    if xmp is None:
        return
    for element in xmp.iter(f"{{http://purl.org/dc/elements/1.1/}}{name}"):
        values = [item.text for item in element.iter("{*}li")] or [element.text]
        yield from (text.strip() for text in values if text and text.strip())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return ""
    return value.replace("\0", "").strip()


def utf16_text(value: Any) -> str:
    """Text in UTF-16, as Windows writes it."""
    if not isinstance(value, bytes | tuple):
        return ""
    return _text(bytes(value).decode("utf-16-le", "replace"))


def user_comment(value: Any) -> str:
    """A comment, which begins with the name of its encoding."""
    if not isinstance(value, bytes):
        return _text(value)
    encoding, comment = value[:8], value[8:]
    if encoding == b"UNICODE\0":
        byte_order = "utf-16-be" if comment[:1] == b"\0" else "utf-16-le"
        return _text(comment.decode(byte_order, "replace"))
    if encoding in (b"ASCII\0\0\0", b"\0" * 8):
        return _text(comment)
    return _text(value)
