"""Splitting long texts into chunks of whole sentences, optionally with overlap.

Sizes are in tokens. The exact number of tokens depends on a model's tokenizer, so a token is
taken to be a fixed number of characters. Chunks without overlap concatenate to the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID, uuid5

CHARACTERS_PER_TOKEN = 4.0
CHUNK_TOKENS = 250
"""Size of stored chunks: about as much text as one vector can represent."""
OVERLAP = 0
"""Stored chunks do not overlap, so that no sentence is found twice."""
_ID_NAMESPACE = UUID("5a4c2f5e-8f0b-5c58-9b0e-3f1c7a1d7e42")
_SHORT_CHARACTERS = 32_000
"""A text up to this length is split into sentences at once, a longer one by windows."""
_WINDOW_CHARACTERS = 8_000


class Chunk(NamedTuple):
    """A part of a text: the characters from `start` up to `end`, without `end`."""

    start: int
    end: int


def count_tokens(text: str | int, per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """The approximate number of tokens of a text, or of a number of characters."""
    if isinstance(text, str):
        text = len(text)
    return -int(-text // per_token)


def chunks(
    text: str,
    size: int = CHUNK_TOKENS,
    overlap: int = OVERLAP,
    per_token: float = CHARACTERS_PER_TOKEN,
    language: str = "en",
) -> list[Chunk]:
    """Split a text into chunks of at most `size` tokens, with at most `overlap` tokens in common.

    A chunk ends at the end of a sentence, preferably of a paragraph if the chunk is at least half
    full. Only sentences longer than a chunk are split, between words if possible.
    """
    room = max(1, int(size * per_token))
    max_overlap = min(max(0, int(overlap * per_token)), room - 1)
    pieces: list[Chunk] = []
    for sentence in sentences(text, language):
        pieces += split_sentence(text, sentence, room)
    return list(pack(text, pieces, room, max_overlap))


def sentences(text: str, language: str = "en") -> list[Chunk]:
    """The sentences of a text, each with the white space after it. Together they cover the text."""
    chunks: list[Chunk] = []
    end = 0
    # The sentence splitter does not accept surrogates.
    plain_text = text.encode("utf-8", "replace").decode()
    for sentence in _segments(plain_text, language):
        start, end = end, end + len(sentence)
        if not sentence.strip() and chunks:  # an empty line belongs to the sentence before it
            chunks[-1] = Chunk(chunks[-1].start, end)
        else:
            chunks.append(Chunk(start, end))
    if end != len(text):
        return [Chunk(0, len(text))]
    return chunks


def chunk_ids(document: str, contents: Iterable[str]) -> Iterator[str]:
    """An id for each chunk of a document.

    The id depends on the content, not on the position, so it survives edits elsewhere in the text.
    """
    occurrences: dict[str, int] = {}
    for content in contents:
        number = occurrences[content] = occurrences.get(content, 0) + 1
        name = f"{document}\0{number}\0{content}".encode("utf-8", "surrogatepass").hex()
        yield str(uuid5(_ID_NAMESPACE, name))


def _segments(text: str, language: str) -> Iterator[str]:
    """The sentences of a text, a few paragraphs at a time.

    The splitter takes time in proportion to the square of a paragraph with many quotation marks.
    The last sentence of a paragraph that is cut off belongs to the next window.
    """
    from sentencex import segment

    start = 0
    while start < len(text):
        end = window_end(text, start)
        segments = segment(language, text[start:end])
        is_cut = end < len(text) and not text.endswith("\n\n", start, end)
        if is_cut and len(segments) > 1:
            segments = segments[:-1]
        yield from segments
        start = min(end, start + sum(map(len, segments)))
        if not segments:  # nothing may be lost
            return


def window_end(text: str, start: int) -> int:
    """The end of the last paragraph that fits into a window, or of the window."""
    end = start + _WINDOW_CHARACTERS
    if end >= len(text) or len(text) <= _SHORT_CHARACTERS:
        return len(text)
    paragraph_end = text.rfind("\n\n", start, end) + 2
    if paragraph_end <= start + 2:
        return end
    while paragraph_end < end and text[paragraph_end] == "\n":
        paragraph_end += 1
    return paragraph_end


def split_sentence(text: str, sentence: Chunk, room: int) -> Iterator[Chunk]:
    """Split a sentence that is too long for one chunk, between words if possible."""
    start, end = sentence
    while end - start > room:
        limit = start + room
        places = range(limit, max(start, limit - room // 4), -1)
        cut = next((place for place in places if text[place - 1].isspace()), limit)
        yield Chunk(start, cut)
        start = cut
    if end > start:
        yield Chunk(start, end)


def pack(text: str, pieces: Sequence[Chunk], room: int, max_overlap: int) -> Iterator[Chunk]:
    """Combine consecutive pieces into chunks. Sizes are in characters."""
    first = 0
    while first < len(pieces):
        start = pieces[first].start
        last = first
        while last + 1 < len(pieces) and pieces[last + 1].end - start <= room:
            is_half_full = 2 * (pieces[last].end - start) >= room
            if is_half_full and is_paragraph_end(text, pieces[last]):
                break
            last += 1
        end = pieces[last].end
        yield Chunk(start, end)
        following = last + 1
        if following < len(pieces):
            while following > first + 1 and end - pieces[following - 1].start <= max_overlap:
                following -= 1
            # The overlap must leave room for at least one new piece.
            while following <= last and pieces[last + 1].end - pieces[following].start > room:
                following += 1
        first = following


def is_paragraph_end(text: str, piece: Chunk) -> bool:
    """Whether a paragraph ends with this piece, or a heading follows it."""
    space = text[max(piece.start, piece.end - 20) : piece.end]
    space = space[len(space.rstrip()) :]
    following = text[piece.end : piece.end + 7]  # a heading has up to six marks
    is_heading = following.startswith("#") and following.lstrip("#").startswith(" ")
    return space.endswith("\n") or space.count("\n") > 1 or is_heading
