"""Find passages and titles that contain a text.

The words of the vocabulary that contain the first and the last word of the text lead to the
passages that may contain it. These are verified, newest first. If there are too many, or the text
has no words, all passages are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from recollect.language.symbols import symbol_name
from recollect.language.text import comparable, fold, has_all_words, indexable, indexable_fragment
from recollect.settings import LIMITS
from recollect.store.sql.statistics import long_passages
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.fts import MAX_TERM_CHARACTERS, has_positions, quote, quote_term
from recollect.store.sqlite.text_index import WORD

# Few passages are looked up and sorted by date. Otherwise a scan by date skips the others.
MAX_SORTED_MATCHES = 3_000
# A scan is as fast as reading every second passage by its key.
_SCANNED_SHARE = 2
# More passages cannot be read in the time that a search has.
_MAX_READ = 150_000
# What contains a long text contains its beginning, which few passages have.
_PROBE_CHARACTERS = 500
# FTS5 finds no token in this, so it matches nothing.
_NO_TERM = "\x1f"


def single_word_query(db: Connection, text: str) -> str | None:
    """A query that finds exactly what contains a word or a part of one; None if the index cannot.

    Words with a star are the beginnings of longer ones, and `cplusplus` may stand for C++.
    """
    if not (text.isascii() and text.isalnum()):
        return None
    query = enclosing_words_query(db, text)
    if query is None or "*" in query or any(map(symbol_name, WORD.findall(query))):
        return None
    return query


def candidates_for_text(db: Connection, text: str) -> set[int] | None:
    """The keys of the passages whose words could contain the text.

    None if the index cannot tell, or if there are so many that a scan is as fast.
    """
    last_key: int = db.get("select passage from last_key")
    limit = max(MAX_SORTED_MATCHES, min(last_key // _SCANNED_SHARE, _MAX_READ))
    return matching_keys(db, enclosing_words_query(db, text[:_PROBE_CHARACTERS]), limit)


def matching_keys(db: Connection, query: str | None, limit: int) -> set[int] | None:
    """The passages that match a query in FTS5 syntax, perhaps in the title; None if too many."""
    if query is None:
        return None
    rows = db.rows(f"{matching(db)} limit ?", (query, limit))
    return None if len(rows) == limit else {key for (key,) in rows}


def matching(db: Connection) -> str:
    """A statement that selects the passages that match a query."""
    column = "content" if has_positions(db) else "passage_text"
    return f"select rowid as key from passage_text where {column} match ?"


def words_of(text: str) -> str:
    """The words of a text as they are indexed, with spaces between them."""
    return " ".join(WORD.findall(indexable(text)))


def candidates_for_words(db: Connection, words: Collection[str]) -> set[int] | None:
    """The passages that may have all of some words; None if a scan finds them sooner."""
    if not words:
        return set()
    return matching_keys(db, " AND ".join(map(quote, sorted(words))), MAX_SORTED_MATCHES)


def documents_titled(
    db: Connection, text: str, documents: Sequence[int] | None, by_words: bool = False
) -> Iterator[int]:
    """The documents whose title contains the text, or all its words.

    `documents` limits the search to these keys.
    """
    sql = "select key, title from document where title <> ''"
    values = []
    if documents is not None:
        sql += " and key in (select value from json_each(?))"
        values.append(json.dumps(documents))
    folded_text = fold(text)
    words = set(WORD.findall(indexable(text)))
    for key, title in db.execute(sql, values):
        if has_all_words(title, words) if by_words else folded_text in comparable(title):
            yield key


def enclosing_words_query(db: Connection, text: str) -> str | None:
    """An FTS5 query for contents whose words could contain the text, or None if there are too many.

    The first and the last word of the text may be parts of longer words; the others are complete.
    None also if the index has not all words.
    """
    if long_passages(db):
        return None
    indexable_text = indexable_fragment(text)
    words = WORD.findall(indexable_text)
    clauses = []
    for number, word in enumerate(words):
        open_left = number == 0 and indexable_text.startswith(word)
        open_right = number == len(words) - 1 and indexable_text.endswith(word)
        terms = enclosing_terms(db, word, open_left, open_right)
        if terms is not None:  # otherwise the other words must be selective enough
            alternatives = " OR ".join(quote_term(term) for term in terms or [_NO_TERM])
            clauses.append(f"({alternatives})")
    if not clauses:
        return None
    return " AND ".join(clauses)


def enclosing_terms(
    db: Connection, word: str, open_left: bool, open_right: bool
) -> list[str] | None:
    """The terms that contain a word, or None if there are too many.

    A term may continue to the left or right of the word only where the word is open.
    """
    if not open_left and not open_right:
        return [word]
    values: tuple[str | int, ...]
    if not open_left:
        condition, values = "term >= ? and term < ?", (word, word + "\U0010ffff")
    elif not open_right:
        condition, values = "substr(term, ?) = ?", (-len(word), word)
    else:
        condition, values = "instr(term, ?)", (word,)
    # A truncated term may contain the word beyond its end.
    rows = db.rows(
        f"select term from word where {condition} union "
        f"select term from word where length(term) >= {MAX_TERM_CHARACTERS} limit ?",
        (*values, LIMITS.word_matches + 1),
    )
    if len(rows) > LIMITS.word_matches:
        return None
    return [term for (term,) in rows]
