"""Links to the secrets that a scan has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.jobs.secret_scan import SecretScan
from recollect.library import Library
from recollect.model.kinds import CONVERSATION, KIND_TABLE
from recollect.serve import links

_MAX_LINKS = 20
_PLURALS = {kind.name: kind.plural for kind in KIND_TABLE}


class Link(NamedTuple):
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class KindLinks:
    kind: str
    count: int
    document_count: int
    links: list[Link]


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
