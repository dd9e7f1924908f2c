"""Secrets kept out of a library, and taken out of one.

Redacting happens where things are written, at the one place that every door
writes through: so what is stored, indexed, embedded, observed, served, exported
and moved has no secret, and nothing that comes later can forget to hide one. The
price is that the words are gone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from recollect.model.documents import Document, Passage
from recollect.model.kinds import KINDS
from recollect.model.search import Filter
from recollect.redact import Found, redacted, redacted_value
from recollect.redact.documents import redacted_document, redacted_passage
from recollect.store.base import Placed, Saved, Store

Progress = Callable[[str, int, int], None]
"""Called with (what is done, how much is done, how much there is)."""


def redacting(store: Store) -> Store:
    """The store, into which nothing is written before its secrets are taken out."""
    return cast(Store, _Redacting(store))


class _Redacting:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def save(
        self, documents: Sequence[Document], receipt: int | None = None, by_id: bool = False
    ) -> list[Saved]:
        given = [redacted_document(document) for document in documents]
        done = self._store.save([document for document, _ in given], receipt, by_id)
        for saved, (_, found) in zip(done, given, strict=True):
            saved.redacted = dict(found)
        return done

    def rewrite(self, document: str, given: Document, version: int | None = None) -> Saved:
        clean, found = redacted_document(given)
        saved = self._store.rewrite(document, clean, version)
        saved.redacted = dict(found)
        return saved

    def append(self, document: str, passage: Passage) -> Placed:
        return self._store.append(document, redacted_passage(passage, Counter()))

    def extend(self, document: str, passages: Sequence[Passage]) -> int:
        return self._store.extend(
            document, [redacted_passage(passage, Counter()) for passage in passages]
        )

    def retitle(self, document: str, title: str) -> None:
        self.amend(document, title=title)

    def amend(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        clean = None if title is None else redacted(title)[0]
        self._store.amend(document, clean, project, redacted_value(metadata, Counter()))

    def observe(
        self, conversation: str, version: int, given: Document | None, complete: bool = True
    ) -> None:
        self._store.observe(conversation, version, given and redacted_document(given)[0], complete)


# -- what is stored already ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leak:
    """A document that has secrets; never what they are."""

    id: str
    kind: str
    title: str
    kinds: Mapping[str, int]
    messages: tuple[str, ...]
    """The ids of the passages that have any; empty where only its title or metadata has."""


@dataclass(slots=True)
class Redaction:
    """What was found, and whether it was taken out."""

    done: bool
    documents: list[Leak] = field(default_factory=list)
    states: int = 0
    """Earlier states, kept so that imports can be taken back, that had secrets."""

    @property
    def kinds(self) -> Found:
        found: Found = Counter()
        for document in self.documents:
            found.update(document.kinds)
        return found


def redact(store: Store, report: bool = False, progress: Progress | None = None) -> Redaction:
    """Take the secrets out of everything that is stored, or only say where they are."""
    made = Redaction(done=not report)
    total = store.size()
    read = 0
    for document in store.every(Filter(kinds=KINDS, hidden=True)):
        leak = _leak(document)
        if leak is not None:
            made.documents.append(leak)
            if not report:
                store.revise(document.id, lambda stored: redacted_document(stored)[0])
        read += len(document.passages)
        if progress is not None:
            progress("Redacting", min(read, total), total)
    if report:
        return made
    made.states = store.forget_states(_has_secrets)
    return made


def _leak(document: Document) -> Leak | None:
    clean, found = redacted_document(document)
    if not found:
        return None
    pairs = zip(document.passages, clean.passages, strict=True)
    messages = tuple(
        before.id for before, after in pairs if before is not after and before != after
    )
    return Leak(document.id, document.kind, clean.title, dict(found), messages)


def _has_secrets(state: str) -> bool:
    found: Found = Counter()
    redacted_value(json.loads(state), found)
    return bool(found)
