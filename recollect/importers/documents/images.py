"""Pictures: what somebody wrote into them or beside them. What they show nobody reads."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import Any

from recollect.importers.documents.extract import Extract, contents, day, joined, listed
from recollect.importers.documents.zipped import parsed
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable

ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".avif", ".heic", ".heif"}
)

_OPENED = ("PNG", "JPEG", "MPO", "WEBP", "GIF", "TIFF", "BMP", "AVIF")
_UNOPENED = frozenset({".heic", ".heif", ".avif"})
"""What is taken by its name alone where it cannot be opened."""
_DETAILS = 0x8769
_DESCRIPTION, _ARTIST, _CHANGED, _TAKEN, _COMMENT = 0x010E, 0x013B, 0x0132, 0x9003, 0x9286
_TITLE_XP, _COMMENT_XP, _AUTHOR_XP, _KEYWORDS_XP, _SUBJECT_XP = (
    0x9C9B,
    0x9C9C,
    0x9C9D,
    0x9C9E,
    0x9C9F,
)
_TEXTS = ("description", "comment", "parameters", "prompt", "usercomment")
_CAMERA = re.compile(
    r"(?:OLYMPUS|SONY|SAMSUNG|KONICA|MINOLTA) .*|DCF.*|default|ASCII|binary comment", re.IGNORECASE
)
_DATE = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)")


def extract(entry: Entry) -> Extract:
    from PIL import Image, UnidentifiedImageError

    data = contents(entry)
    Image.init()  # else it knows only some kinds
    try:
        with Image.open(
            io.BytesIO(data), formats=[kind for kind in _OPENED if kind in Image.OPEN]
        ) as image:
            try:
                return _said(image)
            except (
                ValueError,
                TypeError,
                KeyError,
                IndexError,
                SyntaxError,
                OSError,
                struct.error,
            ):
                return Extract()  # what is said of it is damaged; it still has a name
    except UnidentifiedImageError as error:
        if entry.basename.lower().endswith(tuple(_UNOPENED)):
            return Extract()
        raise Unreadable("damaged, or not a picture") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Unreadable("it claims to be larger than any picture should be") from error


def _said(image: Any) -> Extract:
    """What the picture's head says; its points are never unpacked."""
    exif = image.getexif()
    details = exif.get_ifd(_DETAILS)
    info = {
        str(key).lower(): _words(value)
        for key, value in image.info.items()
        if isinstance(value, str | bytes)
    }
    xmp = parsed(_bytes(image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")))
    texts = [
        *_listed(xmp, "description"),
        _words(exif.get(_DESCRIPTION)),
        *(_wide(exif.get(tag)) for tag in (_SUBJECT_XP, _COMMENT_XP)),
        _user_comment(details.get(_COMMENT)),
        *(info[key] for key in _TEXTS if key in info),
    ]
    titles = [*_listed(xmp, "title"), _wide(exif.get(_TITLE_XP)), info.get("title", "")]
    authors = [
        *_listed(xmp, "creator"),
        _words(exif.get(_ARTIST)),
        _wide(exif.get(_AUTHOR_XP)),
        info.get("author", ""),
    ]
    tags = [
        *_listed(xmp, "subject"),
        *listed(_wide(exif.get(_KEYWORDS_XP))),
        *listed(info.get("keywords")),
    ]
    taken = _DATE.sub(r"\1-\2-\3T\4", _words(details.get(_TAKEN)) or _words(exif.get(_CHANGED)))
    return Extract(
        text=joined(dict.fromkeys(text for text in texts if text and not _CAMERA.fullmatch(text))),
        title=next(filter(None, titles), ""),
        author=next(filter(None, authors), ""),
        created_at=day(taken),
        tags=tuple(dict.fromkeys(tags)),
    )


def _listed(xmp: Any, name: str) -> Iterator[str]:
    """The values of a property of XMP: its items, or the one text that it is."""
    for element in () if xmp is None else xmp.iter(f"{{http://purl.org/dc/elements/1.1/}}{name}"):
        items = [item.text for item in element.iter("{*}li")] or [element.text]
        yield from (text.strip() for text in items if text and text.strip())


def _bytes(value: Any) -> bytes:
    return (
        value.encode("utf-8", "replace")
        if isinstance(value, str)
        else value
        if isinstance(value, bytes)
        else b""
    )


def _words(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text.replace("\0", "").strip() if isinstance(text, str) else ""


def _wide(value: Any) -> str:
    """What Windows writes: UTF-16 as bytes."""
    data = bytes(value) if isinstance(value, bytes | tuple) else b""
    return data.decode("utf-16-le", "replace").replace("\0", "").strip()


def _user_comment(value: Any) -> str:
    """A comment with its encoding before it."""
    if not isinstance(value, bytes):
        return _words(value)
    kind, text = value[:8], value[8:]
    if kind == b"UNICODE\0":
        return (
            text.decode("utf-16-be" if text[:1] == b"\0" else "utf-16-le", "replace")
            .replace("\0", "")
            .strip()
        )
    return _words(text if kind in (b"ASCII\0\0\0", b"\0" * 8) else value)
