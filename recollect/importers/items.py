"""Notes, media, characters and prompts as documents.

A text is kept as its chunks, which put together again are the text; what has
fields (a character, a prompt) as a passage for each, named by its role. Each
chunk says where it lies: `start` and `end` in the text or the field, `page`
where there are pages, and of a transcript `cues`, the times at which its parts
are said.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from recollect.language.chunking import Chunk, chunk_ids, chunks
from recollect.language.transcript import Cue
from recollect.model.documents import Document, Json, Passage
from recollect.model.kinds import CHARACTER, PROMPT

FIELDS: Mapping[str, tuple[str, ...]] = {
    CHARACTER: (
        "name",
        "description",
        "personality",
        "scenario",
        "system_prompt",
        "first_message",
        "message_example",
        "post_history_instructions",
        "creator_notes",
        "alternate_greetings",
        "character_book",
        "creator",
        "tags",
    ),
    PROMPT: ("name", "details", "system_prompt", "user_prompt", "author", "keywords"),
}
"""The fields that can be searched, in the order in which they are kept; the first one is the title."""


def with_text(document: Document, text: str, pages: Sequence[int] = ()) -> Document:
    """The document with a text in chunks. `pages` says where in the text each page begins."""
    passages = []
    for chunk, passage in _chunked(document, text):
        about: dict[str, Json] = {"start": chunk.start, "end": chunk.end}
        if pages:
            about["page"] = max(1, bisect_right(pages, chunk.start))
        passages.append(passage._replace(metadata=about))
    return replace(document, passages=tuple(passages))


def with_cues(document: Document, cues: Iterable[Cue]) -> Document:
    """The document with a transcript in chunks, each of which knows when its parts are said."""
    said = [cue for cue in cues if cue.text.strip()]
    starts: list[int] = []
    parts: list[str] = []
    at = 0
    for number, cue in enumerate(said):
        starts.append(at)
        parts.append(cue.text.strip() + ("\n" if _turns(said, number) else " "))
        at += len(parts[-1])
    passages = []
    for chunk, passage in _chunked(document, "".join(parts)):
        inside = range(
            max(0, bisect_right(starts, chunk.start) - 1), bisect_right(starts, chunk.end - 1)
        )
        times = [_timed(said[n], max(0, starts[n] - chunk.start)) for n in inside]
        speakers = {said[n].speaker for n in inside}
        about = {"start": chunk.start, "end": chunk.end, "cues": times}
        passages.append(
            passage._replace(metadata=about, author=speakers.pop() if len(speakers) == 1 else None)
        )
    return replace(document, passages=tuple(passages))


def with_fields(document: Document, fields: Mapping[str, str]) -> Document:
    """The document with a passage for each field that says something, long ones in chunks. The first is its title."""
    names = FIELDS[document.kind]
    passages: list[Passage] = []
    for name in names:
        text = fields.get(name) or ""
        if text or name == names[0]:
            passages += [
                passage._replace(
                    role=name, type="field", metadata={"start": chunk.start, "end": chunk.end}
                )
                for chunk, passage in _chunked(document, text)
            ]
    ids = chunk_ids(_name(document), (f"{p.role}\0{p.content}" for p in passages))
    named = tuple(p._replace(id=id_) for p, id_ in zip(passages, ids, strict=True))
    return replace(document, title=fields.get(names[0]) or document.title, passages=named)


def drop_invalid_metadata(document: Document) -> Document:
    """The document without places, times and cards that are none: for what somebody else wrote."""
    metadata = dict(document.metadata)
    if not isinstance(metadata.get("card", {}), Mapping):
        del metadata["card"]
    passages = tuple(passage._replace(metadata=_sound(passage)) for passage in document.passages)
    return replace(document, metadata=metadata, passages=passages)


def text_of(passages: Iterable[Passage]) -> str:
    return "".join(passage.content for passage in passages)


def fields_of(passages: Iterable[Passage]) -> dict[str, str]:
    return {
        role or "": text_of(parts)
        for role, parts in groupby(passages, key=lambda passage: passage.role)
    }


def cues_of(passages: Iterable[Passage]) -> Iterator[Cue]:
    """The transcript as it came in, but for white space: a cue that two chunks share is one again."""
    last: Cue | None = None
    for passage in passages:
        times = passage.metadata.get("cues") or []
        ends = [*(time[0] for time in times[1:]), len(passage.content)][: len(times)]
        for (at, start, end, *speaker), until in zip(times, ends, strict=True):
            cue = Cue(start, end, passage.content[at:until], speaker[0] if speaker else None)
            if last is not None and at == 0 and last[:2] == cue[:2] and last.speaker == cue.speaker:
                last = last._replace(text=last.text + cue.text)
                continue
            if last is not None:
                yield last._replace(text=last.text.strip())
            last = cue
    if last is not None:
        yield last._replace(text=last.text.strip())


def seconds_at(passage: Passage, offset: int) -> float | None:
    """When that is said which stands at this place of a chunk; None where the chunk has no times."""
    times = passage.metadata.get("cues")
    if not times:
        return None
    found: float = times[max(0, bisect_right(times, offset, key=lambda time: time[0]) - 1)][1]
    return found


def _chunked(document: Document, text: str) -> list[tuple[Chunk, Passage]]:
    """At least one, so that a document without a text is still found by its title."""
    language = document.metadata.get("language")
    places = chunks(
        text, language=language if isinstance(language, str) and language else "en"
    ) or [Chunk(0, 0)]
    contents = [text[start:end] for start, end in places]
    ids = chunk_ids(_name(document), contents)
    return [
        (chunk, Passage(id_, None, content, type="chunk", created_at=document.created_at))
        for chunk, id_, content in zip(places, ids, contents, strict=True)
    ]


def _name(document: Document) -> str:
    return f"{document.source}\0{document.source_id}"


def _sound(passage: Passage) -> dict[str, Json]:
    metadata = dict(passage.metadata)
    for name in ("start", "end", "page"):
        if name in metadata and not _whole(metadata[name]):
            del metadata[name]
    times = metadata.get("cues", [])
    right = isinstance(times, list) and all(_is_time(time, len(passage.content)) for time in times)
    if not right or [time[0] for time in times] != sorted(time[0] for time in times):
        del metadata["cues"]
    return metadata


def _is_time(value: Json, length: int) -> bool:
    """Whether it is written as `_timed` writes it."""
    if (
        not isinstance(value, list)
        or len(value) not in (3, 4)
        or not _whole(value[0])
        or value[0] > length
    ):
        return False
    seconds = all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < 1e9 for v in value[1:3]
    )
    return seconds and all(isinstance(speaker, str) for speaker in value[3:])


def _whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _turns(cues: Sequence[Cue], number: int) -> bool:
    """Whether somebody else speaks next."""
    return number + 1 < len(cues) and cues[number + 1].speaker != cues[number].speaker


def _timed(cue: Cue, at: int) -> list[Json]:
    return [at, cue.start, cue.end] + ([cue.speaker] if cue.speaker else [])
