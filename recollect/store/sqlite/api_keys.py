"""API keys and sessions in a small SQLite database beside the libraries.

The file is created with the first key: completely under another name, then moved into place, so
that a full disk leaves no half of it. If the file is there but not right, nobody is let in; the
next call after it was repaired works again.

On a full disk or read-only media, keys are read, and new sessions are kept in memory, so people can
still sign in to the console. Such a session ends with the process.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

from recollect.errors import (
    DamagedLibrary,
    ReadOnlyLibrary,
    RecollectError,
    StorageFull,
    StoreBusy,
)
from recollect.settings import READ_ONLY
from recollect.store.api_keys import (
    SCHEMA,
    ApiKey,
    ApiKeys,
    KeyDatabase,
    KeysUnavailable,
    Session,
    insert,
)
from recollect.store.sqlite.connection import Connection, connect, connect_read_only
from recollect.store.sqlite.database_errors import translate_error
from recollect.store.sqlite.private_files import create_private_folder

T = TypeVar("T")

_SCHEMA = SCHEMA.format(bytes="blob", flag="integer")
_MAX_SESSIONS_IN_MEMORY = 1_000
_RESTORE = (
    "Restore a backup to another folder (`recollect restore --to FOLDER`) and copy the file from "
    "there, or delete it and create new keys with `recollect keys add NAME`."
)
_CANNOT_WRITE = (apsw.FullError, apsw.ReadOnlyError, apsw.BusyError, apsw.IOError)


class SqliteKeys(ApiKeys):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: Connection | None = None
        self._file: tuple[int, int] | None = None
        """Identifies the open file, also if another one takes its name."""
        self._is_read_only = False
        self._sessions_in_memory: OrderedDict[bytes, Session] = OrderedDict()
        self._lock = threading.Lock()

    # -- reading and writing ---

    def _read(self, work: Callable[[KeyDatabase], T], missing: T) -> T:
        return self._run(work) if self._exists() else missing

    def _write(self, work: Callable[[KeyDatabase], T]) -> T:
        def run(db: Connection) -> T:
            with db:
                value = work(db)
            return value

        self._create()  # people may log in with tokens before there are any keys
        return self._run(run)

    def _touch(self, db: KeyDatabase, sql: str, values: Sequence[Any]) -> None:
        with suppress(*_CANNOT_WRITE):
            db.run(sql, values)

    def add(self, key: ApiKey) -> None:
        if self._create(key):
            return

        def work(db: Connection) -> None:
            hide(self._path)
            with db:
                db.execute(_SCHEMA)  # the file may be empty
                insert(db, key)

        self._run(work, accepts_empty=True)

    # -- sessions in memory ---

    def add_session(self, session: Session) -> None:
        try:
            super().add_session(session)
        except (StorageFull, ReadOnlyLibrary):
            with self._lock:
                self._sessions_in_memory[session.hash] = session
                if len(self._sessions_in_memory) > _MAX_SESSIONS_IN_MEMORY:
                    self._sessions_in_memory.popitem(last=False)

    def _live_sessions_in_memory(self) -> list[Session]:
        now = datetime.now(UTC)
        with self._lock:
            sessions = list(self._sessions_in_memory.values())
        return [session for session in sessions if session.expires_at > now]

    def find_session(self, hash: bytes) -> Session | None:
        return self._sessions_in_memory.get(hash) or super().find_session(hash)

    def all_sessions(self) -> list[Session]:
        return self._live_sessions_in_memory() + super().all_sessions()

    def end_session(self, id: str) -> None:
        for session in self._live_sessions_in_memory():
            if session.id == id:
                with self._lock:
                    self._sessions_in_memory.pop(session.hash, None)
                return
        super().end_session(id)

    # -- the file ---

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _exists(self) -> bool:
        """Whether there is a file. Once there was one, it must not disappear."""
        try:
            if self._path.exists():
                return True
        except OSError as error:  # the folder may not be read
            raise self._unavailable(
                f"{self._path.name} cannot be opened", "Check the folder and its permissions."
            ) from error
        if self._file is not None:
            raise self._unavailable(f"{self._path.name} has disappeared", _RESTORE)
        return False

    def _create(self, key: ApiKey | None = None) -> bool:
        """Create the file, with its first key. Returns False if there is a file already."""
        if self._exists():
            return False
        if READ_ONLY.get():
            raise ReadOnlyLibrary(f"Recollect is in read-only mode ({READ_ONLY.name}).")
        create_private_folder(self._path.parent)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        try:
            write_draft(draft, key)
            return move_into_place(draft, self._path)
        except apsw.FullError as error:
            raise translate_error(error, self._path) from error
        except (apsw.Error, OSError) as error:
            raise RecollectError(
                f"{self._path} could not be created ({error}). No key was added."
            ) from error
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{draft}{suffix}").unlink(missing_ok=True)

    def _run(self, work: Callable[[Connection], T], accepts_empty: bool = False) -> T:
        with self._lock:
            try:
                return work(self._open(accepts_empty))
            except apsw.Error as error:
                self._close()  # the next call starts afresh
                raise self._translate(error) from error
            finally:
                if self._is_read_only:
                    self._close()  # it may not see what other processes change

    def _open(self, accepts_empty: bool) -> Connection:
        """The connection to the file of this name. Raises KeysUnavailable if it has no keys."""
        try:
            status = self._path.stat()
        except OSError as error:
            self._close()
            raise self._unavailable(
                f"{self._path.name} cannot be opened", "Check the folder and its permissions."
            ) from error
        file = (status.st_dev, status.st_ino)
        if self._db is None or self._file != file:
            self._close()
            self._db, self._file = self._connect(), file
        if not accepts_empty and not has_keys(self._db):
            self._close()
            raise self._unavailable(
                f"{self._path.name} is empty",
                "Add a key with `recollect keys add`, or restore the file from a copy. If this "
                "server needs no keys, delete the file and start it again.",
            )
        return self._db

    def _connect(self) -> Connection:
        """Open the file; on a full disk, on read-only media and in read-only mode for reading."""
        if READ_ONLY.get():
            self._is_read_only = True
            return connect_read_only(self._path)
        try:
            db = connect(self._path)
        except (*_CANNOT_WRITE, apsw.CantOpenError):
            self._is_read_only = True
            return connect_read_only(self._path)
        self._is_read_only = False
        return db

    def _translate(self, error: apsw.Error) -> RecollectError:
        translation = translate_error(error, self._path)
        if isinstance(translation, (StoreBusy, StorageFull)):
            return translation
        if isinstance(translation, ReadOnlyLibrary):
            return ReadOnlyLibrary(f"{self._path.name} cannot be written, so nothing was changed.")
        if isinstance(translation, DamagedLibrary):
            return self._unavailable(f"{self._path.name} is damaged", _RESTORE)
        return self._unavailable(f"{self._path.name} cannot be used", str(translation))

    def _unavailable(self, reason: str, advice: str) -> KeysUnavailable:
        return KeysUnavailable(str(self._path.parent), reason, advice)


def has_keys(db: Connection) -> bool:
    """Whether this is a database with keys. A file that was never written to has no tables."""
    statement = "select exists (select 1 from sqlite_schema where name = 'api_key')"
    return bool(db.get(statement))


def write_draft(draft: Path, key: ApiKey | None) -> None:
    db = connect(draft)
    try:
        hide(draft)
        with db:
            db.execute(_SCHEMA)
            if key is not None:
                insert(db, key)
    finally:
        db.close()


def hide(path: Path) -> None:
    """Only the owner may read the keys."""
    with suppress(PermissionError):  # the file belongs to somebody else, who decides
        # By name: closing a file descriptor would drop SQLite's locks.
        os.chmod(path, 0o600)  # noqa: PTH101


def move_into_place(draft: Path, path: Path) -> bool:
    """Returns False if another process was faster. Its file is not replaced."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        draft.rename(path)
    return True
