"""`recollect memory`: search, read and forget what was done in past conversations."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from recollect.cli.commands import command, command_group
from recollect.cli.common import existing, print_json
from recollect.errors import InvalidInput
from recollect.language.text import printable

# `recollect.memory` is imported where it is used, so that the help is fast.

command_group(
    "memory",
    """
    recollect memory search 'authentication'             what was done, decided and learned
    recollect memory search 'login' --type bugfix --file auth.ts --project my-api
    recollect memory get obs-1a2b3c4d5e6f7a8b            the details of one, with its source
    recollect memory read /my-api/SESSION.jsonl --lines 40-80
    recollect memory timeline 2025-12-01                 what happened around a day
    recollect memory forget --project old-app --yes      delete the project's conversations

    Every action has its own --help.
    """,
)


@command(
    "memory search",
    """
    query+           a question or words
    --and WORDS...   another concept; may be repeated
    --mode both|text|vector =both  by words, meaning or both
    -n --limit 1..50 =10  results to show, at most 50
    --after DATE     only on or after this day (YYYY-MM-DD)
    --before DATE    only on or before this day
    --project NAME...  only this project
    --type NAME...     only this type
    --concept NAME...  only with this concept
    --file NAME...     only about this file
    --compact        print one line per result instead of Markdown
    """,
    """
    recollect memory search 'refresh tokens'
    recollect memory search ERR_AUTH_FAILED --mode text
    recollect memory search 'React Router' --and JWT     conversations that have both
    recollect memory search tests --type bugfix --type test --after 2025-09-01 --json
    """,
)
def search(arguments: argparse.Namespace) -> int:
    """Search observations."""
    from recollect.memory import rendering
    from recollect.memory.formats import COMMAND_OPTIONS
    from recollect.memory.results import MemoryFilter

    first = " ".join(arguments.query)
    query = [first, *arguments.and_] if arguments.and_ else first
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
    if arguments.compact:
        text = rendering.search_compact(result, query, COMMAND_OPTIONS)
    else:
        text = rendering.search_text(result, query)
    return answer(arguments, text, rendering.search_json(result))


@command(
    "memory get",
    "ids+ ID  up to 20 ids, as `search` shows them",
    "recollect memory get obs-1a2b3c4d5e6f7a8b obs-8b7a6f5e4d3c2b1a",
)
def get(arguments: argparse.Namespace) -> int:
    """Show the details of observations."""
    from recollect.memory import rendering

    with existing(arguments) as library:
        result = library.memory.get(arguments.ids)
    value = {"observations": rendering.details_json(result)}
    return answer(arguments, rendering.details_text(result), value)


@command(
    "memory read",
    """
    path             a path, as `search` and `get` show it, or an observation's id
    --lines A-B      only these lines
    --tool-results   print the results of tools, too
    --max-tokens 1..  stop after about so many tokens
    """,
    """
    recollect memory read /my-api/SESSION.jsonl
    recollect memory read /my-api/SESSION.jsonl --lines 40-80
    recollect memory read obs-1a2b3c4d5e6f7a8b --tool-results
    """,
)
def read(arguments: argparse.Namespace) -> int:
    """Read a conversation, or some of its lines."""
    from recollect.memory.formats import COMMAND_OPTIONS

    first, last = parse_lines(arguments.lines) if arguments.lines else (None, None)
    with existing(arguments) as library:
        text = library.memory.read(
            arguments.path,
            first,
            last,
            tool_results=arguments.tool_results,
            max_tokens=arguments.max_tokens,
            names=COMMAND_OPTIONS,
        )
    return answer(arguments, text, {"path": arguments.path, "text": text})


@command(
    "memory timeline",
    """
    anchor         an observation's id, or a date
    --before 0.. =5  observations before it
    --after 0.. =5   observations after it
    --project NAME...  only this project
    """,
    """
    recollect memory timeline obs-1a2b3c4d5e6f7a8b
    recollect memory timeline 2025-12-01 --before 10 --after 10 --project my-api
    """,
)
def timeline(arguments: argparse.Namespace) -> int:
    """Show what happened around an observation or a date."""
    from recollect.memory import rendering

    with existing(arguments) as library:
        result, anchor = library.memory.timeline(
            arguments.anchor,
            before=arguments.before,
            after=arguments.after,
            projects=arguments.project,
        )
    value = rendering.timeline_json(result, anchor)
    return answer(arguments, rendering.timeline_text(result, anchor), value)


@command(
    "memory forget",
    """
    ids* ID          up to 20 observations
    --conversation   also delete their conversations
    --path PATH      the conversation at this path
    --project NAME   all conversations of this project
    --after DATE     only conversations entirely on or after this day
    --before DATE    only conversations entirely on or before this day
    --yes            delete (default: only show what would be deleted)
    """,
    """
    recollect memory forget obs-1a2b3c4d5e6f7a8b                 show what would be deleted
    recollect memory forget obs-1a2b3c4d5e6f7a8b --yes           the messages stay
    recollect memory forget obs-1a2b3c4d5e6f7a8b --conversation --yes
    recollect memory forget --path /my-api/SESSION.jsonl --yes
    recollect memory forget --project my-api --before 2024-12-31 --yes
    """,
)
def forget(arguments: argparse.Namespace) -> int:
    """Delete observations or conversations permanently."""
    from recollect.memory import rendering

    with existing(arguments) as library:
        result = library.memory.forget(
            arguments.ids,
            path=arguments.path or "",
            project=arguments.project or "",
            after=arguments.after,
            before=arguments.before,
            conversations=arguments.conversation,
            confirm=arguments.yes,
        )
    text = rendering.deletion_text(result, arguments.yes)
    text = text.replace("To delete: confirm true.", "To delete: --yes.")
    return answer(arguments, text, rendering.deletion_json(result, arguments.yes))


def answer(arguments: argparse.Namespace, text: str, value: Any) -> int:
    if arguments.json:
        return print_json(value)
    sys.stdout.write("\n".join(map(printable, text.split("\n"))) + "\n")
    return 0


def parse_lines(text: str) -> tuple[int, int | None]:
    """`40` is one line, `40-80` a range, `40-` the rest."""
    first, dash, last = text.partition("-")
    try:
        return int(first), int(last or first) if last or not dash else None
    except ValueError:
        raise InvalidInput(f"--lines: {text!r} is not a range of lines, such as 40-80.") from None
