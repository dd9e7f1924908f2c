"""Find and remove the secrets that a library already contains.

New text is redacted when it is written (see store/redacting.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.model.documents import Document
from recollect.model.kinds import KINDS
from recollect.model.search import Filter
from recollect.progress import Progress
from recollect.redact.redactor import SecretCounts, redact_document, redact_value
from recollect.store.base import Store


@dataclass(frozen=True, slots=True)
class Leak:
    """A document that contains secrets. It never holds the secrets themselves."""

    id: str
    kind: str
    title: str
    kinds: Mapping[str, int]
    messages: tuple[str, ...]
    """The ids of the passages with secrets; empty if only the title or the metadata has any."""


@dataclass(slots=True)
class Redaction:
    """The documents with secrets, and whether the secrets were removed."""

    done: bool
    documents: list[Leak] = field(default_factory=list)
    states: int = 0
    """Earlier states, kept for undoing imports, that had secrets and were deleted."""

    @property
    def kinds(self) -> SecretCounts:
        """The number of secrets of each kind."""
        total: SecretCounts = Counter()
        for document in self.documents:
            total.update(document.kinds)
        return total


def redact(store: Store, report: bool = False, progress: Progress | None = None) -> Redaction:
    """Remove the secrets from everything in a library, or with `report` only list them."""
    redaction = Redaction(done=not report)
    total = store.size()
    done = 0
    for document in store.iter_documents(Filter(kinds=KINDS, hidden=True)):
        leak = find_leak(document)
        if leak is not None:
            redaction.documents.append(leak)
            if not report:
                store.revise(document.id, without_secrets)
        done += len(document.passages)
        if progress is not None:
            progress("Redacting", min(done, total), total)
    if not report:
        redaction.states = store.delete_undo_states(has_secrets)
    return redaction


def without_secrets(document: Document) -> Document:
    clean, _ = redact_document(document)
    return clean


def find_leak(document: Document) -> Leak | None:
    clean, secrets = redact_document(document)
    if not secrets:
        return None
    pairs = zip(document.passages, clean.passages, strict=True)
    messages = tuple(
        before.id for before, after in pairs if before is not after and before != after
    )
    return Leak(document.id, document.kind, clean.title, dict(secrets), messages)


def has_secrets(state: str) -> bool:
    secrets: SecretCounts = Counter()
    redact_value(json.loads(state), secrets)
    return bool(secrets)
