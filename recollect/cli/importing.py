"""`recollect import`: files in, a receipt out."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from recollect.cli.common import (
    Commands,
    add_command,
    console,
    existing,
    print_json,
    safe,
    when,
    writable,
)
from recollect.cli.indexing import index_after_import
from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.model.kinds import KIND_TABLE
from recollect.model.receipts import Counts, FileReceipt, Receipt

_EXAMPLES = """\
  recollect import chatgpt-export.zip
  recollect import ~/.claude/projects ~/.codex/sessions
  recollect import ~/Notes
  recollect import --as notes mixed-folder
  recollect import conversations.json --json
  recollect import --list
  recollect import --undo 3
"""
KINDS = tuple(kind.plural for kind in KIND_TABLE)
_ROWS = 20


def register(commands: Commands) -> None:
    command = add_command(
        commands,
        "import",
        "import exports, transcripts, notes, media, characters and prompts",
        run,
        _EXAMPLES,
    )
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="a file, zip or folder; the format is detected"
    )
    command.add_argument(
        "--as", dest="kind", choices=KINDS, help="what the files are, where that is not clear"
    )
    command.add_argument("--undo", type=int, metavar="RECEIPT", help="take one import back")
    command.add_argument("--list", action="store_true", help="list the imports of this library")
    command.add_argument(
        "--no-index", action="store_true", help="leave indexing for later; words are found at once"
    )


def run(given: argparse.Namespace) -> int:
    if given.list:
        return _list(given)
    if given.undo is not None:
        return _undo(given)
    if not given.paths:
        raise InvalidInput("Nothing to import. Give a file or folder: recollect import PATH")
    with writable(given) as library:
        receipt = _with_progress(library, given)
        if given.json:
            print_json(asdict(receipt))
        else:
            _show(receipt)
        stopped = index_after_import(library, given) if _kept(receipt) else 0
    failed = receipt.left_out.failed or any(
        f.conversations.failed or f.messages.failed for f in receipt.files
    )
    return stopped or (1 if failed and not _kept(receipt) else 0)


def _with_progress(library: Library, given: argparse.Namespace) -> Receipt:
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("Importing", total=None)

        def report(file: str, done: int, total: int) -> None:
            bar.update(task, description=safe(file[-40:]), completed=done, total=total)

        return library.import_path(*given.paths, kind=given.kind, progress=report)


def _kept(receipt: Receipt) -> int:
    return sum(
        c.new + c.same + c.changed for f in receipt.files for c in (f.conversations, f.messages)
    )


def _show(receipt: Receipt) -> None:
    out = console()
    out.print(f"[bold]Receipt {receipt.id}[/]")
    table = Table("file", "format", *receipt.units, box=SIMPLE_HEAD, pad_edge=False)
    shown = receipt.files if len(receipt.files) <= _ROWS else _by_format(receipt)
    for file in shown:
        table.add_row(
            safe(file.name), file.format, _counts(file.conversations), _counts(file.messages)
        )
    out.print(table)
    for file in receipt.files:
        _show_problems(file)
    for kind, count in _redacted(receipt).items():
        out.print(f"redacted {count:,} {kind}")
    for word, reasons in (
        ("left out", receipt.left_out.skipped),
        ("[red]refused[/]", receipt.left_out.failed),
    ):
        for reason, count in reasons.items():
            out.print(f"{word} {count:,} files: {safe(reason)}", soft_wrap=True)
    out.print(f"Take it back with: [bold]recollect import --undo {receipt.id}[/]")


def _redacted(receipt: Receipt) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in receipt.files:
        for kind, count in file.redacted.items():
            found[kind] = found.get(kind, 0) + count
    return found


def _counts(counts: Counts) -> str:
    parts = [f"[green]{counts.new:,} new[/]", f"{counts.same:,} same"]
    if counts.changed:
        parts.append(f"{counts.changed:,} changed")
    if counts.skipped:
        parts.append(f"[yellow]{sum(counts.skipped.values()):,} skipped[/]")
    if counts.failed:
        parts.append(f"[red]{sum(counts.failed.values()):,} failed[/]")
    return ", ".join(parts)


def _show_problems(file: FileReceipt) -> None:
    out = console()
    for unit, counts in zip(file.units, (file.conversations, file.messages), strict=True):
        for word, colour, reasons in (
            ("skipped", "yellow", counts.skipped),
            ("failed", "red", counts.failed),
        ):
            for reason, count in reasons.items():
                places = ", ".join(safe(p) for p in file.samples.get(reason, []))
                out.print(
                    f"[{colour}]{word}[/] {count:,} {unit} in {safe(file.name)}: {safe(reason)}"
                    + (f" [dim]({places})[/]" if places else "")
                )


def _by_format(receipt: Receipt) -> list[FileReceipt]:
    """One row a format, when a row a file would be too many."""
    rows: dict[str, FileReceipt] = {}
    files: dict[str, int] = {}
    for file in receipt.files:
        row = rows.setdefault(file.format, FileReceipt("", file.format))
        files[file.format] = files.get(file.format, 0) + 1
        row.name = f"{files[file.format]:,} files"
        for total, counts in (
            (row.conversations, file.conversations),
            (row.messages, file.messages),
        ):
            total.new += counts.new
            total.same += counts.same
            total.changed += counts.changed
            for mine, theirs in ((total.skipped, counts.skipped), (total.failed, counts.failed)):
                for reason, count in theirs.items():
                    mine[reason] = mine.get(reason, 0) + count
    return list(rows.values())


def _list(given: argparse.Namespace) -> int:
    with existing(given) as library:
        receipts = library.receipts()
    if given.json:
        print_json({"receipts": [asdict(r) for r in receipts]})
        return 0
    table = Table("receipt", "when", "path", "new", "state", box=SIMPLE_HEAD, pad_edge=False)
    for receipt in receipts:
        new = sum(f.messages.new for f in receipt.files)
        state = (
            "taken back" if receipt.undone_at else "done" if receipt.finished_at else "not finished"
        )
        table.add_row(
            str(receipt.id),
            when(receipt.started_at),
            safe(receipt.path),
            f"{new:,} {receipt.units[1]}",
            state,
        )
    console().print(table)
    return 0


def _undo(given: argparse.Namespace) -> int:
    with existing(given) as library:
        receipt = library.undo_import(given.undo)
    if given.json:
        print_json(asdict(receipt))
    else:
        console().print(f"Import {receipt.id} of {safe(receipt.path)} was taken back.")
    return 0
