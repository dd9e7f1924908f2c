"""`recollect import`: import files, print a receipt."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.care.indexing import index_after_import
from recollect.cli.common import (
    add_no_index,
    at_terminal,
    console,
    define,
    existing,
    plural,
    print_json,
    print_purge,
    safe,
    when,
    writable,
)
from recollect.cli.progress import ProgressBar
from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.importers.sandbox.files import Request, prepare
from recollect.model.kinds import KIND_TABLE
from recollect.model.receipts import Counts, FileReceipt, Receipt

_EXAMPLES = """\
  recollect import                                     look for conversations, and ask
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
STOPPED = "stopped"


def define_import(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="a file, zip or folder; the format is detected"
    )
    command.add_argument(
        "--as", dest="kind", choices=KINDS, help="the kind of the files, if detection gets it wrong"
    )
    command.add_argument("--undo", type=int, metavar="RECEIPT", help="undo one import")
    command.add_argument("--list", action="store_true", help="list the imports of this library")
    add_no_index(command)


def run(arguments: argparse.Namespace) -> int:
    if arguments.undo is not None and (arguments.paths or arguments.list):
        raise InvalidInput("--undo takes the number of one import, and nothing else.")
    if arguments.list and arguments.paths:
        raise InvalidInput("--list shows all imports. Leave out the path.")
    if arguments.list:
        return _list(arguments)
    if arguments.undo is not None:
        return _undo(arguments)
    if arguments.paths:
        return import_paths(arguments, arguments.paths, arguments.kind)
    if sys.stdin.isatty() and at_terminal() and not arguments.json:
        from recollect.cli.content.finding import ask, find, paths_of

        paths = paths_of(ask(find()))
        if not paths:
            return 0
        return import_paths(arguments, paths, arguments.kind)
    raise InvalidInput(
        "Nothing to import. Give a file or folder: recollect import PATH\n"
        "Or look for conversations on this computer: recollect setup"
    )


def import_paths(arguments: argparse.Namespace, paths: Sequence[str], kind: str | None) -> int:
    """Import files and folders, print the receipt, and index what is new."""
    prepare(Request(tuple(expand_path(path) for path in paths)))
    with writable(arguments) as library:
        with ProgressBar("Importing", "bytes", files=True) as bar:
            receipt = library.import_path(*paths, kind=kind, progress=bar.report)
        if arguments.json:
            print_json(asdict(receipt))
        else:
            _show(receipt)
        imported = _imported(receipt)
        if imported:
            return index_after_import(library, arguments)
    return int(_has_failures(receipt))


def _imported(receipt: Receipt) -> int:
    """How many conversations and messages of the files are now in the library."""
    counts = [c for file in receipt.files for c in (file.conversations, file.messages)]
    return sum(count.new + count.same + count.changed for count in counts)


def _has_failures(receipt: Receipt) -> bool:
    files = any(file.conversations.failed or file.messages.failed for file in receipt.files)
    return bool(receipt.left_out.failed) or files


def _show(receipt: Receipt) -> None:
    out = console()
    out.print(f"[bold]Receipt {receipt.id}[/]")
    table = Table("file", "format", *receipt.units, box=SIMPLE_HEAD, pad_edge=False)
    rows = receipt.files
    if len(rows) > _ROWS:
        rows = _by_format(receipt)
    for file in rows:
        table.add_row(
            safe(file.name), file.format, _counts(file.conversations), _counts(file.messages)
        )
    out.print(table)
    if receipt.contents:
        out.print(f"{receipt.units[0].capitalize()}: {receipt.contents}")
    for file in receipt.files:
        _show_problems(file)
    for kind, count in _redacted(receipt).items():
        out.print(f"redacted {count:,} {kind}")
    for word, reasons in (
        ("skipped", receipt.left_out.skipped),
        ("[red]rejected[/]", receipt.left_out.failed),
    ):
        for reason, count in reasons.items():
            out.print(f"{word} {plural(count, 'file')}: {safe(reason)}", soft_wrap=True)
    out.print(f"Undo with: [bold]recollect import --undo {receipt.id}[/]")


def _redacted(receipt: Receipt) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for file in receipt.files:
        totals.update(file.redacted)
    return totals


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
                amount = plural(count, unit.removesuffix("s"))
                line = f"[{colour}]{word}[/] {amount} in {safe(file.name)}: {safe(reason)}"
                samples = ", ".join(safe(sample) for sample in file.samples.get(reason, []))
                if samples:
                    line += f" [dim]({samples})[/]"
                out.print(line)


def _by_format(receipt: Receipt) -> list[FileReceipt]:
    """One row per format, if there are too many files for a row each."""
    rows: dict[str, FileReceipt] = {}
    files: dict[str, int] = {}
    for file in receipt.files:
        row = rows.setdefault(file.format, FileReceipt("", file.format))
        files[file.format] = files.get(file.format, 0) + 1
        row.name = plural(files[file.format], "file")
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


def _list(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipts = library.receipts()
        running = library.running_imports()
    if arguments.json:
        print_json({"receipts": [asdict(r) for r in receipts]})
        return 0
    if not receipts:
        console().print("Nothing was imported yet.")
        return 0
    table = Table("receipt", "when", "new", "state", "path", box=SIMPLE_HEAD, pad_edge=False)
    for receipt in receipts:
        new = sum(f.messages.new for f in receipt.files)
        table.add_row(
            str(receipt.id),
            when(receipt.started_at),
            plural(new, receipt.units[1].removesuffix("s")),
            _state(receipt, running),
            safe(receipt.path),
        )
    console().print(table)
    complete_paths: set[str] = set()
    for receipt in receipts:
        state = _state(receipt, running)
        if state == "complete":
            complete_paths.add(receipt.path)
        if state == STOPPED and receipt.path not in complete_paths:
            command = f"recollect import {_words(receipt.path)}"
            console().print(
                f"Import {receipt.id} was stopped; what it had saved is in the library. "
                f"Resume it with: [bold]{safe(command)}[/]",
                soft_wrap=True,
            )
    return 0


def _state(receipt: Receipt, running: datetime | None) -> str:
    """`running` is when the oldest import that runs now was started."""
    if receipt.undone_at:
        return "undone"
    if receipt.finished_at:
        return "complete"
    if running is not None and receipt.started_at >= running:
        return "running"
    return STOPPED


def _words(path: str) -> str:
    """The paths of a receipt, as they can be typed in a shell."""
    return " ".join(shlex.quote(part) for part in path.split(", "))


def _undo(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipt = library.undo_import(arguments.undo)
        purge = library.purge_status()
    if arguments.json:
        print_json(asdict(receipt) | {"purge": purge.state})
    else:
        console().print(f"Import {receipt.id} of {safe(receipt.path)} was undone.")
        print_purge(purge)
    return 0
