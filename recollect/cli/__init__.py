"""The command line: parse, call the library, show. One file a group of commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from recollect import __version__
from recollect.cli import (
    care,
    config,
    exporting,
    hooks,
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
  recollect search how did I fix the event loop        find a moment
  recollect search deadlock --role assistant --after 2025-06-01 --json
  recollect read CONVERSATION                          read a conversation
  recollect knowledge search tomatoes                  notes, media, chats, characters and prompts at once
  recollect memory search 'event loop'                 what was done, decided and learned
  recollect mcp                                        serve agents over stdio
  recollect serve                                      the console and REST, at http://127.0.0.1:8765

Every command has its own --help.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="recollect",
        description="Keeps every conversation with AI, verbatim, and finds the right moment in it.",
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
        care,
        config,
        redacting,
        serving,
        keys,
        hooks,
    )
    for group in groups:
        group.register(commands)
    agents = commands.add_parser("mcp", help="serve agents over stdio (MCP)")
    agents.set_defaults(run=_serve_agents)
    return top


def _serve_agents(given: argparse.Namespace) -> int:
    """Seldom: `__main__` takes this command before it comes here, unless an option before it is abbreviated."""
    from recollect.serve.mcp.transports.stdio import main as serve

    said = {"--home": given.home, "--user": given.user}
    return serve([f"{flag}={value}" for flag, value in said.items() if value is not None])


def main(arguments: Sequence[str]) -> int:
    given = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = given.run
    try:
        return run(given)
    except RecollectError as error:
        print(f"recollect: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has seen enough
        return 0
    except KeyboardInterrupt:
        print("recollect: stopped; what was saved stays saved.", file=sys.stderr)
        return 130
