"""Transcripts: parse and write SRT, VTT, SBV, JSON and plain text.

The parsers are tolerant: they accept cues without numbers, with empty lines inside or out of order.
In rolling captions, where each cue repeats the line before, every line is read once. Two libraries
were tried and rejected: one refuses a whole file because of one missing number, the other joins
cues whose times have too few digits, and neither supports JSON or rolling captions.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

LATEST = 3_600_000.0
"""The latest valid time, in seconds."""
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_BROKEN_TIMES = re.compile(r"\d\S* *--?> *\d\S*(?:\s|$)")
_LABEL = re.compile(r"(?:(?:>>|-)\s*)?([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,31}){0,3}):(?!\S)\s*")
_NOT_SPEAKERS = frozenset(
    "note notes warning tip example question answer step chapter part update source".split()
)
_MOST_REPEATED_LINES = 8
_ROLLING_GAP = 0.3  # the longest gap between rolling cues, in seconds
_ROLLING_SHARE = 5  # captions are rolling if at least one cue in five continues the one before


class Cue(NamedTuple):
    """What is said from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str
    speaker: str | None = None


class Transcript(NamedTuple):
    """A parsed transcript: cues, or a text without times."""

    format: str
    cues: tuple[Cue, ...] = ()
    text: str = ""
    """The text of a transcript without times; otherwise empty."""
    language: str | None = None


class RawCue(NamedTuple):
    """A cue before rolling captions are unrolled and speakers are recognized."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


def parse(text: str) -> Transcript:
    """Parse a transcript in any format. Without times, its format is "text"."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith(("{", "[")):
        transcript = parse_json(text)
        if transcript is not None:
            return transcript
    lines = _LINE_BREAK.split(text)
    if text.split(maxsplit=1)[:1] == ["WEBVTT"]:
        return Transcript("vtt", make_cues(parse_vtt(lines)), language=vtt_language(lines))
    brackets = [match for match in map(_BRACKETS.match, lines) if match]
    if brackets:  # the console output of Whisper
        cues = make_cues(RawCue(*span(match), clean_lines([match[9]])) for match in brackets)
        return Transcript("lines", cues)
    for format, times in (("srt", _ARROW), ("sbv", _COMMA)):
        if any(map(times.match, lines)):
            return Transcript(format, make_cues(parse_srt(lines, times)))
    return Transcript("text", text=text)


# -- caption files ---

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,:](\d{1,9}))?"
_ARROW = re.compile(rf"\s*{_CLOCK}\s*-{{1,2}}>\s*{_CLOCK}(?!\S)")
_COMMA = re.compile(rf"\s*{_CLOCK},{_CLOCK}\s*$")
_BRACKETS = re.compile(rf"\s*\[{_CLOCK}\s*-->\s*{_CLOCK}\](.*)$")
_TIME = re.compile(rf"\s*{_CLOCK}\s*$")
_VTT_BLOCKS = ("NOTE", "STYLE", "REGION")
_VTT_LANGUAGE = re.compile(r"Language:\s*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\s*$")
_VTT_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s++([^<>]*)>|</v>")
_VTT_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[\d:.]+>")
_SRT_TAG = re.compile(
    r"</?(?:i|b|u|s|em|strong|font|span|c|ruby|rt|lang)(?:[\s.][^<>]*)?>|\{\\[^{}]*\}",
    re.IGNORECASE,
)


def captions(
    lines: Sequence[str], times: re.Pattern[str], *, with_ids: bool = False
) -> Iterator[tuple[re.Match[str], list[str]]]:
    """The times of each cue, and the lines of its text: up to the next cue, also after empty lines.

    The line before the times may be the number of the cue, or any identifier if cues have ids. A
    number without times is no text either.
    """
    cue: re.Match[str] | None = None
    body: list[str] = []
    number = 0
    before, is_kept, starts_block = "", False, True
    for line in lines:
        before_starts_block, starts_block = starts_block, not before.strip()
        match = times.match(line)
        if match is None:
            is_kept = not (starts_block and line.strip() == str(number + 1))
            body += [line] * is_kept
        else:
            own_number = before.strip()[:9] if before.strip().isdecimal() else ""
            is_next = own_number.isascii() and own_number.lstrip("0") == str(number + 1)
            is_own = is_next or (before_starts_block and (own_number or with_ids))
            if is_kept and before.strip() and is_own:
                body.pop()
            number = int(own_number) if own_number and is_own else number + 1
            if cue is not None:
                yield cue, body
            cue, body, is_kept = match, [], False
        before = line
    if cue is not None:
        yield cue, body


def parse_srt(lines: Sequence[str], times: re.Pattern[str]) -> Iterator[RawCue]:
    """The cues of an SRT or SBV file."""
    for match, body in captions(lines, times):
        text = (_SRT_TAG.sub("", line).replace("[br]", " ") for line in body)
        yield RawCue(*span(match), clean_lines(text))


