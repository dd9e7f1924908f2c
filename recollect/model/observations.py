"""Observations: what a conversation is worth remembering for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Observation:
    """What is worth remembering of one part of a conversation, in its own words.

    It is derived from the conversation. `maker` names what made it. Making it again from the same
    words gives the same id.
    """

    id: str
    type: str
    title: str
    conversation: str
    """The id of the conversation."""
    passages: tuple[str, ...]
    """The messages that it was made of, in their order."""
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    """Sentences of the source, or facts from its structure ("Modified auth.ts (+12 -3)").

    The best come first."""
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    project: str = "default"
    created_at: datetime | None = None
    lines: tuple[int, int] = (1, 1)
    """Its first and last line in the conversation as `read` returns it, counted from 1."""
    question_lines: tuple[int, int] | None = None
    """The lines of its first message, the user's: often that is all there is to read."""
    maker: str = ""
