"""The file `server.db` in a home folder, which the server processes of that home share.

It is encrypted if the home is. Backups omit it: it has no documents, and after a restore its jobs
would be run again. If somebody deletes the file, the next transaction creates a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from recollect.errors import DamagedLibrary, ReadOnlyLibrary, RecollectError, StorageFull
from recollect.settings import READ_ONLY
from recollect.store.shared.database import CONCEPTS, Rows, SharedDatabase, Tables
from recollect.store.sqlite.connection import Connection, connect, connect_read_only
from recollect.store.sqlite.database_errors import translate_error
from recollect.store.sqlite.private_files import create_private_folder

_TYPES = {"bytes": "blob", "identity": "integer primary key autoincrement"}
_NOW = "cast(unixepoch('subsec') * 1000000 as integer)"
_SYNC_AT_COMMIT, _SYNC_AT_CHECKPOINT = 2, 1


class _Transaction:
    """See `store.shared.database.Transaction`."""

    now = _NOW
    for_update = ""
    skip_locked = ""

    def __init__(self, db: Connection) -> None:
        self.rows = db.rows
        self.get = db.get
        self.run = db.run
        self.run_many = db.run_many
        self.in_list = db.in_list


class SqliteSharedDatabase(SharedDatabase):
    engine = "sqlite"
    now = _NOW

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        """Identifies the file of the idle connections, also if another one takes its name."""
        self._idle_connections: list[Connection] = []
        self._existing_tables: set[str] = set()
        self._lock = threading.Lock()
        # The threads of a process take turns here. SQLite's own waiting sleeps between attempts.
        self._write_lock = threading.Lock()

    @contextmanager
    def transaction(self, tables: Tables) -> Iterator[_Transaction]:
        with self._write_lock, self._connection(tables) as db:
            db.execute("begin immediate")
            yield _Transaction(db)
            db.execute("commit")

    def execute(self, tables: Tables, sql: str, values: Sequence[Any] = ()) -> Rows:
        try:
            with self._connection(tables) as db:
                return db.rows(sql, values)
        except (StorageFull, ReadOnlyLibrary):
            if not sql.lstrip().startswith("select"):
                raise
            return self._read_without_writing(tables, sql, values)

    def _read_without_writing(self, tables: Tables, sql: str, values: Sequence[Any]) -> Rows:
        """Read on a full disk or in read-only mode. Tables that do not exist are empty."""
        if self._identify_file() is not None:
            with closing(connect_read_only(self._path)) as db:
                if has_tables(db, tables):
                    return db.rows(sql, values)
        with closing(Connection(":memory:")) as db:
            run_statements(db, tables)
            return db.rows(sql, values)

    def close(self) -> None:
        with self._lock:
            self._close_idle_connections()

    @contextmanager
    def _connection(self, tables: Tables) -> Iterator[Connection]:
        """A connection to the file, with these tables. After an error it is not used again."""
        db: Connection | None = None
        try:
            db = self._take_connection()
            if tables.name not in self._existing_tables:
                create_tables(db, tables)
                self._existing_tables.add(tables.name)
            synchronous = _SYNC_AT_CHECKPOINT
            if tables.is_durable:
                synchronous = _SYNC_AT_COMMIT
            db.pragma("synchronous", synchronous)
            yield db
        except BaseException as error:  # whatever happened, nothing is committed
            if db is not None:
                roll_back(db)
                db.close()
            if isinstance(error, apsw.Error):
                raise self._translate(error) from error
            raise
        with self._lock:
            self._idle_connections.append(db)

    def _take_connection(self) -> Connection:
        if READ_ONLY.get():
            raise ReadOnlyLibrary(f"Recollect is in read-only mode ({READ_ONLY.name}).")
        with self._lock:
            if self._file is None or self._identify_file() != self._file:
                self._close_idle_connections()
                self._existing_tables = set()
                self._create_file()
                self._file = self._identify_file()
            if self._idle_connections:
                return self._idle_connections.pop()
        return connect(self._path)

    def _identify_file(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _create_file(self) -> None:
        """Create the file so that only the owner can read it. SQLite would follow the umask."""
        create_private_folder(self._path.parent)
        # Nothing can have a file open that did not exist, so no lock is dropped by closing it.
        with suppress(FileExistsError):
            self._path.touch(mode=0o600, exist_ok=False)

    def _close_idle_connections(self) -> None:
        while self._idle_connections:
            self._idle_connections.pop().close()

    def _translate(self, error: apsw.Error) -> RecollectError:
        translation = translate_error(error, self._path)
        if isinstance(translation, DamagedLibrary):
            return DamagedLibrary(
                f"{self._path} is damaged ({error}). It has no documents, only the sessions and "
                "jobs of servers. Stop the servers of this home and delete it."
            )
        if isinstance(translation, ReadOnlyLibrary):
            return ReadOnlyLibrary(f"{self._path} cannot be written.")
        return translation


def create_tables(db: Connection, tables: Tables) -> None:
    db.execute("begin immediate")
    db.execute(CONCEPTS)
    if not has_tables(db, tables):
        run_statements(db, tables)
        db.execute("insert into concept (name) values (?)", (tables.name,))
    db.execute("commit")


def has_tables(db: Connection, tables: Tables) -> bool:
    if not db.get("select 1 from sqlite_schema where name = 'concept'"):
        return False
    return db.get("select 1 from concept where name = ?", (tables.name,)) is not None


def run_statements(db: Connection, tables: Tables) -> None:
    for statement in tables.statements:
        db.execute(statement.format(**_TYPES))


def roll_back(db: Connection) -> None:
    with suppress(apsw.Error):
        if db.in_transaction:
            db.execute("rollback")
