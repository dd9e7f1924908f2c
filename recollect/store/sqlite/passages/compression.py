"""Compress messages with zstd and a dictionary that is part of this package.

The content and the metadata of a message are compressed together, because the metadata often
repeats parts of the content. The columns `body` and `details` of a row are either the content and
the metadata themselves, or `body` is a blob with both and `details` is null. A blob begins with the
number of its dictionary, followed by a zstd frame without the magic number that all frames share.

The column `parent_id` is the id of the parent; if that is a UUID, its 16 bytes. Metadata often
repeats it, so compressed metadata has a short reference instead.

The generated columns `content` and `metadata` decompress a row with the SQL functions of `Codec`,
and `parent` is the id as text. So statements read text, however it is stored.

A dictionary contains fragments of the texts it was trained on. It is trained on public texts
(`tools/train_dictionary.py`) and never on what users store, so deleted text is in no dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.errors import DAMAGE_ADVICE, DamagedLibrary
from recollect.store.sql.writing.passages import COLUMNS

if TYPE_CHECKING:
    import zstandard

_RENAMED = {"content": "body", "metadata": "details", "parent": "parent_id"}
STORED_COLUMNS = tuple(_RENAMED.get(name, name) for name in COLUMNS)
"""The columns of the table under the names that can be written."""


FIRST_DICTIONARY = 1
# The newest dictionary. Older ones are still needed to read what they compressed.
_DICTIONARY = 1
# Level 6 is 4 % smaller and takes three times as long.
_LEVEL = 3
_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_PREFIX = bytes((_DICTIONARY,))
# Shorter texts do not become shorter.
_MIN_BYTES = 24
# SQLite stores no more.
_MAX_TEXT_BYTES = 1_000_000_000
# Storable text contains no NUL, and JSON escapes it.
_SEPARATOR = b"\0"
# Stands for the parent in compressed metadata. JSON escapes this character as well.
_PARENT_REFERENCE = "\1"
_METADATA = COLUMNS.index("metadata")
_PARENT = COLUMNS.index("parent")
_UUID_CHARACTERS = 36


def pack_id(id: str | None) -> str | bytes | None:
    """An id as it is stored."""
    if id is None or len(id) != _UUID_CHARACTERS:
        return id
    digits = id.replace("-", "")
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return id
    # A UUID in capital letters, for example, would not be the same text again.
    if packed.hex() != digits or id[8:24:5] != "----":
        return id
    return packed


def unpack_id(packed: bytes) -> str:
    """The id that `pack_id` packed."""
    digits = packed.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)


def _read_dictionary(number: int) -> zstandard.ZstdCompressionDict:
    import zstandard

    path = Path(__file__).with_name(f"texts-{number}.zdict")
    try:
        return zstandard.ZstdCompressionDict(path.read_bytes())
    except FileNotFoundError as error:
        raise DamagedLibrary(
            f"A message was compressed with dictionary {number}, which this version of Recollect "
            "does not have. Upgrade Recollect, or restore a backup."
        ) from error


@cache
def _dictionary_to_read(number: int) -> zstandard.ZstdCompressionDict:
    return _read_dictionary(number)


@cache
def _dictionary_to_write() -> zstandard.ZstdCompressionDict:
    dictionary = _read_dictionary(_DICTIONARY)
    dictionary.precompute_compress(level=_LEVEL)
    return dictionary


class Codec:
    """Compresses and decompresses the rows of one connection. Not for several threads at once."""

    def __init__(self) -> None:
        self._compressor: zstandard.ZstdCompressor | None = None
        self._decompressors: dict[int, zstandard.ZstdDecompressor] = {}
        self._last_body = b""
        self._last_text = b""
        self._is_inserting = False

    # -- writing ---

    def rows(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
        """Rows of COLUMNS as rows of STORED_COLUMNS.

        SQLite computes the generated columns of every row that it inserts, and discards them. Until
        this iterator ends, the SQL functions do not decompress anything for that.
        """
        with self.without_decompressing():
            for row in rows:
                yield self.row(row)

    @contextmanager
    def without_decompressing(self) -> Iterator[None]:
        """Inside the block, the SQL functions return nothing instead of a text."""
        self._is_inserting = True
        try:
            yield
        finally:
            self._is_inserting = False

    def row(self, row: tuple[Any, ...]) -> list[Any]:
        """A row of COLUMNS as a row of STORED_COLUMNS."""
        stored = list(row)
        parent: str | None = row[_PARENT]
        if parent is not None:
            parent_id = pack_id(parent)
            if parent_id is parent:
                parent = None
            else:
                stored[_PARENT] = parent_id
        stored[-1], stored[_METADATA] = self._compress(row[-1], row[_METADATA], parent)
        return stored

    def compress(
        self, content: str, metadata: str | None, parent_id: str | bytes | None = None
    ) -> tuple[str | bytes, str | None]:
        """The columns `body` and `details` of a content, its metadata and its stored parent."""
        parent = None
        if isinstance(parent_id, bytes):
            parent = unpack_id(parent_id)
        return self._compress(content, metadata, parent)

    def _compress(
        self, content: str, metadata: str | None, parent: str | None
    ) -> tuple[str | bytes, str | None]:
        """The same for a parent that is stored as bytes, given as text."""
        text = content.encode()
        if metadata:
            if _PARENT_REFERENCE in metadata:
                return content, metadata  # not written by us
            shortened = metadata
            if parent is not None:
                shortened = metadata.replace(parent, _PARENT_REFERENCE)
            text = _SEPARATOR.join((text, shortened.encode()))
        if len(text) < _MIN_BYTES:
            return content, metadata
        if self._compressor is None:
            self._compressor = _new_compressor()
        frame = self._compressor.compress(text)
        if len(frame) > len(text):
            return content, metadata
        return _PREFIX + frame[len(_FRAME_MAGIC) :], None

    # -- SQL functions ---

    def content(self, *values: Any) -> str | None:
        if self._is_inserting:
            return ""
        body: str | bytes | None = values[0]
        if not isinstance(body, bytes):
            return body
        return self._decompress(body).partition(_SEPARATOR)[0].decode()

    def metadata(self, *values: Any) -> str | None:
        if self._is_inserting:
            return None
        body: str | bytes | None = values[0]
        details: str | None = values[1]
        parent_id: str | bytes | None = values[-1]
        if not isinstance(body, bytes):
            return details
        metadata = self._decompress(body).partition(_SEPARATOR)[2].decode()
        if isinstance(parent_id, bytes):
            metadata = metadata.replace(_PARENT_REFERENCE, unpack_id(parent_id))
        return metadata or None

    # -- reading ---

    def contents(self, bodies: Iterable[str | bytes]) -> list[str]:
        """The contents of several rows."""
        return [
            body
            if isinstance(body, str)
            else self._decompress_frame(body).partition(_SEPARATOR)[0].decode()
            for body in bodies
        ]

    def _decompress(self, body: bytes) -> bytes:
        # Both columns of a row are often read one after the other.
        if body != self._last_body:
            self._last_text = self._decompress_frame(body)
            self._last_body = body
        return self._last_text

    def _decompress_frame(self, body: bytes) -> bytes:
        import zstandard

        decompressor = self._decompressor(body)
        frame = _FRAME_MAGIC + body[1:]
        try:
            size = zstandard.frame_content_size(frame)
            if size > _MAX_TEXT_BYTES:  # the frame is damaged
                raise zstandard.ZstdError(f"its size cannot be {size:,} bytes")
            return decompressor.decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedLibrary(
                f"The text of a message cannot be decompressed ({error}). {DAMAGE_ADVICE}"
            ) from error

    def _decompressor(self, body: bytes) -> zstandard.ZstdDecompressor:
        """The decompressor for the dictionary of a body."""
        if not body:
            raise DamagedLibrary(f"The text of a message is lost. {DAMAGE_ADVICE}")
        decompressor = self._decompressors.get(body[0])
        if decompressor is None:
            decompressor = _new_decompressor(body[0])
            self._decompressors[body[0]] = decompressor
        return decompressor


def _new_decompressor(number: int) -> zstandard.ZstdDecompressor:
    import zstandard

    return zstandard.ZstdDecompressor(dict_data=_dictionary_to_read(number))


def _new_compressor() -> zstandard.ZstdCompressor:
    import zstandard

    dictionary = _dictionary_to_write()
    return zstandard.ZstdCompressor(
        level=_LEVEL, dict_data=dictionary, write_checksum=False, write_dict_id=False
    )
