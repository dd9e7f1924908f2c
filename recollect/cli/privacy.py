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

from recollect.cli.commands import command
from recollect.cli.common import (
    console,
    existing,
    is_confirmed,
    plural,
    print_json,
    print_purge,
    print_table,
    safe,
    safe_line,
    show,
    when,
)
from recollect.cli.references import REFERENCE, resolve_all
from recollect.cli.terminal import ProgressBar
from recollect.errors import InvalidInput, RecollectError
from recollect.library import Library
from recollect.model.arguments import parse_moment
from recollect.model.forgetting import Selection
from recollect.model.kinds import KINDS
from recollect.model.sources import SOURCES
from recollect.places import audit_logs, audit_name, keys
from recollect.settings import place
from recollect.store.audit_log import ACTIONS, AuditLogs, Head, RecordFilter, newest_records
from recollect.transfer.forgetting import ForgetReport
from recollect.transfer.risks import RISKS

_ROWS = 50


@command(
    "redact",
    "--report  change nothing; only report",
    """
    recollect redact --report             list the messages with secrets, but not the secrets
    recollect redact                      remove them permanently
    """,
)
def redact(arguments: argparse.Namespace) -> int | None:
    description = "Searching" if arguments.report else "Redacting"
    with existing(arguments) as library, ProgressBar(description) as bar:
        redaction = library.redact(report=arguments.report, progress=bar.report)
    documents = redaction.documents
    if arguments.json:
        return print_json(
            {
                "done": redaction.done,
                "kinds": dict(redaction.kinds),
                "documents": [asdict(document) for document in documents],
                "earlier_states": redaction.states,
            }
        )
    if not documents and not redaction.states:
        show("No secrets found.")
        return None
    rows = []
    for document in documents[:_ROWS]:
        messages = ", ".join(map(safe, document.messages[:3]))
        if len(document.messages) > 3:
            messages += " …"
        rows.append(
            (safe(document.id), safe_line(document.title), counts(document.kinds), messages)
        )
    print_table("document, title, secrets, messages", rows)
    if len(documents) > _ROWS:
        show(f"and {len(documents) - _ROWS:,} more; --json lists them all")
    kinds = counts(dict(redaction.kinds.most_common()))
    if redaction.done:
        found = kinds or "earlier versions"
        show(f"Redacted: {found}. Set RECOLLECT_REDACT=on to keep new ones out.")
    else:
        show(f"Found: {kinds}. Nothing was changed; `recollect redact` removes them permanently.")
    return None


def counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {safe(name)}" for name, number in numbers.items())


# -- forgetting ---


@command(
    "forget",
    f"""
    id* ID  {REFERENCE}
    --message ID...   only this message of the conversation; may be repeated
    --from ID         the first message of a span
    --to ID           the last message of a span
    --project NAME...  only this project
    --source NAME...  one of {", ".join(SOURCES)}; may be repeated
    --kind {"|".join(KINDS)}...  only this kind; may be repeated
    --after DATE      only messages on or after this ISO 8601 date or time
    --before DATE     only messages on or before it; a bare date includes the whole day (UTC)
    --text TEXT       only messages and titles with this word or phrase, ignoring case
    --regex PATTERN   only those that match this RE2 pattern
    --yes             do not ask; forget
    """,
    """
    recollect forget 3f9a0c                              one conversation or item
    recollect forget 2                                   the second of the last results, as a whole
    recollect forget 3f9a0c --message MESSAGE            one message; may be repeated
    recollect forget 3f9a0c --from MESSAGE --to MESSAGE  a span of messages
    recollect forget --project clients/acme
    recollect forget --source chatgpt --before 2024-01-01
    recollect forget --text "Jane Doe"                   messages and titles with these words
    recollect forget --regex '(?i)invoice \\d{6}' --yes   RE2; without a preview

    Conditions are combined: all of them must hold. Without --yes, you see what would be
    forgotten, and are asked. There is no undo.
    """,
)
def forget(arguments: argparse.Namespace) -> int | None:
    with existing(arguments) as library:
        selection = Selection.of(
            conversations=resolve_all(library, arguments, arguments.id),
            messages=arguments.message,
            first=arguments.from_,
            last=arguments.to,
            projects=arguments.project,
            sources=arguments.source,
            kinds=arguments.kind,
            after=arguments.after,
            before=arguments.before,
            text=arguments.text,
            pattern=arguments.regex,
        )
        if not arguments.yes:
            with ProgressBar("Searching") as bar:
                report = library.forget(selection, bar.report, dry_run=True)
            if arguments.json:
                return print_json(asdict(report))
            show_preview(report)
            if not report:
                return None
            if not sys.stdin.isatty():
                show("Nothing was changed. Add --yes to forget this.", stderr=True)
                return 1
            if not is_confirmed("Forget this for good? There is no undo. [y/N] "):
                show("Nothing was changed.")
                return 1
        return forget_now(library, selection, arguments.json)


