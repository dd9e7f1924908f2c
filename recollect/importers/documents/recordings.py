"""Audio and video: what is said in them, from a transcript beside them or made by a program."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from recollect.importers.beside import AUDIO, description_of, split, transcript_of, without_language
from recollect.importers.documents import transcriber
from recollect.importers.documents.extract import Extract, contents, day
from recollect.importers.entries import Entry
from recollect.importers.records import as_list, string_or_none
from recollect.importers.texts import Text, Unreadable, decoded
from recollect.language.text import moment
from recollect.language.transcript import parse
from recollect.settings import LIMITS

_OLD = (
    "cp1252",
    "gb18030",
    "big5",
    "shift_jis",
    "euc_kr",
    "cp1251",
    "cp1250",
    "cp1253",
    "cp1255",
    "cp1256",
)
"""Encodings in which subtitles were written before UTF-8."""
_SAMPLE = 65_536


def extract(entry: Entry) -> Extract:
    """A recording, with its transcript."""
    beside = transcript_of(entry)
    if beside is not None:
        said = _said(contents(beside, LIMITS.transcript_bytes))
        said = said._replace(
            language=said.language or without_language(split(beside.basename)[0])[1]
        )
    elif transcriber.configured():
        said = _said(transcriber.transcribe(entry))
    else:
        raise Unreadable(
            "no transcript: put a .srt, .vtt, .sbv, .json or .txt file of the same name beside it, "
            f"or set {transcriber.SETTING} to a command that makes one"
        )
    return _described(entry, _tagged(entry, said))


def alone(entry: Entry) -> Extract:
    """A transcript without its recording."""
    name, language = without_language(split(entry.basename)[0])
    said = _said(contents(entry, LIMITS.transcript_bytes))
    return _described(
        entry, said._replace(media_type=_kind(name, "video"), language=said.language or language)
    )


def decoded_text(data: bytes) -> Text:
    """Text in an encoding that must be guessed where it is not UTF-8 or marked."""
    found = decoded(data)
    if found.encoding is None:
        return found
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE], cp_isolation=list(_OLD)).best()
    if best is None:
        return found
    return Text(
        data.decode(best.encoding, "replace").replace("\r\n", "\n").replace("\r", "\n"),
        best.encoding,
    )


def _said(data: bytes) -> Extract:
    text, encoding = decoded_text(data)
    found = parse(text)
    if not found.cues and not found.text.strip():
        raise Unreadable("nothing is said in its transcript")
    return Extract(found.text, cues=found.cues, language=found.language or "", encoding=encoding)


# -- what is said of it ------------------------------------------------------


def _tagged(entry: Entry, said: Extract) -> Extract:
    """With what the recording itself says: its title, who made it, how long it is."""
    from tinytag import TinyTag

    kind = "audio" if split(entry.basename)[1] in AUDIO else "video"
    try:
        if entry.path is not None:
            tags: Any = TinyTag.get(entry.path)
        else:
            data = io.BytesIO(contents(entry))
            tags = TinyTag.get(entry.basename, file_obj=data)
    except (
        Exception
    ):  # it has tags for players, and whatever is wrong with them does no harm to the transcript
        tags = None
    return said._replace(
        media_type=_kind(f"{entry.basename} {getattr(tags, 'genre', '') or ''}", kind),
        title=getattr(tags, "title", "") or "",
        author=getattr(tags, "artist", "") or "",
        duration=round(tags.duration, 3) if tags is not None and tags.duration else None,
        created_at=day(getattr(tags, "year", "")),
    )


def _kind(text: str, otherwise: str) -> str:
    """What the name of a recording says that it is."""
    text = text.lower()
    return "podcast" if "podcast" in text else "audio" if "audio" in text else otherwise


def _described(entry: Entry, said: Extract) -> Extract:
    """With what a downloader wrote down of the page from which it is."""
    beside = description_of(entry)
    about = _record(beside) if beside is not None else {}
    if not about:
        return said
    seconds = about.get("duration")
    silent = about.get("vcodec") == "none" and said.media_type == "video"
    return said._replace(
        title=string_or_none(about.get("title")) or said.title,
        author=string_or_none(about.get("uploader"))
        or string_or_none(about.get("channel"))
        or said.author,
        url=string_or_none(about.get("webpage_url"))
        or string_or_none(about.get("original_url"))
        or said.url,
        language=string_or_none(about.get("language")) or said.language,
        duration=float(seconds)
        if isinstance(seconds, int | float) and 0 < seconds < 1e9
        else said.duration,
        created_at=moment(about.get("timestamp"))
        or day(string_or_none(about.get("upload_date")))
        or said.created_at,
        tags=tuple(
            dict.fromkeys(tag for tag in as_list(about.get("tags")) if isinstance(tag, str) and tag)
        ),
        media_type="audio" if silent else said.media_type,
    )


def _record(entry: Entry) -> Mapping[str, Any]:
    try:
        found = json.loads(contents(entry, LIMITS.transcript_bytes))
    except (ValueError, RecursionError):  # Unreadable is one
        return {}
    return found if isinstance(found, dict) else {}
