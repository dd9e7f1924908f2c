"""Decide which ranges of passages to seal into volumes."""

from __future__ import annotations

from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.scans import KeyRange, all_keys

# FTS5 answers as fast for fewer passages.
MIN_VOLUME_PASSAGES = 1_024
# A deletion drops the whole volume, which should not take long to write again.
MAX_VOLUME_PASSAGES = 131_072
# Changed passages are searched one by one, so a volume with more of them is written again.
MAX_STALE_PASSAGES = 256
# The same for one in this many passages of a volume. Small volumes are written quickly.
_STALE_SHARE = 64
# This many adjacent small volumes are merged.
_VOLUMES_PER_MERGE = 4


def ranges_to_seal(db: Connection) -> list[KeyRange]:
    """Ranges without a volume, adjacent small volumes, and volumes with many changes."""
    plan: list[KeyRange] = []
    small_volumes: list[KeyRange] = []
    next_key = 1
    for first, last, stale_passages in db.rows(
        "select first, last, (select count(*) from stale where passage between first and last) "
        "from volume where ready order by first"
    ):
        if first - next_key >= MIN_VOLUME_PASSAGES:
            plan += [*merge(small_volumes), *split(next_key, first - 1)]
        if stale_passages > min(MAX_STALE_PASSAGES, max(size_of((first, last)) // _STALE_SHARE, 1)):
            plan += [*merge(small_volumes), (first, last)]
        else:
            if small_volumes and last - small_volumes[0][0] >= MAX_VOLUME_PASSAGES:
                plan += merge(small_volumes)
            small_volumes.append((first, last))
        next_key = last + 1
    _, newest_key = all_keys(db)
    return [*plan, *merge(small_volumes), *split(next_key, newest_key)]


def split(first: int, last: int) -> list[KeyRange]:
    """A range without a volume, in pieces of the maximum size."""
    starts = range(first, last + 1, MAX_VOLUME_PASSAGES)
    pieces = [(start, min(start + MAX_VOLUME_PASSAGES - 1, last)) for start in starts]
    return [piece for piece in pieces if size_of(piece) >= MIN_VOLUME_PASSAGES]


def merge(volumes: list[KeyRange]) -> list[KeyRange]:
    """The last of some adjacent volumes as one, if they are enough. Empties the list.

    A volume is merged only with as many passages as it has itself, so its size doubles, and a
    passage is written again only a few times, however slowly a library grows.
    """
    adjacent, volumes[:] = [*volumes], []
    passages_after = sum(map(size_of, adjacent))
    for start in range(len(adjacent) - _VOLUMES_PER_MERGE + 1):
        size = size_of(adjacent[start])
        passages_after -= size
        if size <= passages_after:
            return [(adjacent[start][0], adjacent[-1][1])]
    return []


def size_of(key_range: KeyRange) -> int:
    first, last = key_range
    return last - first + 1