def forget_now(library: Library, selection: Selection, as_json: bool) -> int | None:
    with ProgressBar("Forgetting") as bar:
        report = library.forget(selection, bar.report)
    purge = library.purge_status()
    if as_json:
        return print_json(asdict(report))
    if not report:
        show("Nothing matches, so nothing was changed.")
        return None
    out = console()
    out.print(f"Forgotten: {summary(report)}.")
    if report.archived_files:
        out.print(f"Copies of {plural(report.archived_files, 'file')} in the archive were deleted.")
    out.print(report.note)
    print_purge(purge)
    return None


def summary(report: ForgetReport) -> str:
    parts = (
        (report.messages, "message", "{}"),
        (report.conversations, "conversation", "{} as a whole"),
        (report.changed_conversations, "conversation", "parts of {}"),
        (report.items, "item", "{}"),
        (report.titles, "title", "{}"),
        (report.earlier_versions, "earlier version", "{} kept for undoing imports"),
    )
    return ", ".join(text.format(plural(count, noun)) for count, noun, text in parts if count)


def show_preview(report: ForgetReport) -> None:
    out = console()
    if not report:
        out.print("Nothing matches.")
        return
    print_table(
        "id, title, date, role, text",
        [
            (
                safe(example.conversation_id),
                safe_line(example.title),
                when(example.created_at),
                safe(example.role or example.kind),
                safe(example.excerpt),
            )
            for example in report.examples
        ],
    )
    out.print(f"This would forget {summary(report)}.")
    if report.by_source:
        out.print(f"Sources: {largest(report.by_source)}. Projects: {largest(report.by_project)}.")
    out.print(report.note)


