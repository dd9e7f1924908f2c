"""Operators that are text.

Commands and SQL look like exclusions: `tar -xzf`, `IS NOT NULL`. If a message contains the operator
between the same words, exactly as typed, the user is looking for that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.queries.query import Query, literal_words
from recollect.language.queries.query_tokens import Token, query_tokens
from recollect.language.queries.query_tree import And, Node, Word
from recollect.language.text import has_token, tokens
from recollect.model.search import Filter
from recollect.search.queries.query_filter import narrow_filter
from recollect.store.base import Store

_MESSAGES = 20
"""So many of the best matches are read."""


class _Exclusion(NamedTuple):
    """An exclusion that may be text."""

    text: str
    """As typed, with the words around it."""
    node: Node
    """A query that messages with the text match, among others."""
    pattern: re.Pattern[str]
    """A pattern of the text itself."""


def with_operators_as_text(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """The query. If messages contain its exclusions, all its operators are text."""
    if query.plain or query.node is None:
        return query
    for exclusion in _exclusions(list(query_tokens(query.rest, fields=True))):
        if any(_contain(exclusion, store, narrow_filter(f, query, store)) for f in filters):
            note = f"Searched as text, because a message contains “{exclusion.text}”."
            node = literal_words(query.rest)
            return query._replace(node=node, plain=True, literal=True, note=note)
    return query


def _contain(exclusion: _Exclusion, store: Store, filter: Filter) -> bool:
    """Whether one of the best matches contains the text."""
    try:
        keys = store.match(exclusion.node, filter, _MESSAGES)
        messages = store.candidates(keys, filter)
    except SearchTimeout:
        return False
    return any(exclusion.pattern.search(message.content) for message in messages)


def _exclusions(all_tokens: Sequence[Token]) -> Iterator[_Exclusion]:
    for number, token in enumerate(all_tokens[:-1]):
        following = all_tokens[number + 1]
        if following.kind != "word":
            continue
        if token.kind == "-":
            yield _option(following.text, _other_word(all_tokens, number))
        elif token.kind == "NOT":
            before = [t for t in all_tokens[max(number - 1, 0) : number] if t.kind == "word"]
            if any(t.text.isupper() for t in (*before, following)):
                yield _negation((*before, token, following))


def _negation(phrase_tokens: Sequence[Token]) -> _Exclusion:
    """NOT and the words around it, in SQL: IF NOT EXISTS."""
    text = "".join(token.text for token in phrase_tokens).strip()
    phrase = Word(" ".join(tokens(text)))
    return _Exclusion(text, phrase, re.compile(rf"(?<!\w){re.escape(text)}(?!\w)"))


def _option(name: str, other_word: Word | None) -> _Exclusion:
    """An option of a command. At the beginning of a line, a minus may be a bullet."""
    node: Node = Word(name)
    if other_word is not None:
        node = And((other_word, Word(name)))
    pattern = re.compile(rf"(?:\S[ \t]+|[`'\"(])-{re.escape(name)}(?!\w)")
    return _Exclusion(f"-{name}", node, pattern)


def _other_word(all_tokens: Sequence[Token], number: int) -> Word | None:
    """The word before a minus sign, else one after the word that follows it."""
    for token in (*reversed(all_tokens[:number]), *all_tokens[number + 2 :]):
        if token.word is not None and has_token(token.word.text):
            return token.word
    return None
