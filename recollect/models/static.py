"""The default embedding model: a table with a vector for each word piece of English.

The vector of a text is the weighted mean of its pieces' vectors. What a piece says depends on the library: where every
message names its author, the names say nothing. So the weights and the zero point come from the library's `Counts`.
Vectors made with different counts must not be compared; `StaticModel.version` tells them apart.

A text is cut as BERT's uncased models cut it, except that symbols stand alone: an emoji set against a word would
otherwise make the word unknown. `tools/distill.py` makes the table.
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
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError

TABLE = Path(__file__).with_name("static.table")
HEADER = struct.Struct("<8s4sIII")  # magic, version, pieces, dimensions, bytes of vocabulary
MAGIC = b"RCLTABLE"
DIMENSIONS = 256
LONGEST_WORD = 100  # as in BERT; what is longer is no word
PLACEHOLDERS = 999  # first in BERT's vocabulary; after them single characters, then words from the most frequent on
CACHED = 60_000  # words, about 13 MB
AT_ONCE = 4_096  # pieces whose vectors are added up in one step: 4 MB
# The zero point is taken as if the library held this many more pieces from all over the language. Without them the
# vector of its only message would be zero.
PRIOR_PIECES = 100.0

Vector = NDArray[np.float32]


# -- the table ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The vector of a piece is its row of `codes` times its scale."""

    version: str
    pieces: dict[str, int]
    scales: Vector
    codes: NDArray[np.int8]

    @classmethod
    def read(cls, path: Path) -> Table:
        """The codes stay in the file until they are used. Raises RecollectError when the file is damaged."""
        with path.open("rb") as file:
            head = file.read(HEADER.size)
            magic, version, count, dimensions, size = HEADER.unpack(head.ljust(HEADER.size, b"\0"))
            start = HEADER.size + size
            if magic != MAGIC or path.stat().st_size != start + count * (4 + dimensions):
                raise RecollectError(f"{path} is damaged. Install Recollect again.")
            words = file.read(size).decode().split("\n")
            scales = np.frombuffer(file.read(4 * count), "<f4").astype(np.float32)
        codes = np.memmap(path, np.int8, "r", start + 4 * count, (count, dimensions))
        return cls(
            version.rstrip(b"\0").decode(),
            dict(zip(words, range(count), strict=True)),
            scales,
            np.asarray(codes),
        )

    def to_bytes(self) -> bytes:
        words = "\n".join(self.pieces).encode()
        head = HEADER.pack(MAGIC, self.version.encode(), *self.codes.shape, len(words))
        return head + words + self.scales.astype("<f4").tobytes() + self.codes.tobytes()


@cache
def default_table() -> tuple[Table, Pieces]:
    """The table that comes with Recollect, and the pieces of words in it."""
    table = Table.read(TABLE)
    return table, Pieces(table.pieces)


# -- cutting -----------------------------------------------------------------


_PLAIN = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CJK = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f]"
)
_BEGINNING = 5


class Pieces(dict[str, tuple[int, ...]]):
    """The pieces of the words that were met, by number."""

    def __init__(self, known: dict[str, int]) -> None:
        self._known = known
        # How long a piece can be that begins so; without, cutting a megabyte of base64 takes seconds.
        self._longest = {piece[:_BEGINNING]: len(piece) for piece in sorted(known, key=len)}
        self._folded = _Folded()

    def of(self, text: str) -> list[int]:
        """All known pieces of a text, in its order."""
        words = (
            _PLAIN.findall(text.lower()) if text.isascii() else text.translate(self._folded).split()
        )
        return list(chain.from_iterable(map(self.__getitem__, words)))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return ()
        if len(self) >= CACHED:
            self.clear()
        self[word] = found = tuple(self._cut(word))
        return found

    def _cut(self, word: str) -> list[int]:
        """The longest piece that fits, again and again; none at all where one is missing."""
        found = []
        mark = ""
        while word:
            rest = mark + word
            for length in range(
                min(len(rest), self._longest.get(rest[:_BEGINNING], _BEGINNING)), len(mark), -1
            ):
                number = self._known.get(rest[:length])
                if number is not None:
                    break
            else:
                return []
            found.append(number)
            word = rest[length:]
            mark = "##"
        return found


class _Folded(dict[int, str]):
    """What becomes of each character before a text is cut at its spaces; for `str.translate`."""

    def __missing__(self, code: int) -> str:
        if len(self) >= CACHED:
            self.clear()
        self[code] = bare = "".join(map(_fold, unicodedata.normalize("NFD", chr(code)).lower()))
        return bare


