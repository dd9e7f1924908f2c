"""A connection to an SQLite file, with the settings and SQL functions that the store needs.

Only SQLite may open the file. A plain open() and close() would drop SQLite's locks on it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from recollect.language.text import comparable, fold, tokens
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.encoding import HUMAN_ONLY_COLUMNS, human_only_keys, index_columns
from recollect.store.sql.passages import COLUMNS
from recollect.store.sqlite.compression import (
    STORED_COLUMNS,
    Codec,
    pack_id,
    ranges_of_ids,
)
from recollect.store.sqlite.encryption import DataKey, apply_key, data_key
from recollect.store.sqlite.filters import document_conditions, has_passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_PRAGMAS = """
pragma synchronous = full;
pragma foreign_keys = on;
pragma secure_delete = on;
pragma trusted_schema = off;
pragma temp_store = memory;
pragma cache_size = -4096;
pragma journal_size_limit = 67108864;
"""
_INSERT_PASSAGE = (
    f"insert into passage ({', '.join(STORED_COLUMNS)}) "
    f"values ({', '.join('?' * len(STORED_COLUMNS))})"
)
_UPDATE_PASSAGE = (
    f"update passage set {', '.join(f'{name} = ?' for name in STORED_COLUMNS[4:])} where key = ?"
)
_LABELLED_COLUMNS = itemgetter(*map(COLUMNS.index, ("key", *HUMAN_ONLY_COLUMNS)))
# Some values list many thousand keys.
_MAX_MEMO = 256
# Seconds between two attempts to write while another process does.
_LONGEST_SLEEP = 0.005
_WAIT_THAT_HALVES_SLEEPS = 0.05


class Connection(apsw.Connection):
    """A connection with the methods that the shared SQL needs (see store.sql.database)."""

    codec: Codec
    unlocked_stamp: FileStamp | None = None
    """If this connection reads without locks: the files as they were when it was opened."""
    _memo: dict[Hashable, Any]
    _memo_version: int | None = None
    """The version of the database that the memo belongs to."""
    _is_snapshot = False
    _is_memo_current = False

    def begin_snapshot(self) -> None:
        """Begin a transaction that only reads. Only for connections that never write."""
        self.execute("begin")
        self._is_snapshot = True

    def end_snapshot(self) -> None:
        self._is_snapshot = self._is_memo_current = False
        if self.in_transaction:
            self.execute("rollback")

    def memoize(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that is valid until anybody writes.

        SQLite counts the commits of all other connections, so a transaction that writes would not
        see its own changes. It remembers nothing.
        """
        if not self._is_snapshot:
            return compute()
        if not self._is_memo_current:
            version: int = self.pragma("data_version")
            if self._memo_version != version:
                self._memo_version, self._memo = version, {}
            self._is_memo_current = True
        if key not in self._memo:
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            self._memo[key] = compute()
        value: T = self._memo[key]
        return value

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.execute(sql, values).fetchall()

    def rows_once(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.rows(sql, values)

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.execute(sql, values).get

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.execute(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self.executemany(sql, values)

    def own(self, *aliases: str) -> str:
        return "true"  # a file has one owner

    def own_rows(self, table: str) -> str:
        return table

    def by_key(self, table: str, alias: str, key: str) -> str:
        return f"join {table} {alias} on {alias}.key = {key}"

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        keep_existing: bool = False,
    ) -> None:
        sql = f"insert into {table} ({', '.join(columns)}) values ({', '.join('?' * len(columns))})"
        if keep_existing:
            sql += " on conflict do nothing"
        self.executemany(sql, rows)

    def insert_passages(
        self,
        rows: Sequence[tuple[Any, ...]],
        may_be_human_only: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        self.executemany(_INSERT_PASSAGE, self.codec.rows(rows))
        if may_be_human_only is None:
            may_be_human_only = rows
        self.label_human_only(may_be_human_only)

    def update_passage(self, key: int, row: tuple[Any, ...]) -> None:
        full_row = (key, None, None, None, *row)
        self.execute(_UPDATE_PASSAGE, (*self.codec.row(full_row)[4:], key))
        self.execute("delete from human_only where passage = ?", (key,))
        self.label_human_only([full_row])

    def label_human_only(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Remember which new passages only people may see, given as rows of `COLUMNS`."""
        keys = human_only_keys(map(_LABELLED_COLUMNS, rows))
        if keys:
            self.insert("human_only", ("passage",), [(key,) for key in keys])

    def human_only(self, keys: Sequence[int] | None) -> dict[int, str]:
        source, values = "human_only h", []
        if keys is not None:
            source = "json_each(?) k cross join human_only h on h.passage = k.value"
            values = [json.dumps(keys)]
        rows = self.execute(
            f"""select h.passage, d.id from {source}
            cross join passage p on p.key = h.passage
            cross join document d on d.key = p.document""",
            values,
        )
        return dict(rows)

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        return "select value from json_each(?)", json.dumps(values)

    def array_of(self, column: str) -> str:
        return f"group_concat({column})"

    def parse_array(self, value: str) -> NDArray[np.int64]:
        import numpy as np

        return np.fromstring(value, np.int64, sep=",")

    def has_id(self, id: str) -> tuple[str, tuple[Any, ...]]:
        return "packed_id = ?", (pack_id(id),)

    def has_id_in(self, ids: Sequence[str], alias: str = "passage") -> tuple[str, Any]:
        packed_ids = "select packed_id(value) from json_each(?)"
        return f"{alias}.packed_id in ({packed_ids})", json.dumps(ids)

    def passage_ids_with_prefix(self, document: int, prefix: str, limit: int) -> list[str]:
        ids: list[str] = []
        for first, last in ranges_of_ids(prefix):
            rows = self.rows(
                "select id from passage where document = ? and packed_id between ? and ? "
                "order by packed_id limit ?",
                (document, first, last, limit),
            )
            ids += [id_ for (id_,) in rows]
        return sorted(ids)[:limit]

    def starts_with(self, column: str, prefix: str) -> tuple[str, list[str]]:
        return f"{column} >= ? and {column} < ?", [prefix, prefix + "\U0010ffff"]

    def new_space_number(self) -> int:
        last: int = self.get("select seq from sqlite_sequence where name = 'space'") or 0
        return last + 1

    def queue_passages(self, space: int, passages: Sequence[int]) -> None:
        self.insert("unembedded", ("passage", "space"), [(key, space) for key in passages])

    def mark_outdated(self, passages: Sequence[int]) -> None:
        pass  # done by triggers

    def mark_reindexed(self, passages: Sequence[int]) -> None:
        # No row of a passage changes, so there is no trigger.
        keys = json.dumps(list(passages))
        self.run(
            "insert or ignore into stale select k.value from json_each(?) k "
            "join volume on k.value between first and last",
            (keys,),
        )
        self.run(
            "insert or replace into unembedded (passage, space) "
            "select k.value, s.id from json_each(?) k cross join space s where not s.gone",
            (keys,),
        )
        self.run("delete from vector where passage in (select value from json_each(?))", (keys,))

    def delete_derived(self, passages: Sequence[int]) -> None:
        pass  # done by triggers

    def add_counts(self, counts: Mapping[tuple[str, str], int]) -> None:
        self.executemany(
            "insert into tally (name, value, count) values (?, ?, ?) "
            "on conflict (name, value) do update set count = count + excluded.count",
            [(name, value, count) for (name, value), count in counts.items()],
        )

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        columns = index_columns(row) | {"folded_title": comparable(row["title"]), "folded_id": None}
        if fold(row["id"]) != row["id"]:
            columns["folded_id"] = fold(row["id"])
        return columns

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += (
                " and (instr(d.folded_title, ?) > 0 or instr(coalesce(d.folded_id, d.id), ?) > 0)"
            )
            values += [fold(search)] * 2
        if filter.of_passages:
            has_passage_where, passage_values = has_passage(self, filter, where, values)
            where += f" and {has_passage_where}"
            values += passage_values
        return where, values


def connect(path: Path) -> Connection:
    """Open a connection with the settings and SQL functions that the store needs."""
    return connect_with(data_key(path), path)


def connect_with(key: DataKey | None, path: Path) -> Connection:
    """Like `connect`, with this key instead of the one that its home has."""
    # Statements may name other files by address, with the key that encrypts them.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    db = Connection(str(path.absolute()), flags=flags)
    try:
        apply_key(db, key)
        db.set_busy_handler(busy_handler())
        retry_while_busy(
            lambda: db.execute("pragma page_size = 8192; pragma journal_mode = wal").fetchall()
        )
        configure(db)
    except BaseException:  # nobody else would close the connection
        db.close()
        raise
    return db


def connect_read_only(path: Path) -> Connection:
    """Open a connection that creates and changes no file, also on read-only media.

    In a write-ahead log, readers share a memory file (-shm). If there is none, no other program has
    the database open, and it is read without locks: with the log if there is one, and without one
    as an immutable file. Such a connection must not be used once the files have changed.
    """
    log = path.with_name(path.name + "-wal")
    memory = path.with_name(path.name + "-shm")
    if log.exists() and memory.exists():
        with suppress(apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            return open_read_only(path, "")
    stamp = file_stamp(path)
    if log.exists() and log.stat().st_size:
        db = open_read_only(path, "&vfs=unix-none")
    else:
        db = open_read_only(path, "&immutable=1")
    db.unlocked_stamp = stamp
    return db


def open_read_only(path: Path, option: str) -> Connection:
    key = data_key(path)
    if key is not None:
        option = option.replace("vfs=", "vfs=multipleciphers-")
    uri = f"{path.absolute().as_uri()}?mode=ro{option}"
    db = Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        apply_key(db, key)
        db.set_busy_handler(busy_handler())
        if "vfs" in option:
            # Then the index of the log is in memory instead of a file.
            db.execute("pragma locking_mode = exclusive").fetchall()
        configure(db)
        db.execute("select count(*) from sqlite_schema").fetchall()
    except BaseException:  # nobody else would close the connection
        db.close()
        raise
    return db


def configure(db: Connection) -> None:
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # Some of these return a row. Statements after it run only when it has been fetched.
    db.execute(_PRAGMAS).fetchall()
    db.codec = Codec()
    add_sql_functions(db, db.codec)


FileStamp = tuple[tuple[int, int, int], ...]


def file_stamp(path: Path) -> FileStamp:
    """The inodes, sizes and times of a database and its log, by which changes are detected."""
    stamp = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if status.st_size:
            stamp.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(stamp)


# -- waiting ---


def busy_handler(patience: float | None = None) -> Callable[[int], bool]:
    """A function that waits for the transaction of another process in short random sleeps.

    It gives up after `patience` seconds, by default the time limit of writes. SQLite has no queue.
    The sleeps get shorter with time, so that those who have waited long are the first to notice
    that they may write.
    """
    if patience is None:
        patience = LIMITS.write_wait_seconds
    start = 0.0

    def wait(tries: int) -> bool:
        nonlocal start
        if tries == 0:
            start = time.monotonic()
        seconds = time.monotonic() - start
        if seconds >= patience:
            return False
        longest = _LONGEST_SLEEP / (1 + seconds / _WAIT_THAT_HALVES_SLEEPS)
        time.sleep(random.uniform(longest / 10, longest))  # noqa: S311
        return True

    return wait


def retry_while_busy(action: Callable[[], T]) -> T:
    """Retry an action. Switching to WAL reports "busy" without calling the busy handler."""
    wait = busy_handler()
    tries = 0
    while True:
        try:
            return action()
        except apsw.BusyError:
            if not wait(tries):
                raise
            tries += 1


# -- SQL functions ---


def add_sql_functions(db: apsw.Connection, codec: Codec) -> None:
    """Add all functions to a connection."""
    # Generated columns may only use functions that are declared innocuous.
    for name, function, arguments in (
        ("content_of", codec.content, 1),
        ("metadata_of", codec.metadata, 3),
    ):
        db.create_scalar_function(
            name, function, arguments, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )
    db.create_scalar_function("packed_id", packed_id, 1, deterministic=True)
    db.create_scalar_function("contains", contains, 2, deterministic=True)
    db.create_scalar_function("titled", is_titled, 2, deterministic=True)


def title_words(title: str) -> str:
    """The words of a title, with spaces around them."""
    return f" {' '.join(tokens(title))} "


@lru_cache(maxsize=16)  # a search compares it with every title
def title_pattern(phrase: str) -> str:
    """What the words of a title must contain."""
    if phrase.endswith("*"):
        return title_words(phrase)[:-1]
    return title_words(phrase)


def packed_id(*values: Any) -> str | bytes | None:
    return pack_id(values[0])


def contains(*values: Any) -> bool:
    text, folded_query = values
    return text is not None and folded_query in comparable(text)


def is_titled(*values: Any) -> bool:
    """Whether a title contains a word or phrase. With a final `*`, the last word is a prefix."""
    title, phrase = values
    return title_pattern(phrase) in title_words(title)
