"""`recollect list`, `read` and `open`: list conversations, and read one."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from recollect.cli.common import (
    add_flag,
    add_list,
    add_origin_filters,
    at_terminal,
    check_filters,
    console,
    define,
    existing,
    plural,
    print_json,
    safe,
    safe_line,
    short_id,
    when,
    whole_number,
)
from recollect.cli.references import REFERENCE, Reference, remember, resolve
from recollect.errors import RecollectError
from recollect.language.text import printable_line
from recollect.library import Library
from recollect.model.documents import Document, Passage, Summary
from recollect.model.search import Filter
from recollect.model.sources import source_label
from recollect.settings import HOST, LIMITS, PORT
from recollect.transfer.export import as_json

_GAP = 2  # between columns
_MIN_TITLE = 20  # columns of the terminal
_LIST_EXAMPLES = """\
  recollect list
  recollect list --source claude-code --search deploy
  recollect list --tag garden
  recollect read 1                                     read the first one of the list
  recollect list --limit 200 --json

At a terminal, ids are as short as possible; every command accepts them. In a
pipe or a file, each line is: id, day of the last change, messages, source,
title, separated by tabs, with whole ids.
"""
_READ_EXAMPLES = """\
  recollect read 1                                     a number of the last search or list
  recollect read 7cdb59db                              an id, or the beginning of an id
  recollect read 1 --tools                             with the output of tools
  recollect read CONVERSATION --offset 100             from this message on
  recollect read CONVERSATION --message MESSAGE --around 3
  recollect read CONVERSATION --branches
  recollect read CONVERSATION --json

