"""Who may see what: audiences, and the rule for human-only messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

ALL = "all"
HUMAN_ONLY = "human_only"
MASK = "[human-only content hidden]"
"""What an agent reads instead of a human-only message."""


class Audience(Enum):
    """Who reads a result, and what that reader gets of human-only messages."""

    PERSON = "person"
    """Sees everything."""
    AGENT_MASKED = "agent_masked"
    """Finds human-only messages, but reads a mask instead of their content."""
    AGENT_HIDDEN = "agent_hidden"
    """Does not find human-only messages at all, not even in totals."""


class Labelled(Protocol):
    """Anything with a visibility: a message or a hit."""

    @property
    def visibility(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


def is_human_only(message: Labelled) -> bool:
    """Whether only people may read this message."""
    return message.visibility == HUMAN_ONLY or is_marked_human_only(message.metadata)


def is_marked_human_only(metadata: Mapping[str, Any]) -> bool:
    """Whether this metadata marks its message as human-only."""
    return (
        _word(metadata.get("visibility")) == HUMAN_ONLY
        or _word(metadata.get("audience")) == "human"
    )


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value.strip().lower()
    return ""
