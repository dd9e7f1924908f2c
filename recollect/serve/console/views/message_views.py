"""The messages of a conversation, as the templates show them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Document, Json, Passage, View
from recollect.serve.console.views import rendering
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

WINDOW = 40
"""Messages per request."""
_COLLAPSED = {
    "thinking": "Thinking",
    "tool_call": "Tool call",
    "tool_result": "Tool result",
    "context": "Context",
    "summary": "Summary",
}
_PLAIN_TEXT = ("tool_call", "tool_result")
_WINDOW_CHARS = 120_000  # beyond this, the messages of a window are cut short
_SHORT_MESSAGE_CHARS = 1_500
_RENDER_SECONDS = 0.5  # CPU time per window; after that, messages are shown as plain text
_PREVIEW_CHARS = 140


@dataclass(frozen=True, slots=True)
class MessageView:
    passage: Passage
    index: int
    siblings: tuple[str, ...]
    """The versions of this message, if the conversation branches here."""
    sibling_index: int
    body: Markup
    hidden_chars: int
    """Characters that are not shown yet."""

    @property
    def is_hidden(self) -> bool:
        return self.passage.visibility == "hidden"

    @property
    def is_collapsed(self) -> bool:
        return self.is_hidden or self.passage.type in _COLLAPSED

    @property
    def label(self) -> str:
        """The heading of a collapsed message."""
        if self.is_hidden:
            return f"Hidden {self.passage.role or 'message'}"
        return _COLLAPSED.get(self.passage.type, self.passage.type)

    @property
    def name(self) -> str:
        return self.passage.author or (self.passage.role or "unknown").capitalize()

    @property
    def css_class(self) -> str:
        if self.is_hidden:
            return "is-hidden"
        if self.is_collapsed:
            return "is-aside"
        return ""

    @property
    def preview(self) -> str:
        return " ".join(self.passage.content[:_PREVIEW_CHARS].split())

    @property
    def attachments(self) -> list[str]:
        return [_describe(item) for item in self.passage.attachments]

    @property
    def citations(self) -> list[str]:
        return [_describe(item) for item in self.passage.citations]


@dataclass(frozen=True, slots=True)
class ConversationWindow:
    """Consecutive messages on one path through a conversation."""

    document: Document
    label: str
    """The title, or what stands for it."""
    messages: Sequence[MessageView]
    start: int
    total: int
    through: str
    """The message that the path goes through; empty for the main path."""
    target: str
    """The message to scroll to, if any."""

    @property
    def end(self) -> int:
        return self.start + len(self.messages)


def open_conversation(
    library: Library,
    principal: Principal,
    conversation_id: str,
    *,
    through: str = "",
    around: str = "",
    start: int | None = None,
    limit: int = WINDOW,
) -> ConversationWindow:
    """A window of a conversation. Messages that no longer exist are ignored as targets."""
    try:
        view = library.view(
            conversation_id,
            through=through or None,
            around=around or None,
            start=start,
            limit=limit,
        )
    except NotFound:
        if not through and not around:
            raise
        through = around = ""
        view = library.view(conversation_id, start=start, limit=limit)
    messages = _message_views(view, principal)
    label = library.label(view.document.id, view.document.title)
    return ConversationWindow(
        view.document, label, messages, view.start, view.total, through, around
    )


def _message_views(view: View, principal: Principal) -> list[MessageView]:
    messages = []
    budget = _WINDOW_CHARS
    deadline = time.thread_time() + _RENDER_SECONDS
    for index, step in enumerate(view.messages, view.start):
        passage = mask_passage(step.passage, principal.audience)
        max_chars = rendering.MESSAGE_CHARS
        if budget <= 0:
            max_chars = _SHORT_MESSAGE_CHARS
        body, hidden_chars = render_message(
            passage, max_chars, plain_text=time.thread_time() > deadline
        )
        budget -= len(passage.content) - hidden_chars
        messages.append(
            MessageView(passage, index, tuple(step.siblings), step.index, body, hidden_chars)
        )
    return messages


def render_message(
    passage: Passage, max_chars: int, *, plain_text: bool = False
) -> tuple[Markup, int]:
    """A message's text as HTML, and how many characters were left out."""
    text = rendering.beginning(passage.content, max_chars)
    hidden_chars = len(passage.content) - len(text)
    if plain_text or passage.type in _PLAIN_TEXT:
        return rendering.plain(text), hidden_chars
    return rendering.markdown(text), hidden_chars


def _describe(item: Json) -> str:
    """The name and address of an attachment or citation, wherever the source put them."""
    if isinstance(item, str):
        return truncate(item, 300)
    if isinstance(item, Mapping):
        name = _first_text(item, ("name", "title", "file_name", "filename"))
        name = name or _first_text(item, ("text", "id"))
        address = _first_text(item, ("url", "uri"))
        if name and address and name != address:
            return truncate(f"{name} ({address})", 300)
        if name or address:
            return truncate(name or address, 300)
    return truncate(json.dumps(item, ensure_ascii=False, default=str), 300)


def _first_text(item: Mapping[str, Json], names: Sequence[str]) -> str:
    """The first of these fields that has a text, in the item itself or in its metadata."""
    mappings = [item]
    metadata = item.get("metadata")
    if isinstance(metadata, Mapping):
        mappings.append(metadata)
    for mapping in mappings:
        for name in names:
            value = mapping.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""
