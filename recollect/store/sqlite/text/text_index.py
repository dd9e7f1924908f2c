"""Update the full-text index and the vocabulary.

The index is a contentless FTS5 table: it stores words, and the text itself is only in `passage`. To
remove a row, FTS5 must be given the text that was indexed. The table `word` is the vocabulary: it
lists every word of the library once, with its stem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from recollect.language.text import index_text
from recollect.language.words import stems
from recollect.settings import LIMITS
from recollect.store.sql.database import IndexRow
from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.sql.writing.passages import index_rows
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.text.fts_query import MAX_TERM_CHARACTERS, quote_term
from recollect.store.sqlite.text.index_copy import COPY, copied_rows, drop_copy
from recollect.store.sqlite.text.index_layout import INDEX, create_index, drop_index, has_layout

WordRow = tuple[str, str | None]
VERSION = 2
"""The version of the index and of the vocabulary. Older ones are built again."""
WORD = re.compile(r"[^\W_]+")
"""A word, as FTS5 splits text."""

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
REMOVALS = "word_removals"
"""This marker counts the transactions that have removed words from the vocabulary."""
# Passages that are indexed again at once, to bound the memory.
_PASSAGES_PER_REBUILD = 1_000
# Wiping one passage from every page of the index takes as long as rewriting this many passages.
_REWRITES_PER_WIPE = 300


def prepare_text(text: str) -> str:
    """The text as it is indexed."""
    if not text:
        return text
    return index_text(text[: LIMITS.indexed_characters])


# -- vocabulary ---


class VocabularyCache:
    """Words that are in the vocabulary, so that this process need not add them again.

    Other processes may remove words. They count that (`REMOVALS`). If the count has changed, the
    cache starts over.
    """

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._ascii_words: set[bytes] = set()
        self._removals: int | None = None
        """How often words had been removed when the cache was last used."""

    def add_words(self, db: Connection, texts: Iterable[str]) -> None:
        """Add the words of some texts to the vocabulary."""
        self._notice_removals(get_marker(db, REMOVALS) or 0)
        _insert_words(db, sorted(self._new_terms(*_distinct_words(texts))))

    def new_rows(self, removals: int, text: IndexedText) -> list[WordRow]:
        """The rows of the vocabulary that a text adds. `removals` is the marker's number."""
        self._notice_removals(removals)
        return _word_rows(sorted(self._new_terms(text.ascii_words, text.words)))

    def _notice_removals(self, removals: int) -> None:
        if removals != self._removals:
            self.clear()
            self._removals = removals

    def _new_terms(self, ascii_words: set[bytes], words: set[str]) -> set[str]:
        ascii_words = ascii_words - self._ascii_words
        words = words - self._words
        if len(self._words) + len(self._ascii_words) > _MAX_CACHED_WORDS:
            self.clear()
        self._ascii_words |= ascii_words
        self._words |= words
        return _terms(ascii_words, words)

    def remove_terms(self, db: Connection, terms: Sequence[str]) -> None:
        """Remove words from the vocabulary."""
        if not terms:
            return
        db.run_many("delete from word where term = ?", [(term,) for term in terms])
        removals = _count_removal(db)
        if removals - 1 != (self._removals or 0) or _has_truncated(terms):
            self.clear()
        self._words.difference_update(terms)
        self._ascii_words.difference_update(term.encode() for term in terms)
        self._removals = removals

    def clear(self) -> None:
        """Forget all words, because a transaction was rolled back or words were removed."""
        self._words.clear()
        self._ascii_words.clear()


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
        _insert_words(db, [term for (term,) in rows])
        last = rows[-1][0]
    db.run("insert or replace into derived values ('words', ?)", (VERSION,))
    set_marker(db, _DEFERRED_FROM, None)


def _count_removal(db: Connection) -> int:
    """Count a transaction that removes words. Returns the number of all of them."""
    removals = (get_marker(db, REMOVALS) or 0) + 1
    set_marker(db, REMOVALS, removals)
    return removals


