"""Transcripts: parse and write SRT, VTT, SBV, JSON and plain text.

Two libraries were tried and rejected: one refuses a whole file because of one missing number, the
other joins cues whose times have too few digits, and neither supports JSON or rolling captions.
"""

from __future__ import annotations

from recollect.language.transcripts.captions import (
    ARROW,
    BRACKETS,
    COMMA,
    VTT_HEADER,
    parse_blocks,
    parse_vtt,
    parse_whisper,
    vtt_language,
)
from recollect.language.transcripts.cues import LATEST, LINE_BREAK, Cue, Transcript, make_cues
from recollect.language.transcripts.json_segments import parse_json
from recollect.language.transcripts.writing import FORMATS, clock, write

__all__ = ["FORMATS", "LATEST", "Cue", "Transcript", "clock", "parse", "write"]


def parse(text: str) -> Transcript:
    """Parse a transcript in any format. Without times, its format is "text"."""
    if VTT_HEADER.match(text):
        lines = LINE_BREAK.split(text)
        return Transcript("vtt", make_cues(parse_vtt(lines)), language=vtt_language(lines))
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        transcript = parse_json(text)
        if transcript is not None:
            return transcript
    text = text.removeprefix("\ufeff")
    lines = LINE_BREAK.split(text)
    if any(BRACKETS.match(line) for line in lines):
        return Transcript("lines", make_cues(parse_whisper(lines)))
    for format, times in (("srt", ARROW), ("sbv", COMMA)):
        if any(times.match(line) for line in lines):
            return Transcript(format, make_cues(parse_blocks(lines, times)))
    return Transcript("text", text=text)
