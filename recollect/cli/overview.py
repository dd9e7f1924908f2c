"""`recollect` alone: the state of the library, what to do next, and the main commands."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from recollect.cli.common import console, plural, safe, when
from recollect.library import Library
from recollect.model.receipts import Receipt
from recollect.models import embeddings as models
from recollect.places import open_existing

_COMMANDS = """\
  [bold]search[/] WORDS      find the message; `read 1` then reads the first hit
  [bold]list[/], [bold]read[/] 1      recent conversations, and one of them
  [bold]tui[/]               search as you type
  [bold]import[/] PATH       add an export, transcripts or notes
  [bold]serve[/] --open      the console in the browser
  [bold]mcp[/]               give agents access
"""


def show_overview(arguments: argparse.Namespace) -> int:
    out = console()
    out.print("Recollect stores every conversation with AI, and finds the right moment in it.\n")
    library = open_existing(arguments.home, arguments.user, background=False)
    if library is None:
        out.print("  Your library is empty: nothing was imported yet.\n")
        show_next(["recollect setup            look for conversations on this computer"])
    else:
        with library:
            show_library(library)
    out.print(f"Commands:\n{_COMMANDS}")
    out.print("[dim]All commands: recollect --help · one command: recollect search --help[/]")
    return 0


def show_library(library: Library) -> None:
    out = console()
    figures = library.stats()
    receipts = library.receipts()
    table = Table.grid(padding=(0, 2))
    table.add_row("", "Library", contents(figures))
    table.add_row("", "Last import", last_import(library, receipts))
    table.add_row("", "Index", index_state(library))
    if library.read_only:
        table.add_row("", "Read-only", safe(library.read_only))
    out.print(table)
    out.print()
    show_next(next_steps(library, figures, receipts))


def show_next(steps: list[str]) -> None:
    out = console()
    out.print("Next:")
    for step in steps:
        out.print(f"  {step}", markup=False, soft_wrap=True)
    out.print()


def contents(figures: dict[str, Any]) -> str:
    """`10 conversations, 64 messages, 2 notes`: what is there, without what is not."""
    parts = [
        plural(figures["conversations"], "conversation"),
        plural(figures["messages"], "message"),
    ]
    for name, noun in (
        ("notes", "note"),
        ("media", "media item"),
        ("characters", "character"),
        ("prompts", "prompt"),
    ):
        if figures[name]:
            parts.append(plural(figures[name], noun))
    return ", ".join(parts)


def index_state(library: Library) -> str:
    """Whether everything can be found by meaning, in words that people know."""
    if models.embedding_setting() == models.OFF:
        return "by words only (embeddings are off)"
    index = library.index_status()
    if index.paused_since is not None:
        return f"{int(100 * index.share)} % complete, paused; `recollect index --resume` resumes it"
    statuses = [status for status in library.embedding_status() if status.searched]
    if not statuses:
        return "by words; `recollect index` adds search by meaning"
    share = min(status.share for status in statuses)
    if share < 1:
        return f"{int(100 * share)} % complete; `recollect index` finishes it"
    return "complete"


def last_import(library: Library, receipts: list[Receipt]) -> str:
    valid = [receipt for receipt in receipts if receipt.undone_at is None]
    if not valid:
        return "none"
    last = valid[0]
    line = f"{when(last.started_at)}, {safe(last.name)}"
    if is_stopped(last, library):
        line += " (stopped)"
    return line


def is_stopped(receipt: Receipt, library: Library) -> bool:
    if receipt.finished_at is not None or receipt.undone_at is not None:
        return False
    running = library.running_imports()
    return running is None or receipt.started_at < running


def next_steps(library: Library, figures: dict[str, Any], receipts: list[Receipt]) -> list[str]:
    steps = []
    if receipts and is_stopped(receipts[0], library):
        steps.append("recollect import --list    an import was stopped; see how to resume it")
    if not figures["conversations"]:
        steps.append("recollect setup            look for conversations on this computer")
    if library.purge_status().reason:
        steps.append("recollect index            remove deleted text from the files")
    if not steps or figures["conversations"]:
        steps.append("recollect search WORDS     ask a question, or type words you remember")
    return steps
