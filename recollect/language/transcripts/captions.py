"""Caption files: SRT, SBV, VTT, and the console output of Whisper.

The parsers are tolerant: they accept cues without numbers, with empty lines inside or out of order.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.language.transcripts.cues import RawCue, clean_lines

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,:](\d{1,9}))?"
ARROW = re.compile(rf"\s*{_CLOCK}\s*-{{1,2}}>\s*{_CLOCK}(?!\S)")
COMMA = re.compile(rf"\s*{_CLOCK},{_CLOCK}\s*$")
BRACKETS = re.compile(rf"\s*\[{_CLOCK}\s*-->\s*{_CLOCK}\](.*)$")
TIME = re.compile(rf"\s*{_CLOCK}\s*$")
_NUMBER = re.compile(r"\s*(\d{1,9})\s*$")
_VTT_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?!\S)")
VTT_HEADER = re.compile(r"\ufeff?\s*WEBVTT(?!\S)")
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
        match = BRACKETS.match(line)
        if match:
            yield RawCue(*_span(match), clean_lines([match[9]]))


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
            line for n, line in enumerate(body) if not _is_stray_number(body, n, block.number + 1)
        ]
        yield RawCue(
            *_span(block.times),
            clean_lines(_SRT_TAG.sub("", line).replace("[br]", " ") for line in text),
        )


def _blocks(lines: Sequence[str], times: re.Pattern[str]) -> list[_Block]:
    blocks: list[_Block] = []
    number = 0
    for at, line in enumerate(lines):
        match = times.match(line)
        if match is None:
            continue
        own_number = _cue_number(lines, at, number + 1, is_first=not blocks)
        end_of_previous = at
        number += 1
        if own_number is not None:
            end_of_previous = at - 1
            number = own_number
        if blocks:
            blocks[-1] = blocks[-1]._replace(end_line=end_of_previous)
        blocks.append(_Block(match, number, at + 1, len(lines)))
    return blocks


def _cue_number(lines: Sequence[str], at: int, expected: int, is_first: bool) -> int | None:
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


def _is_stray_number(lines: Sequence[str], at: int, number: int) -> bool:
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
        match = ARROW.match(line)
        if match:
            if ends_with_id:
                body.pop()
            if times is not None:
                yield from _split_voices(*times, body)
            times = _span(match)
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
        yield from _split_voices(*times, body)


def _split_voices(start: float, end: float, body: Sequence[str]) -> Iterator[RawCue]:
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


def _span(match: re.Match[str]) -> tuple[float, float]:
    groups = match.groups()
    start, end = seconds_of(groups[:4]), seconds_of(groups[4:8])
    return start, max(start, end)


def seconds_of(parts: Sequence[str | None]) -> float:
    """The time that the groups of `_CLOCK` stand for, in seconds."""
    hours, minutes, seconds, fraction = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return round(whole + float(f"0.{fraction or 0}"), 3)
