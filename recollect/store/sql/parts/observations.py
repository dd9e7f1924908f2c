"""The observations of conversations, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from recollect.model.documents import Document
from recollect.store.contract.observations import Observations
from recollect.store.sql import observations as observation_sql
from recollect.store.sql.database import TextIndex
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.turns import Turn, turns

# Changed observations in the first transaction. The next ones adapt.
_OBSERVATIONS_PER_TURN = 8


class SqlObservations(SqlTransactions[Connection], Observations):
    _observations_per_turn = 0
    """What the last transactions have shown; 0 before the first."""

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        return self._read(lambda db: observation_sql.unobserved(db, limit))

    def observed_messages(self, keys: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        return self._search(lambda db: observation_sql.observed_messages(db, keys))

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        draft = None
        if observations is not None:
            draft = observation_sql.draft(observations)

        def save(turn: Turn, db: Connection, index: TextIndex) -> observation_sql.Step:
            step = turn.run(
                lambda limit: observation_sql.save(
                    db, index, conversation, version, draft, complete, limit
                )
            )
            if step.has_removed:
                self._request_purge(db)
            return step

        has_removed = False
        for turn in turns(self._observations_per_turn or _OBSERVATIONS_PER_TURN):
            step = self._write_text(partial(save, turn))
            has_removed = has_removed or step.has_removed
            # A turn that ended early does not tell how long a full one takes.
            if not step.is_complete or turn.is_long:
                self._observations_per_turn = turn.next_limit()
            if step.is_complete:
                break
        self._purge_if(has_removed)

    def reset_observations(self, incomplete_only: bool = False) -> None:
        self._write(lambda db: observation_sql.reset(db, incomplete_only))
