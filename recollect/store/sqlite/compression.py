"""Compress messages with zstd and a dictionary that is part of this package.

The content and the metadata of a message are compressed together, because the metadata often
repeats parts of the content. The columns `body` and `details` of a row are either the content and
the metadata themselves, or `body` is a blob with both and `details` is null. A blob begins with the
number of its dictionary, followed by a zstd frame without the magic number that all frames share.

The column `packed_id` is the id of the message, and `parent_id` that of its parent; if one is a
UUID, its 16 bytes. Metadata often repeats the id of the parent, so compressed metadata has a short
reference instead.

The generated columns `content` and `metadata` decompress a row with the SQL functions of `Codec`,
and `id` and `parent` are the ids as text. So statements read text, however it is stored. But only
`packed_id` is in indexes, so statements that look for an id look for that.

A dictionary contains fragments of the texts it was trained on. It is trained on public texts
(`tools/train_dictionary.py`) and never on what users store, so deleted text is in no dictionary.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.errors import DAMAGE_ADVICE, DamagedLibrary
from recollect.language.text import comparable
from recollect.store.sql.passages import COLUMNS

if TYPE_CHECKING:
    import zstandard

_RENAMED = {"content": "body", "metadata": "details", "id": "packed_id", "parent": "parent_id"}
STORED_COLUMNS = tuple(_RENAMED.get(name, name) for name in COLUMNS)
"""The columns of the table under the names that can be written."""

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
_ID = COLUMNS.index("id")
_PARENT = COLUMNS.index("parent")
_UUID_CHARACTERS = 36
_UUID_BYTES = 16
_FIRST_UUID = "00000000-0000-0000-0000-000000000000"
_LAST_UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_LAST_CHARACTER = "\U0010ffff"


def pack_id(id: str | None) -> str | bytes | None:
    """An id as it is stored.

    This runs for every message of an import, so it is written for speed.
    """
    if id is None or len(id) != _UUID_CHARACTERS or id[8:24:5] != "----":
        return id
    digits = id.replace("-", "")
    try:
        packed = unhexlify(digits)
    except ValueError:
        return id
    # A UUID in capital letters, or with a hyphen too many, would not be the same text again.
    if packed.hex() != digits or len(packed) != _UUID_BYTES:
        return id
    return packed


def unpack_id(packed: bytes) -> str:
    """The id that `pack_id` made these bytes of."""
    return f"{packed[:4].hex()}-{packed[4:10].hex('-', 2)}-{packed[10:].hex()}"


def unpack_ids(packed_ids: Iterable[str | bytes]) -> list[str]:
    """The ids of several rows as text."""
    return [id if isinstance(id, str) else unpack_id(id) for id in packed_ids]


def ranges_of_ids(prefix: str) -> list[tuple[str | bytes, str | bytes]]:
    """The first and last stored id of each range that contains the ids with a prefix."""
    ranges: list[tuple[str | bytes, str | bytes]] = [(prefix, prefix + _LAST_CHARACTER)]
    length = len(prefix)
    first, last = pack_id(prefix + _FIRST_UUID[length:]), pack_id(prefix + _LAST_UUID[length:])
    if isinstance(first, bytes) and isinstance(last, bytes):
        ranges.append((first, last))
    return ranges


@cache
def dictionary(number: int) -> zstandard.ZstdCompressionDict:
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
def dictionary_to_write() -> zstandard.ZstdCompressionDict:
    newest = dictionary(_DICTIONARY)
    newest.precompute_compress(level=_LEVEL)
    return newest


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
        stored[_ID] = pack_id(row[_ID])
        parent: str | None = row[_PARENT]
        if parent is not None:
            parent_id = pack_id(parent)
            if parent_id is parent:
                parent = None
            else:
                stored[_PARENT] = parent_id
        stored[-1], stored[_METADATA] = self.compress(row[-1], row[_METADATA], parent)
        return stored

    def compress(
        self, content: str, metadata: str | None, parent: str | None = None
    ) -> tuple[str | bytes, str | None]:
        """The columns `body` and `details`. `parent` is the parent if it is stored as bytes."""
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
            import zstandard

            self._compressor = zstandard.ZstdCompressor(
                level=_LEVEL,
                dict_data=dictionary_to_write(),
                write_checksum=False,
                write_dict_id=False,
            )
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

    def finder(self, folded: str) -> Callable[[str | bytes], bool]:
        """A function that says whether the content in a column `body` contains a folded text.

        A scan calls it for every message. Most are ASCII, and are compared as bytes.
        """
        needle = folded.encode()

        def is_found(body: str | bytes) -> bool:
            if isinstance(body, bytes):
                text = self._decompress_frame(body)
                if text.isascii() and needle not in text.lower() and b"\x1b" not in text:
                    return False
                body = text.partition(_SEPARATOR)[0].decode()
            return folded in comparable(body)

        return is_found

    def _decompress(self, body: bytes) -> bytes:
        # Both columns of a row are often read one after the other.
        if body != self._last_body:
            self._last_text = self._decompress_frame(body)
            self._last_body = body
        return self._last_text

    def _decompress_frame(self, body: bytes) -> bytes:
        import zstandard

        if not body:
            raise DamagedLibrary(f"The text of a message is lost. {DAMAGE_ADVICE}")
        number = body[0]
        if number not in self._decompressors:
            data = dictionary(number)
            self._decompressors[number] = zstandard.ZstdDecompressor(dict_data=data)
        frame = _FRAME_MAGIC + body[1:]
        try:
            size = zstandard.frame_content_size(frame)
            if size > _MAX_TEXT_BYTES:  # the frame is damaged
                raise zstandard.ZstdError(f"its size cannot be {size:,} bytes")
            return self._decompressors[number].decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedLibrary(
                f"The text of a message cannot be decompressed ({error}). {DAMAGE_ADVICE}"
            ) from error
