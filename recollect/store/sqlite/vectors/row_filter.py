"""The attributes of the rows of vectors, and filters on them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.reading.selection import DocumentKeys

Columns = Callable[[str], NDArray[Any]]
"""Returns an attribute of all rows, by name."""
Indexes = NDArray[np.intp]
"""Indexes of some rows."""

ROW = np.dtype(
    [
        ("row", "<u4"),
        ("passage", "<u4"),
        ("document", "<u4"),
        ("created_at", "<i8"),
        ("role", "<u4"),
        ("author", "<u4"),
        ("scale", "<f4"),
        ("hidden", "u1"),
    ]
)
"""The attributes of a vector. The passage of a wiped vector is 0."""
Key = np.uint32
"""The type of rows, passages and documents. Numpy compares arrays of the same type faster."""
NO_DATE = np.iinfo(np.int64).min


def name_code(name: str | None) -> int:
    """A number for a name. Names may share a number, so results are checked in the database."""
    if name is None:
        return 0
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) | 1


class RowFilter:
    """A filter on the attributes of rows."""

    def __init__(
        self, filter: Filter, documents: NDArray[np.bool_] | None, deleted_rows: NDArray[Key]
    ) -> None:
        """`documents`: see `document_mask`."""
        self._filter = filter
        self._documents = documents
        self._deleted_rows = deleted_rows
        """Rows that the files still contain."""

    def passing(self, columns: Columns, indexes: Indexes) -> Indexes:
        """The rows that pass the filter."""
        filter = self._filter
        if self._documents is not None:
            documents = columns("document")[indexes]
            indexes = indexes[self._documents.take(documents, mode="clip")]

        def column(name: str) -> NDArray[Any]:
            return columns(name)[indexes]

        mask: NDArray[np.bool_] = column("passage") != 0
        if len(self._deleted_rows):
            mask &= ~np.isin(column("row"), self._deleted_rows)
        if not filter.hidden:
            mask &= column("hidden") == 0
        for name, names, expected in (
            ("role", filter.roles, True),
            ("author", filter.authors, True),
            ("role", filter.not_roles, False),
            ("author", filter.not_authors, False),
        ):
            if names:
                mask &= np.isin(column(name), [name_code(n) for n in names]) == expected
        if filter.senders:
            senders = [name_code(sender) for sender in filter.senders]
            mask &= np.isin(column("role"), senders) | np.isin(column("author"), senders)
        if filter.after is not None:
            mask &= column("created_at") >= micros(filter.after)
        if filter.before is not None:
            dates = column("created_at")
            mask &= (dates <= micros(filter.before)) & (dates != NO_DATE)
        return indexes[mask]


def document_mask(documents: DocumentKeys) -> NDArray[np.bool_] | None:
    """For each key of a document, whether it is selected; None if all are.

    The last element is for all later keys. Looking up a key takes a fraction of the time of
    searching a list of keys.
    """
    only, without = documents
    if only is None and not without:
        return None
    mask = np.full(max([*(only or ()), *without], default=-1) + 2, only is None)
    if only is not None:
        mask[np.array(only, np.intp)] = True
    mask[np.array(without, np.intp)] = False
    return mask
