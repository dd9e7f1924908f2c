"""`recollect knowledge read` and `transcript`: read one item."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from recollect.cli.checking import whole_number
from recollect.cli.common import (
    KINDS,
    Commands,
    add_command,
    add_kind,
    console,
    existing,
    print_json,
    safe,
    safe_line,
)
from recollect.cli.knowledge import knowledge_editing
from recollect.language.text import printable

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


def add_read(actions: Commands) -> None:
    command = add_command(
        actions,
        "read",
        "read a note, media item, conversation, character or prompt",
        read,
        _READ_EXAMPLES,
    )
    add_kind(command, KINDS)
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
        mode = _reading_mode(arguments, has_place=bool(loc))
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
    _show_item(answer)
    return 0


def _reading_mode(arguments: argparse.Namespace, *, has_place: bool) -> str:
    """Read everything, unless the user asks for a place in the item."""
    if not has_place and not arguments.query:
        return "full"
    if arguments.max_tokens is None:
        return "chunk"
    return "chunk_with_siblings"


def _show_item(answer: Mapping[str, Any]) -> None:
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


def add_transcript(actions: Commands) -> None:
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
    command.add_argument("--timestamps", action="store_true", help="include times in text")
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
        sys.stdout.write(_printable_lines(content) + "\n")
    else:
        print_json(content)
    return 0


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))
