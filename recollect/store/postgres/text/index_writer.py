"""Add passages to the text index, and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recollect.store.postgres.connection import Connection
from recollect.store.postgres.text.lexemes import folded_content, text_vector
from recollect.store.postgres.text.vocabulary import Vocabulary, delete_unused_words, insert_words
from recollect.store.sql.database import IndexRow

VERSION = 2


class IndexWriter:
    """The text index in one transaction (see `store.sql.database.TextIndex`)."""

    def __init__(self, db: Connection, vocabulary: Vocabulary) -> None:
        self._db = db
        self._vocabulary = vocabulary
        self.new_words: set[str] = set()
        self._removed: int | None = None
        self._new_passages: set[int] = set()
        """Those that were added in this transaction, so nobody remembers their words."""

    @property
    def removed(self) -> int:
        """The number of deletions in the library; see `Connection.epoch`."""
        if self._removed is None:
            sql = "select removed from last_key where owner = ?::integer"
            self._removed = self._db.epoch(self._db.get(sql, (self._db.owner,)) or 0)
        return self._removed

    @removed.setter
    def removed(self, number: int) -> None:
        self._removed = number

    def add(self, rows: Iterable[IndexRow]) -> None:
        rows = list(rows)
        self._add(rows)
        self._new_passages.update(key for key, _, _ in rows)

    def _add(self, rows: Iterable[IndexRow]) -> None:
        keys = []
        is_opening = []
        vectors = []
        folded = []
        for key, title, content in rows:
            keys.append(key)
            is_opening.append(bool(title))
            vectors.append(text_vector(title, content))
            folded.append(folded_content(content))
        self._db.run(
            f"""insert into passage_text (owner, key, document, created_at, role, author, hidden,
              opening, sure, whole, length, words, folded)
            select p.owner, p.key, p.document, p.created_at, p.role, p.author,
              p.visibility = 'hidden', k.opening, k.sure, k.whole, k.length, k.words::tsvector,
              k.folded
            from unnest(?::bigint[], ?::boolean[], ?::boolean[], ?::boolean[], ?::integer[],
              ?::text[], ?::text[]) k(key, opening, sure, whole, length, words, folded)
            {self._db.by_key("passage", "p", "k.key")}""",
            (
                keys,
                is_opening,
                [vector.has_all_positions for vector in vectors],
                [vector.has_all_words for vector in vectors],
                [vector.length for vector in vectors],
                [vector.literal for vector in vectors],
                folded,
            ),
        )
        words: set[str] = set()
        for vector in vectors:
            words |= vector.distinct
        missing_words = self.add_words(words)
        if missing_words:
            insert_words(self._db, missing_words)

    def add_words(self, words: set[str]) -> list[str]:
        """The words that may not be in the vocabulary, which the caller inserts."""
        missing_words = self._vocabulary.missing(words, self.removed) - self.new_words
        self.new_words |= missing_words
        return sorted(missing_words)

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        keys = []
        words: set[str] = set()
        for key, title, content in rows:
            keys.append(key)
            words |= text_vector(title, content).distinct
        self._db.run(
            "delete from passage_text where owner = ?::integer and key = any(?::bigint[])",
            (self._db.owner, keys),
        )
        delete_unused_words(self._db, sorted(words))
        if not self._new_passages.issuperset(keys):
            self._db.run(f"update last_key set removed = removed + 1 where {self._db.own()}")
            self.removed += 1
        self.new_words -= words

    def replace(self, before: Sequence[IndexRow], after: Sequence[IndexRow]) -> None:
        self.remove(before)
        self._add(after)
