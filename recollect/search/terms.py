"""What a passage can have of a query: its words in any of their forms, and words in a row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recollect.language.query import (
    Node,
    Or,
    Query,
    Word,
    content_words,
    words,
)
from recollect.language.text import is_unspaced, tokens
from recollect.store.base import Store

Form = tuple[str, ...]
"""Words that stand in a row; most often it is one."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that is looked for, in any of its forms."""

    forms: tuple[Form, ...]
    prefix: bool = False
    """The last word is only begun."""
    frequency: int = 0
    """How many passages of the library have it."""
    weight: float = 1.0
    """How much it says: the rarer in the library, the more."""

    @property
    def name(self) -> str:
        return " ".join(self.forms[0]) + ("*" if self.prefix else "")

    @property
    def node(self) -> Node:
        each = [Word(" ".join(form), self.prefix) for form in self.forms]
        return each[0] if len(each) == 1 else Or(tuple(each))


def terms_of(query: Query, store: Store) -> tuple[Term, ...]:
    """The terms of a query, each with its weight in this library.

    A plain word counts in every inflected form; a run of a script without
    spaces counts in pairs of characters; what operators or quotes hold, exactly as typed.
    """
    if query.node is None:
        return ()
    if query.plain:
        forms = list(dict.fromkeys(f for word in _telling(query) for f in _forms(word.text)))
        single = iter(store.variants([form[0] for form in forms if len(form) == 1]))
        terms = [
            Term(tuple((v,) for v in next(single)) if len(form) == 1 else (form,)) for form in forms
        ]
    else:
        typed = dict.fromkeys((tuple(tokens(w.text)), w.prefix) for w in words(query.node))
        terms = [Term((form,), prefix) for form, prefix in typed if form]
    frequencies, passages = store.frequencies([term.node for term in terms])
    return tuple(
        Term(t.forms, t.prefix, frequency, _weight(frequency, passages))
        for t, frequency in zip(terms, frequencies, strict=True)
    )


# How a question asks, as against what it asks about.
_FRAMES = re.compile(
    r"""\b(?:what|which)\s+(?:kind|type|sort)s?\s+of\b|\bhow\s+(?:long|old|often|far|soon|late|early)\b
    |\bremind\s+me\b|\b(?:was|am|were)\s+wondering\b|\b(?:our|my|your)\s+(?:previous|last|earlier)\s+
    (?:conversation|chat|discussion)s?\b|\bin\s+total\b|\bhow\s+many\s+(?:days|weeks|months|years|times)\b
    |\b(?:days|weeks|months|years)\s+(?:ago|passed)\b|\b(?:last|past|next|this)\s+(?:day|week|month|year|weekend|time)s?\b""",
    re.IGNORECASE | re.VERBOSE,
)


def _telling(query: Query) -> Sequence[Word]:
    """The words that say what is asked about."""
    assert query.node is not None
    given = content_words(query.node)
    framing = {word for frame in _FRAMES.findall(query.rest) for word in tokens(frame)}
    return [word for word in given if not framing.issuperset(tokens(word.text))] or given


def any_term(terms: Sequence[Term]) -> Node:
    """Passages that have at least one of the terms."""
    return terms[0].node if len(terms) == 1 else Or(tuple(t.node for t in terms))


def _forms(text: str) -> Iterable[Form]:
    """A word as typed may hold several (`asyncio.gather`, `well-known`, a run of Chinese)."""
    run: list[str] = []
    for token in [*tokens(text), ""]:
        if token and is_unspaced(token):
            run.append(token)
            continue
        yield from pairwise(run) if len(run) > 1 else [(c,) for c in run]
        run = []
        if token:
            yield (token,)


def _weight(frequency: int, passages: int) -> float:
    frequency = min(frequency, passages)
    return math.log(1 + (passages - frequency + 0.5) / (frequency + 0.5))


class Finder:
    """Finds the terms of a query in texts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._first: dict[str, list[tuple[int, Form]]] = {}
        self._begun: list[tuple[str, int, Form]] = []
        for number, term in enumerate(terms):
            for form in term.forms:
                if term.prefix and len(form) == 1:
                    self._begun.append((form[0], number, form))
                else:
                    self._first.setdefault(form[0], []).append((number, form))
        self._prefixes = tuple(begun for begun, _, _ in self._begun)
        self._terms = terms

    def find(self, text: Sequence[str]) -> list[tuple[int, int]]:
        """Where the terms are, as (word's place, term's number)."""
        first = self._first
        if not self._prefixes and first.keys().isdisjoint(text):
            return []
        found = [
            (at, number)
            for at, word in enumerate(text)
            if word in first
            for number, form in first[word]
            if len(form) == 1 or self._follows(text, at, number, form)
        ]
        if self._prefixes:
            found += [
                (at, number)
                for at, word in enumerate(text)
                if word.startswith(self._prefixes)
                for begun, number, _ in self._begun
                if word.startswith(begun)
            ]
            found.sort()
        return found

    def _follows(self, text: Sequence[str], at: int, number: int, form: Form) -> bool:
        rest = tuple(text[at : at + len(form)])
        if self._terms[number].prefix:
            return (
                rest[:-1] == form[:-1] and len(rest) == len(form) and rest[-1].startswith(form[-1])
            )
        return rest == form
