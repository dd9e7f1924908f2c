"""Paths through a conversation with branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.errors import NotFound
from recollect.language.text import identifier, truncate
from recollect.model.documents import Position


@dataclass(frozen=True, slots=True)
class Step:
    """A message on a path."""

    position: Position
    siblings: tuple[str, ...]
    """The ids of the messages at this fork, oldest first; just the message itself if there is no
    fork."""
    index: int
    """The index of the message among its siblings."""


def path_through(positions: Sequence[Position], message: str | None = None) -> list[Step]:
    """The canonical path, or a path through a message.

    After the message, or after the end of the canonical path, the path continues with the newest
    reply at every fork. `positions` are in reading order. Raises NotFound if there is no such
    message.
    """
    by_id = {position.id: position for position in positions}
    parents: dict[str, str | None] = {}
    replies: dict[str | None, list[Position]] = {}
    for position in positions:
        parent = position.parent
        if parent not in by_id:
            parent = None
        parents[position.id] = parent
        replies.setdefault(parent, []).append(position)
    target = _find(by_id, message)
    if len(replies) < 2:  # no message replies to another: the path is the whole conversation
        return [Step(position, (position.id,), 0) for position in positions]
    if target is None or target.canonical:
        path = [position for position in positions if position.canonical]
    else:
        path = _path_to(target, by_id, parents)
    path += _newest_replies(path[-1], replies)
    return [_step(position, replies[parents[position.id]]) for position in path]


def path_page(
    path: Sequence[Step], limit: int, start: int | None = None, around: str | None = None
) -> tuple[int, Sequence[Step]]:
    """One page of a path, and where it starts: at `start`, or with a message in its middle."""
    middle = None
    if start is None and around is not None:
        id_ = identifier(around)
        middle = next((n for n, step in enumerate(path) if step.position.id == id_), 0)
    start = page_start(len(path), limit, start, middle)
    return start, path[start : start + limit]


def page_start(total: int, limit: int, start: int | None, middle: int | None) -> int:
    """Where a page of a path starts: at `start`, or with the message `middle` in its middle."""
    if start is None and middle is not None:
        start = min(middle - limit // 2, total - limit)
    return max(0, min(start or 0, total))


def _find(by_id: Mapping[str, Position], message: str | None) -> Position | None:
    if message is None:
        return None
    position = by_id.get(identifier(message))
    if position is None:
        raise missing_message(message)
    return position


def missing_message(message: str) -> NotFound:
    return NotFound(f"There is no message {truncate(message, 80)!r} in this conversation.")


def _step(position: Position, fork: Sequence[Position]) -> Step:
    siblings = tuple(sibling.id for sibling in fork)
    return Step(position, siblings, siblings.index(position.id))


def _path_to(
    position: Position, by_id: Mapping[str, Position], parents: Mapping[str, str | None]
) -> list[Position]:
    """The messages from a root to this one. A cycle in damaged data ends the path."""
    path: list[Position] = []
    ids: set[str] = set()
    current: str | None = position.id
    while current is not None and current not in ids:
        ids.add(current)
        path.append(by_id[current])
        current = parents[current]
    return path[::-1]


def _newest_replies(
    position: Position, replies: Mapping[str | None, Sequence[Position]]
) -> list[Position]:
    """The newest reply, the newest reply to that one, and so on."""
    path: list[Position] = []
    ids = {position.id}
    while position.id in replies:
        position = replies[position.id][-1]
        if position.id in ids:
            break
        ids.add(position.id)
        path.append(position)
    return path