At a terminal, Markdown is rendered, tool output is folded, and a pager shows
what does not fit on the screen (PAGER names another one). In a pipe or a file,
messages are printed as they are stored.
"""
_BEFORE_HIT = 2
"""How many messages before a hit are shown."""


def define_list(command: argparse.ArgumentParser) -> None:
    define(command, list_, _LIST_EXAMPLES)
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, LIMITS.page_size),
        default=50,
        help="how many (default: %(default)s, at most 200)",
    )
    command.add_argument("--offset", type=whole_number(0), default=0, help="how many to skip")
    add_origin_filters(command)
    add_list(command, "--tag", "only conversations with this tag", metavar="NAME")
    add_flag(command, "--pinned", "only pinned conversations")
    command.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )


def define_read(command: argparse.ArgumentParser) -> None:
    define(command, read, _READ_EXAMPLES)
    command.add_argument("conversation", help=REFERENCE)
    command.add_argument("--message", metavar="ID", help="only the messages around this one")
    command.add_argument(
        "--around",
        type=whole_number(0, 99),
        default=5,
        metavar="N",
        help="messages before and after it (default: %(default)s)",
    )
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, LIMITS.page_size),
        help="how many messages (default: 100, or all in a pager; at most 200)",
    )
    command.add_argument(
        "--offset", type=whole_number(0), default=None, help="how many messages to skip"
    )
    add_flag(command, "--branches", "include other branches")
    add_flag(command, "--tools", "show tool output and thinking instead of folding it")
    add_flag(command, "--hidden", "include hidden messages, such as system prompts")
    add_flag(command, "--no-pager", "do not use a pager")


# -- listing -----------------------------------------------------------------


def list_(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        check_filters(library, arguments)
        summaries, total = library.conversation_page(
            Filter.of(
                projects=arguments.project,
                sources=arguments.source,
                tags=arguments.tag,
                pinned=arguments.pinned or None,
            ),
            limit=arguments.limit,
            offset=arguments.offset,
            title=arguments.search,
        )
        if arguments.json:
            records = [asdict(summary) for summary in summaries]
            page = {"total": total, "limit": arguments.limit, "offset": arguments.offset}
            print_json({"conversations": records} | page)
            return 0
        labels = [library.label(summary.id, summary.title) for summary in summaries]
        has_numbers = remember(arguments, [Reference(summary.id) for summary in summaries])
        if not at_terminal():
            print_lines(summaries, labels)
            return 0
        ids = [short_id(library, summary.id) for summary in summaries]
    if not summaries:
        console().print(nothing_listed(arguments, total))
        return 0
    console().print(_table(summaries, labels, ids, has_numbers))
    first = "1" if has_numbers else safe(ids[0])
    show_list_total(arguments, len(summaries), total, first)
    return 0


def _table(
    summaries: Sequence[Summary], labels: Sequence[str], ids: Sequence[str], has_numbers: bool
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    widths = {
        "": max(2, len(str(len(ids)))),
        "id": max(map(len, ids)),
        "changed": 10,
        "messages": 8,
        "source": 11,
    }
    headings = fitting_columns(widths, has_numbers)
    for heading in headings:
        style = "bold cyan" if not heading else ""
        justify: JustifyMethod = "right" if heading in ("", "messages") else "left"
        width = widths[heading]
        table.add_column(heading, style=style, justify=justify, no_wrap=True, min_width=width)
    table.add_column("title", overflow="ellipsis")  # the only column that may shrink
    for number, (summary, label, id_) in enumerate(zip(summaries, labels, ids, strict=True), 1):
        cells = {
            "": str(number),
            "id": safe(id_),
            "changed": day(summary),
            "messages": f"{summary.message_count:,}",
            "source": safe(source_label(summary.source)),
        }
        title = Text(_title(summary, label), no_wrap=True, overflow="ellipsis")
        table.add_row(*(cells[heading] for heading in headings), title)
    return table


def fitting_columns(widths: Mapping[str, int], has_numbers: bool) -> list[str]:
    """The columns for which a terminal has room besides the titles.

    Numbers or ids stay, because other commands need one of them.
    """
    columns = list(widths)
    optional = ["source", "messages", "id", "changed"]
    if not has_numbers:
        columns.remove("")
        optional.remove("id")
    room = console().width - _MIN_TITLE
    for column in optional:
        if sum(widths[each] + _GAP for each in columns) > room:
            columns.remove(column)
    return columns


def nothing_listed(arguments: argparse.Namespace, total: int) -> str:
    if total:
        return f"No more conversations; there are {total:,}."
    if arguments.pinned:
        return "No conversations are pinned. Pin one: recollect pin 1"
    if arguments.project or arguments.source or arguments.tag or arguments.search:
        return "No conversations match."
    return "There are no conversations yet. Import some: recollect setup"


def show_list_total(arguments: argparse.Namespace, count: int, total: int, first: str) -> None:
    line = plural(total, "conversation")
    last = arguments.offset + count
    if count < total:
        line = f"{arguments.offset + 1:,} to {last:,} of {line}"
    if last < total:
        line += f" · more with --offset {last}"
    console().print(f"[dim]{line} · read one: recollect read {first}[/]")


def print_lines(summaries: list[Summary], labels: list[str]) -> None:
    """For programs: one line per conversation, with tabs between the fields."""
    for summary, label in zip(summaries, labels, strict=True):
        fields = (
            summary.id,
            day(summary),
            str(summary.message_count),
            summary.source,
            label,
        )
        sys.stdout.write("\t".join(map(one_line, fields)) + "\n")


def _title(summary: Summary, label: str) -> str:
    if summary.metadata.get("pinned") is True:
        return f"★ {one_line(label)}"
    return one_line(label)


def day(summary: Summary) -> str:
    changed = summary.updated_at or summary.created_at
    if changed is None:
        return "no date"
    return f"{changed:%Y-%m-%d}"


def one_line(text: str) -> str:
    return printable_line(text).encode("utf-8", "replace").decode()


# -- reading -----------------------------------------------------------------


def read(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        reference = resolve(library, arguments, arguments.conversation)
        arguments.conversation = reference.id
        out = console()
        is_paged = at_terminal() and not arguments.json and arguments.message is None
        if is_paged and arguments.limit is None:
            return read_on(library, arguments, reference.message_id)
        if arguments.message is None and arguments.offset is None:
            arguments.message = reference.message_id
        page = read_page(library, arguments, arguments.offset or 0)
        if arguments.json:
            document = replace(page.document, passages=page.passages)
            print_json(as_json(document) | {"offset": page.offset, "total": page.total})
            return 0
        print_heading(library, page, out)
        print_messages(page.passages, arguments, out, arguments.message)
        show_where(page, arguments)
    return 0


def read_on(library: Library, arguments: argparse.Namespace, hit: str | None) -> int:
    """Show a conversation in a pager: from the start, or from shortly before the hit."""
    from recollect.cli.terminal import MessagePrinter, paged, visible

    start = arguments.offset
    if start is None:
        start = start_of_hit(library, arguments, hit)
    pages = _pages(library, arguments, start)
    first = next(pages)
    with paged(enabled=not arguments.no_pager) as out:
        print_heading(library, first, out)
        if start:
            out.print(f"[dim]From message {start + 1:,} of {first.total:,}; all: --offset 0[/]\n")
        printer = MessagePrinter(out, shows_tools=arguments.tools, marked_id=hit)
        for page in chain([first], pages):
            for passage in visible(page.passages, hidden=arguments.hidden, marked_id=hit):
                printer.print(passage)
        if printer.folded:
            out.print("\n[dim]Tool output and thinking are folded; --tools shows them.[/]")
    return 0


def start_of_hit(library: Library, arguments: argparse.Namespace, hit: str | None) -> int:
    if hit is None:
        return 0
    view = library.view(arguments.conversation, around=hit, limit=2 * _BEFORE_HIT + 1)
    return view.start


def _pages(library: Library, arguments: argparse.Namespace, offset: int) -> Iterator[_MessagePage]:
    """The messages from a position on. A conversation can be long, so it is read page by page."""
    while True:
        page = read_page(library, arguments, offset)
        yield page
        offset = page.offset + len(page.passages)
        if not page.passages or offset >= page.total:
            return


def print_heading(library: Library, page: _MessagePage, out: Console) -> None:
    document = page.document
    label = library.label(document.id, document.title)
    if not at_terminal():
        out.print(
            f"[bold]{safe_line(label)}[/]  [dim]{document.source} · "
            f"{when(document.created_at)} · {safe(document.project)}[/]\n"
        )
        return
    details = [
        short_id(library, document.id),
        source_label(document.source),
        when(document.created_at),
        document.project,
        page.size,
        *(f"#{tag}" for tag in _tags(document)),
    ]
    out.print(f"[bold]{safe_line(label)}[/]")
    out.print(f"[dim]{safe(' · '.join(details))}[/]\n")


def _tags(document: Document) -> list[str]:
    tags = document.metadata.get("tags")
    if isinstance(tags, list):
        return [str(tag) for tag in tags]
    return []


class _MessagePage(NamedTuple):
    document: Document
    passages: tuple[Passage, ...]
    offset: int
    total: int
    size: str
    """How many messages there are, for people."""
    is_branch: bool
    """Whether there are messages on other branches that are not shown."""


def read_page(library: Library, arguments: argparse.Namespace, offset: int) -> _MessagePage:
    """The messages to show. A conversation can be long, so only these are read."""
    id_ = arguments.conversation
    limit = arguments.limit or 100
    if arguments.branches and arguments.message is None:
        passages, total = library.messages(id_, offset, limit)
        document = library.view(id_, limit=1).document
        return _MessagePage(
            document, tuple(passages), offset, total, plural(total, "message"), False
        )
    if arguments.message is None:
        view = library.view(id_, start=offset, limit=limit)
    else:
        view = library.view(id_, around=arguments.message, limit=2 * arguments.around + 1)
    passages = [message.passage for message in view.messages]
    is_branch = view.total < view.conversation_total
    return _MessagePage(
        view.document, tuple(passages), view.start, view.total, view.size, is_branch
    )


def print_messages(
    passages: tuple[Passage, ...], arguments: argparse.Namespace, out: Console, hit: str | None
) -> None:
    """Render messages for a terminal; print them as they are in a pipe."""
    from recollect.cli.terminal import MessagePrinter, heading, visible

    messages = visible(passages, hidden=arguments.hidden, marked_id=hit)
    if at_terminal():
        printer = MessagePrinter(out, shows_tools=arguments.tools, marked_id=hit)
        for passage in messages:
            printer.print(passage)
        return
    for passage in messages:
        out.print(heading(passage, is_marked=passage.id == hit))
        out.print(safe(passage.content), soft_wrap=True)
        out.print()


def show_where(page: _MessagePage, arguments: argparse.Namespace) -> None:
    """Say which part of the conversation this is, and how to read on."""
    end = page.offset + len(page.passages)
    if len(page.passages) == page.total:
        return
    if not page.passages:
        console().print(f"No more messages; there are {page.total:,}.")
        return
    line = f"[dim]{page.offset + 1:,} to {end:,} of {plural(page.total, 'message')}[/]"
    if page.is_branch:
        line += "[dim] on this branch[/]"
    if end < page.total:
        id_ = safe(shlex.quote(page.document.id))
        line += f"[dim]. Continue with: recollect read {id_} --offset {end}"
        if arguments.branches:
            line += " --branches"
        line += "[/]"
    console().print(line, soft_wrap=True)


_EXAMPLES = """\
  recollect open 1                                     a number of the last search or list
  recollect open 7cdb59db                              an id, or the beginning of an id

