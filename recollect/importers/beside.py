"""Files that belong to another one beside them.

A recording has its transcript (talk.srt, talk.en.vtt, talk.mp4.json, talk.txt) and
what a downloader says of it (talk.info.json); a picture its text (photo.txt,
photo.jpg.md). They are known by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.importers.documents import images
from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE, peek

VIDEO = frozenset(
    {".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ogv", ".wmv"}
)
AUDIO = frozenset(
    {
        ".mp3",
        ".m4a",
        ".wav",
        ".flac",
        ".ogg",
        ".opus",
        ".oga",
        ".aac",
        ".m4b",
        ".wma",
        ".aiff",
        ".aif",
    }
)
RECORDINGS = VIDEO | AUDIO
SUBTITLES = (".srt", ".vtt", ".sbv")
TRANSCRIPTS = (*SUBTITLES, ".json", ".txt")
"""In the order in which they are preferred."""
DESCRIPTION = ".info.json"
_LANGUAGE = re.compile(r"\.([a-z]{2,3}(?:-[a-z0-9]{2,8})*)$", re.IGNORECASE)
_MARKS = (b'"start', b'"offsets"', b'"timestamps"', b'"tStartMs"')


def split(name: str) -> tuple[str, str]:
    """A file's name and its ending in lower case; `.info.json` is one ending."""
    if name.lower().endswith(DESCRIPTION):
        return name[: -len(DESCRIPTION)], DESCRIPTION
    stem, _, ending = name.rpartition(".")
    return (stem, f".{ending.lower()}") if stem else (name, "")


def without_language(stem: str) -> tuple[str, str]:
    """talk.en → talk and en."""
    found = _LANGUAGE.search(stem)
    return (stem[: found.start()], found[1]) if found and found.start() else (stem, "")


def is_transcript(entry: Entry) -> bool:
    """Whether a JSON file is one, by the keys of its head."""
    keys = peek(entry)
    if {"text", "start"} <= keys or {"body", "startTime"} <= keys:
        return not keys.isdisjoint({"end", "duration", "endTime"})
    try:
        head = entry.head()
    except UNREADABLE:
        return False
    if keys == {"text"} and entry.size > len(head):  # Whisper begins with the whole text
        return head.lstrip().startswith(b"{")
    return not keys.isdisjoint({"segments", "transcription", "events"}) and any(
        mark in head for mark in _MARKS
    )


def owner(entry: Entry) -> Entry | None:
    """The recording or picture to which this file belongs."""
    stem, ending = split(entry.basename.lower())
    beside = entry.neighbours
    if ending in TRANSCRIPTS or ending == DESCRIPTION:
        for name in dict.fromkeys((stem, without_language(stem)[0])):
            for found in (name, *(name + other for other in RECORDINGS)):
                if split(found)[1] in RECORDINGS and found in beside:
                    return beside[found]
    if ending == ".txt" or (ending == ".md" and split(stem)[1] in images.ENDINGS):
        for found in (stem, *(stem + other for other in images.ENDINGS)):
            if split(found)[1] in images.ENDINGS and found in beside:
                return beside[found]
    return None


def transcript_of(recording: Entry) -> Entry | None:
    """The transcript of a recording: the one of its very name first, then an English one, then any."""
    return next(iter(sorted(_transcripts(recording), key=lambda found: found[0])), (None, None))[1]


def _transcripts(recording: Entry) -> Iterator[tuple[tuple[bool, bool, int, str], Entry]]:
    full = recording.basename.lower()
    stem = split(full)[0]
    for name, entry in recording.neighbours.items():
        if name.startswith(stem) and name != full:
            own, ending = split(name)
            bare, language = without_language(own)
            if ending not in TRANSCRIPTS or (own not in (stem, full) and bare not in (stem, full)):
                continue
            if ending != ".json" or is_transcript(entry):
                translated = own not in (stem, full)
                english = language == "en" or language.startswith("en-")
                yield (translated, not english, TRANSCRIPTS.index(ending), name), entry


def text_of(picture: Entry) -> Entry | None:
    full = picture.basename.lower()
    names = (f"{split(full)[0]}.txt", f"{full}.txt", f"{full}.md")
    return next((picture.neighbours[name] for name in names if name in picture.neighbours), None)


def description_of(entry: Entry) -> Entry | None:
    """What a downloader says of a recording or of a transcript without one."""
    stem = split(entry.basename.lower())[0]
    names = (stem + DESCRIPTION, without_language(stem)[0] + DESCRIPTION)
    return next((entry.neighbours[name] for name in names if name in entry.neighbours), None)
