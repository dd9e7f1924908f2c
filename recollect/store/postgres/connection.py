"""Run SQL statements in a transaction of one user."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from recollect.language.text import fold
from recollect.model.search import Filter
from recollect.store.postgres.filters import (
    OWNER,
    conditions,
    derived_columns,
    document_conditions,
    may_be_human_only,
)
from recollect.store.postgres.functions import TOKENS
from recollect.store.postgres.pool import Session
from recollect.store.postgres.schema import Server
from recollect.store.sql.database import get_marker, set_marker
from recollect.store.sql.encoding import HUMAN_ONLY_COLUMNS, PASSAGE_COLUMNS, is_human_only_row
from recollect.store.sql.passages import COLUMNS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from functools import lru_cache
from itertools import count
from types import NoneType

_UPDATE_PASSAGE = (
    f"update passage set {', '.join(f'{name} = ?' for name in PASSAGE_COLUMNS)} "
    f"where owner = {OWNER} and key = ?"
)
_SPACE_NUMBER = "space number"
MARKS = f"marks = array[?::bigint] || marks[:{TOKENS - 1}]"
"""Stores the token of a transaction."""


class Connection:
    """See `store.sql.database.Database`."""

    is_reading: bool = False
    """Whether the transaction sees the same rows from its beginning to its end."""
    locked_row: Sequence[Any] = ()
    """What the statement that locked the library has returned. Only in some writes."""
    token: int = 0
    """The token of a transaction that writes."""
    is_token_stored = False
    """Whether a statement has stored it. Otherwise the commit does."""

    def __init__(self, session: Session, owner: int, server: Server) -> None:
        self.owner = owner
        self.server = server
        self.counts: dict[str, tuple[Any, ...]] = {}
        """See `text.counts`. Only transactions that read count."""
        self._rows: dict[Hashable, list[tuple[Any, ...]]] = {}
        self._session = session
        self._cursor = psycopg.RawCursor(session)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._execute(sql, values).fetchall()

    def rows_once(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if not self.is_reading:
            return self.rows(sql, values)
        key = (sql, *(tuple(value) if isinstance(value, list) else value for value in values))
        if key not in self._rows:
            self._rows[key] = self.rows(sql, values)
        return self._rows[key]

    def library_state(self) -> tuple[int, int | None]:
        """The key of the newest passage and the token of the last commit."""
        rows = self.rows_once(f"select passage, marks[1] from {self.own_rows('last_key')}")
        return (rows[0][0], rows[0][1]) if rows else (0, None)

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        row = self._execute(sql, values).fetchone()
        return None if row is None else row[0]

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._execute(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        rows = [self._parameters(sql, row) for row in values]
        if rows:
            self._cursor.executemany(number_parameters(sql), rows)

    def own(self, *aliases: str) -> str:
        if not aliases:
            return f"owner = {OWNER}"
        return " and ".join(f"{alias}.owner = {OWNER}" for alias in aliases)

    def own_rows(self, table: str) -> str:
        return f"{table} where owner = {OWNER}"

    def by_key(self, table: str, alias: str, key: str) -> str:
        """See Database.by_key.

        The server knows nothing about users who are new since its last ANALYZE. It expects one row
        in each of their tables, so a plain join may read all rows of one table for each row of the
        other: a search in 6,000 messages timed out. With `offset 0`, it can only look for the key,
        and `(select …)` hides the user, so that it uses the index of keys. Planning that takes some
        milliseconds longer, so it is for statements that may read many rows.
        """
        if self.server.is_cluster:  # which must know where the rows are
            return f"join {table} {alias} on {alias}.owner = {OWNER} and {alias}.key = {key}"
        return f"""cross join lateral (select * from {table} {alias}
          where {alias}.owner = (select {OWNER}) and {alias}.key = {key} offset 0) {alias}"""

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        keep_existing: bool = False,
    ) -> None:
        on_conflict = ""
        if keep_existing:
            on_conflict = " on conflict do nothing"
        if len(rows) == 1:
            placeholders = ", ".join("?" * len(columns))
            self._execute(
                f"insert into {table} (owner, {', '.join(columns)}) "
                f"values ({OWNER}, {placeholders}){on_conflict}",
                rows[0],
            )
        elif rows:
            self._insert_many(table, columns, rows, on_conflict)

    def _insert_many(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        on_conflict: str,
    ) -> None:
        """Insert any number of rows with one statement, which gets each column as an array.

        Columns without any value are left out. The owner is read from the user's own row, so that
        a cluster runs the statement where the rows are.
        """
        types = self.server.types[table]
        arrays = {
            name: list(values)
            for name, values in zip(columns, zip(*rows, strict=True), strict=True)
            if any(value is not None for value in values)
        }
        parameters = ", ".join(f"?::{types[name]}[]" for name in arrays)
        names = ", ".join(arrays)
        self._execute(
            f"insert into {table} (owner, {names}) "
            f"select o.owner, u.* from last_key o, unnest({parameters}) u({names}) "
            f"where {self.own('o')}{on_conflict}",
            list(arrays.values()),
        )

    def insert_passages(
        self,
        rows: Sequence[tuple[Any, ...]],
        may_be_human_only: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        self.insert("passage", COLUMNS, rows)

    def update_passage(self, key: int, row: tuple[Any, ...]) -> None:
        self.run(_UPDATE_PASSAGE, (*row, key))

    def human_only(self, keys: Sequence[int] | None) -> dict[int, str]:
        some = (
            f"select 1 from passage p where {self.own('p')} and {may_be_human_only('p.')} limit 1"
        )
        if not self.rows_once(some):
            return {}
        condition, values = "true", []
        if keys is not None:
            condition, values = "p.key = any(?::bigint[])", [list(keys)]
        columns = ", ".join(f"p.{name}" for name in HUMAN_ONLY_COLUMNS)
        rows = self.rows(
            f"""select p.key, d.id, {columns}
            from passage p {self.by_key("document", "d", "p.document")}
            where {self.own("p")} and {condition} and {may_be_human_only("p.")}""",
            values,
        )
        return {key: document for key, document, *values in rows if is_human_only_row(*values)}

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        is_text = len(values) > 0 and isinstance(values[0], str)
        type_name = "text" if is_text else "bigint"
        return f"select unnest(?::{type_name}[])", list(values)

    def array_of(self, column: str) -> str:
        return f"array_agg({column})"

    def parse_array(self, value: list[int]) -> NDArray[np.int64]:
        import numpy as np

        return np.array(value, np.int64)

    def has_id(self, id: str) -> tuple[str, tuple[Any, ...]]:
        return "id = ?", (id,)

    def has_id_in(self, ids: Sequence[str], alias: str = "passage") -> tuple[str, Any]:
        members, value = self.in_list(ids)
        return f"{alias}.id in ({members})", value

    def passage_ids_with_prefix(self, document: int, prefix: str, limit: int) -> list[str]:
        condition, values = self.starts_with("id", prefix)
        rows = self.rows(
            f"select id from passage where {self.own()} and document = ? and {condition} "
            "order by id limit ?",
            (document, *values, limit),
        )
        return [id_ for (id_,) in rows]

    def starts_with(self, column: str, prefix: str) -> tuple[str, list[str]]:
        # Operators of `text_pattern_ops`. PostgreSQL uses an index for them under a policy.
        return f"{column} ~>=~ ? and {column} ~<~ ?", [prefix, prefix + "\U0010ffff"]

    def new_space_number(self) -> int:
        highest: int = self.get(f"select coalesce(max(id), 0) from {self.own_rows('space')}")
        number = max(highest, get_marker(self, _SPACE_NUMBER) or 0) + 1
        set_marker(self, _SPACE_NUMBER, number)
        return number

    def queue_passages(self, space: int, passages: Sequence[int]) -> None:
        mark = new_mark()
        rows = [(mark, key, space) for key in passages]
        self.insert("unembedded", ("mark", "passage", "space"), rows)

    def mark_outdated(self, passages: Sequence[int]) -> None:
        keys = list(passages)
        self.run(
            f"""update passage_text t set created_at = p.created_at, role = p.role,
              author = p.author, hidden = p.visibility = 'hidden'
            from passage p
            where {self.own("p", "t")} and p.key = any(?::bigint[]) and t.key = p.key""",
            (keys,),
        )
        self._delete_vectors(keys)
        self.run(
            f"""insert into unembedded (owner, mark, passage, space)
            select p.owner, ?::bigint, p.key, s.id from passage p, space s
            where {self.own("p", "s")} and p.key = any(?::bigint[]) and not s.gone""",
            (new_mark(), keys),
        )

    def mark_reindexed(self, passages: Sequence[int]) -> None:
        self.mark_outdated(passages)

    def delete_derived(self, passages: Sequence[int]) -> None:
        self._delete_vectors(list(passages))

    def _delete_vectors(self, keys: list[int]) -> None:
        for table in ("vector", "unembedded"):
            self.run(
                f"""delete from {table} v
                where {self.own("v")} and v.passage = any(?::bigint[])
                  and v.space in (select s.id from space s where {self.own("s")})""",
                (keys,),
            )

    def add_counts(self, counts: Mapping[tuple[str, str], int]) -> None:
        names = [name for name, _ in counts]
        values = [value for _, value in counts]
        self.run(
            f"""insert into tally (owner, name, value, count)
            select o.owner, u.*
            from last_key o, unnest(?::text[], ?::text[], ?::bigint[]) u(name, value, count)
            where {self.own("o")}
            on conflict (owner, name, value) do update set count = tally.count + excluded.count""",
            (names, values, list(counts.values())),
        )

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return derived_columns(row)

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += " and (strpos(d.folded_title, ?) > 0 or strpos(d.folded_id, ?) > 0)"
            values += [fold(search)] * 2
        if filter.of_passages:
            passage_where, passage_values = conditions(filter, "p", "p.visibility = 'hidden'")
            where += (
                f" and exists (select 1 from passage p where {self.own('p')}"
                f" and p.document = d.key and {passage_where})"
            )
            values += passage_values
        return where, values

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.RawCursor[Any]:
        # A prepared plan serves any owner, so it reads the statistics of every partition.
        # Statements that name the owner are planned each time, for one partition.
        prepare = False if "owner = ?" in sql else None
        return self._cursor.execute(
            number_parameters(sql), self._parameters(sql, values), prepare=prepare, binary=True
        )

    def _parameters(self, sql: str, values: Sequence[Any]) -> Sequence[Any]:
        values = [array_text(value) for value in values]
        if OWNER in sql:
            return [self.owner, *values]
        return values

    # -- begin and commit ---

    def begin(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run statements without parameters. Returns the rows of the last one, if it is a query.

        They are sent in one message. Citus passes `set local` on to the workers as the whole
        message, so there each statement is sent alone.
        """
        if self.server.is_cluster:
            for statement in statements:
                self._cursor.execute(statement, prepare=False)
        else:
            self._cursor.execute("; ".join(statements), prepare=False)
            while self._cursor.nextset():
                pass
        # Not `description`, which describes every column.
        result = self._cursor.pgresult
        if result is None or result.status != ExecStatus.TUPLES_OK:
            return []
        return self._cursor.fetchall()

    def set_local(self, values: Mapping[str, str]) -> None:
        """Set parameters of the server for this transaction."""
        self.begin([f"set local {name} = '{value}'" for name, value in values.items()])

    def commit(self, last_statement: str = "") -> None:
        self._cursor.execute(f"{last_statement}commit", prepare=False)
        while self._cursor.nextset():
            pass
        if self._cursor.statusmessage != "COMMIT":
            # An earlier statement failed and its error was ignored.
            raise psycopg.InternalError("the transaction was rolled back")

    def end_reading(self) -> None:
        """End a transaction that has only read, by COMMIT: a ROLLBACK loses prepared statements."""
        if self._session.pgconn.transaction_status == TransactionStatus.INTRANS:
            with suppress(psycopg.Error):
                self.commit()

    @property
    def is_broken(self) -> bool:
        return self._session.broken


