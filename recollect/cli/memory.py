"""`recollect memory`: search, read and forget what was done in past conversations."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from recollect.cli.common import (
    Commands,
    add_command,
    add_flag,
    add_list,
    define_group,
    existing,
    print_json,
    whole_number,
)
from recollect.language.text import printable

_EXAMPLES = """\
  recollect memory search 'authentication'             what was done, decided and learned
  recollect memory search 'login' --type bugfix --file auth.ts --project my-api
  recollect memory get obs-1a2b3c4d5e6f7a8b            the details of one, with its source
  recollect memory read /my-api/SESSION.jsonl --lines 40-80
  recollect memory timeline 2025-12-01                 what happened around a day
  recollect memory forget --project old-app --yes      delete a project's conversations permanently

Every action has its own --help.
"""
_SEARCH_EXAMPLES = """\
  recollect memory search 'refresh tokens'
  recollect memory search ERR_AUTH_FAILED --mode text
  recollect memory search 'React Router' --and JWT     conversations that have both
  recollect memory search tests --type bugfix --type test --after 2025-09-01 --json
"""
_GET_EXAMPLES = "  recollect memory get obs-1a2b3c4d5e6f7a8b obs-8b7a6f5e4d3c2b1a\n"
_READ_EXAMPLES = """\
  recollect memory read /my-api/SESSION.jsonl
  recollect memory read /my-api/SESSION.jsonl --lines 40-80
  recollect memory read obs-1a2b3c4d5e6f7a8b --tool-results
"""
_TIMELINE_EXAMPLES = """\
  recollect memory timeline obs-1a2b3c4d5e6f7a8b
  recollect memory timeline 2025-12-01 --before 10 --after 10 --project my-api
"""
_FORGET_EXAMPLES = """\
  recollect memory forget obs-1a2b3c4d5e6f7a8b                 show what would be deleted
  recollect memory forget obs-1a2b3c4d5e6f7a8b --yes  the messages stay
  recollect memory forget obs-1a2b3c4d5e6f7a8b --conversation --yes
  recollect memory forget --path /my-api/SESSION.jsonl --yes
  recollect memory forget --project my-api --before 2024-12-31 --yes
