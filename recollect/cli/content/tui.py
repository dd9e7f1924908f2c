"""`recollect tui`: search as you type, in the terminal."""

from __future__ import annotations

import argparse

from recollect.cli.common import at_terminal, define, existing
from recollect.errors import InvalidInput, RecollectError

_EXAMPLES = """\
  recollect tui                                        start with the recent conversations
  recollect tui rain barrel                            start with a search

F1 shows the keys. Type to search, Enter reads the conversation, Ctrl+F filters,
Ctrl+Y copies the id, Ctrl+Q ends it.
"""


def define_tui(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument("query", nargs="*", help="what to search for first")


def run(arguments: argparse.Namespace) -> int:
    if arguments.json or not at_terminal():
        raise InvalidInput(
            "`recollect tui` needs a terminal. For programs: recollect search --json"
        )
    try:
        from recollect.cli.content.tui_app import SearchApp
    except ModuleNotFoundError as error:
        raise RecollectError(
            f"`recollect tui` needs more packages ({error.name} is missing): "
            "pip install 'recollect[tui]'"
        ) from error
    with existing(arguments) as library:
        SearchApp(library, " ".join(arguments.query)).run()
    return 0
