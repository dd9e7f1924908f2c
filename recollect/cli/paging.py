"""Show long output in a pager at a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath

from rich.console import Console

from recollect.cli.common import Terminal, at_terminal, console

_COLOUR_PAGERS = ("bat", "less", "moar", "most", "ov")
"""Pagers that show colours; others would print the codes."""
_LESS_OPTIONS = "FRX"
"""Quit if it fits on one screen, show colours, and leave the text on the screen."""


def pager_command() -> list[str]:
    """The pager of the user, or `less` if it is installed; empty for none."""
    configured = os.environ.get("PAGER")
    if configured is not None:
        words = shlex.split(configured)
        if words and words[0] != "cat" and shutil.which(words[0]):
            return words
        return []
    if shutil.which("less"):
        return ["less"]
    return []


@contextmanager
def paged(*, enabled: bool = True) -> Iterator[Console]:
    """A console that writes to a pager, or to the output if there is no terminal or no pager.

    The block ends early if the user quits the pager.
    """
    out = console()
    command = pager_command()
    if not enabled or not command or not at_terminal():
        yield out
        return
    environment = os.environ | {"LESS": os.environ.get("LESS", _LESS_OPTIONS)}
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603  the user's own pager
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8"
    )
    try:
        with suppress(BrokenPipeError):
            yield _pager_console(process, out)
    finally:
        with suppress(BrokenPipeError):
            process.communicate()
        _wait(process)


def _pager_console(process: subprocess.Popen[str], out: Console) -> Console:
    has_colours = PurePath(str(process.args[0])).stem in _COLOUR_PAGERS  # type: ignore[index]
    return Terminal(
        file=process.stdin,
        force_terminal=has_colours,
        color_system=out.color_system if has_colours else None,  # type: ignore[arg-type]
        width=out.width,
        highlight=False,
    )


def _wait(process: subprocess.Popen[str]) -> None:
    """Wait for the pager, which handles Ctrl-C itself."""
    while True:
        with suppress(KeyboardInterrupt):
            process.wait()
            return