def parse_vtt(lines: Sequence[str]) -> Iterator[RawCue]:
    """The cues of a VTT file, one for each speaker, without header, styles and comments."""
    kept: list[str] = []
    before, in_comment = "", False
    for line in lines:
        if not line.strip() or _ARROW.match(line):
            in_comment = False
        elif not before.strip() and line.partition(" ")[0].strip() in _VTT_BLOCKS:
            in_comment = True
        kept += [line] * (not in_comment)
        before = line
    for match, body in captions(kept, _ARROW, with_ids=True):
        parts = _VTT_VOICE.split("\n".join(body))
        for speaker, text in zip([None, *parts[1::2]], parts[::2], strict=True):
            plain = clean_lines(html.unescape(_VTT_TAG.sub("", part)) for part in text.split("\n"))
            if plain:
                yield RawCue(*span(match), plain, html.unescape(speaker or "").strip() or None)


def vtt_language(lines: Sequence[str]) -> str | None:
    """The language in the header, which ends with an empty line."""
    header = takewhile(str.strip, lines[1:])
    return next((match[1] for match in map(_VTT_LANGUAGE.match, header) if match), None)


def span(match: re.Match[str]) -> tuple[float, float]:
    groups = match.groups()
    start, end = seconds_of(groups[:4]), seconds_of(groups[4:8])
    return start, max(start, end)


def seconds_of(parts: Sequence[str | None]) -> float:
    """The time that the groups of `_CLOCK` stand for, in seconds."""
    hours, minutes, seconds, fraction = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return round(whole + float(f"0.{fraction or 0}"), 3)


# -- JSON ---

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
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields: Mapping[str, Any] = record if isinstance(record, Mapping) else {}
    result = fields.get("result")
    language = fields.get("language") or (isinstance(result, Mapping) and result.get("language"))
    language = language if isinstance(language, str) else None
    segments = next((fields[key] for key in _JSON_SEGMENTS if key in fields), None)
    if isinstance(record, list) and any(map(parse_segment, record[:20])):
        segments = record
    if isinstance(segments, list):
        cues = make_cues(filter(None, map(parse_segment, segments)))
        return Transcript("json", cues, language=language)
    if isinstance(fields.get("text"), str):
        return Transcript("json", text=fields["text"], language=language)
    return None


def parse_segment(record: Any) -> RawCue | None:
    """A segment in the fields of various programs; None if it has no text or no time."""
    if not isinstance(record, Mapping):
        return None
    text = next((record[key] for key in ("text", "body") if isinstance(record.get(key), str)), None)
    parts = record.get("segs")
    if text is None and isinstance(parts, list):
        text = "".join(str(part.get("utf8") or "") for part in parts if isinstance(part, Mapping))
    start, end = segment_times(record)
    lines = clean_lines(_LINE_BREAK.split(text or ""))
    if start is None or not lines:
        return None
    speaker = record.get("speaker")
    name = speaker.strip() if isinstance(speaker, str) else ""
    return RawCue(start, max(start, end or start), lines, name or None)


def segment_times(record: Mapping[str, Any]) -> tuple[float | None, float | None]:
    for key, units_per_second in (("offsets", 1000), ("timestamps", 1)):
        times = record.get(key)
        if isinstance(times, Mapping):
            start = parse_time(times.get("from"), units_per_second)
            return start, parse_time(times.get("to"), units_per_second)
    for start_key, end_key, duration_key, units_per_second in _JSON_TIMES:
        start = parse_time(record.get(start_key), units_per_second)
        if start is not None:
            duration = parse_time(record.get(duration_key), units_per_second)
            if duration is not None:
                return start, start + duration
            return start, parse_time(record.get(end_key), units_per_second)
    return None, None


def parse_time(value: Any, units_per_second: int) -> float | None:
    if isinstance(value, str):
        match = _TIME.match(value)
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


# -- cues ---


def make_cues(raw_cues: Iterable[RawCue]) -> tuple[Cue, ...]:
    """The cues in order, without duplicates and repeated lines, with their speakers."""
    valid = [cue for cue in raw_cues if cue.lines and cue.start <= LATEST]
    valid.sort(key=lambda cue: cue.start)
    return tuple(with_speakers(unroll(list(dict.fromkeys(valid)))))


