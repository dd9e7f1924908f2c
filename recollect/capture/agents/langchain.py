"""Chat histories for LangChain: `RecollectChatMessageHistory("id", library)`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from recollect.capture.agents import ITEM, Session, SessionItem, content_text
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.sources import LANGCHAIN

SOURCE = LANGCHAIN.name
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


class RecollectChatMessageHistory(BaseChatMessageHistory):
    """A LangChain chat history. A message with an id is stored once, however often it is added."""

    def __init__(self, session_id: str, library: Library, *, project: str = "default") -> None:
        super().__init__()
        self.session_id = session_id
        self._session = Session(library, SOURCE, session_id, project)

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation in the library; None while the session is empty."""
        return self._session.conversation_id

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        return [_message(passage) for passage in self._session.passages()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._session.add(map(session_item, messages))

    def clear(self) -> None:
        self._session.clear()


def session_item(message: BaseMessage) -> SessionItem:
    item: Any = json.loads(json.dumps(message_to_dict(message), default=str))
    role = _ROLES.get(
        message.type.removesuffix("MessageChunk").lower(), str(getattr(message, "role", "user"))
    )
    text, kind, tool = content_text(message.content), "message", None
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [
            f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}"
            for call in message.tool_calls
        ]
        text, tool = "\n".join(filter(None, [text, *calls])), message.tool_calls[0]["name"]
        kind = "message" if content_text(message.content) else "tool_call"
    elif isinstance(message, ToolMessage):
        kind, tool = "tool_result", message.name
    model = message.response_metadata.get("model_name") if isinstance(message, AIMessage) else None
    return SessionItem(
        item, role, text, kind, tool, model if isinstance(model, str) else None, message.id or None
    )


def _message(passage: Passage) -> BaseMessage:
    """The message as it was added. Messages added in other ways become plain ones."""
    if ITEM in passage.metadata:
        return messages_from_dict([passage.metadata[ITEM]])[0]
    if passage.role == "assistant":
        return AIMessage(content=passage.content, id=passage.id)
    if passage.role == "system":
        return SystemMessage(content=passage.content, id=passage.id)
    return HumanMessage(content=passage.content, id=passage.id)
