"""`recollect forget`: delete messages, conversations and items for good, after a preview."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from recollect.cli.common import (
    console,
    define,
    existing,
    plural,
    print_json,
    print_purge,
    safe,
    safe_line,
    when,
)
from recollect.cli.content.references import REFERENCE, resolve
from recollect.cli.progress import ProgressBar
from recollect.library import Library
from recollect.model.forgetting import Selection
from recollect.model.kinds import KINDS
from recollect.model.sources import SOURCES
from recollect.transfer.forgetting import ForgetReport

_EXAMPLES = """\
  recollect forget 3f9a0c                              one conversation or item
  recollect forget 2                                   the second of the last results, as a whole
  recollect forget 3f9a0c --message MESSAGE            one message; may be repeated
  recollect forget 3f9a0c --from MESSAGE --to MESSAGE  a span of messages
  recollect forget --project clients/acme
  recollect forget --source chatgpt --before 2024-01-01
  recollect forget --text "Jane Doe"                   messages and titles with these words
  recollect forget --regex '(?i)invoice \\d{6}' --yes   RE2; without a preview

Conditions are combined: all of them must hold. Without --yes, you see what would be forgotten, and
are asked. There is no undo.
"""
_SHARES = 5


def define_forget(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument("id", nargs="*", metavar="ID", help=REFERENCE)
    command.add_argument(
        "--message",
        action="append",
        default=[],
        metavar="ID",
        help="only this message of the conversation; may be repeated",
    )
    command.add_argument("--from", dest="first", metavar="ID", help="the first message of a span")
    command.add_argument("--to", dest="last", metavar="ID", help="the last message of a span")
    command.add_argument(
        "--project", action="append", default=[], metavar="NAME", help="only this project"
    )
    command.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(SOURCES)}; may be repeated",
    )
    command.add_argument(
        "--kind", action="append", default=[], choices=KINDS, help="only this kind; may be repeated"
    )
    command.add_argument(
        "--after", metavar="DATE", help="only messages on or after this ISO 8601 date or time"
    )
    command.add_argument(
        "--before",
        metavar="DATE",
        help="only messages on or before it; a bare date includes the whole day (UTC)",
    )
    command.add_argument(
        "--text", help="only messages and titles with this word or phrase, ignoring case"
    )
    command.add_argument(
        "--regex", metavar="PATTERN", help="only those that match this RE2 pattern"
    )
    command.add_argument("--yes", action="store_true", help="do not ask; forget")


def run(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        selection = _selection(library, arguments)
        if arguments.yes:
            return _forget(library, selection, arguments.json)
        with ProgressBar("Searching") as bar:
            report = library.preview_forget(selection, bar.report)
        if arguments.json:
            print_json(asdict(report))
            return 0
        _show(report)
        if not report:
            return 0
        if not sys.stdin.isatty():
            console(stderr=True).print("Nothing was changed. Add --yes to forget this.")
            return 1
        if not _is_confirmed():
            console().print("Nothing was changed.")
            return 1
        return _forget(library, selection, False)


def _selection(library: Library, arguments: argparse.Namespace) -> Selection:
    return Selection.of(
        conversations=[resolve(library, arguments, text).id for text in arguments.id],
        messages=arguments.message,
        first=arguments.first,
        last=arguments.last,
        projects=arguments.project,
        sources=arguments.source,
        kinds=arguments.kind,
        after=arguments.after,
        before=arguments.before,
        text=arguments.text,
        pattern=arguments.regex,
    )


def _is_confirmed() -> bool:
    answer = input("Forget this for good? There is no undo. Type yes: ")
    return answer.strip().lower() == "yes"


def _forget(library: Library, selection: Selection, as_json: bool) -> int:
    with ProgressBar("Forgetting") as bar:
        report = library.forget(selection, bar.report)
    purge = library.purge_status()
    if as_json:
        print_json(asdict(report))
        return 0
    out = console()
    if not report:
        out.print("Nothing matches, so nothing was changed.")
        return 0
    out.print(f"Forgotten: {_summary(report)}.")
    if report.archived_files:
        out.print(f"Copies of {plural(report.archived_files, 'file')} in the archive were deleted.")
    out.print(report.note)
    print_purge(purge)
    return 0


def _summary(report: ForgetReport) -> str:
    parts = []
    if report.messages:
        parts.append(plural(report.messages, "message"))
    if report.conversations:
        parts.append(f"{plural(report.conversations, 'conversation')} as a whole")
    if report.changed_conversations:
        parts.append(f"parts of {plural(report.changed_conversations, 'conversation')}")
    if report.items:
        parts.append(plural(report.items, "item"))
    if report.titles:
        parts.append(plural(report.titles, "title"))
    if report.earlier_versions:
        versions = plural(report.earlier_versions, "earlier version")
        parts.append(f"{versions} kept for undoing imports")
    return ", ".join(parts)


def _show(report: ForgetReport) -> None:
    out = console()
    if not report:
        out.print("Nothing matches.")
        return
    _show_examples(out, report)
    out.print(f"This would forget {_summary(report)}.")
    if report.by_source:
        out.print(f"Sources: {_shares(report.by_source)}. Projects: {_shares(report.by_project)}.")
    out.print(report.note)


def _shares(counts: Mapping[str, int]) -> str:
    """The largest counts, with their names."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{safe(name)} {count:,}" for name, count in ordered[:_SHARES])
    if len(ordered) > _SHARES:
        text += f" and {len(ordered) - _SHARES:,} more"
    return text


def _show_examples(out: Console, report: ForgetReport) -> None:
    table = Table("id", "title", "date", "role", "text", box=SIMPLE_HEAD, pad_edge=False)
    for example in report.examples:
        table.add_row(
            safe(example.conversation_id),
            safe_line(example.title),
            when(example.created_at),
            safe(example.role or example.kind),
            safe(example.excerpt),
        )
    out.print(table)
