"""Find passages and titles that contain a text.

Substring search uses the vocabulary: find the words that contain the fragment, search the index for
those words, then verify against the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.language.symbol_names import symbol_name
from recollect.language.text import comparable, fold, indexable, indexable_fragment
from recollect.settings import LIMITS
from recollect.store.sql.statistics import long_passages
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.text.fts_query import MAX_TERM_CHARACTERS, quote, quote_term
from recollect.store.sqlite.text.text_index import WORD, is_vocabulary_behind

MATCHING_KEYS = "select rowid as key from passage_text where passage_text match ?"

# With more matches, scanning from the newest passage finds enough of them sooner than sorting all.
_MAX_SORTED_MATCHES = 3_000
# A scan is as fast as reading every fourth passage by its key.
_SCANNED_SHARE = 4
# FTS5 finds no token in this, so it matches nothing.
_NO_TERM = "\x1f"


class KeyQuery(NamedTuple):
    """A statement that selects the keys of passages, with its values."""

    sql: str
    values: list[str]

    def keys_if_few(self, db: Connection) -> str | None:
        """The keys as a JSON array, or None if there are too many to sort."""
        rows = db.rows(f"{self.sql} limit {_MAX_SORTED_MATCHES}", self.values)
        if len(rows) == _MAX_SORTED_MATCHES:
            return None
        return json.dumps([key for (key,) in rows])


def passages_containing(db: Connection, text: str) -> KeyQuery | None:
    """The passages that contain the text or all its words, or None if the index cannot tell.

    It cannot while the vocabulary is behind, or if too many words contain the fragments.
    """
    if is_vocabulary_behind(db):
        return None
    query = _enclosing_words_query(db, text)
    if query is None:
        return None
    if _is_exact(text, query):
        return KeyQuery(MATCHING_KEYS, [query])
    return KeyQuery(
        f"""{MATCHING_KEYS} union select p.key from passage_text t join passage p on p.key = t.rowid
        where passage_text match ? and contains(p.content, ?)""",
        [all_words_query(text), query, fold(text)],
    )


def _is_exact(text: str, query: str) -> bool:
    """Whether every match contains the text, without verifying: its words contain a single word.

    Words with a star are the beginnings of longer ones, and `cplusplus` may stand for C++.
    """
    if not text.isascii() or not text.isalnum() or "*" in query:
        return False
    return not any(map(symbol_name, WORD.findall(query)))


def passages_with_word_part(db: Connection, text: str) -> KeyQuery | None:
    """The passages that contain a single word or a part of one; None if the index cannot tell."""
    if not (text.isascii() and text.isalnum()) or is_vocabulary_behind(db) or long_passages(db):
        return None
    query = _enclosing_words_query(db, text)
    if query is None or not _is_exact(text, query):
        return None
    return KeyQuery(MATCHING_KEYS, [query])


def passages_with_words_around(db: Connection, text: str) -> str | None:
    """The keys of the passages whose words could contain the text, as a JSON array.

    None if the index cannot tell, or if there are so many that a scan is as fast.
    """
    if is_vocabulary_behind(db) or long_passages(db):
        return None
    query = _enclosing_words_query(db, text)
    if query is None:
        return None
    limit = max(_MAX_SORTED_MATCHES, db.get("select passage from last_key") // _SCANNED_SHARE)
    rows = db.rows(f"{MATCHING_KEYS} limit ?", (query, limit))
    if len(rows) == limit:
        return None
    return json.dumps([key for (key,) in rows])


def all_words_query(text: str) -> str:
    """An FTS5 query for contents with all words of the text; empty if it contains no word."""
    words = " AND ".join(quote(word) for word in WORD.findall(indexable(text)))
    if not words:
        return ""
    return f"content : ({words})"


def documents_titled(db: Connection, text: str, documents: Sequence[int] | None) -> Iterator[int]:
    """The documents whose title contains the text or all its words.

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
        if folded_text in comparable(title) or _has_words(title, words):
            yield key


def _has_words(title: str, words: set[str]) -> bool:
    if not words:
        return False
    indexable_title = indexable(title)
    # Most titles fail this cheap test, so few of them are split into words.
    if not all(word in indexable_title for word in words):
        return False
    return words <= set(WORD.findall(indexable_title))


def _enclosing_words_query(db: Connection, text: str) -> str | None:
    """An FTS5 query for contents whose words could contain the text, or None if there are too many.

    The first and the last word of the text may be parts of longer words; the others are complete.
    """
    indexable_text = indexable_fragment(text)
    words = WORD.findall(indexable_text)
    clauses = []
    for number, word in enumerate(words):
        open_left = number == 0 and indexable_text.startswith(word)
        open_right = number == len(words) - 1 and indexable_text.endswith(word)
        terms = _enclosing_terms(db, word, open_left, open_right)
        if terms is not None:  # otherwise the other words must be selective enough
            alternatives = " OR ".join(quote_term(term) for term in terms or [_NO_TERM])
            clauses.append(f"({alternatives})")
    if not clauses:
        return None
    return "content : (" + " AND ".join(clauses) + ")"


def _enclosing_terms(
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
