"""The reranker: a small transformer that judges how well a passage answers a query.

It reads the query and the passage together, so it recognizes answers in other words than those of
the question. That takes about 18 ms per passage on a slow core, so it only reorders the best
candidates of a search (`search.rerank`). `tools/train_reranker.py` makes the model.
"""

from __future__ import annotations

import math
import re
import zipfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError
from recollect.language.languages import ENGLISH
from recollect.language.words import stem
from recollect.models.pieces import Pieces
from recollect.models.static import default_table

MODEL = Path(__file__).with_name("reranker.npz")
LENGTH = 48  # word pieces of a query and a passage together
DIALOGUE_LENGTH = 52  # for messages between people; half of LoCoMo's fit as a whole
SHORTEST, LONGEST = 40, 128
CANDIDATES = 16
HEADS = 12
_AT_ONCE = 5  # passages computed in one step; their intermediate results fit the CPU's cache
_QUERY_CHARACTERS = 2_000

OPENING, CLOSING = 101, 102  # [CLS] and [SEP]
QUERY_PIECES = 24
AUTHOR_PIECES = 6
CHARACTERS_PER_PIECE = 5  # a little more than in English, so that a window has enough pieces
_LONGEST_TEXT = 50_000  # characters in which a window is looked for
_MATCHES = 2_000  # positions considered in one text

Floats = NDArray[np.float32]


class Passage(NamedTuple):
    """A text to judge, and who wrote it: a name, or a role such as `user`."""

    author: str
    text: str


# -- the part of a passage that is read -----------------------------------------------


_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?\n]\s+")


@lru_cache(maxsize=256)
def query_pattern(query: str) -> re.Pattern[str] | None:
    """A pattern with one group per word of the query, which matches its inflected forms."""
    words = [word.casefold() for word in _WORD.findall(query[:_QUERY_CHARACTERS])]
    content = [word for word in words if word not in ENGLISH.stop_words and len(word) > 1]
    stems = list(dict.fromkeys(stem(word)[:12] for word in content))[:40]
    if not stems:
        return None
    groups = "|".join(f"({re.escape(each)})" for each in sorted(stems, key=len, reverse=True))
    return re.compile(rf"(?<![^\W_])(?:{groups})", re.IGNORECASE)


def best_window(text: str, pattern: re.Pattern[str] | None, size: int) -> str:
    """The part of a text, at most `size` characters, with the most words of the query.

    The first one if several have as many, and the beginning of the text if none has any.
    """
    if len(text) <= size or pattern is None:
        return text[:size]
    matches = []
    for match in pattern.finditer(text, 0, _LONGEST_TEXT):
        matches.append((match.start(), match.lastindex))
        if len(matches) == _MATCHES:
            break
    if not matches:
        return text[:size]
    first, last = densest(matches, size)
    return text[_start(text, first, last, size) :][:size]


