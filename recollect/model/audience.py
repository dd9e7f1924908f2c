"""Who may see what: audiences, and the rule for human-only messages."""

from __future__ import annotations

import re
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
    return has_human_only_values(message.visibility, message.metadata)


def has_human_only_values(visibility: str, metadata: Mapping[str, Any]) -> bool:
    """Whether a message with this visibility and metadata is human-only."""
    if visibility not in _USUAL_VISIBILITIES and names_people(visibility):
        return True
    return is_marked_human_only(metadata)


def is_surely_unmarked(message: Labelled) -> bool:
    """Whether the names in its metadata show that a message is not human-only.

    Names that were never seen before show nothing. This runs for every message of an import, so it
    does not look at values.
    """
    metadata = message.metadata
    is_unmarked = not metadata or metadata.keys() <= _unmarked_names
    return is_unmarked and message.visibility in _USUAL_VISIBILITIES


def is_marked_human_only(metadata: Mapping[str, Any]) -> bool:
    """Whether this metadata marks its message as human-only.

    Names and values count in any letter case, with `_`, `-`, a space or nothing between words:
    `human_only: true`, `Human-Only: "yes"`, `visibility: "human_only"`, `audience: ["human"]`.
    """
    if metadata.keys() <= _unmarked_names:
        return False
    for name, value in metadata.items():
        normal_name = normalize(name)
        if normal_name not in _MARKING_NAMES:
            remember_unmarked(name)
            continue
        if normal_name == "humanonly":
            is_marked = normalize(value) not in _FALSE
        else:
            is_marked = names_people(value)
        if is_marked:
            return True
    return False


# Without separators and in lower case.
_MARKING_NAMES = ("humanonly", "visibility", "audience")
_USUAL_VISIBILITIES = (ALL, "hidden")
# An import has the same few names in every message. Names that mark nothing are remembered.
_unmarked_names: set[str] = set()
_MAX_UNMARKED_NAMES = 1_000


def remember_unmarked(name: str) -> None:
    if len(_unmarked_names) < _MAX_UNMARKED_NAMES:
        _unmarked_names.add(name)


_PEOPLE = frozenset(("human", "humans", "humanonly", "humansonly"))
# Any other value of `human_only` hides the message: to show it by mistake would be worse.
_FALSE = frozenset(("", "0", "0.0", "false", "no", "off", "none", "null", "[]", "{}"))
_SEPARATORS = re.compile(r"[\s_-]+")


def names_people(value: Any) -> bool:
    """Whether a visibility or an audience consists only of people."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(v, str) and names_people(v) for v in value)
    return isinstance(value, str) and normalize(value) in _PEOPLE


def normalize(value: Any) -> str:
    return _SEPARATORS.sub("", str(value)).lower()
