"""Pick one backup by its id, the start of its id, a date, or `latest`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC

from recollect.backup.manifest import Manifest, oldest_first
from recollect.errors import InvalidInput, NotFound
from recollect.language.text import bound

LATEST = "latest"
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}.*)?")


def pick(backups: Sequence[Manifest], text: str) -> Manifest:
    """The backup that `text` names. A date means the newest backup up to then."""
    if not backups:
        raise NotFound("There is no backup here that contains this library.")
    in_order = oldest_first(backups)
    if text == LATEST:
        return in_order[-1]
    if _DATE.fullmatch(text):
        return _newest_until(in_order, text)
    matches = [backup for backup in in_order if backup.id.startswith(text)]
    if not text or not matches:
        raise NotFound(f"There is no backup {text!r}. `recollect backup list` shows them.")
    if len(matches) > 1:
        ids = ", ".join(backup.id for backup in matches[-5:])
        raise InvalidInput(f"{text!r} matches {len(matches)} backups. Name one of them: {ids}.")
    return matches[0]


def _newest_until(in_order: Sequence[Manifest], text: str) -> Manifest:
    until = bound(text, end=True)
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    candidates = [backup for backup in in_order if backup.created_at <= until]
    if not candidates:
        raise NotFound(
            f"There is no backup from {text} or earlier; the oldest is {in_order[0].id}."
        )
    return candidates[-1]
