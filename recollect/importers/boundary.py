"""The boundary around the importers: no file can stop the import of the others.

A hostile or damaged file can make a parser raise anything. Importers handle what they expect, so
that the rest of the file is read; everything else becomes a Problem here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from recollect.errors import RecollectError
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.model.documents import Document
from recollect.model.receipts import Problem

Reader = Callable[[Entry], Iterator[Document | Problem]]


def contain_errors(read: Reader) -> Reader:
    """Let a function that reads files yield a Problem instead of raising an exception."""

    @wraps(read)
    def read_contained(entry: Entry) -> Iterator[Document | Problem]:
        try:
            yield from read(entry)
        except Exception as error:
            yield failure(error, entry)

    return read_contained


def failure(error: Exception, entry: Entry) -> Problem:
    """The Problem of a file that cannot be read because of an exception."""
    reason = f"cannot be read ({type(error).__name__})"
    if isinstance(error, (RecollectError, OSError, Unreadable)):
        reason = str(error)
    return Problem(reason, entry.name, failed=True, unit="conversations")
