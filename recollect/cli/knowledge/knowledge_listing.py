"""`recollect knowledge list` and `types`: list the items of a kind, count media by type."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from recollect.cli.checking import whole_number
from recollect.cli.common import (
    KINDS,
    Commands,
    add_command,
    add_kind,
    at_terminal,
    console,
    existing,
    print_json,
    safe,
)
from recollect.errors import InvalidInput
from recollect.language.text import printable_line

_LIST_EXAMPLES = """\
  recollect knowledge list notes
  recollect knowledge list media --type pdf --search report
  recollect knowledge list prompts --tag work --json
"""
_LONGEST_ID = 36
"""Longer ids are continued on the next line."""


def add_list(actions: Commands) -> None:
    command = add_command(
        actions,
        "list",
        "list the items of a kind, most recently changed first",
        list_,
        _LIST_EXAMPLES,
    )
    add_kind(command, KINDS)
    command.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )
    command.add_argument(
        "--tag", action="append", default=[], metavar="NAME", help="only with this tag or keyword"
    )
    command.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="only media of this type"
    )
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, 200),
        default=50,
        help="how many (default: %(default)s, at most 200)",
    )
    command.add_argument("--offset", type=whole_number(0), default=0, help="how many to skip")


def list_(arguments: argparse.Namespace) -> int:
    from recollect.knowledge.results import list_entry

    if arguments.type and arguments.kind != "media":
        raise InvalidInput("--type applies to media only.")
    with existing(arguments) as library:
        summaries, total = library.knowledge.list(
            arguments.kind,
            search=arguments.search,
            tags=arguments.tag,
            media_types=arguments.type,
            limit=arguments.limit,
            offset=arguments.offset,
        )
    items = [list_entry(summary) for summary in summaries]
    if arguments.json:
        page = {"limit": arguments.limit, "offset": arguments.offset}
        print_json({"items": items, "total": total} | page)
        return 0
    out = console()
    if not at_terminal():
        _print_lines(items)
        return 0
    if not items:
        out.print(_nothing_listed(arguments, total))
        return 0
    _print_table(arguments.kind, items)
    out.print(f"[dim]{len(items):,} of {total:,}[/]")
    return 0


def _nothing_listed(arguments: argparse.Namespace, total: int) -> str:
    if total:
        return f"No more {arguments.kind}; there are {total:,}."
    if arguments.search or arguments.tag or arguments.type:
        return f"No {arguments.kind} match."
    return f"There are no {arguments.kind} yet."


def _print_lines(items: list[dict[str, Any]]) -> None:
    """For programs: one line per item, with tabs between the fields."""
    for item in items:
        fields = (
            item["id"],
            (item["last_modified"] or "")[:10],
            str(item["version"]),
            item["title"] or "Untitled",
            ", ".join(item["tags"] or ()),
            item["media_type"] or "",
        )
        lines = map(printable_line, fields)
        sys.stdout.write("\t".join(lines).encode("utf-8", "replace").decode() + "\n")


def _print_table(kind: str, items: list[dict[str, Any]]) -> None:
    """One row per item. Only titles and tags may shrink: ids are for copying."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    longest = max(len(item["id"]) for item in items)
    table.add_column("id", overflow="fold", min_width=min(longest, _LONGEST_ID))
    if kind == "media":
        table.add_column("type", no_wrap=True)
    table.add_column("changed", no_wrap=True, min_width=10)
    table.add_column("version", no_wrap=True, justify="right", min_width=7)
    table.add_column("title", overflow="ellipsis", min_width=16)
    table.add_column("tags", overflow="ellipsis")
    for item in items:
        cells: list[str | Text] = [safe(item["id"])]
        if kind == "media":
            cells.append(safe(item["media_type"]))
        cells.append((item["last_modified"] or "")[:10])
        cells.append(str(item["version"]))
        for text in (item["title"] or "Untitled", ", ".join(item["tags"] or ())):
            line = printable_line(text)
            cells.append(Text(line, no_wrap=True, overflow="ellipsis"))
        table.add_row(*cells)
    console().print(table)


def add_types(actions: Commands) -> None:
    add_command(
        actions, "types", "count media by type", types, "  recollect knowledge types --json\n"
    )


def types(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        counts = library.knowledge.media_types()
    if arguments.json:
        print_json({"types": [{"media_type": name, "count": count} for name, count in counts]})
        return 0
    table = Table("type", "media", box=SIMPLE_HEAD, pad_edge=False)
    for name, count in counts:
        table.add_row(safe(name), f"{count:,}")
    console().print(table)
    return 0
