"""The records of a Claude Code session as one conversation tree.

Every record names its parent, but several children seldom mean that the person
went back: parallel tool calls, progress chains and hooks branch too. So a line
of records is followed in file order, and a new line begins only where a prompt
has an earlier prompt for a sibling. Records without passages are passed
through. A record with the parent, time and words of another is a replay that
compaction writes; it is dropped and what hangs on it moves to the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from recollect.model.documents import Passage


@dataclass(slots=True)
class Node:
    """A record: the passages made of it (none where it only connects others) and its place."""

    id: str
    parent: str | None
    passages: list[Passage] = field(default_factory=list)
    prompt: bool = False
    """Typed by the person, so a second one under the same parent is a change of mind."""
    turn: bool = False
    """Part of the talk itself, so the last one shows where the conversation stands."""
    queued: str = ""
    """How a prompt that waited in the queue was recorded: "operation" or "attachment"."""
    message: str = ""
    """The API message that the record is a piece of."""


@dataclass(slots=True)
class Tree:
    """Passages in file order with their parents, and the leaf where the conversation stands."""

    passages: list[Passage] = field(default_factory=list)
    head: str | None = None
    replays: int = 0


def grown(nodes: Sequence[Node]) -> Tree:
    return _Growth(nodes).tree(nodes)


class _Growth:
    def __init__(self, nodes: Sequence[Node]) -> None:
        known = {node.id for node in nodes}
        self._has_links = any(node.parent in known for node in nodes)
        self._kept: dict[str, str | None] = {}  # record -> it, or the nearest kept record above it
        self._line: dict[str, int] = {}  # kept record -> its line
        self._tips: list[str | None] = [None]  # line -> its last passage
        self._current = 0
        self._prompted: dict[
            str | None, str | None
        ] = {}  # record -> passage before the first prompt under it
        self._originals: dict[object, str] = {}
        self._parents: dict[str, str | None] = {}  # passage -> parent

    def tree(self, nodes: Sequence[Node]) -> Tree:
        replays = 0
        for node in _parents_first(nodes):
            replays += not self._place(node)
        passages = [
            p._replace(parent=self._parents[p.id])
            for node in nodes
            for p in node.passages
            if p.id in self._parents
        ]
        placed = [node for node in nodes if node.id in self._line]
        turns = [node for node in placed if node.turn] or placed
        return Tree(passages, self._tips[self._line[turns[-1].id]] if turns else None, replays)

    def _place(self, node: Node) -> bool:
        """Append the node to its line; False where it is a replay."""
        above = self._kept.get(node.parent) if node.parent is not None else None
        if not node.passages:
            self._kept[node.id] = above
            return True
        if (original := self._original(node, above)) != node.id:
            self._kept[node.id] = original
            return False
        line = self._line[above] if above is not None else self._current
        if (
            node.prompt
            and above in self._prompted
            and (above is not None or self._starts_over(node))
        ):
            self._tips.append(self._prompted[above])
            line = len(self._tips) - 1
        if node.prompt:
            self._prompted.setdefault(above, self._tips[line])
        for passage in node.passages:
            self._parents[passage.id] = self._tips[line]
            self._tips[line] = passage.id
        self._kept[node.id] = node.id
        self._line[node.id] = self._current = line
        return True

    def _starts_over(self, node: Node) -> bool:
        """A second prompt without a parent is a new start only where records name parents at all."""
        return self._has_links and node.parent is None

    def _original(self, node: Node, above: str | None) -> str:
        at = node.passages[0].created_at
        if above is None or at is None:
            return node.id
        words = tuple(
            (p.role, p.type, p.content, p.metadata.get("tool_use_id")) for p in node.passages
        )
        return self._originals.setdefault((above, at, words), node.id)


def _parents_first(nodes: Iterable[Node]) -> list[Node]:
    """File order, except that a record waits for its parent; circles come last."""
    nodes = list(nodes)
    known = {node.id for node in nodes}
    waiting: dict[str, list[Node]] = {}
    placed: set[str] = set()
    order: list[Node] = []
    for node in nodes:
        if node.parent in known and node.parent not in placed:
            waiting.setdefault(str(node.parent), []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            placed.add(current.id)
            order.append(current)
            ready.extend(reversed(waiting.pop(current.id, [])))
    return order + [node for group in waiting.values() for node in group]
