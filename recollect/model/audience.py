"""Who may see what: audiences, and the rule for human-only messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
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


_MARKING_NAMES = ("humanonly", "visibility", "audience")
_PEOPLE = ("human", "humans", "humanonly", "humansonly")
# Any other value of `human_only` hides the message: to show it by mistake would be worse.
_FALSE = ("", "0", "0.0", "false", "no", "off", "none", "null", "[]", "{}")


def is_human_only(message: Labelled) -> bool:
    """Whether only people may read this message."""
    return has_human_only_values(message.visibility, message.metadata)


def has_human_only_values(visibility: str, metadata: Mapping[str, Any]) -> bool:
    """Whether a message with this visibility and metadata is human-only."""
    is_for_people = visibility not in (ALL, "hidden") and names_people(visibility)
    return is_for_people or is_marked_human_only(metadata)


def is_marked_human_only(metadata: Mapping[str, Any]) -> bool:
    """Whether this metadata marks its message as human-only.

    Names and values count in any letter case, with `_`, `-`, a space or nothing between words:
    `human_only: true`, `Human-Only: "yes"`, `visibility: "human_only"`, `audience: ["human"]`.
    """
    for name in [name for name in metadata if normalize(name) in _MARKING_NAMES]:
        if normalize(name) != "humanonly":
            is_marked = names_people(metadata[name])
        else:
            is_marked = normalize(str(metadata[name])) not in _FALSE
        if is_marked:
            return True
    return False


def names_people(value: Any) -> bool:
    """Whether a visibility or an audience consists only of people."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(v, str) and names_people(v) for v in value)
    return isinstance(value, str) and len(value) < 40 and normalize(value) in _PEOPLE


@lru_cache(maxsize=1_000)  # the messages of an import have the same few names
def normalize(name: str) -> str:
    return "".join(name.replace("_", " ").replace("-", " ").split()).lower()
