"""`recollect knowledge`: notes, media, characters and prompts beside the conversations; finding and reading them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recollect.cli import writing
from recollect.cli.common import (
    KINDS,
    Commands,
    add_command,
    add_kind,
    console,
    existing,
    kind_argument,
    print_json,
    safe,
)
from recollect.errors import InvalidInput
from recollect.knowledge.preferences import preference
from recollect.language.text import printable

_EXAMPLES = """\
  recollect knowledge search 'how to prune roses'      notes, media, chats, characters and prompts in one list
  recollect knowledge list notes --tag garden
  recollect knowledge read notes NOTE
  recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
  recollect knowledge edit notes NOTE --file roses.md
  recollect knowledge export characters NAME --format png --output card.png
  recollect knowledge transcript MEDIA --format srt
  recollect knowledge delete notes NOTE --keep note.json

Files come in with `recollect import`. Every action has its own --help.
"""
_SEARCH_EXAMPLES = """\
  recollect knowledge search tomatoes
  recollect knowledge search 'late winter' --in notes --in media --tag garden
  recollect knowledge search watering --in media --type video --from 2025-01-01
  recollect knowledge search summarise --in prompts --field name --json
"""
_LIST_EXAMPLES = """\
  recollect knowledge list notes
  recollect knowledge list media --type pdf --search report
  recollect knowledge list prompts --tag work --json
"""
_READ_EXAMPLES = """\
  recollect knowledge read notes NOTE
  recollect knowledge read media MEDIA --query 'late winter' --max-tokens 500
  recollect knowledge read media MEDIA --at 90            around what is said at that second
  recollect knowledge read characters Rosa --json
"""
_TRANSCRIPT_EXAMPLES = """\
  recollect knowledge transcript MEDIA --timestamps
  recollect knowledge transcript MEDIA --format srt --output film.srt
