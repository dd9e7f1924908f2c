"""Sessions of the OpenAI Agents SDK: the real SDK, without a model.

The SDK is not a development dependency, because it requires an older `websockets` than the server
tests. To run these tests: `pip install --no-deps openai-agents griffelib distro`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import recollect
from recollect import Filter, SearchOptions
from recollect.capture.agents.openai_agents import RecollectSession

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.memory import Session, SessionSettings


class ScriptedModel(Model):
    """Returns the given outputs, one after the other."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = list(outputs)
        self.inputs: list[Any] = []

    async def get_response(
        self, system_instructions: str | None, input: Any, *rest: Any, **more: Any
    ) -> ModelResponse:
        self.inputs.append(input)
        return ModelResponse([self.outputs.pop(0)], Usage(), None)

    def stream_response(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError


def answer(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"m-{text[:8]}", type="message", role="assistant", status="completed", content=[part]
    )


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def test_a_session_stores_the_run_of_an_agent(library: recollect.Library) -> None:
    call = ResponseFunctionToolCall(
        type="function_call", call_id="c1", name="weather", arguments='{"city": "Kyoto"}'
    )
    model = ScriptedModel(call, answer("Take an umbrella."), answer("Tomorrow it is dry."))
    agent = Agent(name="helper", model=model, tools=[weather])
    session = RecollectSession("trip", library)
    assert isinstance(session, Session)
    quiet = RunConfig(tracing_disabled=True)
    first = asyncio.run(
        Runner.run(agent, "How is the weather in Kyoto?", session=session, run_config=quiet)
    )
    asyncio.run(
        Runner.run(
            agent, "And tomorrow?", session=RecollectSession("trip", library), run_config=quiet
        )
    )
    assert first.final_output == "Take an umbrella."
    texts = [str(item) for item in model.inputs[-1]]
    assert "Kyoto" in texts[0] and "umbrella" in texts[-2] and "tomorrow" in texts[-1]
    items = asyncio.run(session.get_items())
    assert [i.get("type", "message") for i in items] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
        "message",
    ]
    (conversation,) = library.conversation_page(Filter.of(sources=["openai-agents"]))[0]
    assert (conversation.title, conversation.id) == (
        "How is the weather in Kyoto?",
        session.conversation_id,
    )
    stored = library.conversation(conversation.id)
    assert [(p.role, p.type, p.tool) for p in stored.canonical] == [
        ("user", "message", None),
        ("assistant", "tool_call", "weather"),
        ("tool", "tool_result", None),
        ("assistant", "message", None),
        ("user", "message", None),
        ("assistant", "message", None),
    ]
    for word in ("umbrella", "rain"):
        hit = library.search(word, options=SearchOptions(mode="text")).hits[0]
        assert hit.conversation_id == conversation.id


def test_session_settings_limit_the_number_of_items(library: recollect.Library) -> None:
    items: list[Any] = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    asyncio.run(RecollectSession("s", library).add_items(items))
    limited = RecollectSession("s", library, session_settings=SessionSettings(limit=2))
    assert asyncio.run(limited.get_items()) == items[-2:]
    assert asyncio.run(limited.get_items(1)) == items[-1:]
