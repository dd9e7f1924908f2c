"""Errors that stores and their views raise with the same text."""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.language.text import truncate


def missing_document(id: str) -> NotFound:
    return NotFound(
        f"There is no conversation {truncate(id, 80)!r} in this library. "
        "`recollect list` shows what there is."
    )


def missing_passage(document: str, passage: str) -> NotFound:
    return NotFound(
        f"There is no message {truncate(passage, 80)!r} in conversation {truncate(document, 80)!r}."
    )
