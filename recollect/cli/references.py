"""What people type instead of ids: numbers of the last results, and the beginnings of ids.

`search` and `list` number what they print, and store the ids behind the numbers in the home. A
number always means what was last printed for the same library, in whichever terminal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from recollect.cli.common import plural
from recollect.errors import InvalidInput, NotFound
from recollect.home_folder import RESULTS
from recollect.library import Library
from recollect.places import library_file
from recollect.settings import READ_ONLY, default_user, home, place
from recollect.store.sqlite.private_files import create_private_folder

REFERENCE = "a number of the last search or list, an id, or the beginning of an id"
"""The help of an argument that `resolve` understands."""
_DIGITS = 4
"""Longer numbers are ids."""
_NONCE_BYTES = 12


class Reference(NamedTuple):
    """A conversation or item, and the message in it that a search found."""

    id: str
    message_id: str | None = None


def remember(arguments: argparse.Namespace, references: Sequence[Reference]) -> bool:
    """Store what the numbers 1, 2, … refer to. False if it cannot be stored: print no numbers."""
    if READ_ONLY.get():
        return False
    file = results_file(arguments)
    data = json.dumps(references).encode()
    aes = cipher(file)
    if aes is not None:  # ids may say what a conversation is about
        nonce = os.urandom(_NONCE_BYTES)
        data = nonce + aes.encrypt(nonce, data, file.name.encode())
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        create_private_folder(file.parent)
        draft.touch(mode=0o600)
        draft.write_bytes(data)
        draft.replace(file)
    except OSError:
        forget_results(arguments)
        return False
    return True


def forget_results(arguments: argparse.Namespace) -> None:
    """Delete the numbers, so that none of them can mean something that is not on the screen."""
    with suppress(OSError):
        results_file(arguments).unlink(missing_ok=True)


def resolve(library: Library, arguments: argparse.Namespace, text: str) -> Reference:
    """The conversation that a number, an id or the beginning of an id refers to.

    Raises NotFound, or InvalidInput if several ids begin like that.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return Reference(library.resolve_id(text))
    references = read_results(arguments)
    if references and 1 <= int(text) <= len(references):
        return references[int(text) - 1]
    try:
        return Reference(library.resolve_id(text))
    except (NotFound, InvalidInput):
        if references is None:
            raise NotFound(
                f"There is no result {text}: nothing was searched or listed yet. "
                "Run `recollect search` or `recollect list` first."
            ) from None
        count = plural(len(references), "result")
        raise NotFound(f"There is no result {text}. The last search or list has {count}.") from None


def resolve_all(library: Library, arguments: argparse.Namespace, texts: Sequence[str]) -> list[str]:
    """All ids, before anything changes. A message has no effect here, only its conversation."""
    return list(dict.fromkeys(resolve(library, arguments, text).id for text in texts))


def read_results(arguments: argparse.Namespace) -> list[Reference] | None:
    """What the numbers refer to; None if nothing was searched or listed yet."""
    file = results_file(arguments)
    try:
        data = file.read_bytes()
        aes = cipher(file)
        if aes is not None:
            from cryptography.exceptions import InvalidTag

            with suppress(InvalidTag):  # otherwise it is no JSON
                data = aes.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], file.name.encode())
        rows = json.loads(data)
    except (OSError, ValueError):
        return None
    return [Reference(*row) for row in rows]


def cipher(file: Path) -> Any:
    from recollect.store.sqlite.encryption import cipher as cipher_of

    return cipher_of(file.parent)


def results_file(arguments: argparse.Namespace) -> Path:
    """A file in the home, or in the data folder if the library is in a database."""
    where = place(arguments.home)
    user = arguments.user or default_user()
    if isinstance(where, Path):
        return where / RESULTS / f"{library_file(where, user).parent.name}.json"
    name = hashlib.blake2b(f"{where} {user}".encode(errors="surrogatepass"), digest_size=16)
    return home() / RESULTS / f"{name.hexdigest()}.json"
