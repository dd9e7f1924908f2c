"""Where libraries live: open one, move one, and manage the API keys of a place.

A place is a folder, or the address of a PostgreSQL database. It holds the libraries of any number
of users. In a folder, each library is one SQLite file.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recollect import settings
from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.home_folder import ARCHIVE, AUDIT, KEYS, SERVER_DATABASE, USERS
from recollect.library import Library
from recollect.progress import Progress
from recollect.settings import default_user, home, place
from recollect.store.audit_log import LOSSY_ACTIONS, AuditLogs, Entry
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.index.background import Indexer
    from recollect.store.api_keys import ApiKeys
    from recollect.store.postgres import PostgresStore
    from recollect.store.shared.changes import ChangeSignals
    from recollect.store.shared.database import SharedDatabase
    from recollect.transfer.moving import MoveResult
    from recollect.transfer.salvage import SalvageReport


_audit_logs: dict[Path | str, AuditLogs] = {}
_audit_lock = threading.Lock()

_LONGEST_USER = 500
_PLAIN_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?")
"""User names that are used as folder names as they are."""
_RESERVED_NAME = re.compile(r"con|prn|aux|nul|com\d|lpt\d|.*-[0-9a-f]{16}")
"""Device names on Windows, and names that look like the ones `library_file` generates."""


def open(
    path_or_url: str | Path | None = None,
    user: str | None = None,
    *,
    background: bool | None = None,
    indexer: Indexer | None = None,
) -> Library:
    """Open a user's library, and create it on first use.

    `path_or_url` is the folder that holds the libraries, or the address of a PostgreSQL database
    (postgresql://…). The default is RECOLLECT_HOME, or the user's data folder. With `background`,
    a thread indexes new messages; the default is RECOLLECT_INDEXING. An `indexer` replaces it.
    """
    where = place(path_or_url)
    user = validate_user(user)
    if background is None:
        background = settings.INDEXING.get() != "manual"
    redacts = settings.REDACT.get()
    store = complete(open_store(where, user))
    if redacts:
        from recollect.store.redacting import RedactingStore

        store = RedactingStore(store)
    if settings.AUDIT.get() != "off":
        from recollect.store.views import AuditedStore

        logs, name = audit_logs(where), audit_name(where, user)
        store = AuditedStore(store, lambda entry: logs.record(name, entry))
    background = background and not store.read_only
    if not background:
        indexer = None
    open_shared = None
    if isinstance(where, str):
        open_shared = partial(shared_database, where)
    return Library(store, background, archive_folder(where, user), indexer, open_shared)


def open_existing(
    path_or_url: str | Path | None = None,
    user: str | None = None,
    *,
    background: bool | None = None,
) -> Library | None:
    """Open a user's library if it exists. Creates nothing."""
    where = place(path_or_url)
    user = validate_user(user)
    if not exists(where, user):
        return None
    return open(where, user, background=background)


def move(
    source: str | Path,
    target: str | Path,
    user: str | None = None,
    to_user: str | None = None,
    *,
    switch: bool = False,
    remove: bool = False,
    progress: Progress | None = None,
) -> MoveResult:
    """Copy a user's library to another place, or do that again after an interruption.

    Both places are as for `open`. The target must be empty, or the result of an interrupted move.
    The source is copied as it is now. With `switch`, it is closed before: whoever writes to it gets
    LibraryMoved. With `remove`, it is deleted when the copy is complete.
    """
    from recollect.transfer import moving

    source_place = place(source)
    target_place = place(target)
    user = validate_user(user)
    target_user = validate_user(user if to_user is None else to_user)
    if not exists(source_place, user):
        # Perhaps a move was interrupted after it had removed the source.
        if exists(target_place, target_user):
            with existing_store(target_place, target_user) as store:
                result = moving.finish(store)
            if result is not None:
                return result
        raise no_library(source_place, user)
    with (
        closing(open_store(source_place, user)) as source_store,
        closing(open_store(target_place, target_user)) as target_store,
    ):
        address = f"user {target_user}"  # as people see it, without a password
        if isinstance(target_place, Path):
            address = str(library_file(target_place, target_user))
        else:
            from recollect.store.postgres.server_errors import location_of

            address = f"postgresql://{location_of(target_place)} ({address})"
        return moving.move(
            source_store,
            target_store,
            address=address,
            switch=switch,
            remove=remove,
            progress=progress,
        )


def reopen(path_or_url: str | Path, user: str | None = None) -> None:
    """Let people write to a library again that a move with `switch` has closed."""
    from recollect.transfer import moving

    with existing_store(path_or_url, user) as store:
        moving.reopen(store)


def abort_move(target: str | Path, user: str | None = None) -> None:
    """Delete what an interrupted move has copied to a place."""
    from recollect.transfer import moving

    with existing_store(target, user) as store:
        moving.abort(store)


@contextmanager
def existing_store(path_or_url: str | Path, user: str | None) -> Iterator[Store]:
    where, user = place(path_or_url), validate_user(user)
    if not exists(where, user):
        raise no_library(where, user)
    with closing(open_store(where, user)) as store:
        yield store


def salvage(
    source: str | Path,
    target: str | Path,
    user: str | None = None,
    to_user: str | None = None,
    *,
    progress: Progress | None = None,
) -> SalvageReport:
    """Rescue what can be read in a damaged library, and store it in a new one.

    `source` is the file of a library, or the folder that holds it. It is not changed. `target` is
    as for `open`; the user must not have a library there. `progress` is called with "Reading" or
    "Writing".
    """
    from recollect.transfer.salvage import rescue

    user = validate_user(user)
    target_user = validate_user(user if to_user is None else to_user)
    target_place = place(target)
    file = damaged_file(source, user)
    if isinstance(target_place, Path):
        target_file = library_file(target_place, target_user)
        if target_file.exists() and target_file.samefile(file):
            raise InvalidInput(f"{file} cannot be rescued into itself. Choose another folder.")
    with closing(open_store(target_place, target_user)) as target_store:
        return rescue(file, target_store, progress)


def damaged_file(source: str | Path, user: str) -> Path:
    where = place(source)
    if not isinstance(where, Path):
        raise InvalidInput(
            "Only SQLite libraries can be salvaged. For PostgreSQL, use "
            "`recollect export --skip-damaged`, and the tools of the server."
        )
    if where.is_dir():
        where = library_file(where, user)
    if not where.is_file():
        raise NotFound(f"There is no library at {where}.")
    return where


def exists(path_or_url: str | Path | None = None, user: str | None = None) -> bool:
    """Whether a user has a library at a place. Creates nothing."""
    where, user = place(path_or_url), validate_user(user)
    if isinstance(where, Path):
        return library_file(where, user).exists()
    return postgres_store(where).exists(where, user)


def library_files(folder: Path) -> list[Path]:
    """The files of all libraries in a folder. A file that is lost is listed as well."""
    from recollect.store.sqlite.verification import remains_of_library

    users = folder / USERS
    if not users.is_dir():
        return []
    files = [user / "library.db" for user in sorted(users.iterdir())]
    return [file for file in files if file.exists() or remains_of_library(file)]


def open_file(file: Path) -> Library:
    """Open the library in a file that `library_files` lists."""
    from recollect.store.sqlite import SqliteStore

    name = file.parent.name
    archive = file.parent.parent.parent / ARCHIVE / name
    return Library(complete(SqliteStore(file)), False, archive)


def keys(path_or_url: str | Path | None = None) -> ApiKeys:
    """The API keys of a place. Creates nothing until the first key is added."""
    where = place(path_or_url)
    if isinstance(where, Path):
        from recollect.store.sqlite.api_keys import SqliteKeys

        return SqliteKeys(where / KEYS)
    postgres_store(where)
    from recollect.store.postgres.api_keys import PostgresKeys

    return PostgresKeys(where)


def shared_database(path_or_url: str | Path | None = None) -> SharedDatabase:
    """What the servers of a place share. Creates nothing before its first use."""
    where = place(path_or_url)
    if isinstance(where, Path):
        from recollect.store.sqlite.shared_database import SqliteSharedDatabase

        return SqliteSharedDatabase(where / SERVER_DATABASE)
    postgres_store(where)
    from recollect.store.postgres.shared_database import PostgresSharedDatabase

    return PostgresSharedDatabase(where)


def change_signals(path_or_url: str | Path | None = None) -> ChangeSignals:
    """Signals of changes in the libraries of a place. Connects when somebody subscribes."""
    where = place(path_or_url)
    if isinstance(where, Path):
        from recollect.store.shared.changes import ChangeSignals

        return ChangeSignals()
    postgres_store(where)
    from recollect.store.postgres.notifications import ChangeListener

    return ChangeListener(where)


def pool_statistics(path_or_url: str | Path | None = None) -> dict[str, int] | None:
    """The use of this process's connections to a PostgreSQL place. None for a folder."""
    where = place(path_or_url)
    if isinstance(where, Path):
        return None
    from recollect.store.postgres.pool import Pool

    return Pool.statistics(where)


def stop_waiting(path_or_url: str | Path | None = None) -> None:
    """Let this process end although it waits for a PostgreSQL server that is away."""
    where = place(path_or_url)
    if isinstance(where, str):
        from recollect.store.postgres.pool import Pool

        Pool.stop_waiting(where)


def audit_logs(path_or_url: str | Path | None = None) -> AuditLogs:
    """The audit logs of a place. All of a process share one object per place."""
    where = place(path_or_url)
    with _audit_lock:
        logs = _audit_logs.get(where)
        if logs is not None:
            return logs
        if isinstance(where, Path):
            from recollect.store.audit_files import AuditFiles

            logs = AuditFiles(where / AUDIT)
        else:
            postgres_store(where)
            from recollect.store.postgres.audit_log import PostgresAuditLogs

            logs = PostgresAuditLogs(where)
        atexit.register(logs.flush)
        _audit_logs[where] = logs
        return logs


def audit_name(where: Path | str, user: str | None) -> str:
    """What the audit logs of a place call a user: in a folder, the name of her folder."""
    name = validate_user(user)
    if isinstance(where, Path):
        return library_file(where, name).parent.name
    return name


def record(path_or_url: str | Path | None, user: str | None, entry: Entry) -> None:
    """Append an entry to a user's audit log, unless a setting turns that off."""
    choice = settings.AUDIT.get()
    if settings.READ_ONLY.get():
        return
    if choice == "off" or (choice == "changes" and entry.action in LOSSY_ACTIONS):
        return
    where = place(path_or_url)
    audit_logs(where).record(audit_name(where, user), entry)


def library_file(folder: Path, user: str) -> Path:
    """The file of a user's library. Two users never share a file, whatever their names contain."""
    name = validate_user(user)
    if not _PLAIN_NAME.fullmatch(name) or _RESERVED_NAME.fullmatch(name):
        digest = hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        letters = re.sub(r"[^a-z0-9]+", "-", user.lower()).strip("-")[:24]
        name = f"{letters or 'user'}-{digest}"
    return folder / USERS / name / "library.db"


def validate_user(user: str | None) -> str:
    """The name of the user, or of the default user."""
    if user is None:
        user = default_user()
    if not user.strip() or len(user) > _LONGEST_USER:
        raise InvalidInput(
            f"A user's name must have 1 to {_LONGEST_USER} characters, not only spaces."
        )
    return user


def no_library(where: Path | str, user: str) -> NotFound:
    if isinstance(where, str):
        where = "that address"  # the address of a database may contain a password
    return NotFound(f"There is no library of {user!r} at {where}.")


def archive_folder(where: Path | str, user: str) -> Path:
    """The folder of a user's archived transcripts. It is on disk even if the library is not."""
    folder = where if isinstance(where, Path) else home()
    return folder / ARCHIVE / library_file(folder, user).parent.name


def open_store(where: Path | str, user: str) -> Store:
    read_only = settings.READ_ONLY.get()
    if isinstance(where, str):
        return postgres_store(where)(where, user, read_only)
    from recollect.store.sqlite import SqliteStore
    from recollect.store.sqlite.private_files import protect_library

    if where.exists() and not where.is_dir():
        raise InvalidInput(f"{where} is not a folder, so libraries cannot be in it.")
    file = library_file(where, user)
    if read_only and not file.exists():
        raise no_library(where, user)
    if not read_only:
        protect_library(where, file)
    return SqliteStore(file, read_only)


def postgres_url(path_or_url: str | Path | None = None) -> str:
    """The URL of the database with the libraries. Raises InvalidInput if they are in a folder."""
    where = place(path_or_url)
    if isinstance(where, Path):
        raise InvalidInput(
            f"The libraries are in the folder {where}. "
            "Give the URL of a PostgreSQL database: --home postgresql://…"
        )
    postgres_store(where)  # the packages are installed
    return where


def postgres_store(url: str) -> type[PostgresStore]:
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = url.split(":")[0]
        raise InvalidInput(
            f"{scheme}:// libraries are not supported; give a folder, or postgresql://…"
        )
    try:
        from recollect.store.postgres import PostgresStore
    except ImportError as error:
        raise RecollectError(
            f"A library in PostgreSQL needs more packages ({error.name} is missing): "
            "pip install 'recollect[postgres]'"
        ) from error
    return PostgresStore


def complete(store: Store) -> Store:
    """The store, unless an interrupted move has left only a part of a library in it."""
    from recollect.store.sql.transfer import MOVING, closed_error

    if store.get_marker(MOVING) is not None:
        store.close()
        raise RecollectError(
            f"{store.path} is incomplete: a move into it was interrupted. Run the same "
            "`recollect move` again to complete it, or with --abort to delete the copy."
        )
    reason = store.closure()
    if reason is not None:
        store.close()
        raise closed_error(store.path, reason)
    return store
