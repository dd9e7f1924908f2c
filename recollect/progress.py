"""How long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the current step, how much of it is done, and how much there is.

An import passes the file and its bytes, an encryption the file and the number of files, a backup
the step and bytes. Most other operations pass the step and messages.
"""


def ignore_progress(step: str, done: int, total: int) -> None:
    """For operations whose progress nobody watches."""