The console must be running: `recollect serve`, or `recollect service install`.
"""
_TIMEOUT = 5
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  what to connect to instead


def define_open(command: argparse.ArgumentParser) -> None:
    define(command, open_, _EXAMPLES)
    command.add_argument("conversation", help=REFERENCE)
    command.add_argument(
        "--url",
        metavar="URL",
        help="address of the console (default: RECOLLECT_HOST and RECOLLECT_PORT)",
    )


def open_(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        reference = resolve(library, arguments, arguments.conversation)
        summary = library.summary(reference.id)
        label = library.label(summary.id, summary.title)
    address = _address(arguments.url or console_address(), reference)
    require_page(address)
    if arguments.json:
        print_json({"id": reference.id, "url": address})
        return 0
    if open_browser(address):
        console().print(f"Opened [bold]{safe_line(label)}[/] in the browser.")
    else:
        console().print(f"[bold]{safe_line(label)}[/] is at {safe(address)}", soft_wrap=True)
    return 0


def open_browser(address: str) -> bool:
    """Open a page in the user's browser. False if there is none with a window of its own."""
    import webbrowser

    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not has_screen and not os.environ.get("BROWSER"):
        return False  # it would be a browser inside the terminal
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def console_address() -> str:
    host = HOST.get()
    host = _ANY_ADDRESS.get(host, host)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{PORT.get()}"


def _address(base: str, reference: Reference) -> str:
    address = f"{base.rstrip('/')}/c/{quote(reference.id, safe='')}"
    if reference.message_id is not None:
        address += f"?m={quote(reference.message_id, safe='')}"
    return address


def require_page(address: str) -> None:
    """Raise RecollectError unless a console with this conversation runs at the address."""
    if not address.startswith(("http://", "https://")):
        raise RecollectError(f"{address} is not a web address.")
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT):  # noqa: S310  http, as checked
            return
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return  # the page asks for an API key
        raise RecollectError(
            f"The console at {address} does not have this conversation (status {error.code}). "
            "It may serve another library."
        ) from error
    except OSError as error:
        raise RecollectError(
            "The console is not running. Start it with `recollect serve`, or keep it running with "
            "`recollect service install`."
        ) from error
