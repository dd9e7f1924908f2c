"""Transcripts in JSON: of Whisper, whisper.cpp, YouTube, podcasts and Recollect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recollect.language.transcripts.captions import TIME, seconds_of
from recollect.language.transcripts.cues import (
    LATEST,
    LINE_BREAK,
    RawCue,
    Transcript,
    clean_lines,
    make_cues,
)

_JSON_SEGMENTS = ("segments", "transcription", "events", "cues")
# The fields of a segment for its start, its end and its duration, and how many units a second has.
_JSON_TIMES = (
    ("start", "end", "duration", 1),
    ("startTime", "endTime", "duration", 1),
    ("tStartMs", "tEndMs", "dDurationMs", 1000),
)


def parse_json(text: str) -> Transcript | None:
    """The JSON of Whisper, whisper.cpp, YouTube, a podcast or Recollect; None for other JSON."""
    try:
        record = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    language = _json_language(record)
    segments = _json_segments(record)
    if segments is not None:
        cues = make_cues(filter(None, map(_parse_segment, segments)))
        return Transcript("json", cues, language=language)
    if isinstance(record, Mapping) and isinstance(record.get("text"), str):
        return Transcript("json", text=record["text"], language=language)
    return None


def _json_segments(record: Any) -> list[Any] | None:
    if isinstance(record, list):
        if any(_parse_segment(item) for item in record[:20]):
            return record
        return None
    if not isinstance(record, Mapping):
        return None
    for key in _JSON_SEGMENTS:
        if key in record:
            segments = record[key]
            if isinstance(segments, list):
                return segments
            return None
    return None


def _json_language(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return None
    language = record.get("language")
    result = record.get("result")
    if not language and isinstance(result, Mapping):
        language = result.get("language")
    if not isinstance(language, str):
        return None
    return language


def _parse_segment(record: Any) -> RawCue | None:
    if not isinstance(record, Mapping):
        return None
    text = _segment_text(record)
    start, end = _segment_times(record)
    if text is None or start is None:
        return None
    lines = clean_lines(LINE_BREAK.split(text))
    if not lines:
        return None
    speaker = record.get("speaker")
    if not isinstance(speaker, str):
        speaker = ""
    if end is None:
        end = start
    return RawCue(start, max(start, end), lines, speaker.strip() or None)


def _segment_text(record: Mapping[str, Any]) -> str | None:
    for key in ("text", "body"):
        text = record.get(key)
        if isinstance(text, str):
            return text
    parts = record.get("segs")
    if isinstance(parts, list):
        return "".join(str(part.get("utf8") or "") for part in parts if isinstance(part, Mapping))
    return None


def _segment_times(record: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The start and end of a segment, in the fields of various programs."""
    for key, units_per_second in (("offsets", 1000), ("timestamps", 1)):
        times = record.get(key)
        if isinstance(times, Mapping):
            start = _parse_time(times.get("from"), units_per_second)
            return start, _parse_time(times.get("to"), units_per_second)
    for start_key, end_key, duration_key, units_per_second in _JSON_TIMES:
        start = _parse_time(record.get(start_key), units_per_second)
        if start is None:
            continue
        duration = _parse_time(record.get(duration_key), units_per_second)
        if duration is not None:
            return start, start + duration
        return start, _parse_time(record.get(end_key), units_per_second)
    return None, None


def _parse_time(value: Any, units_per_second: int) -> float | None:
    if isinstance(value, str):
        match = TIME.match(value)
        if match:
            return seconds_of(match.groups())
        try:
            value = float(value[:40])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= LATEST * units_per_second:  # also false for NaN
        return None
    return round(value / units_per_second, 3)
