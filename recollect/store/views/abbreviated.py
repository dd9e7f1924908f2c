"""A view of a store that accepts abbreviated ids of documents and messages.

Interfaces pass on the ids that they get, and this view expands them, so every interface accepts
abbreviations under the same rules (see `store/abbreviations.py`). An id is only expanded after
nothing was found under it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from recollect.errors import NotFound
from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.undo import Change, Edit
from recollect.store.abbreviations import Purpose, expand
from recollect.store.values import Appended, SaveResult
from recollect.store.views.base import StoreView

T = TypeVar("T")


class AbbreviatedStore(StoreView):
    # -- reading ---

    def document(self, id: str) -> Document:
        return self._find(self._store.document, id)

    def header(self, id: str) -> Document:
        return self._find(self._store.header, id)

    def summary(self, id: str) -> Summary:
        return self._find(self._store.summary, id)

    def is_linear(self, id: str) -> bool:
        return self._find(self._store.is_linear, id)

    def positions(self, id: str) -> list[Position]:
        return self._find(self._store.positions, id)

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        return self._find(lambda full: self._store.passage_page(full, position, limit), id)

    def passage_ids_with_prefix(self, document: str, prefix: str, limit: int) -> list[str]:
        return self._find(
            lambda full: self._store.passage_ids_with_prefix(full, prefix, limit), document
        )

    def passage_key(self, document: str, passage: str) -> int:
        return self._find_passage(self._store.passage_key, document, passage, Purpose.READ)

    def passages_by_id(self, document: str, ids: Sequence[str]) -> list[Passage]:
        """The ids of passages must be complete."""
        return self._find(lambda full: self._store.passages_by_id(full, ids), document)

    # -- writing ---

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        return self._change(lambda full: self._store.rewrite(full, replacement, version), document)

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        return self._change(
            lambda full: self._store.append(full, passage, expected_passages), document
        )

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        return self._change(lambda full: self._store.extend(full, passages, require_same), document)

    def update(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._change(lambda full: self._store.update(full, title, project, metadata), document)

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        return self._change(lambda full: self._store.edit(full, edit, until), document)

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        return self._change(lambda full: self._store.revise(full, change), document)

    def delete_passage(self, document: str, passage: str) -> Passage:
        return self._find_passage(self._store.delete_passage, document, passage, Purpose.CHANGE)

    def delete(self, document: str) -> None:
        self._change(self._store.delete, document)

    def pop(self, document: str) -> Document:
        return self._change(self._store.pop, document)

    def trash(self, document: str, until: datetime) -> Change:
        return self._change(lambda full: self._store.trash(full, until), document)

    # -- expansion ---

    def _find(self, call: Callable[[str], T], id: str) -> T:
        return self._call(call, id, Purpose.READ)

    def _change(self, call: Callable[[str], T], id: str) -> T:
        return self._call(call, id, Purpose.CHANGE)

    def _call(self, call: Callable[[str], T], id: str, purpose: Purpose) -> T:
        try:
            return call(id)
        except NotFound:
            full_id = expand(id, self._store.ids_with_prefix, purpose)
            if full_id is None or full_id == id:
                raise
        return call(full_id)

    def _find_passage(
        self, call: Callable[[str, str], T], document: str, passage: str, purpose: Purpose
    ) -> T:
        def call_document(full_document: str) -> T:
            def find(prefix: str, limit: int) -> list[str]:
                return self._store.passage_ids_with_prefix(full_document, prefix, limit)

            try:
                return call(full_document, passage)
            except NotFound:
                full_passage = expand(passage, find, purpose)
                if full_passage is None or full_passage == passage:
                    raise
            return call(full_document, full_passage)

        return self._call(call_document, document, purpose)