"""


def define_memory(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    add_search(actions)
    add_get(actions)
    add_read(actions)
    add_timeline(actions)
    add_forget(actions)


def add_search(actions: Commands) -> None:
    command = add_command(actions, "search", "search observations", search, _SEARCH_EXAMPLES)
    command.add_argument("query", nargs="+", help="a question or words")
    add_list(command, "--and", "another concept; may be repeated", dest="also", metavar="WORDS")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words, meaning or both",
    )
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, 50),
        default=10,
        help="results to show (default: %(default)s, at most 50)",
    )
    command.add_argument("--after", metavar="DATE", help="only on or after this day (YYYY-MM-DD)")
    command.add_argument("--before", metavar="DATE", help="only on or before this day")
    for option, description in (
        ("project", "this project"),
        ("type", "this type"),
        ("concept", "with this concept"),
        ("file", "about this file"),
    ):
        add_list(command, f"--{option}", f"only {description}", metavar="NAME")
    add_flag(command, "--compact", "print one line per result instead of Markdown")


def add_get(actions: Commands) -> None:
    command = add_command(actions, "get", "show the details of observations", get, _GET_EXAMPLES)
    command.add_argument(
        "ids", nargs="+", metavar="ID", help="up to 20 ids, as `search` shows them"
    )


def add_read(actions: Commands) -> None:
    command = add_command(
        actions, "read", "read a conversation, or some of its lines", read, _READ_EXAMPLES
    )
    command.add_argument(
        "path", help="a path, as `search` and `get` show it, or an observation's id"
    )
    command.add_argument(
        "--lines", type=lines, default=(None, None), metavar="A-B", help="only these lines"
    )
    add_flag(command, "--tool-results", "print the results of tools, too")
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="stop after about so many tokens"
    )


def add_timeline(actions: Commands) -> None:
    command = add_command(
        actions,
        "timeline",
        "show what happened around an observation or a date",
        timeline,
        _TIMELINE_EXAMPLES,
    )
    command.add_argument("anchor", help="an observation's id, or a date")
    command.add_argument(
        "--before",
        type=int,
        default=5,
        metavar="N",
        help="observations before it (default: %(default)s)",
    )
    command.add_argument(
        "--after",
        type=int,
        default=5,
        metavar="N",
        help="observations after it (default: %(default)s)",
    )
    add_list(command, "--project", "only this project", metavar="NAME")


def add_forget(actions: Commands) -> None:
    command = add_command(
        actions,
        "forget",
        "delete observations or conversations permanently",
        forget,
        _FORGET_EXAMPLES,
    )
    command.add_argument("ids", nargs="*", metavar="ID", help="up to 20 observations")
    add_flag(command, "--conversation", "also delete their conversations")
    command.add_argument("--path", default="", help="the conversation at this path")
    command.add_argument(
        "--project", default="", metavar="NAME", help="all conversations of this project"
    )
    command.add_argument(
        "--after", metavar="DATE", help="only conversations entirely on or after this day"
    )
    command.add_argument(
        "--before", metavar="DATE", help="only conversations entirely on or before this day"
    )
    add_flag(command, "--yes", "delete (default: only show what would be deleted)")


def search(arguments: argparse.Namespace) -> int:
    from recollect.memory import rendering
    from recollect.memory.formats import COMMAND_OPTIONS
    from recollect.memory.rendering import search_compact
    from recollect.memory.results import MemoryFilter

    first = " ".join(arguments.query)
    query: str | list[str] = first
    if arguments.also:
        query = [first, *arguments.also]
    with existing(arguments) as library:
        filters = MemoryFilter(
            after=arguments.after,
            before=arguments.before,
            projects=arguments.project,
            types=arguments.type,
            concepts=arguments.concept,
            files=arguments.file,
        )
        result = library.memory.search(query, filters, mode=arguments.mode, limit=arguments.limit)
    text = rendering.search_text(result, query)
    if arguments.compact:
        text = search_compact(result, query, COMMAND_OPTIONS)
    return _print(arguments, text, rendering.search_json(result))


def get(arguments: argparse.Namespace) -> int:
    from recollect.memory import rendering

    with existing(arguments) as library:
        result = library.memory.get(arguments.ids)
    return _print(
        arguments, rendering.details_text(result), {"observations": rendering.details_json(result)}
    )


def read(arguments: argparse.Namespace) -> int:
    from recollect.memory.formats import COMMAND_OPTIONS

    with existing(arguments) as library:
        text = library.memory.read(
            arguments.path,
            *arguments.lines,
            tool_results=arguments.tool_results,
            max_tokens=arguments.max_tokens,
            names=COMMAND_OPTIONS,
        )
    return _print(arguments, text, {"path": arguments.path, "text": text})


def timeline(arguments: argparse.Namespace) -> int:
    from recollect.memory import rendering

    with existing(arguments) as library:
        result, anchor = library.memory.timeline(
            arguments.anchor,
            before=arguments.before,
            after=arguments.after,
            projects=arguments.project,
        )
    return _print(
        arguments, rendering.timeline_text(result, anchor), rendering.timeline_json(result, anchor)
    )


def forget(arguments: argparse.Namespace) -> int:
    from recollect.memory import rendering

    with existing(arguments) as library:
        result = library.memory.forget(
            arguments.ids,
            path=arguments.path,
            project=arguments.project,
            after=arguments.after,
            before=arguments.before,
            conversations=arguments.conversation,
            confirm=arguments.yes,
        )
    text = rendering.deletion_text(result, arguments.yes).replace(
        "To delete: confirm true.", "To delete: --yes."
    )
    return _print(arguments, text, rendering.deletion_json(result, arguments.yes))


def _print(arguments: argparse.Namespace, text: str, value: Any) -> int:
    if arguments.json:
        print_json(value)
    else:
        sys.stdout.write("\n".join(map(printable, text.split("\n"))) + "\n")
    return 0


def lines(text: str) -> tuple[int, int | None]:
    """`40` is one line, `40-80` a range, `40-` the rest."""
    first, dash, last = text.partition("-")
    try:
        if last:
            return int(first), int(last)
        if dash:
            return int(first), None
        return int(first), int(first)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range of lines, such as 40-80"
        ) from error