"""
MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
TRANSCRIPTS = ("text", "srt", "vtt", "json")
_COLOURS = {
    "notes": "green",
    "media": "magenta",
    "chats": "cyan",
    "characters": "yellow",
    "prompts": "blue",
}


def register(commands: Commands) -> None:
    group: argparse.ArgumentParser = commands.add_parser(
        "knowledge",
        help="find, read and write notes, media, characters and prompts",
        description="Find, read and write notes, media, characters and prompts.",
        epilog="examples:\n" + _EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = group.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_search(actions)
    listing = add_command(
        actions, "list", "list what there is of a kind, last changed first", list_, _LIST_EXAMPLES
    )
    add_kind(listing, KINDS)
    listing.add_argument(
        "--search", default="", metavar="TEXT", help="only titles or ids that contain this"
    )
    listing.add_argument(
        "--tag", action="append", default=[], metavar="NAME", help="only with this tag or keyword"
    )
    listing.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="only media of this type"
    )
    listing.add_argument(
        "--limit", type=int, default=50, help="how many (default: %(default)s, at most 200)"
    )
    listing.add_argument("--offset", type=int, default=0, help="how many to pass over")
    _add_read(actions)
    said = add_command(
        actions, "transcript", "print what is said in a recording", transcript, _TRANSCRIPT_EXAMPLES
    )
    said.add_argument("id", help="its id, as `list` and `search` show it")
    said.add_argument(
        "--format", choices=TRANSCRIPTS, default="text", help="(default: %(default)s)"
    )
    said.add_argument("--timestamps", action="store_true", help="also in text: when it is said")
    said.add_argument("--output", metavar="FILE", help="a file to write (default: standard output)")
    add_command(
        actions, "types", "count media by type", types, "  recollect knowledge types --json\n"
    )
    writing.register(actions)


def _add_search(actions: Commands) -> None:
    command = add_command(actions, "search", "find in every kind at once", search, _SEARCH_EXAMPLES)
    command.add_argument(
        "query",
        nargs="+",
        help="a question, words, or a query as `recollect search --help` explains",
    )
    command.add_argument(
        "--in",
        action="append",
        default=[],
        dest="kinds",
        type=kind_argument(KINDS),
        metavar="KIND",
        help=f"only {', '.join(KINDS)}; may be repeated",
    )
    command.add_argument(
        "--limit", type=int, default=10, help="results to show (default: %(default)s, at most 100)"
    )
    command.add_argument("--offset", type=int, default=0, help="results to pass over")
    command.add_argument(
        "--snippet", type=int, metavar="N", help="characters of a snippet (default: 300)"
    )
    command.add_argument("--recent", action="store_true", help="newest first, not best first")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words, meaning or both",
    )
    command.add_argument(
        "--tag", action="append", default=[], metavar="NAME", help="of notes: with this keyword"
    )
    command.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="of media: of this type"
    )
    command.add_argument(
        "--from", dest="date_from", metavar="DATE", help="of media: not before this date"
    )
    command.add_argument("--to", dest="date_to", metavar="DATE", help="of media: not after it")
    command.add_argument(
        "--by", choices=("both", "title", "message"), help="of chats: where to look"
    )
    command.add_argument("--sender", metavar="NAME", help="of chats: what this role or author said")
    command.add_argument("--character", metavar="ID", help="of chats: with this character")
    command.add_argument(
        "--field", action="append", default=[], metavar="NAME", help="of prompts: where to look"
    )


def _add_read(actions: Commands) -> None:
    command = add_command(
        actions, "read", "read a note, media item, chat, character or prompt", read, _READ_EXAMPLES
    )
    add_kind(command, KINDS)
    command.add_argument(
        "id", help="its id, as `list` and `search` show it; of characters and prompts also the name"
    )
    command.add_argument(
        "--mode", choices=MODES, help="how much of it (default: all, or what --query and --at find)"
    )
    command.add_argument("--query", metavar="WORDS", help="where in it to look: what this finds")
    command.add_argument(
        "--chunk", type=int, metavar="N", help="where in it to look: the chunk of this number"
    )
    command.add_argument(
        "--at", type=float, metavar="SECONDS", help="where in it to look: what is said then"
    )
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="not more than that, as tokens are estimated"
    )
    command.add_argument(
        "--offset", type=int, metavar="N", help="of a long text: the character to begin with"
    )
    command.add_argument(
        "--page", type=int, default=1, metavar="N", help="of a long chat: the page"
    )


# -- finding -----------------------------------------------------------------


def search(arguments: argparse.Namespace) -> int:
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
    with existing(arguments) as library:
        found = library.knowledge.search(
            " ".join(arguments.query),
            sources=arguments.kinds,
            limit=arguments.limit,
            offset=arguments.offset,
            snippet_length=preference("snippet_length", arguments.snippet, {}),
            order_by="recent" if arguments.recent else "relevance",
            filters={
                source: {n: v for n, v in said.items() if v} for source, said in filters.items()
            },
            mode=arguments.mode,
        )
    if arguments.json:
        print_json(found)
        return 0
    out = console()
    for result in found["results"]:
        _show_result(result)
        out.print()
    if found["results"]:
        last = arguments.offset + len(found["results"])
        out.print(
            f"[dim]{arguments.offset + 1:,} to {last:,} of about {found['total_estimated']:,}[/]"
        )
    else:
        out.print("Nothing matches." if not arguments.offset else "No more results.")
    if found.get("note"):
        out.print(f"[yellow]{safe(found['note'])}[/]")
    return 0


def _show_result(result: Mapping[str, Any]) -> None:
    out = console()
    source, loc = result["source"], result["loc"] or {}
    about = [
        result["media_type"],
        result["sender"],
        (result["last_modified"] or "")[:10],
        _clock(loc["seconds"]) if "seconds" in loc else None,
        f"page {loc['page']}" if "page" in loc else None,
        loc.get("field"),
        " ".join(f"#{tag}" for tag in result["tags"] or ()),
        f"score {result['score']:.2f}",
    ]
    told = safe(" · ".join(part for part in about if part))
    title = safe(result["title"]) or "Untitled"
    out.print(f"[bold]{title}[/]  [{_COLOURS[source]}]{source}[/] [dim]{told}[/]", soft_wrap=True)
    out.print(Padding(safe(result["snippet"]), (0, 0, 0, 2)))
    if result["message_id"]:
        way = f"recollect read {_word(result['id'])} --message {_word(result['message_id'])}"
    else:
        place = f" --at {loc['seconds']:g}" if "seconds" in loc else ""
        way = f"recollect knowledge read {source} {_word(result['id'])}{place}"
    out.print(f"  [dim]{way}[/]", soft_wrap=True)


def _word(text: str) -> str:
    """An id as one can type it."""
    return safe(shlex.quote(text))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


# -- listing -----------------------------------------------------------------


def list_(arguments: argparse.Namespace) -> int:
    from recollect.knowledge.results import list_entry

    if arguments.type and arguments.kind != "media":
        raise InvalidInput("--type is for media alone.")
    with existing(arguments) as library:
        found, total = library.knowledge.list(
            arguments.kind,
            search=arguments.search,
            tags=arguments.tag,
            media_types=arguments.type,
            limit=arguments.limit,
            offset=arguments.offset,
        )
    shown = [list_entry(about) for about in found]
    if arguments.json:
        print_json(
            {"items": shown, "total": total, "limit": arguments.limit, "offset": arguments.offset}
        )
        return 0
    out = console()
    media = arguments.kind == "media"
    names = ("title", "id", *(("type",) if media else ()), "changed", "version", "tags")
    table = Table(*names, box=SIMPLE_HEAD, pad_edge=False)
    room = max(16, out.width - max((len(item["id"]) for item in shown), default=0) - 40)
    for item in shown:
        title = Text(printable(item["title"] or "") or "Untitled")
        title.truncate(room, overflow="ellipsis")
        table.add_row(
            title,
            safe(item["id"]),
            *((safe(item["media_type"]),) if media else ()),
            (item["last_modified"] or "")[:10],
            str(item["version"]),
            safe(", ".join(item["tags"] or ())),
        )
    out.print(table)
    out.print(f"[dim]{len(shown):,} of {total:,}[/]")
    return 0


def types(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        found = library.knowledge.media_types()
    if arguments.json:
        print_json({"types": [{"media_type": name, "count": count} for name, count in found]})
        return 0
    table = Table("type", "media", box=SIMPLE_HEAD, pad_edge=False)
    for name, count in found:
        table.add_row(safe(name), f"{count:,}")
    console().print(table)
    return 0


# -- reading -----------------------------------------------------------------


def read(arguments: argparse.Namespace) -> int:
    from recollect.knowledge.retrieval import parse_retrieval

    loc = {"chunk_index": arguments.chunk, "seconds": arguments.at}
    loc = {name: value for name, value in loc.items() if value is not None}
    around = "chunk" if arguments.max_tokens is None else "chunk_with_siblings"
    wanted = parse_retrieval(
        {
            "mode": arguments.mode or (around if loc or arguments.query else "full"),
            "query": arguments.query,
            "loc": loc,
            "max_tokens": arguments.max_tokens,
            "offset": arguments.offset,
        },
        {},
    )
    with existing(arguments) as library:
        found = library.knowledge.get(arguments.kind, arguments.id, wanted, page=arguments.page)
    if arguments.json:
        print_json(found)
        return 0
    out = console()
    meta, page = found["meta"], found.get("page") or {}
    about = [
        meta["media_type"],
        meta["url"],
        (meta["last_modified"] or "")[:10],
        f"version {meta['version']}",
        " ".join(f"#{tag}" for tag in meta["tags"] or ()),
    ]
    out.print(
        f"[bold]{safe(meta['title']) or 'Untitled'}[/]  [dim]{safe(' · '.join(part for part in about if part))}[/]\n",
        soft_wrap=True,
    )
    content = found["content"]
    if isinstance(content, str):
        out.print(safe(content), soft_wrap=True)
    else:
        for name, text in content.items():
            out.print(f"[bold cyan]{safe(name)}[/]")
            out.print(safe(text) + "\n", soft_wrap=True)
    if page.get("next_offset"):
        out.print(f"[dim]The rest: --offset {page['next_offset']}[/]")
    if page.get("next_page"):
        out.print(f"[dim]The rest: --page {page['next_page']}[/]")
    return 0


def transcript(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        said = library.knowledge.transcript(arguments.id, arguments.format, arguments.timestamps)
    if arguments.json:
        print_json({"content": said})
    elif arguments.output:
        writing.write_file(arguments.output, writing.encoded(said))
    elif isinstance(said, str):
        sys.stdout.write(printable_lines(said) + "\n")
    else:
        print_json(said)
    return 0


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))
