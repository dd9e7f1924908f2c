"""`recollect memory`: what is remembered of past work, layer by layer, and forgetting it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from recollect.cli.common import Commands, add_command, existing, print_json
from recollect.language.text import printable

_EXAMPLES = """\
  recollect memory search 'authentication'             observations: what was done, decided and learned
  recollect memory search 'login' --type bugfix --file auth.ts --project my-api
  recollect memory get obs-1a2b3c4d5e6f7a8b            the details of one, with where it comes from
  recollect memory read /my-api/SESSION.jsonl --lines 40-80
  recollect memory timeline 2025-12-01                 what happened around a day
  recollect memory forget --project old-app --yes      conversations and all, for good

Every action has its own --help.
"""
_SEARCH_EXAMPLES = """\
  recollect memory search 'refresh tokens'
  recollect memory search ERR_AUTH_FAILED --mode text
  recollect memory search 'React Router' --and authentication --and JWT      conversations that have all of them
  recollect memory search tests --type bugfix --type test --after 2025-09-01 --json
"""
_GET_EXAMPLES = "  recollect memory get obs-1a2b3c4d5e6f7a8b obs-8b7a6f5e4d3c2b1a\n"
_READ_EXAMPLES = """\
  recollect memory read /my-api/SESSION.jsonl
  recollect memory read /my-api/SESSION.jsonl --lines 40-80
"""
_TIMELINE_EXAMPLES = """\
  recollect memory timeline obs-1a2b3c4d5e6f7a8b
  recollect memory timeline 2025-12-01 --before 10 --after 10 --project my-api
"""
_FORGET_EXAMPLES = """\
  recollect memory forget obs-1a2b3c4d5e6f7a8b                 says what would be deleted
  recollect memory forget obs-1a2b3c4d5e6f7a8b --yes           the observation alone; what was said stays
  recollect memory forget obs-1a2b3c4d5e6f7a8b --conversation --yes
  recollect memory forget --path /my-api/SESSION.jsonl --yes
  recollect memory forget --project my-api --until 2024-12-31 --yes
"""


def register(commands: Commands) -> None:
    group: argparse.ArgumentParser = commands.add_parser(
        "memory",
        help="what was done, decided and learned in past conversations",
        description="What was done, decided and learned in past conversations.",
        epilog="examples:\n" + _EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = group.add_subparsers(dest="action", metavar="ACTION", required=True)
    found = add_command(actions, "search", "find observations", search, _SEARCH_EXAMPLES)
    found.add_argument("query", nargs="+", help="a question or words")
    found.add_argument(
        "--and", action="append", default=[], dest="also", metavar="WORDS", help="and this, too"
    )
    found.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words, meaning or both",
    )
    found.add_argument(
        "--limit", type=int, default=10, help="results to show (default: %(default)s, at most 50)"
    )
    found.add_argument("--after", metavar="DATE", help="not before this day (YYYY-MM-DD)")
    found.add_argument("--before", metavar="DATE", help="not after this day")
    for option, what in (
        ("project", "of this project"),
        ("type", "of this type"),
        ("concept", "with this concept"),
        ("file", "about this file"),
    ):
        found.add_argument(
            f"--{option}", action="append", default=[], metavar="NAME", help=f"only {what}"
        )
    details = add_command(actions, "get", "show the details of observations", get, _GET_EXAMPLES)
    details.add_argument(
        "ids", nargs="+", metavar="ID", help="up to 20 ids, as `search` shows them"
    )
    whole = add_command(actions, "read", "read the conversation of a path", read, _READ_EXAMPLES)
    whole.add_argument("path", help="a path, as `search` and `get` show it")
    whole.add_argument(
        "--lines", type=_lines, default=(1, None), metavar="A-B", help="only these lines"
    )
    around = add_command(
        actions, "timeline", "show what happened around a time", timeline, _TIMELINE_EXAMPLES
    )
    around.add_argument("anchor", help="an observation's id, or a date")
    around.add_argument(
        "--before", type=int, default=5, metavar="N", help="so many before (default: %(default)s)"
    )
    around.add_argument(
        "--after", type=int, default=5, metavar="N", help="so many after (default: %(default)s)"
    )
    around.add_argument(
        "--project", action="append", default=[], metavar="NAME", help="only of this project"
    )
    _add_forget(actions)


def _add_forget(actions: Commands) -> None:
    gone = add_command(
        actions, "forget", "delete observations or conversations for good", forget, _FORGET_EXAMPLES
    )
    gone.add_argument("ids", nargs="*", metavar="ID", help="up to 20 observations")
    gone.add_argument(
        "--conversation", action="store_true", help="with the conversations that they were made of"
    )
    gone.add_argument("--path", default="", help="the conversation of this path")
    gone.add_argument(
        "--project", default="", metavar="NAME", help="the conversations of this project"
    )
    gone.add_argument(
        "--since", metavar="DATE", help="conversations that lie wholly on or after this day"
    )
    gone.add_argument(
        "--until", metavar="DATE", help="conversations that lie wholly on or before this day"
    )
    gone.add_argument(
        "--yes", action="store_true", help="delete; without it, only what would be deleted is said"
    )


def search(arguments: argparse.Namespace) -> int:
    from recollect.memory import render as remembered

    first = " ".join(arguments.query)
    query: str | list[str] = [first, *arguments.also] if arguments.also else first
    with existing(arguments) as library:
        found = library.memory.search(
            query,
            mode=arguments.mode,
            limit=arguments.limit,
            after=arguments.after,
            before=arguments.before,
            projects=arguments.project,
            types=arguments.type,
            concepts=arguments.concept,
            files=arguments.file,
        )
    return _say(arguments, remembered.search_text(found, query), remembered.search_json(found))


def get(arguments: argparse.Namespace) -> int:
    from recollect.memory import render as remembered

    with existing(arguments) as library:
        found = library.memory.get(arguments.ids)
    return _say(
        arguments, remembered.details_text(found), {"observations": remembered.details_json(found)}
    )


def read(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        text = library.memory.read(arguments.path, *arguments.lines)
    return _say(arguments, text, {"path": arguments.path, "text": text})


def timeline(arguments: argparse.Namespace) -> int:
    from recollect.memory import render as remembered

    with existing(arguments) as library:
        found, anchor = library.memory.timeline(
            arguments.anchor,
            before=arguments.before,
            after=arguments.after,
            projects=arguments.project,
        )
    return _say(
        arguments, remembered.timeline_text(found, anchor), remembered.timeline_json(found, anchor)
    )


def forget(arguments: argparse.Namespace) -> int:
    from recollect.memory import render as remembered

    with existing(arguments) as library:
        gone = library.memory.forget(
            arguments.ids,
            path=arguments.path,
            project=arguments.project,
            after=arguments.since,
            before=arguments.until,
            conversations=arguments.conversation,
            confirm=arguments.yes,
        )
    text = remembered.forgotten_text(gone, arguments.yes).replace(
        "To delete: confirm true.", "To delete: --yes."
    )
    return _say(arguments, text, remembered.forgotten_json(gone, arguments.yes))


def _say(arguments: argparse.Namespace, text: str, value: Any) -> int:
    if arguments.json:
        print_json(value)
    else:
        sys.stdout.write("\n".join(map(printable, text.split("\n"))) + "\n")
    return 0


def _lines(said: str) -> tuple[int, int | None]:
    first, dash, last = said.partition("-")
    try:
        return int(first), int(last) if last else None if dash else int(first)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{said!r} is no range of lines, such as 40-80") from error
