"""Check that the archived transcripts can be restored."""

from __future__ import annotations

import zlib
from typing import IO

from recollect.errors import DamagedLibrary, RecollectError
from recollect.store.sqlite.care.verification import check_small_database
from recollect.transfer.archive import Archive, Archived

_CHUNK = 1 << 20
_GZIP = 31  # for zlib: a gzip header and checksum


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
    return [problem for file in files for problem in _check_copy(archive, file)]


def _check_copy(archive: Archive, file: Archived) -> list[str]:
    name = f"the copy of {file.source}"
    try:
        if file.path.stat().st_size < file.bytes:
            return [f"{name} is incomplete: {file.path}"]
        with archive.open_copy(file.path, file.bytes) as members:
            _decompress(members, file.bytes)
    except FileNotFoundError:
        return [f"{name} is missing: {file.path}"]
    except (OSError, zlib.error, EOFError, DamagedLibrary) as error:
        return [f"{name} is damaged ({error}): {file.path}"]
    return []


def _decompress(members: IO[bytes], size: int) -> None:
    """Decompress the gzip members in the first bytes of a file, and discard the result.

    An interrupted append may have left more bytes.
    """
    member = zlib.decompressobj(_GZIP)
    data = members.read(min(_CHUNK, size))
    while data:
        size -= len(data)
        while data:
            member.decompress(data)
            data = member.unused_data
            if member.eof:
                member = zlib.decompressobj(_GZIP)
        data = members.read(min(_CHUNK, size))
