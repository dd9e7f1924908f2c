"""`recollect knowledge`: find and read notes, media, characters, prompts and conversations."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recollect.cli import knowledge_editing
from recollect.cli.common import (
    AS_TYPED,
    KNOWLEDGE_KINDS,
    Commands,
    add_command,
    add_flag,
    add_kind,
    add_list,
    add_search_options,
    at_terminal,
    console,
    copies_label,
    define_group,
    existing,
    kind_argument,
    print_json,
    safe,
    safe_line,
    whole_number,
)
from recollect.errors import InvalidInput
from recollect.knowledge.retrieval import preference
from recollect.language.text import printable, printable_line
from recollect.library import Library

if TYPE_CHECKING:
    from recollect.knowledge.options import KnowledgeOptions

_EXAMPLES = """\
  recollect knowledge search 'how to prune roses'      conversations and all other kinds in one list
  recollect knowledge list notes --tag garden
  recollect knowledge read notes NOTE
  recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
  recollect knowledge edit notes NOTE --file roses.md
  recollect knowledge export characters NAME --format png --output card.png
  recollect knowledge transcript MEDIA --format srt
  recollect knowledge delete notes NOTE --keep note.json

To import files, use `recollect import`. Every action has its own --help.
"""
_SEARCH_EXAMPLES = """\
  recollect knowledge search tomatoes
  recollect knowledge search 'late winter' --in notes --in media --tag garden
  recollect knowledge search watering --in media --type video --after 2025-01-01
  recollect knowledge search summarise --in prompts --field name --json
