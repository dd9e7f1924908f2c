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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
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
    if _VTT_HEADER.match(text):
        lines = _LINE_BREAK.split(text)
        return Transcript("vtt", make_cues(parse_vtt(lines)), language=vtt_language(lines))
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        transcript = parse_json(text)
        if transcript is not None:
            return transcript
    text = text.removeprefix("\ufeff")
    lines = _LINE_BREAK.split(text)
    if any(_BRACKETS.match(line) for line in lines):
        return Transcript("lines", make_cues(parse_whisper(lines)))
    for format, times in (("srt", _ARROW), ("sbv", _COMMA)):
        if any(times.match(line) for line in lines):
            return Transcript(format, make_cues(parse_blocks(lines, times)))
    return Transcript("text", text=text)


# -- caption files ---

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,:](\d{1,9}))?"
_ARROW = re.compile(rf"\s*{_CLOCK}\s*-{{1,2}}>\s*{_CLOCK}(?!\S)")
_COMMA = re.compile(rf"\s*{_CLOCK},{_CLOCK}\s*$")
_BRACKETS = re.compile(rf"\s*\[{_CLOCK}\s*-->\s*{_CLOCK}\](.*)$")
_TIME = re.compile(rf"\s*{_CLOCK}\s*$")
_NUMBER = re.compile(r"\s*(\d{1,9})\s*$")
_VTT_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?!\S)")
_VTT_HEADER = re.compile(r"\ufeff?\s*WEBVTT(?!\S)")
_VTT_LANGUAGE = re.compile(r"Language:\s*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\s*$")
_VTT_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s++([^<>]*)>|</v>")
_VTT_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[\d:.]+>")
_SRT_TAG = re.compile(
    r"</?(?:i|b|u|s|em|strong|font|span|c|ruby|rt|lang)(?:[\s.][^<>]*)?>|\{\\[^{}]*\}",
    re.IGNORECASE,
)


def parse_whisper(lines: Sequence[str]) -> Iterator[RawCue]:
    """The console output of Whisper: lines like `[00:01.000 --> 00:02.000] Hello`."""
    for line in lines:
        match = _BRACKETS.match(line)
        if match:
            yield RawCue(*span(match), clean_lines([match[9]]))


class _Block(NamedTuple):
    """A cue of an SRT or SBV file: its times, its number and the lines of its text."""

    times: re.Match[str]
    number: int
    first_line: int
    end_line: int


def parse_blocks(lines: Sequence[str], times: re.Pattern[str]) -> Iterator[RawCue]:
    """SRT and SBV: a line of times, then the text up to the next cue."""
    for block in _blocks(lines, times):
        body = lines[block.first_line : block.end_line]
        text = [
            line for n, line in enumerate(body) if not is_stray_number(body, n, block.number + 1)
        ]
        yield RawCue(
            *span(block.times),
            clean_lines(_SRT_TAG.sub("", line).replace("[br]", " ") for line in text),
        )


def _blocks(lines: Sequence[str], times: re.Pattern[str]) -> list[_Block]:
    blocks: list[_Block] = []
    number = 0
    for at, line in enumerate(lines):
        match = times.match(line)
        if match is None:
            continue
        own_number = cue_number(lines, at, number + 1, is_first=not blocks)
        end_of_previous = at
        number += 1
        if own_number is not None:
            end_of_previous = at - 1
            number = own_number
        if blocks:
            blocks[-1] = blocks[-1]._replace(end_line=end_of_previous)
        blocks.append(_Block(match, number, at + 1, len(lines)))
    return blocks


def cue_number(lines: Sequence[str], at: int, expected: int, is_first: bool) -> int | None:
    """The number in the line before the times, unless it is text of the previous cue."""
    if at == 0:
        return None
    match = _NUMBER.match(lines[at - 1])
    if match is None:
        return None
    number = int(match[1])
    if is_first or number == expected or not lines[at - 2].strip():
        return number
    return None


def is_stray_number(lines: Sequence[str], at: int, number: int) -> bool:
    """Whether a line is the number of a cue whose times are missing. It follows an empty line."""
    if at == 0 or lines[at - 1].strip():
        return False
    match = _NUMBER.match(lines[at])
    return match is not None and int(match[1]) == number


def parse_vtt(lines: Sequence[str]) -> Iterator[RawCue]:
    """The cues of a VTT file, without header, styles and comments.

    Text after an empty line still belongs to the cue before.
    """
    times: tuple[float, float] | None = None
    body: list[str] = []
    starts_block = True
    ends_with_id = False  # the last line may be the identifier of the next cue
    in_comment = False
    for line in lines:
        match = _ARROW.match(line)
        if match:
            if ends_with_id:
                body.pop()
            if times is not None:
                yield from split_voices(*times, body)
            times = span(match)
            body = []
            ends_with_id = in_comment = False
        elif not line.strip():
            ends_with_id = in_comment = False
        else:
            if starts_block and _VTT_BLOCK.match(line):
                in_comment = True
            if not in_comment:
                body.append(line)
            ends_with_id = starts_block and not in_comment
        starts_block = not line.strip()
    if times is not None:
        yield from split_voices(*times, body)


def split_voices(start: float, end: float, body: Sequence[str]) -> Iterator[RawCue]:
    """One cue for each speaker in a cue."""
    if not any("<" in line or "&" in line for line in body):
        yield RawCue(start, end, clean_lines(body))
        return
    parts = _VTT_VOICE.split("\n".join(body))
    speakers = [None, *parts[1::2]]
    for speaker, text in zip(speakers, parts[::2], strict=True):
        lines = clean_lines(html.unescape(_VTT_TAG.sub("", line)) for line in text.split("\n"))
        if lines:
            name = html.unescape(speaker or "").strip()
            yield RawCue(start, end, lines, name or None)