def clean_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines without empty lines and broken times."""
    clean = []
    for line in lines:
        line = line.strip()
        if not line or ("->" in line and _BROKEN_TIMES.match(line)):
            continue
        if not line.isprintable():
            line = _LINE_BREAK.sub(" ", line)
        clean.append(line)
    return tuple(clean)


def unroll(cues: Sequence[RawCue]) -> Sequence[RawCue]:
    """Remove the lines that rolling captions repeat.

    In captions that do not roll, repeated lines are what people said twice, so they stay.
    """
    repeats = [repetition(before, cue) for before, cue in pairwise(cues)]
    rolling = sum(
        lines > 0 and before.lines != cue.lines
        for (lines, _), (before, cue) in zip(repeats, pairwise(cues), strict=True)
    )
    if not rolling or rolling * _ROLLING_SHARE < len(repeats):
        return cues
    result = [cues[0]]
    for (lines, characters), cue in zip(repeats, cues[1:], strict=True):
        if not lines:
            result.append(cue)
            continue
        fresh = clean_lines((cue.lines[lines - 1][characters:], *cue.lines[lines:]))
        if fresh:
            result.append(cue._replace(lines=fresh))
        else:
            result[-1] = result[-1]._replace(end=max(result[-1].end, cue.end))
    return result


def repetition(before: RawCue, cue: RawCue) -> tuple[int, int]:
    """How many lines a cue repeats from the one before, and how many characters of the last."""
    if cue.start > before.end + _ROLLING_GAP or before.speaker != cue.speaker:
        return 0, 0
    last = before.lines[-1]
    most = min(len(before.lines), len(cue.lines), _MOST_REPEATED_LINES)
    for count in range(most, 0, -1):
        same = before.lines[-count:-1] == cue.lines[: count - 1]
        candidate = cue.lines[count - 1]
        if same and (candidate == last or candidate.startswith(last + " ")):
            return count, len(last)
    return 0, 0


def with_speakers(cues: Sequence[RawCue]) -> Iterator[Cue]:
    """The cues with their speakers.

    A speaker is written before the text as `NAME:`, or as `Name:` if the name occurs repeatedly.
    """
    labels = (_LABEL.match(line) for cue in cues for line in cue.lines)
    counts = Counter(label[1] for label in labels if label)

    def is_speaker(name: str) -> bool:
        words = name.split()
        if words[0].lower() in _NOT_SPEAKERS:
            return False
        if name.isupper() and len(name) > 1:
            return True
        is_capitalized = name[0].isupper() and not any(word[0].islower() for word in words)
        return is_capitalized and counts[name] > 1

    for cue in cues:
        speaker = cue.speaker
        text: list[str] = []
        for line in cue.lines:
            label = None if cue.speaker else _LABEL.match(line)
            if label and is_speaker(label[1]):
                if text:
                    yield Cue(cue.start, cue.end, "\n".join(text), speaker)
                speaker, line = label[1], line[label.end() :]
                text = []
            if line:
                text.append(line)
        if text:
            yield Cue(cue.start, cue.end, "\n".join(text), speaker)


# -- writing ---

FORMATS = ("text", "srt", "vtt", "json")
"""Formats that can be written."""


def write(
    cues: Iterable[Cue], format: str = "text", timestamps: bool = True, first: int = 1
) -> Any:
    """A transcript as "text", "srt", "vtt" or "json". SRT and VTT always have times.

    `first` is the number of the first cue.
    """
    if format == "srt":
        return "".join(
            f"{number}\n{clock(cue.start, ',')} --> {clock(cue.end, ',')}\n"
            f"{speaker_prefix(cue)}{text_lines(cue.text.replace('-->', '→'))}\n\n"
            for number, cue in enumerate(cues, first)
        )
    if format == "vtt":
        blocks = (
            f"{clock(cue.start)} --> {clock(cue.end)}\n{vtt_voice(cue)}"
            f"{text_lines(html.escape(cue.text, quote=False))}\n\n"
            for cue in cues
        )
        return "WEBVTT\n\n" + "".join(blocks)
    if format == "json":
        return {"segments": [_segment(cue, timestamps) for cue in cues]}
    if format == "text":
        return "\n".join(
            f"[{clock(cue.start)[:8]}] " * timestamps
            + speaker_prefix(cue)
            + text_lines(cue.text, " ")
            for cue in cues
        )
    raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}.")


def clock(seconds: float, point: str = ".") -> str:
    """A time as players display it: 01:02:03.400."""
    total, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole_seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{whole_seconds:02}{point}{milliseconds:03}"


def text_lines(text: str, separator: str = "\n") -> str:
    return separator.join(clean_lines(_LINE_BREAK.split(text)))


def speaker_prefix(cue: Cue) -> str:
    return f"{cue.speaker}: " if cue.speaker else ""


def vtt_voice(cue: Cue) -> str:
    return f"<v {html.escape(cue.speaker, quote=False)}>" if cue.speaker else ""


def _segment(cue: Cue, timestamps: bool) -> dict[str, Any]:
    segment: dict[str, Any] = {"start": cue.start, "end": cue.end} if timestamps else {}
    segment["text"] = cue.text
    if cue.speaker:
        segment["speaker"] = cue.speaker
    return segment
