"""Files that are encrypted in frames, so that they can be appended to and read as a stream.

A frame is its length, a random nonce and the ciphertext. Its position in the file, and the name of
the file, are authenticated with it, so neither frames nor files can be exchanged.
"""

from __future__ import annotations

import io
import os
import struct
from typing import IO, Any

from recollect.errors import DamagedLibrary
from recollect.passphrases import NONCE_BYTES

_FRAME_BYTES = 1 << 18
_LENGTH = struct.Struct("<I")
_TAG_BYTES = 16


class EncryptedWriter(io.RawIOBase):
    """Encrypts what is written, and appends it to a file. Closing it does not close the file."""

    def __init__(self, file: IO[bytes], cipher: Any, name: str) -> None:
        self._file = file
        self._name = name.encode()
        self._cipher = cipher
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._buffer += data
        while len(self._buffer) >= _FRAME_BYTES:
            self._write_frame(bytes(self._buffer[:_FRAME_BYTES]))
            del self._buffer[:_FRAME_BYTES]
        return len(data)

    def close(self) -> None:
        if not self.closed and self._buffer:
            self._write_frame(bytes(self._buffer))
            self._buffer.clear()
        super().close()

    def _write_frame(self, data: bytes) -> None:
        nonce = os.urandom(NONCE_BYTES)
        context = _position(self._file.tell()) + self._name
        frame = nonce + self._cipher.encrypt(nonce, data, context)
        self._file.write(_LENGTH.pack(len(frame)) + frame)


class EncryptedReader(io.RawIOBase):
    """Reads what an `EncryptedWriter` has written, up to the position `end` of the file.

    Closing it closes the file.
    """

    def __init__(self, file: IO[bytes], cipher: Any, name: str, end: int | None = None) -> None:
        self._file = file
        self._name = name.encode()
        self._cipher = cipher
        self._end = end
        self._buffer = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._buffer:
            self._buffer = self._read_frame()
        data = self._buffer[: len(target)]
        target[: len(data)] = data
        self._buffer = self._buffer[len(data) :]
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read_frame(self) -> bytes:
        """The next frame, or nothing at the end of the file."""
        from cryptography.exceptions import InvalidTag

        position = _position(self._file.tell())
        if self._end is not None and self._file.tell() >= self._end:
            return b""
        header = self._file.read(_LENGTH.size)
        if not header:
            return b""
        try:
            (length,) = _LENGTH.unpack(header)
            if length > NONCE_BYTES + _FRAME_BYTES + _TAG_BYTES:
                raise ValueError("impossible length")
            frame = self._file.read(length)
            return self._decrypt(frame[:NONCE_BYTES], frame[NONCE_BYTES:], position)
        except (InvalidTag, ValueError, struct.error) as error:
            raise DamagedLibrary(
                f"{self._file.name} is damaged, or was encrypted with another key or name."
            ) from error

    def _decrypt(self, nonce: bytes, text: bytes, position: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._cipher.decrypt(nonce, text, position + self._name))
        except InvalidTag:  # older builds authenticated only the position
            return bytes(self._cipher.decrypt(nonce, text, position))


def _position(offset: int) -> bytes:
    return offset.to_bytes(8, "little")
