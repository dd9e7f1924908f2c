"""Audio and video: their transcript, which is a file of the same name."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from recollect.importers.documents.extract import Extract, parse_date, read_bytes, require
from recollect.importers.entries import Entry, Unreadable
from recollect.importers.records import Text, as_list, decode_text, string_or_none
from recollect.importers.sidecars import (
    AUDIO,
    description_of,
    split,
    split_language,
    transcript_of,
)
from recollect.language.text import moment
from recollect.language.transcript import parse
from recollect.settings import LIMITS

_OLD_ENCODINGS = "cp1252 gb18030 big5 shift_jis euc_kr cp1251 cp1250 cp1253 cp1255 cp1256".split()
"""Common encodings of subtitles before UTF-8."""
_SAMPLE_BYTES = 65_536


def extract(entry: Entry) -> Extract:
    """A recording with its transcript."""
    transcript = transcript_of(entry)
    if transcript is not None:
        extract = parse_transcript(read_bytes(transcript, LIMITS.transcript_bytes))
        _, language = split_language(split(transcript.basename)[0])
        extract = extract._replace(language=extract.language or language)
    else:
        raise Unreadable("no transcript: add a .srt, .vtt, .sbv, .json or .txt of the same name")
    return with_description(entry, with_tags(entry, extract))


def extract_transcript(entry: Entry) -> Extract:
    """A transcript without its recording."""
    name, language = split_language(split(entry.basename)[0])
    extract = parse_transcript(read_bytes(entry, LIMITS.transcript_bytes))
    extract = extract._replace(
        media_type=_media_type(name, "video"), language=extract.language or language
    )
    return with_description(entry, extract)


def guess_text(data: bytes) -> Text:
    """Decode text. Its encoding is guessed if it is not UTF-8 and has no byte-order mark."""
    text = decode_text(data)
    if text.encoding is None:
        return text
    require("charset_normalizer")
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=_OLD_ENCODINGS).best()
    if best is None:
        return text
    decoded = data.decode(best.encoding, "replace")
    return Text(decoded.replace("\r\n", "\n").replace("\r", "\n"), best.encoding)


def parse_transcript(data: bytes) -> Extract:
    text, encoding = guess_text(data)
    transcript = parse(text)
    if not transcript.cues and not transcript.text.strip():
        raise Unreadable("its transcript is empty")
    return Extract(
        transcript.text,
        cues=transcript.cues,
        language=transcript.language or "",
        encoding=encoding,
    )


# -- metadata ----------------------------------------------------------------


def with_tags(entry: Entry, extract: Extract) -> Extract:
    """Add what the recording says about itself: title, author, duration."""
    require("tinytag")
    from tinytag import TinyTag

    try:
        if entry.path is not None:
            tags: Any = TinyTag.get(entry.path)
        else:
            tags = TinyTag.get(entry.basename, file_obj=io.BytesIO(read_bytes(entry)))
    except Exception:  # damaged tags do not affect the transcript
        tags = None
    genre = getattr(tags, "genre", "") or ""
    duration = getattr(tags, "duration", None)
    default = "audio" if split(entry.basename)[1] in AUDIO else "video"
    return extract._replace(
        media_type=_media_type(f"{entry.basename} {genre}", default),
        title=getattr(tags, "title", "") or "",
        author=getattr(tags, "artist", "") or "",
        duration=round(duration, 3) if duration else None,
        created_at=parse_date(getattr(tags, "year", "")),
    )


def _media_type(text: str, default: str) -> str:
    """The media type that the name of a recording suggests."""
    text = text.lower()
    for media_type in ("podcast", "audio"):
        if media_type in text:
            return media_type
    return default


def with_description(entry: Entry, extract: Extract) -> Extract:
    """Add what a downloader wrote about the page of a recording."""
    sidecar = description_of(entry)
    record = None
    if sidecar is not None:
        with suppress(ValueError, RecursionError):  # includes Unreadable
            record = json.loads(read_bytes(sidecar, LIMITS.transcript_bytes))
    if not isinstance(record, dict) or not record:
        return extract
    duration = record.get("duration")
    if not isinstance(duration, int | float) or not 0 < duration < 1e9:
        duration = extract.duration
    media_type = extract.media_type
    if media_type == "video" and record.get("vcodec") == "none":
        media_type = "audio"
    upload_date = parse_date(string_or_none(record.get("upload_date")))
    created_at = moment(record.get("timestamp")) or upload_date
    tags = [tag for tag in as_list(record.get("tags")) if isinstance(tag, str) and tag]
    return extract._replace(
        title=first_string(record, "title") or extract.title,
        author=first_string(record, "uploader", "channel") or extract.author,
        url=first_string(record, "webpage_url", "original_url") or extract.url,
        language=first_string(record, "language") or extract.language,
        duration=None if duration is None else float(duration),
        created_at=created_at or extract.created_at,
        tags=tuple(dict.fromkeys(tags)),
        media_type=media_type,
    )


def first_string(record: Mapping[str, Any], *names: str) -> str:
    return next(filter(None, (string_or_none(record.get(name)) for name in names)), "")
