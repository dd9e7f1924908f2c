"""A conversation as the console and agents show it: one page, one message, its label."""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.knowledge.branches import missing_message, page_start, path_page, path_through
from recollect.model.documents import Document, MessageView, Passage, View
from recollect.model.labels import MESSAGES_FOR_LABEL, UNTITLED, label_of, readable_title
from recollect.store.base import Store


def view_page(
    store: Store,
    conversation_id: str,
    through: str | None,
    around: str | None,
    start: int | None,
    limit: int,
) -> View:
    """One page of a path through a conversation. See `Library.view`."""
    document = store.header(conversation_id)
    if store.is_linear(conversation_id):
        return _linear_page(store, document, through, around, start, limit)
    positions = store.positions(conversation_id)
    path = path_through(positions, through or around)
    start, page = path_page(path, limit, start, around)
    contents = store.passages_by_key([step.position.key for step in page])
    messages = [
        MessageView(contents[step.position.key][1], step.siblings, step.index)
        for step in page
        if step.position.key in contents
    ]
    return View(document, tuple(messages), start, len(path), len(positions))


def _linear_page(
    store: Store,
    document: Document,
    through: str | None,
    around: str | None,
    start: int | None,
    limit: int,
) -> View:
    """A page of a conversation without branches. Only the page is read, not the whole path."""
    target = through or around
    if target is not None and _position(store, document.id, target) is None:
        raise missing_message(target)
    middle = None
    if around is not None:
        middle = _position(store, document.id, around) or 0
    total = store.summary(document.id).message_count
    start = page_start(total, limit, start, middle)
    passages, total = store.passage_page(document.id, start, limit)
    messages = [MessageView(passage, (passage.id,), 0) for passage in passages]
    return View(document, tuple(messages), start, total, total)


def _position(store: Store, conversation_id: str, message_id: str) -> int | None:
    try:
        return read_message(store, conversation_id, message_id).position
    except NotFound:
        return None


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
