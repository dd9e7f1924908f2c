"""Literal text, and FTS5 expressions: what they match, without the ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.query import check_size
from recollect.language.queries.query_tree import Word, all_words, matches, occurrences, words
from recollect.language.text import has_token, identifier, storable, tokens
from recollect.model.arguments import page_size
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page
from recollect.search.results import make_hit
from recollect.search.snippets import excerpt_at
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate

_FARTHEST_RECENT = 10_000
"""How many messages `recent` looks at before it stops replacing hidden ones by older ones."""
_SCORED = 1_000
"""At most so many of the engine's best matches of an expression are scored."""


def recent(
    store: Store, text: str | None, filter: Filter, limit: int, audience: Audience
) -> list[Candidate]:
    """The newest messages that contain the text, in content or title.

    If there are none, those that contain all its words.
    """
    check_size(text or "", LIMITS.long_query_bytes)
    query = storable(text) if text else None
    for where in ("anywhere", "words") if query and has_token(query) else ("anywhere",):
        size = limit
        while True:
            found = store.newest(filter, size, text=query, where=where, counted=False)
            candidates = found.candidates
            visible = visible_candidates(store, candidates, audience)
            if len(visible) >= limit or len(candidates) < size or size >= _FARTHEST_RECENT:
                break
            size *= 4  # older messages take the place of hidden ones
        if visible:
            break
    return visible[:limit]


class TextMatches(NamedTuple):
    """One page of the messages that contain a text."""

    messages: list[tuple[str, Passage]]
    """Each with the id of its conversation, newest first."""
    total: int
    """How many messages there are on all pages."""


def find_text(
    store: Store, text: str, conversation_id: str | None, limit: int, offset: int
) -> TextMatches:
    """One page of the messages that contain a text. Raises NotFound or SearchTimeout."""
    check_size(text, LIMITS.long_query_bytes)
    conversations: tuple[str, ...] = ()
    if conversation_id is not None:
        conversations = (identifier(store.document(conversation_id, with_passages=False).id),)
    filter = Filter(kinds=(CONVERSATION,), conversations=conversations)
    matches = store.newest(filter, limit, offset, text=storable(text))
    if not matches.is_complete:
        raise SearchTimeout
    contents = store.passages_by_key([candidate.key for candidate in matches.candidates])
    messages = [contents[c.key] for c in matches.candidates if c.key in contents]
    return TextMatches(messages, matches.total)


def visible_candidates(
    store: Store, candidates: Sequence[Candidate], audience: Audience
) -> list[Candidate]:
    """Mask or drop the human-only messages among these, unless a person reads them."""
    if audience is Audience.PERSON:
        return list(candidates)
    contents = store.passages_by_key([candidate.key for candidate in candidates])
    human_only = {key for key, (_, message) in contents.items() if is_human_only(message)}
    visible = []
    for candidate in candidates:
        if candidate.key not in human_only:
            visible.append(candidate)
        elif audience is Audience.AGENT_MASKED:
            visible.append(candidate._replace(content=MASK))
    return visible


# -- expressions ---


def match_expression(store: Store, text: str, filter: Filter, limit: int) -> Page:
    """Messages whose content matches an FTS5 expression. Raises MalformedQuery.

    A title is indexed together with the first message of its conversation, so matches that depend
    on a title are corrected.
    """
    node = parse_fts5(text)
    query_words = words(node)
    limit = page_size(limit)
    # First messages that match only because of their title, and those that fail only because of it
    # (the title contains a negated word).
    wrong: set[int] = set()
    missing: set[int] = set()
    for candidate in store.candidates(store.title_matches(list(all_words(node))), filter):
        with_title = matches(node, candidate.indexed_title, candidate.content)
        without_title = matches(node, "", candidate.content)
        if with_title != without_title:
            (missing if without_title else wrong).add(candidate.key)
    keys = [key for key in store.match(node, filter, _SCORED + len(wrong)) if key not in wrong]
    keys = best_first(store, query_words, [*keys, *missing], filter)[:limit]
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


def best_first(
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
        everything = store.passages_by_key(range(1, size + 1)).values()
        lengths = [len(tokens(p.content[: LIMITS.ranked_characters])) for _, p in everything]
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
