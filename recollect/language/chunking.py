"""A long text in chunks: whole sentences, up to a size, with what each has in common with the one before.

Sizes are in tokens, of which nobody knows the exact number without a model's
own tokenizer; a token is taken to be so many characters. Chunks without overlap
put together again are the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID, uuid5

CHARACTERS_PER_TOKEN = 4.0
CHUNK_TOKENS = 250
"""Tokens of a chunk as it is stored: about what one vector can speak for."""
OVERLAP = 0
"""Stored chunks share nothing, so that no sentence is found twice."""
_NAMES = UUID("5a4c2f5e-8f0b-5c58-9b0e-3f1c7a1d7e42")
_BREAK = re.compile(r"\n[ \t]*\n\s*\Z|\n\Z")
_HEADING = re.compile(r"#{1,6} ")
_SPACE = re.compile(r"\s")
_LONE = re.compile("[\ud800-\udfff]")  # halves of characters, which the library below does not take


class Chunk(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int


def count_tokens(text: str | int, per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """About how many tokens a text has, or so many characters."""
    length = text if isinstance(text, int) else len(text)
    return -int(-length // per_token)


def chunks(
    text: str,
    size: int = CHUNK_TOKENS,
    overlap: int = OVERLAP,
    per_token: float = CHARACTERS_PER_TOKEN,
    language: str = "en",
) -> list[Chunk]:
    """The text in chunks of at most `size` tokens, each beginning at most `overlap` tokens before the last one ended.

    A chunk ends with a sentence, rather with a paragraph where it is half full. Only a sentence that is longer than
    a chunk is cut, between words where it has any.
    """
    room = max(1, int(size * per_token))
    shared = min(max(0, int(overlap * per_token)), room - 1)
    pieces = [
        piece for start, end in sentences(text, language) for piece in _cut(text, start, end, room)
    ]
    return list(_packed(text, pieces, room, shared))


def sentences(text: str, language: str = "en") -> list[Chunk]:
    """Where the sentences of a text lie, with the space that follows them; nothing of it is left out."""
    from sentencex import segment

    found: list[Chunk] = []
    at = 0
    for sentence in segment(language, _LONE.sub("?", text)):
        if not sentence.strip() and found:  # an empty line belongs to what it follows
            found[-1] = Chunk(found[-1].start, at + len(sentence))
        else:
            found.append(Chunk(at, at + len(sentence)))
        at += len(sentence)
    return found if at == len(text) else [Chunk(0, len(text))]


def chunk_ids(document: str, contents: Iterable[str]) -> Iterator[str]:
    """A name for each chunk of a document. It stays as long as what the chunk says does, wherever it moves to."""
    times: dict[str, int] = {}
    for content in contents:
        number = times[content] = times.get(content, 0) + 1
        yield str(
            uuid5(_NAMES, f"{document}\0{number}\0{content}".encode("utf-8", "surrogatepass").hex())
        )


def _cut(text: str, start: int, end: int, room: int) -> Iterator[Chunk]:
    """A sentence that is too long for one chunk in parts, between words where there are any."""
    while end - start > room:
        limit = start + room
        space = next(
            (
                at
                for at in range(limit, max(start, limit - room // 4), -1)
                if _SPACE.match(text, at - 1)
            ),
            limit,
        )
        yield Chunk(start, space)
        start = space
    if end > start:
        yield Chunk(start, end)


def _packed(text: str, pieces: Sequence[Chunk], room: int, shared: int) -> Iterator[Chunk]:
    first = 0
    while first < len(pieces):
        last = first
        while last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= room:
            if (
                _is_break(text, pieces, last)
                and 2 * (pieces[last].end - pieces[first].start) >= room
            ):
                break
            last += 1
        yield Chunk(pieces[first].start, pieces[last].end)
        following = last + 1
        if following < len(pieces):
            while (
                following > first + 1 and pieces[last].end - pieces[following - 1].start <= shared
            ):
                following -= 1
            while following <= last and pieces[last + 1].end - pieces[following].start > room:
                following += 1  # what is shared must leave room for something new
        first = following


def _is_break(text: str, pieces: Sequence[Chunk], at: int) -> bool:
    """Whether a paragraph ends with this piece, or a heading follows it."""
    end = text[max(pieces[at].start, pieces[at].end - 20) : pieces[at].end]
    return _BREAK.search(end) is not None or _HEADING.match(text, pieces[at].end) is not None
