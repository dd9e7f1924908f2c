"""Decide which ranges of passages to seal into volumes."""

from __future__ import annotations

from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.key_ranges import KeyRange, all_keys

# FTS5 answers as fast for fewer passages.
MIN_VOLUME_PASSAGES = 1_024
# A deletion drops the whole volume, which should not take long to write again.
MAX_VOLUME_PASSAGES = 131_072
# Changed passages are searched one by one, so a volume with more of them is written again.
_MAX_STALE_PASSAGES = 256
# The same for one in this many passages of a volume. Small volumes are written quickly.
_STALE_SHARE = 64
# This many adjacent small volumes are merged.
_VOLUMES_PER_MERGE = 4


def ranges_to_seal(db: Connection) -> list[KeyRange]:
    """Ranges without a volume, adjacent small volumes, and volumes with many changes."""
    planner = _Planner()
    next_key = 1
    for first, last in db.rows("select first, last from volume where ready order by first"):
        if first - next_key >= MIN_VOLUME_PASSAGES:
            planner.add_unsealed(next_key, first - 1)
        planner.add_volume(first, last, _count_stale(db, first, last))
        next_key = last + 1
    planner.merge_small_volumes()
    _, newest_key = all_keys(db)
    planner.add_unsealed(next_key, newest_key)
    return planner.ranges


def unsealed_passages(db: Connection) -> int:
    """The number of passages that are to be sealed."""
    return sum(map(_size, ranges_to_seal(db)))


def _size(key_range: KeyRange) -> int:
    first, last = key_range
    return last - first + 1


def _count_stale(db: Connection, first: int, last: int) -> int:
    count: int = db.get("select count(*) from stale where passage between ? and ?", (first, last))
    return count


class _Planner:
    """Collects ranges in ascending order."""

    def __init__(self) -> None:
        self.ranges: list[KeyRange] = []
        self._small_volumes: list[KeyRange] = []

    def add_unsealed(self, first: int, last: int) -> None:
        """Seal a range without a volume, in pieces of the maximum size."""
        self.merge_small_volumes()
        for start in range(first, last + 1, MAX_VOLUME_PASSAGES):
            end = min(start + MAX_VOLUME_PASSAGES - 1, last)
            if end - start + 1 >= MIN_VOLUME_PASSAGES:
                self.ranges.append((start, end))

    def add_volume(self, first: int, last: int, stale_passages: int) -> None:
        size = last - first + 1
        if stale_passages > min(_MAX_STALE_PASSAGES, max(size // _STALE_SHARE, 1)):
            self.merge_small_volumes()
            self.ranges.append((first, last))
            return
        if self._small_volumes and last - self._small_volumes[0][0] >= MAX_VOLUME_PASSAGES:
            self.merge_small_volumes()
        self._small_volumes.append((first, last))

    def merge_small_volumes(self) -> None:
        """Seal the last of the adjacent volumes collected so far as one, if they are enough.

        A volume is merged only with as many passages as it has itself, so its size doubles, and a
        passage is written again only a few times, however slowly a library grows.
        """
        volumes = self._small_volumes
        passages_after = sum(map(_size, volumes))
        for start in range(len(volumes) - _VOLUMES_PER_MERGE + 1):
            size = _size(volumes[start])
            passages_after -= size
            if size <= passages_after:
                self.ranges.append((volumes[start][0], volumes[-1][1]))
                break
        volumes.clear()
