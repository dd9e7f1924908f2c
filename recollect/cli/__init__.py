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
from collections.abc import Callable, Iterable, Sequence
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
"""Each command with its module and a summary. `define_NAME` in the module adds its arguments."""
COMPLETION = ("completion", "words", "--")
"""How the completion script of a shell asks what fits at the cursor."""
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
    """A parser whose errors suggest the command, action or value that was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from recollect.cli.suggestions import describe_unknown

        names = [str(choice) for choice in action.choices]
        if isinstance(action.metavar, str) and action.metavar in ("COMMAND", "ACTION"):
            noun = action.metavar.lower()
            self.exit(2, f"recollect: {describe_unknown(noun, str(value), names, self.prog)}\n")
        raise argparse.ArgumentError(action, describe_unknown("value", str(value), names))

    def format_help(self) -> str:
        import shutil  # argparse does the same: only help needs it

        epilog = self.epilog
        if epilog:
            self.epilog = fit_examples(epilog, shutil.get_terminal_size().columns)
        try:
            return super().format_help()
        finally:
            self.epilog = epilog


def fit_examples(text: str, width: int) -> str:
    """Move the remarks beside examples to the left, or below them, if the terminal is narrow."""
    lines = text.splitlines()
    if all(len(line) <= width for line in lines):
        return text
    columns = [2 + len(c) for c, r in map(split_example, lines) if r and len(c + r) + 2 <= width]
    column = max(columns, default=0)
    return "\n".join(fit_example(*split_example(line), column, width) for line in lines)


def split_example(line: str) -> tuple[str, str]:
    """The command and the remark of a line. Lines that are no examples have no remark."""
    command, _, remark = line.partition("   ")
    if not line.startswith("  recollect "):
        return line, ""
    return command.rstrip(), remark.strip()


def fit_example(command: str, remark: str, column: int, width: int) -> str:
    if not remark:
        return command
    if len(command) < column and column + len(remark) <= width:
        return f"{command:<{column}}{remark}"
    if len(command) + 2 + len(remark) <= width:
        return f"{command}  {remark}"
    return f"{command}\n      {remark}"


class Command(Parser):
    """The parser of one command. It imports the module of the command when it is used."""

    def __init__(self, *, command: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._undefined = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._define()
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        self._define()
        return super().format_help()

    def _define(self) -> None:
        name = self._undefined
        if not name:
            return
        self._undefined = ""
        module, _ = COMMANDS[name]
        define = getattr(import_module(f"recollect.cli.{module}"), f"define_{name}")
        define(self)


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
    names: Iterable[str] = COMMANDS
    if command in COMMANDS:
        names = [command]
    for name in names:
        _, summary = COMMANDS[name]
        commands.add_parser(name, command=name, help=summary, description=sentence(summary))
    return top


def define_all(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with everything that the command named in `words` has. For completion."""
    top = parser()
    for word in words:
        if word in COMMANDS:
            command = _commands(top)[word]
            assert isinstance(command, Command)
            command._define()
            break
    return top


def _commands(top: argparse.ArgumentParser) -> Any:
    for action in top._actions:
        if isinstance(action.choices, dict):
            return action.choices
    return {}


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


def sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def main(words: Sequence[str], command: str = "") -> int:
    """Run a command line. It starts faster if its command is given as well."""
    if tuple(words[:3]) == COMPLETION:
        # The words to complete are no arguments: argparse would drop a `--` among them.
        complete: Callable[[Sequence[str]], int]
        complete = import_module("recollect.cli.completing").print_candidates
        return complete(words[3:])
    replace_unprintable_characters()
    arguments = parse(parser(command), words)
    run: Callable[[argparse.Namespace], int] = arguments.run
    identify()
    if "read_only" in arguments:
        os.environ["RECOLLECT_READ_ONLY"] = "on"
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        from getpass import getpass

        from recollect import passphrases

        passphrases.prompt = getpass
    try:
        status = run(arguments)
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
        close_broken_output()
        print(f"recollect: {_reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("recollect: Interrupted. Everything saved so far is kept.", file=sys.stderr)
        return 130


def replace_unprintable_characters() -> None:
    """Print a question mark for characters that the encoding of the terminal does not have.

    Stored text may contain any character, and half of one.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def close_broken_output() -> None:
    """Close standard output if it cannot be written, or the interpreter tries it again."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


def _reason(error: OSError) -> str:
    """What a person needs to know about an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full, so not everything was written. Free some space and try again."
    reason = error.strerror or str(error)
    if error.filename:
        return f"{error.filename}: {reason}."
    return f"{reason}."


def parse(top: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    arguments, unknown = top.parse_known_args(words)
    if unknown:
        from recollect.cli.suggestions import describe_unknown_words

        top.exit(2, f"recollect: {describe_unknown_words(top, words, unknown)}\n")
    if arguments.command is None:
        arguments.run = import_module("recollect.cli.overview").show_overview
    return arguments


def identify() -> None:
    """Tell the audit log, if the command loaded it, that a person at this computer acts."""
    log = sys.modules.get("recollect.store.audit_log")
    if log is not None:
        log.set_actor(log.Actor(interface="cli"))