def set_owner(owner: int) -> str:
    """The statement that selects the rows which the rest of the transaction may use."""
    return f"set local recollect.owner = '{owner:d}'"


def new_mark() -> int:
    """A random number by which a change of a queued passage is noticed. It is never zero."""
    return secrets.randbits(62) + 1


# -- parameters ---


@lru_cache(2_000)
def number_parameters(sql: str) -> str:
    """Replace each `?` with `$1`, `$2` and so on. Our statements use `?` for nothing else.

    If the statement names the owner, that is the first parameter.
    """
    numbers = count(1)
    if OWNER in sql:
        sql = sql.replace(OWNER, f"${next(numbers)}::integer")
    return "".join(f"${next(numbers)}" if c == "?" else c for c in sql)


def array_text(value: Any) -> Any:
    """A list as the text of an array, which takes a tenth of the time of psycopg's own."""
    if not isinstance(value, list):
        return value
    types = set(map(type, value))
    if types == {int}:
        return f"{{{','.join(map(str, value))}}}"
    if types == {str}:
        joined = '","'.join(value)
        if "\\" not in joined and joined.count('"') == 2 * (len(value) - 1):
            return f'{{"{joined}"}}'
    if types and types <= {int, str, bool, NoneType}:
        return f"{{{','.join(map(array_item, value))}}}"
    return value


def array_item(value: int | str | None) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "null" if value is None else str(value)
