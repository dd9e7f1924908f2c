"""The terms of a query.

A term is a word in any of its inflected forms, a phrase, or an identifier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from recollect.language.queries.intent import QUESTION
from recollect.language.queries.query_tree import And, Node, Or, Word
from recollect.language.symbols import symbol_name
from recollect.language.text import is_unspaced, tokens
from recollect.language.when import Window, date_words
from recollect.language.words import Form
from recollect.store.base import Store

WEAK = 0.3
"""The weight of synonyms."""
DATE_WORDS = frozenset(
    word
    for month in range(1, 13)
    for word in tokens(date_words(datetime(2024, month, month, tzinfo=UTC)))
)
"""The names of all months and weekdays."""


def form_name(form: Sequence[str]) -> str:
    """The words as people write them: C++, and without spaces in scripts that have none."""
    if all(map(is_unspaced, form)):
        return "".join(form)
    return " ".join([symbol_name(word) or word for word in form])


class Term(NamedTuple):
    """One thing to search for, in any of its forms."""

    forms: tuple[Form, ...]
    prefix: bool = False
    """The last word of each form is a prefix."""
    exact: bool = False
    """An identifier: what contains it comes before everything else."""
    weak: bool = False
    """Synonyms of a word of the query: what contains only these comes later."""
    stands_for: str = ""
    """The word of the query that a weak term stands for."""
    frequency: int = 0
    """How many passages of the library contain it."""
    weight: float = 1.0
    """Inverse document frequency: rare terms say more than common ones."""

    @property
    def name(self) -> str:
        return form_name(self.forms[0]) + "*" * self.prefix

    @property
    def is_phrase(self) -> bool:
        """An identifier of several words."""
        return self.exact and len(self.forms[0]) > 1

    @property
    def words(self) -> list[Word]:
        return [Word(" ".join(form), self.prefix) for form in self.forms]

    @property
    def node(self) -> Node:
        """A query for passages that contain the term."""
        return Or(tuple(self.words)) if len(self.forms) > 1 else self.words[0]


def own_terms(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms without synonyms."""
    return tuple(term for term in terms if not term.weak)


def any_term(terms: Sequence[Term]) -> Node:
    """A query for passages that contain at least one of the terms.

    Each term is one alternative, also if it is the only one and has several forms. A single letter
    counts only next to others: "don't" is not evidence for "T-Rex".
    """
    longer = [term for term in terms if not is_letter(term)]
    nodes = tuple(term.node for term in longer or terms)
    if len(nodes) == 1 and isinstance(nodes[0], Word):
        return nodes[0]
    return Or(nodes)


def identifier_node(terms: Sequence[Term]) -> Node:
    """A query for passages that contain an identifier, or all words of the identifiers.

    Only some of the words are not evidence: "The build failed" is not about `ERR_AUTH_FAILED`.
    """
    parts = [term for term in terms if not (term.exact or term.prefix or term.weak)]
    others = [term for term in terms if term not in parts]
    if not others:
        return any_term(parts)
    if len(parts) < 2:
        return any_term(others)
    return Or((*(term.node for term in others), And(tuple(term.node for term in parts))))


def term_shares(terms: Sequence[Term]) -> list[float]:
    """The share of each term in the query, by weight. Synonyms are not part of the query."""
    total = math.fsum(term.weight for term in own_terms(terms)) or 1.0
    return [0.0 if term.weak else term.weight / total for term in terms]


def is_letter(term: Term) -> bool:
    return all(
        len(form) == 1 and len(form[0]) == 1 and "a" <= form[0] <= "z" for form in term.forms
    )


# -- weights in a library ---


def weighted(terms: Sequence[Term], store: Store) -> list[Term]:
    """The terms with their frequencies and weights in this library."""
    frequencies, passages = store.frequencies([term.node for term in terms])
    return [
        term._replace(frequency=frequency, weight=term_weight(frequency, passages))
        for term, frequency in zip(terms, frequencies, strict=True)
    ]


def term_weight(frequency: int, passages: int) -> float:
    """Inverse document frequency as BM25 defines it."""
    frequency = min(frequency, passages)
    return math.log(1 + (passages - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """A query as the ranker sees it: a question, keywords or an identifier."""

    text: str
    terms: tuple[Term, ...]
    now: datetime
    windows: tuple[Window, ...] = ()
    by_person: bool = True
    """False when searching for messages similar to another message."""
    intent: str = QUESTION
    phrase: Term | None = None
    """The words of keywords or a statement as typed, next to each other."""
