"""`recollect redact`: secrets taken out of what is stored, or only reported."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from recollect.cli.common import Commands, add_command, console, existing, print_json, safe
from recollect.library import Library
from recollect.transfer.redaction import Redaction

_EXAMPLES = """\
  recollect redact --report             say where there are secrets, and of which kind; never what they are
  recollect redact                      take them out, for good
"""
_ROWS = 50


def register(commands: Commands) -> None:
    command = add_command(commands, "redact", "take secrets out of the library", redact, _EXAMPLES)
    command.add_argument("--report", action="store_true", help="change nothing; say what there is")


def redact(given: argparse.Namespace) -> int:
    with existing(given) as library:
        made = (
            library.redact(report=given.report)
            if given.json
            else _with_progress(library, given.report)
        )
    if given.json:
        print_json(
            {
                "done": made.done,
                "kinds": dict(made.kinds),
                "documents": [asdict(d) for d in made.documents],
                "earlier_states": made.states,
            }
        )
    else:
        _show(made)
    return 0


def _with_progress(library: Library, report: bool) -> Redaction:
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("Looking" if report else "Redacting", total=None)
        return library.redact(
            report=report,
            progress=lambda _, done, total: bar.update(task, completed=done, total=total),
        )


def _show(made: Redaction) -> None:
    out = console()
    if not made.documents and not made.states:
        out.print("There are no secrets that any rule knows.")
        return
    table = Table("document", "title", "secrets", "messages", box=SIMPLE_HEAD, pad_edge=False)
    for document in made.documents[:_ROWS]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in document.kinds.items())
        messages = ", ".join(safe(m) for m in document.messages[:3]) + (
            " …" if len(document.messages) > 3 else ""
        )
        table.add_row(safe(document.id), safe(document.title), kinds, messages)
    out.print(table)
    if len(made.documents) > _ROWS:
        out.print(f"and {len(made.documents) - _ROWS:,} more; --json lists them all")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in made.kinds.most_common())
    if made.done:
        out.print(
            f"Redacted: {kinds or 'earlier states'}. New ones are kept out by RECOLLECT_REDACT=on."
        )
    else:
        out.print(
            f"Found: {kinds}. Nothing was changed; `recollect redact` takes them out, for good."
        )
