"""Write transcripts as SRT, VTT, JSON or plain text."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import Any

from recollect.language.transcripts.cues import LINE_BREAK, Cue, clean_lines

FORMATS = ("text", "srt", "vtt", "json")
"""Formats that can be written."""
Json = Any


def write(
    cues: Iterable[Cue], format: str = "text", timestamps: bool = True, first: int = 1
) -> str | Json:
    """A transcript as "text", "srt", "vtt" or "json". SRT and VTT always have times.

    `first` is the number of the first cue.
    """
    if format == "srt":
        blocks = (
            f"{number}\n{_block(cue, ',', _srt_text)}" for number, cue in enumerate(cues, first)
        )
        return "".join(blocks)
    if format == "vtt":
        return "WEBVTT\n\n" + "".join(_block(cue, ".", _vtt_text) for cue in cues)
    if format == "json":
        return {"segments": [_segment(cue, timestamps) for cue in cues]}
    if format == "text":
        return "\n".join(_plain_line(cue, timestamps) for cue in cues)
    raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}.")


def clock(seconds: float, point: str = ".") -> str:
    """A time as players display it: 01:02:03.400."""
    total, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole_seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{whole_seconds:02}{point}{milliseconds:03}"


def _block(cue: Cue, point: str, text: Callable[[Cue], str]) -> str:
    return f"{clock(cue.start, point)} --> {clock(cue.end, point)}\n{text(cue)}\n\n"


def _srt_text(cue: Cue) -> str:
    text = "\n".join(clean_lines(LINE_BREAK.split(cue.text.replace("-->", "→"))))
    return _speaker_prefix(cue) + text


def _vtt_text(cue: Cue) -> str:
    text = "\n".join(clean_lines(LINE_BREAK.split(html.escape(cue.text, quote=False))))
    if not cue.speaker:
        return text
    return f"<v {html.escape(cue.speaker, quote=False)}>{text}"


def _segment(cue: Cue, timestamps: bool) -> dict[str, Json]:
    segment: dict[str, Json] = {}
    if timestamps:
        segment |= {"start": cue.start, "end": cue.end}
    segment["text"] = cue.text
    if cue.speaker:
        segment["speaker"] = cue.speaker
    return segment


def _plain_line(cue: Cue, timestamps: bool) -> str:
    line = _speaker_prefix(cue) + " ".join(clean_lines(LINE_BREAK.split(cue.text)))
    if timestamps:
        line = f"[{clock(cue.start)[:8]}] {line}"
    return line


def _speaker_prefix(cue: Cue) -> str:
    if not cue.speaker:
        return ""
    return f"{cue.speaker}: "
