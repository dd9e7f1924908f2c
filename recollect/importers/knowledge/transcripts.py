"""Transcripts: of a recording that lies beside them, or alone."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.importers.beside import SUBTITLES, is_transcript, owner, split, transcript_of
from recollect.importers.documents import recordings
from recollect.importers.entries import Entry
from recollect.importers.knowledge import media
from recollect.model.documents import Document
from recollect.model.receipts import Problem

SOURCE = media.SOURCE
DESCRIPTION = "Transcripts (SRT, VTT, SBV, or JSON of Whisper and YouTube)"


def claims(entry: Entry) -> bool:
    ending = split(entry.basename)[1]
    return ending in SUBTITLES or (ending == ".json" and is_transcript(entry))


def read(entry: Entry) -> Iterator[Document | Problem]:
    """The recording to which it belongs, whichever of the two was given; else an item of its own."""
    recording = owner(entry)
    if recording is None:
        yield from media.items(entry, "video", recordings.alone)
    elif (chosen := transcript_of(recording)) is not None and chosen.place == entry.place:
        yield from media.read(recording)
    else:
        yield Problem(
            "another transcript of a recording that has one", entry.name, unit="conversations"
        )
