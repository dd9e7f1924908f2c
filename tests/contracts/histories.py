"""`conversation_search` as a client calls it, and conversations in every data source it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import databases
from databases import Message
from states import settle

import recollect
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import LocalLibrary
from recollect.serve.mcp.protocol import Dispatcher

SEPARATOR = "\n\n---\n\n"
NO_MATCH = "No matching messages."


class Tool:
    """The tool as a client calls it. By default it searches the library in the settings."""

    def __init__(
        self, home: Path | str | None = None, user: str | None = None, **options: Any
    ) -> None:
        self.local = LocalLibrary(None if home is None else str(home), user)
        self.dispatcher = Dispatcher(Catalog("letta", **options))

    def close(self) -> None:
        self.local.close()

    def request(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return json.loads(json.dumps(self.dispatcher.handle(message, self.local.context())))

    def call(self, **arguments: Any) -> Any:
        return self.request("tools/call", name="conversation_search", arguments=arguments)["result"]

    def search(self, **arguments: Any) -> str:
        """The text of an answer that is not an error."""
        result = self.call(**arguments)
        assert result["isError"] is False, result
        text: str = result["content"][0]["text"]
        return text

    def blocks(self, **arguments: Any) -> list[str]:
        text = self.search(**arguments)
        if text == NO_MATCH:
            return []
        return text.split(SEPARATOR)

    def contents(self, **arguments: Any) -> list[str]:
        """The messages of an answer, without their headers."""
        return [block.split("\n", 1)[1] for block in self.blocks(**arguments)]

    def error(self, **arguments: Any) -> str:
        result = self.call(**arguments)
        assert result["isError"] is True, result
        assert [part["type"] for part in result["content"]] == ["text"]
        text: str = result["content"][0]["text"]
        return text


class History:
    """Conversations in one kind of data source: the library, or a ChatGPT Browser database."""

    def __init__(self, kind: str, file: Path) -> None:
        self.kind = kind
        self._file = file
        self._library: recollect.Library | None = None
        if kind in databases.SHAPES:
            databases.create(file, kind)

    def add(self, title: str, *messages: Message, id: str = "c1") -> None:
        if self.kind in databases.SHAPES:
            databases.add(self._file, self.kind, id, title, [*messages])
            return
        if self._library is None:
            self._library = recollect.open()
        rows = [{"role": m.role, "content": m.content, "created_at": m.at} for m in messages]
        self._library.add_conversation(id=id, title=title, messages=rows)
        settle(self._library)

    def close(self) -> None:
        if self._library is not None:
            self._library.close()


def user_messages(*contents: str) -> list[Message]:
    """Messages of a user, one minute apart."""
    return [
        Message("user", content, f"2025-02-10T14:{n:02}:00+00:00")
        for n, content in enumerate(contents)
    ]
