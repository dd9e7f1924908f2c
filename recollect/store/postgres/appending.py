"""Append a message to a conversation with one or two statements.

Agents append more often than they do anything else. The statement that begins the transaction reads
what the second one needs. That calls a function, which writes all tables, and the token of the
commit, if the last commit is the one that the first statement has seen. So the first statement can
be left out by a process that knows what its own last append has left, which takes a third less
time: if somebody else has written since, nothing is written, and the append begins again with both
statements. (In a cluster, the function runs where the rows of the user are.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from recollect.language.text import identifier
from recollect.model.documents import Passage
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.functions import NEW_PASSAGE
from recollect.store.postgres.pool import TIMELINE
from recollect.store.postgres.text.index_writer import IndexWriter
from recollect.store.postgres.text.lexemes import folded_content, text_vector
from recollect.store.postgres.text.vocabulary import word_rows
from recollect.store.sql import statistics
from recollect.store.sql.append_state import AppendState
from recollect.store.sql.changes import outdated_position
from recollect.store.sql.encoding import PASSAGE_COLUMNS
from recollect.store.values import Appended

_ARGUMENTS = (
    *NEW_PASSAGE,
    *("is_sure", "is_whole", "length", "words", "folded", "terms", "stems"),
    *("tally_names", "tally_values", "tally_counts"),
    *("move", "changed_at", "pinned", "start", "end", "token", "last_token", "in_cluster"),
)
_APPEND = f"select append_message({OWNER}, {', '.join('?' * len(_ARGUMENTS))})"
_SPECIAL_CHARACTER = re.compile(r"[^0-9A-Za-z_.-]")


def lock_query(owner: int, id: str, passage: Passage) -> str:
    """Locks the library, and returns the AppendState. See `Transactions.write`."""
    ids = ", ".join(map(_literal, (id, passage.id)))
    return f"select *, {TIMELINE} from append_state({owner:d}, {ids})"


def _literal(id: str) -> str:
    """An id as an SQL literal, whatever characters it has."""
    escaped = _SPECIAL_CHARACTER.sub(lambda match: f"\\U{ord(match[0]):08x}", identifier(id))
    return f"E'{escaped}'"


class LastAppend(NamedTuple):
    """A plain append, and what the next one to the same conversation depends on."""

    id: str
    """The id of the conversation."""
    token: int
    previous_token: int | None
    """The tokens of this commit and of the one before it."""
    state: AppendState
    """The state that the next append finds, if nobody writes before it."""
    timeline: int

    @property
    def appended(self) -> Appended:
        return Appended(self.state.passages - 1, True)

    def next_row(
        self, id: str, passage: Passage, expected_passages: int | None
    ) -> Sequence[Any] | None:
        """What `lock_query` returns if nobody has written since.

        None if that does not matter, because this is not a plain append.
        """
        is_same = id == self.id and expected_passages in (None, self.state.passages)
        if not is_same or not self.state.is_plain_append(passage):
            return None
        return ([self.token], None, *self.state, self.timeline)


def append(
    db: Connection,
    id: str,
    passage: Passage,
    index: IndexWriter,
    expected_passages: int | None = None,
) -> LastAppend | None:
    """See Store.append. Returns None, and changes nothing, if this is not a plain append.

    Raises SerializationFailure, and changes nothing, if `Connection.locked_row` is outdated.
    """
    tokens, _, *columns, db.timeline = db.locked_row
    state = AppendState(*columns)
    if state.document is None:
        return None
    index.removed = db.epoch(state.removed)
    if not state.is_plain_append(passage):
        return None
    if expected_passages not in (None, state.passages):
        raise outdated_position(id, state.passages, expected_passages)
    previous_token = tokens[0] if tokens else None
    values = _values(state, passage, index)
    values["token"] = db.token
    values["last_token"] = previous_token
    values["in_cluster"] = db.server.is_cluster
    db.run(_APPEND, [values[name] for name in _ARGUMENTS], generic_plan=True)
    db.is_token_stored = True
    next_state = state.next_state(values["id"], values["start"], values["end"])
    return LastAppend(id, db.token, previous_token, next_state, db.timeline)


def _values(state: AppendState, passage: Passage, index: IndexWriter) -> dict[str, Any]:
    """What is written, except the tokens."""
    columns, start, end = state.new_row(passage)
    counts = statistics.count_passages([(state.owner, columns)])
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    vector = text_vector("", row["content"])
    words = word_rows(index.add_words(vector.distinct))
    return row | {
        "key": state.new_key,
        "document": state.document,
        "receipt": None,
        "shared": False,
        "hidden": row["visibility"] == "hidden",
        "is_sure": vector.has_all_positions,
        "is_whole": vector.has_all_words,
        "length": vector.length,
        "words": vector.literal,
        "folded": folded_content(row["content"]),
        "terms": [term for term, _ in words],
        "stems": [root for _, root in words],
        "tally_names": [name for name, _ in counts],
        "tally_values": [value for _, value in counts],
        "tally_counts": list(counts.values()),
        "move": state.move,
        "changed_at": state.changed_at,
        "pinned": state.pinned,
        "start": start,
        "end": end,
    }
