"""Search with an FTS5 expression, in the order of the text engine."""

from __future__ import annotations

from dataclasses import replace

from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.matching import matches
from recollect.language.queries.query_tree import Node, all_words, words
from recollect.model.arguments import page_size
from recollect.model.search import Filter, Hit, Page
from recollect.search.results.hits import make_hit
from recollect.search.results.snippet import excerpt_at
from recollect.settings import LIMITS
from recollect.store.base import Store


def match_expression(store: Store, text: str, filter: Filter, limit: int) -> Page:
    """Messages whose content matches an FTS5 expression. Raises MalformedQuery.

    A title is indexed together with the first message of its conversation, so matches that depend
    on a title are corrected.
    """
    node = parse_fts5(text)
    query_words = words(node)
    limit = page_size(limit)
    wrong, missing = _title_errors(store, node, filter)
    keys = [key for key in store.match(node, filter, limit + len(wrong)) if key not in wrong]
    if missing:
        scores = store.text_scores(node, [*keys, *missing])
        keys = sorted([*keys, *missing], key=lambda key: -scores.get(key, 0.0))
    keys = keys[:limit]
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
