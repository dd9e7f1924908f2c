"""`recollect salvage`: rescue what can be read from a damaged library."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from recollect.cli.care.indexing import index_after_import
from recollect.cli.common import add_no_index, console, define, plural, print_json, safe, safe_line
from recollect.cli.progress import ProgressBar
from recollect.errors import InvalidInput
from recollect.places import open, salvage
from recollect.settings import default_user
from recollect.transfer.salvage.report import Loss, SalvageReport

_EXAMPLES = """\
  recollect salvage ~/.local/share/recollect ~/rescued
  recollect salvage ~/.local/share/recollect ~/rescued --user ann
  recollect salvage /mnt/old-disk/library.db ~/rescued

The damaged library is not changed. Stop the programs that use it first.
"""
_MAX_LINES = 50
_MAX_NAMES = 10


def define_salvage(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument(
        "damaged",
        metavar="DAMAGED",
        help="the damaged library: its file, or the folder that holds it (as for --home)",
    )
    command.add_argument(
        "target",
        metavar="NEW",
        help="where to store what is rescued: a folder (as for --home), or postgresql://…",
    )
    command.add_argument(
        "--to-user",
        metavar="NAME",
        help="the user who owns the new library (default: the same as --user)",
    )
    add_no_index(command)


def run(arguments: argparse.Namespace) -> int:
    if arguments.home is not None:
        raise InvalidInput("`recollect salvage` takes DAMAGED and NEW instead of --home.")
    user = arguments.user or default_user()
    to_user = arguments.to_user or user
    with ProgressBar("Reading") as bar:
        report = salvage(arguments.damaged, arguments.target, user, to_user, progress=bar.report)
    if arguments.json:
        print_json(asdict(report) | {"is_complete": report.is_complete})
    else:
        show_report(report)
    with open(arguments.target, to_user, background=False) as library:
        return index_after_import(library, arguments, "salvage")


def show_report(report: SalvageReport, *, stderr: bool = False) -> None:
    """Print what was rescued, and what is missing."""
    out = console(stderr=stderr)
    out.print(
        f"Rescued {plural(report.messages, 'message')} in "
        f"{_documents(report.documents)} from {safe(report.source)}",
        soft_wrap=True,
    )
    if report.is_complete:
        out.print("[green]Nothing is missing.[/]")
        return
    for line in _findings(report):
        out.print(line, soft_wrap=True)
    out.print("A backup may have what is missing: recollect restore", soft_wrap=True)


def _documents(count: int) -> str:
    if count == 1:
        return "1 conversation or item"
    return f"{count:,} conversations and items"


def _findings(report: SalvageReport) -> list[str]:
    lines = []
    if report.missing_messages:
        lines.append(f"[red]missing[/]: {plural(report.missing_messages, 'message')}")
    lines += _limited([_describe_loss(loss) for loss in report.losses])
    lines += _limited([f"[red]lost[/]: all of {safe(repr(id_))}" for id_ in report.lost_documents])
    lines += _limited(
        [
            f"[yellow]altered[/]: message {safe(repr(message))} of {safe(repr(document))} "
            "differs from its checksum"
            for document, message in report.altered
        ]
    )
    lines += _limited(
        [
            f"[yellow]altered[/]: some fields of {safe(repr(id_))} are lost"
            for id_ in report.altered_documents
        ]
    )
    return lines


def _describe_loss(loss: Loss) -> str:
    line = f"[red]incomplete[/]: {safe(repr(loss.id))}"
    if loss.title:
        line += f" ({safe_line(loss.title)})"
    line += f": {plural(loss.rescued, 'message')} rescued, {loss.missing} missing"
    if loss.missing_ids:
        names = ", ".join(loss.missing_ids[:_MAX_NAMES])
        if len(loss.missing_ids) > _MAX_NAMES:
            names += ", …"
        line += f" ({safe(names)})"
    if loss.is_header_lost:
        line += "; its title and dates are lost"
    return line


def _limited(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"… and {len(lines) - _MAX_LINES} more (--json lists all)"]
