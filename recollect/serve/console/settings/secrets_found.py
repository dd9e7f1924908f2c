"""Secrets in the library: a scan in the background, and links to what it found.

The result has only ids, so that what is deleted or renamed later is shown as it is then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.kinds import CONVERSATION, KIND_TABLE
from recollect.serve import links
from recollect.transfer.risks import SECRET, RiskReport

SECRETS = "secrets"
"""The name of the task that scans a library."""
_MAX_LINKS = 20
_PLURALS = {kind.name: kind.plural for kind in KIND_TABLE}


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


@dataclass(frozen=True, slots=True)
class Link:
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class KindLinks:
    kind: str
    count: int
    document_count: int
    links: list[Link]


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


def find_links(library: Library, scan: SecretScan) -> list[KindLinks]:
    result = []
    for kind in scan.kinds:
        rows = []
        for id_, message in kind.places.items():
            link = _link(library, id_, message)
            if link is not None:
                rows.append(link)
            if len(rows) == _MAX_LINKS:
                break
        result.append(KindLinks(kind.kind, kind.count, len(kind.places), rows))
    return result


def _link(library: Library, id: str, message: str | None) -> Link | None:
    """A link to a document; None if it no longer exists."""
    try:
        summary = library.summary(id)
    except NotFound:
        return None
    title = library.label(id, summary.title)
    if summary.kind == CONVERSATION:
        return Link(title, links.conversation_url(id, m=message))
    return Link(title, links.item_url(_PLURALS.get(summary.kind, summary.kind), id))
