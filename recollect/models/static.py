"""The default embedding model: a table with one vector per word piece of English.

The vector of a text is the weighted mean of the vectors of its pieces. How much a piece says
depends on the library: if every message names its author, the name says nothing. So the weights
and the zero point come from the library's `Counts`. Vectors made with different counts must not be
compared; `StaticModel.version` tells them apart.

Texts are split into pieces as BERT's uncased models do, except that symbols are separate words: an
emoji next to a word would otherwise make the word unknown. `tools/distill.py` makes the table.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError

TABLE = Path(__file__).with_name("static.table")
HEADER = struct.Struct("<8s4sIII")  # magic, version, pieces, dimensions, bytes of vocabulary
MAGIC = b"RCLTABLE"
DIMENSIONS = 256
LONGEST_WORD = 100  # as in BERT; anything longer is not a word
# The first entries of BERT's vocabulary. Single characters follow, then words by frequency.
PLACEHOLDERS = 999
_MOST_FREQUENT = 1_000
_PLAIN_WORD = re.compile("[a-z]{4,}")
CACHED = 60_000  # words; about 13 MB
AT_ONCE = 4_096  # vectors added up in one step; 4 MB
# The zero point is computed as if the library had this many more pieces, spread over the language.
# Otherwise the vector of the only message in a library would be zero.
PRIOR_PIECES = 100.0

Vector = NDArray[np.float32]


# -- the table ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Quantised vectors: the vector of a piece is its row of `codes` times its scale."""

    version: str
    pieces: dict[str, int]
    scales: Vector
    codes: NDArray[np.int8]

    @classmethod
    def read(cls, path: Path) -> Table:
        """Open a table file. The codes are mapped, so they are read when they are used.

        Raises RecollectError if the file is damaged.
        """
        with path.open("rb") as file:
            head = file.read(HEADER.size)
            magic, version, count, dimensions, size = HEADER.unpack(head.ljust(HEADER.size, b"\0"))
            start = HEADER.size + size
            if magic != MAGIC or path.stat().st_size != start + count * (4 + dimensions):
                raise RecollectError(f"{path} is damaged. Reinstall Recollect.")
            words = file.read(size).decode().split("\n")
            scales = np.frombuffer(file.read(4 * count), "<f4").astype(np.float32)
        codes = np.memmap(path, np.int8, "r", start + 4 * count, (count, dimensions))
        pieces = dict(zip(words, range(count), strict=True))
        return cls(version.rstrip(b"\0").decode(), pieces, scales, np.asarray(codes))

    def to_bytes(self) -> bytes:
        words = "\n".join(self.pieces).encode()
        head = HEADER.pack(MAGIC, self.version.encode(), *self.codes.shape, len(words))
        return head + words + self.scales.astype("<f4").tobytes() + self.codes.tobytes()


@cache
def default_table() -> tuple[Table, Pieces]:
    """The table that comes with Recollect, and its word pieces."""
    table = Table.read(TABLE)
    return table, Pieces(table.pieces)


def is_word(text: str) -> bool:
    """Whether the table has a vector for this word as a whole, not only for fragments of it."""
    return len(default_table()[1][text]) == 1


def common_words() -> list[str]:
    """Whole English words of the table, without the most frequent ones."""
    return [
        piece
        for piece, number in default_table()[0].pieces.items()
        if number > PLACEHOLDERS + _MOST_FREQUENT and _PLAIN_WORD.fullmatch(piece)
    ]


# -- splitting into pieces -----------------------------------------------------


_PLAIN = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CJK = "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f]"
_PREFIX_LENGTH = 5
_CONTINUATION = "##"  # marks pieces that do not start a word


