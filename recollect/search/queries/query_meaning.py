"""The meaning of a query: its vector in the vector space of the library.

A word that the library does not contain and the model knows only as fragments has no meaning: the
vectors of its fragments are those of other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from recollect.errors import InvalidInput, RecollectError
from recollect.index.meaning import Meaning
from recollect.language.queries.intent import KEYWORDS, classify
from recollect.language.queries.query import Query
from recollect.language.text import is_unspaced, tokens
from recollect.models.embeddings import is_remote
from recollect.search.queries.terms import Term, form_name, own_terms
from recollect.store.base import Store
from recollect.store.values import Space

_ENDS = ".,;:!… "
"""What people may type after keywords. For the model, each is a word with a meaning of its own."""
_NO_VECTORS = "There are no vectors to search yet. Run `recollect index`."
_NO_MEANING = "The model knows none of these words, so they cannot be searched by meaning alone."


class QueryMeaning(NamedTuple):
    """The vector of a query, and whether its neighbours are evidence."""

    space: Space | None = None
    vector: Any = None
    """None if the query is not searched for by meaning."""
    is_known: bool = True
    """Whether any word of the query has a meaning. Otherwise, its neighbours are not evidence."""
    is_mostly_known: bool = True
    """Whether the words with a meaning are at least half of the query, by weight. Otherwise, its
    vector is that of words such as "which" and "use"."""
    problem: str = ""
    """Why the vectors of the library were not used."""

    @property
    def noise_floor(self) -> float | None:
        """The cosine that unrelated messages rarely reach; None if cosines say nothing."""
        if self.space is None or not self.is_mostly_known:
            return None
        return self.space.noise_floor


NO_MEANING = QueryMeaning()
"""Of a query that is searched for by its words only."""


def query_meaning(
    query: Query,
    terms: Sequence[Term],
    corrections: Mapping[str, str],
    store: Store,
    meaning: Meaning,
) -> QueryMeaning:
    """The meaning of a query. If the model fails, `problem` says why."""
    own = own_terms(terms)
    if not query.plain:
        text = " ".join(term.name for term in own) or query.rest
        return _embed(text, store, meaning)
    with_meaning = [term for term in own if _has_meaning(term, meaning)]
    meaningless = {term.name for term in own if term not in with_meaning}
    known_weight = sum(term.weight for term in with_meaning)
    text = query.rest
    if classify(text) == KEYWORDS:
        text = text.rstrip(_ENDS)
    result = _embed(_text_to_embed(text, meaningless, corrections), store, meaning)
    return result._replace(
        is_known=not terms or bool(with_meaning),
        is_mostly_known=2 * known_weight >= sum(term.weight for term in own),
    )


def require_vector(meaning: QueryMeaning) -> None:
    """Raise InvalidInput if a query cannot be searched for by meaning alone."""
    if meaning.vector is None:
        problem = _NO_VECTORS if meaning.space is None else _NO_MEANING
        raise InvalidInput(meaning.problem or problem)


def _has_meaning(term: Term, meaning: Meaning) -> bool:
    if term.frequency:
        return True
    if term.name.isdigit():  # its neighbours are other numbers
        return False
    words = [word for form in term.forms for word in form]
    if any(map(is_unspaced, words)):  # characters are fragments of words
        return False
    return all(map(meaning.knows, words))


def _text_to_embed(text: str, meaningless: set[str], corrections: Mapping[str, str]) -> str:
    """The query with its corrections and without words that have no meaning.

    If no word has a meaning, the whole query; then its neighbours are not evidence.
    """
    if not meaningless and not corrections:
        return text
    words = []
    for word in text.split():
        name = form_name(tokens(word))
        if name not in meaningless:
            words.append(corrections.get(name, word))
    return " ".join(words) or text


def _embed(text: str, store: Store, meaning: Meaning) -> QueryMeaning:
    space: Space | None = None
    try:
        space = meaning.space()
        if space is None:
            return NO_MEANING
        if is_remote(space.name):
            store.release_snapshot()
        return QueryMeaning(space, meaning.vector(space, text))
    except RecollectError as error:
        return QueryMeaning(space, problem=f"Vectors were not used: {error}")
