"""The folder beside a library with the files of its index: volumes and vectors.

They are derived from the database, and each part is created when it is first needed. An encrypted
library has no such files, because they would contain plain text.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.connections.transactions import Connections
from recollect.store.sqlite.files.checksums import damage_events, may_be_due
from recollect.store.sqlite.files.encryption import is_encrypted
from recollect.store.sqlite.files.file_lock import file_lock

if TYPE_CHECKING:
    from recollect.store.sqlite.vectors.vector_search import VectorSearch
    from recollect.store.sqlite.vectors.vector_upkeep import VectorUpkeep
    from recollect.store.sqlite.volumes.index import VolumeIndex


class IndexFolder:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._path = connections.path.with_name("index")
        self._volume_folder = self._path / "volumes"
        self._vector_folder = self._path / "vectors"
        self.is_encrypted = is_encrypted(connections.path)

    def close(self) -> None:
        for name in ("volumes", "vectors"):
            if name in self.__dict__:
                self.__dict__[name].close()

    # Loaded on first use, because most processes that open a library never need them.

    @cached_property
    def volumes(self) -> VolumeIndex:
        from recollect.store.sqlite.volumes.index import VolumeIndex

        return VolumeIndex(self._volume_folder, self._connections)

    @cached_property
    def vectors(self) -> VectorSearch:
        from recollect.store.sqlite.vectors.vector_search import VectorSearch
        from recollect.store.sqlite.vectors.vectors_in_memory import MemorySearch

        if self.is_encrypted:
            return MemorySearch(self._vector_folder)
        return VectorSearch(self._vector_folder)

    @cached_property
    def vector_upkeep(self) -> VectorUpkeep:
        from recollect.store.sqlite.vectors.vector_upkeep import VectorUpkeep
        from recollect.store.sqlite.vectors.vectors_in_memory import TableUpkeep

        if self.is_encrypted:
            return TableUpkeep(self._vector_folder, self._connections)
        return VectorUpkeep(self._vector_folder, self._connections)

    @property
    def has_volume_files(self) -> bool:
        return self._volume_folder.exists()

    @property
    def has_vector_files(self) -> bool:
        return self._vector_folder.exists()

    def lock(self) -> AbstractContextManager[bool]:
        """Held while files are written. False if another process holds it."""
        return file_lock(self._path / "lock")

    def purge(self) -> bool:
        """Remove deleted text. False if another process is writing the files."""
        is_purged = True
        if self.has_volume_files:
            is_purged = self.volumes.sweep()
        if self.has_vector_files:
            is_purged = self.vector_upkeep.wipe() and is_purged
        return is_purged

    def delete(self) -> None:
        for file in sorted(self._path.rglob("*"), reverse=True):
            if file.is_dir():
                file.rmdir()
            else:
                file.unlink()
        if self._path.exists():
            self._path.rmdir()

    # -- damage ---

    def needs_check(self) -> bool:
        """Whether files must be compared with their checksums."""
        if self.has_volume_files and self.volumes.needs_check():
            return True
        return may_be_due(self._vector_folder) and self.vector_upkeep.needs_check()

    def has_lost_vectors(self, db: Connection) -> bool:
        """Whether a file of vectors is missing. They must be embedded again."""
        rows = db.rows("select id from space where not gone and copied > 0")
        return any(not (self._vector_folder / f"space-{id_}.vectors").exists() for (id_,) in rows)

    def damaged_files(self) -> list[str]:
        lines = []
        if self.has_volume_files:
            lines += self.volumes.damaged_files()
        if self.has_vector_files:
            lines += self.vector_upkeep.damaged_files()
        return lines

    def damage_events(self) -> list[str]:
        """What was noticed earlier."""
        return damage_events(self._path)

    def drop_damaged(self) -> None:
        if self.has_volume_files:
            self.volumes.drop_damaged()
        if self.has_vector_files:
            self.vector_upkeep.drop_damaged()
            self.vector_upkeep.refresh()
