"""`recollect stats` and `recollect doctor`: how much there is, and whether it is well."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table

from recollect import __version__
from recollect.cli.common import Commands, add_command, console, existing, print_json, safe
from recollect.cli.indexing import described, vectors
from recollect.library import Library
from recollect.settings import LIMITS
from recollect.store.base import Findings

_STATS_EXAMPLES = """\
  recollect stats
  recollect stats --json
"""
_DOCTOR_EXAMPLES = """\
  recollect doctor
  recollect doctor --repair
"""


def register(commands: Commands) -> None:
    add_command(commands, "stats", "count what is in the library", stats, _STATS_EXAMPLES)
    doctor_ = add_command(
        commands,
        "doctor",
        "check the library, and repair what is derived",
        doctor,
        _DOCTOR_EXAMPLES,
    )
    doctor_.add_argument(
        "--repair", action="store_true", help="rebuild the search index from the messages"
    )


def stats(given: argparse.Namespace) -> int:
    with existing(given) as library:
        found = library.stats() | {"vectors": vectors(library)}
    if given.json:
        print_json(found)
        return 0
    table = Table(show_header=False, box=SIMPLE_HEAD, pad_edge=False)
    for name, value in found.items():
        if isinstance(value, list):
            shown = ", ".join(map(described, value)) or "none yet"
        elif isinstance(value, dict):
            shown = ", ".join(f"{safe(k)} {v:,}" for k, v in list(value.items())[:10]) or "-"
        else:
            shown = f"{value:,}" if isinstance(value, int) else safe(str(value or "-"))
        table.add_row(name.replace("_", " "), shown)
    console().print(table)
    return 0


def doctor(given: argparse.Namespace) -> int:
    with existing(given) as library:
        found = library.verify()
        if given.repair and not found.healthy:
            _repair(library)
            found = library.verify()
        counted = library.stats()
        facts = {
            "recollect": __version__,
            "database": counted["engine"],
            "library": counted["path"],
            "indexed_in_part": counted["indexed_in_part"],
        }
        lacks = library.store.lacks
        made = vectors(library)
    if given.json:
        print_json(
            {
                **facts,
                "vectors": made,
                "lacks": lacks,
                **asdict(found),
                "healthy": found.healthy,
                "limits": LIMITS.table(),
            }
        )
        return 0 if found.healthy else 1
    out = console()
    for name, value in facts.items():
        out.print(f"{name.replace('_', ' ')}: {safe(str(value))}")
    out.print(f"vectors: {', '.join(map(described, made)) or 'none yet'}")
    for line in lacks:
        out.print(f"[yellow]lacks[/]: {safe(line)}")
    _show_findings(found)
    return 0 if found.healthy else 1


def _show_findings(found: Findings) -> None:
    out = console()
    for line in found.damaged:
        out.print(
            f"[red]damaged[/]: {safe(line)}. Restore a backup, or export what can still be read."
        )
    for line in found.damaged_index:
        out.print(f"[yellow]index[/]: {safe(line)}")
    if found.unindexed or found.orphaned:
        out.print(
            f"[yellow]index[/]: {found.unindexed:,} messages are missing, {found.orphaned:,} are left over"
        )
    if found.outdated:
        out.print("[yellow]index[/]: made by another version")
    if found.orphaned_in_queue:
        out.print(
            f"[yellow]vectors[/]: queue entries without a message: {found.orphaned_in_queue:,}"
        )
    if found.never_embedded:
        out.print(
            "[yellow]vectors[/]: messages without a vector that are not queued for one: "
            f"{found.never_embedded:,}"
        )
    if not found.healthy and not found.damaged:
        out.print("Run: recollect doctor --repair")
    if found.healthy:
        out.print("[green]Everything agrees.[/]")


def _repair(library: Library) -> None:
    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("Rebuilding the index", total=None)
        library.repair(lambda done, total: bar.update(task, completed=done, total=total))
