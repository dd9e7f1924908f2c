"""The results of a search over all kinds."""

from __future__ import annotations

from typing import NamedTuple

from recollect.model.kinds import CONVERSATION
from recollect.store.values import Candidate


class Entry(NamedTuple):
    """One result: an item with its best passage, or a message."""

    candidate: Candidate
    score: float
    by_title: bool = False
    """A conversation that was found by its title, not by this message."""
    arms: tuple[str, ...] = ("text",)
    """How it was found: by words ("text"), by meaning ("vector"), or both."""
    copies: int = 0
    """Other messages with the same text, which this one represents."""

    @property
    def identity(self) -> tuple[str, str]:
        return identity(self.candidate, self.by_title)


def identity(candidate: Candidate, by_title: bool) -> tuple[str, str]:
    """The document and the message that a result is about; no message for whole items.

    Results with the same identity are duplicates.
    """
    if candidate.kind == CONVERSATION and not by_title:
        return candidate.document, candidate.id
    return candidate.document, ""
