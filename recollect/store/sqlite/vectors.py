"""The vectors of a library: queued in the database, stored and scanned in files.

A vector is stored as 8-bit integers and the scale that makes it a unit vector. Each space has two
files: one with the integers, row by row, and one with the attributes of the rows that filters need.
The files only grow, are mapped into memory and are scanned completely. The scan is exact, needs no
index to be built, and applies filters as it goes.

The table `vector` lists all vectors. New ones are stored in `new_vector` until they are in the
files, durably. Those up to the row `space.copied` are only in the files. If files are lost, the
passages of their rows are queued for embedding.

A third file has checksums of both (`space-1.checksums`; see `checksums.py`). Files that differ from
them are dropped, like lost ones.

Integers are written before the attributes. If the process is killed in between, the additional
integers are ignored and overwritten later.

Older versions stored more bytes per attribute (`space-1.rows`). Such a file is used as it is until
the next refresh writes it again.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.model.search import Filter
from recollect.store.durability import sync_folder
from recollect.store.sql.quantisation import Integers, Vector, best_scores, cosines, quantise
from recollect.store.sql.selection import document_filter, matching_documents
from recollect.store.sql.spaces import all_spaces
from recollect.store.sqlite.checksums import (
    ROWS_PER_BLOCK,
    UNKNOWN,
    RowChecksums,
    is_check_due,
    log_damage,
    mark_checked,
)
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.file_lock import file_lock
from recollect.store.sqlite.key_ranges import all_keys, keys_in_few_documents, passing_keys
from recollect.store.sqlite.transactions import Connections
from recollect.store.sqlite.vector_scan import (
    NO_DATE,
    ROW,
    Columns,
    Key,
    NearestScan,
    RowFilter,
    name_code,
)
from recollect.store.values import Space

# Bounds the memory that a scan needs.
_ROWS_PER_SCAN = 131_072
# A small first batch raises the threshold, so that most of the other rows are rejected early.
_ROWS_OF_FIRST_SCAN = 4_096
_ROWS_PER_COPY = 20_000
# Fewer rows are not worth a copy. Until then they are read from the table.
_MIN_ROWS_TO_COPY = 200
# The vectors of so many passages are read from the table faster than the files are scanned.
_MAX_PASSAGES_READ_SINGLY = 500
# The same for one in so many of all passages.
_SHARE_READ_SINGLY = 200
_SCALE_BYTES = 4

_OLD_ROW = np.dtype(
    [
        ("row", "<i8"),
        ("passage", "<i8"),
        ("document", "<i8"),
        ("created_at", "<i8"),
        ("role", "<u4"),
        ("author", "<u4"),
        ("scale", "<f4"),
        ("hidden", "<u4"),
    ]
)
"""The attributes of a vector, as older versions stored them."""


def pack(vectors: Sequence[Vector]) -> list[bytes]:
    """Vectors as the database stores them: the scale, then the integers."""
    if not len(vectors):
        return []
    integers, scales = quantise(vectors)
    rows = np.hstack([scales[:, None].view(np.int8), integers])
    data = rows.tobytes()
    return [data[start : start + rows.shape[1]] for start in range(0, len(data), rows.shape[1])]


def _unpack(blobs: Sequence[bytes], dimensions: int) -> tuple[Integers, Vector]:
    if not blobs:
        return np.empty((0, dimensions), np.int8), np.empty(0, np.float32)
    data = np.frombuffer(b"".join(blobs), np.uint8)
    data = data.reshape(len(blobs), _SCALE_BYTES + dimensions)
    scales = np.ascontiguousarray(data[:, :_SCALE_BYTES]).view(np.float32)[:, 0]
    return data[:, _SCALE_BYTES:].view(np.int8), scales


class SpaceRows(Protocol):
    """Vectors that a search scans."""

    def __len__(self) -> int: ...

    @property
    def last_row(self) -> int:
        """The last row of the table that is among them."""

    def batches(self) -> Iterator[tuple[int, int]]:
        """The start and end of each part that is scanned at once."""

    def part(self, start: int, end: int) -> tuple[Columns, Integers]:
        """The attributes and integers of some rows."""

    def is_outdated(self) -> bool: ...

    def read(self, copied: NDArray[Key]) -> tuple[list[int], Integers, Vector]:
        """The passages, integers and scales of pairs (row of the table, passage)."""

    def find(self, passages: Sequence[int]) -> tuple[list[int], Integers, Vector] | None:
        """The same of all rows of these passages; None if only the table knows them."""


class Vectors:
    def __init__(self, folder: Path, connections: Connections) -> None:
        self._folder = folder
        self._connections = connections
        self._open_files: dict[int, SpaceRows] = {}
        self._lock = threading.Lock()

    # -- searching ---

    def nearest(
        self, db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """See Store.nearest."""
        (query,), (query_scale,) = quantise([vector])
        keys = keys_in_few_documents(db, filter)
        _, newest_key = all_keys(db)
        max_keys = max(_MAX_PASSAGES_READ_SINGLY, newest_key // _SHARE_READ_SINGLY)
        if keys is not None and len(keys) <= max_keys:
            passing = sorted(passing_keys(db, keys, filter))
            scores = self.cosines(db, space, query * query_scale, passing)
            return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        files = self._files(space)
        documents = db.memoize(document_filter(filter), lambda: matching_documents(db, filter))
        deleted_rows = np.array([row for (row,) in db.rows("select row from wiped")], Key)
        scan = NearestScan(query, RowFilter(filter, documents, deleted_rows), limit)
        for start, end in files.batches():
            scan.scan(*files.part(start, end))
        for attributes, integers in uncopied_rows(db, space, files.last_row):
            scan.scan(attributes.__getitem__, integers)
        return [(passage, score * float(query_scale)) for passage, score in scan.ranked()]

    def cosines(
        self, db: Connection, space: Space, vector: Vector, keys: Sequence[int]
    ) -> dict[int, float]:
        """See Store.cosines. If a passage has several vectors, the nearest one counts."""
        passages, integers, scales = self._read(db, space, keys)
        if not passages:
            return {}
        return best_scores(passages, cosines(integers, scales, vector))

    def vectors(self, db: Connection, space: Space, key: int) -> list[Vector]:
        """See Store.vectors."""
        _, integers, scales = self._read(db, space, [key])
        return list(integers.astype(np.float32) * scales[:, None])

    def _read(
        self, db: Connection, space: Space, keys: Sequence[int]
    ) -> tuple[list[int], Integers, Vector]:
        """The vectors of passages: for each its passage, its integers and its scale."""
        vectors = self._find_copied(db, space, keys)
        if vectors is not None:
            return vectors
        rows = _vector_rows(db, space, keys)
        # The files are opened after the table was read, so they contain all rows without a blob.
        blobs = [(passage, blob) for passage, _, blob in rows if blob]
        integers, scales = _unpack([blob for _, blob in blobs], space.dimensions)
        passages = [passage for passage, _ in blobs]
        if len(blobs) == len(rows):
            return passages, integers, scales
        copied_rows = [(row, passage) for passage, row, blob in rows if not blob]
        # Several times faster than an array of the pairs.
        numbers = np.fromiter(chain.from_iterable(copied_rows), Key, 2 * len(copied_rows))
        copied = numbers.reshape(-1, 2)
        copied_passages, copied_integers, copied_scales = self._files(space).read(copied)
        return (
            passages + copied_passages,
            np.concatenate([integers, copied_integers]),
            np.concatenate([scales, copied_scales]),
        )

    def _find_copied(
        self, db: Connection, space: Space, keys: Sequence[int]
    ) -> tuple[list[int], Integers, Vector] | None:
        """The vectors of passages without the table, if the files have all rows of the table."""
        ((last_row, has_deleted_rows),) = db.rows(
            "select (select seq from sqlite_sequence where name = 'vector'), "
            "exists (select 1 from wiped)"
        )
        files = self._files(space)
        if has_deleted_rows or last_row != files.last_row:
            return None
        return files.find(keys)

    def _files(self, space: Space) -> SpaceRows:
        with self._lock:
            files = self._open_files.get(space.id)
            if files is None or files.is_outdated():
                files = self._open_verified(space)
                self._open_files[space.id] = files
            return files

    # -- checksums ---

    def _open_verified(self, space: Space) -> _SpaceFiles:
        """The files of a space. If they differ from their checksums, they are dropped."""
        files = _SpaceFiles(self._folder, space)
        if not files.is_check_due():
            return files
        if files.damaged_blocks():
            # Another process may have been changing the files.
            with file_lock(self._lock_file, wait=True):
                files = _SpaceFiles(self._folder, space)
                if files.damaged_blocks():
                    files.drop()
                    return files
        files.mark_checked()
        return files

    def drop_damaged(self) -> None:
        """Verify all files, and drop those that are damaged. `refresh` queues their passages."""
        with file_lock(self._lock_file, wait=True):
            for files in self._all_files():
                if files.damaged_blocks():
                    files.drop()

    def damaged_files(self) -> list[str]:
        """Verify all files, and describe those that are damaged."""
        lines = []
        for files in self._all_files():
            blocks = files.damaged_blocks()
            if blocks:
                share = f"{len(blocks)} of {files.blocks} blocks"
                lines.append(f"{files.name} differs from its checksum in {share}")
        return lines

    def needs_check(self) -> bool:
        return any(len(files) and files.is_check_due() for files in self._all_files())

    def _all_files(self) -> list[_SpaceFiles]:
        with self._connections.read() as db:
            spaces = all_spaces(db)
        return [_SpaceFiles(self._folder, space) for space in spaces]

    def close(self) -> None:
        with self._lock:
            self._open_files.clear()

    # -- copying ---

    def refresh(self) -> None:
        """Copy new vectors to the files, wipe deleted ones, and remove files of dropped spaces."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(self._lock_file, wait=True) as is_locked:
            if not is_locked:
                return
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._remove_other_files({space.id for space in spaces})
            self._wipe_deleted(spaces)
            for space in spaces:
                _replace_old_attributes(self._folder, space)
                self._check(space)
                self._drop_unknown(space)
                self._queue_lost(space)
                self._copy_new(space)
                self._clear_copied(space)

    def _check(self, space: Space) -> None:
        """Verify the files if that is due, and add checksums to rows that have none."""
        files = _SpaceFiles(self._folder, space)
        if not len(files):
            return
        if files.is_check_due():
            if files.damaged_blocks():
                files.drop()
                return
            files.mark_checked()
        files.add_checksums()

    def _drop_unknown(self, space: Space) -> None:
        """Drop rows that the table never had: the database is an older copy than the files."""
        with self._connections.read() as db:
            newest = db.get("select seq from sqlite_sequence where name = 'vector'") or 0
        files = _SpaceFiles(self._folder, space)
        if files.last_row > newest:
            files.drop_after(newest)

    def _queue_lost(self, space: Space) -> None:
        """Queue passages for embedding whose vectors were in files that are lost."""
        last_row = _SpaceFiles(self._folder, space).last_row
        copied = self._copied(space)
        if copied <= last_row:
            return

        def work(db: Connection) -> bool:
            rows = db.rows(
                "select row, passage from vector where row > ? and row <= ? and space = ? limit ?",
                (last_row, copied, space.id, _ROWS_PER_COPY),
            )
            db.run_many(
                "insert or replace into unembedded (passage, space) values (?, ?)",
                [(passage, space.id) for _, passage in rows],
            )
            db.run_many("delete from vector where row = ?", [(row,) for row, _ in rows])
            if not rows:
                db.run("update space set copied = ? where id = ?", (last_row, space.id))
            return bool(rows)

        while self._connections.write(work):
            pass

    def _clear_copied(self, space: Space) -> None:
        """Remove vectors from the table that are in the files, a batch per transaction."""
        last_row = _SpaceFiles(self._folder, space).last_row
        copied = self._copied(space)

        def work(db: Connection) -> int:
            end: int = last_row
            for (row,) in db.rows(
                "select row from vector where row > ? order by row limit 1 offset ?",
                (copied, _ROWS_PER_COPY),
            ):
                end = min(row, last_row)
            between = (copied, end, space.id)
            db.run("delete from new_vector where row > ? and row <= ? and space = ?", between)
            # Older versions stored vectors here.
            db.run(
                "update vector set vector = x'' "
                "where row > ? and row <= ? and space = ? and vector <> x''",
                between,
            )
            db.run("update space set copied = ? where id = ?", (end, space.id))
            return end

        while copied < last_row:
            copied = self._connections.write(work)

    def _copied(self, space: Space) -> int:
        with self._connections.read() as db:
            copied: int = db.get("select copied from space where id = ?", (space.id,)) or 0
        return copied

    def _copy_new(self, space: Space) -> None:
        while True:
            files = _SpaceFiles(self._folder, space)
            with self._connections.read() as db:
                rows = _rows_after(db, space, files.last_row, _ROWS_PER_COPY)
            if not rows or (len(files) and len(rows) < _MIN_ROWS_TO_COPY):
                return
            files.append(*_decode_rows(rows, space))

    def wipe(self) -> bool:
        """Wipe the vectors of deleted passages. False if another process writes the files."""
        with file_lock(self._lock_file) as is_locked:
            if not is_locked:
                return False
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._wipe_deleted(spaces)
            return True

    def _wipe_deleted(self, spaces: list[Space]) -> None:
        with self._connections.read() as db:
            deleted_rows = [row for (row,) in db.rows("select row from wiped order by row")]
        if not deleted_rows:
            return
        for space in spaces:
            _SpaceFiles(self._folder, space).wipe(np.array(deleted_rows, Key))
        self._connections.write(
            lambda db: db.run_many(
                "delete from wiped where row = ?", [(row,) for row in deleted_rows]
            )
        )

    def _remove_other_files(self, ids: set[int]) -> None:
        for path in self._folder.glob("space-*.*"):
            if int(path.stem.removeprefix("space-")) not in ids:
                path.unlink(missing_ok=True)

    @property
    def _lock_file(self) -> Path:
        return self._folder / "lock"


