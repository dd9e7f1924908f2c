"""Transcripts: SRT, VTT, SBV, JSON and plain text, read and written.

What is found in the wild is read, not only what is right: cues without numbers,
with empty lines inside, out of order, in the JSON of half a dozen programs.
Captions that roll up, each cue repeating the line before, are read once. (Two
libraries were tried. One refuses a whole file for one missing number, the other
joins cues whose times have too few digits; neither knows JSON or rolling
captions.)
"""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

Json = Any


class Cue(NamedTuple):
    """What is said from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str
    speaker: str | None = None


FORMATS = ("text", "srt", "vtt", "json")
"""What can be written."""
LATEST = 3_600_000.0
"""Seconds; what is later is no time."""

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,:](\d{1,9}))?"
_ARROW = re.compile(rf"\s*{_CLOCK}\s*-{{1,2}}>\s*{_CLOCK}(?!\S)")
_COMMA = re.compile(rf"\s*{_CLOCK},{_CLOCK}\s*$")
_BRACKETS = re.compile(rf"\s*\[{_CLOCK}\s*-->\s*{_CLOCK}\](.*)$")
_TIME = re.compile(rf"\s*{_CLOCK}\s*$")
_BROKEN = re.compile(r"\d\S* *--?> *\d\S*(?:\s|$)")
_LINE = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"\s*(\d{1,9})\s*$")
_ASIDE = re.compile(r"(?:NOTE|STYLE|REGION)(?!\S)")
_HEADER = re.compile(r"\ufeff?\s*WEBVTT(?!\S)")
_LANGUAGE = re.compile(r"Language:\s*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\s*$")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>|</v>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[\d:.]+>")
_STYLING = re.compile(
    r"</?(?:i|b|u|s|em|strong|font|span|c|ruby|rt|lang)(?:[\s.][^<>]*)?>|\{\\[^{}]*\}",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?:(?:>>|-)\s*)?([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,31}){0,3}):(?!\S)\s*")
_NO_NAMES = frozenset(
    [
        "note",
        "notes",
        "warning",
        "tip",
        "example",
        "question",
        "answer",
        "step",
        "chapter",
        "part",
        "update",
        "source",
    ]
)
_OVERLAP_LINES = 8
_ROLLING_GAP = 0.3  # seconds between one cue and the next that goes on with it
_ROLLING_SHARE = 5  # captions roll where one cue in so many goes on with the one before


class Transcript(NamedTuple):
    format: str
    cues: tuple[Cue, ...] = ()
    text: str = ""
    """What a transcript without times says; otherwise empty."""
    language: str | None = None


class _Raw(NamedTuple):
    """A cue before anything is read into its lines."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


# -- reading -----------------------------------------------------------------


def parse(text: str) -> Transcript:
    """What a transcript says, of whatever kind it is. One without times is kind "text"."""
    if _HEADER.match(text):
        lines = _LINE.split(text)
        return Transcript("vtt", _cues(_vtt(lines)), language=_language_of_header(lines))
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) and (found := _json(text)) is not None:
        return found
    lines = _LINE.split(text.removeprefix("\ufeff"))
    if any(_BRACKETS.match(line) for line in lines):
        return Transcript("lines", _cues(_bracketed(lines)))
    for kind, timing in (("srt", _ARROW), ("sbv", _COMMA)):
        if any(timing.match(line) for line in lines):
            return Transcript(kind, _cues(_numbered(lines, timing)))
    return Transcript("text", text=text.removeprefix("\ufeff"))


def _bracketed(lines: Sequence[str]) -> Iterator[_Raw]:
    """What Whisper prints while it listens: [00:01.000 --> 00:02.000] and what is said, among messages of its own."""
    for line in lines:
        if found := _BRACKETS.match(line):
            yield _Raw(*_span(found), _lines([found[9]]))


