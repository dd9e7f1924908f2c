"""The folder beside a library with the files of its index: volumes and vectors.

They are derived from the database, and each part is created when it is first needed. An encrypted
library has no such files, because they would contain plain text.
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from recollect.store.sqlite.checksums import damage_events, may_be_due
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.encryption import is_encrypted
from recollect.store.sqlite.private_files import file_lock
from recollect.store.sqlite.transactions import Connections

if TYPE_CHECKING:
    from recollect.store.sqlite.vector_files import VectorUpkeep
    from recollect.store.sqlite.vector_search import VectorSearch
    from recollect.store.sqlite.volume_index import VolumeIndex


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
        from recollect.store.sqlite.volume_index import VolumeIndex

        return VolumeIndex(self._volume_folder, self._connections)

    @cached_property
    def vectors(self) -> VectorSearch:
        from recollect.store.sqlite.vector_search import VectorSearch

        return VectorSearch(self._vector_folder, self.is_encrypted)

    @cached_property
    def vector_upkeep(self) -> VectorUpkeep:
        from recollect.store.sqlite.vector_files import VectorUpkeep

        return VectorUpkeep(self._vector_folder, self._connections, self.is_encrypted)

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
        is_purged = not self.has_volume_files or self.volumes.sweep()
        if self.has_vector_files:
            is_purged = self.vector_upkeep.wipe() and is_purged
        return is_purged

    def delete(self) -> None:
        if self._path.exists():
            shutil.rmtree(self._path)

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
        lines: list[str] = []
        if self.has_volume_files:
            lines += self.volumes.damaged().values()
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
