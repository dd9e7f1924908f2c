"""Words that messages write with umlauts, and the reverse: `Mueller` is also Müller.

The index has no umlauts: Müller is `muller` there, and `blue` could be the Blu of Blu-ray. So some
messages are read to see how they write the word.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.languages import Language
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Or, Word
from recollect.language.words.umlauts import transcriptions, with_umlauts
from recollect.model.search import Filter
from recollect.search.queries.terms import Form, Term
from recollect.store.base import Store

_MESSAGES = 20
"""So many of the best matches are read."""


def umlaut_forms(terms: Sequence[Term], store: Store, query: Query) -> dict[Form, list[Form]]:
    """For each term, its forms in the other spelling that the library has."""
    typed_umlauts = transcriptions(query.rest)
    forms: dict[Form, list[Form]] = {}
    for term in terms:
        form = term.forms[0]
        if term.exact or len(form) > 1:
            continue
        if form[0] in typed_umlauts:
            forms[form] = _library_forms(term, [typed_umlauts[form[0]]], store, query.language)
        else:
            spellings = with_umlauts(form[0])
            candidates = _library_forms(term, spellings, store, query.language)
            forms[form] = _forms_with_umlauts(candidates, term.prefix, store)
    return forms


def _library_forms(
    term: Term, spellings: Sequence[str], store: Store, language: Language
) -> list[Form]:
    """The spellings of a term in all their forms, as far as the library has them."""
    if term.prefix or not spellings:
        return [(spelling,) for spelling in spellings]
    words = {word for each in store.variants(spellings, language) for word in each}
    known_words = store.known_words(sorted(words))
    return [(word,) for word in sorted(known_words) if (word,) not in term.forms]


def _forms_with_umlauts(forms: Sequence[Form], is_prefix: bool, store: Store) -> list[Form]:
    """The forms that one of the best matches writes with umlauts."""
    if not forms:
        return []
    node: Node = Or(tuple(Word(word, is_prefix) for (word,) in forms))
    messages = store.candidates(store.match(node, Filter(), _MESSAGES), Filter())
    written: set[str] = set()
    for message in messages:
        written.update(transcriptions(f"{message.title}\n{message.content}"))
    if is_prefix:
        return [form for form in forms if any(word.startswith(form) for word in written)]
    return [form for form in forms if written.issuperset(form)]