def vtt_language(lines: Sequence[str]) -> str | None:
    """The language in the header, which ends with an empty line."""
    for line in lines[1:]:
        if not line.strip():
            return None
        match = _VTT_LANGUAGE.match(line)
        if match:
            return match[1]
    return None


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
        record = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    language = json_language(record)
    segments = json_segments(record)
    if segments is not None:
        cues = make_cues(filter(None, map(parse_segment, segments)))
        return Transcript("json", cues, language=language)
    if isinstance(record, Mapping) and isinstance(record.get("text"), str):
        return Transcript("json", text=record["text"], language=language)
    return None


def json_segments(record: Any) -> list[Any] | None:
    if isinstance(record, list):
        if any(parse_segment(item) for item in record[:20]):
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


def json_language(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return None
    language = record.get("language")
    result = record.get("result")
    if not language and isinstance(result, Mapping):
        language = result.get("language")
    if not isinstance(language, str):
        return None
    return language


def parse_segment(record: Any) -> RawCue | None:
    if not isinstance(record, Mapping):
        return None
    text = segment_text(record)
    start, end = segment_times(record)
    if text is None or start is None:
        return None
    lines = clean_lines(_LINE_BREAK.split(text))
    if not lines:
        return None
    speaker = record.get("speaker")
    if not isinstance(speaker, str):
        speaker = ""
    if end is None:
        end = start
    return RawCue(start, max(start, end), lines, speaker.strip() or None)


def segment_text(record: Mapping[str, Any]) -> str | None:
    for key in ("text", "body"):
        text = record.get(key)
        if isinstance(text, str):
            return text
    parts = record.get("segs")
    if isinstance(parts, list):
        return "".join(str(part.get("utf8") or "") for part in parts if isinstance(part, Mapping))
    return None


def segment_times(record: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The start and end of a segment, in the fields of various programs."""
    for key, units_per_second in (("offsets", 1000), ("timestamps", 1)):
        times = record.get(key)
        if isinstance(times, Mapping):
            start = parse_time(times.get("from"), units_per_second)
            return start, parse_time(times.get("to"), units_per_second)
    for start_key, end_key, duration_key, units_per_second in _JSON_TIMES:
        start = parse_time(record.get(start_key), units_per_second)
        if start is None:
            continue
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
    for cue in cues:
        speaker = cue.speaker
        text: list[str] = []
        for line in cue.lines:
            label = None
            if not cue.speaker:
                label = speaker_label(line, counts)
            if label is not None:
                if text:
                    yield Cue(cue.start, cue.end, "\n".join(text), speaker)
                speaker, line = label[1], line[label.end() :]
                text = []
            if line:
                text.append(line)
        if text:
            yield Cue(cue.start, cue.end, "\n".join(text), speaker)


def speaker_label(line: str, counts: Mapping[str, int]) -> re.Match[str] | None:
    label = _LABEL.match(line)
    if label is None:
        return None
    name = label[1]
    words = name.split()
    if words[0].lower() in _NOT_SPEAKERS:
        return None
    if name.isupper() and len(name) > 1:
        return label
    is_capitalized = name[0].isupper() and not any(word[0].islower() for word in words)
    if is_capitalized and counts[name] > 1:
        return label
    return None


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
        blocks = (
            f"{number}\n{_block(cue, ',', srt_text)}" for number, cue in enumerate(cues, first)
        )
        return "".join(blocks)
    if format == "vtt":
        return "WEBVTT\n\n" + "".join(_block(cue, ".", vtt_text) for cue in cues)
    if format == "json":
        return {"segments": [_segment(cue, timestamps) for cue in cues]}
    if format == "text":
        return "\n".join(plain_line(cue, timestamps) for cue in cues)
    raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}.")


def clock(seconds: float, point: str = ".") -> str:
    """A time as players display it: 01:02:03.400."""
    total, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole_seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{whole_seconds:02}{point}{milliseconds:03}"


def _block(cue: Cue, point: str, text: Callable[[Cue], str]) -> str:
    return f"{clock(cue.start, point)} --> {clock(cue.end, point)}\n{text(cue)}\n\n"


def srt_text(cue: Cue) -> str:
    text = "\n".join(clean_lines(_LINE_BREAK.split(cue.text.replace("-->", "→"))))
    return speaker_prefix(cue) + text


def vtt_text(cue: Cue) -> str:
    text = "\n".join(clean_lines(_LINE_BREAK.split(html.escape(cue.text, quote=False))))
    if not cue.speaker:
        return text
    return f"<v {html.escape(cue.speaker, quote=False)}>{text}"


def _segment(cue: Cue, timestamps: bool) -> dict[str, Any]:
    segment: dict[str, Any] = {}
    if timestamps:
        segment |= {"start": cue.start, "end": cue.end}
    segment["text"] = cue.text
    if cue.speaker:
        segment["speaker"] = cue.speaker
    return segment


def plain_line(cue: Cue, timestamps: bool) -> str:
    line = speaker_prefix(cue) + " ".join(clean_lines(_LINE_BREAK.split(cue.text)))
    if timestamps:
        line = f"[{clock(cue.start)[:8]}] {line}"
    return line


def speaker_prefix(cue: Cue) -> str:
    if not cue.speaker:
        return ""
    return f"{cue.speaker}: "
