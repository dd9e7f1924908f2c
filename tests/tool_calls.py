"""Tools as a client calls them: through the dispatcher, without a transport."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context, LocalContext, LocalLibrary
from recollect.serve.mcp.protocol import Dispatcher


class Caller:
    """Somebody who calls the tools of some toolsets: an agent, unless said."""

    def __init__(self, place: str, *toolsets: str, user: str | None = None, **settled: Any) -> None:
        self._local = LocalLibrary(place, user)
        self._settled = settled
        self.catalog = Catalog(toolsets=toolsets)
        self.dispatcher = Dispatcher(self.catalog)

    def close(self) -> None:
        self._local.close()

    def context(self, **more: Any) -> Context:
        return LocalContext(self._local, **{**self._settled, **more})

    def call(self, tool: str, arguments: dict[str, Any], **more: Any) -> Any:
        """The result of a call as it crosses the wire."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = json.loads(json.dumps(self.dispatcher.handle(message, self.context(**more))))
        assert "result" in answer, answer
        return answer["result"]

    def answer(self, tool: str, **arguments: Any) -> Any:
        """What a call that succeeds gives, which is said twice: for programs, and as the one text."""
        result = self.call(tool, arguments)
        assert result["isError"] is False, result
        (content,) = result["content"]
        assert content["type"] == "text"
        assert json.loads(content["text"]) == result["structuredContent"]
        (listed,) = [one for one in self.catalog.listing() if one["name"] == tool]
        jsonschema.validate(result["structuredContent"], listed.get("outputSchema", {}))
        return result["structuredContent"]

    def error(self, tool: str, **arguments: Any) -> Any:
        """What a call that fails says."""
        result = self.call(tool, arguments)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        (content,) = result["content"]
        return json.loads(content["text"])

    def thread(self, topic: str, *contents: str, **more: Any) -> str:
        """A thread with messages of an agent; gives its id."""
        id_: str = self.answer("bus_connect", thread_name=topic)["thread"]["thread_id"]
        for content in contents:
            self.answer("msg_post", thread_id=id_, author="cursor-agent", content=content, **more)
        return id_
