"""`recollect search`: the right moment, best first."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.padding import Padding

from recollect.cli.common import Commands, add_command, add_filters, console, existing, print_json, safe, when
from recollect.model import Hit, Page

_EXAMPLES = """\
  recollect search asyncio gather
  recollect search '"connection refused" OR ECONNREFUSED' --after 2025-01-01
  recollect search 'deploy* NOT staging' --role user --limit 5
  recollect search 非同期 --json
"""
_NOTES = {
    "any": "No message has all these words; these have some of them.",
    "literal": "Looked for as plain text.",
}


def register(commands: Commands) -> None:
    command = add_command(commands, "search", "find messages by their words", run, _EXAMPLES)
    command.add_argument("query", nargs="+", help='words, "phrases", prefix*, AND, OR, NOT, ( )')
    command.add_argument("--limit", type=int, default=10, help="hits to show (default: %(default)s, at most 200)")
    command.add_argument("--offset", type=int, default=0, help="hits to pass over")
    command.add_argument("--hidden", action="store_true", help="also what the origin hides, such as system prompts")
    add_filters(command)


def run(given: argparse.Namespace) -> int:
    with existing(given) as library:
        page = library.search(
            " ".join(given.query),
            limit=given.limit,
            offset=given.offset,
            roles=given.role,
            authors=given.author,
            after=given.after,
            before=given.before,
            namespaces=given.namespace,
            origins=given.origin,
            conversations=given.conversation,
            hidden=given.hidden,
        )
    if given.json:
        print_json({**asdict(page), "hits": [asdict(h) for h in page.hits]})
    else:
        _show(page)
    return 0


def _show(page: Page) -> None:
    out = console()
    if not page.hits:
        out.print("No messages match." if not page.total else f"No more hits; there are {page.total:,}.")
        return
    if page.matched in _NOTES:
        out.print(f"[yellow]{_NOTES[page.matched]}[/]")
    for hit in page.hits:
        branch = "" if hit.canonical else " · [yellow]on another branch[/]"
        out.print(f"[bold]{safe(hit.title) or 'Untitled'}[/]  [dim]{hit.role or hit.source} · {when(hit.created_at)} · "
                  f"{hit.origin}[/]{branch}")  # fmt: skip
        out.print(Padding(_marked(hit), (0, 0, 0, 2)))
        out.print(
            f"  [dim]recollect read {safe(hit.conversation_id)} --message {safe(hit.message_id)}[/]", soft_wrap=True
        )
        out.print()
    last = page.offset + len(page.hits)
    out.print(f"[dim]{page.offset + 1:,} to {last:,} of {page.total:,}[/]")


def _marked(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [safe(hit.snippet[at:start]), f"[bold green]{safe(hit.snippet[start:end])}[/]"]
        at = end
    return "".join([*parts, safe(hit.snippet[at:])])
