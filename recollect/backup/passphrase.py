"""The passphrase of a backup folder: from a file, from the environment, or from the terminal.

It is never an argument of a command: other users of the computer can see those.
"""

from __future__ import annotations

from pathlib import Path

from recollect.errors import InvalidInput
from recollect.settings import BACKUP_PASSPHRASE, BACKUP_PASSPHRASE_FILE

MIN_CHARACTERS = 8


def configured_passphrase() -> str | None:
    """The passphrase in the settings, or None."""
    file = BACKUP_PASSPHRASE_FILE.get()
    if file:
        return read_passphrase(Path(file).expanduser())
    return BACKUP_PASSPHRASE.get() or None


def read_passphrase(file: Path) -> str:
    """The first line of a file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise InvalidInput(
            f"The passphrase cannot be read from {file} ({error.strerror})."
        ) from error
    if not lines or not lines[0]:
        raise InvalidInput(f"{file} is empty. Its first line must be the passphrase.")
    return lines[0]


def require_strength(passphrase: str) -> None:
    """Refuse a passphrase for new backups that is too short."""
    if len(passphrase) < MIN_CHARACTERS:
        raise InvalidInput(
            f"The passphrase must have at least {MIN_CHARACTERS} characters; several random words "
            "are better."
        )
