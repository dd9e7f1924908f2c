"""Changes of documents that can be undone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

from recollect.model.undo import Change, Edit
from recollect.store.contract.marks import reader, writer


class UndoLog(ABC):
    """Changes of documents that are logged, and can be undone until they expire."""

    @reader
    @writer
    @abstractmethod
    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        """Change the title, tags or pin of a document. None if nothing changed.

        With `until`, the change is logged, and `revert` can undo it until then. Its date only
        changes with the title. Raises NotFound.
        """

    @reader
    @writer
    @abstractmethod
    def trash(self, document: str, until: datetime) -> Change:
        """Delete a document like `delete`, but keep a copy in the undo log. Raises NotFound."""

    @reader
    @abstractmethod
    def undo_log(self) -> list[Change]:
        """The changes that can be undone now, newest first."""

    @reader
    @abstractmethod
    def undo_state(self, number: int) -> dict[str, Any]:
        """What the log keeps of a change: for a deletion, the document as exports have it.

        Raises NotFound.
        """

    @writer
    @abstractmethod
    def revert(self, number: int) -> Change:
        """Undo a change of a document and remove it from the log.

        For a deletion, save the document first: this puts it back into its imports. Raises
        NotFound, or Conflict if a later change conflicts.
        """

    @writer
    @abstractmethod
    def clear_undo_log(self, *, expired: bool = False) -> int:
        """Delete the entries of the undo log, or only expired ones. Returns their number."""
