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
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from recollect.language.text import index_text
from recollect.language.words import stems
from recollect.settings import LIMITS
from recollect.store.sql.database import IndexRow, get_marker, set_marker
from recollect.store.sql.passages import index_rows
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.fts import MAX_TERM_CHARACTERS, has_positions, quote_term

WordRow = tuple[str, str | None]
VERSION = 2
"""The version of the index and of the vocabulary. Older ones are built again."""
WORD = re.compile(r"[^\W_]+")
"""A word, as FTS5 splits text."""
REMOVALS = "word_removals"
"""This marker counts the transactions that have removed words from the vocabulary."""

_SETTINGS = "('secure-delete', 1), ('hashsize', 16777216), ('automerge', 16)"
_INSERT = "insert into passage_text (rowid, title, content) values (?, ?, ?)"
_DELETE = (
    "insert into passage_text (passage_text, rowid, title, content) values ('delete', ?, ?, ?)"
)
_ASCII_SEPARATORS_TO_SPACE = bytes(n if WORD.match(chr(n)) else 0x20 for n in range(256))
# Words remembered per process. Most texts use the same words, so few have to be written again.
_MAX_CACHED_WORDS = 500_000
# The vocabulary is read from the index later if at least this many passages are added in one call,
# and they are at least one in `_BULK_SHARE` of all passages.
_BULK_PASSAGES = 2_000
_BULK_SHARE = 20
# Words that are read from the index at once, to bound the memory.
_WORDS_PER_STATEMENT = 10_000
# Words that are inserted at once. One by one, it takes twice as long.
_WORDS_PER_INSERT = 100
# This marker is the first passage whose words the vocabulary may lack, while it is behind.
_DEFERRED_FROM = "words_deferred"
# Reading all words takes longer the larger the library is. So it is done when the library has this
# many times the passages that it had when the vocabulary was complete, when the import ends, and
# before the library is indexed in the background.
_DEFERRED_GROWTH = 8
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


def distinct_words(texts: Iterable[str]) -> set[str]:
    """The words of texts, as the vocabulary stores them. ASCII texts are split much faster."""
    ascii_words: set[bytes] = set()
    words: set[str] = set()
    for text in texts:
        if text.isascii():
            ascii_words.update(text.encode().translate(_ASCII_SEPARATORS_TO_SPACE).split())
        else:
            words.update(WORD.findall(text))
    return {word[:MAX_TERM_CHARACTERS] for word in words.union(map(bytes.decode, ascii_words))}


def words_of_rows(indexed_rows: Iterable[IndexRow]) -> set[str]:
    def texts() -> Iterator[str]:
        for _, title, content in indexed_rows:
            yield title
            yield content

    return distinct_words(texts())


# -- vocabulary ---


class VocabularyCache:
    """Words that are in the vocabulary, so that this process need not add them again.

    Other processes may remove words. They count that (`REMOVALS`). If the count has changed, the
    cache starts over.
    """

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._removals: int | None = None
        """How often words had been removed when the cache was last used."""

    def new_rows(self, removals: int, words: set[str]) -> list[WordRow]:
        """The rows of the vocabulary that words add. `removals` is the marker's number."""
        if removals != self._removals or len(self._words) > _MAX_CACHED_WORDS:
            self.clear()
            self._removals = removals
        new_words = words - self._words
        self._words |= new_words
        return word_rows(sorted(new_words))

    def remove(self, db: Connection, terms: Sequence[str]) -> None:
        """Remove words from the vocabulary."""
        if not terms:
            return
        db.run_many("delete from word where term = ?", [(term,) for term in terms])
        removals = count_removal(db)
        if removals - 1 != (self._removals or 0):
            self.clear()
        self._words.difference_update(terms)
        self._removals = removals

    def clear(self) -> None:
        """Forget all words, because a transaction was rolled back or words were removed."""
        self._words.clear()


def is_vocabulary_behind(db: Connection) -> bool:
    """Whether the vocabulary lacks words of the index."""
    return bool(db.get("select version from derived where name = 'words'") != VERSION)


def complete_vocabulary(db: Connection) -> None:
    """Add all words of the index to the vocabulary. Those that it has are not stemmed again."""
    last = ""
    while True:
        rows = db.rows(
            "select i.term from passage_word i where i.term > ? "
            "and not exists (select 1 from word w where w.term = i.term) limit ?",
            (last, _WORDS_PER_STATEMENT),
        )
        if not rows:
            break
        insert_words(db, word_rows([term for (term,) in rows]))
        last = rows[-1][0]
    db.run("insert or replace into derived values ('words', ?)", (VERSION,))
    set_marker(db, _DEFERRED_FROM, None)


def word_rows(terms: Sequence[str]) -> list[WordRow]:
    """Words with their stems. A stem is null if it is the word itself."""
    return [
        (term, None if stem == term else stem)
        for term, stem in zip(terms, stems(terms), strict=True)
    ]


def insert_words(db: Connection, rows: Sequence[WordRow]) -> None:
    for start in range(0, len(rows), _WORDS_PER_INSERT):
        group = rows[start : start + _WORDS_PER_INSERT]
        places = ", ".join(["(?, ?)"] * len(group))
        values = list(chain.from_iterable(group))
        db.run(f"insert or ignore into word values {places}", values)


def count_removal(db: Connection) -> int:
    """Count a transaction that removes words. Returns the number of all of them."""
    removals = (get_marker(db, REMOVALS) or 0) + 1
    set_marker(db, REMOVALS, removals)
    return removals


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
    count_removal(db)


class FtsIndex:
    """The full-text index in one transaction (see store.sql.database.TextIndex)."""

    def __init__(self, db: Connection, vocabulary: VocabularyCache) -> None:
        self._db = db
        self._vocabulary = vocabulary

    def add(self, rows: Iterable[IndexRow]) -> None:
        self._add(prepare_rows(rows))

    def _add(self, indexed_rows: Sequence[IndexRow]) -> None:
        db = self._db
        db.executemany(_INSERT, indexed_rows)
        newest_key: int = db.get("select passage from last_key")
        if is_vocabulary_behind(db):
            deferred_from = get_marker(db, _DEFERRED_FROM)
            if deferred_from is not None and newest_key >= _DEFERRED_GROWTH * deferred_from:
                complete_vocabulary(db)
        elif (
            len(indexed_rows) >= _BULK_PASSAGES
            and len(indexed_rows) * _BULK_SHARE >= indexed_rows[-1][0]
        ):
            # Reading the words from the index later is much cheaper. Until then, substring search
            # does without the vocabulary.
            db.run("update derived set version = 0 where name = 'words'")
            set_marker(db, _DEFERRED_FROM, indexed_rows[0][0])
        else:
            removals = get_marker(db, REMOVALS) or 0
            words = words_of_rows(indexed_rows)
            insert_words(db, self._vocabulary.new_rows(removals, words))

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
        db.run("delete from word")
        count_removal(db)
        complete_vocabulary(db)

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
        self._vocabulary.remove(self._db, [sorted_terms[n] for (n,) in rows])