def _has_truncated(terms: Iterable[str]) -> bool:
    """Whether the vocabulary may have only the beginning of one of these words."""
    return any(len(term) >= MAX_TERM_CHARACTERS for term in terms)


def _distinct_words(texts: Iterable[str]) -> tuple[set[bytes], set[str]]:
    """The words of ASCII texts as bytes, which are split much faster, and of all other texts."""
    ascii_words: set[bytes] = set()
    words: set[str] = set()
    for text in texts:
        if text.isascii():
            ascii_words.update(text.encode().translate(_ASCII_SEPARATORS_TO_SPACE).split())
        else:
            words.update(WORD.findall(text))
    return ascii_words, words


class IndexedText(NamedTuple):
    """A text as it is indexed, with its distinct words."""

    text: str
    ascii_words: set[bytes]
    words: set[str]

    @classmethod
    def of(cls, content: str) -> IndexedText:
        text = prepare_text(content)
        return cls(text, *_distinct_words([text]))


def _terms(ascii_words: Iterable[bytes], words: set[str]) -> set[str]:
    """The words as the vocabulary stores them."""
    return {word[:MAX_TERM_CHARACTERS] for word in words.union(map(bytes.decode, ascii_words))}


def _insert_words(db: Connection, terms: Sequence[str]) -> None:
    """Add words with their stems to the vocabulary."""
    rows = _word_rows(terms)
    for start in range(0, len(rows), _WORDS_PER_INSERT):
        group = rows[start : start + _WORDS_PER_INSERT]
        places = ", ".join(["(?, ?)"] * len(group))
        values = list(chain.from_iterable(group))
        db.run(f"insert or ignore into word values {places}", values)


def _word_rows(terms: Sequence[str]) -> list[WordRow]:
    """Words with their stems. A stem is null if it is the word itself."""
    rows: list[WordRow] = []
    for term, stem in zip(terms, stems(terms), strict=True):
        if stem == term:
            rows.append((term, None))
        else:
            rows.append((term, stem))
    return rows


def _is_bulk(rows: Sequence[IndexRow]) -> bool:
    """Whether new rows are a large share of the index.

    Then reading their words from the index is much cheaper than adding them message by message.
    """
    if len(rows) < _BULK_PASSAGES:
        return False
    newest_key = rows[-1][0]  # keys are consecutive, so this is about the number of passages
    return len(rows) * _BULK_SHARE >= newest_key


def _defer_vocabulary(db: Connection, first_key: int) -> None:
    """Mark the vocabulary as behind, from this passage on. Substring search does without it."""
    db.run("update derived set version = 0 where name = 'words'")
    set_marker(db, _DEFERRED_FROM, first_key)


def _has_outgrown_vocabulary(db: Connection) -> bool:
    """Whether so much was added since the vocabulary was complete that it must be completed."""
    first_key = get_marker(db, _DEFERRED_FROM)
    if first_key is None:
        return False
    newest_key: int = db.get("select passage from last_key")
    return newest_key >= _DEFERRED_GROWTH * first_key


# -- index ---


def insert_rows(db: Connection, table: str, indexed_rows: Iterable[IndexRow]) -> None:
    """Add rows, given as they are indexed (`prepare_rows`)."""
    db.executemany(f"insert into {table} (rowid, title, content) values (?, ?, ?)", indexed_rows)


def _delete_rows(db: Connection, table: str, indexed_rows: Iterable[IndexRow]) -> None:
    """Remove rows, given as they were indexed."""
    sql = f"insert into {table} ({table}, rowid, title, content) values ('delete', ?, ?, ?)"
    db.executemany(sql, indexed_rows)


def _keeps_deleted_words(db: Connection) -> bool:
    """Whether the index may contain words of deleted rows after it was merged.

    FTS5 drops them only if it merges into the highest level. It does not if the rows that were
    deleted have taken as many pages as the others. Then its list of levels ends with an empty one.
    """
    levels: bytes = db.get("select block from passage_text_data where id = 10")
    return levels.endswith(b"\0\0")


