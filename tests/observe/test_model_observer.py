"""Observations by a model: the request has a strict schema, and unsupported claims are dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import upstream
from conversations import conversation, exchange, message, tool_call
from upstream import StandIn

from recollect import Document
from recollect.errors import InvalidInput, RecollectError
from recollect.memory.observe import MAKER, observe
from recollect.memory.observe.model import SCHEMA, ModelObserver, ObserverResult
from recollect.models.openai_client import ChatModel


@pytest.fixture
def server() -> Iterator[StandIn]:
    with upstream.running() as stand_in:
        yield stand_in


def chickens() -> Document:
    return exchange(
        ("user", "I bought 20 pounds of organic scratch grains for my chickens."),
        ("assistant", "Scratch grains are a treat, so ten percent of the feed is enough."),
        ("user", "My sister Rachel moved to Lisbon in March."),
        ("assistant", "Lisbon is lovely in spring."),
    )


def raw_observation(exchange: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "exchange": exchange,
        "type": "discovery",
        "title": "Bought scratch grains for the chickens",
        "subtitle": "Ten percent of the feed is enough.",
        "narrative": "The person bought 20 pounds of organic scratch grains.",
        "facts": ["Bought 20 pounds of organic scratch grains"],
        "concepts": ["scratch grains"],
        **more,
    }


def answer(*observations: dict[str, Any]) -> str:
    return json.dumps({"observations": observations})


def observe_with(text: str, document: Document | None = None, **more: Any) -> ObserverResult:
    return ModelObserver(lambda body: text, "wise-1", **more).observe(document or chickens())


def test_the_request_has_a_strict_schema_and_the_api_key(server: StandIn) -> None:
    server.replies.append(upstream.completion(answer(raw_observation())))
    chat = ChatModel(server.address, "wise-1", "sk-secret")
    result = ModelObserver(chat, chat.model).observe(chickens())
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.header("Authorization") == "Bearer sk-secret"
    assert request.json["response_format"]["json_schema"] == {
        "name": "observations",
        "strict": True,
        "schema": SCHEMA,
    }
    assert "20 pounds of organic" in request.json["messages"][1]["content"]
    (first,) = result.observations
    assert result.complete
    assert not result.note
    assert first.maker == "model:wise-1/3"
    assert first.facts == ("Bought 20 pounds of organic scratch grains",)
    assert first.passages == ("p0", "p1")
    assert first.lines == observe(chickens())[0].lines


@pytest.mark.parametrize(
    "facts",
    [
        ["Bought 30 pounds of organic scratch grains"],
        ["The chickens live in a palace near Madrid with a butler"],
        [],
    ],
)
def test_facts_not_supported_by_the_source_are_dropped(facts: list[str]) -> None:
    good = "Bought 20 pounds of organic scratch grains"
    assert observe_with(answer(raw_observation(facts=[*facts, good]))).observations[0].facts == (
        good,
    )
    assert observe_with(answer(raw_observation(facts=facts))).observations == ()


def test_an_observation_with_an_unrelated_title_is_dropped() -> None:
    unrelated = raw_observation(title="Quarterly revenue of Zanzibar mining grew")
    assert observe_with(answer(unrelated)).observations == ()


def test_an_observation_of_an_unknown_exchange_is_dropped() -> None:
    assert observe_with(answer(raw_observation(exchange=99))).observations == ()


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "{}",
        json.dumps({"observations": [{"title": "x"}]}),
        json.dumps({"observations": [raw_observation(type="poem")]}),
        json.dumps({"observations": [raw_observation(facts="one")]}),
        json.dumps({"observations": [raw_observation(more=1)]}),
        json.dumps({"observations": [], "more": 1}),
    ],
)
def test_an_answer_that_violates_the_schema_falls_back_to_rules_with_a_note(text: str) -> None:
    result = observe_with(text)
    assert list(result.observations) == observe(chickens())
    assert {o.maker for o in result.observations} == {MAKER}
    assert not result.complete
    assert result.note.startswith("The model could not be used, so rules observed: its answer is ")


@pytest.mark.parametrize(
    "reply",
    [
        upstream.plain({"error": {"message": "no such model for sk-secret"}}, 404),
        upstream.plain({"choices": []}),
        upstream.completion("{}", refusal="No."),
        upstream.Reply(silent=True),
        upstream.Reply(302, {"Location": "http://127.0.0.1:1/"}),
    ],
)
def test_a_failing_server_falls_back_to_rules_without_revealing_the_key(
    server: StandIn, reply: upstream.Reply
) -> None:
    server.replies.append(reply)
    chat = ChatModel(server.address, "wise-1", "sk-secret")
    result = ModelObserver(chat, chat.model).observe(chickens())
    assert list(result.observations) == observe(chickens())
    assert not result.complete
    assert result.note
    assert "sk-secret" not in result.note


def test_the_cost_of_a_conversation_is_bounded() -> None:
    messages: list[tuple[str, str]] = []
    for n in range(40):
        messages += [("user", f"I own {n} red boats. " * 100), ("assistant", "Fine.")]
    long = exchange(*messages)
    sent: list[int] = []

    def ask(body: dict[str, Any]) -> str:
        sent.append(sum(len(message["content"]) for message in body["messages"]))
        return answer()

    result = ModelObserver(ask, "wise-1", each_conversation=30_000).observe(long)
    assert sent
    assert sum(sent) <= 30_000
    assert result.complete
    assert "longer" in result.note
    assert {o.maker for o in result.observations} == {MAKER}


def test_rules_observe_what_the_budget_of_the_day_does_not_allow() -> None:
    result = observe_with(answer(), spend=lambda characters: False)
    assert not result.complete
    assert list(result.observations) == observe(chickens())


def test_hidden_and_human_only_messages_are_not_sent() -> None:
    sent: list[str] = []

    def ask(body: dict[str, Any]) -> str:
        sent.append(json.dumps(body))
        return answer()

    document = conversation(
        message("system", "Zanzibar one", type="context", visibility="hidden"),
        message("user", "Zanzibar two", visibility="human_only"),
        message("user", "I like Zinfandel from Lodi."),
        message("assistant", "Zanzibar three, thought about", type="thinking"),
        *tool_call("Bash", "command: ls", "a" * 5_000),
    )
    ModelObserver(ask, "wise-1").observe(document)
    assert "Zinfandel" in sent[0]
    assert "Zanzibar" not in sent[0]
    assert "a" * 400 not in sent[0]


def test_files_come_from_the_tool_calls() -> None:
    document = conversation(
        message("user", "Put the price into cart.py"),
        *tool_call("Edit", "file_path: cart.py\nold_string: a\nnew_string: b"),
    )
    text = answer(
        raw_observation(title="Put the price into cart.py", facts=["Put the price into cart.py"])
    )
    assert observe_with(text, document).observations[0].files_modified == ("cart.py",)


def test_the_settings_choose_the_model(monkeypatch: pytest.MonkeyPatch, server: StandIn) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL", raising=False)
    assert ChatModel.from_settings() is None
    monkeypatch.setenv("RECOLLECT_MODEL", server.address)
    with pytest.raises(InvalidInput, match="must name the model"):
        ChatModel.from_settings()
    monkeypatch.setenv("RECOLLECT_MODEL", f"{server.address}#wise-1")
    chat = ChatModel.from_settings()
    assert chat is not None
    assert chat({"messages": [{"role": "user", "content": "that"}]}) == "Answer 1 to that"
    server.replies.append(upstream.plain({}))
    with pytest.raises(RecollectError, match="did not return a complete answer"):
        chat({"messages": []})
