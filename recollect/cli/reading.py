"""`recollect list` and `recollect read`: list conversations, and read one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from recollect.cli.common import console, define, existing, print_json, safe, when
from recollect.errors import NotFound
from recollect.language.text import printable
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
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


def define_list(command: argparse.ArgumentParser) -> None:
    define(command, list_, _LIST_EXAMPLES)
    command.add_argument(
        "--limit", type=int, default=50, help="how many (default: %(default)s, at most 200)"
    )
    command.add_argument("--offset", type=int, default=0, help="how many to skip")
    command.add_argument(
        "--project",
        action="append",
        default=[],
        metavar="NAME",
        help="only this project",
    )
    command.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(SOURCES)}",
    )
    command.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )


def define_read(command: argparse.ArgumentParser) -> None:
    define(command, read, _READ_EXAMPLES)
    command.add_argument("conversation", help="its id, as `list` and `search` show it")
    command.add_argument("--message", metavar="ID", help="only the messages around this one")
    command.add_argument(
        "--around",
        type=int,
        default=5,
        metavar="N",
        help="messages before and after it (default: %(default)s)",
    )
    command.add_argument("--branches", action="store_true", help="include other branches")
    command.add_argument(
        "--hidden", action="store_true", help="include hidden messages, such as system prompts"
    )


def list_(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        summaries, total = library.conversations(
            Filter.of(projects=arguments.project, sources=arguments.source),
            limit=arguments.limit,
            offset=arguments.offset,
            title=arguments.search,
        )
    if arguments.json:
        records = [asdict(summary) for summary in summaries]
        page = {"total": total, "limit": arguments.limit, "offset": arguments.offset}
        print_json({"conversations": records} | page)
        return 0
    out = console()
    table = Table("title", "id", "changed", "messages", "source", box=SIMPLE_HEAD, pad_edge=False)
    longest_id = max((len(summary.id) for summary in summaries), default=0)
    room = max(16, out.width - longest_id - 46)  # ids are for copying, so titles are truncated
    for summary in summaries:
        title = Text(printable(summary.title) or "Untitled")
        title.truncate(room, overflow="ellipsis")
        changed = summary.updated_at or summary.created_at
        day = ""
        if changed:
            day = f"{changed:%Y-%m-%d}"
        count = f"{summary.message_count:,}"
        table.add_row(title, safe(summary.id), day, count, summary.source)
    out.print(table)
    out.print(f"[dim]{len(summaries):,} of {total:,}[/]")
    return 0


def read(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        document = library.conversation(arguments.conversation)
    if arguments.json:
        print_json(as_json(document))
        return 0
    out = console()
    out.print(
        f"[bold]{safe(document.title) or 'Untitled'}[/]  "
        f"[dim]{document.source} · {when(document.created_at)} · {safe(document.project)}[/]\n"
    )
    for passage in _passages_to_show(document, arguments):
        _show(passage, arguments.message)
    return 0


def _passages_to_show(document: Document, arguments: argparse.Namespace) -> list[Passage]:
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


def _show(passage: Passage, marked_id: str | None) -> None:
    out = console()
    details = [when(passage.created_at), passage.model, passage.tool]
    if passage.type != "message":
        details.append(passage.type)
    if not passage.canonical:
        details.append("on another branch")
    name = safe(passage.author or passage.role or "unknown")
    line = f"[bold cyan]{name}[/]  [dim]{safe(' · '.join(item for item in details if item))}[/]"
    if passage.id == marked_id:
        line = f"[bold yellow]▶[/] {line}"
    out.print(line)
    out.print(safe(passage.content), soft_wrap=True)
    out.print()
