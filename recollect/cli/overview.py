"""`recollect` alone: the state of the library, what to do next, and the main commands."""

from __future__ import annotations

import argparse
from typing import Any

from recollect.cli.common import plural, safe, show, when
from recollect.library import Library
from recollect.models import embeddings as models
from recollect.places import open_existing

_COMMANDS = """\
Commands:
  [bold]search[/] WORDS      find the message; `read 1` then reads the first hit
  [bold]list[/], [bold]read[/] 1      recent conversations, and one of them
  [bold]tui[/]               search as you type
  [bold]import[/] PATH       add an export, transcripts or notes
  [bold]serve[/] --open      the console in the browser
  [bold]mcp[/]               give agents access

[dim]All commands: recollect --help · one command: recollect search --help[/]"""
_SETUP = "recollect setup            look for conversations on this computer"


def show_overview(arguments: argparse.Namespace) -> None:
    show("Recollect stores every conversation with AI, and finds the right moment in it.\n")
    steps = [_SETUP]
    library = open_existing(arguments.home, arguments.user, background=False)
    if library is None:
        show("  Your library is empty: nothing was imported yet.\n")
    else:
        with library:
            steps = show_library(library)
    show("Next:\n" + "\n".join(f"  {step}" for step in steps) + "\n")
    show(_COMMANDS)


def show_library(library: Library) -> list[str]:
    """Say what is in the library. Returns what to do next."""
    figures = library.stats()
    receipts, running = library.receipts(), library.running_imports()
    last = next((receipt for receipt in receipts if receipt.undone_at is None), None)
    is_stopped = bool(
        last and last.finished_at is None and (running is None or last.started_at < running)
    )
    last_import = "none"
    if last is not None:
        last_import = f"{when(last.started_at)}, {safe(last.name)}"
        last_import += " (stopped)" if is_stopped else ""
    show(f"  Library      {contents(figures)}")
    show(f"  Last import  {last_import}")
    show(f"  Index        {index_state(library)}")
    if library.read_only:
        show(f"  Read-only    {safe(library.read_only)}")
    show("")
    steps = []
    if is_stopped:
        steps.append("recollect import --list    an import was stopped; see how to resume it")
    if not figures["conversations"]:
        steps.append(_SETUP)
    if library.purge_status().reason:
        steps.append("recollect index            remove deleted text from the files")
    if not steps or figures["conversations"]:
        steps.append("recollect search WORDS     ask a question, or type words you remember")
    return steps


def contents(figures: dict[str, Any]) -> str:
    """`10 conversations, 64 messages, 2 notes`: what is there, without what is not."""
    nouns = {"notes": "note", "media": "media item", "characters": "character", "prompts": "prompt"}
    parts = [
        plural(figures["conversations"], "conversation"),
        plural(figures["messages"], "message"),
        *(plural(figures[name], noun) for name, noun in nouns.items() if figures[name]),
    ]
    return ", ".join(parts)


def index_state(library: Library) -> str:
    """Whether everything can be found by meaning, in words that people know."""
    if models.embedding_setting() == models.OFF:
        return "by words only (embeddings are off)"
    index = library.index_status()
    if index.paused_since is not None:
        return f"{int(100 * index.share)} % complete, paused; `recollect index --resume` resumes it"
    shares = [status.share for status in index.models if status.searched]
    if not shares:
        return "by words; `recollect index` adds search by meaning"
    if min(shares) < 1:
        return f"{int(100 * min(shares))} % complete; `recollect index` finishes it"
    return "complete"
