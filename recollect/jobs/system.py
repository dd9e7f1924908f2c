"""The jobs of an installation, put together for a server or a worker."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from recollect import settings
from recollect.errors import InvalidInput
from recollect.home_folder import UPLOADS
from recollect.jobs.handlers import (
    BackupHandler,
    ImportHandler,
    IndexHandler,
    IndexRequests,
    SecretScanHandler,
)
from recollect.jobs.runner import HOST, POLL_SECONDS, Borrow, Handler, Lane, Runner
from recollect.library import Library
from recollect.places import open, stop_waiting
from recollect.store.shared.changes import ChangeSignals
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.jobs import Jobs
from recollect.store.shared.uploads import UploadFolder, UploadTable
from recollect.store.sqlite.encryption import data_key
from recollect.store.sqlite.private_files import create_private_folder

IMPORTS, INDEX, TASKS = "imports", "index", "tasks"
LANES = (IMPORTS, INDEX, TASKS)
"""What a worker can run. Tasks are scans and backups that somebody started in the console."""
_CONCURRENCY = {IMPORTS: 4, INDEX: 4, TASKS: 2}
_HOME_IDLE_SECONDS = 5.0
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108
_NO_UPLOADS = (
    "This home is encrypted, and the system of the server has no folder in memory for uploads. Use "
    "`recollect import` on the server."
)


class JobSystem:
    """The queue, the uploaded files, and the requests to index."""

    def __init__(
        self,
        place: Path | str,
        database: SharedDatabase,
        signals: ChangeSignals | None = None,
        *,
        queues_indexing: bool,
    ) -> None:
        self._place = place
        self._database = database
        self._signals = signals
        self._idle_seconds = POLL_SECONDS
        if isinstance(place, Path) and not queues_indexing:
            # The server of a home adds its jobs itself, and a laptop should sleep.
            self._idle_seconds = _HOME_IDLE_SECONDS
        self.jobs = Jobs(database)
        self.uploads = open_uploads(place, database)
        self._requests: IndexRequests | None = None
        if queues_indexing and settings.INDEXING.get() != "manual":
            self._requests = IndexRequests(self.jobs)

    def open_library(self, place: Path | str, user: str) -> Library:
        """Open a library whose changes are indexed by whoever runs jobs."""
        if self._requests is None or settings.READ_ONLY.get():
            return open(place, user)
        return open(place, user, indexer=self._requests.indexer(user))

    def runner(
        self,
        borrow: Borrow,
        lanes: Collection[str] = LANES,
        concurrency: int | None = None,
        hosts: Sequence[str] = ("", HOST),
    ) -> Runner:
        """What runs jobs. It does nothing before it is started."""
        handlers: dict[str, list[Handler]] = {
            IMPORTS: [ImportHandler(borrow, self.jobs, self.uploads)],
            INDEX: [IndexHandler(borrow)],
            TASKS: [SecretScanHandler(borrow), BackupHandler(self._place)],
        }
        return Runner(
            self.jobs,
            [
                Lane(name, handlers[name], concurrency or _CONCURRENCY[name])
                for name in LANES
                if name in lanes
            ],
            hosts,
            self._idle_seconds,
            self._signals,
        )

    def stop_waiting(self) -> None:
        """Do not wait any more for a database that is away. Call it before the runner is closed."""
        self._database.stop_waiting()
        stop_waiting(self._place)

    def flush(self) -> None:
        """Queue the requests to index now."""
        if self._requests is not None:
            self._requests.flush()

    def close(self) -> None:
        """Queue the last requests. Call it after the runner and before the libraries are closed."""
        if self._requests is not None:
            self._requests.close()


def open_uploads(place: Path | str, database: SharedDatabase) -> UploadFolder:
    """Where uploads wait. In an encrypted home they wait in memory, not on disk."""
    if not isinstance(place, Path):
        return UploadTable(database, private_folder(Path(tempfile.gettempdir()), place))
    if data_key(place) is None:
        return UploadFolder(place / UPLOADS)
    if not _MEMORY_FOLDER.is_dir():
        return UploadFolder(place / UPLOADS, _NO_UPLOADS)
    return UploadFolder(private_folder(_MEMORY_FOLDER, str(place.resolve())))


def private_folder(parent: Path, place: str) -> Path:
    """A folder of a place that only this user of the computer can read."""
    digest = hashlib.blake2b(place.encode(), digest_size=8).hexdigest()
    folder = parent / f"recollect-{os.getuid()}-{digest}"
    create_private_folder(folder)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise InvalidInput(f"{folder} belongs to another user of this computer.")
    return folder
