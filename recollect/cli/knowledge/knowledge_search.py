"""`recollect knowledge search`: search every kind at once."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding

from recollect.cli.checking import whole_number
from recollect.cli.common import (
    AS_TYPED,
    KINDS,
    Commands,
    add_command,
    add_search_options,
    console,
    copies_label,
    existing,
    kind_argument,
    print_json,
    safe,
    safe_line,
)
from recollect.knowledge.preferences import preference
from recollect.library import Library

if TYPE_CHECKING:
    from recollect.knowledge.options import KnowledgeOptions

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


def add_search(actions: Commands) -> None:
    command = add_command(actions, "search", "search every kind at once", search, _SEARCH_EXAMPLES)
    command.add_argument(
        "query",
        nargs="+",
        help="a question, words, or a query (see `recollect search --help`)",
    )
    command.add_argument(
        "--in",
        action="append",
        default=[],
        dest="kinds",
        type=kind_argument(KINDS),
        metavar="KIND",
        help=f"only this kind: {', '.join(KINDS)} (chats are conversations); may be repeated",
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
    command.add_argument("--recent", action="store_true", help="newest first instead of best first")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words, meaning or both",
    )
    add_search_options(command)
    _add_item_filters(command)


def _add_item_filters(command: argparse.ArgumentParser) -> None:
    """Options that concern one kind of items. Other kinds ignore them."""
    command.add_argument(
        "--tag", action="append", default=[], metavar="NAME", help="notes: only with this keyword"
    )
    command.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="media: only this type"
    )
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
    command.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME",
        help="prompts: which fields to search",
    )


def search(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        page = library.knowledge.search(" ".join(arguments.query), _search_options(arguments))
        if arguments.json:
            print_json(page)
            return 0
        _add_labels(library, [*page["results"], *page.get("nearest", ())])
    _show_results(page["results"], arguments.offset, page["total_estimated"])
    _show_remarks(page)
    return 0


def _search_options(arguments: argparse.Namespace) -> KnowledgeOptions:
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
        filters={kind: _without_empty(fields) for kind, fields in filters.items()},
        mode=arguments.mode,
        correct=not arguments.no_correct,
        rerank=arguments.rerank,
        fold=True,
    )


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _add_labels(library: Library, results: Iterable[dict[str, Any]]) -> None:
    """Replace empty titles by what is shown instead."""
    for result in results:
        result["title"] = library.label(result["id"], result["title"] or "")


def _show_results(results: Sequence[dict[str, Any]], offset: int, total: int) -> None:
    out = console()
    for result in results:
        _show_result(result)
        out.print()
    if results:
        last = offset + len(results)
        about = "" if last == total else "about "  # on the last page, all have been counted
        out.print(f"[dim]{offset + 1:,} to {last:,} of {about}{total:,}[/]")
    elif offset:
        out.print("No more results.")
    else:
        out.print("No results.")


def _show_remarks(page: Mapping[str, Any]) -> None:
    """A note, corrections, and, if there are no results, what is closest in meaning."""
    out = console()
    if page.get("note"):
        out.print(f"[yellow]{safe(page['note'])}[/]")
    if page.get("corrections"):
        out.print(f"[yellow]{AS_TYPED}[/]")
    if page.get("nearest"):
        out.print("\n[dim]Closest in meaning:[/]\n")
        for result in page["nearest"]:
            _show_result(result)
            out.print()


def _show_result(result: Mapping[str, Any]) -> None:
    out = console()
    source, loc = result["source"], result["loc"] or {}
    details = [result["media_type"], result["sender"], (result["last_modified"] or "")[:10]]
    if "seconds" in loc:
        details.append(_clock(loc["seconds"]))
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
        command = f"recollect read {_word(result['id'])} --message {_word(result['message_id'])}"
    else:
        command = f"recollect knowledge read {source} {_word(result['id'])}"
        if "seconds" in loc:
            command += f" --at {loc['seconds']:g}"
    out.print(f"  [dim]{command}[/]", soft_wrap=True)


def _word(text: str) -> str:
    """An id as it can be typed in a shell."""
    return safe(shlex.quote(text))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
