"""Append a message to a conversation with two statements.

Agents append more often than they do anything else. The statement that begins the transaction reads
what the second one needs. That writes all tables, and the token of the commit. Both call functions,
which a cluster runs where the rows of the user are.
"""

from __future__ import annotations

import re
from typing import Any

from recollect.language.text import identifier
from recollect.model.documents import Passage
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.connections.sessions import TIMELINE
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.schema.transaction_functions import NEW_PASSAGE
from recollect.store.postgres.text.index_writer import IndexWriter
from recollect.store.postgres.text.lexemes import folded_content, text_vector
from recollect.store.postgres.text.vocabulary import word_rows
from recollect.store.sql import statistics
from recollect.store.sql.encoding import PASSAGE_COLUMNS
from recollect.store.sql.writing.append_state import AppendState
from recollect.store.sql.writing.changes import outdated_position
from recollect.store.values import Appended

_ARGUMENTS = ", ".join("?" * (len(NEW_PASSAGE) + 18))
_WRITE = f"select append_message({OWNER}, {_ARGUMENTS})"
_SPECIAL_CHARACTER = re.compile(r"[^0-9A-Za-z_.-]")


def lock_query(owner: int, id: str, passage: Passage) -> str:
    """Locks the library, and returns the AppendState. See `Transactions.write`."""
    ids = ", ".join(map(_literal, (id, passage.id)))
    return f"select *, {TIMELINE} from append_state({owner:d}, {ids})"


def _literal(id: str) -> str:
    """An id as an SQL literal, whatever characters it has."""
    escaped = _SPECIAL_CHARACTER.sub(lambda match: f"\\U{ord(match[0]):08x}", identifier(id))
    return f"E'{escaped}'"


def append(
    db: Connection,
    id: str,
    passage: Passage,
    index: IndexWriter,
    expected_passages: int | None = None,
) -> Appended | None:
    """See Store.append. Returns None, and changes nothing, if this is not a plain append."""
    tokens, _, *columns, db.timeline = db.locked_row
    state = AppendState(*columns)
    if state.document is None:
        return None
    index.removed = db.epoch(state.removed)
    if not state.is_plain_append(passage):
        return None
    if expected_passages not in (None, state.passages):
        raise outdated_position(id, state.passages, expected_passages)
    last_token = tokens[0] if tokens else None
    values = [*_values(state, passage, index), db.token, last_token, db.server.is_cluster]
    db.run(_WRITE, values, generic_plan=True)
    db.is_token_stored = True
    return Appended(state.passages, True)


def _values(state: AppendState, passage: Passage, index: IndexWriter) -> list[Any]:
    """The arguments of `append_message` between the owner and the tokens."""
    columns, start, end = state.new_row(passage)
    counts = statistics.count_passages([(state.owner, columns)])
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    row |= {"key": state.new_key, "document": state.document, "receipt": None, "shared": False}
    return [
        *(row[name] for name in NEW_PASSAGE),
        *_text_values(row["content"], index),
        [name for name, _ in counts],
        [value for _, value in counts],
        list(counts.values()),
        *(state.move, state.changed_at, state.pinned, start, end),
    ]


def _text_values(content: str, index: IndexWriter) -> list[Any]:
    vector = text_vector("", content)
    words = word_rows(index.add_words(vector.distinct))
    return [
        vector.has_all_positions,
        vector.has_all_words,
        vector.length,
        vector.literal,
        folded_content(content),
        [term for term, _ in words],
        [root for _, root in words],
    ]
