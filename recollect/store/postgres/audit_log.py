"""Audit logs in a PostgreSQL database.

The table has row-level security like all others, and the application's role may only insert and
read: not even a program that has taken over a server can change a record. Each user has a chain of
her own, because the role cannot see the records of others. Writers take turns by an advisory lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from recollect.store.audit_log import AuditLogs, Entry, Head, Record, chain
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.transactions import Transactions

_MAX_USERS = 16
_PAGE = 1_000


class PostgresAuditLogs(AuditLogs):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._transactions: OrderedDict[str, Transactions] = OrderedDict()

    def users(self) -> list[str]:
        """None: the application's role cannot see which users there are."""
        return []

    def stored_head(self, user: str) -> Head | None:
        """None: nobody can delete rows, so there is no need for one."""
        return None

    def records(self, user: str) -> Iterator[Record]:
        number = 0
        transactions = Transactions(self._url, user)
        try:
            while True:
                rows = transactions.read(partial(read_page, after=number))
                for number, text, hash_ in rows:
                    yield Record(number, text, hash_)
                if len(rows) < _PAGE:
                    return
        finally:
            transactions.close()

    def write(self, user: str, entries: Sequence[Entry], durable: bool) -> None:
        self._for_user(user).append(lambda db: append(db, entries), durable)

    def _for_user(self, user: str) -> Transactions:
        """The connection of a user. Only the thread that writes calls this."""
        transactions = self._transactions.pop(user, None)
        if transactions is None:
            transactions = Transactions(self._url, user)
        self._transactions[user] = transactions
        if len(self._transactions) > _MAX_USERS:
            _, unused = self._transactions.popitem(last=False)
            unused.close()
        return transactions


def read_page(db: Connection, after: int) -> list[tuple[Any, ...]]:
    return db.rows(
        f"select number, record, hash from audit where {db.own()} and number > ? "
        "order by number limit ?",
        (after, _PAGE),
    )


def append(db: Connection, entries: Sequence[Entry]) -> None:
    head = Head()
    last = db.rows(f"select number, hash from {db.own_rows('audit')} order by number desc limit 1")
    for number, hash_ in last:
        head = Head(number, hash_)
    rows = [(record.number, record.text, record.hash) for record in chain(entries, head)]
    # Not `insert`, which depends on a row that a removed library has not.
    db.run_many(f"insert into audit (owner, number, record, hash) values ({OWNER}, ?, ?, ?)", rows)
