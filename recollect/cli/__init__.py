"""The command line: parse the arguments, call the library, print.

There is one module per group of commands. It is imported when one of its commands is used, so
that `--version`, `--help` and every other command start fast.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

from recollect import __version__
from recollect.errors import RecollectError

TYPE_CHECKING = False  # typing is not needed to print the help
if TYPE_CHECKING:
    from typing import Any

COMMANDS = {
    "setup": ("importing", "find conversations on this computer, and import them"),
    "import": (
        "importing",
        "import exports, transcripts, notes, media, characters and prompts",
    ),
    "search": ("searching", "search messages by words and meaning"),
    "tui": ("searching", "search as you type, in the terminal"),
    "related": ("searching", "find messages similar to another one"),
    "list": ("reading", "list conversations, most recently changed first"),
    "read": ("reading", "read one conversation"),
    "open": ("reading", "open a conversation in the browser"),
    "tag": ("editing", "add tags to a conversation"),
    "untag": ("editing", "remove tags from a conversation"),
    "rename": ("editing", "change the title of a conversation"),
    "pin": ("editing", "pin conversations"),
    "unpin": ("editing", "remove the pins of conversations"),
    "delete": ("editing", "delete conversations; `undo` restores them for an hour"),
    "undo": ("editing", "undo the last change of a conversation"),
    "export": ("exporting", "export one conversation or everything"),
    "knowledge": ("knowledge", "find, read and write notes, media, characters and prompts"),
    "memory": (
        "memory",
        "search what was done, decided and learned in past conversations",
    ),
    "watch": ("watching", "import the transcripts of coding agents while they are written"),
    "hook": ("watching", "run by the hooks of a coding agent (see docs/plugin.md)"),
    "archive": ("watching", "list or restore archived transcripts"),
    "index": ("indexing", "index and embed new messages"),
    "model": ("indexing", "show or download the embedding model"),
    "postgres": ("postgres", "prepare a PostgreSQL database, and spread it over a cluster"),
    "move": ("moving", "copy a library to another place or database, and verify it"),
    "salvage": ("moving", "rescue what can be read from a damaged library"),
    "backup": ("backup", "make, list, verify and remove backups"),
    "restore": ("backup", "restore a backup"),
    "encrypt": ("moving", "encrypt all libraries in a home, or change its passphrase"),
    "decrypt": ("moving", "decrypt all libraries in a home"),
    "stats": ("doctor", "show what is in the library"),
    "doctor": ("doctor", "check the library, and repair its index"),
    "config": ("config", "show or change the settings"),
    "redact": ("privacy", "remove secrets from the library"),
    "forget": ("privacy", "delete messages, conversations and items for good"),
    "audit": ("privacy", "report what is risky in the library; show the audit log"),
    "serve": ("serving", "serve REST, the console and metrics over HTTP"),
    "worker": ("serving", "run imports and indexing for servers, in a process of its own"),
    "service": (
        "service",
        "run the console or the watcher in the background, from login on",
    ),
    "completion": ("completing", "print the completion script of a shell"),
    "keys": ("keys", "create, list and revoke API keys"),
    "mcp": ("serving", "serve agents over stdio (MCP)"),
}
"""Each command with its module, which declares its arguments, and a summary."""
_EXAMPLES = """\
examples:
  recollect setup                                      find conversations on this computer
  recollect import ~/Downloads/chatgpt-export.zip      import an export; the format is detected
  recollect import ~/.claude/projects ~/.codex/sessions
  recollect search how did I fix the event loop        ask a question
  recollect search deadlock --role assistant --after 2025-06-01 --json
  recollect read 1                                     read the first hit
  recollect tui                                        search as you type
  recollect knowledge search tomatoes                  conversations, notes, media and more
  recollect memory search 'event loop'                 what was done, decided and learned
  recollect mcp                                        serve agents over stdio
  recollect serve --open                               the console, in your browser

