"""Select records of an audit log."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect.language.text import moment
from recollect.store.audit_log import AuditLogs, Record


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records to list. All conditions must hold."""

    actions: tuple[str, ...] = ()
    by: str = ""
    """A user or the id of an API key."""
    after: datetime | None = None
    before: datetime | None = None

    def matches(self, values: dict[str, Any]) -> bool:
        if self.actions and values.get("action") not in self.actions:
            return False
        if self.by and self.by not in (values.get("by"), values.get("key")):
            return False
        if self.after is None and self.before is None:
            return True
        at = moment(values.get("at"))
        if at is None:
            return False
        is_late = self.after is None or at >= self.after
        is_early = self.before is None or at <= self.before
        return is_late and is_early


def newest_records(
    logs: AuditLogs, user: str, conditions: RecordFilter, limit: int
) -> list[dict[str, Any]]:
    """The newest records of a user that pass the filter, newest first."""
    logs.flush()
    newest: deque[dict[str, Any]] = deque(maxlen=limit)
    for record in logs.records(user):
        values = _values(record)
        if conditions.matches(values):
            newest.append(values)
    return list(reversed(newest))


def _values(record: Record) -> dict[str, Any]:
    """The values of a record. Of one that was damaged or changed, only what can be shown."""
    try:
        values = record.values
        _validate(values)
        return values
    except (ValueError, TypeError, KeyError):
        return {"number": record.number, "at": "1970-01-01T00:00:00Z", "action": "damaged"}


def _validate(values: dict[str, Any]) -> None:
    datetime.fromisoformat(values["at"])
    if not isinstance(values.get("ids", []), list) or not isinstance(values.get("count", 0), int):
        raise ValueError("A record has values of the wrong type.")
