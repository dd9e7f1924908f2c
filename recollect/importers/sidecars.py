"""Sidecar files: files that belong to another file in the same folder, by their names.

A recording has its transcript (talk.srt, talk.en.vtt, talk.mp4.json, talk.txt) and a description
that a downloader wrote (talk.info.json). A picture has its text (photo.txt, photo.jpg.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from recollect.importers.documents import images
from recollect.importers.entries import UNREADABLE, Entry
from recollect.importers.jsonstream import peek

VIDEO = frozenset(
    {".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ogv", ".wmv"}
)
AUDIO = frozenset(".mp3 .m4a .wav .flac .ogg .opus .oga .aac .m4b .wma .aiff .aif".split())
RECORDINGS = VIDEO | AUDIO
SUBTITLES = (".srt", ".vtt", ".sbv")
TRANSCRIPTS = (*SUBTITLES, ".json", ".txt")
"""In order of preference."""
DESCRIPTION = ".info.json"
_LANGUAGE = re.compile(r"\.([a-z]{2,3}(?:-[a-z0-9]{2,8})*)$", re.IGNORECASE)
_TIME_KEYS = (b'"start', b'"offsets"', b'"timestamps"', b'"tStartMs"')


# -- names -------------------------------------------------------------------


def split(name: str) -> tuple[str, str]:
    """A file's name without its suffix, and the lower-case suffix. `.info.json` is one suffix."""
    if name.lower().endswith(DESCRIPTION):
        return name[: -len(DESCRIPTION)], DESCRIPTION
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return name, ""
    return stem, f".{suffix.lower()}"


def split_language(stem: str) -> tuple[str, str]:
    """`talk.en` becomes `talk` and `en`."""
    match = _LANGUAGE.search(stem)
    return (stem[: match.start()], match[1]) if match and match.start() else (stem, "")


def is_transcript(entry: Entry) -> bool:
    """Whether a JSON file is a transcript, judged by its first keys."""
    keys = peek(entry)
    if {"text", "start"} <= keys or {"body", "startTime"} <= keys:
        return not keys.isdisjoint({"end", "duration", "endTime"})
    try:
        head = entry.head()
    except UNREADABLE:
        return False
    if keys == {"text"} and entry.size > len(head):  # Whisper writes the whole text first
        return head.lstrip().startswith(b"{")
    has_segments = not keys.isdisjoint({"segments", "transcription", "events"})
    return has_segments and any(key in head for key in _TIME_KEYS)


# -- from a sidecar to its file ----------------------------------------------


def owner(entry: Entry) -> Entry | None:
    """The recording or picture that this file belongs to."""
    stem, suffix = split(entry.basename.lower())
    if suffix in TRANSCRIPTS or suffix == DESCRIPTION:
        for name in dict.fromkeys((stem, split_language(stem)[0])):
            recording = neighbour_with_suffix(entry, name, RECORDINGS)
            if recording is not None:
                return recording
    if suffix == ".txt" or (suffix == ".md" and split(stem)[1] in images.SUFFIXES):
        return neighbour_with_suffix(entry, stem, images.SUFFIXES)
    return None


def neighbour_with_suffix(entry: Entry, name: str, suffixes: Iterable[str]) -> Entry | None:
    """The file of this name that has one of the suffixes, in the name or added to it."""
    candidates = [name + suffix for suffix in suffixes]
    if split(name)[1] in suffixes:
        candidates.insert(0, name)
    return first_neighbour(entry, candidates)


def first_neighbour(entry: Entry, names: Iterable[str]) -> Entry | None:
    neighbours = entry.neighbours
    return next((neighbours[name] for name in names if name in neighbours), None)


# -- from a file to its sidecars ---------------------------------------------


def transcript_of(recording: Entry) -> Entry | None:
    """The best transcript of a recording: without a language in its name, or else English."""
    full_name = recording.basename.lower()
    names = (split(full_name)[0], full_name)
    candidates = by_stem(tuple(recording.neighbours))
    ranked: list[tuple[tuple[bool, bool, int, str], Entry]] = []
    for name in dict.fromkeys(name for stem in names for name in candidates.get(stem, ())):
        entry = recording.neighbours[name]
        stem, suffix = split(name)
        language = split_language(stem)[1]
        if name == full_name or (suffix == ".json" and not is_transcript(entry)):
            continue
        is_english = language == "en" or language.startswith("en-")
        rank = (stem not in names, not is_english, TRANSCRIPTS.index(suffix), name)
        ranked.append((rank, entry))
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


@lru_cache(maxsize=1)  # files are read folder by folder
def by_stem(names: tuple[str, ...]) -> Mapping[str, list[str]]:
    """The files that may be transcripts, by their stem with and without language."""
    files: dict[str, list[str]] = {}
    for name in names:
        stem, suffix = split(name)
        if suffix in TRANSCRIPTS:
            for key in dict.fromkeys((stem, split_language(stem)[0])):
                files.setdefault(key, []).append(name)
    return files


def text_of(picture: Entry) -> Entry | None:
    full_name = picture.basename.lower()
    stem = split(full_name)[0]
    return first_neighbour(picture, (f"{stem}.txt", f"{full_name}.txt", f"{full_name}.md"))


def description_of(entry: Entry) -> Entry | None:
    """What a downloader wrote about a recording, or about a transcript without one."""
    stem = split(entry.basename.lower())[0]
    names = (stem + DESCRIPTION, split_language(stem)[0] + DESCRIPTION)
    return first_neighbour(entry, names)