def _rebuild(db: Connection) -> None:
    """Index the same passages again."""
    keys = [key for (key,) in db.rows("select id from passage_text_docsize order by id")]
    db.run("insert into passage_text (passage_text) values ('delete-all')")
    for start in range(0, len(keys), _PASSAGES_PER_REBUILD):
        some_keys = keys[start : start + _PASSAGES_PER_REBUILD]
        insert_rows(db, INDEX, prepare_rows(index_rows(db, some_keys)))


def clear(db: Connection, positions: bool) -> None:
    """Remove everything from the index and the vocabulary, and give the index its layout."""
    drop_copy(db)
    if has_layout(db, INDEX, positions):
        db.run("insert into passage_text (passage_text) values ('delete-all')")
    else:
        drop_index(db, INDEX)
        create_index(db, INDEX, positions)
    _clear_vocabulary(db)


def _clear_vocabulary(db: Connection) -> None:
    db.run("delete from word")
    _count_removal(db)


class FtsIndex:
    """The full-text index in one transaction (see store.sql.database.TextIndex)."""

    def __init__(self, db: Connection, vocabulary: VocabularyCache) -> None:
        self._db = db
        self._vocabulary = vocabulary

    def add(self, rows: Iterable[IndexRow]) -> None:
        self._add(prepare_rows(rows))

    def _add(self, indexed_rows: Sequence[IndexRow]) -> None:
        insert_rows(self._db, INDEX, indexed_rows)
        if is_vocabulary_behind(self._db):
            if _has_outgrown_vocabulary(self._db):
                complete_vocabulary(self._db)
        elif _is_bulk(indexed_rows):
            _defer_vocabulary(self._db, indexed_rows[0][0])
        else:
            self._vocabulary.add_words(self._db, _texts(indexed_rows))

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        """Remove passages, and words that no other passage has.

        A large share of the passages is only marked as deleted, and then the whole index is
        rewritten without them. For fewer passages, wiping each of them is faster.
        """
        last_key: int = self._db.get("select passage from last_key")
        if count * _REWRITES_PER_WIPE < last_key:
            self._remove_unused(_terms_of(self._delete(list(rows))))
            return
        self._rewrite_without(rows)

    def replace(self, before: Sequence[IndexRow], after: Sequence[IndexRow]) -> None:
        """Replace passages. Only words that are no longer in them may be unused now."""
        old_rows = self._delete(before)
        new_rows = prepare_rows(after)
        self._add(new_rows)
        insert_rows(self._db, COPY, copied_rows(self._db, new_rows))
        self._remove_unused(_terms_of(old_rows) - _terms_of(new_rows))

    def _delete(self, rows: Sequence[IndexRow]) -> list[IndexRow]:
        """Remove rows from the index, and return them as they were indexed."""
        indexed_rows = prepare_rows(rows)
        _delete_rows(self._db, INDEX, indexed_rows)
        _delete_rows(self._db, COPY, prepare_rows(copied_rows(self._db, rows)))
        return indexed_rows

    def _rewrite_without(self, rows: Iterable[IndexRow]) -> None:
        db = self._db
        drop_copy(db)
        db.run("insert into passage_text (passage_text, rank) values ('secure-delete', 0)")
        _delete_rows(db, INDEX, prepare_rows(rows))
        db.run("insert into passage_text (passage_text) values ('optimize')")
        db.run("insert into passage_text (passage_text, rank) values ('secure-delete', 1)")
        if _keeps_deleted_words(db):
            _rebuild(db)
        _clear_vocabulary(db)
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
        self._vocabulary.remove_terms(self._db, [sorted_terms[n] for (n,) in rows])


def _terms_of(indexed_rows: Iterable[IndexRow]) -> set[str]:
    return _terms(*_distinct_words(_texts(indexed_rows)))


def prepare_rows(rows: Iterable[IndexRow]) -> list[IndexRow]:
    """Rows as they are indexed, by key: in any other order, FTS5 writes a segment for each."""
    return sorted(
        [(key, prepare_text(title), prepare_text(content)) for key, title, content in rows]
    )


def _texts(rows: Iterable[IndexRow]) -> Iterator[str]:
    for _, title, content in rows:
        yield title
        yield content
