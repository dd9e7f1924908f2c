"""`recollect list` and `recollect read`: what is there, and what it says."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from recollect.cli.common import Commands, add_command, console, existing, print_json, safe, when
from recollect.errors import NotFound
from recollect.language.text import printable
from recollect.model.documents import Document, Passage
from recollect.model.sources import SOURCES
from recollect.transfer.export import as_json

_LIST_EXAMPLES = """\
  recollect list
  recollect list --source claude-code --search deploy
  recollect list --limit 200 --json
"""
_READ_EXAMPLES = """\
  recollect read CONVERSATION
  recollect read CONVERSATION --message MESSAGE --around 3
  recollect read CONVERSATION --branches
  recollect read CONVERSATION --json
"""


def register(commands: Commands) -> None:
    listing = add_command(
        commands, "list", "list conversations, last changed first", list_, _LIST_EXAMPLES
    )
    listing.add_argument(
        "--limit", type=int, default=50, help="how many (default: %(default)s, at most 200)"
    )
    listing.add_argument("--offset", type=int, default=0, help="how many to pass over")
    listing.add_argument(
        "--project",
        action="append",
        default=[],
        metavar="NAME",
        help="only this project",
    )
    listing.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(SOURCES)}",
    )
    listing.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )
    reading = add_command(commands, "read", "read one conversation", read, _READ_EXAMPLES)
    reading.add_argument("conversation", help="its id, as `list` and `search` show it")
    reading.add_argument("--message", metavar="ID", help="only around this message")
    reading.add_argument(
        "--around",
        type=int,
        default=5,
        metavar="N",
        help="messages before and after it (default: %(default)s)",
    )
    reading.add_argument("--branches", action="store_true", help="also branches that were left")
    reading.add_argument(
        "--hidden", action="store_true", help="include hidden messages, such as system prompts"
    )


def list_(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        found, total = library.conversations(
            limit=arguments.limit,
            offset=arguments.offset,
            projects=arguments.project,
            sources=arguments.source,
            search=arguments.search,
        )
    if arguments.json:
        print_json(
            {
                "conversations": [asdict(s) for s in found],
                "total": total,
                "limit": arguments.limit,
                "offset": arguments.offset,
            }
        )
        return 0
    out = console()
    table = Table("title", "id", "changed", "messages", "source", box=SIMPLE_HEAD, pad_edge=False)
    ids = max((len(s.id) for s in found), default=0)
    room = max(16, out.width - ids - 46)  # the id is for copying, so it is the title that gives way
    for summary in found:
        changed = summary.updated_at or summary.created_at
        title = Text(printable(summary.title) or "Untitled")
        title.truncate(room, overflow="ellipsis")
        table.add_row(
            title,
            safe(summary.id),
            f"{changed:%Y-%m-%d}" if changed else "",
            f"{summary.message_count:,}",
            summary.source,
        )
    out.print(table)
    out.print(f"[dim]{len(found):,} of {total:,}[/]")
    return 0


def read(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        document = library.conversation(arguments.conversation)
    if arguments.json:
        print_json(as_json(document))
        return 0
    out = console()
    out.print(
        f"[bold]{safe(document.title) or 'Untitled'}[/]  [dim]{document.source} · {when(document.created_at)} · "
        f"{safe(document.project)}[/]\n"
    )
    for passage in _shown(document, arguments):
        _show(passage, arguments.message)
    return 0


def _shown(document: Document, arguments: argparse.Namespace) -> list[Passage]:
    passages = [
        p
        for p in document.passages
        if (p.canonical or arguments.branches or p.id == arguments.message)
        and (p.visibility != "hidden" or arguments.hidden or p.id == arguments.message)
    ]
    if arguments.message is None:
        return passages
    for at, passage in enumerate(passages):
        if passage.id == arguments.message:
            return passages[max(0, at - arguments.around) : at + arguments.around + 1]
    raise NotFound(f"There is no message {arguments.message!r} in conversation {document.id!r}.")


def _show(passage: Passage, wanted: str | None) -> None:
    out = console()
    mark = "[bold yellow]▶[/] " if passage.id == wanted else ""
    about = [
        when(passage.created_at),
        passage.model,
        passage.tool,
        passage.type if passage.type != "message" else None,
        None if passage.canonical else "on another branch",
    ]
    name = safe(passage.author or passage.role or "unknown")
    out.print(f"{mark}[bold cyan]{name}[/]  [dim]{safe(' · '.join(a for a in about if a))}[/]")
    out.print(safe(passage.content), soft_wrap=True)
    out.print()
