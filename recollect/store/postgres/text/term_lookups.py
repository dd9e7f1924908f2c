"""Look up the terms of a search with the statement that begins its transaction.

The server leaves out what this process remembers (`Counts`), if the library is still in that state.
What was not announced (`Store.expect_terms`) is looked up when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.words.stem import related_words, stem
from recollect.settings import LIMITS
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.connections.search_state import Lookups
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.counts import MAX_COUNTED, UNKNOWN, Counts, State
from recollect.store.postgres.text.lexemes import text_query
from recollect.store.postgres.text.word_matches import merge_data
from recollect.store.values import TermPlan

VARIANTS = 50
"""The most words of the library with the same stem."""
_MOST_FORMS = 60
"""If at most this many words may have the stem of a word, their passages are read with them."""
_SIMILAR = "similar"
_QUERY_COLUMNS = 3  # of the rows that are about queries, after those about words


def lookups(plan: TermPlan, counts: Counts) -> Lookups:
    """What to look up."""
    others = Lookups(
        language=plan.language, with_kinds=plan.with_kinds, with_human_only=plan.with_human_only
    )
    words = {name_of_word(word, plan.language): word for word in plan.words}
    queries = dict.fromkeys(text_query(node).tsquery for node in plan.nodes)
    if not words and not queries:
        return others
    relatives = {name: plan.words[word] for name, word in words.items()}
    word_states = {
        name: counts.word_state(name, relatives[name], word in plan.correctable)
        for name, word in words.items()
    }
    query_states = {query: counts.query_state(query) for query in queries}
    states = {(s.size, s.removed) for s in (*word_states.values(), *query_states.values())}
    size, removed = states.pop() if len(states) == 1 else (None, None)
    if plan.language is ENGLISH:
        argument = _argument(relatives, word_states, query_states, plan)
    else:
        argument = _argument(
            {}, {}, query_states, plan, _terms(words, relatives, word_states, plan)
        )
    argument = argument.replace("'", "''")
    arguments = f"'{argument}', {_number(size)}, {_number(removed)}"
    return others._replace(arguments=arguments, relatives=relatives)


def name_of_word(word: str, language: Language) -> str:
    """What a word is called here and in the database. Its forms depend on the language."""
    return word if language is ENGLISH else f"{language.code} {word}"


def _terms(
    words: Mapping[str, str],
    relatives: Mapping[str, frozenset[str]],
    states: Mapping[str, State],
    plan: TermPlan,
) -> str:
    """Where to look for the forms of words, because the database has only English stems."""
    terms = []
    for name, word in words.items():
        exact, prefixes = related_words(word, plan.language)
        fields = {
            "word": name,
            "terms": " ".join(exact | relatives[name]),
            "prefixes": " ".join(prefixes),
        }
        terms.append(fields | states[name]._asdict())
    return (
        f', "terms": {json.dumps(terms)}, "term_limit": {LIMITS.word_matches}, '
        f'"most_forms": {_MOST_FORMS}'
    )


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _argument(
    words: Mapping[str, frozenset[str]],
    word_states: Mapping[str, State],
    query_states: Mapping[str, State],
    plan: TermPlan,
    terms: str = "",
) -> str:
    """The plan as JSON."""
    lookups = [
        f"{_word_fields(word, relatives)}, {json.dumps(word_states[word]._asdict())[1:]}"
        for word, relatives in words.items()
    ]
    queries = [{"query": query} | state._asdict() for query, state in query_states.items()]
    return (
        f'{{"words": [{", ".join(lookups)}], "queries": {json.dumps(queries)}, '
        f'"rare": {plan.rare}, "correctable": "{" ".join(plan.correctable)}", '
        f'"word_limit": {VARIANTS}, "at_most": {MAX_COUNTED}{terms}}}'
    )


@lru_cache(1_000)
def _word_fields(word: str, relatives: frozenset[str]) -> str:
    """The beginning of a JSON object."""
    fields = {"word": word, "stem": stem(word), "relatives": " ".join(relatives)}
    return json.dumps(fields)[:-1]


def receive_terms(db: Connection, counts: Counts) -> None:
    """Remember what the statement that began the transaction has returned."""
    rows, db.terms.rows = db.terms.rows, ()
    language = db.terms.language
    rows_of_words: dict[str, list[Sequence[Any]]] = {}
    similar_words: dict[str, frozenset[str]] = {}
    for row in rows:
        word, forms = row[:2]
        query, passages, visible = row[-_QUERY_COLUMNS:]
        if query == _SIMILAR:
            similar_words[name_of_word(word, language)] = frozenset(forms)
        elif query is not None:
            counts.add_query(db, query, (passages, visible))
        elif word in db.terms.relatives and language is not ENGLISH:
            rows_of_words.setdefault(word, []).append(row)
        else:
            _add_word(db, row[:-_QUERY_COLUMNS], counts)
    for name, word_rows in rows_of_words.items():
        _add_word_of_language(db, name, word_rows, counts)
    for name, words in similar_words.items():
        counts.add_similar(db, name, words)


def _add_word_of_language(
    db: Connection, name: str, rows: Sequence[Sequence[Any]], counts: Counts
) -> None:
    """The forms of a word are the words of the library with the same stem."""
    language = db.terms.language
    word = name.partition(" ")[2]
    (_, terms, next_key, *_), *rows_of_forms = rows
    root = stem(word, language)
    forms = sorted(term for term in terms if stem(term, language) == root)[:VARIANTS]
    own_forms = word_forms(word, forms)
    if next_key is not None:
        matches = [row[3] for row in rows_of_forms if row[1][0] in own_forms]
        counts.add_matches(db, name, own_forms, merge_data(matches), next_key)
    db.terms.is_in_library.update(dict.fromkeys(terms, True))
    relatives = db.terms.relatives[name]
    counts.add_forms(db, name, forms, relatives, relatives.intersection(terms))


def forms_of_language(
    db: Connection, words: Sequence[str], language: Language, counts: Counts
) -> list[Sequence[str]] | None:
    """For each word, the words of the library with the same stem, if all of them are known."""
    names = [name_of_word(word, language) for word in words]
    if all(name in db.terms.forms or counts.recall(name, db) for name in names):
        return [db.terms.forms[name] for name in names]
    return None


def english_forms(db: Connection, words: Sequence[str], counts: Counts) -> list[Sequence[str]]:
    """For each word, the words of the library with the same English stem.

    Their passages are read as well, unless they are remembered.
    """
    missing = {
        word: db.terms.relatives.get(word, frozenset())
        for word in words
        if word not in db.terms.forms and not counts.recall(word, db)
    }
    if missing:
        argument = _argument(missing, dict.fromkeys(missing, UNKNOWN), {}, TermPlan({}, ENGLISH))
        rows = db.rows(
            f"select * from search_words({OWNER}, ?::json, 0, 0)", (argument,), generic_plan=True
        )
        for row in rows:
            _add_word(db, row, counts)
    return [db.terms.forms[word] for word in words]


def _add_word(db: Connection, row: Sequence[Any], counts: Counts) -> None:
    word, forms, next_key, matches, relatives, family = row
    if relatives is None:  # it is a correction
        if word in db.terms.relatives:  # and was looked up with its relatives
            return
        relatives = ()
    own_forms = word_forms(word, forms)
    if next_key is not None:
        counts.add_matches(db, word, own_forms, matches, next_key)
    if family is not None:
        all_forms = dict.fromkeys([*own_forms, *sorted(relatives)])
        counts.add_family(db, tuple(all_forms), family)
    counts.add_forms(db, word, forms, db.terms.relatives.get(word, frozenset()), relatives)


def word_forms(word: str, others: Collection[str]) -> tuple[str, ...]:
    return (word, *sorted(set(others) - {word}))
