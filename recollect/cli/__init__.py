"""The command line: parse the arguments, call the library, print.

There is one module per group of commands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from recollect import __version__
from recollect.cli import (
    config,
    doctor,
    exporting,
    importing,
    indexing,
    keys,
    knowledge,
    moving,
    reading,
    redacting,
    remembering,
    searching,
    serving,
    watching,
)
from recollect.cli.common import add_library
from recollect.errors import RecollectError

_EXAMPLES = """\
examples:
  recollect import ~/Downloads/chatgpt-export.zip      import an export; the format is detected
  recollect import ~/.claude/projects ~/.codex/sessions
  recollect search how did I fix the event loop        ask a question
  recollect search deadlock --role assistant --after 2025-06-01 --json
  recollect read CONVERSATION                          read a conversation
  recollect knowledge search tomatoes                  conversations, notes, media and more
  recollect memory search 'event loop'                 what was done, decided and learned
  recollect mcp                                        serve agents over stdio
  recollect serve                                      the console and REST at 127.0.0.1:8765

Every command has its own --help.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="recollect",
        description="Store every conversation with AI, and find the right moment in it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_library(top)
    top.add_argument("--version", action="version", version=f"recollect {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    groups = (
        importing,
        searching,
        reading,
        exporting,
        knowledge,
        remembering,
        watching,
        indexing,
        moving,
        doctor,
        config,
        redacting,
        serving,
        keys,
    )
    for group in groups:
        group.register(commands)
    agents = commands.add_parser("mcp", help="serve agents over stdio (MCP)")
    agents.set_defaults(run=_serve_agents)
    return top


def _serve_agents(arguments: argparse.Namespace) -> int:
    """Start the stdio server. `__main__` usually handles `mcp` before the parser is built."""
    from recollect.serve.mcp.transports.stdio import main as serve

    options = {"--home": arguments.home, "--user": arguments.user}
    return serve([f"{flag}={value}" for flag, value in options.items() if value is not None])


def main(words: Sequence[str]) -> int:
    arguments = parser().parse_args(words)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except RecollectError as error:
        print(f"recollect: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has closed the pipe
        return 0
    except KeyboardInterrupt:
        print("recollect: Interrupted. Everything saved so far is kept.", file=sys.stderr)
        return 130
