"""`exclude.txt` in a home: patterns of projects that are never imported, one per line.

Lines that start with # are comments.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

from recollect.errors import InvalidInput
from recollect.home_folder import EXCLUSIONS
from recollect.language.text import storable
from recollect.settings import READ_ONLY
from recollect.store.sqlite.files.private_files import create_private_folder

_MAX_PATTERN = 500
_lock = threading.Lock()


def read_patterns(home: Path) -> list[str]:
    """The patterns in the order of the file; none if there is no file."""
    lines = [line.strip() for line in _lines(home)]
    return [line for line in lines if line and not line.startswith("#")]


def add_pattern(home: Path, pattern: str) -> None:
    """Add a pattern, unless the file has it. Raises InvalidInput."""
    pattern = validate_pattern(pattern)
    with _lock:
        if pattern not in read_patterns(home):
            _write(home, [*_lines(home), pattern])


def remove_pattern(home: Path, pattern: str) -> None:
    """Remove a pattern. Comments and the order of the others stay as they are."""
    with _lock:
        lines = _lines(home)
        others = [line for line in lines if line.strip() != pattern.strip()]
        if others != lines:
            _write(home, others)


def validate_pattern(pattern: str) -> str:
    pattern = pattern.strip()
    if not pattern:
        raise InvalidInput("Type a pattern first, such as ~/clients/* or secret-*.")
    if len(pattern) > _MAX_PATTERN or pattern != storable(pattern) or not pattern.isprintable():
        raise InvalidInput(f"A pattern is one line of at most {_MAX_PATTERN} characters.")
    if pattern.startswith("#"):
        raise InvalidInput("A pattern cannot start with #: such lines are comments.")
    return pattern


def _lines(home: Path) -> list[str]:
    try:
        return (home / EXCLUSIONS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _write(home: Path, lines: list[str]) -> None:
    """Replace the file in one step."""
    file = home / EXCLUSIONS
    if READ_ONLY.get():
        raise InvalidInput(f"{file} cannot be changed: RECOLLECT_READ_ONLY is on.")
    try:
        create_private_folder(home)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=home, prefix=".exclude-", delete=False
        ) as temporary:
            temporary.write("".join(f"{line}\n" for line in lines))
        os.replace(temporary.name, file)  # noqa: PTH105 - the same on every system
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from error
