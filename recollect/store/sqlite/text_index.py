"""Update the full-text index and the vocabulary.

The index is a contentless FTS5 table: it stores words, and the text itself is only in `passage`. To
remove a row, FTS5 must be given the text that was indexed. It has no positions, which would be
60 % of it: only phrases need them, and volumes have them too. An encrypted library has no volumes,
so its index has positions.

The table `word` is the vocabulary: it lists every word of the library once, with its stem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain

from recollect.language.text import index_text
from recollect.language.words import stems
from recollect.settings import LIMITS
from recollect.store.sql.database import IndexRow
from recollect.store.sql.passages import index_rows
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.fts import MAX_TERM_CHARACTERS, has_positions, quote_term

VERSION = 2
"""The version of the index and of the vocabulary. Older ones are built again."""
WORD = re.compile(r"[^\W_]+")
"""A word, as FTS5 splits text."""

_SETTINGS = "('secure-delete', 1), ('hashsize', 16777216), ('automerge', 16)"
_INSERT = "insert into passage_text (rowid, title, content) values (?, ?, ?)"
_DELETE = (
    "insert into passage_text (passage_text, rowid, title, content) values ('delete', ?, ?, ?)"
)
_ASCII_SEPARATORS_TO_SPACE = bytes(n if WORD.match(chr(n)) else 0x20 for n in range(256))
# Words that are inserted at once. One by one, it takes twice as long.
_WORDS_PER_INSERT = 100
# Passages that are indexed again at once, to bound the memory.
_PASSAGES_PER_REBUILD = 1_000
# Wiping one passage from every page of the index takes as long as rewriting this many passages.
_REWRITES_PER_WIPE = 300


# -- texts and their words ---


def prepare_text(text: str) -> str:
    """The text as it is indexed."""
    return index_text(text[: LIMITS.indexed_characters]) if text else text


def prepare_rows(rows: Iterable[IndexRow]) -> list[IndexRow]:
    """Rows as they are indexed, by key: in any other order, FTS5 writes a segment for each."""
    return sorted(
        [(key, prepare_text(title), prepare_text(content)) for key, title, content in rows]
    )


def words_of_rows(indexed_rows: Iterable[IndexRow]) -> set[str]:
    """The words of passages, as the vocabulary stores them. ASCII texts are split much faster."""
    texts = [text for _, title, content in indexed_rows for text in (title, content) if text]
    ascii_text = " ".join(text for text in texts if text.isascii())
    ascii_words = set(ascii_text.encode().translate(_ASCII_SEPARATORS_TO_SPACE).split())
    words = set(b" ".join(ascii_words).decode().split())
    for text in texts:
        if not text.isascii():
            words.update(WORD.findall(text))
    return {word[:MAX_TERM_CHARACTERS] for word in words}


def add_words(db: Connection, words: Iterable[str]) -> None:
    """Add words with their stems to the vocabulary. A stem is null if it is the word itself."""
    terms = [
        term
        for (term,) in db.execute(
            "select k.value from json_each(?) k "
            "where not exists (select 1 from word w where w.term = k.value)",
            (json.dumps(sorted(words)),),
        )
    ]
    rows = [
        (term, None if stem == term else stem)
        for term, stem in zip(terms, stems(terms), strict=True)
    ]
    for start in range(0, len(rows), _WORDS_PER_INSERT):
        group = rows[start : start + _WORDS_PER_INSERT]
        places = ", ".join(["(?, ?)"] * len(group))
        db.run(f"insert into word values {places}", list(chain.from_iterable(group)))


# -- index ---


def clear(db: Connection, positions: bool) -> None:
    """Remove everything from the index and the vocabulary, and give the index its layout."""
    if has_positions(db) == positions:
        db.run("insert into passage_text (passage_text) values ('delete-all')")
    else:
        detail = "full" if positions else "none"
        db.execute(
            "drop table passage_text; create virtual table passage_text using fts5("
            f"content, title, content='', tokenize='unicode61 remove_diacritics 0', "
            f"detail={detail}); insert into passage_text (passage_text, rank) values {_SETTINGS}"
        ).fetchall()
    db.run("delete from word")


class FtsIndex:
    """The full-text index in one transaction (see store.sql.database.TextIndex)."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, rows: Iterable[IndexRow]) -> None:
        self._add(prepare_rows(rows))

    def _add(self, indexed_rows: Sequence[IndexRow]) -> None:
        self._db.executemany(_INSERT, indexed_rows)
        add_words(self._db, words_of_rows(indexed_rows))

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        """Remove passages, and words that no other passage has.

        A large share of the passages is only marked as deleted, and then the whole index is
        rewritten without them. For fewer passages, wiping each of them is faster.
        """
        last_key: int = self._db.get("select passage from last_key")
        if count * _REWRITES_PER_WIPE >= last_key:
            self._rewrite_without(rows)
            return
        indexed_rows = prepare_rows(rows)
        self._db.executemany(_DELETE, indexed_rows)
        self._remove_unused(words_of_rows(indexed_rows))

    def replace(self, before: Sequence[IndexRow], after: Sequence[IndexRow]) -> None:
        """Replace passages. Only words that are no longer in them may be unused now."""
        old_rows, new_rows = prepare_rows(before), prepare_rows(after)
        self._db.executemany(_DELETE, old_rows)
        self._add(new_rows)
        self._remove_unused(words_of_rows(old_rows) - words_of_rows(new_rows))

    def _rewrite_without(self, rows: Iterable[IndexRow]) -> None:
        db = self._db
        db.run("insert into passage_text (passage_text, rank) values ('secure-delete', 0)")
        db.executemany(_DELETE, prepare_rows(rows))
        db.run("insert into passage_text (passage_text) values ('optimize')")
        db.run("insert into passage_text (passage_text, rank) values ('secure-delete', 1)")
        # FTS5 drops the words of deleted rows only if it merges into the highest level. It does not
        # if these rows have taken as many pages as the others. Then its list of levels ends with an
        # empty one, and everything is indexed again.
        levels: bytes = db.get("select block from passage_text_data where id = 10")
        if levels.endswith(b"\0\0"):
            keys = [key for (key,) in db.rows("select id from passage_text_docsize order by id")]
            db.run("insert into passage_text (passage_text) values ('delete-all')")
            for start in range(0, len(keys), _PASSAGES_PER_REBUILD):
                some_keys = keys[start : start + _PASSAGES_PER_REBUILD]
                db.executemany(_INSERT, prepare_rows(index_rows(db, some_keys)))
        db.run(
            "delete from word where not exists "
            "(select 1 from passage_word i where i.term = word.term)"
        )

    def _remove_unused(self, terms: set[str]) -> None:
        """Remove words from the vocabulary that no passage has."""
        if not terms:
            return
        sorted_terms = sorted(terms)
        # One statement for all terms, because others wait for this transaction.
        rows = self._db.rows(
            "select t.key from json_each(?) t where not exists "
            "(select 1 from passage_text where passage_text match t.value)",
            (json.dumps([quote_term(term) for term in sorted_terms]),),
        )
        unused = [(sorted_terms[n],) for (n,) in rows]
        self._db.run_many("delete from word where term = ?", unused)