class Pieces(dict[str, tuple[int, ...]]):
    """Splits words into pieces, by their numbers in the table. It is also a cache of words."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self._folding = _CharacterFolding()

    @cached_property
    def _longest(self) -> dict[str, int]:
        """The length of the longest piece with each prefix.

        Without it, a megabyte of base64 takes seconds. Words that are one piece do not need it.
        """
        return {piece[:_PREFIX_LENGTH]: len(piece) for piece in sorted(self._numbers, key=len)}

    def of(self, text: str) -> list[int]:
        """All known pieces of a text, in order."""
        if text.isascii():
            words = _PLAIN.findall(text.lower())
        else:
            words = text.translate(self._folding).split()
        return list(chain.from_iterable(map(self.__getitem__, words)))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return ()
        if len(self) >= CACHED:
            self.clear()
        self[word] = pieces = tuple(self._split(word))
        return pieces

    def _split(self, word: str) -> list[int]:
        """The longest piece that fits, repeatedly; nothing at all if a part has no piece."""
        whole = self._numbers.get(word)
        if whole is not None:
            return [whole]
        pieces = []
        rest = word
        marker = ""
        while rest:
            longest = self._longest.get((marker + rest)[:_PREFIX_LENGTH], _PREFIX_LENGTH)
            piece = self._longest_piece(marker + rest, longest, len(marker))
            if piece is None:
                return []
            number, length = piece
            pieces.append(number)
            rest = (marker + rest)[length:]
            marker = _CONTINUATION
        return pieces

    def _longest_piece(self, text: str, longest: int, shortest: int) -> tuple[int, int] | None:
        """The number and the length of the longest piece that the text begins with."""
        for length in range(min(len(text), longest), shortest, -1):
            number = self._numbers.get(text[:length])
            if number is not None:
                return number, length
        return None


class _CharacterFolding(dict[int, str]):
    """A table for `str.translate`: lower case, without accents, with spaces around symbols."""

    def __missing__(self, code: int) -> str:
        if len(self) >= CACHED:
            self.clear()
        characters = unicodedata.normalize("NFD", chr(code)).lower()
        self[code] = folded = "".join(map(_fold_character, characters))
        return folded


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or (category == "Cc" and character.isascii()):
        return " "
    if category[0] == "C" or category == "Mn":
        return ""
    if category[0] in "PS" or re.match(_CJK, character):
        return f" {character} "
    return character


# -- weights -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """In how many texts of a library each word piece occurs."""

    documents: int
    pieces: NDArray[np.uint32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Counts:
        """Count the pieces of the texts, reading each text once."""
        table, splitter = default_table()
        pieces = np.zeros(len(table.pieces), np.uint32)
        documents = 0
        for text in texts:
            documents += 1
            pieces[list(set(splitter.of(text)))] += 1
        return cls(documents, pieces)

    def to_bytes(self) -> bytes:
        return zlib.compress(self._raw())

    @classmethod
    def from_bytes(cls, data: bytes) -> Counts:
        raw = zlib.decompress(data)
        documents = int.from_bytes(raw[:8], "little")
        return cls(documents, np.frombuffer(raw, "<u4", offset=8).astype(np.uint32))

    def digest(self) -> str:
        return hashlib.sha256(self._raw()).hexdigest()

    def weights(self) -> Vector:
        """How much each piece says: rare pieces more, pieces that never occurred most."""
        counts = self.pieces.astype(np.float64)
        frequencies = np.log1p((self.documents - counts + 0.5) / (counts + 0.5))
        return np.sqrt(frequencies).astype(np.float32)

    def _raw(self) -> bytes:
        return self.documents.to_bytes(8, "little") + self.pieces.astype("<u4").tobytes()


def _default_weights(count: int) -> Vector:
    """Weights without a library: pieces later in the vocabulary are rarer."""
    return np.log1p(np.maximum(np.arange(count) - PLACEHOLDERS, 1)).astype(np.float32)


# -- the model -----------------------------------------------------------------


class StaticModel:
    """Vectors by lookup and addition. Safe to use from several threads."""

    name = "static"
    dimensions = DIMENSIONS

    def __init__(self, counts: Counts | None = None) -> None:
        """`counts` are those of the library whose texts are compared.

        Raises InvalidInput if they belong to another table.
        """
        table, self._splitter = default_table()
        self._codes = table.codes
        if counts is None:
            self.version = table.version
            self._weights = _default_weights(len(table.pieces))
            self._scales = table.scales * self._weights
            self._zero = np.zeros(DIMENSIONS, np.float32)
            return
        if len(counts.pieces) != len(table.pieces):
            raise InvalidInput("The word counts belong to another table. Count the texts again.")
        self.version = f"{table.version}-{counts.digest()[:12]}"
        self._weights = counts.weights()
        self._scales = table.scales * self._weights
        self._zero = self._mean(counts)

    def __repr__(self) -> str:
        return f"StaticModel({self.version!r})"

    def embed(self, texts: Sequence[str]) -> Vector:
        """One unit vector per text, as rows. Texts without known pieces are zero."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            pieces = self._splitter.of(text)
            if pieces:
                self._add(pieces, vector)
                length = math.sqrt(np.dot(vector, vector))
                if length:
                    vector /= length
        return vectors

    def embed_query(self, text: str) -> Vector:
        """The vector of a query; this model treats queries like any other text."""
        row: Vector = self.embed([text])[0]
        return row

    def _add(self, pieces: list[int], vector: Vector) -> None:
        """Add the vectors of the pieces. A piece counts as the square root of its occurrences,
        because long texts repeat themselves."""
        numbers, occurrences = np.unique(np.array(pieces, np.intp), return_counts=True)
        factors = np.sqrt(occurrences).astype(np.float32)
        for start in range(0, len(numbers), AT_ONCE):
            part = numbers[start : start + AT_ONCE]
            weights = factors[start : start + AT_ONCE]
            vector += (weights * self._scales[part]) @ self._codes[part].astype(np.float32)
            vector -= (weights @ self._weights[part]) * self._zero

    def _mean(self, counts: Counts) -> Vector:
        """The weighted mean of all pieces in the library."""
        weights = (self._scales * counts.pieces).astype(np.float32)
        total = np.zeros(DIMENSIONS, np.float32)
        present = np.flatnonzero(counts.pieces)  # a small library has few pieces of the table
        for start in range(0, len(present), AT_ONCE):
            part = present[start : start + AT_ONCE]
            total += weights[part] @ self._codes[part].astype(np.float32)
        return (total / (self._weights @ counts.pieces + PRIOR_PIECES)).astype(np.float32)
