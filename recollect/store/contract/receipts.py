"""Records of imports, and undoing imports."""

from __future__ import annotations

from abc import ABC, abstractmethod

from recollect.model.receipts import Receipt
from recollect.store.contract.marks import reader, writer


class Receipts(ABC):
    """Records of imports, and undoing imports."""

    @writer
    @abstractmethod
    def start_import(self, path: str, job: str = "") -> Receipt:
        """Create the receipt of an import.

        If an earlier attempt at the same job has created one, return that.
        """

    @writer
    @abstractmethod
    def update_receipt(self, receipt: Receipt) -> None:
        """Store what an import has done so far, in case it is interrupted."""

    @writer
    @abstractmethod
    def finish_import(self, receipt: Receipt) -> None:
        """Store the results of an import that has ended or was interrupted."""

    @reader
    @abstractmethod
    def receipts(self) -> list[Receipt]:
        """All receipts, newest first."""

    @writer
    @abstractmethod
    def undo_import(self, receipt: int) -> Receipt:
        """Undo an import: remove what only it added, and restore what it changed.

        Raises NotFound, InvalidInput if the import has been undone before, and Conflict if a later
        import contains documents of it as well: that has to be undone first.
        """
