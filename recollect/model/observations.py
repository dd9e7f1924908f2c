"""Observations: what a conversation is worth remembering for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Observation:
    """What one stretch of a conversation is worth remembering for, in its own words.

    Derived from the conversation: `maker` names what made it, and making it anew from the same words gives the same id.
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
    """Sentences of the source, or what its structure says ("Modified auth.ts (+12 -3)"); the best first."""
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    project: str = "default"
    created_at: datetime | None = None
    lines: tuple[int, int] = (1, 1)
    """The first and the last of its lines in the conversation as it is read, counted from 1."""
    asked: tuple[int, int] | None = None
    """Those of the message that it begins with, which is the person's: often that is all one needs to read."""
    maker: str = ""
