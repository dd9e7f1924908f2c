"""The default embedding model: a table with one vector per word piece of English.

The vector of a text is the weighted mean of the vectors of its pieces. How much a piece says
depends on the library: if every message names its author, the name says nothing. So the weights
and the zero point come from the library's `Counts`. Vectors made with different counts must not be
compared; `StaticModel.version` tells them apart.

`tools/distill.py` makes the table.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError
from recollect.models.pieces import Bags, PieceCounter, Pieces
from recollect.models.stopping import Stop, never_stop

TABLE = Path(__file__).with_name("static.table")
HEADER = struct.Struct("<8s4sIII")  # magic, version, pieces, dimensions, bytes of vocabulary
MAGIC = b"RCLTABLE"
DIMENSIONS = 256
# The first entries of BERT's vocabulary. Single characters follow, then words by frequency.
PLACEHOLDERS = 999
_MOST_FREQUENT = 1_000
AT_ONCE = 4_096  # vectors added up in one step; 4 MB
ROWS = 256  # vectors decoded in one step; 256 KB, which a processor's cache holds
# The zero point is computed as if the library had this many more pieces, spread over the language.
# Otherwise the vector of the only message in a library would be zero.
PRIOR_PIECES = 100.0

Vector = NDArray[np.float32]


# -- the table ---------------------------------------------------------------


class Table(NamedTuple):
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


@cache
def default_counter() -> PieceCounter:
    table, pieces = default_table()
    return PieceCounter(pieces, len(table.pieces))


def is_word(text: str) -> bool:
    """Whether the table has a vector for this word as a whole, not only for fragments of it."""
    return len(default_table()[1][text]) == 1


def common_words() -> list[str]:
    """Whole English words of the table, without the most frequent ones."""
    return [
        piece
        for piece, number in default_table()[0].pieces.items()
        if number > PLACEHOLDERS + _MOST_FREQUENT
        and len(piece) >= 4
        and piece.isascii()
        and piece.isalpha()
    ]


# -- weights -------------------------------------------------------------------


class Counts(NamedTuple):
    """In how many texts of a library each word piece occurs."""

    documents: int
    pieces: NDArray[np.uint32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Counts:
        """Count the pieces of the texts, reading each text once."""
        size = len(default_table()[0].pieces)
        counts = np.zeros(size, np.uint32)
        documents = 0
        for bags in default_counter().count(texts):
            documents += len(bags.ends)
            counts += np.bincount(bags.pieces, minlength=size).astype(np.uint32)
        return cls(documents, counts)

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


def default_weights(count: int) -> Vector:
    """Weights without a library: pieces later in the vocabulary are rarer."""
    return np.log1p(np.maximum(np.arange(count) - PLACEHOLDERS, 1)).astype(np.float32)


def groups(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first text and the end of as many texts as are decoded together; at least one text."""
    text = start = 0
    while text < len(ends):
        following = max(bisect_right(ends, start + ROWS, text), text + 1)
        yield text, following
        text, start = following, ends[following - 1]


# -- the model -----------------------------------------------------------------


class StaticModel:
    """Vectors by lookup and addition. Safe to use from several threads."""

    name = "static"
    dimensions = DIMENSIONS

    def __init__(self, counts: Counts | None = None) -> None:
        """`counts` are those of the library whose texts are compared.

        Raises InvalidInput if they belong to another table.
        """
        table, _ = default_table()
        self._codes = table.codes
        if counts is None:
            self.version = table.version
            self._weights = default_weights(len(table.pieces))
            self._scales = table.scales * self._weights
            self._zero = np.zeros(DIMENSIONS, np.float32)
            return
        if len(counts.pieces) != len(table.pieces):
            raise InvalidInput("The word counts belong to another table. Count the texts again.")
        self.version = f"{table.version}-{counts.digest()[:12]}"
        self._weights = counts.weights()
        self._scales = table.scales * self._weights
        self._zero = self._mean(counts)

    def embed(self, texts: Sequence[str], stop: Stop = never_stop) -> Vector:
        """One unit vector per text, as rows. Texts without known pieces are zero.

        It is too fast to be stopped.
        """
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        start = 0
        for bags in default_counter().count(texts):
            end = start + len(bags.ends)
            self._compute(bags, vectors[start:end])
            start = end
        return vectors

    def embed_query(self, text: str) -> Vector:
        """The vector of a query; this model treats queries like any other text."""
        _, pieces = default_table()
        vectors = np.zeros((1, DIMENSIONS), np.float32)
        self._compute(Bags.of_text(pieces.of(text)), vectors)
        row: Vector = vectors[0]
        return row

    def _compute(self, bags: Bags, vectors: Vector) -> None:
        """Compute the vectors of texts. They are zero before.

        A piece counts as the square root of its occurrences, because long texts repeat themselves.
        """
        factors = np.sqrt(bags.occurrences).astype(np.float32)
        scales = factors * self._scales[bags.pieces]
        pieces = bags.pieces.astype(np.intp)
        rows = np.empty((min(ROWS, len(pieces)), DIMENSIONS), np.float32)
        start = 0
        for text, following in groups(bags.ends):
            end = bags.ends[following - 1]
            if end - start > ROWS:
                self._add_long(scales[start:end], pieces[start:end], rows, vectors[text])
            else:
                rows[: end - start] = self._codes.take(pieces[start:end], axis=0)
                first = start
                for number, last in enumerate(bags.ends[text:following], text):
                    scales[first:last].dot(rows[first - start : last - start], vectors[number])
                    first = last
            start = end
        weights = factors * self._weights[bags.pieces]
        totals = np.bincount(bags.texts, weights, len(vectors)).astype(np.float32)
        vectors -= totals[:, None] * self._zero
        lengths = np.sqrt(np.vecdot(vectors, vectors))
        lengths[lengths == 0] = 1.0
        vectors /= lengths[:, None]

    def _add_long(
        self, scales: Vector, pieces: NDArray[np.intp], rows: Vector, vector: Vector
    ) -> None:
        """Add the pieces of one long text to its vector, some at a time."""
        for first in range(0, len(pieces), ROWS):
            some = pieces[first : first + ROWS]
            rows[: len(some)] = self._codes.take(some, axis=0)
            vector += scales[first : first + ROWS].dot(rows[: len(some)])

    def _mean(self, counts: Counts) -> Vector:
        """The weighted mean of all pieces in the library."""
        weights = (self._scales * counts.pieces).astype(np.float32)
        total = np.zeros(DIMENSIONS, np.float32)
        present = np.flatnonzero(counts.pieces)  # a small library has few pieces of the table
        for start in range(0, len(present), AT_ONCE):
            part = present[start : start + AT_ONCE]
            total += weights[part] @ self._codes[part].astype(np.float32)
        return (total / (self._weights @ counts.pieces + PRIOR_PIECES)).astype(np.float32)
