"""`recollect`: the command line.

Agents wait for the stdio server and for hooks, so these two commands start without the command
line's argument parser. See "MCP" in bench/README.md for what that saves.
"""

from __future__ import annotations

import os
import sys

GLOBAL_OPTIONS = ("--home", "--user")
SHORT_COMMANDS = ("list", "read", "related", "search", "stats")
"""Commands that print one answer and end."""


def run() -> None:
    """Run the program, and end the process. `main` runs a command inside another program."""
    command, _ = split_command(sys.argv[1:])
    if command in SHORT_COMMANDS:
        # numpy starts a thread per core to multiply matrices, and each waits busily: 50 to 130 ms.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())


def main() -> int:
    arguments = sys.argv[1:]
    command, options = split_command(arguments)
    if command == "mcp":
        from recollect.serve.mcp.stdio import main as serve

        return serve(options)
    if command == "hook":
        from recollect.capture.hooks import main as run_hook

        status = run_hook(options)
        if status is not None:
            return status
    from recollect.cli import main as run_command

    return run_command(arguments, command)


def split_command(arguments: list[str]) -> tuple[str, list[str]]:
    """The command, which is the first word that is not a global option or its value, and the
    other arguments."""
    position = 0
    while position < len(arguments):
        option, equals, _ = arguments[position].partition("=")
        if option not in GLOBAL_OPTIONS:
            break
        position += 1
        if not equals:
            position += 1
    command = "".join(arguments[position : position + 1])
    return command, arguments[:position] + arguments[position + 1 :]


if __name__ == "__main__":
    run()
