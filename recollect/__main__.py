"""`recollect`: the command line.

Agents wait for the stdio server and for hooks, so these two commands start without the command
line's argument parser. See "MCP" in bench/README.md for what that saves.
"""

from __future__ import annotations

import gc
import os
import sys

GLOBAL_OPTIONS = ("--home", "--user")
SHORT_COMMANDS = ("list", "read", "related", "search", "stats")
"""Commands that print one answer and end."""


def run() -> None:
    """Run the program, and end the process. `main` runs a command inside another program."""
    command, _ = _split_command(sys.argv[1:])
    is_short = command in SHORT_COMMANDS
    if is_short:
        _save_time()
    status = main()
    if is_short:
        _end_process(status)
    # The interpreter looks for garbage before it exits.
    gc.freeze()
    sys.exit(status)


def main() -> int:
    arguments = sys.argv[1:]
    command, options = _split_command(arguments)
    if command == "mcp":
        from recollect.serve.mcp.transports.stdio import main as serve

        return serve(options)
    if command == "hook":
        from recollect.capture.transcripts.hooks import main as run_hook

        status = run_hook(options)
        if status is not None:
            return status
    from recollect.cli import main as run_command

    return run_command(arguments, command)


def _save_time() -> None:
    """Turn off what costs a program that ends soon more than it gains.

    Looking for garbage is 20 ms of a search. Threads for multiplying matrices are another 50 to
    130: numpy starts one per core, and each of them waits busily.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _end_process(status: int) -> None:
    """End without freeing every object first, which is 11 ms of a search.

    If the output cannot be written, the interpreter reports that when it exits.
    """
    try:
        sys.stdout.flush()
    except OSError:
        return
    os._exit(status)


def _split_command(arguments: list[str]) -> tuple[str, list[str]]:
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