def _numbered(lines: Sequence[str], timing: re.Pattern[str]) -> Iterator[_Raw]:
    """SRT and SBV: what follows a line of times, up to the next one, without the number before that."""
    times = [(at, found) for at, line in enumerate(lines) if (found := timing.match(line))]
    number = 0
    cues: list[
        tuple[re.Match[str], int, int]
    ] = []  # the times, the number, and where the text begins
    ends: list[int] = []
    for at, found in times:
        own = _number(lines, at, number + 1, first=not cues)
        number = number + 1 if own is None else own
        cues.append((found, number, at + 1))
        ends.append(at if own is None else at - 1)
    for (found, number, start), end in zip(cues, [*ends[1:], len(lines)], strict=True):
        body = lines[start:end]
        # The number of a cue that lost its times stands alone after an empty line.
        kept = [
            line
            for n, line in enumerate(body)
            if not (n and not body[n - 1].strip() and _is(line, number + 1))
        ]
        yield _Raw(
            *_span(found), _lines(_STYLING.sub("", line).replace("[br]", " ") for line in kept)
        )


def _number(lines: Sequence[str], at: int, expected: int, first: bool) -> int | None:
    """The number of the cue whose times stand at `at`, if the line before is one and not what somebody says."""
    found = _NUMBER.match(lines[at - 1]) if at else None
    if found is None:
        return None
    number = int(found[1])
    return number if first or number == expected or not lines[at - 2].strip() else None


def _is(line: str, number: int) -> bool:
    found = _NUMBER.match(line)
    return found is not None and int(found[1]) == number


def _vtt(lines: Sequence[str]) -> Iterator[_Raw]:
    """The cues of a VTT file, without its header, styles and comments. Text after an empty line still belongs to
    the cue before."""
    times: tuple[float, float] | None = None
    body: list[str] = []
    opens = True
    named = aside = False
    for line in lines:
        if found := _ARROW.match(line):
            if times is not None:
                yield from _voices(*times, body[:-1] if named else body)
            times = _span(found)
            body = []
            named = aside = False
        elif not line.strip():
            named = aside = False
        else:
            aside = aside or (opens and _ASIDE.match(line) is not None)
            if not aside:
                body.append(line)
            named = opens and not aside  # it may be the name of the next cue
        opens = not line.strip()
    if times is not None:
        yield from _voices(*times, body)


def _voices(start: float, end: float, body: Sequence[str]) -> Iterator[_Raw]:
    """A cue in which two people speak is two."""
    if not any("<" in line or "&" in line for line in body):
        yield _Raw(start, end, _lines(body))
        return
    parts = _VOICE.split("\n".join(body))
    speakers = [None, *parts[1::2]]
    for speaker, said in zip(speakers, parts[::2], strict=True):
        lines = _lines(html.unescape(_TAG.sub("", line)) for line in said.split("\n"))
        if lines:
            name = html.unescape(speaker).strip() if speaker else None
            yield _Raw(start, end, lines, name or None)


