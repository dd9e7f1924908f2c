"""`recollect audit`: report what is risky in the library; `recollect audit log`: the audit log."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import (
    add_command,
    console,
    define,
    existing,
    plural,
    print_json,
    safe,
    when,
)
from recollect.cli.progress import ProgressBar
from recollect.errors import InvalidInput, RecollectError
from recollect.model.arguments import parse_moment
from recollect.places import audit_logs, audit_name, keys
from recollect.settings import place
from recollect.store.audit_log import ACTIONS, AuditLogs, Head, Verification
from recollect.store.audit_reading import RecordFilter, newest_records
from recollect.transfer.risks import RISKS, RiskReport

_EXAMPLES = """\
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
_ROWS = 50
_STEPS = ("list", "verify", "head")


def define_audit(group: argparse.ArgumentParser) -> None:
    define(group, run_report, _EXAMPLES)
    group.add_argument(
        "--risk", action="append", default=[], choices=RISKS, help="only this; may be repeated"
    )
    actions = group.add_subparsers(dest="action_name", metavar="ACTION")
    summary = "list who did what, or verify that the log is complete"
    log = add_command(actions, "log", summary, run_log, _LOG_EXAMPLES)
    log.add_argument("step", nargs="?", default="list", choices=_STEPS, help="(default: list)")
    log.add_argument("--action", action="append", default=[], choices=ACTIONS, help="only these")
    log.add_argument("--by", default="", metavar="NAME", help="only by this user or API key")
    log.add_argument("--after", metavar="DATE", help="only on or after this ISO 8601 date or time")
    log.add_argument("--before", metavar="DATE", help="only on or before it")
    log.add_argument("-n", "--limit", type=int, default=100, help="how many records (default: 100)")
    log.add_argument("--all", action="store_true", help="the logs of all users in the folder")
    log.add_argument("--head", default="", help="verify that the log contains this head")


def run_report(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library, ProgressBar("Examining") as bar:
        report = library.audit(arguments.risk, bar.report)
    if arguments.json:
        print_json(asdict(report))
    else:
        _show_report(report)
    return int(report.is_alarming)


def _show_report(report: RiskReport) -> None:
    out = console()
    if not report.counts:
        out.print(f"Nothing risky in {plural(report.messages, 'message')}.")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("severity", "what", "id", "source", "project", "date", "text"):
        table.add_column(heading)
    for finding in report.findings[:_ROWS]:
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
    if sum(report.counts.values()) > _ROWS:
        out.print(f"The first {_ROWS} are listed; --json lists more.")
    out.print("`recollect redact` removes secrets; `recollect forget ID` removes the rest.")


def run_log(arguments: argparse.Namespace) -> int:
    logs = audit_logs(arguments.home)
    users = _users(logs, arguments)
    if arguments.step == "verify":
        return _verify(logs, users, arguments)
    if arguments.step == "head":
        return _show_heads(logs, users, arguments)
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
    _show(records, _key_names(arguments))
    return 0


def _key_names(arguments: argparse.Namespace) -> dict[str, str]:
    """The names of API keys by id; none if they cannot be read."""
    try:
        with closing(keys(arguments.home)) as store:
            return {key.id: key.name for key in store.all_keys()}
    except RecollectError:
        return {}


def _show(records: list[dict[str, Any]], names: dict[str, str]) -> None:
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
            safe(_what(values)),
        )
    console().print(table)


def _what(values: dict[str, Any]) -> str:
    ids = [str(id_) for id_ in values.get("ids", ())]
    text = " ".join(filter(None, (str(values.get("operation", "")), ", ".join(ids[:3]))))
    count = values.get("count")
    if count is not None and count > len(ids):
        text += f" ({count:,})"
    return text


# -- verify ---


def _verify(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    head = None
    if arguments.head:
        head = _parse_head(arguments.head)
    results = {user: logs.verify(user, head) for user in users}
    if arguments.json:
        print_json({user: _as_json(result) for user, result in results.items()})
    else:
        for user, result in results.items():
            _show_verification(user, result)
    return int(any(result.problems for result in results.values()))


def _as_json(result: Verification) -> dict[str, object]:
    return {
        "records": result.records,
        "first": result.first,
        "head": str(result.head),
        "problems": result.problems,
    }


def _show_verification(user: str, result: Verification) -> None:
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


def _show_heads(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    heads = {user: str(logs.verify(user).head) for user in users}
    if arguments.json:
        print_json(heads)
        return 0
    for user, head in heads.items():
        console().print(f"{safe(user)} {head}", soft_wrap=True)
    return 0


def _parse_head(text: str) -> Head:
    number, _, hash_ = text.partition(":")
    if not number.isdecimal() or len(hash_) != 64:
        raise InvalidInput(
            f"{text[:80]!r} is not a head. Write it as `recollect audit log head` prints it."
        )
    return Head(int(number), hash_)
