"""The transactions that an engine provides, and what happens around those that delete text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from recollect.settings import LIMITS
from recollect.store.sql.database import Database, TextIndex
from recollect.store.values import Purge

T = TypeVar("T")
Connection = TypeVar("Connection", bound=Database)


class SqlTransactions(ABC, Generic[Connection]):
    # -- what an engine provides ---

    @abstractmethod
    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot. Raises SearchTimeout after `seconds`."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that does not change the text index."""

    @abstractmethod
    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """Run `work` in a transaction that also changes the text index."""

    # -- searching and deleting ---

    def _search(self, work: Callable[[Connection], T]) -> T:
        return self._read(work, LIMITS.search_seconds)

    def _delete_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """Run `work`, which deletes text, and remove the text from all files."""

        def delete(db: Connection, index: TextIndex) -> T:
            self._request_purge(db)
            return work(db, index)

        value = self._write_text(delete)
        self.purge()
        return value

    def _purge_if(self, was_deleted: bool) -> None:
        if was_deleted:
            self.purge()

    # -- what an engine may add ---

    def _complete_vocabulary(self) -> None:
        """Called after text was added, for engines that add words to the vocabulary later."""

    def _request_purge(self, db: Connection) -> None:
        """Called in a transaction that deletes text, for engines that keep copies of it elsewhere.

        `purge` is called after the commit, and again later if the process is killed in between.
        """

    def purge(self, patience: float = 0.0) -> Purge:
        return Purge()

    def purge_status(self) -> Purge:
        return Purge()

    def _drop_document_copies(self, db: Connection, document: int) -> None:
        """Called in a transaction that replaces the text of a document, given by its key.

        For engines that keep copies of the text elsewhere.
        """

    def _drop_outdated_copies(self, db: Connection) -> None:
        """The same for a transaction that may have replaced the text of any document."""