def _language_of_header(lines: Sequence[str]) -> str | None:
    for line in lines[1:]:
        if not line.strip():
            return None
        if found := _LANGUAGE.match(line):
            return found[1]
    return None


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Without empty ones, and without times that nobody can read."""
    found = []
    for line in lines:
        line = line.strip()
        if line and not ("->" in line and _BROKEN.match(line)):
            found.append(line if line.isprintable() else _LINE.sub(" ", line))
    return tuple(found)


def _span(found: re.Match[str]) -> tuple[float, float]:
    groups = found.groups()
    start, end = _seconds(groups[:4]), _seconds(groups[4:8])
    return start, max(start, end)


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return round(whole + float(f"0.{fraction}"), 3) if fraction else float(whole)


# -- JSON --------------------------------------------------------------------


def _json(text: str) -> Transcript | None:
    """The transcript of Whisper, whisper.cpp, YouTube, a podcast or one of our own; None where it is no such JSON."""
    try:
        record = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    segments, language = _segments(record)
    if segments is None:
        said = record.get("text") if isinstance(record, Mapping) else None
        return Transcript("json", text=said, language=language) if isinstance(said, str) else None
    return Transcript("json", _cues(filter(None, map(_segment, segments))), language=language)


def _segments(record: Any) -> tuple[list[Any] | None, str | None]:
    if isinstance(record, list):
        return (record if any(_segment(item) for item in record[:20]) else None), None
    if not isinstance(record, Mapping):
        return None, None
    result = record.get("result")
    language = record.get("language") or (
        result.get("language") if isinstance(result, Mapping) else None
    )
    found = next(
        (record[key] for key in ("segments", "transcription", "events", "cues") if key in record),
        None,
    )
    return (found if isinstance(found, list) else None), language if isinstance(
        language, str
    ) else None


def _segment(record: Any) -> _Raw | None:
    if not isinstance(record, Mapping):
        return None
    said = next((record[key] for key in ("text", "body") if isinstance(record.get(key), str)), None)
    if said is None and isinstance(record.get("segs"), list):
        said = "".join(
            str(part.get("utf8") or "") for part in record["segs"] if isinstance(part, Mapping)
        )
    start, end = _times(record)
    if said is None or start is None:
        return None
    speaker = record.get("speaker")
    name = speaker.strip() if isinstance(speaker, str) else None
    lines = _lines(_LINE.split(said))
    return (
        _Raw(start, max(start, start if end is None else end), lines, name or None)
        if lines
        else None
    )


def _times(record: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """When a segment begins and ends, as one of many programs writes it."""
    for key in ("offsets", "timestamps"):
        if isinstance(inner := record.get(key), Mapping):
            scale = 1000 if key == "offsets" else 1
            return _time(inner.get("from"), scale), _time(inner.get("to"), scale)
    for begins, ends, lasts, scale in (
        ("start", "end", "duration", 1),
        ("startTime", "endTime", "duration", 1),
        ("tStartMs", "tEndMs", "dDurationMs", 1000),
    ):
        start = _time(record.get(begins), scale)
        if start is not None:
            lasted = _time(record.get(lasts), scale)
            return start, _time(record.get(ends), scale) if lasted is None else start + lasted
    return None, None


def _time(value: Any, scale: int) -> float | None:
    if isinstance(value, str):
        if found := _TIME.match(value):
            return _seconds(found.groups())
        try:
            value = float(value[:40])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return (
        round(value / scale, 3) if 0 <= value <= LATEST * scale and math.isfinite(value) else None
    )


# -- what cues say -----------------------------------------------------------


def _cues(raw: Iterable[_Raw]) -> tuple[Cue, ...]:
    ordered = sorted(
        (cue for cue in raw if cue.lines and cue.start <= LATEST), key=lambda cue: cue.start
    )
    once = list(dict.fromkeys(ordered))
    return tuple(_spoken(_unrolled(once)))


def _unrolled(cues: Sequence[_Raw]) -> Sequence[_Raw]:
    """Every line once, where captions repeat the line before. What people say twice stays in other captions."""
    pairs = list(pairwise(cues))
    shared = [_shared(before, cue) for before, cue in pairs]
    rolling = sum(
        lines > 0 and before.lines != cue.lines
        for (lines, _), (before, cue) in zip(shared, pairs, strict=True)
    )
    if not rolling or rolling * _ROLLING_SHARE < len(shared):
        return cues
    found = [cues[0]]
    for (lines, letters), cue in zip(shared, cues[1:], strict=True):
        if not lines:
            found.append(cue)
            continue
        fresh = _lines((cue.lines[lines - 1][letters:], *cue.lines[lines:]))
        if fresh:
            found.append(cue._replace(lines=fresh))
        else:
            found[-1] = found[-1]._replace(end=max(found[-1].end, cue.end))
    return found


def _shared(before: _Raw, cue: _Raw) -> tuple[int, int]:
    """How many lines a cue repeats of the one before, and how many letters of the last of them."""
    if cue.start > before.end + _ROLLING_GAP or before.speaker != cue.speaker:
        return 0, 0
    last = before.lines[-1]
    for count in range(min(len(before.lines), len(cue.lines), _OVERLAP_LINES), 0, -1):
        grown = cue.lines[count - 1]
        if before.lines[-count:-1] == cue.lines[: count - 1] and (
            grown == last or grown.startswith(last + " ")
        ):
            return count, len(last)
    return 0, 0


def _spoken(cues: Sequence[_Raw]) -> Iterator[Cue]:
    """The cues with who speaks: what is written as NAME: or, where it comes again, as Name: before what is said."""
    times = Counter(found[1] for cue in cues for line in cue.lines if (found := _LABEL.match(line)))
    for cue in cues:
        speaker = cue.speaker
        said: list[str] = []
        for line in cue.lines:
            found = None if cue.speaker else _speaker(line, times)
            if found is not None:
                if said:
                    yield Cue(cue.start, cue.end, "\n".join(said), speaker)
                speaker, line = found[1], line[found.end() :]
                said = []
            if line:
                said.append(line)
        if said:
            yield Cue(cue.start, cue.end, "\n".join(said), speaker)


def _speaker(line: str, times: Mapping[str, int]) -> re.Match[str] | None:
    found = _LABEL.match(line)
    if found is None or found[1].split()[0].lower() in _NO_NAMES:
        return None
    loud = found[1].isupper() and len(found[1]) > 1
    named = found[1][0].isupper() and not any(word[0].islower() for word in found[1].split())
    return found if loud or (named and times[found[1]] > 1) else None


# -- writing -----------------------------------------------------------------


def write(cues: Iterable[Cue], kind: str = "text", timestamps: bool = True) -> str | Json:
    """A transcript as "text", "srt", "vtt" or "json". SRT and VTT cannot be without times."""
    if kind == "srt":
        return _written(cues, ",", _srt_text, numbered=True)
    if kind == "vtt":
        return "WEBVTT\n\n" + _written(cues, ".", _vtt_text)
    if kind == "json":
        return {"segments": [_record(cue, timestamps) for cue in cues]}
    if kind == "text":
        return "\n".join(_plain(cue, timestamps) for cue in cues)
    raise ValueError(
        f"A transcript is not written as {kind!r} but as one of: {', '.join(FORMATS)}."
    )


def clock(seconds: float, point: str = ".") -> str:
    """A time as players write it: 01:02:03.400."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}{point}{whole % 1000:03}"


