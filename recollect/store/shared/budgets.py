"""Budgets that all servers of a database spend together, such as characters for a model per day.

In a home folder, the budget of the observer is the file `observer.json`.
"""

from __future__ import annotations

from recollect.store.shared.database import SharedDatabase, Tables

TABLES = Tables(
    "budget",
    (
        """create table budget (
          name text not null,
          day text not null,
          spent bigint not null,
          primary key (name, day)
        )""",
    ),
)


class SharedBudgets:
    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def spend(self, name: str, day: str, amount: int, limit: int) -> bool:
        """Reserve an amount. False if that would exceed the limit of the day."""
        if amount > limit:
            return False
        with self._database.transaction(TABLES) as db:
            rows = db.rows(
                """insert into budget (name, day, spent) values (?, ?, ?)
                on conflict (name, day) do update set spent = budget.spent + excluded.spent
                where budget.spent + excluded.spent <= ?
                returning spent""",
                (name, day, amount, limit),
            )
            db.run("delete from budget where name = ? and day < ?", (name, day))
        return bool(rows)
