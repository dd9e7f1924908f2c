"""Find passages and titles that contain a text.

Substring search uses the vocabulary: find the words that contain the fragment, search the index for
those words, then verify against the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.language.symbols import symbol_name, symbol_pairs
from recollect.language.text import comparable, fold, has_all_words, indexable, indexable_fragment
from recollect.settings import LIMITS
from recollect.store.sql.statistics import long_passages
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.fts import MAX_TERM_CHARACTERS, has_positions, quote, quote_term
from recollect.store.sqlite.text_index import WORD, is_vocabulary_behind

# With more matches, scanning from the newest passage finds enough of them sooner than sorting all.
MAX_SORTED_MATCHES = 3_000
# A scan is as fast as reading every second passage by its key.
_SCANNED_SHARE = 2
# More passages cannot be read in the time that a search has.
_MAX_READ = 150_000
# A scan finds a page of what one in fifty passages has before all of that is listed.
_FREQUENT_SHARE = 50
# What contains a long text contains its beginning, which few passages have.
_PROBE_CHARACTERS = 500
# FTS5 finds no token in this, so it matches nothing.
_NO_TERM = "\x1f"


class KeyQuery(NamedTuple):
    """A statement that selects the keys of passages, with its values."""

    sql: str
    values: Sequence[str]

    def keys_if_few(self, db: Connection) -> str | None:
        """The keys as a JSON array, or None if there are too many to sort."""
        rows = db.rows(f"{self.sql} limit {MAX_SORTED_MATCHES}", self.values)
        if len(rows) == MAX_SORTED_MATCHES:
            return None
        return json.dumps([key for (key,) in rows])

    def is_frequent(self, db: Connection) -> bool:
        """Whether a scan from the newest passage soon finds a page of them."""
        limit = max(MAX_SORTED_MATCHES, share_of_passages(db, _FREQUENT_SHARE))
        sql = f"select count(*) from ({self.sql} limit {limit})"
        return bool(db.get(sql, self.values) == limit)


def passages_with_word_part(db: Connection, text: str) -> KeyQuery | None:
    """The passages that contain a single word or a part of one; None if the index cannot tell."""
    if not (text.isascii() and text.isalnum()) or is_vocabulary_behind(db) or long_passages(db):
        return None
    query = enclosing_words_query(db, text)
    if query is None or not is_exact(text, query):
        return None
    return content_matches(db, query, contains_text(text))


def candidates_for_text(db: Connection, text: str) -> set[int] | None:
    """The keys of the passages whose symbols and words could contain the text.

    None if no index can tell, or if there are so many that a scan is as fast.
    """
    limit = max(MAX_SORTED_MATCHES, min(share_of_passages(db, _SCANNED_SHARE), _MAX_READ))
    text = text[:_PROBE_CHARACTERS]
    symbols = symbol_pairs(fold(text))
    matches = None
    if symbols and db.keys_with_symbols:
        matches = db.keys_with_symbols(db, sorted(symbols), limit)
    if matches is None:
        return keys_with_words_around(db, text, limit)
    keys = set(matches)
    if len(keys) > MAX_SORTED_MATCHES:
        by_words = keys_with_words_around(db, text, limit)
        if by_words is not None:
            keys &= by_words
    return keys


def keys_with_words_around(db: Connection, text: str, limit: int) -> set[int] | None:
    if is_vocabulary_behind(db) or long_passages(db):
        return None
    query = enclosing_words_query(db, text)
    if query is None:
        return None
    matches = title_or_content_matches(db, query)
    rows = db.rows(f"{matches.sql} limit ?", (*matches.values, limit))
    if len(rows) == limit:
        return None
    return {key for (key,) in rows}


def share_of_passages(db: Connection, share: int) -> int:
    """One in so many of all passages."""
    last_key: int = db.get("select passage from last_key")
    return last_key // share


def words_of(text: str) -> str:
    """The words of a text as they are indexed, with spaces between them."""
    return " ".join(WORD.findall(indexable(text)))


def passages_with_all_words(db: Connection, text: str) -> KeyQuery:
    """The passages whose content has all words of a text; none if it contains no word."""
    words = words_of(text)
    query = " AND ".join(map(quote, dict.fromkeys(words.split()))) or quote(_NO_TERM)
    return content_matches(db, query, ("has_all_words(p.content, ?)", words))


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


def is_exact(text: str, query: str) -> bool:
    """Whether every match contains the text, without verifying: its words contain a single word.

    Words with a star are the beginnings of longer ones, and `cplusplus` may stand for C++.
    """
    if not text.isascii() or not text.isalnum() or "*" in query:
        return False
    return not any(map(symbol_name, WORD.findall(query)))


def contains_text(text: str) -> tuple[str, str]:
    """The condition that a passage contains a text, with its value."""
    return "contains(p.content, ?)", fold(text)


def title_or_content_matches(db: Connection, query: str) -> KeyQuery:
    """The passages that match a query in FTS5 syntax, perhaps also in the title."""
    if has_positions(db):
        query = f"content : ({query})"
    return KeyQuery("select rowid as key from passage_text where passage_text match ?", [query])


def content_matches(db: Connection, query: str, condition: tuple[str, str]) -> KeyQuery:
    """The passages whose content matches a query in FTS5 syntax.

    An index without positions does not tell title and content apart. Then a passage with a title
    must also meet `condition`, an SQL expression with its value.
    """
    matches = title_or_content_matches(db, query)
    if has_positions(db):
        return matches
    sql, value = condition
    return KeyQuery(
        f"""select p.key from ({matches.sql}) m cross join passage p on p.key = m.key
        cross join document d on d.key = p.document where d.opening is not p.key or {sql}""",
        [*matches.values, value],
    )


def enclosing_words_query(db: Connection, text: str) -> str | None:
    """An FTS5 query for contents whose words could contain the text, or None if there are too many.

    The first and the last word of the text may be parts of longer words; the others are complete.
    """
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
