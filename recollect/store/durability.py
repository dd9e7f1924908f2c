"""Make files, and the names in a folder, survive a power cut."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_file(file: Path) -> None:
    """Make the content of a file durable.

    No database connection of this process may have it open: closing it would drop SQLite's locks.
    """
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make new, renamed and deleted names in a folder durable, where the system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows cannot open folders
    try:
        with suppress(OSError):  # some file systems cannot sync folders
            os.fsync(handle)
    finally:
        os.close(handle)
