"""Ways through a conversation that has branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.errors import NotFound
from recollect.language.text import identifier, truncate
from recollect.model.documents import Position


@dataclass(frozen=True, slots=True)
class Step:
    bone: Position
    siblings: tuple[str, ...]
    """What could have been chosen here, oldest first; itself where there is no fork."""
    index: int


def path_through(bones: Sequence[Position], through: str | None = None) -> list[Step]:
    """The canonical way, or one through a message; and on from there along the newest of what follows.

    Bones are in reading order. Raises NotFound where there is no such message.
    """
    by_id = {bone.id: bone for bone in bones}
    parent = {bone.id: bone.parent if bone.parent in by_id else None for bone in bones}
    children: dict[str | None, list[Position]] = {}
    for bone in bones:
        children.setdefault(parent[bone.id], []).append(bone)
    middle = None if through is None else by_id.get(identifier(through))
    if through is not None and middle is None:
        raise NotFound(f"There is no message {truncate(through, 80)!r} in this conversation.")
    if len(children) < 2:  # nothing answers anything: all of it is the way
        return [Step(bone, (bone.id,), 0) for bone in bones]
    if middle is None or middle.canonical:
        chosen = [bone for bone in bones if bone.canonical]
    else:
        chosen = _down_to(middle, by_id, parent)
    chosen += _on_from(chosen[-1], children)
    return [_step(bone, children[parent[bone.id]]) for bone in chosen]


def _step(bone: Position, fork: Sequence[Position]) -> Step:
    siblings = tuple(other.id for other in fork)
    return Step(bone, siblings, siblings.index(bone.id))


def _down_to(
    bone: Position, by_id: dict[str, Position], parent: dict[str, str | None]
) -> list[Position]:
    path: list[Position] = []
    seen: set[str] = set()
    walk: str | None = bone.id
    while walk is not None and walk not in seen:
        seen.add(walk)
        path.append(by_id[walk])
        walk = parent[walk]
    return path[::-1]


def _on_from(bone: Position, children: dict[str | None, list[Position]]) -> list[Position]:
    path: list[Position] = []
    seen = {bone.id}
    while (following := children.get(bone.id)) and following[-1].id not in seen:
        bone = following[-1]
        seen.add(bone.id)
        path.append(bone)
    return path
