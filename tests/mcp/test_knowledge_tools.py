"""The `knowledge` toolset: one search over everything, sessions, and reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tool_calls import MASK, Caller, MakeCaller, new_session
from websockets.sync.client import connect
from wire import TIMEOUT, Web, call

from recollect import Library

KEYS = set(
    "conversation_id created_at id last_modified loc media_type message_id score score_type sender "
    "snippet source tags title uri url version".split()
)
TOOLSETS = ("knowledge", "sources")
LONG = " ".join(f"Sentence number {n} speaks of gardens and rain." for n in range(400))


@pytest.fixture
def items(library: Library) -> dict[str, str]:
    """One item of each source about a quagga: their ids by source."""
    ids = {
        "notes": library.knowledge.create(
            "notes",
            {
                "title": "Stables",
                "content": "The quagga sleeps in the stable.",
                "keywords": ["zoo", "animals"],
            },
        ).id,
        "media": library.knowledge.create(
            "media",
            {
                "title": "Talk",
                "media_type": "video",
                "url": "https://v.example/1",
                "transcript": "1\n00:00:01,000 --> 00:00:04,000\nThe quagga is extinct.\n\n"
                "2\n00:00:05,000 --> 00:00:09,000\nNobody saw it since.\n",
            },
        ).id,
        "characters": library.knowledge.create(
            "characters",
            {
                "name": "Quentin",
                "description": "A quagga who talks.",
                "tags": ["zoo"],
            },
        ).id,
        "prompts": library.knowledge.create(
            "prompts",
            {
                "name": "Zoologist",
                "system_prompt": "You know every quagga.",
                "user_prompt": "Tell me more.",
            },
        ).id,
        "chats": "c1",
    }
    library.add_conversation(
        "c1",
        "Animals",
        messages=[
            {
                "id": "m0",
                "role": "user",
                "content": "what is a quagga?",
                "created_at": "2025-02-10T14:00:00+00:00",
            },
            {
                "id": "m1",
                "role": "assistant",
                "content": "a kind of zebra",
                "created_at": "2025-02-10T14:01:00+00:00",
            },
        ],
    )
    return ids


def uris(answer: Any) -> list[str]:
    return [result["uri"] for result in answer["results"]]


# -- search ---


def test_one_search_finds_every_source_and_each_result_can_be_read(
    agent: Caller, items: dict[str, str]
) -> None:
    answer = agent.answer("knowledge_search", query="quagga")
    assert answer.keys() >= {"results", "has_more", "next_offset", "total_estimated"}
    assert {result["source"]: str(result["id"]) for result in answer["results"]} == items
    for result in answer["results"]:
        assert result.keys() == KEYS
        assert 0 <= result["score"] <= 1
        assert "quagga" in result["snippet"].lower()
        arguments = {
            "source": result["source"],
            "id": result["id"],
            "retrieval": {"mode": "chunk", "loc": result["loc"]},
        }
        item = agent.answer("knowledge_get", **arguments)
        assert item.keys() >= {"meta", "content", "attachments"}
        assert item["meta"].keys() == KEYS
        assert "quagga" in str(item["content"]).lower()


def test_a_search_takes_sources_filters_and_an_order(agent: Caller, items: dict[str, str]) -> None:
    answer = agent.answer("knowledge_search", query="quagga", sources=["notes", "chats"])
    assert sorted(uri.partition(":")[0] for uri in uris(answer)) == ["chats", "notes"]
    assert len(uris(agent.answer("knowledge_search", query="quagga", sources="notes"))) == 1
    filters = {
        "notes": {"keywords": ["other"]},
        "media": {"media_types": ["pdf"]},
        "prompts": {"fields": ["details"]},
        "chats": {"by": "title"},
    }
    answer = agent.answer("knowledge_search", query="quagga", filters=filters)
    assert [uri.partition(":")[0] for uri in uris(answer)] == ["characters"]
    recent = agent.answer("knowledge_search", query="quagga", order_by="recent")
    times = [result["last_modified"] for result in recent["results"]]
    assert times == sorted(times, reverse=True)


def test_numbers_are_clamped_and_arguments_override_preferences(
    make_caller: MakeCaller, items: dict[str, str]
) -> None:
    agent = make_caller(config={"snippet_length": 12, "order_by": "recent"})
    answer = agent.answer("knowledge_search", query="quagga", limit=10**9, offset=-3)
    assert all(len(result["snippet"]) <= 12 for result in answer["results"])
    longer = {"snippet_length": 100, "sources": ["notes"]}
    (result,) = agent.answer("knowledge_search", query="quagga", **longer)["results"]
    assert result["snippet"] == "The quagga sleeps in the stable."
    assert len(agent.answer("knowledge_search", query="quagga", limit="1")["results"]) == 1


def test_compact_results_have_the_shape_of_deep_research(
    make_caller: MakeCaller, items: dict[str, str]
) -> None:
    agent = make_caller(base_url="https://r.example/")
    for result in agent.answer("knowledge_search", query="quagga", shape="compact")["results"]:
        assert result.keys() == {"id", "title", "text", "url", "metadata"}
        source = result["metadata"]["source"]
        assert result["id"].startswith(f"{source}://")
        url = f"https://r.example/knowledge/{source}/"
        if source == "chats":
            url = "https://r.example/c/c1?m=m0"
        assert result["url"].startswith(url)
        assert "quagga" in result["text"].lower()
        item = agent.answer(
            "knowledge_get", id=result["id"], source=source, retrieval={"mode": "full"}
        )
        assert "quagga" in str(item["content"]).lower()
        assert agent.answer("knowledge_get", id=result["id"])["meta"]["source"] == source
    (media,) = make_caller().answer(
        "knowledge_search", query="quagga", shape="compact", sources=["media"]
    )["results"]
    assert media["url"] == "https://v.example/1"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "query must not be empty"),
        ({"query": " "}, "query must not be empty"),
        ({"query": 5}, "query: expected a string"),
        ({"query": "x" * 1_001}, "1 to 1000 characters"),
        (
            {"query": "x", "sources": ["books"]},
            "'books' is not one of notes, media, chats, characters, prompts",
        ),
        ({"query": "x", "sources": [7]}, "sources: expected a list"),
        (
            {"query": "x", "order_by": "oldest"},
            "order_by: 'oldest' is not one of relevance, recent",
        ),
        ({"query": "x", "limit": "many"}, "limit: expected a number"),
        ({"query": "x", "snippet_length": "long"}, "snippet_length: expected a number"),
        ({"query": "x", "filters": []}, "filters: expected an object"),
        ({"query": "x", "filters": {"books": {}}}, "'books'"),
        ({"query": "x", "filters": {"notes": {"user": "bob"}}}, "'user'"),
        ({"query": "x", "filters": {"media": {"date_from": "soon"}}}, "date_from"),
        ({"query": "x", "shape": "round"}, "shape"),
        ({"query": "x", "correct": "no"}, "correct: expected true or false"),
        ({"query": "x", "user_id": "bob"}, "Unknown argument: 'user_id'"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_invalid_search_arguments_are_named_in_the_error(
    agent: Caller, library: Library, arguments: dict[str, Any], reason: str
) -> None:
    error = agent.error("knowledge_search", **arguments)["error"]
    assert error.startswith("Invalid arguments for knowledge_search: ")
    assert reason in error


# -- sessions ---


def test_a_session_skips_seen_results_until_nothing_else_is_left(
    make_caller: MakeCaller, items: dict[str, str]
) -> None:
    agent = make_caller(session=new_session())
    first = uris(agent.answer("knowledge_search", query="quagga", limit=3))
    second = uris(agent.answer("knowledge_search", query="quagga", limit=3))
    assert (len(first), len(second)) == (3, 2)
    assert not set(first) & set(second)
    assert uris(agent.answer("knowledge_search", query="quagga", limit=3)) == first
    assert len(uris(agent.answer("notes_search", query="quagga"))) == 1
    assert len(uris(agent.answer("notes_search", query="quagga"))) == 1


def test_without_a_session_no_result_is_skipped(agent: Caller, items: dict[str, str]) -> None:
    first, second, third = (
        uris(agent.answer("knowledge_search", query="quagga")) for _ in range(3)
    )
    assert first == second == third


def test_reading_without_a_location_uses_the_latest_query(
    make_caller: MakeCaller, library: Library
) -> None:
    id_ = library.knowledge.create(
        "notes", {"title": "Long", "content": LONG + " Here is the quagga. " + LONG}
    ).id
    agent = make_caller(session=new_session())
    assert "quagga" not in agent.answer("knowledge_get", source="notes", id=id_)["content"]
    agent.answer("knowledge_search", query="quagga")
    assert "quagga" in agent.answer("knowledge_get", source="notes", id=id_)["content"]
    chunk = agent.answer("notes_get", note_id=id_, retrieval={"mode": "chunk"})
    assert "quagga" in chunk["content"]
    first_chunk = agent.answer(
        "knowledge_get", source="notes", id=id_, retrieval={"loc": {"chunk_index": 0}}
    )
    assert "quagga" not in first_chunk["content"]


def test_sessions_remember_over_http_and_websocket(web_on_each_store: Web) -> None:
    ann = web_on_each_store.new_user()
    for n in range(3):
        web_on_each_store.remember(ann.user, f"quagga {n}")
    request = call("knowledge.search", query="quagga", limit=2)

    def result_uris(answer: Any) -> set[str]:
        return set(uris(answer["result"]["structuredContent"]))

    ann.start_session()
    first, second = (result_uris(ann.post(request).json()) for _ in range(2))
    assert (len(first), len(second), first & second) == (2, 1, set())
    address = ann.address.replace("http", "ws") + "/mcp/ws"
    with connect(address, additional_headers={"Authorization": f"Bearer {ann.key}"}) as connection:
        pages = []
        for _ in range(2):
            connection.send(json.dumps(request))
            pages.append(result_uris(json.loads(connection.recv(TIMEOUT))))
    assert (len(pages[0]), len(pages[1]), pages[0] & pages[1]) == (2, 1, set())


# -- reading ---


def items_of_every_source(library: Library) -> list[tuple[str, str]]:
    """Long items whose JSON has many escapes. They mention a quagga in the middle."""
    text = 'He said: "No\tsuch\nthing."\n' * 200
    text = f"{text}A quagga! {text}"
    knowledge = library.knowledge
    messages = [{"role": "user", "content": f'"{n}"\nquagga'} for n in range(120)]
    library.add_conversation("short", "Short messages", messages=messages)
    library.add_conversation("long", "One message", messages=[{"role": "user", "content": text}])
    media = {"title": "Paper", "media_type": "pdf", "content": text}
    return [
        ("notes", knowledge.create("notes", {"title": "Note", "content": text}).id),
        ("media", knowledge.create("media", media).id),
        ("characters", knowledge.create("characters", {"name": "Q", "description": text}).id),
        ("prompts", knowledge.create("prompts", {"name": "P", "user_prompt": text}).id),
        ("chats", "short"),
        ("chats", "long"),
    ]


@pytest.mark.full
@pytest.mark.parametrize(
    "mode",
    [
        "snippet",
        "full",
        *(pytest.param(m, marks=pytest.mark.full) for m in ("chunk", "chunk_with_siblings")),
    ],
)
def test_the_budget_covers_the_whole_answer(agent: Caller, library: Library, mode: str) -> None:
    for source, id_ in items_of_every_source(library):
        for budget in (1, 15, 120, 180, 200, 250, 400, 1_500, 6_000):
            retrieval = {"mode": mode, "max_tokens": budget, "query": "quagga"}
            call = {"source": source, "id": id_, "retrieval": retrieval}
            text = agent.call("knowledge_get", call)["content"][0]["text"]
            item = json.loads(text)
            assert len(text) <= 4 * budget or budget < 250, (source, budget)
            assert len(item["content"]) <= 4 * budget
            assert len(item["content"]) >= min(10, budget), (source, budget)
            if mode != "snippet":
                assert item["meta"]["snippet"] is None, "the text is returned once"
            if mode != "full" and budget > 1:
                assert "quagga" in item["content"].lower(), (source, budget)
            if mode in ("chunk_with_siblings", "full") and budget == 1_500:
                assert len(text) > 3 * budget, (source, budget)


def test_a_long_item_is_read_in_parts(agent: Caller, library: Library) -> None:
    id_ = library.knowledge.create("notes", {"title": "Long", "content": LONG}).id
    text, offset = "", 0
    while offset is not None:
        retrieval = {"mode": "full", "max_tokens": 1_000, "offset": offset}
        part = agent.answer("knowledge_get", source="notes", id=id_, retrieval=retrieval)
        text += part["content"]
        offset = part["page"]["next_offset"]
    assert text == LONG


# -- stored text is data ---


def test_human_only_messages_are_masked_or_hidden(
    make_caller: MakeCaller, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add_conversation(
        "c1",
        "Talk",
        messages=[
            {"id": "m0", "role": "user", "content": "an apple"},
            {"id": "m1", "role": "user", "content": "a quagga apple", "visibility": "human_only"},
        ],
    )
    agent, person = make_caller(), make_caller(agent=False)
    loc = {"message_id": "m1"}
    location = {"source": "chats", "id": "c1", "retrieval": {"mode": "chunk", "loc": loc}}
    (result,) = person.answer("knowledge_search", query="quagga")["results"]
    assert result["snippet"] == "a quagga apple"
    assert "quagga" in person.answer("knowledge_get", **location)["content"]
    (result,) = agent.answer("knowledge_search", query="quagga")["results"]
    assert result["snippet"] == MASK
    assert MASK in agent.answer("knowledge_get", **location)["content"]
    assert "quagga" not in json.dumps(agent.answer("chats_get", conversation_id="c1"))
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    assert agent.answer("knowledge_search", query="quagga")["results"] == []
    for answer in (
        agent.answer("knowledge_get", **location),
        agent.answer("chats_get", conversation_id="c1"),
    ):
        assert "quagga" not in json.dumps(answer) and MASK not in json.dumps(answer)
