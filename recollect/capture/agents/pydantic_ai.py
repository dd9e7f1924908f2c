"""Message histories for pydantic-ai.

`agent.run_sync(question, message_history=history.messages)`, then `history.save(result)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
)

from recollect.capture.agents import ITEM, Session, SessionItem, content_text, is_same
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.sources import PYDANTIC_AI

SOURCE = PYDANTIC_AI.name


class Result(Protocol):
    """The result of an agent run."""

    def all_messages(self) -> list[ModelMessage]: ...


class RecollectHistory:
    """The messages of one session. Saving is idempotent: stored messages are not stored again."""

    def __init__(self, session_id: str, library: Library, *, project: str = "default") -> None:
        self.session_id = session_id
        self._session = Session(library, SOURCE, session_id, project)

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation in the library; None while the session is empty."""
        return self._session.conversation_id

    @property
    def messages(self) -> list[ModelMessage]:
        return [load_message(passage) for passage in self._session.passages()]

    def save(self, result: Result | Sequence[ModelMessage]) -> int:
        """Store the result of a run, or all messages of the session. Returns how many were new.

        New messages are appended. If the history was rewritten, stored messages are replaced from
        the first one that differs.
        """
        messages = list(result) if isinstance(result, Sequence) else result.all_messages()
        items = dump_items(messages)
        stored = [passage.metadata.get(ITEM) for passage in self._session.passages()]
        pairs = enumerate(zip(stored, items, strict=False))
        same = next(
            (n for n, (one, other) in pairs if not is_same(one, other)),
            min(len(stored), len(items)),
        )
        for _ in stored[same:]:
            self._session.pop()
        self._session.add(map(session_item, messages[same:], items[same:]))
        return len(items) - same

    def clear(self) -> None:
        self._session.clear()

    async def aload(self) -> list[ModelMessage]:
        return await asyncio.to_thread(lambda: self.messages)

    async def asave(self, result: Result | Sequence[ModelMessage]) -> int:
        return await asyncio.to_thread(self.save, result)


def dump_items(messages: list[ModelMessage]) -> list[Any]:
    items: list[Any] = json.loads(ModelMessagesTypeAdapter.dump_json(messages))
    return items


def session_item(message: ModelMessage, item: Any) -> SessionItem:
    """One item per message. System prompts are in the item, but not in its text."""
    parts = [part for part in item["parts"] if part.get("part_kind") != "system-prompt"]
    kinds = {str(part.get("part_kind")) for part in parts}
    text = "\n".join(filter(None, map(_text, parts)))
    tool = next((part["tool_name"] for part in parts if part.get("tool_name")), None)
    if isinstance(message, ModelResponse):
        type_ = "message"
        if kinds and all(kind.endswith("tool-call") for kind in kinds):
            type_ = "tool_call"
        return SessionItem(item, "assistant", text, type_, tool, message.model_name)
    if not kinds:
        return SessionItem(item, "system", text, "message", tool)
    if tool is not None and "user-prompt" not in kinds:
        return SessionItem(item, "tool", text, "tool_result", tool)
    return SessionItem(item, "user", text, "message", tool)


def _text(part: dict[str, Any]) -> str:
    content = part.get("content", "")
    if str(part.get("part_kind")).endswith("tool-call"):
        args = part.get("args") or ""
        if not isinstance(args, str):
            args = json.dumps(args, ensure_ascii=False)
        return f"{part.get('tool_name')} {args}"
    text = content_text(content)
    return (
        text
        if text or not content or isinstance(content, list)
        else json.dumps(content, ensure_ascii=False)
    )


def load_message(passage: Passage) -> ModelMessage:
    """The message as it was added. Messages added in other ways become plain ones."""
    if ITEM in passage.metadata:
        (message,) = ModelMessagesTypeAdapter.validate_python([passage.metadata[ITEM]])
        return message
    if passage.role == "assistant":
        return ModelResponse(parts=[TextPart(passage.content)])
    return ModelRequest.user_text_prompt(passage.content)
