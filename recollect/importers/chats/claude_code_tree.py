"""The records of a Claude Code session as a conversation tree.

Every record names its parent, but several children seldom mean that the user went back: parallel
tool calls, progress records and hooks branch as well. So records are appended to a line in file
order, and a new line begins only if a prompt has an earlier prompt as a sibling. Records without
passages are transparent. A record with the parent, time and text of another is a replay that
compaction wrote; it is dropped, and its children become children of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from recollect.model.documents import Passage


@dataclass(slots=True)
class Node:
    """A record: its passages (none if it only connects others) and its place in the tree."""

    id: str
    parent: str | None
    passages: list[Passage] = field(default_factory=list)
    is_prompt: bool = False
    """The user typed it, so a second one under the same parent replaces the first."""
    is_turn: bool = False
    """A message of the user or the assistant. The last one is the head of the conversation."""
    queued_as: str = ""
    """How a prompt that waited in the queue was recorded: "operation" or "attachment"."""
    message: str = ""
    """The id of the API message that the record is a part of."""


@dataclass(slots=True)
class Tree:
    """Passages in file order with their parents, and the last passage of the conversation."""

    passages: list[Passage] = field(default_factory=list)
    head: str | None = None
    replays: int = 0


def build_tree(nodes: Sequence[Node]) -> Tree:
    return _Builder(nodes).build(nodes)


class _Builder:
    def __init__(self, nodes: Sequence[Node]) -> None:
        ids = {node.id for node in nodes}
        self._has_links = any(node.parent in ids for node in nodes)
        self._nearest: dict[str, str | None] = {}
        """For every record: itself if it has passages, or else the nearest such ancestor."""
        self._lines: dict[str, int] = {}
        """The line of every record with passages."""
        self._last_passages: list[str | None] = [None]
        """The last passage of every line."""
        self._current_line = 0
        self._before_prompts: dict[str | None, str | None] = {}
        """For every record with a prompt below it: the passage before the first prompt."""
        self._originals: dict[object, str] = {}
        self._parents: dict[str, str | None] = {}
        """The parent of every passage."""

    def build(self, nodes: Sequence[Node]) -> Tree:
        replays = 0
        for node in _parents_first(nodes):
            if not self._append(node):
                replays += 1
        passages = [
            passage._replace(parent=self._parents[passage.id])
            for node in nodes
            for passage in node.passages
            if passage.id in self._parents
        ]
        included = [node for node in nodes if node.id in self._lines]
        turns = [node for node in included if node.is_turn] or included
        head = None
        if turns:
            head = self._last_passages[self._lines[turns[-1].id]]
        return Tree(passages, head, replays)

    def _append(self, node: Node) -> bool:
        """Append the node to its line; False if it is a replay."""
        parent = None if node.parent is None else self._nearest.get(node.parent)
        if not node.passages:
            self._nearest[node.id] = parent
            return True
        original = self._original(node, parent)
        if original != node.id:
            self._nearest[node.id] = original
            return False
        line = self._current_line if parent is None else self._lines[parent]
        if node.is_prompt and self._replaces_prompt(node, parent):
            self._last_passages.append(self._before_prompts[parent])
            line = len(self._last_passages) - 1
        if node.is_prompt:
            self._before_prompts.setdefault(parent, self._last_passages[line])
        for passage in node.passages:
            self._parents[passage.id] = self._last_passages[line]
            self._last_passages[line] = passage.id
        self._nearest[node.id] = node.id
        self._lines[node.id] = line
        self._current_line = line
        return True

    def _replaces_prompt(self, node: Node, parent: str | None) -> bool:
        """Whether there is an earlier prompt under the same parent.

        A second prompt without a parent only counts if records name parents at all.
        """
        if parent not in self._before_prompts:
            return False
        return parent is not None or (self._has_links and node.parent is None)

    def _original(self, node: Node, parent: str | None) -> str:
        """The id of the first record with the same parent, time and text."""
        time = node.passages[0].created_at
        if parent is None or time is None:
            return node.id
        content = tuple(
            (p.role, p.type, p.content, p.metadata.get("tool_use_id")) for p in node.passages
        )
        return self._originals.setdefault((parent, time, content), node.id)


def _parents_first(nodes: Iterable[Node]) -> list[Node]:
    """File order, but every record after its parent. Cycles come last."""
    nodes = list(nodes)
    ids = {node.id for node in nodes}
    waiting: dict[str, list[Node]] = {}
    ordered: set[str] = set()
    order: list[Node] = []
    for node in nodes:
        if node.parent in ids and node.parent not in ordered:
            waiting.setdefault(str(node.parent), []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            ordered.add(current.id)
            order.append(current)
            ready.extend(reversed(waiting.pop(current.id, [])))
    for group in waiting.values():
        order += group
    return order