Every command has its own --help.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the command or action that was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action.choices, dict) and value not in action.choices:
            from recollect.cli.suggestions import describe_unknown

            noun = str(action.metavar).strip("[]").lower()
            problem = describe_unknown(noun, str(value), list(action.choices), self.prog)
            self.exit(2, f"recollect: {problem}\n")

    def format_help(self) -> str:
        import shutil  # argparse does the same: only help needs it

        examples = self.epilog
        if examples:
            width = shutil.get_terminal_size().columns
            self.epilog = "\n".join(fit(line, width) for line in examples.splitlines())
        try:
            return super().format_help()
        finally:
            self.epilog = examples


def fit(line: str, width: int) -> str:
    """Move the remark of an example below it if the terminal is narrow."""
    command, _, remark = line.partition("   ")
    if len(line) <= width or not remark or not line.startswith("  recollect "):
        return line
    return f"{command}\n      {remark.strip()}"


class Command(Parser):
    """The parser of one command. It imports the module of the command when it is used."""

    def __init__(self, *, command: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._undefined = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.define()
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        self.define()
        return super().format_help()

    def define(self) -> None:
        name, self._undefined = self._undefined, ""
        if name:
            import_module(f"recollect.cli.{COMMANDS[name][0]}")
            import_module("recollect.cli.commands").define(self, name)


def parser(command: str = "") -> argparse.ArgumentParser:
    """The parser of the command line; of this command only, if there is such a command."""
    top = Parser(
        prog="recollect",
        description="Store every conversation with AI, and find the right moment in it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_library(top)
    top.add_argument("--version", action="version", version=f"recollect {__version__}")
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", prog="recollect", parser_class=Command
    )
    for name in [command] if command in COMMANDS else COMMANDS:
        _, summary = COMMANDS[name]
        description = f"{summary[0].upper()}{summary[1:]}."
        commands.add_parser(name, command=name, help=summary, description=description)
    return top


def add_library(parser: argparse.ArgumentParser, *, after_command: bool = False) -> None:
    """Add --home, --user and --read-only, which may stand before the command or after it."""
    default = argparse.SUPPRESS if after_command else None
    parser.add_argument(
        "--home",
        metavar="PLACE",
        default=default,
        help="where libraries are: a folder, or postgresql://… "
        "(default: RECOLLECT_HOME, or your data folder)",
    )
    parser.add_argument(
        "--user",
        metavar="NAME",
        default=default,
        help="whose library (default: RECOLLECT_USER, or default)",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        default=argparse.SUPPRESS,
        help="search and read only, and change no file (default: RECOLLECT_READ_ONLY)",
    )


def main(words: Sequence[str], command: str = "") -> int:
    """Run a command line. It starts faster if its command is given as well."""
    if "_ARGCOMPLETE" in os.environ:
        import_module("recollect.cli.completing").complete()
    for stream in (sys.stdout, sys.stderr):
        # Stored text may contain any character, and half of one.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    arguments = parse(parser(command), words)
    run: Callable[[argparse.Namespace], int | None] = arguments.run
    log = sys.modules.get("recollect.store.audit_log")
    if log is not None:
        log.set_actor(log.Actor(interface="cli"))
    if "read_only" in arguments:
        os.environ["RECOLLECT_READ_ONLY"] = "on"
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        from getpass import getpass

        from recollect import passphrases

        passphrases.prompt = getpass
    try:
        status = run(arguments) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except RecollectError as error:
        print(f"recollect: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has closed the pipe
        return 0
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it cannot be written, and the interpreter would try again
            with suppress(OSError):
                sys.stdout.close()
        reason = f"{error.strerror or error}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "The disk is full, so not everything was written. Free some space and retry."
        elif error.filename:
            reason = f"{error.filename}: {reason}"
        print(f"recollect: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("recollect: Interrupted. Everything saved so far is kept.", file=sys.stderr)
        return 130


def parse(top: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    arguments, unknown = top.parse_known_args(words)
    if unknown:
        from recollect.cli.suggestions import describe_unknown_words

        top.exit(2, f"recollect: {describe_unknown_words(top, words, unknown)}\n")
    if arguments.command is None:
        arguments.run = import_module("recollect.cli.overview").show_overview
    return arguments
