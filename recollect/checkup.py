"""Check everything at a place: each library, its archive, and the API keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from recollect import places
from recollect.errors import DamagedLibrary, RecollectError
from recollect.home_folder import KEYS, SERVER_DATABASE
from recollect.library import Library
from recollect.settings import default_user, place
from recollect.store.errors import reason_of
from recollect.store.sqlite.verification import check_small_database, reason_unreadable
from recollect.store.values import Findings, Progress
from recollect.transfer.archive import check_archive

# Each takes less than a millisecond.
_MAX_QUICK_CHECKS = 200


@dataclass(slots=True)
class Checkup:
    """The state of one library."""

    library: str
    """Where it is."""
    database: str = ""
    error: str = ""
    """Why the library cannot be opened or checked; empty if it can."""
    is_damaged: bool = False
    """Whether the error is damage. It may also be a library of a newer version, for example."""
    findings: Findings = field(default_factory=Findings)
    archive: list[str] = field(default_factory=list)
    """Problems of its archived transcripts."""
    indexed_in_part: object = 0
    purge: str = "done"
    """`done` if no file contains deleted text, otherwise `pending` and the reason."""
    vectors: list[dict[str, Any]] = field(default_factory=list)
    """The vector spaces, each with the share of messages that it has."""

    @property
    def healthy(self) -> bool:
        return not self.error and not self.archive and self.findings.healthy


def check_libraries(
    path_or_url: str | Path | None, user: str | None, repair: Progress | None = None
) -> list[Checkup]:
    """Check the library of a user, or without a user every library in a folder.

    In PostgreSQL, only the library of one user is visible. With `repair`, derived data that is
    damaged is rebuilt, and then the library is checked again.
    """
    where = place(path_or_url)
    if user is None and isinstance(where, Path):
        files = places.library_files(where)
        return [check(str(file), partial(places.open_file, file), repair) for file in files]
    if not places.exists(where, user):
        return []
    location = "the database"  # its address may contain a password
    if isinstance(where, Path):
        location = str(places.library_file(where, user or default_user()))
    open_library = partial(places.open, where, user, background=False)
    return [check(location, open_library, repair)]


def check(location: str, open_library: Callable[[], Library], repair: Progress | None) -> Checkup:
    checkup = Checkup(location)
    try:
        with open_library() as library:
            check_open(library, checkup, repair)
    except RecollectError as error:
        checkup.error = reason_of(error)
        checkup.is_damaged = isinstance(error, DamagedLibrary)
    return checkup


def check_open(library: Library, checkup: Checkup, repair: Progress | None) -> None:
    checkup.findings = library.verify()
    findings = checkup.findings
    if repair is not None and not findings.healthy and not findings.damaged:
        library.repair(repair)
        checkup.findings = library.verify()
    checkup.archive = check_archive(library.archive)
    if checkup.findings.damaged:
        return
    figures = library.stats()
    checkup.library = str(figures["path"])
    checkup.database = str(figures["engine"])
    checkup.indexed_in_part = figures["indexed_in_part"]
    purge = library.purge_status()
    if purge.reason:
        checkup.purge = f"{purge.state}: {purge.reason}"
    checkup.vectors = [asdict(status) for status in library.index_status().models]


def unreadable_libraries(path_or_url: str | Path | None) -> list[str]:
    """Why libraries in a folder cannot be read, without naming them. Takes little time."""
    where = place(path_or_url)
    if not isinstance(where, Path):
        return []
    files = places.library_files(where)[:_MAX_QUICK_CHECKS]
    return [reason for reason in map(reason_unreadable, files) if reason]


def check_keys(path_or_url: str | Path | None) -> list[str]:
    """Problems of the API keys at a place."""
    where = place(path_or_url)
    if isinstance(where, Path):
        problems = check_small_database(where / KEYS, "api_key")
        if problems:
            return problems
    try:
        with closing(places.keys(where)) as keys:
            keys.all_keys()
    except RecollectError as error:
        return [str(error)]
    return []


def check_server_database(path_or_url: str | Path | None) -> list[str]:
    """Problems of the database that the servers of a folder share."""
    where = place(path_or_url)
    if not isinstance(where, Path):
        return []
    file = where / SERVER_DATABASE
    if not file.exists() or file.stat().st_size == 0:  # a server is creating it
        return []
    return check_small_database(file, "concept")
