"""`recollect import` and `recollect setup`: find files, import them, print a receipt."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from recollect.capture.discovery import Discovery, discover
from recollect.cli.commands import command, together
from recollect.cli.common import (
    NO_INDEX,
    at_terminal,
    console,
    existing,
    existing_folders,
    plural,
    print_json,
    print_purge,
    print_table,
    safe,
    show,
    when,
    writable,
)
from recollect.cli.indexing import index_after_import
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.importers.sandbox.parsing import Request, prepare
from recollect.model.kinds import KIND_TABLE
from recollect.model.receipts import Counts, FileReceipt, Receipt

KINDS = tuple(kind.plural for kind in KIND_TABLE)
_ROWS = 20
STOPPED = "stopped"


@command(
    "import",
    together(
        f"""
        paths* PATH     a file, zip or folder; the format is detected
        --as {"|".join(KINDS)}  the kind of the files, if detection gets it wrong
        --undo 1..      undo the import with this receipt
        --list          list the imports of this library
        """,
        NO_INDEX,
    ),
    """
    recollect import                                     look for conversations, and ask
    recollect import chatgpt-export.zip
    recollect import ~/.claude/projects ~/.codex/sessions
    recollect import ~/Notes
    recollect import --as notes mixed-folder
    recollect import conversations.json --json
    recollect import --list
    recollect import --undo 3
    """,
)
def run(arguments: argparse.Namespace) -> int:
    if arguments.undo is not None and (arguments.paths or arguments.list):
        raise InvalidInput("--undo takes the number of one import, and nothing else.")
    if arguments.list and arguments.paths:
        raise InvalidInput("--list shows all imports. Leave out the path.")
    if arguments.list:
        return list_imports(arguments)
    if arguments.undo is not None:
        return undo(arguments)
    paths = arguments.paths
    if not paths:
        if arguments.json or not sys.stdin.isatty() or not at_terminal():
            raise InvalidInput(
                "Nothing to import. Give a file or folder: recollect import PATH\n"
                "Or look for conversations on this computer: recollect setup"
            )
        paths = paths_of(ask(discover()))
    return import_paths(arguments, paths, arguments.as_) if paths else 0


def import_paths(arguments: argparse.Namespace, paths: Sequence[str], kind: str | None) -> int:
    """Import files and folders, print the receipt, and index what is new."""
    prepare(Request(tuple(expand_path(path) for path in paths)))
    with writable(arguments) as library:
        with ProgressBar("Importing", "bytes", files=True) as bar:
            receipt = library.import_path(*paths, kind=kind, progress=bar.report)
        if arguments.json:
            print_json(asdict(receipt))
        else:
            show_receipt(receipt)
        counts = [count for file in receipt.files for count in (file.conversations, file.messages)]
        if any(count.new or count.same or count.changed for count in counts):
            return index_after_import(library, arguments)
    return int(bool(receipt.left_out.failed) or any(count.failed for count in counts))


def show_receipt(receipt: Receipt) -> None:
    show(f"[bold]Receipt {receipt.id}[/]")
    files = receipt.files if len(receipt.files) <= _ROWS else by_format(receipt)
    rows = [
        (safe(file.name), file.format, cell(file.conversations), cell(file.messages))
        for file in files
    ]
    print_table(f"file, format, {', '.join(receipt.units)}", rows)
    if receipt.contents:
        show(f"{receipt.units[0].capitalize()}: {receipt.contents}")
    redacted: Counter[str] = Counter()
    for file in receipt.files:
        show_problems(file)
        redacted.update(file.redacted)
    for kind, count in redacted.items():
        show(f"redacted {count:,} {kind}")
    for word, reasons in (
        ("skipped", receipt.left_out.skipped),
        ("[red]rejected[/]", receipt.left_out.failed),
    ):
        for reason, count in reasons.items():
            show(f"{word} {plural(count, 'file')}: {safe(reason)}")
    show(f"Undo with: [bold]recollect import --undo {receipt.id}[/]")


def cell(counts: Counts) -> str:
    parts = [f"[green]{counts.new:,} new[/]", f"{counts.same:,} same"]
    if counts.changed:
        parts.append(f"{counts.changed:,} changed")
    if counts.skipped:
        parts.append(f"[yellow]{sum(counts.skipped.values()):,} skipped[/]")
    if counts.failed:
        parts.append(f"[red]{sum(counts.failed.values()):,} failed[/]")
    return ", ".join(parts)


def show_problems(file: FileReceipt) -> None:
    for unit, counts in zip(file.units, (file.conversations, file.messages), strict=True):
        for word, reasons in (
            ("[yellow]skipped[/]", counts.skipped),
            ("[red]failed[/]", counts.failed),
        ):
            for reason, count in reasons.items():
                amount = plural(count, unit.removesuffix("s"))
                line = f"{word} {amount} in {safe(file.name)}: {safe(reason)}"
                samples = ", ".join(map(safe, file.samples.get(reason, [])))
                console().print(f"{line} [dim]({samples})[/]" if samples else line)


def by_format(receipt: Receipt) -> list[FileReceipt]:
    """One row per format, if there are too many files for a row each."""
    rows: dict[str, FileReceipt] = {}
    for file in receipt.files:
        row = rows.setdefault(file.format, FileReceipt("", file.format))
        for total, counts in (
            (row.conversations, file.conversations),
            (row.messages, file.messages),
        ):
            total.new += counts.new
            total.same += counts.same
            total.changed += counts.changed
            for sums, reasons in ((total.skipped, counts.skipped), (total.failed, counts.failed)):
                for reason, count in reasons.items():
                    sums[reason] = sums.get(reason, 0) + count
    for format, row in rows.items():
        row.name = plural(sum(file.format == format for file in receipt.files), "file")
    return list(rows.values())


def list_imports(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipts = library.receipts()
        running = library.running_imports()
    if arguments.json:
        return print_json({"receipts": [asdict(receipt) for receipt in receipts]})
    if not receipts:
        show("Nothing was imported yet.")
        return 0
    states = [state_of(receipt, running) for receipt in receipts]
    rows = []
    for receipt, state in zip(receipts, states, strict=True):
        new = plural(sum(f.messages.new for f in receipt.files), receipt.units[1].removesuffix("s"))
        rows.append((str(receipt.id), when(receipt.started_at), new, state, safe(receipt.path)))
    print_table("receipt, when, new, state, path", rows)
    complete_paths: set[str] = set()
    for receipt, state in zip(receipts, states, strict=True):
        if state == "complete":
            complete_paths.add(receipt.path)
        if state == STOPPED and receipt.path not in complete_paths:
            paths = " ".join(shlex.quote(path) for path in receipt.path.split(", "))
            show(
                f"Import {receipt.id} was stopped; what it had saved is in the library. "
                f"Resume it with: [bold]recollect import {safe(paths)}[/]"
            )
    return 0


def state_of(receipt: Receipt, running: datetime | None) -> str:
    """`running` is when the oldest import that runs now was started."""
    if receipt.undone_at:
        return "undone"
    if receipt.finished_at:
        return "complete"
    if running is not None and receipt.started_at >= running:
        return "running"
    return STOPPED


def undo(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipt = library.undo_import(arguments.undo)
        purge = library.purge_status()
    if arguments.json:
        return print_json(asdict(receipt) | {"purge": purge.state})
    show(f"Import {receipt.id} of {safe(receipt.path)} was undone.")
    print_purge(purge)
    return 0


# -- setup ---


@command(
    "setup",
    together(
        """
        --downloads FOLDER...  where exports are (default: your downloads); may be repeated
        --yes                  import everything without asking
        """,
        NO_INDEX,
    ),
    """
    recollect setup                                      look, ask, and import
    recollect setup --yes                                import everything without asking
    recollect setup --json                               only print what could be imported
    recollect setup --downloads ~/Desktop

    Setup looks at the names of files: where Claude Code, Codex and Gemini CLI write
    their sessions, and exports in your downloads. It opens no file before you
    agree.
    """,
)
def setup(arguments: argparse.Namespace) -> int:
    folders = arguments.downloads
    discoveries = discover(existing_folders(folders)) if folders else discover()
    if arguments.json and not arguments.yes:
        found = [
            {
                "source": discovery.source,
                "label": discovery.label,
                "sessions": discovery.sessions,
                "paths": [str(path) for path in discovery.paths],
            }
            for discovery in discoveries
        ]
        return print_json({"found": found})
    selection = discoveries if arguments.yes and discoveries else ask(discoveries)
    if not selection:
        return 0
    status = import_paths(arguments, paths_of(selection), kind=None)
    if not arguments.json:
        show("\nTry: [bold]recollect search[/] WORDS, or [bold]recollect serve --open[/]")
        if any(discovery.sessions for discovery in selection):
            show("To import new sessions as they grow: recollect service install watch")
    return status


def ask(discoveries: Sequence[Discovery]) -> Sequence[Discovery]:
    """Ask what to import. Without a terminal, say how to do it."""
    if not discoveries:
        show(
            "Found no conversations on this computer. Import an export of your conversations:\n"
            "  ChatGPT  Settings > Data controls > Export data\n"
            "  Claude   Settings > Privacy > Export data\n"
            "Then: recollect import PATH"
        )
        return []
    question = "Import it? [Y/n] "
    if len(discoveries) == 1:
        show(f"Found {safe(discoveries[0].label)}.")
    else:
        question = "Import all? [Y/n, or numbers such as 1 3] "
        show("Found:")
        for number, discovery in enumerate(discoveries, 1):
            show(f"[bold cyan]{number:>3}[/]  {safe(discovery.label)}")
    if not sys.stdin.isatty():
        show("Import all of it with: recollect setup --yes")
        return []
    return choose(discoveries, input(question))


def choose(discoveries: Sequence[Discovery], answer: str) -> Sequence[Discovery]:
    """The discoveries that an answer selects. Raises InvalidInput if it is no answer."""
    words = answer.replace(",", " ").split()
    if not words or answer.strip().lower() in ("y", "yes", "a", "all"):
        return discoveries
    if answer.strip().lower() in ("n", "no", "q", "quit"):
        show("Nothing was imported.")
        return []
    by_number = {str(number): discovery for number, discovery in enumerate(discoveries, 1)}
    if not all(word in by_number for word in words):
        raise InvalidInput(
            f"Answer yes, no, or numbers from 1 to {len(discoveries)}. Nothing was imported."
        )
    return [by_number[word] for word in dict.fromkeys(words)]


def paths_of(discoveries: Sequence[Discovery]) -> list[str]:
    return [str(path) for discovery in discoveries for path in discovery.paths]
