"""Documents and their passages, and the order of passages in a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from recollect.model.audience import ALL, HUMAN_ONLY
from recollect.model.kinds import CONVERSATION

Json = Any


PASSAGE_TYPES = (
    "message",
    "thinking",
    "tool_call",
    "tool_result",
    "summary",
    "context",
    "chunk",
    "field",
)


_REPR_CHARACTERS = 60

VISIBILITIES = (ALL, "hidden", HUMAN_ONLY)


def shorten(text: str) -> str:
    """The beginning of a text, for `repr`."""
    if len(text) <= _REPR_CHARACTERS:
        return text
    return f"{text[:_REPR_CHARACTERS]}…"


def _repr(kind: str, id_: str, title: str, count: int) -> str:
    unit = "messages"
    if count == 1:
        unit = "message"
    return f"<{kind} {id_!r} {shorten(title)!r}, {count} {unit}>"


class Passage(NamedTuple):
    """One message of a conversation, or one part of an item.

    `id` is the id in the source and unique within the document. Fields of the source that have no
    field here are in `metadata`, unchanged. It is a named tuple because an import creates one for
    every message, and a frozen dataclass takes three times as long to create.
    """

    id: str
    role: str | None
    content: str
    type: str = "message"
    author: str | None = None
    model: str | None = None
    tool: str | None = None
    parent: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    visibility: str = "all"
    attachments: tuple[Json, ...] = ()
    citations: tuple[Json, ...] = ()
    metadata: Mapping[str, Json] = MappingProxyType({})
    position: int = 0
    canonical: bool = True

    def __repr__(self) -> str:
        return f"<Passage {self.id!r} {self.role}: {shorten(self.content)!r}>"


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A conversation or item, with its passages in reading order.

    `source` and `source_id` identify it, so importing it twice changes nothing. `id` identifies it
    within one library: it is the source id, unless another source used that id first.
    """

    source: str
    source_id: str
    title: str = ""
    kind: str = CONVERSATION
    project: str = "default"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    head: str | None = None
    passages: tuple[Passage, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)
    id: str = ""
    partial: bool = False
    """A copy that lacks something the source has: it adds what is missing, and replaces nothing."""
    shared_ids: bool = False
    """Passage ids are unique in the whole source, so the same id in another document is a copy."""
    version: int = field(default=0, compare=False)
    """Increases with every change in the store; 0 if it is not stored yet."""

    def __repr__(self) -> str:
        return _repr("Document", self.id or self.source_id, self.title, len(self.passages))

    @property
    def messages(self) -> tuple[Passage, ...]:
        """The passages, which are the messages of a conversation."""
        return self.passages

    @property
    def canonical(self) -> tuple[Passage, ...]:
        """The path from the root to the head: the conversation as the user last saw it."""
        return tuple(p for p in self.passages if p.canonical)


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """A document without its passages, for lists."""

    id: str
    source: str
    source_id: str
    kind: str
    title: str
    project: str
    created_at: datetime | None
    updated_at: datetime | None
    message_count: int
    metadata: Mapping[str, Json]
    version: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return _repr("Summary", self.id, self.title, self.message_count)


class Position(NamedTuple):
    """The place of a passage in its document: enough to find paths without reading contents."""

    key: int
    id: str
    parent: str | None
    position: int
    canonical: bool


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message on a path through a conversation, and the alternatives to it."""

    passage: Passage
    siblings: tuple[str, ...]
    """The ids of the messages at this fork, oldest first; just the message itself if there is no
    fork."""
    index: int
    """The index of the message among its siblings."""


class View(NamedTuple):
    """One page of a path through a conversation."""

    document: Document
    """Without its passages."""
    messages: tuple[MessageView, ...]
    start: int
    """The index of the first message on the path."""
    total: int
    """How many messages the path has."""
    conversation_total: int
    """How many messages the conversation has, on all branches."""

    @property
    def size(self) -> str:
        """The number of messages for people: "5 messages, 3 on this branch"."""
        noun = "messages"
        if self.conversation_total == 1:
            noun = "message"
        size = f"{self.conversation_total:,} {noun}"
        if self.total < self.conversation_total:
            size += f", {self.total:,} on this branch"
        return size


def arrange(document: Document) -> Document:
    """Put the passages in reading order, number them, and mark the canonical path."""
    head, order = places(document.passages, document.head)
    passages = tuple(
        document.passages[index]._replace(position=position, canonical=canonical)
        for position, (index, canonical) in enumerate(order)
    )
    return replace(document, head=head, passages=passages)


def places(
    passages: Sequence[Passage], head: str | None
) -> tuple[str | None, list[tuple[int, bool]]]:
    """The head, and for each position in reading order: the index of its passage, and whether it is
    canonical.

    Parents come before children, and siblings keep their order. If a parent is missing or part of a
    cycle, its child becomes a root. Without a valid `head`, the newest leaf is the head.
    """
    if is_chain(passages, head):
        return passages[-1].id, [(n, True) for n in range(len(passages))]
    at = {p.id: n for n, p in enumerate(passages)}
    parents = {p.id: p.parent if p.parent in at else None for p in passages}
    cut_cycles(parents)
    children: dict[str | None, list[str]] = {}
    for passage in passages:
        children.setdefault(parents[passage.id], []).append(passage.id)
    if head not in at:
        leaves = [
            (p.created_at.timestamp() if p.created_at else float("-inf"), n, p.id)
            for n, p in enumerate(passages)
            if p.id not in children
        ]
        head = max(leaves)[2] if leaves else None
    path = set()
    current = head
    while current is not None:
        path.add(current)
        current = parents[current]
    is_linked = len(children) > 1
    is_branched = any(len(c) > 1 for parent, c in children.items() if parent is not None)
    order = list(at)
    if is_branched or any(p is not None and at[p] > at[id_] for id_, p in parents.items()):
        order, stack = [], children.get(None, [])[::-1]
        while stack:  # depth first
            order.append(stack.pop())
            stack += reversed(children.get(order[-1], ()))
    return head, [(at[id_], id_ in path or not is_linked) for id_ in order]


def is_chain(passages: Sequence[Passage], head: str | None) -> bool:
    """Whether each passage answers the one before it, as in most conversations."""
    above = None
    for passage in passages:
        if passage.parent != above:
            return False
        above = passage.id
    return above is not None and head in (None, above)


def cut_cycles(parents: dict[str, str | None]) -> None:
    safe: set[str] = set()
    for start in parents:
        trail: set[str] = set()
        current: str | None = start
        while current is not None and current not in safe:
            if current in trail:
                parents[current] = None
                break
            trail.add(current)
            current = parents[current]
        safe |= trail
