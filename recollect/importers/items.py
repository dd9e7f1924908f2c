"""Notes, media, characters and prompts as documents.

A text is stored as chunks, which together are the text. A character or prompt has a passage for
each field, whose role is the field's name. Each chunk records its position: `start` and `end` in
the text or field, and for a transcript `cues`, the times of its parts. If there are pages, `page`
is the one on which the chunk begins, and `page_breaks` are the positions in it at which others do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from recollect.importers.entries import Entry
from recollect.language.chunking import Chunk, chunk_ids, chunks
from recollect.language.transcript import Cue
from recollect.model.documents import Document, Json, Passage
from recollect.model.kinds import CHARACTER, PROMPT

FIELDS: Mapping[str, tuple[str, ...]] = {
    CHARACTER: tuple(
        (
            "name description personality scenario system_prompt first_message message_example"
            " post_history_instructions creator_notes alternate_greetings character_book creator"
            " tags"
        ).split()
    ),
    PROMPT: ("name", "details", "system_prompt", "user_prompt", "author", "keywords"),
}
"""The searchable fields in the order in which they are stored. The first one is the title."""


def item_id(entry: Entry) -> str:
    """The readable id of an item: its folders and its name, without the suffix."""
    name = entry.name.replace("\\", "/").replace(".zip/", "/")
    folder, slash, basename = name.rpartition("/")
    stem, _, _ = basename.rpartition(".")
    return f"{folder}{slash}{stem or basename}"


# -- writing -----------------------------------------------------------------


def with_text(document: Document, text: str, pages: Sequence[int] = ()) -> Document:
    """The document with a text in chunks. `pages` are the positions where pages begin."""
    passages = []
    for chunk, passage in chunk_passages(document, text):
        metadata: dict[str, Json] = {"start": chunk.start, "end": chunk.end}
        if pages:
            page = max(1, bisect_right(pages, chunk.start))
            others = pages[page : bisect_left(pages, chunk.end)]
            metadata |= {"page": page, "page_breaks": [start - chunk.start for start in others]}
        passages.append(passage._replace(metadata=metadata))
    return replace(document, passages=tuple(passages))


def with_cues(document: Document, cues: Iterable[Cue]) -> Document:
    """The document with a transcript in chunks, each with the times of its parts."""
    spoken = [cue for cue in cues if cue.text.strip()]
    starts: list[int] = []
    parts: list[str] = []
    length = 0
    for number, cue in enumerate(spoken):
        following = spoken[number + 1].speaker if number + 1 < len(spoken) else cue.speaker
        separator = "\n" if following != cue.speaker else " "
        starts.append(length)
        parts.append(cue.text.strip() + separator)
        length += len(parts[-1])
    passages = []
    for chunk, passage in chunk_passages(document, "".join(parts)):
        first = max(0, bisect_right(starts, chunk.start) - 1)
        last = bisect_right(starts, chunk.end - 1)
        times = []
        for n in range(first, last):  # where each cue begins in the chunk, when, and who speaks
            cue = spoken[n]
            speaker = [cue.speaker] if cue.speaker else []
            times.append([max(0, starts[n] - chunk.start), cue.start, cue.end, *speaker])
        metadata = {"start": chunk.start, "end": chunk.end, "cues": times}
        speakers = {cue.speaker for cue in spoken[first:last]}
        author = speakers.pop() if len(speakers) == 1 else None
        passages.append(passage._replace(metadata=metadata, author=author))
    return replace(document, passages=tuple(passages))


def with_fields(document: Document, fields: Mapping[str, str]) -> Document:
    """The document with a passage for each field that has a value; long fields are chunked."""
    names = FIELDS[document.kind]
    title = names[0]
    passages: list[Passage] = []
    for name in names:
        text = fields.get(name) or ""
        if text or name == title:
            for chunk, passage in chunk_passages(document, text):
                metadata = {"start": chunk.start, "end": chunk.end}
                passages.append(passage._replace(role=name, type="field", metadata=metadata))
    ids = chunk_ids(identity(document), (f"{p.role}\0{p.content}" for p in passages))
    passages = [p._replace(id=id_) for p, id_ in zip(passages, ids, strict=True)]
    return replace(document, title=fields.get(title) or document.title, passages=tuple(passages))


def chunk_passages(document: Document, text: str) -> list[tuple[Chunk, Passage]]:
    """The chunks of a text with a passage each.

    There is always at least one, so that a document without text can be found by its title.
    """
    language = document.metadata.get("language")
    if not isinstance(language, str) or not language:
        language = "en"
    positions = chunks(text, language=language) or [Chunk(0, 0)]
    contents = [text[start:end] for start, end in positions]
    ids = chunk_ids(identity(document), contents)
    return [
        (chunk, Passage(id_, None, content, type="chunk", created_at=document.created_at))
        for chunk, id_, content in zip(positions, ids, contents, strict=True)
    ]


def identity(document: Document) -> str:
    return f"{document.source}\0{document.source_id}"


# -- reading -----------------------------------------------------------------


def text_of(passages: Iterable[Passage]) -> str:
    return "".join(passage.content for passage in passages)


def fields_of(passages: Iterable[Passage]) -> dict[str, str]:
    by_role = groupby(passages, key=lambda passage: passage.role)
    return {role or "": text_of(parts) for role, parts in by_role}


def cues_of(passages: Iterable[Passage]) -> Iterator[Cue]:
    """The cues of a transcript, the same as were stored except for white space.

    A cue that was split between two chunks is put together again.
    """
    previous: Cue | None = None
    for passage in passages:
        for position, cue in cues_in_chunk(passage):
            is_same = previous is not None and previous._replace(text="") == cue._replace(text="")
            if previous is not None and position == 0 and is_same:
                previous = previous._replace(text=previous.text + cue.text)
                continue
            if previous is not None:
                yield previous._replace(text=previous.text.strip())
            previous = cue
    if previous is not None:
        yield previous._replace(text=previous.text.strip())


def cues_in_chunk(passage: Passage) -> Iterator[tuple[int, Cue]]:
    times = passage.metadata.get("cues") or []
    ends = [time[0] for time in times[1:]]
    ends.append(len(passage.content))
    for (position, start, end, *speakers), text_end in zip(times, ends, strict=False):
        speaker = speakers[0] if speakers else None
        yield position, Cue(start, end, passage.content[position:text_end], speaker)


def seconds_at(passage: Passage, offset: int) -> float | None:
    """The time at which the text at this offset of a chunk is spoken; None if it has no times."""
    times = passage.metadata.get("cues")
    if not times:
        return None
    index = max(0, bisect_right(times, offset, key=lambda time: time[0]) - 1)
    seconds: float = times[index][1]
    return seconds


def page_at(passage: Passage, offset: int) -> int | None:
    """The page of the text at this offset of a chunk; None if it is not known."""
    page = passage.metadata.get("page")
    breaks = passage.metadata.get("page_breaks")
    if page is None or breaks is None:
        return None
    return int(page) + bisect_right(breaks, offset)


# -- validation --------------------------------------------------------------


def drop_invalid_metadata(document: Document) -> Document:
    """The document without invalid positions, times and cards, which others may have written."""
    metadata = dict(document.metadata)
    if not isinstance(metadata.get("card", {}), Mapping):
        del metadata["card"]
    passages = []
    for passage in document.passages:
        length = len(passage.content)
        valid = {n: v for n, v in passage.metadata.items() if is_valid(n, v, length)}
        passages.append(passage._replace(metadata=valid))
    return replace(document, metadata=metadata, passages=tuple(passages))


def is_valid(name: str, value: Json, length: int) -> bool:
    """Whether metadata of a chunk of this length is as `with_text` and `with_cues` write it."""
    if name in ("start", "end", "page"):
        return is_position(value)
    if name not in ("page_breaks", "cues"):
        return True
    if not isinstance(value, list):
        return False
    if name == "page_breaks":
        return all(map(is_position, value)) and bool(value == sorted(value))
    if not all(isinstance(time, list) and len(time) in (3, 4) for time in value):
        return False
    positions = [time[0] for time in value]
    return (
        all(is_position(position) and position <= length for position in positions)
        and positions == sorted(positions)
        and all(is_seconds(time[1]) and is_seconds(time[2]) for time in value)
        and all(isinstance(speaker, str) for time in value for speaker in time[3:])
    )


def is_seconds(value: Json) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9


def is_position(value: Json) -> bool:
    return type(value) is int and 0 <= value < 1 << 53
