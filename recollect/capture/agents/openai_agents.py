"""Sessions of the OpenAI Agents SDK: `Runner.run(agent, question, session=RecollectSession("id", library))`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from recollect.capture.agents import ITEM, Said, Session, text_of
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.sources import OPENAI_AGENTS

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import SessionSettings

ORIGIN = OPENAI_AGENTS.name
_CALLED = (
    "name",
    "arguments",
    "input",
    "code",
    "query",
    "queries",
    "action",
    "command",
    "operation",
)


class RecollectSession:
    """The SDK's `Session`. What a run adds is stored before the next turn, and found by every search of the library."""

    def __init__(
        self,
        session_id: str,
        library: Library,
        *,
        namespace: str = "default",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._session = Session(library, ORIGIN, session_id, namespace)

    @property
    def conversation_id(self) -> str | None:
        """The conversation in the library; None as long as there is nothing in it."""
        return self._session.conversation_id

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return [
            _item(passage) for passage in await asyncio.to_thread(self._session.passages, limit)
        ]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await asyncio.to_thread(
            self._session.add, [_said(cast(Mapping[str, Any], item)) for item in items]
        )

    async def pop_item(self) -> TResponseInputItem | None:
        passage = await asyncio.to_thread(self._session.pop)
        return None if passage is None else _item(passage)

    async def clear_session(self) -> None:
        await asyncio.to_thread(self._session.clear)


def _said(item: Mapping[str, Any]) -> Said:
    kind = str(item.get("type") or "message")
    given = dict(item)
    if kind == "message":
        role = (
            "system"
            if item.get("role") in ("system", "developer")
            else str(item.get("role") or "user")
        )
        return Said(given, role, text_of(item.get("content")))
    if kind == "reasoning":
        return Said(
            given, "assistant", text_of([item.get("summary"), item.get("content")]), "thinking"
        )
    if kind.endswith("_output"):
        return Said(given, "tool", text_of(item.get("output")), "tool_result")
    called = [
        value if isinstance(value, str) else text_of(value) for value in map(item.get, _CALLED)
    ]
    text = "\n".join(filter(None, called))
    return Said(
        given,
        "assistant",
        text,
        "tool_call",
        tool=str(item.get("name") or kind.removesuffix("_call")),
    )


def _item(passage: Passage) -> TResponseInputItem:
    """The item as it came in; of a message that came another way, the plainest one."""
    role = passage.role if passage.role in ("user", "assistant", "system") else "user"
    item: Any = passage.metadata.get(ITEM) or {"role": role, "content": passage.content}
    return cast("TResponseInputItem", item)
