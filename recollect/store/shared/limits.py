"""Rate limits that servers share: the levels of token buckets.

A server counts requests by itself and reports the number once a second, so no request waits for the
database. In between, each server may let through what it has in its own buckets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from recollect.store.shared.database import SharedDatabase, Tables

_MICRO = 1_000_000
_FULL_SECONDS = 120
"""Any bucket is full after a minute, so older rows need not be kept."""

TABLES = Tables(
    "limits",
    (
        """create table bucket (
          id text primary key,
          level bigint not null,
          updated_at bigint not null
        )""",
        "create index bucket_updated_at on bucket (updated_at)",
    ),
    is_durable=False,
)


class LimitStore:
    """The levels of the buckets of all servers. The methods wait for the database."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def spend(self, tokens: Mapping[str, int], rate: float, burst: float) -> dict[str, float]:
        """Take tokens out of buckets, by name. Returns the levels afterwards.

        `rate` is in tokens per second. A level may become negative, at most by `burst`.
        """
        levels: dict[str, float] = {}
        with self._database.transaction(TABLES) as db:
            now = db.get(f"select {db.now}")
            # In the same order at every server, so that they do not wait for each other.
            for name in sorted(tokens, key=_id):
                id = _id(name)
                db.run(
                    "insert into bucket (id, level, updated_at) values (?, ?, ?) "
                    "on conflict do nothing",
                    (id, int(burst * _MICRO), now),
                )
                ((level, updated_at),) = db.rows(
                    f"select level, updated_at from bucket where id = ? {db.for_update}", (id,)
                )
                refill = rate * max(0, now - updated_at) / _MICRO
                value = min(burst, level / _MICRO + refill) - tokens[name]
                levels[name] = max(value, -burst)
                db.run(
                    "update bucket set level = ?, updated_at = ? where id = ?",
                    (int(levels[name] * _MICRO), now, id),
                )
            db.run(
                "delete from bucket where id in "
                f"(select id from bucket where updated_at < ? {db.skip_locked})",
                (now - _FULL_SECONDS * _MICRO,),
            )
        return levels


def _id(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
