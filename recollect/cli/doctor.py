"""`recollect stats` and `recollect doctor`: what the library holds, and whether it is intact."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from recollect import __version__
from recollect.checkup import Checkup, check_keys, check_libraries, check_server_database
from recollect.cli.common import add_flag, console, define, existing, no_library, print_json, safe
from recollect.cli.indexing import space_records, space_summary
from recollect.cli.overview import contents, index_state
from recollect.cli.terminal import ProgressBar
from recollect.importers.sandbox.process import active_bounds
from recollect.model.sources import source_label
from recollect.settings import LIMITS
from recollect.store.values import Findings

_STATS_EXAMPLES = """\
  recollect stats
  recollect stats --verbose                            also files, the database and the index
  recollect stats --json
"""
_DOCTOR_EXAMPLES = """\
  recollect doctor                                     check every library, and the API keys
  recollect doctor --user ann                          check one library
  recollect doctor --repair                            rebuild damaged indexes
"""
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
_RESTORE_ADVICE = "Messages are damaged or lost. Restore a backup: recollect restore"
_KEYS_ADVICE = (
    "Restore the file from a backup, or remove it and create new keys: recollect keys add NAME"
)
_SERVER_ADVICE = (
    "It has no documents, only the sessions and jobs of servers. Stop `recollect serve` and remove "
    "the file."
)


def define_stats(command: argparse.ArgumentParser) -> None:
    define(command, stats, _STATS_EXAMPLES)
    add_flag(command, "--verbose", "also files, the database and the index")


def define_doctor(command: argparse.ArgumentParser) -> None:
    define(command, doctor, _DOCTOR_EXAMPLES)
    add_flag(command, "--repair", "rebuild the search index from the messages, if these are intact")


def stats(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        figures = library.stats() | {"vectors": space_records(library)}
        index = index_state(library)
    if arguments.json:
        print_json(figures)
        return 0
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for name, value in _rows(figures, index):
        table.add_row(name, value)
    if arguments.verbose:
        table.add_row()
        for name in _INTERNALS:
            if name in figures:
                table.add_row(name.replace("_", " "), cell(figures[name]))
    console().print(table)
    return 0


def _rows(figures: dict[str, Any], index: str) -> list[tuple[str, str]]:
    """What people want to know about their library."""
    sources = {source_label(name): count for name, count in figures["sources"].items()}
    rows = [
        ("library", contents(figures)),
        ("period", period(figures)),
        ("sources", _counts(sources)),
        ("projects", _counts(figures["projects"])),
        ("models", _counts(figures["models"])),
        ("imports", f"{figures['imports']:,}"),
        ("index", safe(index)),
    ]
    if figures.get("purge_reason"):
        rows.append(("deleted text", f"still in files: {safe(figures['purge_reason'])}"))
    if figures.get("read_only"):
        rows.append(("read-only", safe(figures["read_only"])))
    return [(name, value) for name, value in rows if value]


def period(figures: dict[str, Any]) -> str:
    if not figures["first"]:
        return ""
    return f"{figures['first'][:10]} to {figures['last'][:10]}"


def _counts(counts: dict[str, int]) -> str:
    """The ten most frequent names, and how many more there are."""
    listing = ", ".join(f"{safe(name)} {count:,}" for name, count in list(counts.items())[:10])
    if len(counts) > 10:
        listing += f" and {len(counts) - 10:,} more"
    return listing


def cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(space_summary(space) for space in value) or "none yet"
    if isinstance(value, dict):
        return _counts(value) or "-"
    if isinstance(value, int):
        return f"{value:,}"
    return safe(str(value or "-"))


# -- doctor ---


def doctor(arguments: argparse.Namespace) -> int:
    if arguments.repair:
        with ProgressBar("Rebuilding the index") as bar:
            checkups = check_libraries(
                arguments.home,
                arguments.user,
                lambda done, total: bar.report("Rebuilding the index", done, total),
            )
    else:
        checkups = check_libraries(arguments.home, arguments.user)
    if not checkups:
        raise no_library(arguments)
    key_problems = check_keys(arguments.home)
    server_problems = check_server_database(arguments.home)
    libraries_are_healthy = all(checkup.healthy for checkup in checkups)
    healthy = libraries_are_healthy and not key_problems and not server_problems
    if arguments.json:
        print_json(
            {
                "recollect": __version__,
                "healthy": healthy,
                "keys": key_problems,
                "server": server_problems,
                "parser_bounds": active_bounds(),
                "libraries": [_record(checkup) for checkup in checkups],
                "limits": LIMITS.table(),
            }
        )
    else:
        show(checkups, key_problems, server_problems)
    return int(not healthy)


def _record(checkup: Checkup) -> dict[str, Any]:
    record = asdict(checkup) | asdict(checkup.findings) | {"healthy": checkup.healthy}
    del record["findings"]
    return record


def show(checkups: list[Checkup], key_problems: list[str], server_problems: list[str]) -> None:
    out = console()
    out.print(f"recollect: {__version__}")
    out.print(f"bounds of the process that parses files: {', '.join(active_bounds())}")
    for checkup in checkups:
        show_library(checkup)
    for line in key_problems:
        out.print(f"[red]API keys[/]: {safe(line)}", soft_wrap=True)
    if key_problems:
        out.print(_KEYS_ADVICE, soft_wrap=True)
    for line in server_problems:
        out.print(f"[red]servers[/]: {safe(line)}", soft_wrap=True)
    if server_problems:
        out.print(_SERVER_ADVICE, soft_wrap=True)


def show_library(checkup: Checkup) -> None:
    out = console()
    out.print()
    out.print(f"library: {safe(checkup.library)}", soft_wrap=True)
    if checkup.error:
        out.print(f"[red]unreadable[/]: {safe(checkup.error)}", soft_wrap=True)
        if checkup.is_damaged:
            show_advice(checkup)
        return
    if checkup.database:
        out.print(f"database: {safe(checkup.database)}")
        out.print(f"indexed in part: {checkup.indexed_in_part}")
        out.print(f"purge of deleted text: {safe(checkup.purge)}", soft_wrap=True)
        summaries = ", ".join(space_summary(space) for space in checkup.vectors)
        out.print(f"vectors: {summaries or 'none yet'}")
    show_findings(checkup)


def show_findings(checkup: Checkup) -> None:
    out = console()
    findings = checkup.findings
    for label, lines in (
        ("[red]damaged[/]", findings.damaged),
        ("[red]lost[/]", findings.missing),
        ("[red]altered[/]", findings.altered),
        ("[red]archive[/]", checkup.archive),
        ("[yellow]index[/]", index_findings(findings)),
        ("[yellow]vectors[/]", vector_findings(findings)),
        ("[dim]replaced[/]", findings.events),
    ):
        for line in lines:
            out.print(f"{label}: {safe(line)}", soft_wrap=True)
    if checkup.healthy:
        out.print("[green]No problems found.[/]")
    elif not findings.is_complete:
        show_advice(checkup)
    elif not findings.healthy:
        out.print("Run: recollect doctor --repair")


def show_advice(checkup: Checkup) -> None:
    """What to do about lost data. Rebuilding the index does not bring it back."""
    out = console()
    out.print(_RESTORE_ADVICE, soft_wrap=True)
    if checkup.library.endswith(".db"):
        out.print(
            f"Or rescue what can be read: recollect salvage {safe(checkup.library)} NEW-FOLDER",
            soft_wrap=True,
        )
    else:
        out.print("Or export what can be read: recollect export --skip-damaged")


def index_findings(findings: Findings) -> list[str]:
    lines = findings.damaged_index + findings.damaged_files
    if findings.unindexed:
        lines.append(f"messages that are not indexed: {findings.unindexed:,}")
    if findings.orphaned:
        lines.append(f"entries without a message: {findings.orphaned:,}")
    if findings.miscounted:
        lines.append(f"counts that are too low: {findings.miscounted:,}")
    if findings.outdated:
        lines.append("built by another version")
    return lines


def vector_findings(findings: Findings) -> list[str]:
    lines = []
    if findings.orphaned_in_queue:
        lines.append(f"queue entries without a message: {findings.orphaned_in_queue:,}")
    if findings.never_embedded:
        lines.append(
            f"messages without a vector that are not queued for one: {findings.never_embedded:,}"
        )
    return lines
