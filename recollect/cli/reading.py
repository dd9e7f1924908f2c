"""`recollect list`, `read` and `open`: list conversations, and read one."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import urllib.error
import urllib.request
from dataclasses import asdict, replace
from typing import NamedTuple
from urllib.parse import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from recollect.cli.commands import command
from recollect.cli.common import (
    at_terminal,
    check_filters,
    console,
    existing,
    plural,
    print_json,
    safe,
    safe_line,
    short_id,
    show,
    when,
)
from recollect.cli.references import REFERENCE, Reference, remember, resolve
from recollect.errors import RecollectError
from recollect.language.text import printable_line
from recollect.library import Library
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.model.sources import SOURCES, source_label
from recollect.settings import HOST, LIMITS, PORT
from recollect.transfer.export import as_json

_LEAST_WIDTHS = {"source": 60, "messages": 60, "id": 50, "changed": 36}
"""How wide a terminal must be so that a list has these columns besides the titles."""
_BEFORE_HIT = 2
"""How many messages before a hit are shown."""
_TIMEOUT = 5
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  what to connect to instead


@command(
    "list",
    f"""
    -n --limit 1..{LIMITS.page_size} =50  how many, at most {LIMITS.page_size}
    --offset 0.. =0    how many to skip
    --project NAME...  only this project
    --source NAME...   one of {", ".join(SOURCES)}; may be repeated
    --tag NAME...      only conversations with this tag
    --pinned           only pinned conversations
    --search TEXT      only titles or ids that contain this
    """,
    """
    recollect list
    recollect list --source claude-code --search deploy
    recollect list --tag garden
    recollect read 1                                     read the first one of the list
    recollect list --limit 200 --json

    At a terminal, ids are as short as possible; every command accepts them. In a
    pipe or a file, each line is: id, day of the last change, messages, source,
    title, separated by tabs, with whole ids.
    """,
)
def list_(arguments: argparse.Namespace) -> int | None:
    offset = arguments.offset
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
            offset=offset,
            title=arguments.search or "",
        )
        if arguments.json:
            records = [asdict(summary) for summary in summaries]
            page = {"total": total, "limit": arguments.limit, "offset": offset}
            return print_json({"conversations": records} | page)
        has_numbers = remember(arguments, [Reference(summary.id) for summary in summaries])
        rows = []
        for number, summary in enumerate(summaries, 1):
            changed = summary.updated_at or summary.created_at
            title = library.label(summary.id, summary.title)
            is_pinned = at_terminal() and summary.metadata.get("pinned") is True
            rows.append(
                {
                    "": str(number),
                    "id": short_id(library, summary.id) if at_terminal() else summary.id,
                    "changed": f"{changed:%Y-%m-%d}" if changed else "no date",
                    "messages": f"{summary.message_count:,}",
                    "source": source_label(summary.source),
                    "title": f"★ {title}" if is_pinned else title,
                }
            )
    if not at_terminal():  # for programs: one line per conversation, with tabs between the fields
        for summary, row in zip(summaries, rows, strict=True):
            count = str(summary.message_count)
            fields = (summary.id, row["changed"], count, summary.source, row["title"])
            sys.stdout.write("\t".join(map(one_line, fields)) + "\n")
        return None
    out = console()
    if rows:
        out.print(list_table(rows, has_numbers, out.width))
        line = plural(total, "conversation")
        last = offset + len(rows)
        if len(rows) < total:
            line = f"{offset + 1:,} to {last:,} of {line}"
        if last < total:
            line += f" · more with --offset {last}"
        first = "1" if has_numbers else safe(rows[0]["id"])
        out.print(f"[dim]{line} · read one: recollect read {first}[/]")
    elif total:
        out.print(f"No more conversations; there are {total:,}.")
    elif arguments.pinned:
        out.print("No conversations are pinned. Pin one: recollect pin 1")
    elif arguments.project or arguments.source or arguments.tag or arguments.search:
        out.print("No conversations match.")
    else:
        out.print("There are no conversations yet. Import some: recollect setup")
    return None


def list_table(rows: list[dict[str, str]], has_numbers: bool, width: int) -> Table:
    """Numbers or ids are never left out, because other commands need one of them."""
    least = _LEAST_WIDTHS | ({} if has_numbers else {"": width + 1, "id": 0, "changed": 50})
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = [column for column in rows[0] if width >= least.get(column, 0)]
    for column in columns[:-1]:
        is_number = column in ("", "messages")
        table.add_column(
            column,
            style="" if column else "bold cyan",
            justify="right" if is_number else "left",
            no_wrap=True,
            min_width=max(2, len(column), *(len(row[column]) for row in rows)),
        )
    table.add_column("title", overflow="ellipsis")  # the only column that may shrink
    for row in rows:
        cells = [safe(row[column]) for column in columns[:-1]]
        table.add_row(*cells, Text(one_line(row["title"]), no_wrap=True, overflow="ellipsis"))
    return table


def one_line(text: str) -> str:
    return printable_line(text).encode("utf-8", "replace").decode()


# -- reading -----------------------------------------------------------------


@command(
    "read",
    f"""
    conversation  {REFERENCE}
    --message ID       only the messages around this one
    --around 0..99 =5  messages before and after it
    -n --limit 1..{LIMITS.page_size}  how many messages (default: 100, or all in a pager)
    --offset 0..       how many messages to skip
    --branches         include other branches
    --tools            show tool output and thinking instead of folding it
    --hidden           include hidden messages, such as system prompts
    --no-pager         do not use a pager
    """,
    """
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
    """,
)
def read(arguments: argparse.Namespace) -> int | None:
    from recollect.cli.terminal import MessagePrinter

    with existing(arguments) as library:
        reference = resolve(library, arguments, arguments.conversation)
        arguments.conversation = reference.id
        is_paged = at_terminal() and not arguments.json and arguments.message is None
        if is_paged and arguments.limit is None:
            read_on(library, arguments, reference.message_id)
            return None
        if arguments.offset is None:
            arguments.message = arguments.message or reference.message_id
        page = read_page(library, arguments, arguments.offset or 0)
        document, end = page.document, page.offset + len(page.passages)
        if arguments.json:
            document = replace(document, passages=page.passages)
            return print_json(as_json(document) | {"offset": page.offset, "total": page.total})
        out = console()
        print_heading(library, page, out)
        MessagePrinter(out, arguments, arguments.message).print(page.passages)
    if not page.passages and page.total:
        out.print(f"No more messages; there are {page.total:,}.")
    elif len(page.passages) < page.total:
        line = f"{page.offset + 1:,} to {end:,} of {plural(page.total, 'message')}"
        if page.is_branch:
            line += " on this branch"
        if end < page.total:
            line += f". Continue with: recollect read {shlex.quote(document.id)} --offset {end}"
            line += " --branches" if arguments.branches else ""
        show(f"[dim]{safe(line)}[/]")
    return None


def read_on(library: Library, arguments: argparse.Namespace, hit: str | None) -> None:
    """Show a conversation in a pager: from the start, or from shortly before the hit.

    It can be long, so it is read page by page.
    """
    from recollect.cli.terminal import MessagePrinter, paged

    start = arguments.offset
    if start is None:
        start = 0
        if hit is not None:
            around = library.view(arguments.conversation, around=hit, limit=2 * _BEFORE_HIT + 1)
            start = around.start
    page = read_page(library, arguments, start)
    with paged(enabled=not arguments.no_pager) as out:
        print_heading(library, page, out)
        if start:
            out.print(f"[dim]From message {start + 1:,} of {page.total:,}; all: --offset 0[/]\n")
        printer = MessagePrinter(out, arguments, hit)
        printer.print(page.passages)
        while page.passages and (end := page.offset + len(page.passages)) < page.total:
            page = read_page(library, arguments, end)
            printer.print(page.passages)
        if printer.folded:
            out.print("\n[dim]Tool output and thinking are folded; --tools shows them.[/]")


def print_heading(library: Library, page: _MessagePage, out: Console) -> None:
    document = page.document
    title = f"[bold]{safe_line(library.label(document.id, document.title))}[/]"
    if not at_terminal():
        facts = f"{document.source} · {when(document.created_at)} · {document.project}"
        out.print(f"{title}  [dim]{safe(facts)}[/]\n")
        return
    tags = document.metadata.get("tags")
    details = (
        short_id(library, document.id),
        source_label(document.source),
        when(document.created_at),
        document.project,
        page.size,
        *(f"#{tag}" for tag in (tags if isinstance(tags, list) else ())),
    )
    out.print(title)
    out.print(f"[dim]{safe(' · '.join(details))}[/]\n")


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
    id_, limit = arguments.conversation, arguments.limit or 100
    if arguments.branches and arguments.message is None:
        found, total = library.messages(id_, offset, limit)
        document = library.view(id_, limit=1).document
        size = plural(total, "message")
        return _MessagePage(document, tuple(found), offset, total, size, False)
    if arguments.message is None:
        view = library.view(id_, start=offset, limit=limit)
    else:
        view = library.view(id_, around=arguments.message, limit=2 * arguments.around + 1)
    passages = tuple(message.passage for message in view.messages)
    is_branch = view.total < view.conversation_total
    return _MessagePage(view.document, passages, view.start, view.total, view.size, is_branch)


# -- opening -----------------------------------------------------------------


@command(
    "open",
    f"""
    conversation  {REFERENCE}
    --url URL     address of the console (default: RECOLLECT_HOST and RECOLLECT_PORT)
    """,
    """
    recollect open 1                                     a number of the last search or list
    recollect open 7cdb59db                              an id, or the beginning of an id

    The console must be running: `recollect serve`, or `recollect service install`.
    """,
)
def open_(arguments: argparse.Namespace) -> int | None:
    with existing(arguments) as library:
        reference = resolve(library, arguments, arguments.conversation)
        label = safe_line(library.label(reference.id, library.summary(reference.id).title))
    address = f"{(arguments.url or console_address()).rstrip('/')}/c/{quote(reference.id, safe='')}"
    if reference.message_id is not None:
        address += f"?m={quote(reference.message_id, safe='')}"
    require_page(address)
    if arguments.json:
        return print_json({"id": reference.id, "url": address})
    if open_browser(address):
        console().print(f"Opened [bold]{label}[/] in the browser.")
    else:
        show(f"[bold]{label}[/] is at {safe(address)}")
    return None


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
    host = _ANY_ADDRESS.get(HOST.get(), HOST.get())
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{PORT.get()}"


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
