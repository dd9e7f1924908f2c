"""Look up the terms of a search with the statement that begins its transaction.

The server leaves out what this process remembers (`Counts`), if the library is still in that state.
What was not announced (`Store.expect_terms`) is looked up when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from recollect.language.languages.english import ENGLISH
from recollect.language.words.stem import stem
from recollect.store.postgres.connection import Connection, Lookups
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.counts import MAX_COUNTED, UNKNOWN, Counts, State
from recollect.store.postgres.text.lexemes import text_query
from recollect.store.values import TermPlan

VARIANTS = 50
"""The most words of the library with the same stem."""
_QUERY_COLUMNS = 3  # of the rows that are about queries, after those about words


def lookups(plan: TermPlan, counts: Counts) -> Lookups:
    """What to look up. The words of other languages are looked up later, by their own stems."""
    words = plan.words if plan.language is ENGLISH else {}
    queries = dict.fromkeys(text_query(node).tsquery for node in plan.nodes)
    others = Lookups(with_kinds=plan.with_kinds, with_human_only=plan.with_human_only)
    if not words and not queries:
        return others
    word_states = {word: counts.word_state(word, words[word]) for word in words}
    query_states = {query: counts.query_state(query) for query in queries}
    states = {(s.size, s.removed) for s in (*word_states.values(), *query_states.values())}
    size, removed = states.pop() if len(states) == 1 else (None, None)
    argument = _argument(words, word_states, query_states, plan.rare).replace("'", "''")
    arguments = f"'{argument}', {_number(size)}, {_number(removed)}"
    return others._replace(arguments=arguments, relatives=words)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _argument(
    words: Mapping[str, frozenset[str]],
    word_states: Mapping[str, State],
    query_states: Mapping[str, State],
    rare: int,
) -> str:
    """The plan as JSON."""
    lookups = [
        f"{_word_fields(word, relatives)}, {json.dumps(word_states[word]._asdict())[1:]}"
        for word, relatives in words.items()
    ]
    queries = [{"query": query} | state._asdict() for query, state in query_states.items()]
    return (
        f'{{"words": [{", ".join(lookups)}], "queries": {json.dumps(queries)}, "rare": {rare}, '
        f'"word_limit": {VARIANTS}, "at_most": {MAX_COUNTED}}}'
    )


@lru_cache(1_000)
def _word_fields(word: str, relatives: frozenset[str]) -> str:
    """The beginning of a JSON object."""
    fields = {"word": word, "stem": stem(word), "relatives": " ".join(relatives)}
    return json.dumps(fields)[:-1]


def receive_terms(db: Connection, counts: Counts) -> None:
    """Remember what the statement that began the transaction has returned."""
    rows, db.terms.rows = db.terms.rows, ()
    for row in rows:
        query, passages, visible = row[-_QUERY_COLUMNS:]
        if query is None:
            _add_word(db, row[:-_QUERY_COLUMNS], counts)
        else:
            counts.add_query(db, query, (passages, visible))


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
        argument = _argument(missing, dict.fromkeys(missing, UNKNOWN), {}, 0)
        rows = db.rows(
            f"select * from search_words({OWNER}, ?::json, 0, 0)", (argument,), generic_plan=True
        )
        for row in rows:
            _add_word(db, row, counts)
    return [db.terms.forms[word] for word in words]


def _add_word(db: Connection, row: Sequence[Any], counts: Counts) -> None:
    word, forms, next_key, matches, relatives, family = row
    own_forms = word_forms(word, forms)
    if next_key is not None:
        counts.add_matches(db, word, own_forms, matches, next_key)
    if family is not None:
        all_forms = dict.fromkeys([*own_forms, *sorted(relatives)])
        counts.add_family(db, tuple(all_forms), family)
    counts.add_forms(db, word, forms, db.terms.relatives.get(word, frozenset()), relatives)


def word_forms(word: str, others: Collection[str]) -> tuple[str, ...]:
    return (word, *sorted(set(others) - {word}))