"""
_COLOURS = {
    "notes": "green",
    "media": "magenta",
    "chats": "cyan",
    "characters": "yellow",
    "prompts": "blue",
}


def define_knowledge(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    define_search(actions)
    define_list(actions)
    define_read(actions)
    define_transcript(actions)
    define_types(actions)
    knowledge_editing.register(actions)


def define_search(actions: Commands) -> None:
    command = add_command(actions, "search", "search every kind at once", search, _SEARCH_EXAMPLES)
    command.add_argument(
        "query",
        nargs="+",
        help="a question, words, or a query (see `recollect search --help`)",
    )
    add_list(
        command,
        "--in",
        f"only this kind: {', '.join(KNOWLEDGE_KINDS)} (chats are conversations); may be repeated",
        dest="kinds",
        type=kind_argument(KNOWLEDGE_KINDS),
        metavar="KIND",
    )
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, 100),
        default=10,
        help="results to show (default: %(default)s, at most 100)",
    )
    command.add_argument("--offset", type=whole_number(0), default=0, help="results to skip")
    command.add_argument(
        "--snippet", type=int, metavar="N", help="characters of a snippet (default: 300)"
    )
    add_flag(command, "--recent", "newest first instead of best first")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words, meaning or both",
    )
    add_search_options(command)
    add_item_filters(command)


def add_item_filters(command: argparse.ArgumentParser) -> None:
    """Options that concern one kind of items. Other kinds ignore them."""
    add_list(command, "--tag", "notes: only with this keyword", metavar="NAME")
    add_list(command, "--type", "media: only this type", metavar="NAME")
    command.add_argument(
        "--after", dest="date_from", metavar="DATE", help="media: only on or after this date"
    )
    command.add_argument(
        "--before", dest="date_to", metavar="DATE", help="media: only on or before this date"
    )
    command.add_argument(
        "--by", choices=("both", "title", "message"), help="conversations: where to search"
    )
    command.add_argument(
        "--sender", metavar="NAME", help="conversations: only messages of this role or author"
    )
    command.add_argument(
        "--character", metavar="ID", help="conversations: only with this character"
    )
    add_list(command, "--field", "prompts: which fields to search", metavar="NAME")


def search(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        page = library.knowledge.search(" ".join(arguments.query), search_options(arguments))
        if arguments.json:
            print_json(page)
            return 0
        add_labels(library, [*page["results"], *page.get("nearest", ())])
    show_results(page["results"], arguments.offset, page["total_estimated"])
    show_remarks(page)
    return 0


def search_options(arguments: argparse.Namespace) -> KnowledgeOptions:
    from recollect.knowledge.options import KnowledgeOptions

    filters = {
        "notes": {"keywords": arguments.tag},
        "media": {
            "media_types": arguments.type,
            "date_from": arguments.date_from,
            "date_to": arguments.date_to,
        },
        "chats": {
            "by": arguments.by,
            "character_id": arguments.character,
            "sender": arguments.sender,
        },
        "prompts": {"fields": arguments.field},
    }
    order = "relevance"
    if arguments.recent:
        order = "recent"
    return KnowledgeOptions(
        sources=arguments.kinds,
        limit=arguments.limit,
        offset=arguments.offset,
        snippet_length=preference("snippet_length", arguments.snippet, {}),
        order_by=order,
        filters={kind: without_empty(fields) for kind, fields in filters.items()},
        mode=arguments.mode,
        correct=not arguments.no_correct,
        rerank=arguments.rerank,
        fold=True,
    )


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def add_labels(library: Library, results: Iterable[dict[str, Any]]) -> None:
    """Replace empty titles by what is shown instead."""
    for result in results:
        result["title"] = library.label(result["id"], result["title"] or "")


def show_results(results: Sequence[dict[str, Any]], offset: int, total: int) -> None:
    out = console()
    for result in results:
        show_result(result)
        out.print()
    if results:
        last = offset + len(results)
        about = "" if last == total else "about "  # on the last page, all have been counted
        out.print(f"[dim]{offset + 1:,} to {last:,} of {about}{total:,}[/]")
    elif offset:
        out.print("No more results.")
    else:
        out.print("No results.")


def show_remarks(page: Mapping[str, Any]) -> None:
    """A note, corrections, and, if there are no results, what is closest in meaning."""
    out = console()
    if page.get("note"):
        out.print(f"[yellow]{safe(page['note'])}[/]")
    if page.get("corrections"):
        out.print(f"[yellow]{AS_TYPED}[/]")
    if page.get("nearest"):
        out.print("\n[dim]Closest in meaning:[/]\n")
        for result in page["nearest"]:
            show_result(result)
            out.print()


def show_result(result: Mapping[str, Any]) -> None:
    out = console()
    source, loc = result["source"], result["loc"] or {}
    details = [result["media_type"], result["sender"], (result["last_modified"] or "")[:10]]
    if "seconds" in loc:
        details.append(clock(loc["seconds"]))
    if "page" in loc:
        details.append(f"page {loc['page']}")
    details.append(loc.get("field"))
    details += [f"#{tag}" for tag in result["tags"] or ()]
    details.append(copies_label(result["copies"]))
    details.append(f"score {result['score']:.2f}")
    subtitle = safe(" · ".join(detail for detail in details if detail))
    title = safe_line(result["title"])
    out.print(
        f"[bold]{title}[/]  [{_COLOURS[source]}]{source}[/] [dim]{subtitle}[/]", soft_wrap=True
    )
    out.print(Padding(safe(result["snippet"]), (0, 0, 0, 2)))
    if result["message_id"]:
        command = f"recollect read {word(result['id'])} --message {word(result['message_id'])}"
    else:
        command = f"recollect knowledge read {source} {word(result['id'])}"
        if "seconds" in loc:
            command += f" --at {loc['seconds']:g}"
    out.print(f"  [dim]{command}[/]", soft_wrap=True)


def word(text: str) -> str:
    """An id as it can be typed in a shell."""
    return safe(shlex.quote(text))


def clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


_LIST_EXAMPLES = """\
  recollect knowledge list notes
  recollect knowledge list media --type pdf --search report
  recollect knowledge list prompts --tag work --json
"""
_LONGEST_ID = 36
"""Longer ids are continued on the next line."""


def define_list(actions: Commands) -> None:
    command = add_command(
        actions,
        "list",
        "list the items of a kind, most recently changed first",
        list_,
        _LIST_EXAMPLES,
    )
    add_kind(command, KNOWLEDGE_KINDS)
    command.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )
    add_list(command, "--tag", "only with this tag or keyword", metavar="NAME")
    add_list(command, "--type", "only media of this type", metavar="NAME")
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
        print_lines(items)
        return 0
    if not items:
        out.print(nothing_listed(arguments, total))
        return 0
    print_table(arguments.kind, items)
    out.print(f"[dim]{len(items):,} of {total:,}[/]")
    return 0


def nothing_listed(arguments: argparse.Namespace, total: int) -> str:
    if total:
        return f"No more {arguments.kind}; there are {total:,}."
    if arguments.search or arguments.tag or arguments.type:
        return f"No {arguments.kind} match."
    return f"There are no {arguments.kind} yet."


def print_lines(items: list[dict[str, Any]]) -> None:
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


def print_table(kind: str, items: list[dict[str, Any]]) -> None:
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


def define_types(actions: Commands) -> None:
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


_READ_EXAMPLES = """\
  recollect knowledge read notes NOTE
  recollect knowledge read media MEDIA --query 'late winter' --max-tokens 500
  recollect knowledge read media MEDIA --at 90            around this second
  recollect knowledge read characters Rosa --json
