"""`recollect stats` and `recollect doctor`: what the library holds, and whether it is intact."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect import __version__
from recollect.cli.common import console, define, existing, print_json, safe
from recollect.cli.indexing import space_records, space_summary
from recollect.cli.progress import ProgressBar
from recollect.library import Library
from recollect.settings import LIMITS
from recollect.store.values import Findings

_STATS_EXAMPLES = """\
  recollect stats
  recollect stats --json
"""
_DOCTOR_EXAMPLES = """\
  recollect doctor
  recollect doctor --repair
"""


def define_stats(command: argparse.ArgumentParser) -> None:
    define(command, stats, _STATS_EXAMPLES)


def define_doctor(command: argparse.ArgumentParser) -> None:
    define(command, doctor, _DOCTOR_EXAMPLES)
    command.add_argument(
        "--repair", action="store_true", help="rebuild the search index from the messages"
    )


def stats(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        figures = library.stats() | {"vectors": space_records(library)}
    if arguments.json:
        print_json(figures)
        return 0
    table = Table(show_header=False, box=SIMPLE_HEAD, pad_edge=False)
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), _cell(value))
    console().print(table)
    return 0


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(space_summary(space) for space in value) or "none yet"
    if isinstance(value, dict):
        counts = list(value.items())[:10]
        return ", ".join(f"{safe(name)} {count:,}" for name, count in counts) or "-"
    if isinstance(value, int):
        return f"{value:,}"
    return safe(str(value or "-"))


def doctor(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        findings = library.verify()
        if arguments.repair and not findings.healthy:
            _repair(library)
            findings = library.verify()
        figures = library.stats()
        facts = {
            "recollect": __version__,
            "database": figures["engine"],
            "library": figures["path"],
            "indexed_in_part": figures["indexed_in_part"],
        }
        lacks = library.missing_features()
        vectors = space_records(library)
    if arguments.json:
        record = facts | {"vectors": vectors, "lacks": lacks} | asdict(findings)
        print_json(record | {"healthy": findings.healthy, "limits": LIMITS.table()})
    else:
        _show_facts(facts, vectors, lacks)
        _show_findings(findings)
    return int(not findings.healthy)


def _show_facts(
    facts: dict[str, Any], vectors: list[dict[str, Any]], lacks: tuple[str, ...]
) -> None:
    out = console()
    for name, value in facts.items():
        out.print(f"{name.replace('_', ' ')}: {safe(str(value))}")
    summaries = ", ".join(space_summary(space) for space in vectors)
    out.print(f"vectors: {summaries or 'none yet'}")
    for line in lacks:
        out.print(f"[yellow]missing[/]: {safe(line)}")


def _show_findings(findings: Findings) -> None:
    out = console()
    for line in findings.damaged:
        out.print(
            f"[red]damaged[/]: {safe(line)}. Restore a backup, or export what can still be read."
        )
    for line in _index_findings(findings):
        out.print(f"[yellow]index[/]: {line}")
    for line in _vector_findings(findings):
        out.print(f"[yellow]vectors[/]: {line}")
    if findings.healthy:
        out.print("[green]No problems found.[/]")
    elif not findings.damaged:
        out.print("Run: recollect doctor --repair")


def _index_findings(findings: Findings) -> list[str]:
    lines = [safe(line) for line in findings.damaged_index]
    if findings.unindexed:
        lines.append(f"messages that are not indexed: {findings.unindexed:,}")
    if findings.orphaned:
        lines.append(f"entries without a message: {findings.orphaned:,}")
    if findings.outdated:
        lines.append("built by another version")
    return lines


def _vector_findings(findings: Findings) -> list[str]:
    lines = []
    if findings.orphaned_in_queue:
        lines.append(f"queue entries without a message: {findings.orphaned_in_queue:,}")
    if findings.never_embedded:
        lines.append(
            f"messages without a vector that are not queued for one: {findings.never_embedded:,}"
        )
    return lines


def _repair(library: Library) -> None:
    with ProgressBar("Rebuilding the index") as bar:
        library.repair(lambda done, total: bar.report("Rebuilding the index", done, total))
