"""Short ids of conversations and items: the first characters of an id, as many as make it unique.

They save tokens and typing. A short id may stop being unique when the library grows; then it is
refused, never taken for another one. `store/abbreviations.py` expands them again.
"""

from __future__ import annotations

from recollect.language.text import identifier
from recollect.store.base import Store

_MIN_LENGTH = 6
_NEIGHBOURS = 20
"""The most ids that are read at once."""


def short_id(store: Store, id_: str) -> str:
    """The shortest beginning of an id that no other id has."""
    id_ = identifier(id_)
    length = _MIN_LENGTH
    while length < len(id_):
        neighbours = store.ids_with_prefix(id_[:length], _NEIGHBOURS)
        others = [other for other in neighbours if other != id_]
        if not others:
            return id_[:length]
        if len(neighbours) < _NEIGHBOURS:
            return id_[: 1 + max(_common_length(id_, other) for other in others)]
        length += 1
    return id_


def _common_length(first: str, second: str) -> int:
    """How many characters two texts have in common at the beginning."""
    for length, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return length
    return min(len(first), len(second))