# -- files ---


class _SpaceFiles:
    """The two files of a space, as they were when this object was created."""

    def __init__(self, folder: Path, space: Space) -> None:
        self._folder = folder
        self._space = space
        self._attributes_file, self._row = _attributes_file(folder, space)
        self._integers_file = folder / f"space-{space.id}.vectors"
        self._dimensions = space.dimensions
        self._columns: dict[str, NDArray[Any]] = {}
        self._size = 0
        self._attributes: NDArray[Any] = np.empty(0, self._row)
        self._integers: Integers = np.empty((0, space.dimensions), np.int8)
        try:
            self._map_files()
        except (FileNotFoundError, ValueError):
            # Another process removed or truncated them between looking and mapping.
            self._map_files()

    def _map_files(self) -> None:
        self._size = self._complete_rows()
        if self._size:
            self._attributes = np.asarray(self._map_attributes("r"))
            self._integers = np.asarray(self._map_integers("r"))

    def _map_attributes(self, mode: Any) -> np.memmap[Any, Any]:
        return np.memmap(self._attributes_file, self._row, mode, shape=(self._size,))

    def _map_integers(self, mode: Any) -> np.memmap[Any, Any]:
        shape = (self._size, self._dimensions)
        return np.memmap(self._integers_file, np.int8, mode, shape=shape)

    def __len__(self) -> int:
        return self._size

    @property
    def last_row(self) -> int:
        """The last row of the table that has been copied."""
        if not self._size:
            return 0
        return int(self._attributes["row"][-1])

    def batches(self) -> Iterator[tuple[int, int]]:
        """The start and end of each part that is scanned at once."""
        if not self._size:
            return iter(())
        starts = [0, *range(_ROWS_OF_FIRST_SCAN, self._size, _ROWS_PER_SCAN)]
        return pairwise([*starts, self._size])

    def part(self, start: int, end: int) -> tuple[Columns, Integers]:
        """The attributes and integers of some rows."""
        return lambda name: self._column(name)[start:end], self._integers[start:end]

    def _column(self, name: str) -> NDArray[Any]:
        """An attribute of all rows as a contiguous array, which is scanned many times faster."""
        if name not in self._columns:
            self._columns[name] = np.ascontiguousarray(self._attributes[name])
        return self._columns[name]

    def is_outdated(self) -> bool:
        file, _ = _attributes_file(self._folder, self._space)
        return file != self._attributes_file or self._complete_rows() != self._size

    def _complete_rows(self) -> int:
        """The number of rows that are complete in both files."""
        return min(
            _file_size(self._attributes_file) // self._row.itemsize,
            _file_size(self._integers_file) // self._dimensions,
        )

    def read(self, copied: NDArray[Key]) -> tuple[list[int], Integers, Vector]:
        """The passages, integers and scales of pairs (row of the table, passage).

        Rows that the files do not contain are left out: their vectors are lost.
        """
        if not self._size:
            return [], self._integers, np.empty(0, np.float32)
        numbers = self._column("row")
        indexes = np.searchsorted(numbers, copied[:, 0])
        indexes[indexes == self._size] = 0
        is_same = numbers[indexes] == copied[:, 0]
        is_same &= self._attributes["passage"][indexes] == copied[:, 1]
        indexes = indexes[is_same]
        passages: list[int] = copied[is_same, 1].tolist()
        return passages, self._integers[indexes], self._attributes["scale"][indexes]

    def find(self, passages: Sequence[int]) -> tuple[list[int], Integers, Vector] | None:
        """The passages, integers and scales of all rows of these passages."""
        keys = np.array(passages, Key)
        column = self._column("passage")
        starts = np.searchsorted(column, keys, side="left", sorter=self._order)
        ends = np.searchsorted(column, keys, side="right", sorter=self._order)
        counts = ends - starts
        first_places = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(keys)), counts)
        indexes = starts[owners] + np.arange(len(owners)) - first_places[owners]
        if self._order is not None:
            indexes = self._order[indexes]
        # Another process may have wiped a row in the meantime.
        is_same = self._attributes["passage"][indexes] == keys[owners]
        indexes, owners = indexes[is_same], owners[is_same]
        owner_keys: list[int] = keys[owners].tolist()
        return owner_keys, self._integers[indexes], self._attributes["scale"][indexes]

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """The indexes of the rows in the order of their passages; None if they are in order."""
        column = self._column("passage")
        if (column[1:] >= column[:-1]).all():
            return None
        return np.argsort(column, kind="stable")

    # -- checksums ---

    @property
    def name(self) -> str:
        return self._integers_file.name

    @property
    def _checksums_file(self) -> Path:
        return self._folder / f"space-{self._space.id}.checksums"

    def _checksums(self) -> RowChecksums:
        if self._row is _OLD_ROW:
            return RowChecksums()
        checksums = RowChecksums.load(self._checksums_file) or RowChecksums()
        # The files were truncated by something else, or an older version wrote them.
        checksums.truncate(self._size)
        return checksums

    @property
    def blocks(self) -> int:
        return len(self._checksums().integers)

    def is_check_due(self) -> bool:
        files = (self._integers_file, self._attributes_file)
        return self._size > 0 and is_check_due(self._checksums_file, files)

    def mark_checked(self) -> None:
        mark_checked(self._checksums_file)

    def damaged_blocks(self) -> list[int]:
        """The blocks of rows that differ from their checksums."""
        return self._checksums().damaged_blocks(self._row_bytes)

    def _row_bytes(self, start: int, end: int) -> tuple[bytes, bytes]:
        return self._integers[start:end].tobytes(), self._attributes[start:end].tobytes()

    def add_checksums(self) -> None:
        """Add the checksums of rows that have none."""
        checksums = self._checksums()
        if checksums.rows == self._size:
            return
        while checksums.rows < self._size:
            start = checksums.rows
            end = min(start + ROWS_PER_BLOCK, self._size)
            checksums.extend(*self._row_bytes(start, end), end - start)
        checksums.save(self._checksums_file)

    def drop(self) -> None:
        """Remove damaged files. Their vectors are then computed again."""
        event = f"{self._integers_file} differed from its checksum and is computed again"
        log_damage(self._folder.parent, event)
        with suppress(OSError):  # on read-only media, they are ignored
            for file in (self._attributes_file, self._integers_file, self._checksums_file):
                file.unlink(missing_ok=True)
        self._size = 0
        self._columns = {}
        self._attributes = np.empty(0, self._row)
        self._integers = np.empty((0, self._dimensions), np.int8)

    # -- changing ---

    def drop_after(self, row: int) -> None:
        """Drop all rows after this one."""
        size = int(np.searchsorted(self._attributes["row"], row, "right"))
        checksums = self._checksums()
        checksums.truncate(size)
        checksums.save(self._checksums_file)
        _write_at(self._attributes_file, size * self._row.itemsize, b"")
        _write_at(self._integers_file, size * self._dimensions, b"")

    def append(self, attributes: NDArray[Any], integers: Integers) -> None:
        checksums = self._checksums()
        _write_at(self._integers_file, self._size * self._dimensions, integers.tobytes())
        _write_at(self._attributes_file, self._size * ROW.itemsize, attributes.tobytes())
        # If the process is killed before this, the next refresh adds the checksums.
        if checksums.rows == self._size:
            checksums.extend(integers.tobytes(), attributes.tobytes(), len(attributes))
            checksums.save(self._checksums_file)

    def shrink(self) -> None:
        """Write attributes in the format of older versions again."""
        path = self._attributes_file.with_suffix(".attributes")
        unfinished = path.with_suffix(".part")
        _write_at(unfinished, 0, self._attributes.astype(ROW).tobytes())
        self._checksums_file.unlink(missing_ok=True)
        unfinished.rename(path)

    def wipe(self, rows: NDArray[Key]) -> None:
        """Overwrite the vectors of these rows of the table."""
        indexes = np.searchsorted(self._attributes["row"], rows)
        indexes = indexes[indexes < self._size]
        indexes = indexes[np.isin(self._attributes["row"][indexes], rows)]
        if not len(indexes):
            return
        checksums = self._checksums()
        blocks = sorted({int(n) // ROWS_PER_BLOCK for n in indexes if n < checksums.rows})
        damaged = set(checksums.damaged_blocks(self._row_bytes, blocks))
        blocks = [block for block in blocks if block not in damaged]
        for block in blocks:
            checksums.integers[block] = checksums.attributes[block] = UNKNOWN
        checksums.save(self._checksums_file)
        self._zero(indexes)
        for block in blocks:
            data = self._row_bytes(*checksums.block_range(block))
            checksums.integers[block], checksums.attributes[block] = map(zlib.crc32, data)
        checksums.save(self._checksums_file)

    def _zero(self, indexes: NDArray[Any]) -> None:
        integers = self._map_integers("r+")
        integers[indexes] = 0
        integers.flush()
        attributes = self._map_attributes("r+")
        attributes["passage"][indexes] = 0
        attributes.flush()


def _attributes_file(folder: Path, space: Space) -> tuple[Path, np.dtype[Any]]:
    """The file with the attributes of a space, and the type of its rows."""
    path = folder / f"space-{space.id}.attributes"
    old_path = path.with_suffix(".rows")
    if not path.exists() and old_path.exists():
        return old_path, _OLD_ROW
    return path, ROW


def _replace_old_attributes(folder: Path, space: Space) -> None:
    """Replace the attributes of a space if they have the format of older versions."""
    path, row = _attributes_file(folder, space)
    if row is _OLD_ROW:
        _SpaceFiles(folder, space).shrink()
    with suppress(PermissionError):  # on Windows, while another process uses the file
        path.with_suffix(".rows").unlink(missing_ok=True)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write_at(path: Path, offset: int, data: bytes) -> None:
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        os.ftruncate(file, offset)  # an interrupted write may have left more
        os.lseek(file, offset, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        sync_folder(path.parent)


# -- the tables ---


def insert_vectors(db: Connection, space: Space, rows: Sequence[tuple[int, bytes]]) -> None:
    """Add new vectors, given as the key of a passage and a blob."""
    last: int = db.get("select seq from sqlite_sequence where name = 'vector'") or 0
    numbers = range(last + 1, last + 1 + len(rows))
    db.insert(
        "vector",
        ("row", "space", "passage", "vector"),
        [(row, space.id, key, b"") for row, (key, _) in zip(numbers, rows, strict=True)],
    )
    db.insert(
        "new_vector",
        ("row", "space", "vector"),
        [(row, space.id, blob) for row, (_, blob) in zip(numbers, rows, strict=True)],
    )


def _vector_rows(db: Connection, space: Space, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    """The rows of passages: passage, number of the row, blob."""
    return db.rows(
        "select v.passage, v.row, coalesce(n.vector, v.vector) from json_each(?) k "
        "cross join vector v on v.passage = k.value "
        "left join new_vector n on n.row = v.row where v.space = ?",
        (json.dumps(list(keys)), space.id),
    )


def _rows_after(db: Connection, space: Space, row: int, limit: int) -> list[tuple[Any, ...]]:
    """The next rows of the table, with the attributes that the files need."""
    return db.rows(
        """select v.row, v.passage, p.document, p.created_at, p.role, p.author,
          p.visibility = 'hidden', coalesce(n.vector, v.vector) as blob
        from vector v join passage p on p.key = v.passage
        left join new_vector n on n.row = v.row
        where v.space = ? and v.row > ? and blob <> x'' order by v.row limit ?""",
        (space.id, row, limit),
    )


def _decode_rows(rows: list[tuple[Any, ...]], space: Space) -> tuple[NDArray[Any], Integers]:
    """Rows of the table as attributes and integers."""
    numbers, passages, documents, dates, roles, authors, hidden, blobs = zip(*rows, strict=True)
    integers, scales = _unpack(blobs, space.dimensions)
    attributes = np.empty(len(rows), ROW)
    attributes["row"] = numbers
    attributes["passage"] = passages
    attributes["document"] = documents
    attributes["created_at"] = [NO_DATE if date is None else date for date in dates]
    attributes["role"] = [name_code(role) for role in roles]
    attributes["author"] = [name_code(author) for author in authors]
    attributes["hidden"] = hidden
    attributes["scale"] = scales
    return attributes, np.ascontiguousarray(integers)


def uncopied_rows(
    db: Connection, space: Space, row: int
) -> Iterator[tuple[NDArray[Any], Integers]]:
    """The rows of the table that are not in the files yet, in batches."""
    rows = _rows_after(db, space, row, _ROWS_PER_COPY)
    while rows:
        yield _decode_rows(rows, space)
        rows = _rows_after(db, space, rows[-1][0], _ROWS_PER_COPY)
