"""Append a message to a conversation with one statement.

Agents append more often than they do anything else. The statement that begins the transaction reads
what this one needs; this one writes all tables, and the token of the commit.
"""

from __future__ import annotations

from typing import Any

from recollect.language.text import identifier
from recollect.model.documents import Passage
from recollect.store.postgres.connection import MARKS, Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.index_writer import IndexWriter
from recollect.store.postgres.text.lexemes import folded_content, text_vector
from recollect.store.postgres.text.vocabulary import word_rows
from recollect.store.sql import statistics
from recollect.store.sql.encoding import PASSAGE_COLUMNS
from recollect.store.sql.writing.append_state import AppendState
from recollect.store.sql.writing.changes import outdated_position
from recollect.store.sql.writing.passages import COLUMNS
from recollect.store.values import Appended

_WRITE = f"""with
  new_passage as (insert into passage (owner, {", ".join(COLUMNS)})
    values ({OWNER}, {", ".join("?" * len(COLUMNS))})),
  new_text as (insert into passage_text (owner, key, document, created_at, role, author, hidden,
      opening, sure, whole, length, words, folded)
    values ({OWNER}, ?, ?, ?, ?, ?, ?, false, ?, ?, ?, ?::tsvector, ?)),
  new_words as (insert into word (owner, term, stem)
    select {OWNER}, u.term, u.stem from unnest(?::text[], ?::text[]) u(term, stem)
    on conflict do nothing),
  new_counts as (insert into tally (owner, name, value, count)
    select {OWNER}, u.* from unnest(?::text[], ?::text[], ?::bigint[]) u(name, value, count)
    on conflict (owner, name, value) do update set count = tally.count + excluded.count),
  new_move as (insert into list_move (owner, number, document, time, pinned)
    values ({OWNER}, ?, ?, ?, ?)),
  new_document as (update document set head = ?, passages = passages + 1, created_at = ?,
      updated_at = ?, version = version + 1
    where owner = {OWNER} and key = ?)
  update last_key set passage = ?, {MARKS} where owner = {OWNER}"""


def lock_query(owner: int, id: str, passage: Passage) -> str:
    """Locks the library, and returns the AppendState. See `Transactions.write`."""
    ids = ", ".join(map(_literal, (id, passage.id)))
    return f"select * from append_state({owner:d}, {ids})"


def _literal(id: str) -> str:
    """An id as an SQL expression, whatever characters it has.

    The name of the encoding has the collation C. With it, no index would be used.
    """
    digits = identifier(id).encode().hex()
    return f"convert_from(decode('{digits}', 'hex'), 'UTF8') collate \"default\""


def append(
    db: Connection,
    id: str,
    passage: Passage,
    index: IndexWriter,
    expected_passages: int | None = None,
) -> Appended | None:
    """See Store.append. Returns None, and changes nothing, if this is not a plain append.

    In a cluster, one statement cannot write several tables.
    """
    if db.server.is_cluster:
        return None
    state = AppendState(*db.locked_row)
    if state.document is None:
        return None
    index.removed = db.epoch(state.removed)
    if not state.is_plain_append(passage):
        return None
    if expected_passages not in (None, state.passages):
        raise outdated_position(id, state.passages, expected_passages)
    db.run(_WRITE, _values(db, state, passage, index), generic_plan=True)
    db.is_token_stored = True
    return Appended(state.passages, True)


def _values(db: Connection, state: AppendState, passage: Passage, index: IndexWriter) -> list[Any]:
    row, start, end = state.new_row(passage)
    counts = statistics.count_passages([(state.owner, row)])
    return [
        *(state.new_key, state.document, None, False, *row),
        *_text_values(state, row, index),
        [name for name, _ in counts],
        [value for _, value in counts],
        list(counts.values()),
        *(state.move, state.document, state.changed_at, state.pinned),
        *(identifier(passage.id), start, end, state.document),
        state.new_key,
        db.token,
    ]


def _text_values(state: AppendState, row: tuple[Any, ...], index: IndexWriter) -> list[Any]:
    values = dict(zip(PASSAGE_COLUMNS, row, strict=True))
    content: str = values["content"]
    vector = text_vector("", content)
    words = word_rows(index.add_words(vector.distinct))
    return [
        state.new_key,
        state.document,
        values["created_at"],
        values["role"],
        values["author"],
        values["visibility"] == "hidden",
        vector.has_all_positions,
        vector.has_all_words,
        vector.length,
        vector.literal,
        folded_content(content),
        [term for term, _ in words],
        [root for _, root in words],
    ]
