"""Errors that stores and their views raise with the same text."""

from __future__ import annotations

from recollect.errors import DAMAGE_ADVICE, LIST_ADVICE, DamagedLibrary, NotFound, RecollectError
from recollect.language.text import truncate


def missing_document(id: str) -> NotFound:
    return NotFound(
        f"There is no conversation {truncate(id, 80)!r} in this library. " + LIST_ADVICE
    )


def missing_passage(document: str, passage: str) -> NotFound:
    return NotFound(
        f"There is no message {truncate(passage, 80)!r} in conversation {truncate(document, 80)!r}."
    )


def missing_change(number: int) -> NotFound:
    return NotFound(
        f"There is no change {number} to undo. It was undone already, or its time is over."
    )


def damaged_document(id: str, error: DamagedLibrary) -> DamagedLibrary:
    return DamagedLibrary(
        f"Conversation {truncate(id, 80)!r} cannot be read. {reason_of(error)} Export the others "
        "with `recollect export --skip-damaged`, or rescue what can be read with "
        "`recollect salvage`."
    )


def reason_of(error: RecollectError) -> str:
    """What is damaged, without what to do."""
    return str(error).removesuffix(DAMAGE_ADVICE).strip()
