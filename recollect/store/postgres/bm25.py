"""Candidates by BM25, from the extension pg_textsearch where a server has it.

Its index cannot take the user as a column, and would let one user's matches
crowd out another's. So the user is in every word: the words are kept once more
in a table of their own, each with its owner's number before it. The order is
all that is taken from it; our ranker scores. The table stands apart, because
without the extension a table with such an index cannot even be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from recollect.store.postgres.connection import Connection

TABLE = "passage_bm25"
VERSION = 1
_INDEX = f"{TABLE}_words"

CREATE = f"""
create table {TABLE} (
  owner integer not null default current_setting('recollect.owner')::integer,
  key bigint not null,
  hidden boolean not null,
  words text not null,
  primary key (owner, key)
) partition by hash (owner);
create index {_INDEX} on {TABLE} using bm25 (words) with (text_config = 'simple');
"""


def is_indexed(db: Connection) -> bool:
    return TABLE in db.server.types


def add(db: Connection, keys: Sequence[int], texts: Iterable[Sequence[str]]) -> None:
    """Keep the words of passages, in their order."""
    db.run(
        f"""insert into {TABLE} (key, hidden, words) select p.key, p.visibility = 'hidden', k.words
        from unnest(?::bigint[], ?::text[]) k(key, words) join passage p on p.owner = ?::integer and p.key = k.key""",
        (list(keys), [" ".join(_scoped(db.owner, words)) for words in texts], db.owner),
    )


def remove(db: Connection, keys: Sequence[int]) -> None:
    db.run(
        f"delete from {TABLE} where owner = ?::integer and key = any(?::bigint[])",
        (db.owner, list(keys)),
    )


def update(db: Connection, keys: Sequence[int]) -> None:
    db.run(
        f"""update {TABLE} b set hidden = p.visibility = 'hidden' from passage p
        where p.owner = ?::integer and p.key = any(?::bigint[]) and b.owner = ?::integer and b.key = p.key""",
        (db.owner, list(keys), db.owner),
    )


def best(db: Connection, words: Iterable[str], hidden: bool, limit: int) -> list[int]:
    """The passages that have any of the words, best first."""
    query = " ".join(_scoped(db.owner, words))
    # With a sort at hand the server may score all of a small user's passages, and give those that match nothing.
    db.run("select set_config('enable_sort', 'off', true)")
    rows = db.rows(
        f"""select b.key from {TABLE} b where b.owner = ?::integer and (? or not b.hidden)
        order by b.words <@> to_bm25query(?, '{_INDEX}') limit ?""",
        (db.owner, hidden, query, limit),
    )
    db.run("select set_config('enable_sort', 'on', true)")
    return [key for (key,) in rows]


def _scoped(owner: int, words: Iterable[str]) -> list[str]:
    """Letters and digits of ASCII only, so that the server's parser takes every word whole."""
    return [
        f"o{owner}x{word}" if word.isascii() else f"o{owner}u{word.encode().hex()}"
        for word in words
    ]


def create(connection: psycopg.Connection[Any]) -> None:
    connection.execute(CREATE)
