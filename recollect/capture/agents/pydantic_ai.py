"""Message histories of pydantic-ai: `agent.run_sync(question, message_history=history.messages)`, and then
`history.save(result)`."""

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

from recollect.capture.agents import ITEM, Said, Session, is_same, text_of
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.sources import PYDANTIC_AI

ORIGIN = PYDANTIC_AI.name


class Result(Protocol):
    """What a run of an agent gives."""

    def all_messages(self) -> list[ModelMessage]: ...


class RecollectHistory:
    """The messages of one session. Saving is safe to repeat: what is there already is not stored again."""

    def __init__(self, session_id: str, library: Library, *, namespace: str = "default") -> None:
        self.session_id = session_id
        self._session = Session(library, ORIGIN, session_id, namespace)

    @property
    def conversation_id(self) -> str | None:
        """The conversation in the library; None as long as there is nothing in it."""
        return self._session.conversation_id

    @property
    def messages(self) -> list[ModelMessage]:
        return [message_of(passage) for passage in self._session.passages()]

    def save(self, result: Result | Sequence[ModelMessage]) -> int:
        """Store a run's result, or the messages of the session so far; says how many were new.

        Messages that follow those that are stored are added. Where the history was rewritten, from the first
        message that differs on, what is stored from there on is replaced.
        """
        given = list(result) if isinstance(result, Sequence) else result.all_messages()
        items = items_of(given)
        stored = [passage.metadata.get(ITEM) for passage in self._session.passages()]
        pairs = enumerate(zip(stored, items, strict=False))
        same = next(
            (n for n, (one, other) in pairs if not is_same(one, other)),
            min(len(stored), len(items)),
        )
        for _ in stored[same:]:
            self._session.pop()
        self._session.add(map(said_of, given[same:], items[same:]))
        return len(items) - same

    def clear(self) -> None:
        self._session.clear()

    async def aload(self) -> list[ModelMessage]:
        return await asyncio.to_thread(lambda: self.messages)

    async def asave(self, result: Result | Sequence[ModelMessage]) -> int:
        return await asyncio.to_thread(self.save, result)


def items_of(messages: list[ModelMessage]) -> list[Any]:
    items: list[Any] = json.loads(ModelMessagesTypeAdapter.dump_json(messages))
    return items


def said_of(message: ModelMessage, item: Any) -> Said:
    """One message for each of theirs; system prompts are in the item, not in its words."""
    parts = [part for part in item["parts"] if part.get("part_kind") != "system-prompt"]
    kinds = {str(part.get("part_kind")) for part in parts}
    text = "\n".join(filter(None, map(_text, parts)))
    tool = next((part["tool_name"] for part in parts if part.get("tool_name")), None)
    if isinstance(message, ModelResponse):
        called = bool(kinds) and all(kind.endswith("tool-call") for kind in kinds)
        return Said(
            item, "assistant", text, "tool_call" if called else "message", tool, message.model_name
        )
    answers = bool(kinds) and "user-prompt" not in kinds and tool is not None
    role = "tool" if answers else "user" if kinds else "system"
    return Said(item, role, text, "tool_result" if answers else "message", tool)


def _text(part: dict[str, Any]) -> str:
    content = part.get("content", "")
    if str(part.get("part_kind")).endswith("tool-call"):
        args = part.get("args") or ""
        return f"{part.get('tool_name')} {args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)}"
    said = text_of(content)
    return (
        said
        if said or not content or isinstance(content, list)
        else json.dumps(content, ensure_ascii=False)
    )


def message_of(passage: Passage) -> ModelMessage:
    """The message as it came in; of one that came another way, the plainest one."""
    if ITEM in passage.metadata:
        (message,) = ModelMessagesTypeAdapter.validate_python([passage.metadata[ITEM]])
        return message
    if passage.role == "assistant":
        return ModelResponse(parts=[TextPart(passage.content)])
    return ModelRequest.user_text_prompt(passage.content)
