"""Append a message in two statements.

Agents append more often than they do anything else, and everybody else who wants to write waits for
the transaction. Each statement gives up Python's lock, and it may take a while to get that back
from threads that search. So one statement reads what an append depends on, and one writes all
tables, by a trigger.
"""

from __future__ import annotations

import json

from recollect.language.text import identifier
from recollect.model.documents import Passage
from recollect.store.sql import statistics
from recollect.store.sql.append_state import AppendState
from recollect.store.sql.changes import outdated_position
from recollect.store.sqlite.compression import STORED_COLUMNS, pack_id
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.text_index import (
    REMOVALS,
    VERSION,
    IndexedText,
    VocabularyCache,
    WordRow,
)
from recollect.store.values import Appended

_READ = f"""select d.key, d.head, d.created_at, d.updated_at, d.pinned, d.passages, d.kind,
    d.source, d.project, (select k.passage + 1 from last_key k),
    coalesce((select version from derived where name = '{REMOVALS}'), 0),
    (select coalesce(max(m.number), 0) + 1 from list_move m),
    exists (select 1 from passage p where p.document = d.key and p.packed_id = ?),
    coalesce((select version from derived where name = 'words') = {VERSION}, false)
  from document d where d.id = ?"""
_COLUMNS = (
    *STORED_COLUMNS,
    "head",
    "text",
    "words",
    "counts",
    "move",
    "moved_from",
    "pinned",
    "started_at",
    "ended_at",
)
_TRIGGER = f"""
create temp view new_message as select {", ".join(f"null as {name}" for name in _COLUMNS)};
create temp trigger add_message instead of insert on new_message begin
  insert into passage ({", ".join(STORED_COLUMNS)})
    values ({", ".join(f"new.{name}" for name in STORED_COLUMNS)});
  insert into passage_text (rowid, title, content) values (new.key, '', new.text);
  insert or ignore into word select w.value ->> 0, w.value ->> 1 from json_each(new.words) w;
  insert into tally (name, value, count)
    select c.value ->> 0, c.value ->> 1, c.value ->> 2 from json_each(new.counts) c where true
    on conflict (name, value) do update set count = count + excluded.count;
  insert into list_move (number, document, time, pinned)
    values (new.move, new.document, new.moved_from, new.pinned);
  update document set head = new.head, passages = passages + 1, created_at = new.started_at,
    updated_at = new.ended_at, version = version + 1 where key = new.document;
  update last_key set passage = new.key;
end"""
_WRITE = (
    f"insert into new_message ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"
)


def prepare_appends(db: Connection) -> None:
    """Create the trigger for a connection that writes. It is in no file."""
    db.execute(_TRIGGER).fetchall()


def append(
    db: Connection,
    vocabulary: VocabularyCache,
    id: str,
    passage: Passage,
    text: IndexedText,
    expected_passages: int | None = None,
) -> Appended | None:
    """See Store.append. Returns None, and changes nothing, if this is not a plain append.

    `text` is the content of the passage.
    """
    head = identifier(passage.id)
    rows = db.rows(_READ, (pack_id(head), identifier(id)))
    if not rows:
        return None
    *columns, has_vocabulary = rows[0]
    state = AppendState(*columns)
    if not state.is_plain_append(passage):
        return None
    if expected_passages not in (None, state.passages):
        raise outdated_position(id, state.passages, expected_passages)
    row, start, end = state.new_row(passage)
    if row[-1] != passage.content:  # it had to be cleaned
        text = IndexedText.of(row[-1])
    words: list[WordRow] = []
    if has_vocabulary:
        words = vocabulary.new_rows(state.removed, text.words)
    counts = statistics.count_passages([(state.owner, row)])
    full_row = (state.new_key, state.document, None, False, *row)
    values = (
        *db.codec.row(full_row),
        head,
        text.text,
        json.dumps(words),
        json.dumps([(*key, count) for key, count in counts.items()]),
        *(state.move, state.changed_at, state.pinned, start, end),
    )
    with db.codec.without_decompressing():
        db.execute(_WRITE, values)
    db.label_human_only([full_row])  # a third statement, if it is
    return Appended(state.passages, True)