"""
_TRANSCRIPT_EXAMPLES = """\
  recollect knowledge transcript MEDIA --timestamps
  recollect knowledge transcript MEDIA --format srt --output film.srt
"""
MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
TRANSCRIPTS = ("text", "srt", "vtt", "json")


def define_read(actions: Commands) -> None:
    command = add_command(
        actions,
        "read",
        "read a note, media item, conversation, character or prompt",
        read,
        _READ_EXAMPLES,
    )
    add_kind(command, KNOWLEDGE_KINDS)
    command.add_argument(
        "id", help="its id, as `list` and `search` show it; or the name of a character or prompt"
    )
    command.add_argument(
        "--mode",
        choices=MODES,
        help="how much to read (default: all, or the part that --query or --at finds)",
    )
    command.add_argument("--query", metavar="WORDS", help="read the part that matches this")
    command.add_argument("--chunk", type=whole_number(0), metavar="N", help="read this chunk")
    command.add_argument(
        "--at", type=float, metavar="SECONDS", help="read what is said at this time"
    )
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="at most this many tokens (estimated)"
    )
    command.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help="long texts: start at this character; conversations: skip this many messages",
    )
    command.add_argument(
        "--page", type=whole_number(1), default=1, metavar="N", help="long conversations: the page"
    )


def read(arguments: argparse.Namespace) -> int:
    from recollect.knowledge.retrieval import parse_retrieval

    loc = {"chunk_index": arguments.chunk, "seconds": arguments.at}
    loc = {name: value for name, value in loc.items() if value is not None}
    mode = arguments.mode
    if mode is None:
        mode = reading_mode(arguments, has_place=bool(loc))
    retrieval = parse_retrieval(
        {
            "mode": mode,
            "query": arguments.query,
            "loc": loc,
            "max_tokens": arguments.max_tokens,
            "offset": arguments.offset,
        },
        {},
    )
    with existing(arguments) as library:
        answer = library.knowledge.get(arguments.kind, arguments.id, retrieval, page=arguments.page)
    if arguments.json:
        print_json(answer)
        return 0
    show_item(answer)
    return 0


def reading_mode(arguments: argparse.Namespace, *, has_place: bool) -> str:
    """Read everything, unless the user asks for a place in the item."""
    if not has_place and not arguments.query:
        return "full"
    if arguments.max_tokens is None:
        return "chunk"
    return "chunk_with_siblings"


def show_item(answer: Mapping[str, Any]) -> None:
    out = console()
    meta, page = answer["meta"], answer.get("page") or {}
    details = [
        meta["media_type"],
        meta["url"],
        (meta["last_modified"] or "")[:10],
        f"version {meta['version']}",
        *(f"#{tag}" for tag in meta["tags"] or ()),
    ]
    subtitle = safe(" · ".join(detail for detail in details if detail))
    title = safe_line(meta["title"]) or "Untitled"
    out.print(f"[bold]{title}[/]  [dim]{subtitle}[/]\n", soft_wrap=True)
    content = answer["content"]
    if isinstance(content, str):
        out.print(safe(content), soft_wrap=True)
    else:
        for name, text in content.items():
            out.print(f"[bold cyan]{safe(name)}[/]")
            out.print(safe(text) + "\n", soft_wrap=True)
    if answer.get("note"):
        out.print(f"[yellow]{safe(answer['note'])}[/]")
    if page.get("next_offset"):
        out.print(f"[dim]Continue with --offset {page['next_offset']}[/]")


def define_transcript(actions: Commands) -> None:
    command = add_command(
        actions,
        "transcript",
        "print the transcript of a recording",
        transcript,
        _TRANSCRIPT_EXAMPLES,
    )
    command.add_argument("id", help="its id, as `list` and `search` show it")
    command.add_argument(
        "--format", choices=TRANSCRIPTS, default="text", help="(default: %(default)s)"
    )
    add_flag(command, "--timestamps", "include times in text")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="a file to write (default: standard output)",
    )


def transcript(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        content = library.knowledge.transcript(arguments.id, arguments.format, arguments.timestamps)
    if arguments.json:
        print_json({"content": content})
    elif arguments.output:
        knowledge_editing.write_file(arguments.output, knowledge_editing.encode(content))
    elif isinstance(content, str):
        sys.stdout.write(printable_lines(content) + "\n")
    else:
        print_json(content)
    return 0


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))
