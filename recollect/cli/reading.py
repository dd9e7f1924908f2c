"""`recollect list` and `recollect read`: list conversations, and read one."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from recollect.cli.common import (
    add_origin_filters,
    console,
    define,
    existing,
    print_json,
    safe,
    when,
)
from recollect.language.text import printable
from recollect.library import Library
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.transfer.export import as_json

_LIST_EXAMPLES = """\
  recollect list
  recollect list --source claude-code --search deploy
  recollect list --limit 200 --json
"""
_READ_EXAMPLES = """\
  recollect read CONVERSATION
  recollect read CONVERSATION --offset 100             the next messages
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
    add_origin_filters(command)
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
    command.add_argument(
        "--limit",
        type=int,
        default=100,
        help="how many messages (default: %(default)s, at most 200)",
    )
    command.add_argument("--offset", type=int, default=0, help="how many messages to skip")
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
        labels = []
        if not arguments.json:
            labels = [library.label(summary.id, summary.title) for summary in summaries]
    if arguments.json:
        records = [asdict(summary) for summary in summaries]
        page = {"total": total, "limit": arguments.limit, "offset": arguments.offset}
        print_json({"conversations": records} | page)
        return 0
    out = console()
    table = Table("title", "id", "changed", "messages", "source", box=SIMPLE_HEAD, pad_edge=False)
    longest_id = max((len(summary.id) for summary in summaries), default=0)
    room = max(16, out.width - longest_id - 46)  # ids are for copying, so titles are truncated
    for summary, label in zip(summaries, labels, strict=True):
        title = Text(printable(label))
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
        page = _read_page(library, arguments)
        label = library.label(page.document.id, page.document.title)
    if arguments.json:
        document = replace(page.document, passages=page.passages)
        print_json(as_json(document) | {"offset": page.offset, "total": page.total})
        return 0
    out = console()
    out.print(
        f"[bold]{safe(label)}[/]  [dim]{page.document.source} · "
        f"{when(page.document.created_at)} · {safe(page.document.project)}[/]\n"
    )
    for passage in page.passages:
        if passage.visibility != "hidden" or arguments.hidden or passage.id == arguments.message:
            _show(passage, arguments.message)
    _show_where(page, arguments)
    return 0


class _MessagePage(NamedTuple):
    document: Document
    passages: tuple[Passage, ...]
    offset: int
    total: int


def _read_page(library: Library, arguments: argparse.Namespace) -> _MessagePage:
    """The messages to show. A conversation can be long, so only these are read."""
    id_ = arguments.conversation
    if arguments.branches and arguments.message is None:
        offset = max(0, arguments.offset)
        passages, total = library.messages(id_, offset, arguments.limit)
        document = library.view(id_, limit=1).document
        return _MessagePage(document, tuple(passages), offset, total)
    if arguments.message is None:
        view = library.view(id_, start=arguments.offset, limit=arguments.limit)
    else:
        view = library.view(id_, around=arguments.message, limit=2 * arguments.around + 1)
    passages = [message.passage for message in view.messages]
    return _MessagePage(view.document, tuple(passages), view.start, view.total)


def _show_where(page: _MessagePage, arguments: argparse.Namespace) -> None:
    """Say which part of the conversation this is, and how to read on."""
    end = page.offset + len(page.passages)
    if len(page.passages) == page.total:
        return
    if not page.passages:
        console().print(f"No more messages; there are {page.total:,}.")
        return
    line = f"[dim]{page.offset + 1:,} to {end:,} of {page.total:,} messages[/]"
    if end < page.total:
        line += f"[dim]. Continue with: recollect read {safe(page.document.id)} --offset {end}"
        if arguments.branches:
            line += " --branches"
        line += "[/]"
    console().print(line, soft_wrap=True)


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
