"""Searching a store: read the query, find, show. It never opens a database itself."""

from __future__ import annotations

from recollect.model import Filter, Hit, Page
from recollect.query import MalformedQuery, Node, Word, any_of, literal, parse, words
from recollect.search.snippet import snippet
from recollect.settings import LIMITS
from recollect.store.base import Candidate, Store
from recollect.text import has_token

_HALF = 10.0  # the BM25 score that counts as half sure


def search(store: Store, text: str, filter: Filter, limit: int, offset: int) -> Page:
    """The page of hits for what was typed.

    Every part of the query must match. Where no message has all of several
    plain words, any of them counts, and the page says so. A query whose
    operators do not fit together is taken literally, and the page says that.
    """
    limit = max(1, min(limit, LIMITS.page_size))
    offset = max(0, min(offset, LIMITS.page_offset))
    matched = "all"
    node: Node | None
    try:
        node = parse(text)
    except MalformedQuery:
        node, matched = literal(text), "literal"
    if node is None or not any(has_token(w.text) for w in words(node)):
        if not text.strip():
            return Page((), 0, offset, limit)
        found, total = store.find_literal(text.strip(), filter, limit, offset)
        return _page(found, total, offset, limit, [Word(text.strip())], "literal")
    found, total = store.find(node, filter, limit, offset)
    if not total and (relaxed := any_of(node)) is not None:
        found, total = store.find(relaxed, filter, limit, offset)
        matched = "any"
    return _page(found, total, offset, limit, words(node), matched)


def _page(found: list[Candidate], total: int, offset: int, limit: int, wanted: list[Word], matched: str) -> Page:
    return Page(tuple(_hit(c, wanted) for c in found), total, offset, limit, matched)


def _hit(found: Candidate, wanted: list[Word]) -> Hit:
    shown, marks = snippet(found.content, wanted)
    return Hit(
        message_id=found.id,
        conversation_id=found.document,
        title=found.title,
        role=found.role,
        author=found.author,
        kind=found.kind,
        created_at=found.created_at,
        origin=found.origin,
        source=found.source,
        namespace=found.namespace,
        position=found.position,
        canonical=found.canonical,
        score=max(round(found.score / (found.score + _HALF), 6), 1e-6),
        snippet=shown,
        marks=marks,
    )
