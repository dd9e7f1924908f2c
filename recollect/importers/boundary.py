"""The boundary around the importers: no file can stop the import of the others.

A hostile or damaged file can make a parser raise anything. Importers handle what they expect, so
that the rest of the file is read; everything else becomes a Problem here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps

from recollect.errors import RecollectError
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.model.documents import Document
from recollect.model.receipts import Problem

_NO_ID = "without an id, so that it could not be found again"
_EXAMPLES = 10
"""How many problems of one kind are reported one by one, each with its place."""

Reader = Callable[[Entry], Iterator[Document | Problem]]


def contain_errors(read: Reader) -> Reader:
    """Let a function that reads files yield a Problem instead of raising an exception."""

    @wraps(read)
    def read_contained(entry: Entry) -> Iterator[Document | Problem]:
        problems = _RepeatedProblems()
        try:
            for item in read(entry):
                if isinstance(item, Document) and not item.source_id:
                    item = Problem(_NO_ID, item.title, failed=True, unit="conversations")
                if not problems.absorb(item):
                    yield item
        except Exception as error:  # a parser may raise anything for a hostile file
            yield failure(error, entry)
        yield from problems.totals()

    return read_contained


class _RepeatedProblems:
    """Counts problems of one kind, of which a file may have as many as it has lines.

    The first of each kind are reported one by one, each with its place.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, bool, str]] = Counter()
        self._reports: Counter[tuple[str, bool, str]] = Counter()

    def absorb(self, item: Document | Problem) -> bool:
        """Whether this is a problem that only has to be counted."""
        if not isinstance(item, Problem):
            return False
        kind = (item.reason, item.failed, item.unit)
        if self._reports[kind] < _EXAMPLES:
            self._reports[kind] += 1
            return False
        self._counts[kind] += item.count
        return True

    def totals(self) -> Iterator[Problem]:
        for (reason, failed, unit), count in self._counts.items():
            yield Problem(reason, failed=failed, unit=unit, count=count)


def failure(error: Exception, entry: Entry) -> Problem:
    """The Problem of a file that cannot be read because of an exception."""
    reason = f"cannot be read ({type(error).__name__})"
    if isinstance(error, (RecollectError, OSError, Unreadable)):
        reason = str(error)
    return Problem(reason, entry.name, failed=True, unit="conversations")
