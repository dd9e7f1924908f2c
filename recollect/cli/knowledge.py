"""`recollect knowledge`: find and read notes, media, characters, prompts and conversations."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from rich.padding import Padding
from rich.text import Text

from recollect.cli import knowledge_editing
from recollect.cli.commands import command, command_group, together
from recollect.cli.common import (
    AS_TYPED,
    KNOWLEDGE_KINDS,
    OUTPUT,
    SEARCH,
    at_terminal,
    console,
    copies_label,
    existing,
    print_json,
    print_table,
    safe,
    safe_line,
    show,
)
from recollect.errors import InvalidInput
from recollect.knowledge.retrieval import MODES, parse_retrieval, preference
from recollect.language.text import printable, printable_line
from recollect.language.transcript import FORMATS as TRANSCRIPTS

_KINDS = "|".join(KNOWLEDGE_KINDS)
_COLOURS = {
    "notes": "green",
    "media": "magenta",
    "chats": "cyan",
    "characters": "yellow",
    "prompts": "blue",
}

command_group(
    "knowledge",
    """
    recollect knowledge search 'how to prune roses'      all kinds in one list
    recollect knowledge list notes --tag garden
    recollect knowledge read notes NOTE
    recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
    recollect knowledge edit notes NOTE --file roses.md
    recollect knowledge export characters NAME --output card.json
    recollect knowledge transcript MEDIA --format srt
    recollect knowledge delete notes NOTE --keep note.json

    To import files, use `recollect import`. Every action has its own --help.
    """,
)


@command(
    "knowledge search",
    together(
        f"""
        query+  a question, words, or a query (see `recollect search --help`)
        --in {_KINDS}...  only this kind (chats are conversations); may be repeated
        -n --limit 1..100 =10  results to show, at most 100
        --offset 0.. =0     results to skip
        --snippet 0..       characters of a snippet (default: 300)
        --recent            newest first instead of best first
        """,
        SEARCH,
        """
        --tag NAME...   notes: only with this keyword
        --type NAME...  media: only this type
        --after DATE    media: only on or after this date
        --before DATE   media: only on or before this date
        --by both|title|message  conversations: where to search
        --sender NAME   conversations: only messages of this role or author
        --character ID  conversations: only with this character
        --field NAME...  prompts: which fields to search
        """,
    ),
    """
    recollect knowledge search tomatoes
    recollect knowledge search 'late winter' --in notes --in media --tag garden
    recollect knowledge search watering --in media --type video --after 2025-01-01
    recollect knowledge search summarise --in prompts --field name --json
    """,
)
def search(arguments: argparse.Namespace) -> int | None:
    """Search every kind at once."""
    from recollect.knowledge.options import KnowledgeOptions

    filters: dict[str, dict[str, Any]] = {  # other kinds ignore them
        "notes": {"keywords": arguments.tag},
        "media": {
            "media_types": arguments.type,
            "date_from": arguments.after,
            "date_to": arguments.before,
        },
        "chats": {
            "by": arguments.by,
            "character_id": arguments.character,
            "sender": arguments.sender,
        },
        "prompts": {"fields": arguments.field},
    }
    options = KnowledgeOptions(
        sources=arguments.in_,
        limit=arguments.limit,
        offset=arguments.offset,
        snippet_length=preference("snippet_length", arguments.snippet, {}),
        order_by="recent" if arguments.recent else "relevance",
        filters={
            kind: {name: value for name, value in fields.items() if value}
            for kind, fields in filters.items()
        },
        mode=arguments.mode,
        correct=not arguments.no_correct,
        rerank=arguments.rerank,
        fold=True,
    )
    with existing(arguments) as library:
        page = library.knowledge.search(" ".join(arguments.query), options)
        if arguments.json:
            return print_json(page)
        results, nearest = page["results"], page.get("nearest", ())
        for result in (*results, *nearest):
            result["title"] = library.label(result["id"], result["title"] or "")
    out = console()
    for result in results:
        show_result(result)
    if results:
        first, last, total = arguments.offset + 1, arguments.offset + len(results), 0
        total = page["total_estimated"]
        about = "" if last == total else "about "  # on the last page, all have been counted
        out.print(f"[dim]{first:,} to {last:,} of {about}{total:,}[/]")
    else:
        out.print("No more results." if arguments.offset else "No results.")
    if page.get("note"):
        out.print(f"[yellow]{safe(page['note'])}[/]")
    if page.get("corrections"):
        out.print(f"[yellow]{AS_TYPED}[/]")
    if nearest:
        out.print("\n[dim]Closest in meaning:[/]\n")
        for result in nearest:
            show_result(result)
    return None


def show_result(result: Mapping[str, Any]) -> None:
    source, loc = result["source"], result["loc"] or {}
    seconds = loc.get("seconds")
    details = [result["media_type"], result["sender"], (result["last_modified"] or "")[:10]]
    if seconds is not None:
        number = int(seconds)
        details.append(f"{number // 3600}:{number // 60 % 60:02}:{number % 60:02}")
    if "page" in loc:
        details.append(f"page {loc['page']}")
    details.append(loc.get("field"))
    details += [f"#{tag}" for tag in result["tags"] or ()]
    details += [copies_label(result["copies"]), f"score {result['score']:.2f}"]
    subtitle = safe(" · ".join(filter(None, details)))
    title = safe_line(result["title"])
    show(f"[bold]{title}[/]  [{_COLOURS[source]}]{source}[/] [dim]{subtitle}[/]")
    console().print(Padding(safe(result["snippet"]), (0, 0, 0, 2)))
    command = f"recollect knowledge read {source} {shlex.quote(result['id'])}"
    if result["message_id"]:
        words = map(shlex.quote, (result["id"], result["message_id"]))
        command = "recollect read {} --message {}".format(*words)
    elif seconds is not None:
        command += f" --at {seconds:g}"
    show(f"  [dim]{safe(command)}[/]\n")


@command(
    "knowledge list",
    f"""
    kind {_KINDS}  the kind
    --search TEXT  only titles or ids that contain this
    --tag NAME...  only with this tag or keyword
    --type NAME...  only media of this type
    -n --limit 1..200 =50  how many, at most 200
    --offset 0.. =0  how many to skip
    """,
    """
    recollect knowledge list notes
    recollect knowledge list media --type pdf --search report
    recollect knowledge list prompts --tag work --json
    """,
)
def list_(arguments: argparse.Namespace) -> int | None:
    """List the items of a kind, most recently changed first."""
    from recollect.knowledge.results import list_entry

    kind, is_media = arguments.kind, arguments.kind == "media"
    if arguments.type and not is_media:
        raise InvalidInput("--type applies to media only.")
    with existing(arguments) as library:
        summaries, total = library.knowledge.list(
            kind,
            search=arguments.search or "",
            tags=arguments.tag,
            media_types=arguments.type,
            limit=arguments.limit,
            offset=arguments.offset,
        )
    items = [list_entry(summary) for summary in summaries]
    if arguments.json:
        page = {"limit": arguments.limit, "offset": arguments.offset}
        return print_json({"items": items, "total": total} | page)
    rows = [
        {
            "id": item["id"],
            "changed": (item["last_modified"] or "")[:10],
            "version": str(item["version"]),
            "title": item["title"] or "Untitled",
            "tags": ", ".join(item["tags"] or ()),
            "type": item["media_type"] or "",
        }
        for item in items
    ]
    if not at_terminal():  # for programs: one line per item, with tabs between the fields
        for row in rows:
            line = "\t".join(map(printable_line, row.values()))
            sys.stdout.write(line.encode("utf-8", "replace").decode() + "\n")
        return None
    out = console()
    if rows:
        show_items(rows, is_media)
        out.print(f"[dim]{len(rows):,} of {total:,}[/]")
    elif total:
        out.print(f"No more {kind}; there are {total:,}.")
    elif arguments.search or arguments.tag or arguments.type:
        out.print(f"No {kind} match.")
    else:
        out.print(f"There are no {kind} yet.")
    return None


def show_items(rows: list[dict[str, str]], is_media: bool) -> None:
    """One row per item. Only titles and tags may shrink: ids are for copying."""
    from rich.table import Table

    columns = ["id", *(["type"] if is_media else []), "changed", "version", "title", "tags"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    longest = min(36, max(len(row["id"]) for row in rows))  # longer ids have several lines
    widths = {"id": longest, "changed": 10, "version": 7, "title": 16}
    for column in columns:
        is_text = column in ("title", "tags")
        table.add_column(
            column,
            overflow="ellipsis" if is_text else "fold",
            min_width=widths.get(column),
            justify="right" if column == "version" else "left",
        )
    for row in rows:
        cells = (printable_line(row[column]) for column in columns)
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    console().print(table)


@command("knowledge types", examples="recollect knowledge types --json")
def types(arguments: argparse.Namespace) -> int | None:
    """Count media by type."""
    with existing(arguments) as library:
        counts = library.knowledge.media_types()
    if arguments.json:
        return print_json(
            {"types": [{"media_type": name, "count": count} for name, count in counts]}
        )
    print_table("type, media", [(safe(name), f"{count:,}") for name, count in counts])
    return None


@command(
    "knowledge read",
    f"""
    kind {_KINDS}  the kind
    id  its id, as `list` and `search` show it; or the name of a character or prompt
    --mode {"|".join(MODES)}
        how much to read (default: all, or the part that --query or --at finds)
    --query WORDS  read the part that matches this
    --chunk 0..    read this chunk
    --at SECONDS   read what is said at this time
    --max-tokens 1..  at most this many tokens (estimated)
    --offset 0..   long texts: start at this character; conversations: skip this many messages
    --page 1.. =1  long conversations: the page
    """,
    """
    recollect knowledge read notes NOTE
    recollect knowledge read media MEDIA --query 'late winter' --max-tokens 500
    recollect knowledge read media MEDIA --at 90            around this second
    recollect knowledge read characters Rosa --json
    """,
)
def read(arguments: argparse.Namespace) -> int | None:
    """Read a note, media item, conversation, character or prompt."""
    loc = {"chunk_index": arguments.chunk, "seconds": arguments.at}
    loc = {name: value for name, value in loc.items() if value is not None}
    mode = arguments.mode
    if mode is None:
        mode = "chunk" if arguments.max_tokens is None else "chunk_with_siblings"
        if not loc and not arguments.query:
            mode = "full"
    request = {
        "mode": mode,
        "query": arguments.query,
        "loc": loc,
        "max_tokens": arguments.max_tokens,
        "offset": arguments.offset,
    }
    retrieval = parse_retrieval(request, {})
    with existing(arguments) as library:
        answer = library.knowledge.get(arguments.kind, arguments.id, retrieval, page=arguments.page)
    if arguments.json:
        return print_json(answer)
    meta, page, content = answer["meta"], answer.get("page") or {}, answer["content"]
    details = [
        meta["media_type"],
        meta["url"],
        (meta["last_modified"] or "")[:10],
        f"version {meta['version']}",
        *(f"#{tag}" for tag in meta["tags"] or ()),
    ]
    title = safe_line(meta["title"]) or "Untitled"
    show(f"[bold]{title}[/]  [dim]{safe(' · '.join(filter(None, details)))}[/]\n")
    if isinstance(content, str):
        show(safe(content))
    else:
        for name, text in content.items():
            console().print(f"[bold cyan]{safe(name)}[/]")
            show(safe(text) + "\n")
    if answer.get("note"):
        console().print(f"[yellow]{safe(answer['note'])}[/]")
    if page.get("next_offset"):
        console().print(f"[dim]Continue with --offset {page['next_offset']}[/]")
    return None


@command(
    "knowledge transcript",
    together(
        f"""
        id  its id, as `list` and `search` show it
        --format {"|".join(TRANSCRIPTS)} =text  the format
        --timestamps  include times in text
        """,
        OUTPUT,
    ),
    """
    recollect knowledge transcript MEDIA --timestamps
    recollect knowledge transcript MEDIA --format srt --output film.srt
    """,
)
def transcript(arguments: argparse.Namespace) -> int | None:
    """Print the transcript of a recording."""
    with existing(arguments) as library:
        content = library.knowledge.transcript(arguments.id, arguments.format, arguments.timestamps)
    if arguments.json:
        return print_json({"content": content})
    if not arguments.output:
        if not isinstance(content, str):
            return print_json(content)
        sys.stdout.write("\n".join(map(printable, content.splitlines())) + "\n")
        return None
    if not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    knowledge_editing.write_item(arguments.output, lambda file: file.write(content))
    return None
