"""Search with an FTS5 expression, in the order of FTS5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from recollect.errors import SearchTimeout
from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.matching import matches, occurrences
from recollect.language.queries.query_tree import Node, Word, all_words, words
from recollect.language.text import tokens
from recollect.model.arguments import page_size
from recollect.model.search import Filter, Hit, Page
from recollect.search.results.hits import make_hit
from recollect.search.results.snippet import excerpt_at
from recollect.settings import LIMITS
from recollect.store.base import Store

_SCORED = 1_000
"""At most so many of the engine's best matches are scored."""


def match_expression(store: Store, text: str, filter: Filter, limit: int) -> Page:
    """Messages whose content matches an FTS5 expression. Raises MalformedQuery.

    A title is indexed together with the first message of its conversation, so matches that depend
    on a title are corrected.
    """
    node = parse_fts5(text)
    query_words = words(node)
    limit = page_size(limit)
    wrong, missing = _title_errors(store, node, filter)
    keys = [key for key in store.match(node, filter, _SCORED + len(wrong)) if key not in wrong]
    keys = _best_first(store, query_words, [*keys, *missing], filter)[:limit]
    candidates = {c.key: c for c in store.candidates(keys, filter)}
    passages = store.passages_by_key(list(candidates))
    hits: list[Hit] = []
    for position, key in enumerate(keys):
        if key not in passages:
            continue
        _, passage = passages[key]
        start, text, marks = excerpt_at(candidates[key].content, query_words, LIMITS.excerpt_words)
        hit = make_hit(candidates[key], [], 1 / (1 + position))
        hits.append(replace(hit, snippet=text, start=start, marks=marks, metadata=passage.metadata))
    total, is_exact = store.count(node, filter)
    if not is_exact:
        with suppress(SearchTimeout):  # then the total is a lower bound
            groups = store.match_groups(node, filter)
            total, is_exact = sum(group.matches for group in groups.passages), groups.is_complete
    total += len(missing) - len(wrong)
    return Page(tuple(hits), max(total, len(hits)), 0, limit, exact=is_exact)


def _title_errors(store: Store, node: Node, filter: Filter) -> tuple[set[int], set[int]]:
    """First messages that match only because of their title, and those that fail only because of
    it (the title contains a negated word)."""
    wrong: set[int] = set()
    missing: set[int] = set()
    for candidate in store.candidates(store.title_matches(list(all_words(node))), filter):
        with_title = matches(node, candidate.indexed_title, candidate.content)
        without_title = matches(node, "", candidate.content)
        if with_title and not without_title:
            wrong.add(candidate.key)
        elif without_title and not with_title:
            missing.add(candidate.key)
    return wrong, missing


def _best_first(
    store: Store, query_words: Sequence[Word], keys: Sequence[int], filter: Filter
) -> list[int]:
    """The keys of passages in the order of FTS5's BM25.

    The engines of large libraries and of PostgreSQL do not count how often a passage has a word.
    """
    if not keys:
        return []
    frequencies, size = store.frequencies(query_words)
    texts = {
        candidate.key: tokens(candidate.content[: LIMITS.ranked_characters])
        for candidate in store.candidates(keys, filter)
    }
    lengths = [len(text) for text in texts.values()]
    if size <= _SCORED:
        lengths = [len(tokens(text[: LIMITS.ranked_characters])) for text in store.sample(size)]
    mean_length = sum(lengths) / max(len(lengths), 1) or 1.0
    scores = dict.fromkeys(texts, 0.0)
    for word, frequency in zip(query_words, frequencies, strict=True):
        rarity = (size - frequency + 0.5) / (frequency + 0.5)
        weight = max(math.log(max(rarity, 1.0)), 1e-6)
        parts = tokens(word.text)
        for key, text in texts.items():
            count = len(occurrences(text, parts, word.prefix))
            norm = 1.2 * (0.25 + 0.75 * len(text) / mean_length)
            scores[key] += weight * count / (count + norm)
    return sorted(scores, key=lambda key: -scores[key])
