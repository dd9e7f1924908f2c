"""How rare the terms of a query are in a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recollect.search.queries.terms import Form, Term
from recollect.store.base import Store


def weighted(terms: Sequence[Term], store: Store) -> list[Term]:
    """The terms with their frequencies and weights in this library."""
    frequencies, passages = store.frequencies([term.node for term in terms])
    return [
        term._replace(frequency=frequency, weight=term_weight(frequency, passages))
        for term, frequency in zip(terms, frequencies, strict=True)
    ]


def weighted_term(term: Term, store: Store) -> Term:
    """A term with its frequency and weight in this library."""
    (only,) = weighted([term], store)
    return only


def with_more_forms(
    terms: Sequence[Term], forms: Mapping[Form, Sequence[Form]], store: Store
) -> list[Term]:
    """The terms. Those whose first form is a key get these forms, too."""
    extended = [
        term._replace(forms=tuple(dict.fromkeys([*term.forms, *forms[term.forms[0]]])))
        for term in terms
        if forms.get(term.forms[0])
    ]
    if not extended:
        return list(terms)
    by_form = {term.forms[0]: term for term in weighted(extended, store)}
    return [by_form.get(term.forms[0], term) for term in terms]


def term_weight(frequency: int, passages: int) -> float:
    """Inverse document frequency as BM25 defines it."""
    frequency = min(frequency, passages)
    return math.log(1 + (passages - frequency + 0.5) / (frequency + 0.5))
