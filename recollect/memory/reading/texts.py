"""Conversations as Markdown, as one audience reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from recollect.errors import NotFound
from recollect.language.text import identifier
from recollect.memory.observe import ConversationText, conversation_text
from recollect.memory.results import ObservationHit
from recollect.model.audience import Audience, is_human_only
from recollect.model.documents import Document, Passage
from recollect.store.base import Store


class ConversationTexts:
    """The texts of conversations. Each is read once."""

    def __init__(self, store: Store, audience: Audience) -> None:
        self._store = store
        self.audience = audience
        self._documents: dict[str, Document] = {}
        """The conversations that were read, but whose texts were not needed yet."""
        self._texts: dict[str, ConversationText | None] = {}

    def read(self, conversations: Iterable[str]) -> None:
        """Read several conversations at once. Their texts are made when they are needed."""
        ids = [
            id_ for id_ in conversations if id_ not in self._texts and id_ not in self._documents
        ]
        if ids:
            documents = self._store.documents(ids)
            self._documents |= {
                id_: documents[identifier(id_)] for id_ in ids if identifier(id_) in documents
            }

    def text(self, conversation: str) -> ConversationText | None:
        """The text of a conversation; None if there is no such conversation."""
        if conversation not in self._texts:
            self.read([conversation])
            document = self._documents.pop(conversation, None)
            text = None
            if document is not None:
                text = conversation_text(visible_part(document, self.audience))
            self._texts[conversation] = text
        return self._texts[conversation]

    def is_loaded(self, conversation: str) -> bool:
        return conversation in self._texts


def visible_document(store: Store, conversation: str, audience: Audience) -> Document | None:
    """A conversation as this audience reads it; None if there is no such conversation."""
    try:
        return visible_part(store.document(conversation), audience)
    except NotFound:
        return None


def visible_part(document: Document, audience: Audience) -> Document:
    """A conversation as this audience reads it. Masks are left to `conversation_text`."""
    if audience is Audience.AGENT_MASKED or not any(map(is_human_only, document.passages)):
        return document
    if audience is Audience.AGENT_HIDDEN:
        visible = [passage for passage in document.passages if not is_human_only(passage)]
    else:
        visible = [_unmasked(passage) for passage in document.passages]
    return replace(document, passages=tuple(visible))


def _unmasked(passage: Passage) -> Passage:
    """The passage without its mark as human-only, so that `conversation_text` does not mask it."""
    if not is_human_only(passage):
        return passage
    return passage._replace(visibility="all", metadata={})


def exchange_lines(text: ConversationText, message: str) -> tuple[int, int] | None:
    """The lines of the exchange with this message; None if the message is on another branch."""
    lines = text.passages.get(message)
    if lines is None:
        return None
    for first, last in text.exchanges:
        if first <= lines[0] <= last:
            return first, last
    return lines


def with_lines(hit: ObservationHit, texts: ConversationTexts) -> ObservationHit:
    """The observation with its lines in the text that the audience reads."""
    if texts.audience is Audience.AGENT_MASKED:  # the stored lines are those of the masked text
        return hit
    observation = hit.observation
    text = texts.text(observation.conversation)
    if text is None:
        return hit
    question_lines = None
    if observation.passages:
        question_lines = text.passages.get(observation.passages[0])
    lines = text.span(observation.passages)
    return hit._replace(
        observation=replace(observation, lines=lines, question_lines=question_lines)
    )
