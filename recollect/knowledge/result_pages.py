"""Pages of search results, without those that a session has returned before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from recollect.knowledge.results import uri_of
from recollect.search.everything import Entry


class ResultHistory(Protocol):
    """Which results a session has returned before, by their URIs."""

    def unseen(self, uris: Iterable[str]) -> list[str]: ...

    def forget(self, uris: Iterable[str]) -> None: ...

    def returned(self, uris: Iterable[str]) -> None: ...


class ResultPage(NamedTuple):
    entries: list[Entry]
    offsets: Sequence[int]
    """The place of each among all results."""
    next_offset: int
    has_more: bool
    seen: int = 0
    """How many results were skipped because they had been returned before."""

    def first(self, count: int) -> ResultPage:
        """The first results of the page. The others follow on the next one."""
        if count >= len(self.entries):
            return self
        return ResultPage(self.entries[:count], (), self.offsets[count], True, self.seen)


def result_page(
    entries: Iterator[Entry], limit: int, skipped: int, history: ResultHistory | None
) -> ResultPage:
    """A page of results. `skipped` results come before these."""
    if history is not None:
        return unseen_page(entries, limit, skipped, history)
    page = list(islice(entries, limit))
    end = skipped + len(page)
    has_more = next(entries, None) is not None
    return ResultPage(page, range(skipped, end), end, has_more)


def unseen_page(
    entries: Iterator[Entry], limit: int, offset: int, history: ResultHistory
) -> ResultPage:
    page: list[Entry] = []
    all_entries: list[Entry] = []
    offsets: list[int] = []
    next_offset = offset
    for entry in entries:
        if len(page) == limit:
            seen = next_offset - offset - len(page)
            return ResultPage(page, offsets, next_offset, has_more=True, seen=seen)
        all_entries.append(entry)
        if history.unseen([passage_uri(entry)]):
            page.append(entry)
            offsets.append(offset + len(all_entries) - 1)
            next_offset = offset + len(all_entries)
    seen = len(all_entries) - len(page)
    if not page and all_entries:  # everything was returned before: start again
        history.forget(map(passage_uri, all_entries))
        page = all_entries[:limit]
        next_offset = offset + len(page)
        offsets = list(range(offset, next_offset))
        seen = 0
    return ResultPage(page, offsets, next_offset, next_offset < offset + len(all_entries), seen)


def passage_uri(entry: Entry) -> str:
    """What a history remembers: the passage, so that other passages of an item are still new."""
    return f"{entry_uri(entry)}#{entry.candidate.key}"


def entry_uri(entry: Entry) -> str:
    document, message = entry.identity
    return uri_of(entry.candidate.kind, document, message)
