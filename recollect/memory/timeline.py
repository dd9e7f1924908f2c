"""The observations around an observation or a date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from recollect.errors import InvalidInput
from recollect.language.text import truncate
from recollect.memory.lookup import full_names, observations_by_id, observations_by_key
from recollect.memory.names import is_observation_id
from recollect.memory.request_filters import parse_anchor_date
from recollect.memory.results import ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import Candidate

_SPANS = tuple(timedelta(days=days) for days in (1, 8, 64, 512))
_MAX_SIMULTANEOUS = 1_000

_Entry = tuple[datetime, int, ObservationHit]
"""The time of an observation, its key, which orders those of one moment, and the observation."""


class Timeline:
    """The observations of some projects, or of all, in their order."""

    def __init__(self, store: Store, projects: Sequence[str] = ()) -> None:
        self._store = store
        self._filter = Filter(
            hidden=True, kinds=(OBSERVATION,), projects=full_names(store, projects)
        )

    def around(
        self, anchor: str, before: int, after: int
    ) -> tuple[list[ObservationHit], int | None]:
        """The observations around an anchor, oldest first, and the index of the anchor.

        A date is the beginning of that day, and has no index. Raises InvalidInput.
        """
        if not is_observation_id(anchor):
            at = parse_anchor_date(anchor)
            entries = self._entries(at, before, after)
            index = sum(1 for time, _, _ in entries if time < at)
            return [hit for _, _, hit in entries[max(0, index - before) : index + after]], None
        anchor_hit = observations_by_id(self._store, [anchor])[anchor]
        anchor = anchor_hit.observation.id
        anchor_time = anchor_hit.observation.created_at
        if anchor_time is None:
            raise InvalidInput(
                f"The observation {truncate(anchor, 80)} has no date. Give a date as the anchor."
            )
        entries = self._entries(anchor_time, before, after)
        ids = [hit.observation.id for _, _, hit in entries]
        if anchor not in ids:  # because it belongs to another project
            entries = sorted([*entries, (anchor_time, -1, anchor_hit)], key=_order)
            ids = [hit.observation.id for _, _, hit in entries]
        index = ids.index(anchor)
        start = max(0, index - before)
        return [hit for _, _, hit in entries[start : index + after + 1]], index - start

    def _entries(self, at: datetime, before: int, after: int) -> list[_Entry]:
        """Observations around a moment in their order, at least as many as are needed."""
        earlier = self._nearest(at, before, later=False)
        later = self._nearest(at, after, later=True)
        candidates = {candidate.id: candidate for candidate in (*earlier, *later)}
        keys = [candidate.key for candidate in candidates.values()]
        hits = observations_by_key(self._store, keys)
        entries = [
            (candidate.created_at or at, candidate.key, hits[candidate.key])
            for candidate in candidates.values()
            if candidate.key in hits
        ]
        return sorted(entries, key=_order)

    def _nearest(self, at: datetime, count: int, *, later: bool) -> list[Candidate]:
        """The observations of a moment, and `count` more just before or after it."""
        _, simultaneous = self._store.newest(replace(self._filter, after=at, before=at), 1, 0)
        needed = count + min(simultaneous, _MAX_SIMULTANEOUS)
        if later:
            return self._oldest(at, needed)
        return self._store.recent(None, replace(self._filter, before=at), needed)

    def _oldest(self, at: datetime, count: int) -> list[Candidate]:
        """The first observations from a moment on.

        The store lists the newest first, so those of a time span are counted. The span grows until
        it contains enough, because counting all observations is slow.
        """
        for span in _SPANS:
            candidates, total = self._oldest_within(at, _shift(at, span), count)
            if total >= count:
                return candidates
        candidates, _ = self._oldest_within(at, None, count)
        return candidates

    def _oldest_within(
        self, at: datetime, edge: datetime | None, count: int
    ) -> tuple[list[Candidate], int]:
        """The first observations of a time span, and the number of all."""
        filter_ = replace(self._filter, after=at, before=edge)
        candidates, total = self._store.newest(filter_, count, 0)
        if total > count:
            candidates, _ = self._store.newest(filter_, count, total - count)
        return candidates, total


def _order(entry: _Entry) -> tuple[datetime, int]:
    time, key, _ = entry
    return time, key


def _shift(at: datetime, span: timedelta) -> datetime:
    try:
        return at + span
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
