"""`recollect redact`, `forget` and `audit`: remove what should be gone, and see who did what."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from recollect.cli.common import (
    add_command,
    add_flag,
    add_list,
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
from recollect.cli.references import REFERENCE, resolve
from recollect.cli.terminal import ProgressBar
from recollect.errors import InvalidInput, RecollectError
from recollect.library import Library
from recollect.model.arguments import parse_moment
from recollect.model.forgetting import Selection
from recollect.model.kinds import KINDS
from recollect.model.sources import SOURCES
from recollect.places import audit_logs, audit_name, keys
from recollect.settings import place
from recollect.store.audit_log import (
    ACTIONS,
    AuditLogs,
    Head,
    RecordFilter,
    Verification,
    newest_records,
)
from recollect.transfer.forgetting import ForgetReport
from recollect.transfer.redaction import Redaction
from recollect.transfer.risks import RISKS, RiskReport

_EXAMPLES = """\
  recollect redact --report             list the messages that contain secrets, without the secrets
  recollect redact                      remove them permanently
"""
_ROWS = 50


def define_redact(command: argparse.ArgumentParser) -> None:
    define(command, redact, _EXAMPLES)
    add_flag(command, "--report", "change nothing; only report")


def redact(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        description = "Searching" if arguments.report else "Redacting"
        with ProgressBar(description) as bar:
            redaction = library.redact(report=arguments.report, progress=bar.report)
    if arguments.json:
        print_json(
            {
                "done": redaction.done,
                "kinds": dict(redaction.kinds),
                "documents": [asdict(d) for d in redaction.documents],
                "earlier_states": redaction.states,
            }
        )
    else:
        show(redaction)
    return 0


def show(redaction: Redaction) -> None:
    out = console()
    if not redaction.documents and not redaction.states:
        out.print("No secrets found.")
        return
    table = Table("document", "title", "secrets", "messages", box=SIMPLE_HEAD, pad_edge=False)
    for document in redaction.documents[:_ROWS]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in document.kinds.items())
        messages = ", ".join(safe(message) for message in document.messages[:3])
        if len(document.messages) > 3:
            messages += " …"
        table.add_row(safe(document.id), safe_line(document.title), kinds, messages)
    out.print(table)
    if len(redaction.documents) > _ROWS:
        out.print(f"and {len(redaction.documents) - _ROWS:,} more; --json lists them all")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in redaction.kinds.most_common())
    if redaction.done:
        out.print(
            f"Redacted: {kinds or 'earlier versions'}. "
            "Set RECOLLECT_REDACT=on to keep new ones out."
        )
    else:
        out.print(
            f"Found: {kinds}. Nothing was changed; `recollect redact` removes them permanently."
        )


_FORGET_EXAMPLES = """\
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
    define(command, run, _FORGET_EXAMPLES)
    command.add_argument("id", nargs="*", metavar="ID", help=REFERENCE)
    add_list(
        command, "--message", "only this message of the conversation; may be repeated", metavar="ID"
    )
    command.add_argument("--from", dest="first", metavar="ID", help="the first message of a span")
    command.add_argument("--to", dest="last", metavar="ID", help="the last message of a span")
    add_list(command, "--project", "only this project", metavar="NAME")
    add_list(command, "--source", f"one of {', '.join(SOURCES)}; may be repeated", metavar="NAME")
    add_list(command, "--kind", "only this kind; may be repeated", choices=KINDS)
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
    add_flag(command, "--yes", "do not ask; forget")


