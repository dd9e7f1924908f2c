"""Moving a whole library from one store to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from recollect.store.contract.marks import neutral, reader, writer
from recollect.store.values import (
    Batch,
    Closure,
    Contents,
    Fingerprints,
)


class Transfer(ABC):
    """Moving a whole library from one store to another."""

    @reader
    @abstractmethod
    def export_batches(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        """Pass everything except derived data to `receive`, from one snapshot.

        Returns a description of the snapshot.
        """

    @writer
    @abstractmethod
    def import_batch(self, batch: Batch) -> str | None:
        """Add a batch from another library. Batches must come in the order they were exported.

        Existing rows stay, rows that differ are corrected, and rows in the range of the batch that
        it does not contain are deleted, so an interrupted move can be resumed. Returns a name for
        what was corrected, if anything was. From the first batch on, the library has the marker
        MOVING (see store/sql/copying/transfer.py), and nobody else can write to it.
        """

    @reader
    @abstractmethod
    def fingerprints(self) -> Fingerprints:
        """A hash of each block of rows, to find what differs between a library and its copy."""

    @reader
    @abstractmethod
    def export_changes(self, copy: Fingerprints, receive: Callable[[Batch], None]) -> int:
        """Pass the blocks that differ from a copy to `receive`, from one snapshot.

        Returns their number.
        """

    @reader
    @writer
    @abstractmethod
    def hand_over(
        self,
        copy: Fingerprints,
        receive: Callable[[Batch], None],
        seconds: float,
        close: Callable[[str], Closure | None],
    ) -> None:
        """The same while nobody can write, and close the library.

        Others who want to write wait. `close` is called at the end, with a hash of the contents. If
        it returns a reason, the library is closed for that reason when the others continue. Raises
        StoreBusy, and leaves the library as it is, if this takes longer than `seconds`.
        """

    @reader
    @abstractmethod
    def rows_in_range(self, batch: Batch) -> list[tuple[Any, ...]]:
        """The rows of this library in the range of a batch of another one."""

    @neutral
    @abstractmethod
    def join_move(self) -> None:
        """Let this object write to the library even if it is closed."""

    @reader
    @abstractmethod
    def closure(self) -> Closure | None:
        """Why nobody may write to the library, or None."""

    @writer
    @abstractmethod
    def complete_move(self) -> None:
        """Remove the marker MOVING, and open the library to everybody."""

    @reader
    @abstractmethod
    def get_marker(self, name: str) -> int | None:
        """The number stored under a name."""

    @writer
    @abstractmethod
    def set_marker(self, name: str, number: int | None) -> None:
        """Store a number under a name, or remove it with None."""

    @writer
    @abstractmethod
    def remove_library(self, expected: Contents | str | None = None) -> None:
        """Delete the library and close the store; only if it has the `expected` contents.

        These are given as `export_batches` returns them, or as the hash that `hand_over` computed.
        """
