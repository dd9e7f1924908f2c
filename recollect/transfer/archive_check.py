"""Check that the archived transcripts can be restored."""

from __future__ import annotations

from recollect.errors import DamagedLibrary, RecollectError
from recollect.store.sqlite.care.verification import check_small_database
from recollect.transfer.archive import Archive, Archived


def check_archive(archive: Archive) -> list[str]:
    """A description of each problem. Every copy is decompressed, which checks its checksum."""
    catalogue = archive.folder / "catalogue.db"
    problems = check_small_database(catalogue, "file")
    if problems:
        return problems
    try:
        files = archive.files()
    except RecollectError as error:
        return [str(error)]
    return [problem for file in files for problem in _check_copies(archive, file)]


def _check_copies(archive: Archive, file: Archived) -> list[str]:
    problems = []
    for copy, size in archive.copies(file):
        try:
            for _ in archive.read_copy(file, copy, size):
                pass
        except (OSError, DamagedLibrary) as error:
            problems.append(f"the copy of {file.source} {error}")
    return problems