def run(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        selection = _selection(library, arguments)
        if arguments.yes:
            return forget(library, selection, arguments.json)
        with ProgressBar("Searching") as bar:
            report = library.forget(selection, bar.report, dry_run=True)
        if arguments.json:
            print_json(asdict(report))
            return 0
        show_forget(report)
        if not report:
            return 0
        if not sys.stdin.isatty():
            console(stderr=True).print("Nothing was changed. Add --yes to forget this.")
            return 1
        if not is_confirmed():
            console().print("Nothing was changed.")
            return 1
        return forget(library, selection, False)


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


def is_confirmed() -> bool:
    answer = input("Forget this for good? There is no undo. Type yes: ")
    return answer.strip().lower() == "yes"


def forget(library: Library, selection: Selection, as_json: bool) -> int:
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


def show_forget(report: ForgetReport) -> None:
    out = console()
    if not report:
        out.print("Nothing matches.")
        return
    show_examples(out, report)
    out.print(f"This would forget {_summary(report)}.")
    if report.by_source:
        out.print(f"Sources: {shares(report.by_source)}. Projects: {shares(report.by_project)}.")
    out.print(report.note)


def shares(counts: Mapping[str, int]) -> str:
    """The largest counts, with their names."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{safe(name)} {count:,}" for name, count in ordered[:_SHARES])
    if len(ordered) > _SHARES:
        text += f" and {len(ordered) - _SHARES:,} more"
    return text


def show_examples(out: Console, report: ForgetReport) -> None:
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


_AUDIT_EXAMPLES = """\
  recollect audit                                      secrets, hostile instructions, duplicates
  recollect audit --risk instruction --json
  recollect audit log                                  who did what to the library, newest first
  recollect audit log verify                           whether the log is complete and unchanged
"""
_LOG_EXAMPLES = """\
  recollect audit log --action delete --after 2026-01-01
  recollect audit log --by ann --limit 500 --json
  recollect audit log --all                            of every user in this folder
  recollect audit log verify
  recollect audit log head                             write this down elsewhere …
  recollect audit log verify --head 1042:5f0c…         … and compare it later
"""
_AUDIT_ROWS = 50
_STEPS = ("list", "verify", "head")


def define_audit(group: argparse.ArgumentParser) -> None:
    define(group, run_report, _AUDIT_EXAMPLES)
    add_list(group, "--risk", "only this; may be repeated", choices=RISKS)
    actions = group.add_subparsers(dest="action_name", metavar="ACTION")
    summary = "list who did what, or verify that the log is complete"
    log = add_command(actions, "log", summary, run_log, _LOG_EXAMPLES)
    log.add_argument("step", nargs="?", default="list", choices=_STEPS, help="(default: list)")
    add_list(log, "--action", "only these", choices=ACTIONS)
    log.add_argument("--by", default="", metavar="NAME", help="only by this user or API key")
    log.add_argument("--after", metavar="DATE", help="only on or after this ISO 8601 date or time")
    log.add_argument("--before", metavar="DATE", help="only on or before it")
    log.add_argument("-n", "--limit", type=int, default=100, help="how many records (default: 100)")
    add_flag(log, "--all", "the logs of all users in the folder")
    log.add_argument("--head", default="", help="verify that the log contains this head")


def run_report(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library, ProgressBar("Examining") as bar:
        report = library.audit(arguments.risk, bar.report)
    if arguments.json:
        print_json(asdict(report))
    else:
        show_report(report)
    return int(report.is_alarming)


def show_report(report: RiskReport) -> None:
    out = console()
    if not report.counts:
        out.print(f"Nothing risky in {plural(report.messages, 'message')}.")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("severity", "what", "id", "source", "project", "date", "text"):
        table.add_column(heading)
    for finding in report.findings[:_AUDIT_ROWS]:
        table.add_row(
            finding.severity,
            f"{finding.risk}: {finding.kind}",
            safe(finding.conversation_id),
            safe(finding.source),
            safe(finding.project),
            when(finding.created_at),
            safe(finding.excerpt),
        )
    out.print(table)
    counts = ", ".join(f"{count:,} {safe(name)}" for name, count in report.counts.items())
    out.print(f"Found in {plural(report.messages, 'message')}: {counts}.")
    if sum(report.counts.values()) > _AUDIT_ROWS:
        out.print(f"The first {_AUDIT_ROWS} are listed; --json lists more.")
    out.print("`recollect redact` removes secrets; `recollect forget ID` removes the rest.")


def run_log(arguments: argparse.Namespace) -> int:
    logs = audit_logs(arguments.home)
    users = _users(logs, arguments)
    if arguments.step == "verify":
        return verify(logs, users, arguments)
    if arguments.step == "head":
        return show_heads(logs, users, arguments)
    return _list(logs, users, arguments)


def _users(logs: AuditLogs, arguments: argparse.Namespace) -> list[str]:
    where = place(arguments.home)
    if not arguments.all:
        return [audit_name(where, arguments.user)]
    if not isinstance(where, Path):
        raise InvalidInput("In PostgreSQL, every user has a log of her own. Use --user NAME.")
    return logs.users()


# -- list ---


def _list(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    conditions = RecordFilter(
        tuple(arguments.action),
        arguments.by,
        parse_moment(arguments.after, "after"),
        parse_moment(arguments.before, "before", end=True),
    )
    limit = max(1, arguments.limit)
    records: list[dict[str, Any]] = []
    for user in users:
        newest = newest_records(logs, user, conditions, limit)
        records += [{"user": user, **values} for values in newest]
    records.sort(key=lambda values: str(values["at"]), reverse=True)
    records = records[:limit]
    if arguments.json:
        print_json({"records": records})
        return 0
    if not records:
        console().print("No records.")
        return 0
    show_audit(records, key_names(arguments))
    return 0


def key_names(arguments: argparse.Namespace) -> dict[str, str]:
    """The names of API keys by id; none if they cannot be read."""
    try:
        with closing(keys(arguments.home)) as store:
            return {key.id: key.name for key in store.all_keys()}
    except RecollectError:
        return {}


def show_audit(records: list[dict[str, Any]], names: dict[str, str]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("when", "library", "by", "from", "action", "what"):
        table.add_column(heading)
    for values in records:
        key = str(values.get("key", ""))
        by = names.get(key) or key or values.get("by") or "this computer"
        address = f"{values.get('interface', '')} {values.get('address', '')}".strip()
        moment = datetime.fromisoformat(str(values["at"])).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(
            moment,
            safe(values["user"]),
            safe(str(by)),
            safe(address),
            safe(str(values["action"])),
            safe(what(values)),
        )
    console().print(table)


def what(values: dict[str, Any]) -> str:
    ids = [str(id_) for id_ in values.get("ids", ())]
    text = " ".join(filter(None, (str(values.get("operation", "")), ", ".join(ids[:3]))))
    count = values.get("count")
    if count is not None and count > len(ids):
        text += f" ({count:,})"
    return text


# -- verify ---


def verify(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    head = None
    if arguments.head:
        head = parse_head(arguments.head)
    results = {user: logs.verify(user, head) for user in users}
    if arguments.json:
        print_json({user: _as_json(result) for user, result in results.items()})
    else:
        for user, result in results.items():
            show_verification(user, result)
    return int(any(result.problems for result in results.values()))


def _as_json(result: Verification) -> dict[str, object]:
    return {
        "records": result.records,
        "first": result.first,
        "head": str(result.head),
        "problems": result.problems,
    }


def show_verification(user: str, result: Verification) -> None:
    out = console()
    if result.problems:
        out.print(f"[red]The log of {safe(user)} is damaged or was changed:[/]")
        for problem in result.problems:
            out.print(f"  {safe(problem)}")
        return
    out.print(f"The log of {safe(user)} is unbroken: {plural(result.records, 'record')}.")
    if result.first > 1:
        out.print(f"Records before {result.first:,} were dropped because the log was full.")
    out.print(f"Its head is {result.head}", soft_wrap=True)


def show_heads(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    heads = {user: str(logs.verify(user).head) for user in users}
    if arguments.json:
        print_json(heads)
        return 0
    for user, head in heads.items():
        console().print(f"{safe(user)} {head}", soft_wrap=True)
    return 0


def parse_head(text: str) -> Head:
    number, _, hash_ = text.partition(":")
    if not number.isdecimal() or len(hash_) != 64:
        raise InvalidInput(
            f"{text[:80]!r} is not a head. Write it as `recollect audit log head` prints it."
        )
    return Head(int(number), hash_)