def _fold(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or (category == "Cc" and character.isascii()):
        return " "
    if category[0] == "C" or category == "Mn":
        return ""
    return f" {character} " if category[0] in "PS" or _CJK.match(character) else character


# -- weighing ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """In how many of a library's texts each word piece occurs."""

    documents: int
    pieces: NDArray[np.uint32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Counts:
        """The texts are read once and not kept."""
        table, cut = default_table()
        pieces = np.zeros(len(table.pieces), np.uint32)
        documents = 0
        for text in texts:
            documents += 1
            pieces[list(set(cut.of(text)))] += 1
        return cls(documents, pieces)

    def to_bytes(self) -> bytes:
        return zlib.compress(self._raw())

    @classmethod
    def from_bytes(cls, data: bytes) -> Counts:
        raw = zlib.decompress(data)
        return cls(
            int.from_bytes(raw[:8], "little"), np.frombuffer(raw, "<u4", offset=8).astype(np.uint32)
        )

    def digest(self) -> str:
        return hashlib.sha256(self._raw()).hexdigest()

    def weights(self) -> Vector:
        """How much each piece says: the rarer it is the more, and the most where it was not seen yet."""
        with_it = self.pieces.astype(np.float64)
        return np.sqrt(np.log1p((self.documents - with_it + 0.5) / (with_it + 0.5))).astype(
            np.float32
        )

    def _raw(self) -> bytes:
        return self.documents.to_bytes(8, "little") + self.pieces.astype("<u4").tobytes()


def _usual_weights(count: int) -> Vector:
    """The same without a library: the later in the vocabulary, the rarer."""
    return np.log1p(np.maximum(np.arange(count) - PLACEHOLDERS, 1)).astype(np.float32)


# -- the model ---------------------------------------------------------------


class StaticModel:
    """Vectors by looking up and adding. Safe to use from several threads."""

    name = "static"
    dimensions = DIMENSIONS

    def __init__(self, counts: Counts | None = None) -> None:
        """`counts` are those of the library whose texts are compared.

        Raises InvalidInput when they are of another table.
        """
        table, self._cut = default_table()
        if counts is not None and len(counts.pieces) != len(table.pieces):
            raise InvalidInput("The word counts are of another table. Count the texts again.")
        self.version = (
            table.version if counts is None else f"{table.version}-{counts.digest()[:12]}"
        )
        self._codes = table.codes
        self._weights = _usual_weights(len(table.pieces)) if counts is None else counts.weights()
        self._scales = table.scales * self._weights
        self._zero = np.zeros(DIMENSIONS, np.float32) if counts is None else self._middle(counts)

    def __repr__(self) -> str:
        return f"StaticModel({self.version!r})"

    def embed(self, texts: Sequence[str]) -> Vector:
        """One row of unit length for each text; zeros where no piece of it is known."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            pieces = self._cut.of(text)
            if pieces:
                self._sum(pieces, vector)
                length = math.sqrt(np.dot(vector, vector))
                if length:
                    vector /= length
        return vectors

    def embed_query(self, text: str) -> Vector:
        """The vector of a question; the model makes no difference."""
        row: Vector = self.embed([text])[0]
        return row

    def _sum(self, pieces: list[int], into: Vector) -> None:
        """A piece that occurs four times counts twice: a long text repeats itself more than it says more."""
        found, times = np.unique(np.array(pieces, np.intp), return_counts=True)
        often = np.sqrt(times).astype(np.float32)
        for start in range(0, len(found), AT_ONCE):
            part = found[start : start + AT_ONCE]
            weights = often[start : start + AT_ONCE]
            into += (weights * self._scales[part]) @ self._codes[part].astype(np.float32)
            into -= (weights @ self._weights[part]) * self._zero

    def _middle(self, counts: Counts) -> Vector:
        """The weighted mean of all pieces in the library."""
        weights = (self._scales * counts.pieces).astype(np.float32)
        total = np.zeros(DIMENSIONS, np.float32)
        present = np.flatnonzero(counts.pieces)  # a small library has few pieces of the table
        for start in range(0, len(present), AT_ONCE):
            part = present[start : start + AT_ONCE]
            total += weights[part] @ self._codes[part].astype(np.float32)
        return (total / (self._weights @ counts.pieces + PRIOR_PIECES)).astype(np.float32)
