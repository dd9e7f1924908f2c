"""Who may see what: the one rule that decides whether only people may read a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

HUMAN_ONLY = "human_only"
MASK = "[human-only content hidden]"
"""What an agent sees instead of a message that only people may see."""


class Labelled(Protocol):
    """A message or a hit: anything that says who may see it."""

    @property
    def visibility(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


def only_for_people(message: Labelled) -> bool:
    """Whether only people may see what a message says."""
    return message.visibility == HUMAN_ONLY or for_people(message.metadata)


def for_people(metadata: Mapping[str, Any]) -> bool:
    """Whether a message's metadata says that only people may see it."""
    return (
        _word(metadata.get("visibility")) == HUMAN_ONLY
        or _word(metadata.get("audience")) == "human"
    )


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value.strip().lower()
    return ""
