"""Observations by a model: asked with a strict schema, believed only as far as the source carries it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import upstream
from conversations import called, conversation, said, talk
from upstream import StandIn

from recollect.errors import InvalidInput, RecollectError
from recollect.memory.observe import MAKER, observe
from recollect.memory.observe.model import SCHEMA, Budget, ModelObserver, ObserverResult
from recollect.model.documents import Document
from recollect.models.chat import ChatModel


@pytest.fixture
def server() -> Iterator[StandIn]:
    with upstream.running() as stand_in:
        yield stand_in


def chickens() -> Document:
    return talk(
        ("user", "I bought 20 pounds of organic scratch grains for my chickens."),
        ("assistant", "Scratch grains are a treat, so ten percent of the feed is enough."),
        ("user", "My sister Rachel moved to Lisbon in March."),
        ("assistant", "Lisbon is lovely in spring."),
    )


def told(exchange: int = 1, **more: Any) -> dict[str, Any]:
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


def made_of(text: str, document: Document | None = None, **more: Any) -> ObserverResult:
    return ModelObserver(lambda body: text, "wise-1", **more).observe(document or chickens())


def test_a_model_is_asked_with_a_strict_schema_and_its_key(server: StandIn) -> None:
    server.replies.append(upstream.completion(answer(told())))
    chat = ChatModel(server.address, "wise-1", "sk-secret")
    made = ModelObserver(chat, chat.model).observe(chickens())
    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.header("Authorization") == "Bearer sk-secret"
    assert asked.json["response_format"]["json_schema"] == {
        "name": "observations",
        "strict": True,
        "schema": SCHEMA,
    }
    assert "20 pounds of organic" in asked.json["messages"][1]["content"]
    (observation,) = made.observations
    assert made.complete
    assert not made.note
    assert observation.maker == "model:wise-1/1"
    assert observation.facts == ("Bought 20 pounds of organic scratch grains",)
    assert observation.passages == ("p0", "p1")
    assert observation.lines == observe(chickens())[0].lines


@pytest.mark.parametrize(
    "facts",
    [
        ["Bought 30 pounds of organic scratch grains"],
        ["The chickens live in a palace near Madrid with a butler"],
        [],
    ],
)
def test_facts_that_the_source_does_not_carry_are_dropped(facts: list[str]) -> None:
    good = "Bought 20 pounds of organic scratch grains"
    assert made_of(answer(told(facts=[*facts, good]))).observations[0].facts == (good,)
    assert made_of(answer(told(facts=facts))).observations == ()


def test_a_title_of_something_else_drops_the_observation() -> None:
    assert (
        made_of(answer(told(title="Quarterly revenue of Zanzibar mining grew"))).observations == ()
    )


def test_an_exchange_that_was_not_shown_is_not_believed() -> None:
    assert made_of(answer(told(exchange=99))).observations == ()


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "{}",
        json.dumps({"observations": [{"title": "x"}]}),
        json.dumps({"observations": [told(type="poem")]}),
        json.dumps({"observations": [told(facts="one")]}),
        json.dumps({"observations": [told(more=1)]}),
        json.dumps({"observations": [], "more": 1}),
    ],
)
def test_an_answer_of_another_shape_falls_back_to_rules_and_says_so(text: str) -> None:
    made = made_of(text)
    assert list(made.observations) == observe(chickens())
    assert {o.maker for o in made.observations} == {MAKER}
    assert not made.complete
    assert made.note.startswith("The model could not be used, so rules observed: its answer is ")


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
def test_a_server_that_fails_falls_back_to_rules_without_showing_the_key(
    server: StandIn, reply: upstream.Reply
) -> None:
    server.replies.append(reply)
    chat = ChatModel(server.address, "wise-1", "sk-secret")
    made = ModelObserver(chat, chat.model).observe(chickens())
    assert list(made.observations) == observe(chickens())
    assert not made.complete
    assert made.note
    assert "sk-secret" not in made.note


def test_the_cost_of_a_conversation_is_bounded() -> None:
    long = talk(
        *(
            pair
            for n in range(40)
            for pair in (("user", f"I own {n} red boats. " * 100), ("assistant", "Fine."))
        )
    )
    sent: list[int] = []

    def ask(body: dict[str, Any]) -> str:
        sent.append(sum(len(message["content"]) for message in body["messages"]))
        return answer()

    made = ModelObserver(ask, "wise-1", each_conversation=30_000).observe(long)
    assert sent
    assert sum(sent) <= 30_000
    assert made.complete
    assert "longer" in made.note
    assert {o.maker for o in made.observations} == {MAKER}


def test_the_cost_of_a_day_is_bounded_also_after_a_restart(tmp_path: Path) -> None:
    monday, tuesday = date(2026, 3, 2), date(2026, 3, 3)
    assert Budget(tmp_path / "spent.json", 100).spend(80, monday)
    again = Budget(tmp_path / "spent.json", 100)
    assert not again.spend(30, monday)
    assert again.spend(20, monday)
    assert again.spend(100, tuesday)
    made = made_of(answer(), budget=Budget(None, 10))
    assert not made.complete
    assert list(made.observations) == observe(chickens())


def test_a_damaged_account_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "spent.json").write_text("[", encoding="utf-8")
    assert Budget(tmp_path / "spent.json", 100).spend(100)


def test_nothing_hidden_or_for_people_alone_is_sent() -> None:
    sent: list[str] = []

    def ask(body: dict[str, Any]) -> str:
        sent.append(json.dumps(body))
        return answer()

    document = conversation(
        said("system", "Zanzibar one", type="context", visibility="hidden"),
        said("user", "Zanzibar two", visibility="human_only"),
        said("user", "I like Zinfandel from Lodi."),
        said("assistant", "Zanzibar three, thought about", type="thinking"),
        *called("Bash", "command: ls", "a" * 5_000),
    )
    ModelObserver(ask, "wise-1").observe(document)
    assert "Zinfandel" in sent[0]
    assert "Zanzibar" not in sent[0]
    assert "a" * 400 not in sent[0]


def test_files_are_those_of_the_structure() -> None:
    document = conversation(
        said("user", "Put the price into cart.py"),
        *called("Edit", "file_path: cart.py\nold_string: a\nnew_string: b"),
    )
    text = answer(told(title="Put the price into cart.py", facts=["Put the price into cart.py"]))
    assert made_of(text, document).observations[0].files_modified == ("cart.py",)


def test_what_the_settings_name_is_asked(monkeypatch: pytest.MonkeyPatch, server: StandIn) -> None:
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
