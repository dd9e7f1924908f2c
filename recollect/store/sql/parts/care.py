"""Statistics, and completing what earlier versions have written, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from recollect.model.kinds import CONVERSATION
from recollect.store.contract.care import Care
from recollect.store.sql import markers, statistics, tags
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.sql.writing import headings, older_index
from recollect.store.values import Activity, CandidateRead, SearchPlan, TermPlan


class SqlCare(SqlTransactions[Connection], Care):
    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def release_snapshot(self) -> None:
        pass

    def expect(self, *plans: SearchPlan) -> None:
        pass

    def expect_candidates(self, *reads: CandidateRead) -> None:
        pass

    def expect_terms(self, plan: Callable[[], TermPlan]) -> None:
        pass

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        return self._read(lambda db: statistics.facets(db, kind))

    def facet_names(
        self, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
    ) -> list[tuple[str, int]]:
        return self._read(lambda db: statistics.facet_names(db, facet, text, kinds))

    def media_types(self) -> list[tuple[str, int]]:
        return self._read(statistics.media_types)

    def activity(self) -> Activity:
        return self._read(statistics.activity)

    def _complete_counts(self) -> None:
        """Count the passages of a library that an earlier version has written."""
        version = self._read(lambda db: markers.get_marker(db, statistics.COUNTS))
        if version != statistics.VERSION:
            self._write(statistics.recount)

    def _complete_tags(self) -> None:
        """Fill in a column of documents that an earlier version has written."""
        if not self._read(tags.is_complete):
            self._write(tags.complete)

    def _index_keywords(self, stop: Callable[[], bool] | None) -> None:
        """Index the keywords of older items, a batch per transaction."""
        if self._read(headings.is_complete):
            return
        while stop is None or not stop():
            if not self._write_text(headings.index_batch):
                return

    def _index_older(self, stop: Callable[[], bool] | None) -> None:
        """Index passages again that older versions indexed differently, a batch per transaction."""
        if self._read(older_index.is_complete):
            return
        while stop is None or not stop():
            if not self._write_text(older_index.index_batch):
                return
