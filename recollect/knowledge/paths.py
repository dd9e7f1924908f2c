"""Read a path through a conversation, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.knowledge.branches import path_through
from recollect.model.documents import Passage
from recollect.store.base import Store

_BATCH = 500  # messages


def read_path(
    store: Store, conversation_id: str, through: str | None = None, start: int = 0
) -> Iterator[tuple[int, Passage]]:
    """The messages of a path from the index `start` on, each with its index.

    The path is the canonical one, or one `through` a message. Raises NotFound.
    """
    if store.is_linear(conversation_id):
        yield from _read_linear(store, conversation_id, start)
        return
    path = path_through(store.positions(conversation_id), through)
    for first in range(start, len(path), _BATCH):
        keys = [step.position.key for step in path[first : first + _BATCH]]
        contents = store.passages_by_key(keys)
        for index, key in enumerate(keys, first):
            if key in contents:
                yield index, contents[key][1]


def _read_linear(store: Store, id: str, start: int) -> Iterator[tuple[int, Passage]]:
    while True:
        passages, _ = store.passage_page(id, start, _BATCH)
        if not passages:
            return
        yield from enumerate(passages, start)
        start += len(passages)
