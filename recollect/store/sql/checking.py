"""Find messages that are missing or altered, the same for both databases.

There are three independent counts of messages: the rows themselves, `document.passages`, and the
table `tally`. They are updated in the same transaction, so if one is higher than the number of
rows, messages were lost. So they were if the text index has entries of messages that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recollect.model.kinds import CONVERSATION
from recollect.store.sql.database import Database, get_marker, set_marker
from recollect.store.sql.encoding import matches_digest
from recollect.store.sql.passages import COLUMNS
from recollect.store.values import Findings

MAX_LINES = 20
"""Findings of one kind that are described one by one."""
_LOST = "lost"
_ROWS_PER_QUERY = 500
_FIRST_COLUMN = COLUMNS.index("digest")
_ID = COLUMNS.index("id")
_DIGEST_BYTES = 16


def add_line(lines: list[str], line: str) -> None:
    """Add a finding, or count it if there are many already."""
    if len(lines) < MAX_LINES:
        lines.append(line)
        return
    more = 1
    if len(lines) > MAX_LINES:
        more += int(lines.pop().split()[1])
    lines.append(f"and {more} more")


def describe_message(id: str, key: int) -> str:
    return f"message {id!r} (row {key})"


# -- missing messages ---


def check_counts(db: Database, findings: Findings, orphaned: int) -> None:
    """Compare the counts of messages. `orphaned` entries of the index have lost their message."""
    rows = db.rows(
        f"select d.id, d.passages, count(p.key) {_counted(db)} having d.passages <> count(p.key)"
    )
    for id_, expected, actual in rows:
        if actual < expected:
            add_line(findings.missing, f"conversation {id_!r} has {actual} of {expected} messages")
        else:
            findings.miscounted += 1
    counted = tallied_messages(db)
    actual = messages(db)
    if counted > actual:
        findings.missing.append(f"{counted} messages were counted, but there are only {actual}")
    elif counted < actual:
        findings.miscounted += 1
    lost = orphaned + (get_marker(db, _LOST) or 0)
    if lost:
        findings.missing.append(f"messages that were indexed, but are not in the library: {lost}")


def _counted(db: Database) -> str:
    """Documents with their passages, in groups that count the passages."""
    return (
        f"from document d left join passage p on {db.own('p')} and p.document = d.key "
        f"where {db.own('d')} group by d.key, d.id, d.passages"
    )


def tallied_messages(db: Database) -> int:
    count = db.get(f"select coalesce(sum(count), 0) from tally where {db.own()} and name = 'role'")
    return int(count)


def messages(db: Database) -> int:
    count = db.get(
        "select count(*) from passage p join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and d.kind = ?",
        (CONVERSATION,),
    )
    return int(count)


def remember_lost(db: Database, orphaned: int) -> None:
    """Keep the number of lost messages when the index that shows it is rebuilt."""
    if orphaned:
        set_marker(db, _LOST, orphaned + (get_marker(db, _LOST) or 0))


def correct_counts(db: Database) -> bool:
    """Raise counts that are too low; True if the table `tally` must be counted again.

    Counts that are too high stay: they show that messages are missing.
    """
    db.run(
        "update document set passages = "
        f"(select count(*) from passage p where {db.own('p')} and p.document = document.key) "
        f"where {db.own()} and key in "
        f"(select d.key {_counted(db)} having d.passages < count(p.key))"
    )
    return tallied_messages(db) < messages(db)


# -- altered messages ---


def check_digests(db: Database, findings: Findings) -> None:
    """Compare every message with its digest."""
    for row in _rows(db):
        check_digest(row, findings)


def check_digest(row: tuple[Any, ...], findings: Findings) -> None:
    """Compare one message, given with all COLUMNS."""
    columns = row[_FIRST_COLUMN:]
    if len(columns[0]) == _DIGEST_BYTES and not matches_digest(columns):
        name = describe_message(row[_ID], row[0])
        add_line(findings.altered, f"{name} differs from its checksum")


def _rows(db: Database) -> Iterator[tuple[Any, ...]]:
    last = 0
    rows = read_rows(db, last)
    while rows:
        yield from rows
        rows = read_rows(db, rows[-1][0])


def read_rows(db: Database, after: int, limit: int = _ROWS_PER_QUERY) -> list[tuple[Any, ...]]:
    return db.rows(
        f"select {', '.join(COLUMNS)} from passage where {db.own()} and key > ? "
        "order by key limit ?",
        (after, limit),
    )
