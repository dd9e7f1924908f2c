"""`recollect hook`: called by agents. `__main__` usually runs it before the parser is built."""

from __future__ import annotations

import argparse

from recollect.capture.transcripts.hooks import EVENTS, main
from recollect.cli.common import Commands, add_command

_EXAMPLES = """\
  recollect hook session-start < event.json            recent work in this project, for the model
  recollect hook stop < event.json                     queue the transcript for import
  recollect hook import                                import what is queued
"""


def register(commands: Commands) -> None:
    command = add_command(
        commands, "hook", "called by an agent's hooks (see plugin/)", run, _EXAMPLES
    )
    command.add_argument(
        "event", choices=EVENTS, help="the event; the agent writes its details to standard input"
    )


def run(arguments: argparse.Namespace) -> int:
    words = [arguments.event]
    if arguments.home:
        words.append(f"--home={arguments.home}")
    if arguments.user:
        words.append(f"--user={arguments.user}")
    return main(words) or 0
