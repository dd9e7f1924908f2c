"""Transcripts: all of one, or a page of whole cues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from recollect.errors import InvalidInput
from recollect.importers.items import cues_of, text_of
from recollect.knowledge.reading.chunk_units import StoredChunks
from recollect.knowledge.reading.excerpts import Budget, json_length
from recollect.knowledge.retrieval import LARGEST_OFFSET, Retrieval
from recollect.language import transcript
from recollect.language.transcript import Cue
from recollect.model.documents import Json


def whole_transcript(chunks: StoredChunks, format: str, timestamps: bool) -> Json:
    """Raises InvalidInput if the text has no times and the format needs them."""
    cues = list(cues_of(chunks.passages()))
    if cues:
        return transcript.write(cues, format, timestamps=timestamps)
    _require_no_times(format, timestamps)
    return text_of(chunks.passages())


def transcript_page(
    chunks: StoredChunks, retrieval: Retrieval, format: str, timestamps: bool
) -> dict[str, Json]:
    """As many cues as fit, from the one with the number `retrieval.offset` on.

    A cue is cut only if not even one fits. In a text without times, the offset counts characters.
    Raises InvalidInput like `whole_transcript`.
    """
    offset = retrieval.offset
    budget = Budget(retrieval, {"content": "", "next_offset": LARGEST_OFFSET, "cut": True})
    if next(cues_of(chunks.passages()), None) is None:
        _require_no_times(format, timestamps)
        text, total = chunks.text_page(offset, int(budget.room))
        text = budget.cut(text, 0, budget.room)
        end = offset + len(text)
        return _page(text, end if text and end < total else None)
    cues: list[Cue] = []
    length = 0
    for cue in islice(cues_of(chunks.passages()), offset, None):
        cues.append(cue)
        length += len(cue.text)
        if length > budget.room and len(cues) > 1:
            break

    def write(cues: Sequence[Cue]) -> Json:
        return transcript.write(cues, format, timestamps=timestamps, first=offset + 1)

    def write_part(length: int) -> Json:
        return write([cues[0]._replace(text=cues[0].text[:length])])

    numbers = range(1, len(cues) + 1)
    count = bisect_right(numbers, budget.room, key=lambda n: json_length(write(cues[:n])))
    if count == len(cues):
        return _page(write(cues), None)
    if count:
        return _page(write(cues[:count]), offset + count)
    lengths = range(2, len(cues[0].text))
    length = 1 + bisect_right(lengths, budget.room, key=lambda n: json_length(write_part(n)))
    next_offset = offset + 1 if len(cues) > 1 else None
    return _page(write_part(length), next_offset) | {"cut": True}


def _page(content: Json, next_offset: int | None) -> dict[str, Json]:
    if next_offset is None:
        return {"content": content}
    return {"content": content, "next_offset": next_offset}


def _require_no_times(format: str, timestamps: bool) -> None:
    if format != "text" or timestamps:
        raise InvalidInput("This item has no times, so it is available only as text.")
