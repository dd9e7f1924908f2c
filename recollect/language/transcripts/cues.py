"""Cues: what is said from one time to another, by whom.

In rolling captions, where each cue repeats the line before, every line is read once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

LATEST = 3_600_000.0
"""The latest valid time, in seconds."""
LINE_BREAK = re.compile(r"\r\n|\r|\n")
_BROKEN_TIMES = re.compile(r"\d\S* *--?> *\d\S*(?:\s|$)")
_LABEL = re.compile(r"(?:(?:>>|-)\s*)?([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,31}){0,3}):(?!\S)\s*")
_NOT_SPEAKERS = frozenset(
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


def make_cues(raw_cues: Iterable[RawCue]) -> tuple[Cue, ...]:
    """The cues in order, without duplicates and repeated lines, with their speakers."""
    valid = [cue for cue in raw_cues if cue.lines and cue.start <= LATEST]
    valid.sort(key=lambda cue: cue.start)
    return tuple(_with_speakers(_unroll(list(dict.fromkeys(valid)))))


def clean_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines without empty lines and broken times."""
    clean = []
    for line in lines:
        line = line.strip()
        if not line or ("->" in line and _BROKEN_TIMES.match(line)):
            continue
        if not line.isprintable():
            line = LINE_BREAK.sub(" ", line)
        clean.append(line)
    return tuple(clean)


def _unroll(cues: Sequence[RawCue]) -> Sequence[RawCue]:
    """Remove the lines that rolling captions repeat.

    In captions that do not roll, repeated lines are what people said twice, so they stay.
    """
    repeats = [_repetition(before, cue) for before, cue in pairwise(cues)]
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


def _repetition(before: RawCue, cue: RawCue) -> tuple[int, int]:
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


def _with_speakers(cues: Sequence[RawCue]) -> Iterator[Cue]:
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
                label = _speaker_label(line, counts)
            if label is not None:
                if text:
                    yield Cue(cue.start, cue.end, "\n".join(text), speaker)
                speaker, line = label[1], line[label.end() :]
                text = []
            if line:
                text.append(line)
        if text:
            yield Cue(cue.start, cue.end, "\n".join(text), speaker)


def _speaker_label(line: str, counts: Mapping[str, int]) -> re.Match[str] | None:
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
