"""The job that looks for secrets in a library.

The result has only ids, so that what is deleted or renamed later is shown as it is then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from recollect.jobs.runner import Borrow, Handler, Run
from recollect.transfer.risks import SECRET, RiskReport

SECRETS = "secrets"


@dataclass(slots=True)
class SecretKind:
    """The secrets of one kind."""

    kind: str
    count: int = 0
    places: dict[str, str | None] = field(default_factory=dict)
    """The conversations and items that have one, each with its first message."""


@dataclass(slots=True)
class SecretScan:
    messages: int
    kinds: list[SecretKind]

    @property
    def count(self) -> int:
        return sum(kind.count for kind in self.kinds)


class SecretScanHandler(Handler):
    kind = SECRETS

    def __init__(self, borrow: Borrow) -> None:
        self._borrow = borrow

    def run(self, run: Run) -> Any:
        with self._borrow(run.job.user) as library:
            return asdict(summarize(library.audit([SECRET], run.report)))


def decode_scan(value: Mapping[str, Any]) -> SecretScan:
    return SecretScan(value["messages"], [SecretKind(**kind) for kind in value["kinds"]])


def summarize(report: RiskReport) -> SecretScan:
    """The secrets of a report by kind, most frequent first."""
    kinds: dict[str, SecretKind] = {}
    prefix = f"{SECRET}: "
    for name, count in report.counts.items():
        kind = name.removeprefix(prefix)
        kinds[kind] = SecretKind(kind, count)
    for finding in report.findings:
        kinds[finding.kind].places.setdefault(finding.conversation_id, finding.message_id)
    ordered = sorted(kinds.values(), key=lambda kind: (-kind.count, kind.kind))
    return SecretScan(report.messages, ordered)
