"""What an append depends on, read by one statement of each database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from recollect.language.text import from_micros, identifier, micros
from recollect.model.documents import Passage
from recollect.store.sql import statistics
from recollect.store.sql.changes import extended_dates
from recollect.store.sql.encoding import passage_row
from recollect.store.sql.listing import is_cleanup_due
from recollect.store.sql.rewriting import is_rewritable


class AppendState(NamedTuple):
    document: int
    head: str | None
    created_at: int | None
    updated_at: int | None
    pinned: int | None
    passages: int
    kind: str
    source: str
    project: str
    new_key: int
    removed: int
    """How often words were removed from the vocabulary."""
    move: int
    is_stored: bool
    """Whether the conversation has a message with this id."""

    @property
    def owner(self) -> statistics.Owner:
        return statistics.Owner(self.kind, self.source, self.project)

    @property
    def changed_at(self) -> int | None:
        if self.updated_at is None:
            return self.created_at
        return self.updated_at

    def is_plain_append(self, passage: Passage) -> bool:
        """Whether nothing but the new message changes. The other cases are rare."""
        parent = passage.parent
        follows_head = parent is None or identifier(parent) == self.head
        return (
            follows_head
            and not self.is_stored
            and self.passages > 0
            and not is_cleanup_due(self.move)
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
