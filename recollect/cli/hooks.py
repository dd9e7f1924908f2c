"""`recollect hook`: for agents. `__main__` takes the short way to it; what comes here needs help."""

from __future__ import annotations

import argparse

from recollect.capture.transcripts.hooks import EVENTS, main
from recollect.cli.common import Commands, add_command

_EXAMPLES = """\
  recollect hook session-start < event.json            what was done in this project lately, for the model
  recollect hook stop < event.json                     hand the transcript over
  recollect hook import                                take in what was handed over
"""


def register(commands: Commands) -> None:
    command = add_command(
        commands, "hook", "called by an agent's hooks (see plugin/)", run, _EXAMPLES
    )
    command.add_argument(
        "event", choices=EVENTS, help="what happened; the agent tells more on standard input"
    )


def run(given: argparse.Namespace) -> int:
    said = [f"--home={given.home}"] if given.home else []
    said += [f"--user={given.user}"] if given.user else []
    return main([*said, given.event]) or 0
