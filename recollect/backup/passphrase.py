"""The passphrase of a backup folder: from a file, from the environment, or from the terminal."""

from __future__ import annotations

from recollect.configuration import expand_path
from recollect.passphrases import read_passphrase
from recollect.settings import BACKUP_PASSPHRASE, BACKUP_PASSPHRASE_FILE


def configured_passphrase() -> str | None:
    """The passphrase in the settings, or None."""
    file = BACKUP_PASSPHRASE_FILE.get()
    if file:
        return read_passphrase(expand_path(file))
    return BACKUP_PASSPHRASE.get() or None
