"""Statistics, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from recollect.model.kinds import CONVERSATION
from recollect.store.contract.care import Care
from recollect.store.sql import statistics
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.values import Activity, SearchPlan


class SqlCare(SqlTransactions[Connection], Care):
    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def release_snapshot(self) -> None:
        pass

    def expect(self, *plans: SearchPlan) -> None:
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
