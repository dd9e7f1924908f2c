"""Sessions of agent frameworks stored in a library: real frameworks, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models.test import TestModel

import recollect
from recollect import Filter, SearchOptions
from recollect.capture.agents.langchain import RecollectChatMessageHistory
from recollect.capture.agents.openai_agents import RecollectSession
from recollect.capture.agents.pydantic_ai import RecollectHistory

PERSON = {"role": "user", "content": "What is the weather in Kyoto?"}
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "weather",
    "arguments": '{"city": "Kyoto"}',
    "id": "fc_1",
}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "rain, 12 degrees"}
ANSWER = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It rains.", "annotations": []}],
}
THOUGHT = {
    "type": "reasoning",
    "id": "r1",
    "summary": [{"type": "summary_text", "text": "look it up"}],
}
PICTURE = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "and this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ],
}
ITEMS = [
    {"role": "developer", "content": "Be brief."},
    PERSON,
    THOUGHT,
    CALL,
    RESULT,
    ANSWER,
    PICTURE,
]


def ids(library: recollect.Library, words: str) -> list[str]:
    return [
        hit.conversation_id
        for hit in library.search(words, options=SearchOptions(mode="text")).hits
    ]


# -- OpenAI Agents SDK -----------------------------------------------------------------


def test_items_are_restored_exactly(library: recollect.Library) -> None:
    session = RecollectSession("s", library, project="work")
    assert session.conversation_id is None
    assert asyncio.run(session.get_items()) == [] and asyncio.run(session.pop_item()) is None
    asyncio.run(session.add_items([]))
    assert library.conversation_page(Filter.of(sources=["openai-agents"]))[1] == 0
    asyncio.run(session.add_items(ITEMS[:2]))  # type: ignore[arg-type]
    asyncio.run(session.add_items(ITEMS[2:]))  # type: ignore[arg-type]
    assert asyncio.run(RecollectSession("s", library).get_items()) == ITEMS
    assert asyncio.run(session.get_items(3)) == ITEMS[-3:]
    assert asyncio.run(session.get_items(0)) == [] and asyncio.run(session.get_items(99)) == ITEMS
    assert asyncio.run(RecollectSession("another", library).get_items()) == []
    (summary,) = library.conversation_page(Filter.of(projects=["work"]))[0]
    kinds = [(p.type, p.content) for p in library.conversation(summary.id).passages]
    assert kinds[2:6] == [
        ("thinking", "look it up"),
        ("tool_call", "weather\ncity: Kyoto"),
        ("tool_result", "rain, 12 degrees"),
        ("message", "It rains."),
    ]
    assert library.conversation(summary.id).passages[0].visibility == "hidden"


def test_pop_removes_the_last_item_from_the_library(library: recollect.Library) -> None:
    session = RecollectSession("s", library)
    asyncio.run(session.add_items(ITEMS))  # type: ignore[arg-type]
    for item in reversed(ITEMS):
        assert asyncio.run(session.pop_item()) == item
    assert asyncio.run(session.pop_item()) is None
    assert ids(library, "rains") == []
    asyncio.run(session.add_items([PERSON]))  # type: ignore[list-item]
    assert asyncio.run(session.get_items()) == [PERSON]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_cleared_session_is_in_no_file(library: recollect.Library, place: str) -> None:
    session = RecollectSession("s", library)
    asyncio.run(session.add_items([{"role": "user", "content": "quixotic zugzwang"}]))
    asyncio.run(session.clear_session())
    asyncio.run(session.clear_session())
    assert asyncio.run(session.get_items()) == [] and session.conversation_id is None
    for file in Path(place).rglob("*"):
        assert not file.is_file() or b"quixotic" not in file.read_bytes()


# -- LangChain ------------------------------------------------------------------------

MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("What is the weather in Kyoto?", name="Ann"),
    AIMessage(
        "",
        tool_calls=[
            {"name": "weather", "args": {"city": "Kyoto"}, "id": "c1", "type": "tool_call"}
        ],
        id="run-1",
        response_metadata={"model_name": "fake-1"},
    ),
    ToolMessage("rain, 12 degrees", tool_call_id="c1", name="weather", artifact={"raw": [1, 2]}),
    AIMessage(
        [{"type": "text", "text": "It rains."}, {"type": "text", "text": "Take an umbrella."}],
        id="run-2",
    ),
]


def test_langchain_messages_are_restored_exactly(library: recollect.Library) -> None:
    history = RecollectChatMessageHistory("s", library, project="work")
    assert isinstance(history, BaseChatMessageHistory) and history.messages == []
    history.add_messages(MESSAGES[:2])
    asyncio.run(history.aadd_messages(MESSAGES[2:]))
    again = RecollectChatMessageHistory("s", library)
    assert again.messages == MESSAGES == asyncio.run(again.aget_messages())
    assert "It rains." in str(again)
    stored = library.conversation(history.conversation_id or "")
    assert stored.title == "What is the weather in Kyoto?" and stored.project == "work"
    assert [(p.role, p.type, p.tool, p.model) for p in stored.passages][1:] == [
        ("user", "message", None, None),
        ("assistant", "tool_call", "weather", "fake-1"),
        ("tool", "tool_result", "weather", None),
        ("assistant", "message", None, None),
    ]
    assert ids(library, "umbrella") == [stored.id]


def test_a_langchain_message_with_an_id_is_stored_once(library: recollect.Library) -> None:
    history = RecollectChatMessageHistory("s", library)
    for _ in range(2):
        history.add_messages([MESSAGES[2], MESSAGES[4]])
    assert history.messages == [MESSAGES[2], MESSAGES[4]]
    changed = AIMessage("Something else.", id="run-2")
    history.add_message(changed)
    assert history.messages == [MESSAGES[2], MESSAGES[4], changed]
    history.add_user_message("hello")
    history.add_user_message("hello")
    assert [m.content for m in history.messages[-2:]] == ["hello", "hello"]


# -- pydantic-ai ----------------------------------------------------------------------


def assistant() -> PydanticAgent[None, str]:
    agent = PydanticAgent(
        TestModel(custom_output_text="It rains in Kyoto."),
        instructions="Be brief.",
        system_prompt="You know the weather.",
    )

    @agent.tool_plain
    def weather(city: str) -> dict[str, Any]:
        """The weather of a city."""
        return {"city": city, "degrees": 12}

    return agent


def test_a_pydantic_ai_history_continues(library: recollect.Library) -> None:
    agent = assistant()
    history = RecollectHistory("s", library)
    assert history.messages == []
    result = asyncio.run(agent.run("How is the weather?", message_history=history.messages))
    assert history.save(result) == len(result.all_messages()) == 4
    assert history.messages == result.all_messages()
    assert history.save(result) == 0
    again = RecollectHistory("s", library)
    more = asyncio.run(agent.run("And tomorrow?", message_history=again.messages))
    assert more.all_messages()[:4] == result.all_messages()
    assert again.save(more) == len(more.new_messages())
    assert again.messages == more.all_messages()
    stored = library.conversation(again.conversation_id or "")
    assert stored.title == "How is the weather?"
    assert [(p.role, p.type, p.tool) for p in stored.passages][:4] == [
        ("user", "message", None),
        ("assistant", "tool_call", "weather"),
        ("tool", "tool_result", "weather"),
        ("assistant", "message", None),
    ]
    assert stored.passages[0].content == "How is the weather?"
    assert ids(library, "degrees") == [stored.id]


def test_a_rewritten_pydantic_ai_history_replaces_the_old_one(
    library: recollect.Library,
) -> None:
    history = RecollectHistory("s", library)
    requests: Sequence[ModelMessage] = [
        ModelRequest([UserPromptPart(text)]) for text in ("one", "two", "three")
    ]
    assert history.save(requests) == 3
    assert history.save([requests[0], requests[2]]) == 1
    assert history.messages == [requests[0], requests[2]]
    assert history.save(requests[:1]) == 0
    assert asyncio.run(history.aload()) == [requests[0]]
    assert asyncio.run(history.asave(requests)) == 2
    library.add_message(history.conversation_id or "", "assistant", "by hand")
    assert history.messages[-1].parts[0].content == "by hand"  # type: ignore[union-attr]
    history.clear()
    assert history.messages == [] and history.conversation_id is None


def test_a_history_with_secrets_is_saved_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_REDACT", "on")
    with recollect.open(place) as library:
        requests = [
            ModelRequest([UserPromptPart('my password = "correct-horse"')]),
            ModelRequest([UserPromptPart("so?")]),
        ]
        history = RecollectHistory("s", library)
        assert [history.save(requests), history.save(requests)] == [2, 0]
        content = history.messages[0].parts[0].content  # type: ignore[union-attr]
        assert content == 'my password = "[redacted:password]"'
        chat = RecollectChatMessageHistory("s", library)
        for _ in range(2):
            chat.add_message(HumanMessage('my password = "correct-horse"', id="h"))
        assert len(chat.messages) == 1