def densest(matches: Sequence[tuple[int, int | None]], size: int) -> tuple[int, int]:
    """The first and last position of the run of matches with the most different words."""
    runs = []
    for number, (start, _) in enumerate(matches):
        end = bisect_right(matches, start + size * 3 // 4, number, key=lambda match: match[0])
        runs.append(matches[number:end])
    best = max(runs, key=lambda run: (len({word for _, word in run}), len(run)))
    return best[0][0], best[-1][0]


def _start(text: str, first: int, last: int, size: int) -> int:
    """Where the window begins: at a sentence if one begins shortly before the first match."""
    room = size - (last - first)
    earliest = max(0, first - room // 2)
    if earliest == 0:
        return 0
    ends = [match.end() for match in _SENTENCE_END.finditer(text, earliest, first + 1)]
    if ends:
        return min(ends[0], len(text) - 1)
    space = text.find(" ", earliest, first)
    if space < 0:
        return earliest
    return space + 1


def model_input(
    query: Sequence[int],
    passage: Passage,
    pieces: Pieces,
    pattern: re.Pattern[str] | None,
    length: int,
) -> tuple[list[int], int]:
    """The pieces that the model reads, at most `length`, and where the passage begins."""
    head = [OPENING, *query[:QUERY_PIECES], CLOSING]
    author = pieces.of(passage.author[:100])[:AUTHOR_PIECES]
    if author:
        author += pieces.of(":")
    room = length - len(head) - len(author) - 1
    window = best_window(passage.text, pattern, room * CHARACTERS_PER_PIECE)
    return [*head, *author, *pieces.of(window)[:room], CLOSING], len(head)


# -- the network ----------------------------------------------------------------------


class _Product:
    """A linear layer with eight-bit weights. Its inputs are rounded to eight bits per row."""

    def __init__(self, codes: NDArray[np.int8], scales: Floats, bias: Floats) -> None:
        import numkong

        self._multiply = numkong.dots_packed
        self._weights = numkong.dots_pack(np.ascontiguousarray(codes))
        self._scales = scales
        self._bias = bias

    def __call__(self, rows: Floats) -> Floats:
        peaks = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
        integers = np.rint(rows * (127 / peaks)).astype(np.int8)
        sums = np.asarray(self._multiply(integers, self._weights))
        result = sums.astype(np.float32)
        result *= peaks / 127
        result *= self._scales
        result += self._bias
        return result


class _Layer:
    """One layer of the transformer. `rows` are the pieces of all passages, one after another."""

    def __init__(self, arrays: Mapping[str, Any], number: int) -> None:
        def product(name: str) -> _Product:
            prefix = f"layers.{number}.{name}"
            return _Product(
                arrays[f"{prefix}.codes"], arrays[f"{prefix}.scales"], arrays[f"{prefix}.bias"]
            )

        self._mix, self._out = product("mix"), product("out")
        self._up, self._down = product("up"), product("down")
        self._out_norm = arrays[f"layers.{number}.out_norm"]
        self._down_norm = arrays[f"layers.{number}.down_norm"]

    def __call__(self, rows: Floats, bounds: Sequence[tuple[int, int]], only_first: bool) -> Floats:
        """`only_first`: return the first piece of each passage only."""
        mixed = self._mix(rows)
        parts = [attend(mixed[start:end], only_first) for start, end in bounds]
        if only_first:
            rows = rows[[start for start, _ in bounds]]
        rows = normalize(rows + self._out(np.concatenate(parts)), self._out_norm)
        change = self._down(activate(self._up(rows)))
        return normalize(rows + change, self._down_norm)


def attend(mixed: Floats, only_first: bool) -> Floats:
    """Attention within one passage. Each row has a query, a key and a value per head."""
    parts = mixed.reshape(len(mixed), 3, HEADS, -1).transpose(1, 2, 0, 3)
    query, key, value = parts[0], parts[1], parts[2]
    if only_first:
        query = query[:, :1]
    weights = query @ key.swapaxes(1, 2)
    weights *= 1 / math.sqrt(key.shape[2])
    weights -= weights.max(axis=2, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=2, keepdims=True)
    result: Floats = (weights @ value).transpose(1, 0, 2).reshape(-1, mixed.shape[1] // 3)
    return result


def normalize(rows: Floats, scale_and_shift: Floats) -> Floats:
    rows = rows - rows.mean(axis=1, keepdims=True)
    variance = (rows * rows).mean(axis=1, keepdims=True)
    rows /= np.sqrt(variance + 1e-12)
    rows *= scale_and_shift[0]
    rows += scale_and_shift[1]
    return rows


def activate(rows: Floats) -> Floats:
    """Close to GELU, at a fraction of its cost."""
    gates = rows * 0.3
    gates += 0.5
    np.clip(gates, 0, 1, out=gates)
    gates *= rows
    return gates


class Reranker:
    """Judges how well passages answer a query. Safe to use from several threads."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.version = str(arrays["version"])
        self._pieces = default_table()[1]
        self._words: NDArray[np.uint8] = arrays["word.codes"]
        self._word_scales = arrays["word.scales"].astype(np.float32)
        self._positions: Floats = arrays["position"].astype(np.float32)
        self._kinds: Floats = arrays["kind"]
        self._norm: Floats = arrays["norm"]
        self._layers = [_Layer(arrays, number) for number in range(int(arrays["layers"]))]
        self._head: Floats = arrays["head"]

    @classmethod
    @cache
    def load(cls) -> Reranker:
        """The model that comes with Recollect. Raises RecollectError if its file is damaged."""
        try:
            with MODEL.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return cls(dict(arrays))
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise RecollectError(f"{MODEL} is damaged. Reinstall Recollect.") from error

    def scores(self, query: str, passages: Sequence[Passage], length: int = LENGTH) -> list[float]:
        """One score per passage; higher is better. Only scores of the same query compare.

        A score depends on the query and the passage, not on the other passages. At most `length`
        word pieces of the query and a passage are read together: more of them are slower and
        not better. Raises InvalidInput if that is too few or too many.
        """
        if not SHORTEST <= length <= LONGEST:
            raise InvalidInput(f"length: {length} is not from {SHORTEST} to {LONGEST}.")
        pieces = self._pieces.of(query[:_QUERY_CHARACTERS])
        pattern = query_pattern(query)
        inputs = [model_input(pieces, p, self._pieces, pattern, length) for p in passages]
        scores: list[float] = []
        for start in range(0, len(inputs), _AT_ONCE):
            scores += self._score(inputs[start : start + _AT_ONCE])
        return scores

    def _score(self, inputs: Sequence[tuple[list[int], int]]) -> list[float]:
        rows = normalize(np.concatenate([self._embed(*each) for each in inputs]), self._norm)
        ends = list(accumulate(len(pieces) for pieces, _ in inputs))
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        for layer in self._layers:
            rows = layer(rows, bounds, only_first=layer is self._layers[-1])
        return [round(float(score), 4) for score in (rows * self._head).sum(axis=1)]

    def _embed(self, pieces: list[int], start: int) -> Floats:
        """The sum of word, position and kind (query or passage) for each piece."""
        packed = self._words[pieces]
        rows = np.empty((len(pieces), 2 * packed.shape[1]), np.float32)
        rows[:, 0::2] = packed & 15
        rows[:, 1::2] = packed >> 4
        rows -= 8
        rows *= self._word_scales[pieces][:, None]
        rows += self._positions[: len(pieces)]
        rows[:start] += self._kinds[0]
        rows[start:] += self._kinds[1]
        return rows
