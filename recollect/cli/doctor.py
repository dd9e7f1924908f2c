"""`recollect stats` and `recollect doctor`: what the library holds, and whether it is intact."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from recollect import __version__
from recollect.checkup import Checkup, check_keys, check_libraries, check_server_database
from recollect.cli.commands import command
from recollect.cli.common import console, existing, no_library, print_json, safe, show
from recollect.cli.indexing import space_records, space_summary
from recollect.cli.overview import contents, index_state
from recollect.cli.terminal import ProgressBar
from recollect.importers.sandbox.process import active_bounds
from recollect.model.sources import source_label
from recollect.settings import LIMITS

_INTERNALS = (
    "path",
    "engine",
    "file_bytes",
    "words",
    "alternates",
    "roles",
    "indexed_in_part",
    "purge",
    "purge_reason",
    "vectors",
)
"""Figures that only `--verbose` shows; JSON has them all."""


@command(
    "stats",
    "--verbose  also files, the database and the index",
    """
    recollect stats
    recollect stats --verbose                            also files, the database and the index
    recollect stats --json
    """,
)
def stats(arguments: argparse.Namespace) -> int | None:
    from rich.table import Table

    with existing(arguments) as library:
        figures: dict[str, Any] = library.stats() | {"vectors": space_records(library)}
        index = index_state(library)
    if arguments.json:
        return print_json(figures)
    period, purge = "", figures.get("purge_reason")
    if figures["first"]:
        period = f"{figures['first'][:10]} to {figures['last'][:10]}"
    sources = {source_label(name): count for name, count in figures["sources"].items()}
    rows = {
        "library": contents(figures),
        "period": period,
        "sources": cell(sources) if sources else "",
        "projects": cell(figures["projects"]) if figures["projects"] else "",
        "models": cell(figures["models"]) if figures["models"] else "",
        "imports": cell(figures["imports"]),
        "index": safe(index),
        "deleted text": f"still in files: {safe(purge)}" if purge else "",
        "read-only": safe(figures.get("read_only")),
    }
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    if arguments.verbose:
        table.add_row()
        for name in _INTERNALS:
            if name in figures:
                table.add_row(name.replace("_", " "), cell(figures[name]))
    console().print(table)
    return None


def cell(value: Any) -> str:
    """A figure; of names with counts, the ten most frequent, and how many more there are."""
    if isinstance(value, list):
        return ", ".join(map(space_summary, value)) or "none yet"
    if isinstance(value, dict):
        listing = ", ".join(f"{safe(name)} {count:,}" for name, count in list(value.items())[:10])
        if len(value) > 10:
            listing += f" and {len(value) - 10:,} more"
        return listing or "-"
    if isinstance(value, int):
        return f"{value:,}"
    return safe(str(value or "-"))


# -- doctor ---


@command(
    "doctor",
    "--repair  rebuild the search index from the messages, if these are intact",
    """
    recollect doctor                                     check every library, and the API keys
    recollect doctor --user ann                          check one library
    recollect doctor --repair                            rebuild damaged indexes
    """,
)
def doctor(arguments: argparse.Namespace) -> int:
    step = "Rebuilding the index"
    if arguments.repair:
        with ProgressBar(step) as bar:
            checkups = check_libraries(
                arguments.home,
                arguments.user,
                lambda done, total: bar.report(step, done, total),
            )
    else:
        checkups = check_libraries(arguments.home, arguments.user)
    if not checkups:
        raise no_library(arguments)
    keys, server = check_keys(arguments.home), check_server_database(arguments.home)
    healthy = all(checkup.healthy for checkup in checkups) and not keys and not server
    if arguments.json:
        print_json(
            {
                "recollect": __version__,
                "healthy": healthy,
                "keys": keys,
                "server": server,
                "parser_bounds": active_bounds(),
                "libraries": [record_of(checkup) for checkup in checkups],
                "limits": LIMITS.table(),
            }
        )
        return int(not healthy)
    show(f"recollect: {__version__}")
    show(f"bounds of the process that parses files: {', '.join(active_bounds())}")
    for checkup in checkups:
        show_checkup(checkup)
    for line in keys:
        show(f"[red]API keys[/]: {safe(line)}")
    if keys:
        show(
            "Restore the file from a backup, or remove it and create new keys: "
            "recollect keys add NAME"
        )
    for line in server:
        show(f"[red]servers[/]: {safe(line)}")
    if server:
        show(
            "It has no documents, only the sessions and jobs of servers. Stop `recollect serve` "
            "and remove the file."
        )
    return int(not healthy)


def record_of(checkup: Checkup) -> dict[str, Any]:
    record = asdict(checkup) | asdict(checkup.findings) | {"healthy": checkup.healthy}
    del record["findings"]
    return record


def show_checkup(checkup: Checkup) -> None:
    findings = checkup.findings
    show(f"\nlibrary: {safe(checkup.library)}")
    if checkup.error:
        show(f"[red]unreadable[/]: {safe(checkup.error)}")
        if checkup.is_damaged:
            show_advice(checkup)
        return
    if checkup.database:
        show(f"database: {safe(checkup.database)}")
        show(f"indexed in part: {checkup.indexed_in_part}")
        show(f"purge of deleted text: {safe(checkup.purge)}")
        show(f"vectors: {cell(checkup.vectors)}")
    index = [*findings.damaged_index, *findings.damaged_files]
    index += counted(
        (findings.unindexed, "messages that are not indexed"),
        (findings.orphaned, "entries without a message"),
        (findings.miscounted, "counts that are too low"),
    )
    if findings.outdated:
        index.append("built by another version")
    vectors = counted(
        (findings.orphaned_in_queue, "queue entries without a message"),
        (findings.never_embedded, "messages without a vector that are not queued for one"),
    )
    for label, lines in (
        ("[red]damaged[/]", findings.damaged),
        ("[red]lost[/]", findings.missing),
        ("[red]altered[/]", findings.altered),
        ("[red]archive[/]", checkup.archive),
        ("[yellow]index[/]", index),
        ("[yellow]vectors[/]", vectors),
        ("[dim]replaced[/]", findings.events),
    ):
        for line in lines:
            show(f"{label}: {safe(line)}")
    if checkup.healthy:
        show("[green]No problems found.[/]")
    elif not findings.is_complete:
        show_advice(checkup)
    elif not findings.healthy:
        show("Run: recollect doctor --repair")


def counted(*figures: tuple[int, str]) -> list[str]:
    return [f"{text}: {number:,}" for number, text in figures if number]


def show_advice(checkup: Checkup) -> None:
    """What to do about lost data. Rebuilding the index does not bring it back."""
    show("Messages are damaged or lost. Restore a backup: recollect restore")
    if checkup.library.endswith(".db"):
        show(f"Or rescue what can be read: recollect salvage {safe(checkup.library)} NEW-FOLDER")
    else:
        show("Or export what can be read: recollect export --skip-damaged")
