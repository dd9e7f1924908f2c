"""Append a message to a conversation with two statements.

Agents append more often than they do anything else. The statement that begins the transaction reads
what the second one needs. That calls a function, which writes all tables, and the token of the
commit. (In a cluster, the function runs where the rows of the user are.)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from recollect.language.text import from_micros, identifier, micros
from recollect.model.documents import Passage
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.functions import NEW_PASSAGE
from recollect.store.postgres.lexemes import folded_content, text_vector
from recollect.store.postgres.words import word_rows
from recollect.store.sql import statistics
from recollect.store.sql.changes import extended_dates, outdated_position
from recollect.store.sql.encoding import PASSAGE_COLUMNS, passage_row
from recollect.store.sql.passages import is_rewritable
from recollect.store.values import Appended

_ARGUMENTS = (
    *NEW_PASSAGE,
    *("is_sure", "is_whole", "length", "words", "folded", "terms", "stems"),
    *("tally_names", "tally_values", "tally_counts"),
    *("start", "end", "token", "last_token"),
)
_APPEND = f"select append_message({OWNER}, {', '.join('?' * len(_ARGUMENTS))})"
_SPECIAL_CHARACTER = re.compile(r"[^0-9A-Za-z_.-]")


class AppendState(NamedTuple):
    document: int
    head: str | None
    created_at: int | None
    updated_at: int | None
    passages: int
    kind: str
    source: str
    project: str
    new_key: int
    is_stored: bool
    """Whether the conversation has a message with this id."""

    @property
    def owner(self) -> statistics.Owner:
        return statistics.Owner(self.kind, self.source, self.project)

    def is_plain_append(self, passage: Passage) -> bool:
        """Whether nothing but the new message changes. The other cases are rare."""
        parent = passage.parent
        follows_head = parent is None or identifier(parent) == self.head
        return (
            follows_head
            and not self.is_stored
            and self.passages > 0
            and not is_rewritable(self.kind)
        )

    def new_row(self, passage: Passage) -> tuple[tuple[Any, ...], int | None, int | None]:
        """The PASSAGE_COLUMNS of a new message, and the dates of the document with it."""
        created_at = passage.created_at or datetime.now(UTC)
        passage = passage._replace(parent=passage.parent or self.head, created_at=created_at)
        start, end = extended_dates(
            from_micros(self.created_at), from_micros(self.updated_at), created_at
        )
        return passage_row(passage, self.passages), micros(start), micros(end)


def lock_query(owner: int, id: str, passage: Passage) -> str:
    """Locks the library, and returns the AppendState. See `Transactions.write`."""
    ids = ", ".join(map(literal, (id, passage.id)))
    return f"select * from append_state({owner:d}, {ids})"


def literal(id: str) -> str:
    """An id as an SQL literal, whatever characters it has."""
    escaped = _SPECIAL_CHARACTER.sub(lambda match: f"\\U{ord(match[0]):08x}", identifier(id))
    return f"E'{escaped}'"


def append(
    db: Connection,
    id: str,
    passage: Passage,
    expected_passages: int | None = None,
) -> Appended | None:
    """See Store.append. Returns None, and changes nothing, if this is not a plain append.

    Raises SerializationFailure, and changes nothing, if `Connection.locked_row` is outdated.
    """
    tokens, _, *columns = db.locked_row
    state = AppendState(*columns)
    if state.document is None or not state.is_plain_append(passage):
        return None
    if expected_passages not in (None, state.passages):
        raise outdated_position(id, state.passages, expected_passages)
    values = _values(state, passage)
    values["token"] = db.token
    values["last_token"] = tokens[0] if tokens else None
    db.run(_APPEND, [values[name] for name in _ARGUMENTS])
    db.is_token_stored = True
    return Appended(state.passages, True)


def _values(state: AppendState, passage: Passage) -> dict[str, Any]:
    """What is written, except the tokens."""
    columns, start, end = state.new_row(passage)
    counts = statistics.count_passages([(state.owner, columns)])
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    vector = text_vector("", row["content"])
    words = word_rows(sorted(vector.distinct))
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
        "start": start,
        "end": end,
    }
