"""`recollect`: the command line.

Agents wait for the stdio server and for hooks, so these two commands start without the command
line's argument parser. See "MCP" in bench/README.md for what that saves.
"""

from __future__ import annotations

import gc
import sys

GLOBAL_OPTIONS = ("--home", "--user")


def main() -> int:
    arguments = sys.argv[1:]
    position = _command_position(arguments)
    options = arguments[:position] + arguments[position + 1 :]
    command = arguments[position : position + 1]
    if command == ["mcp"]:
        from recollect.serve.mcp.transports.stdio import main as serve

        return serve(options)
    if command == ["hook"]:
        from recollect.capture.transcripts.hooks import main as run_hook

        status = run_hook(options)
        if status is not None:
            return status
    from recollect.cli import main as run_command

    status = run_command(arguments)
    # The interpreter looks for garbage before it exits, which is a tenth of the CPU of a search.
    gc.freeze()
    return status


def _command_position(arguments: list[str]) -> int:
    """The index of the command: the first word that is not a global option or its value."""
    position = 0
    while position < len(arguments):
        option, equals, _ = arguments[position].partition("=")
        if option not in GLOBAL_OPTIONS:
            break
        position += 1
        if not equals:
            position += 1
    return position


if __name__ == "__main__":
    sys.exit(main())