def largest(numbers: Mapping[str, int], most: int = 5) -> str:
    """The largest counts, with their names."""
    ordered = sorted(numbers.items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{safe(name)} {count:,}" for name, count in ordered[:most])
    if len(ordered) > most:
        text += f" and {len(ordered) - most:,} more"
    return text


# -- the audit ---


@command(
    "audit",
    f"--risk {'|'.join(RISKS)}...  only this; may be repeated",
    """
    recollect audit                                      secrets and hostile instructions
    recollect audit --risk instruction --json
    recollect audit log                                  who did what to the library, newest first
    recollect audit log verify                           whether the log is complete and unchanged
    """,
)
def audit(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library, ProgressBar("Examining") as bar:
        report = library.audit(arguments.risk, bar.report)
    if arguments.json:
        print_json(asdict(report))
        return int(report.is_alarming)
    messages = plural(report.messages, "message")
    if not report.counts:
        show(f"Nothing risky in {messages}.")
        return int(report.is_alarming)
    print_table(
        "severity, what, id, source, project, date, text",
        [
            (
                finding.severity,
                f"{finding.risk}: {finding.kind}",
                safe(finding.conversation_id),
                safe(finding.source),
                safe(finding.project),
                when(finding.created_at),
                safe(finding.excerpt),
            )
            for finding in report.findings[:_ROWS]
        ],
    )
    show(f"Found in {messages}: {counts(report.counts)}.")
    if sum(report.counts.values()) > _ROWS:
        show(f"The first {_ROWS} are listed; --json lists more.")
    show("`recollect redact` removes secrets; `recollect forget ID` removes the rest.")
    return int(report.is_alarming)


@command(
    "audit log",
    f"""
    step? list|verify|head =list  what to do
    --action {"|".join(ACTIONS)}...  only these
    --by NAME      only by this user or API key
    --after DATE   only on or after this ISO 8601 date or time
    --before DATE  only on or before it
    -n --limit 1.. =100  how many records
    --all          the logs of all users in the folder
    --head HEAD    verify that the log contains this head
    """,
    """
    recollect audit log --action delete --after 2026-01-01
    recollect audit log --by ann --limit 500 --json
    recollect audit log --all                            of every user in this folder
    recollect audit log verify
    recollect audit log head                             write this down elsewhere …
    recollect audit log verify --head 1042:5f0c…         … and compare it later
    """,
)
def audit_log(arguments: argparse.Namespace) -> int:
    """List who did what, or verify that the log is complete."""
    where, logs = place(arguments.home), audit_logs(arguments.home)
    users = [audit_name(where, arguments.user)]
    if arguments.all:
        if not isinstance(where, Path):
            raise InvalidInput("In PostgreSQL, every user has a log of her own. Use --user NAME.")
        users = logs.users()
    if arguments.step == "verify":
        return verify_logs(logs, users, arguments)
    if arguments.step == "head":
        heads = {user: str(logs.verify(user).head) for user in users}
        if arguments.json:
            return print_json(heads)
        for user, head in heads.items():
            show(f"{safe(user)} {head}")
        return 0
    conditions = RecordFilter(
        tuple(arguments.action),
        arguments.by or "",
        parse_moment(arguments.after, "after"),
        parse_moment(arguments.before, "before", end=True),
    )
    records: list[dict[str, Any]] = [
        {"user": user, **values}
        for user in users
        for values in newest_records(logs, user, conditions, arguments.limit)
    ]
    records.sort(key=lambda values: str(values["at"]), reverse=True)
    records = records[: arguments.limit]
    if arguments.json:
        return print_json({"records": records})
    if not records:
        show("No records.")
        return 0
    names: dict[str, str] = {}
    try:
        with closing(keys(arguments.home)) as store:
            names = {key.id: key.name for key in store.all_keys()}
    except RecollectError:
        pass  # the ids of keys will do
    rows = []
    for values in records:
        key = str(values.get("key", ""))
        ids = [str(id_) for id_ in values.get("ids", ())]
        what = f"{values.get('operation', '')} {', '.join(ids[:3])}".strip()
        count = values.get("count")
        if count is not None and count > len(ids):
            what += f" ({count:,})"
        cells = (
            datetime.fromisoformat(str(values["at"])).strftime("%Y-%m-%d %H:%M:%S"),
            values["user"],
            names.get(key) or key or values.get("by") or "this computer",
            f"{values.get('interface', '')} {values.get('address', '')}".strip(),
            values["action"],
            what,
        )
        rows.append([safe(str(cell)) for cell in cells])
    print_table("when, library, by, from, action, what", rows)
    return 0


def verify_logs(logs: AuditLogs, users: list[str], arguments: argparse.Namespace) -> int:
    head = None
    if arguments.head:
        number, _, hash_ = arguments.head.partition(":")
        if not number.isdecimal() or len(hash_) != 64:
            raise InvalidInput(
                f"{arguments.head[:80]!r} is not a head. Write it as `recollect audit log head` "
                "prints it."
            )
        head = Head(int(number), hash_)
    results = {user: logs.verify(user, head) for user in users}
    status = int(any(result.problems for result in results.values()))
    if arguments.json:
        print_json(
            {user: asdict(each) | {"head": str(each.head)} for user, each in results.items()}
        )
        return status
    for user, result in results.items():
        if result.problems:
            show(f"[red]The log of {safe(user)} is damaged or was changed:[/]")
            for problem in result.problems:
                show(f"  {safe(problem)}")
            continue
        show(f"The log of {safe(user)} is unbroken: {plural(result.records, 'record')}.")
        if result.first > 1:
            show(f"Records before {result.first:,} were dropped because the log was full.")
        show(f"Its head is {result.head}")
    return status
