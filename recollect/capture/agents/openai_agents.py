"""Sessions of the OpenAI Agents SDK.

`Runner.run(agent, question, session=RecollectSession("id", library))`
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from recollect.capture.agents import ITEM, Session, SessionItem
from recollect.library import Library
from recollect.model.chat_messages import chat_messages, message_parts
from recollect.model.documents import Passage
from recollect.model.sources import OPENAI_AGENTS

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import SessionSettings

SOURCE = OPENAI_AGENTS.name


class RecollectSession:
    """The SDK's `Session`. Items are stored before the next turn, and can be searched at once."""

    def __init__(
        self,
        session_id: str,
        library: Library,
        *,
        project: str = "default",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._session = Session(library, SOURCE, session_id, project)

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation in the library; None while the session is empty."""
        return self._session.conversation_id

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return [
            _item(passage) for passage in await asyncio.to_thread(self._session.passages, limit)
        ]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await asyncio.to_thread(
            self._session.add, [session_item(cast(Mapping[str, Any], item)) for item in items]
        )

    async def pop_item(self) -> TResponseInputItem | None:
        passage = await asyncio.to_thread(self._session.pop)
        return None if passage is None else _item(passage)

    async def clear_session(self) -> None:
        await asyncio.to_thread(self._session.clear)


def session_item(item: Mapping[str, Any]) -> SessionItem:
    fields = dict(item)
    (message,) = chat_messages([fields]) or [{"role": "user"}]
    role = "system" if message["role"] == "developer" else str(message["role"])
    parts = message_parts({**message, "role": role}, {}) or [Passage("", role, "")]
    part = parts[-1]
    return SessionItem(fields, role, part.content, part.type, part.tool)


def _item(passage: Passage) -> TResponseInputItem:
    """The item as it was added. Messages added in other ways become plain items."""
    role = passage.role if passage.role in ("user", "assistant", "system") else "user"
    item: Any = passage.metadata.get(ITEM) or {"role": role, "content": passage.content}
    return cast("TResponseInputItem", item)
