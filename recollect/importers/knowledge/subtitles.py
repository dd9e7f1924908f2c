"""Transcripts and subtitles, with or without their recording."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.importers.documents import recordings
from recollect.importers.entries import Entry
from recollect.importers.knowledge import media
from recollect.importers.records import contain_errors
from recollect.importers.sidecars import SUBTITLES, is_transcript, owner, split, transcript_of
from recollect.model.documents import Document
from recollect.model.receipts import Problem

SOURCE = media.SOURCE
DESCRIPTION = "Transcripts (SRT, VTT, SBV, or JSON of Whisper and YouTube)"


def claims(entry: Entry) -> bool:
    suffix = split(entry.basename)[1]
    return suffix in SUBTITLES or (suffix == ".json" and is_transcript(entry))


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    """The recording that the transcript belongs to, or an item of its own."""
    recording = owner(entry)
    if recording is None:
        yield from media.read_item(entry, "video", recordings.extract_transcript)
        return
    transcript = transcript_of(recording)
    if transcript is not None and transcript.place == entry.place:
        yield from media.read(recording)
    else:
        yield Problem(
            "the recording has another transcript, which is preferred",
            entry.name,
            unit="conversations",
        )
