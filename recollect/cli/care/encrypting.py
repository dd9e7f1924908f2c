"""`recollect encrypt` and `recollect decrypt`: encryption at rest of a whole home."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from getpass import getpass
from pathlib import Path

from recollect.cli.common import console, define, plural, print_json, safe
from recollect.cli.progress import ProgressBar
from recollect.configuration import expand_path
from recollect.encrypting import Conversion, change_passphrase, decrypt_home, encrypt_home
from recollect.errors import InvalidInput
from recollect.home_folder import KEY_FILE
from recollect.passphrases import read_passphrase
from recollect.settings import PASSPHRASE_FILE, place
from recollect.store.sqlite.files.encryption import configured_passphrase

_ENCRYPT_EXAMPLES = """\
  recollect encrypt                                    asks for a passphrase
  recollect encrypt --passphrase-file FILE             uses the first line of a file
  recollect encrypt --change-passphrase --passphrase-file NEW

Needs apsw-sqlite3mc instead of apsw, see docs/encryption.md. Stop servers first. An interrupted
run is resumed by running the command again.
"""
_DECRYPT_EXAMPLES = """\
  recollect decrypt
"""


def define_encrypt(command: argparse.ArgumentParser) -> None:
    define(command, encrypt, _ENCRYPT_EXAMPLES)
    command.add_argument(
        "--passphrase-file",
        metavar="FILE",
        help="read the new passphrase from the first line of a file "
        "(default: RECOLLECT_PASSPHRASE_FILE)",
    )
    command.add_argument(
        "--change-passphrase",
        action="store_true",
        help="change the passphrase of an encrypted home; the libraries are not written again",
    )


def define_decrypt(command: argparse.ArgumentParser) -> None:
    define(command, decrypt, _DECRYPT_EXAMPLES)


def encrypt(arguments: argparse.Namespace) -> int:
    home = _home(arguments)
    if arguments.change_passphrase:
        change_passphrase(home, _new_passphrase(arguments, default=None))
        print(f"The passphrase of {home} is changed.")
        return 0
    passphrase = _new_passphrase(arguments, configured_passphrase())
    with ProgressBar("Encrypting") as bar:
        result = encrypt_home(home, passphrase, bar.report)
    _show(arguments, "Encrypted", home, result)
    if not arguments.json:
        console().print(
            f"Keep {KEY_FILE} and the passphrase: without either of them, nobody can read "
            f"anything here. Set {PASSPHRASE_FILE.name} for servers and hooks."
        )
    return 0


def decrypt(arguments: argparse.Namespace) -> int:
    home = _home(arguments)
    with ProgressBar("Decrypting") as bar:
        result = decrypt_home(home, progress=bar.report)
    _show(arguments, "Decrypted", home, result)
    return 0


def _home(arguments: argparse.Namespace) -> Path:
    where = place(arguments.home)
    if not isinstance(where, Path):
        raise InvalidInput(
            "Only SQLite libraries can be encrypted. For PostgreSQL, encrypt the disk of the "
            "server (see docs/encryption.md)."
        )
    return where


def _new_passphrase(arguments: argparse.Namespace, default: str | None) -> str:
    if arguments.passphrase_file:
        return read_passphrase(expand_path(arguments.passphrase_file))
    if default is not None:
        return default
    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal to ask for a passphrase. Use --passphrase-file.")
    passphrase = getpass("New passphrase (without it, nobody can read the libraries): ")
    if getpass("The same again: ") != passphrase:
        raise InvalidInput("The two passphrases differ.")
    return passphrase


def _show(arguments: argparse.Namespace, action: str, home: Path, result: Conversion) -> None:
    if arguments.json:
        print_json(asdict(result))
        return
    console().print(
        f"{action} {plural(result.databases, 'database')} and "
        f"{plural(result.archived_files, 'archived file')} in {safe(str(home))}."
    )
