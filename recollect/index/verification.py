"""Verify and repair a library: its text index, and the vectors of its messages."""

from __future__ import annotations

from recollect.index.refresh import missing_vectors
from recollect.store.base import Store
from recollect.store.values import Findings, Progress


def verify(store: Store) -> Findings:
    """Compare the indexes with the messages. Changes nothing."""
    findings = store.verify()
    if not findings.damaged:
        findings.never_embedded = sum(len(keys) for _, keys in missing_vectors(store))
    return findings


def repair(store: Store, progress: Progress | None) -> None:
    """Rebuild the text index, and queue every message for embedding that has no vector."""
    store.repair(progress)
    for space, keys in missing_vectors(store):
        store.queue(space, keys)
