"""The boundary around the importers: no file can stop the import of the others.

A hostile or damaged file can make a parser raise anything. Importers handle what they expect, so
that the rest of the file is read; everything else becomes a Problem here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from zipfile import BadZipFile

from recollect.errors import RecollectError
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.model.documents import Document
from recollect.model.receipts import Problem

_EXAMPLES = 10
"""How many problems of one kind are reported one by one, each with its place."""

Reader = Callable[[Entry], Iterator[Document | Problem]]


def contain_errors(read: Reader) -> Reader:
    """Let a function that reads files yield a Problem instead of raising an exception.

    A file may have as many problems of one kind as it has lines: after a few, they are counted.
    """

    @wraps(read)
    def read_contained(entry: Entry) -> Iterator[Document | Problem]:
        reports: Counter[tuple[str, bool, str]] = Counter()
        counts: Counter[tuple[str, bool, str]] = Counter()
        try:
            for item in read(entry):
                if isinstance(item, Document) and not item.source_id:
                    reason = "without an id, so that it could not be found again"
                    item = failure(reason, item.title)
                if isinstance(item, Problem):
                    kind = (item.reason, item.failed, item.unit)
                    reports[kind] += 1
                    if reports[kind] > _EXAMPLES:
                        counts[kind] += item.count
                        continue
                yield item
        except Exception as error:  # a parser may raise anything for a hostile file
            yield failure(reason_of(error), entry.name)
        for (reason, failed, unit), count in counts.items():
            yield Problem(reason, failed=failed, unit=unit, count=count)

    return read_contained


def failure(reason: str, where: str) -> Problem:
    """The Problem of a conversation, an item or a whole file that cannot be imported."""
    return Problem(reason, where, failed=True, unit="conversations")


def reason_of(error: Exception) -> str:
    """Why a file cannot be read because of an exception, for its receipt."""
    if isinstance(error, (RecollectError, OSError, BadZipFile, Unreadable)):
        return str(error)
    return f"cannot be read ({type(error).__name__})"
