"""Match, count and score passages with FTS5.

FTS5's own `bm25()` is not used, because it counts every word of the query in the whole table for
each search.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from recollect.language.queries.query_tree import Node, Word, alternatives
from recollect.model.search import Filter
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.key_ranges import KeyRange, passing_keys, ranges_with_keys
from recollect.store.sqlite.text import verified_matches
from recollect.store.sqlite.text.word_text import occurrences, word_text
from recollect.store.values import Candidate

# Of a word with more matches, only the newest are scored, so that a search with very common words
# takes bounded time.
_MAX_MATCHES_PER_WORD = 20_000
# The matches in a range of at most this many passages are read once for all filters of a search.
# There are fewer than any other limit allows, so all of them are found.
_SMALL_RANGE = 1_024
# Passages whose lengths are read at once. The size is fixed, so that a longer list of results
# begins like a shorter one.
_BATCH_PASSAGES = 600
# The length of a typical message, used in place of the mean length in BM25.
_TYPICAL_WORDS = 60


# -- matching ---


def best_matches(
    db: Connection,
    node: Node,
    filter: Filter,
    key_range: KeyRange,
    limit: int,
    keys: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """The keys of the passages in a range that match, with their scores, best first.

    Passages with rare words come first, short ones before long ones. `keys` is the result of
    `keys_in_few_documents`.
    """
    weights: Mapping[int, float]
    if _is_shared(key_range, keys):
        weights = _shared_weights(db, node, key_range)
        passing = _shared_passing(db, node, key_range, filter)
        batches = _batches(key for key in _in_order(weights) if key in passing)
    else:
        weights = _weigh_matches(db, node, filter, key_range, keys)
        batches = _batches(_passing_in_order(db, _in_order(weights), filter))
    hits: list[tuple[int, float]] = []
    for batch in batches:
        lowest = math.inf
        if hits:
            lowest = hits[-1][1]
        scores = [
            (key, min(bm25(weights[key], 1, length), lowest))
            for key, length in _lengths(db, sorted(batch))
        ]
        hits += sorted(scores, key=lambda hit: (-round(hit[1], 9), -hit[0]))
        if len(hits) >= limit:
            break
    return hits[:limit]


def count_matches(
    db: Connection,
    node: Node,
    filter: Filter | None,
    key_range: KeyRange,
    limit: int,
    keys: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """The number of passages in a range that match, counted up to `limit`, and whether it is exact.

    `keys` is the result of `keys_in_few_documents`.
    """
    if filter is not None and _is_shared(key_range, keys):
        count = len(_shared_passing(db, node, key_range, filter))
        return min(count, limit), count < limit
    total, is_exact = 0, True
    for each in ranges_with_keys(key_range, keys):
        count, is_exact = verified_matches.count_matches(db, node, filter, each, limit - total)
        total += count
        if not is_exact:
            break
    return total, is_exact


def _in_order(weights: Mapping[int, float]) -> list[int]:
    """The passages with the highest weights first, the newest of them first."""
    return sorted(weights, key=lambda key: (-round(weights[key], 9), -key))


def _is_shared(key_range: KeyRange, keys: Sequence[int] | None) -> bool:
    """Whether the matches in a range are read whatever the filter, because they are few."""
    first, last = key_range
    return keys is None and last - first < _SMALL_RANGE


def _shared_weights(db: Connection, node: Node, key_range: KeyRange) -> Mapping[int, float]:
    weights = db.shared.weights
    if (node, key_range) not in weights:
        weights[node, key_range] = _weigh_matches(db, node, Filter(), key_range, None)
    return weights[node, key_range]


def _shared_passing(
    db: Connection, node: Node, key_range: KeyRange, filter: Filter
) -> AbstractSet[int]:
    passing = db.shared.passing
    if (node, key_range, filter) not in passing:
        keys = list(_shared_weights(db, node, key_range))
        passing[node, key_range, filter] = passing_keys(db, keys, filter)
    return passing[node, key_range, filter]


def _weigh_matches(
    db: Connection,
    node: Node,
    filter: Filter,
    key_range: KeyRange,
    keys: Sequence[int] | None,
) -> dict[int, float]:
    """The passages that match any part of a query, with the sum of the weights of these parts."""
    first, last = key_range
    ranges = ranges_with_keys(key_range, keys)
    weights: dict[int, float] = {}
    for part in alternatives(node):
        matches = [key for each in ranges for key in _newest_matches(db, part, filter, each)]
        frequency = len(matches)
        if keys is not None and matches:
            frequency, _ = count_matches(db, part, None, key_range, _MAX_MATCHES_PER_WORD)
        weight = inverse_document_frequency(frequency, last - first + 1)
        for key in matches:
            weights[key] = weights.get(key, 0.0) + weight
    return weights


def _newest_matches(db: Connection, node: Node, filter: Filter, key_range: KeyRange) -> list[int]:
    """The newest matches. If there are too many, the newest matches that pass the filter."""
    matches = verified_matches.newest_matches(db, node, None, key_range, _MAX_MATCHES_PER_WORD)
    if not matches.is_complete:
        matches = verified_matches.newest_matches(
            db, node, filter, key_range, _MAX_MATCHES_PER_WORD
        )
    return matches.keys


def _passing_in_order(db: Connection, keys: Sequence[int], filter: Filter) -> Iterator[int]:
    for start in range(0, len(keys), _BATCH_PASSAGES):
        batch = keys[start : start + _BATCH_PASSAGES]
        passing = passing_keys(db, batch, filter)
        yield from (key for key in batch if key in passing)


def _batches(keys: Iterator[int]) -> Iterator[list[int]]:
    batch = list(islice(keys, _BATCH_PASSAGES))
    while batch:
        yield batch
        batch = list(islice(keys, _BATCH_PASSAGES))


# -- scoring ---


def inverse_document_frequency(frequency: int, size: int) -> float:
    """The weight of a word in BM25: the fewer of the `size` passages have it, the higher."""
    return math.log(1 + (size - min(frequency, size) + 0.5) / (frequency + 0.5))


def bm25(weight: float, occurrences: int, length: int) -> float:
    """The BM25 score of a word in a passage of `length` words, with k1 = 1.2 and b = 0.75."""
    relative_length = 0.25 + 0.75 * length / _TYPICAL_WORDS
    return weight * occurrences * 2.2 / (occurrences + 1.2 * relative_length)


def text_scores(
    frequencies: Mapping[Word, tuple[int, int]], candidates: Iterable[Candidate]
) -> dict[int, float]:
    """The BM25 scores of passages. Each word has its frequency and the number of all passages."""
    scores: dict[int, float] = {}
    for candidate in candidates:
        title = ""
        if candidate.position == 0:
            title = candidate.title
        text = word_text(title, candidate.content)
        length = text.count(" ")
        score = 0.0
        for word, (frequency, size) in frequencies.items():
            weight = inverse_document_frequency(frequency, size)
            score += bm25(weight, occurrences(word, text), length)
        scores[candidate.key] = score
    return scores


def _lengths(db: Connection, keys: Sequence[int]) -> list[tuple[int, int]]:
    """The number of words of each passage. FTS5 stores a variable-length integer per column."""
    sql = (
        "select s.id, s.sz from json_each(?) k cross join passage_text_docsize s on s.id = k.value"
    )
    rows = db.execute(sql, (json.dumps(keys),))
    return [(key, sum(_decode_varints(sizes))) for key, sizes in rows]


def _decode_varints(data: bytes) -> Iterator[int]:
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0