def _written(
    cues: Iterable[Cue], point: str, text: Callable[[Cue], str], numbered: bool = False
) -> str:
    return "".join(
        (f"{number}\n" if numbered else "")
        + f"{clock(cue.start, point)} --> {clock(cue.end, point)}\n{text(cue)}\n\n"
        for number, cue in enumerate(cues, 1)
    )


def _srt_text(cue: Cue) -> str:
    said = "\n".join(_lines(_LINE.split(cue.text.replace("-->", "→"))))
    return f"{cue.speaker}: {said}" if cue.speaker else said


def _vtt_text(cue: Cue) -> str:
    said = "\n".join(_lines(_LINE.split(html.escape(cue.text, quote=False))))
    return f"<v {html.escape(cue.speaker, quote=False)}>{said}" if cue.speaker else said


def _record(cue: Cue, timestamps: bool) -> dict[str, Json]:
    times = {"start": cue.start, "end": cue.end} if timestamps else {}
    return times | {"text": cue.text} | ({"speaker": cue.speaker} if cue.speaker else {})


def _plain(cue: Cue, timestamps: bool) -> str:
    time = f"[{clock(cue.start)[:8]}] " if timestamps else ""
    return (
        time + (f"{cue.speaker}: " if cue.speaker else "") + " ".join(_lines(_LINE.split(cue.text)))
    )
