"""Paths through conversations: which messages they have, their pages, and what a list shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from recollect.errors import NotFound
from recollect.language.text import identifier, truncate
from recollect.model.documents import MessageView, Passage, Position, View
from recollect.model.labels import MESSAGES_FOR_LABEL, UNTITLED, label_of, readable_title
from recollect.store.base import Store

_BATCH = 500  # messages


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
        parent = position.parent if position.parent in by_id else None
        parents[position.id] = parent
        replies.setdefault(parent, []).append(position)
    target = None
    if message is not None:
        target = by_id.get(identifier(message))
        if target is None:
            raise missing_message(message)
    if len(replies) < 2:  # no message replies to another: the path is the whole conversation
        return [Step(position, (position.id,), 0) for position in positions]
    path = [position for position in positions if position.canonical]
    if target is not None and not target.canonical:
        path = path_to(target, by_id, parents)
    ids = {path[-1].id}
    while path[-1].id in replies:
        reply = replies[path[-1].id][-1]
        if reply.id in ids:
            break
        ids.add(reply.id)
        path.append(reply)
    steps = []
    for position in path:
        siblings = tuple(sibling.id for sibling in replies[parents[position.id]])
        steps.append(Step(position, siblings, siblings.index(position.id)))
    return steps


def path_to(
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


def missing_message(message: str) -> NotFound:
    return NotFound(f"There is no message {truncate(message, 80)!r} in this conversation.")


class ConversationPath:
    """The messages of a path: the canonical one, or one through a message. Some are read at a time.

    If a conversation has no branches, only what is read is looked up: that is six times as fast for
    a page of 5,000 messages.
    """

    def __init__(
        self, store: Store, id: str, through: str | None = None, *, without_human_only: bool = False
    ) -> None:
        """Raises NotFound."""
        self._store = store
        self._id = id
        self._steps: list[Step] | None = None
        if not without_human_only and store.is_linear(id):
            self._size = self.total = store.summary(id).message_count
            if through is not None and self.number_of(through) is None:
                raise missing_message(through)
            return
        positions = store.positions(id)
        self._steps = path_through(positions, through)
        if without_human_only:
            hidden = store.human_only([step.position.key for step in self._steps])
            self._steps = [step for step in self._steps if step.position.key not in hidden]
        self._size = len(self._steps)
        self.total = len(positions)
        """How many messages the conversation has, on all paths."""

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, count: int) -> list[tuple[int, Passage]]:
        """Messages with their indexes on the path, without those that were just deleted."""
        if self._steps is None:
            passages, _ = self._store.passage_page(self._id, start, count)
            return list(enumerate(passages, start))
        keys = [step.position.key for step in self._steps[start : start + count]]
        passages_by_key = self._store.passages_by_key(keys)
        return [
            (number, passages_by_key[key][1])
            for number, key in enumerate(keys, start)
            if key in passages_by_key
        ]

    def view(self, number: int, passage: Passage) -> MessageView:
        if self._steps is None:
            return MessageView(passage, (passage.id,), 0)
        return MessageView(passage, self._steps[number].siblings, self._steps[number].index)

    def number_of(self, message: str) -> int | None:
        """The index of a message, by its id."""
        if self._steps is None:
            with suppress(NotFound):
                return read_message(self._store, self._id, message).position
            return None
        id_ = identifier(message)
        return next((n for n, step in enumerate(self._steps) if step.position.id == id_), None)

    def number_at(self, position: int) -> int | None:
        """The index of the first message at or after a position in the conversation."""
        if self._steps is None:
            return position if position < self._size else None
        steps = enumerate(self._steps)
        return next((n for n, step in steps if step.position.position >= position), None)


def view_page(
    store: Store, id: str, through: str | None, around: str | None, start: int | None, limit: int
) -> View:
    """One page of a path through a conversation. See `Library.view`."""
    document = store.document(id, with_passages=False)
    path = ConversationPath(store, document.id, through or around)
    if start is None and around is not None:
        start = min((path.number_of(around) or 0) - limit // 2, len(path) - limit)
    start = max(0, min(start or 0, len(path)))
    messages = [path.view(number, passage) for number, passage in path.read(start, limit)]
    return View(document, tuple(messages), start, len(path), path.total)


def read_path(
    store: Store, id: str, through: str | None = None, start: int = 0
) -> Iterator[tuple[int, Passage]]:
    """The messages of a path from the index `start` on, each with its index, batch by batch.

    The path is the canonical one, or one `through` a message. Raises NotFound.
    """
    path = ConversationPath(store, id, through)
    for first in range(start, len(path), _BATCH):
        yield from path.read(first, _BATCH)


def read_message(store: Store, conversation_id: str, message_id: str) -> Passage:
    """One message. Raises NotFound."""
    key = store.passage_key(conversation_id, message_id)
    entry = store.passages_by_key([key]).get(key)
    if entry is None:
        raise NotFound("The message has been deleted.")
    return entry[1]


def read_label(store: Store, id_: str, title: str) -> str:
    """The title to show for a conversation: its own, or else its first words."""
    readable = readable_title(title)
    if readable:
        return readable
    try:
        passages, _ = store.passage_page(id_, 0, MESSAGES_FOR_LABEL)
    except NotFound:  # deleted in the meantime
        return UNTITLED
    return label_of(passages)
