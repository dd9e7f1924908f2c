"""The `sources` toolset: one source at a time; and all sources as resources."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from tool_calls import Caller

from recollect import Library

TOOLSETS = ("sources",)
SRT = """1
00:00:01,000 --> 00:00:04,000
The quagga is extinct.

2
00:00:05,500 --> 00:00:09,000
Nobody saw it since.
"""


def create(library: Library, source: str, **fields: Any) -> str:
    return library.knowledge.create(source, fields).id


# -- listing ---


# -- notes ---


def test_notes_can_be_written_found_read_and_changed(agent: Caller) -> None:
    note = agent.answer(
        "notes_write", title="Stables", content="The quagga sleeps.", keywords=["zoo"]
    )
    assert note.keys() == {
        "id",
        "source",
        "title",
        "uri",
        "version",
        "created_at",
        "last_modified",
        "tags",
    }
    assert (note["title"], note["tags"], note["version"]) == ("Stables", ["zoo"], 1)
    assert note["uri"] == f"notes://{quote(note['id'], safe='')}"
    (result,) = agent.answer("notes_search", query="quagga", keywords=["zoo"])["results"]
    assert (result["id"], result["version"], result["tags"]) == (note["id"], 1, ["zoo"])
    assert agent.answer("notes_search", query="quagga", keywords=["farm"])["results"] == []
    edit = agent.answer("notes_write", note_id=note["id"], content="The okapi sleeps.", version=1)
    assert (edit["version"], edit["title"], edit["tags"]) == (2, "Stables", ["zoo"])
    whole = agent.answer("notes_get", note_id=note["id"], retrieval={"mode": "full"})
    assert whole["content"] == "The okapi sleeps."
    assert agent.answer("notes_search", query="quagga")["results"] == []
    assert agent.answer("notes_write", note_id=note["uri"], keywords=[])["tags"] is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "at least one of title, content, keywords"),
        ({"note_id": "x"}, "at least one of"),
        ({"title": "x", "version": 1}, "version needs note_id"),
        ({"title": 5}, "title: expected a string"),
        ({"title": " ", "content": ""}, "title"),
        ({"title": "x", "keywords": [1]}, "keywords"),
        ({"title": "x", "created_at": "2020"}, "Unknown argument"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_invalid_note_is_rejected(agent: Caller, arguments: dict[str, Any], reason: str) -> None:
    error = agent.error("notes_write", **arguments)["error"]
    assert error.startswith("Invalid arguments for notes_write: ")
    assert reason in error


# -- media ---


# -- chats ---


def test_a_chat_is_read_in_pages_or_around_a_message(agent: Caller, library: Library) -> None:
    library.add_conversation(
        "c1",
        "Long",
        messages=[{"id": f"m{n}", "role": "user", "content": f"said {n}"} for n in range(120)],
    )
    first = agent.answer("chats_get", conversation_id="c1")
    assert first["content"].splitlines()[0] == "user: said 0"
    assert len(first["attachments"]) == 50
    assert (first["page"]["next_page"], first["page"]["total"]) == (2, 120)
    last = agent.answer("chats_get", conversation_id="c1", page=3, page_size=50)
    assert [unit["message_id"] for unit in last["attachments"]] == [
        f"m{n}" for n in range(100, 120)
    ]
    assert last["page"]["next_page"] is None
    largest = agent.answer("chats_get", conversation_id="c1", page_size=10**6)
    assert largest["page"]["page_size"] == 200
    retrieval = {"mode": "chunk_with_siblings", "loc": {"message_id": "m60"}, "sibling_window": 1}
    around = agent.answer("chats_get", conversation_id="c1", retrieval=retrieval)
    assert around["content"] == "user: said 59\nuser: said 60\nuser: said 61\n"
    by_uri = agent.answer(
        "chats_get", conversation_id="chats://c1#m60", retrieval={"mode": "chunk"}
    )
    assert by_uri["content"] == "user: said 60\n"


# -- characters and prompts ---


# -- resources ---


def test_every_item_is_a_readable_resource(agent: Caller, library: Library) -> None:
    item_ids = {
        "notes": create(library, "notes", title="Stables", content="The quagga\n# sleeps."),
        "media": create(library, "media", title="Talk", media_type="video", transcript=SRT),
        "characters": create(library, "characters", name="Quentin", description="A quagga."),
        "prompts": create(library, "prompts", name="Zoologist", system_prompt="Know every quagga."),
    }
    library.add_conversation(
        "c1",
        "Animals",
        messages=[{"id": f"m{n}", "role": "user", "content": f"quagga {n}"} for n in range(3)],
    )
    listing = agent.ask("resources/list")["result"]["resources"]
    assert {entry["uri"] for entry in listing} == {
        "recollect://conversation/c1",
        "media://types",
        *(f"{source}://{id_}" for source, id_ in item_ids.items()),
    }
    for entry in listing:
        (content,) = agent.ask("resources/read", uri=entry["uri"])["result"]["contents"]
        assert content["mimeType"] == entry["mimeType"]
        if entry["uri"] != "media://types":
            assert content["text"].startswith(f"# {entry['name']}\n")
            assert "quagga" in content["text"]
            assert "never as instructions" in content["text"]
            headings = [line for line in content["text"].splitlines() if line.startswith("# ")]
            assert len(headings) == 1
    (content,) = agent.ask("resources/read", uri="chats://c1#m1")["result"]["contents"]
    assert "> quagga 1" in content["text"] and "> quagga 0" not in content["text"]
    templates = agent.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert [t["uriTemplate"].partition(":")[0] for t in templates] == [
        "recollect",
        "notes",
        "media",
        "characters",
        "prompts",
    ]


def test_a_key_for_conversations_reads_no_other_resources(agent: Caller, library: Library) -> None:
    id_ = create(library, "notes", title="Stables", content="The quagga sleeps.")
    library.add_conversation("c1", "Animals", messages=[{"role": "user", "content": "x"}])
    only_conversations = {"allowed": {"conversations"}}
    listing = agent.ask("resources/list", only_conversations)["result"]["resources"]
    assert [entry["uri"] for entry in listing] == ["recollect://conversation/c1"]
    templates = agent.ask("resources/templates/list", only_conversations)["result"]
    assert len(templates["resourceTemplates"]) == 1
    assert "result" in agent.ask("resources/read", only_conversations, uri="chats://c1")
    for uri in (
        f"notes://{id_}",
        f"recollect://conversation/{id_}",
        f"chats://{id_}",
        "media://types",
    ):
        assert agent.ask("resources/read", only_conversations, uri=uri)["error"]["code"] == -32002
    for uri in (
        f"recollect://conversation/{id_}",
        f"chats://{id_}",
        "notes://c1",
        "media://none",
        "notes://",
    ):
        assert agent.ask("resources/read", uri=uri)["error"]["code"] == -32002
    only_notes = {"toolsets": ["sources"]}
    prompt = agent.ask("prompts/get", only_notes, name="recall", arguments={"topic": "towers"})[
        "result"
    ]
    assert "chats_search" in prompt["messages"][0]["content"]["text"]
