"""The Knowledge API over REST: search, read, write, export and restore documents."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from people import World, percent_encode
from selection import few
from starlette.testclient import TestClient

ADDRESS = "/api/knowledge"
SOURCES = ("notes", "media", "chats", "characters", "prompts")
SRT = (
    "1\n00:00:01,000 --> 00:00:04,000\nWater the tomatoes early.\n\n"
    "2\n00:00:04,500 --> 00:00:09,000\nNever at noon.\n\n"
)


@pytest.fixture
def client(world: World, user: str) -> TestClient:
    return world.client(user)


def request_json(client: TestClient, method: str, path: str, status: int = 200, **more: Any) -> Any:
    """The JSON body of a response with this status."""
    answer = client.request(method, ADDRESS + path, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


def get(client: TestClient, path: str, status: int = 200, **query: Any) -> Any:
    return request_json(client, "GET", path, status, params=query)


def create(client: TestClient, source: str, **fields: Any) -> dict[str, Any]:
    item: dict[str, Any] = request_json(client, "POST", f"/{source}", 201, json=fields)
    return item


@pytest.fixture
def garden(client: TestClient) -> dict[str, str]:
    """One document of every source, all about tomatoes. Returns their ids."""
    talk = [
        {"id": "m1", "role": "user", "content": "How often do I water tomatoes?"},
        {"id": "m2", "role": "assistant", "content": "Every second day.", "author": "Bot"},
    ]
    answer = client.post(
        "/conversations", json={"id": "talk", "title": "Watering", "messages": talk}
    )
    assert answer.status_code == 201
    return {
        "notes": create(
            client,
            "notes",
            title="Beds",
            content="The tomatoes stand in bed four.",
            keywords=["garden"],
        )["id"],
        "media": create(
            client,
            "media",
            title="A film",
            transcript=SRT,
            media_type="video",
            url="https://example/v",
        )["id"],
        "characters": create(
            client, "characters", name="Rosa", description="She grows tomatoes.", tags=["farm"]
        )["id"],
        "prompts": create(
            client, "prompts", name="Planner", user_prompt="Plan the tomatoes.", keywords=["plan"]
        )["id"],
        "chats": "talk",
    }


# -- searching -----------------------------------------------------------------------


def test_one_search_finds_documents_of_every_source(
    client: TestClient, garden: dict[str, str]
) -> None:
    page = get(client, "/search", query="tomatoes")
    assert {(r["source"], r["id"]) for r in page["results"]} == set(garden.items())
    assert all(0 <= r["score"] <= 1 and "tomatoes" in r["snippet"] for r in page["results"])
    assert (page["has_more"], page["next_offset"], page["total_estimated"]) == (False, None, 5)


def test_a_json_body_is_equivalent_to_a_query(client: TestClient, garden: dict[str, str]) -> None:
    by_query = get(client, "/search", query="tomatoes", sources=["notes", "media"])
    body = {"query": "tomatoes", "sources": ["notes", "media"]}
    assert by_query == request_json(client, "POST", "/search", json=body)
    assert {r["source"] for r in by_query["results"]} == {"notes", "media"}
    assert "query" in get(client, "/search", 400)["detail"]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_can_be_searched_alone(
    client: TestClient, garden: dict[str, str], source: str
) -> None:
    results = get(client, f"/{source}/search", query="tomatoes")["results"]
    assert [r["id"] for r in results] == [garden[source]]
    assert results[0]["uri"].startswith(f"{source}://")


def test_filters_of_sources_that_are_not_searched_are_rejected(client: TestClient) -> None:
    assert (
        "media_types: this filter is for media"
        in get(client, "/notes/search", 400, query="x", media_types="pdf")["detail"]
    )
    assert (
        "keywords: this filter is for notes"
        in get(client, "/search", 400, query="x", sources="chats", keywords="a")["detail"]
    )
    request_json(
        client,
        "POST",
        "/search",
        400,
        json={"query": "x", "filters": {"notes": {"media_types": ["pdf"]}}},
    )


# -- reading -----------------------------------------------------------------------


def test_get_returns_the_complete_document_by_default(
    client: TestClient, garden: dict[str, str]
) -> None:
    assert get(client, f"/notes/{garden['notes']}")["content"] == "The tomatoes stand in bed four."
    assert "Never at noon." in get(client, f"/media/{garden['media']}")["content"]
    assert (
        get(client, f"/characters/{garden['characters']}")["content"]["description"]
        == "She grows tomatoes."
    )
    assert (
        get(client, f"/prompts/{garden['prompts']}")["content"]["user_prompt"]
        == "Plan the tomatoes."
    )
    assert get(client, "/chats/talk")["content"].splitlines()[1] == "Bot: Every second day."


def test_the_location_of_a_result_can_be_read(client: TestClient) -> None:
    text = (
        " ".join(f"Sentence number {n} is about nothing." for n in range(400))
        + " Here grow the tomatoes."
    )
    note = create(client, "notes", title="Long", content=text)["id"]
    (result,) = get(client, "/notes/search", query="tomatoes")["results"]
    body = {"source": "notes", "id": note, "retrieval": {"mode": "chunk", "loc": result["loc"]}}
    chunk = request_json(client, "POST", "/get", json=body)
    assert "tomatoes" in chunk["content"]
    index = result["loc"]["chunk_index"]
    assert (
        get(client, f"/notes/{note}", mode="chunk", chunk_index=index)["content"]
        == chunk["content"]
    )
    assert (
        get(client, f"/notes/{note}", mode="chunk", query="tomatoes")["content"] == chunk["content"]
    )
    wider = get(
        client, f"/notes/{note}", mode="chunk_with_siblings", max_tokens=900, query="tomatoes"
    )
    assert chunk["content"] in wider["content"]
    assert len(chunk["content"]) < len(wider["content"]) <= 900 * 4
    snippet = get(client, f"/notes/{note}", mode="snippet", snippet_length=40, query="tomatoes")[
        "content"
    ]
    assert "tomatoes" in snippet
    assert len(snippet) <= 40


def test_a_conversation_is_exported_also_without_messages(
    client: TestClient, garden: dict[str, str]
) -> None:
    assert client.post("/conversations", json={"id": "empty", "title": "Plans"}).status_code == 201
    for id_, title in (("empty", "Plans"), ("talk", "Watering")):
        for request in (client.get, client.post):
            assert request(f"/conversations/{id_}/export").json()["title"] == title
            text = request(f"/conversations/{id_}/export?format=txt").json()["content"]
            assert text.startswith(f"Conversation: {title}")
    assert client.get("/conversations/none/export").status_code == 404


def test_not_found_errors_name_the_kind_of_document(
    client: TestClient, garden: dict[str, str]
) -> None:
    for source, name in (
        ("notes", "Note"),
        ("media", "Media"),
        ("chats", "Conversation"),
        ("characters", "Character"),
        ("prompts", "Prompt"),
    ):
        assert get(client, f"/{source}/nowhere", 404)["detail"] == f"{name} not found: nowhere"
    get(client, f"/notes/{garden['media']}", 404)
    get(client, "/media/nowhere/transcript", 404)
    get(client, "/notes/nowhere/export", 404)
    request_json(client, "POST", "/get", 404, json={"source": "prompts", "id": 7})
    request_json(client, "PATCH", "/notes/nowhere", 404, json={"title": "x"})
    request_json(client, "DELETE", "/notes/nowhere", 404)


def test_an_id_may_be_any_text(world: World, client: TestClient, user: str) -> None:
    for name in ("a/b c.md", "what?#1", "x/export", "x/transcript", "ends/", "é", "..", "search"):
        document = {
            "id": name,
            "source": "notes",
            "kind": "note",
            "title": name,
            "messages": [{"id": "1", "content": f"This is {name}.", "type": "chunk"}],
        }
        assert request_json(client, "POST", "/restore", 201, json=document)["id"] == name
        body = {"source": "notes", "id": name, "retrieval": {"mode": "full"}}
        assert request_json(client, "POST", "/get", json=body)["content"] == f"This is {name}."
        if name not in ("search", ".."):
            assert get(client, f"/notes/{percent_encode(name)}")["content"] == f"This is {name}."
            assert (
                client.get(f"{ADDRESS}/notes/{percent_encode(name)}/export?format=txt").text
                == f"This is {name}."
            )
        if name != "..":
            changed = request_json(
                client, "PATCH", f"/notes/{percent_encode(name)}", json={"content": "New."}
            )
            assert changed["version"] == 2
            assert request_json(client, "DELETE", f"/notes/{percent_encode(name)}")["id"] == name


# -- listing -----------------------------------------------------------------------


def test_lists_have_totals_and_filters(client: TestClient, garden: dict[str, str]) -> None:
    create(client, "notes", title="Tools", content="A spade.", keywords=["shed", "Garden"])
    page = get(client, "/notes")
    assert (page["total"], [i["title"] for i in page["items"]]) == (2, ["Tools", "Beds"])
    assert get(client, "/notes", limit=1, offset=1)["items"] == page["items"][1:]
    assert [i["title"] for i in get(client, "/notes", search="tool")["items"]] == ["Tools"]
    assert [i["title"] for i in get(client, "/notes", tags="shed")["items"]] == ["Tools"]
    assert [i["media_type"] for i in get(client, "/media", media_types="VIDEO")["items"]] == [
        "video"
    ]
    assert get(client, "/media", media_types="pdf")["total"] == 0
    assert [i["id"] for i in get(client, "/chats")["items"]] == ["talk"]
    assert [i["tags"] for i in get(client, "/characters")["items"]] == [["farm"]]
    get(client, "/elsewhere", 400)


# -- writing -----------------------------------------------------------------------


def test_a_new_document_is_searchable_at_once(client: TestClient) -> None:
    note = create(client, "notes", content="# Compost\n\nTurn it in April.", keywords=["garden"])
    assert (note["title"], note["version"], note["tags"]) == ("Compost", 1, ["garden"])
    assert [r["id"] for r in get(client, "/search", query="compost")["results"]] == [note["id"]]


def test_an_update_changes_only_the_fields_in_the_request(
    client: TestClient, garden: dict[str, str]
) -> None:
    path = f"/notes/{garden['notes']}"
    changed = request_json(client, "PATCH", path, json={"keywords": ["soil"]})
    assert (changed["version"], changed["tags"], changed["title"]) == (2, ["soil"], "Beds")
    assert get(client, path)["content"] == "The tomatoes stand in bed four."
    request_json(client, "PATCH", path, json={"content": "Now peppers."})
    assert get(client, "/notes/search", query="tomatoes")["results"] == []
    assert get(client, "/notes/search", query="peppers")["results"][0]["version"] == 3
    film = request_json(
        client,
        "PATCH",
        f"/media/{garden['media']}",
        json={"url": "https://example/w", "media_type": "audio"},
    )
    assert (film["url"], film["media_type"]) == ("https://example/w", "audio")
    assert get(client, f"/media/{garden['media']}/transcript", format="srt")["content"] == SRT
    request_json(
        client, "PATCH", f"/characters/{garden['characters']}", json={"personality": "Kind."}
    )
    rosa = get(client, "/characters/Rosa")["content"]
    assert (rosa["personality"], rosa["description"]) == ("Kind.", "She grows tomatoes.")
    request_json(client, "PATCH", f"/prompts/{garden['prompts']}", json={"name": "Gardener"})
    assert get(client, "/prompts/gardener")["content"]["user_prompt"] == "Plan the tomatoes."


def test_an_update_of_an_old_version_is_a_conflict(
    client: TestClient, garden: dict[str, str]
) -> None:
    path = f"/notes/{garden['notes']}"
    assert (
        request_json(client, "PATCH", path, json={"content": "Mine.", "version": 1})["version"] == 2
    )
    error = request_json(client, "PATCH", path, 409, json={"content": "Yours.", "version": 1})
    assert "version 2" in error["detail"]
    assert get(client, path)["content"] == "Mine."


def test_invalid_documents_are_rejected(client: TestClient, garden: dict[str, str]) -> None:
    note = f"/notes/{garden['notes']}"
    for method, path, body in (
        ("POST", "/notes", {}),
        ("POST", "/notes", {"title": "a", "user_id": "somebody"}),
        ("POST", "/notes", {"title": 7}),
        ("POST", "/notes", {"title": "a", "content": None}),
        ("POST", "/media", {"title": "a", "transcript": "no times here"}),
        ("POST", "/media", {"title": "a", "content": "b", "created_at": "soon"}),
        ("POST", "/characters", {"description": "without a name"}),
        ("POST", "/characters", {"card": {"name": True}}),
        ("POST", "/prompts", {"user_prompt": "without a name"}),
        ("PATCH", note, {}),
        ("PATCH", note, {"version": 1}),
        ("PATCH", note, {"title": "a", "version": 0}),
        ("PATCH", note, {"transcript": SRT}),
    ):
        request_json(client, method, path, 400, json=body)
    assert get(client, note)["meta"]["version"] == 1
    for method, path in (("POST", "/chats"), ("PATCH", "/chats/talk"), ("PUT", note)):
        request_json(client, method, path, 405, json={})
    request_json(client, "DELETE", "/chats/talk", 400)
    assert client.post(f"{ADDRESS}/notes", content="title=a").status_code == 415


# -- deleting and restoring -------------------------------------------------------


@pytest.mark.parametrize("source", few(["notes", "media", "characters", "prompts"]))
def test_a_deleted_document_can_be_restored(
    client: TestClient, garden: dict[str, str], source: str
) -> None:
    path = f"/{source}/{percent_encode(garden[source])}"
    before, items = get(client, path), get(client, f"/{source}")["items"]
    deleted = request_json(client, "DELETE", f"{path}?undo=true")
    assert (deleted["success"], deleted["source"], deleted["id"]) == (True, source, garden[source])
    get(client, path, 404)
    assert get(client, f"/{source}/search", query="tomatoes")["results"] == []
    assert (
        request_json(client, "POST", "/restore", 201, json=deleted["document"])["id"]
        == garden[source]
    )
    after = get(client, path)
    assert after["content"] == before["content"]
    assert after["meta"] == before["meta"]
    assert get(client, f"/{source}")["items"] == items
    assert (
        request_json(client, "POST", "/restore", 200, json=deleted["document"])["id"]
        == garden[source]
    )


def test_restoring_does_not_overwrite_a_later_change(
    client: TestClient, garden: dict[str, str]
) -> None:
    path = f"/notes/{garden['notes']}"
    deleted = request_json(client, "DELETE", f"{path}?undo=true")["document"]
    request_json(client, "POST", "/restore", 201, json=deleted)
    request_json(client, "PATCH", path, json={"content": "Since then."})
    request_json(client, "POST", "/restore", 409, json=deleted)
    assert get(client, path)["content"] == "Since then."


def test_conversations_cannot_be_restored_here(client: TestClient) -> None:
    for document in (
        {"id": "c", "kind": "conversation", "messages": []},
        {"id": "c", "kind": "note", "messages": [{"id": "x"}]},
    ):
        request_json(client, "POST", "/restore", 400, json=document)


def test_deleting_without_undo_does_not_return_the_document(
    client: TestClient, garden: dict[str, str]
) -> None:
    answer = request_json(client, "DELETE", f"/notes/{garden['notes']}")
    assert answer == {
        "success": True,
        "source": "notes",
        "id": garden["notes"],
        "purge": "done",
    }


# -- exporting -----------------------------------------------------------------------


EXPORTS = [
    ("notes", "md", "text/markdown", b"title: Beds"),
    ("notes", "txt", "text/plain", b"The tomatoes stand in bed four."),
    ("notes", "json", "application/json", b'"format": "recollect"'),
    ("media", "txt", "text/plain", b"Never at noon."),
    ("media", "md", "text/markdown", b"title: A film"),
    ("media", "srt", "application/x-subrip", SRT.encode()),
    ("media", "vtt", "text/vtt", b"WEBVTT"),
    ("media", "json", "application/json", b'"format": "recollect"'),
    ("characters", "json", "application/json", b"chara_card_v2"),
    ("prompts", "json", "application/json", b'"user_prompt": "Plan the tomatoes."'),
    ("prompts", "md", "text/markdown", b"Plan the tomatoes."),
    ("prompts", "txt", "text/plain", b"Plan the tomatoes."),
]


def test_documents_are_exported_in_every_format(client: TestClient, garden: dict[str, str]) -> None:
    for source, format, media_type, part in EXPORTS:
        address = f"{ADDRESS}/{source}/{garden[source]}/export"
        answer = client.get(address, params={"format": format})
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == media_type
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert answer.headers["content-disposition"].endswith(f".{format}")
        assert part in answer.content


def test_an_exported_file_has_a_safe_name(client: TestClient) -> None:
    note = create(client, "notes", title='../a"b;\r\nX-Evil: 1 é', content="x")["id"]
    answer = client.get(f"{ADDRESS}/notes/{note}/export")
    assert "x-evil" not in answer.headers
    name = unquote(answer.headers["content-disposition"].partition("''")[2])
    assert name.endswith("é.md")
    assert not set(name) & set('/\\"\r\n:')


def test_unsupported_export_formats_are_rejected(
    client: TestClient, garden: dict[str, str]
) -> None:
    assert (
        "md, txt, json"
        in get(client, f"/notes/{garden['notes']}/export", 400, format="png")["detail"]
    )
    get(client, "/chats/talk/export", 400)


# -- permissions -----------------------------------------------------------------------


# -- OpenAPI -----------------------------------------------------------------


def test_human_only_content_is_hidden_from_agents(
    world: World, client: TestClient, user: str
) -> None:
    secret = "quaggasecret"
    messages = [
        {"id": "h", "role": "user", "content": f"zebra {secret}", "visibility": "human_only"},
        {"id": "o", "role": "user", "content": "zebra for all"},
    ]
    client.post("/conversations", json={"id": "c", "title": "C", "messages": messages})
    note = {
        "id": "n",
        "source": "notes",
        "kind": "note",
        "title": "N",
        "messages": [
            {"id": "1", "content": "zebra for all. ", "type": "chunk"},
            {"id": "2", "content": f"zebra {secret}", "type": "chunk", "visibility": "human_only"},
        ],
    }
    request_json(client, "POST", "/restore", 201, json=note)
    film = {**note, "id": "f", "source": "media", "kind": "media"}
    request_json(client, "POST", "/restore", 201, json=film)
    agent = world.client(user, agent=True)
    for path in (
        "/search?query=zebra",
        "/search?query=quaggasecret",
        "/chats/search?query=zebra",
        "/chats/c",
        "/notes/n",
        "/chats/c?mode=chunk&message_id=h",
        "/notes/n?mode=chunk&chunk_index=1",
        "/notes/n?mode=full&offset=3",
        "/notes/n?mode=chunk&chunk_size_tokens=50",
        "/notes/n?mode=chunk_with_siblings&max_tokens=500&query=zebra",
        "/notes/n?mode=snippet&chunk_index=1",
        "/notes/n/export?format=txt",
        "/notes/n/export?format=json",
        "/media/f/transcript",
        "/media/f",
    ):
        assert secret not in agent.get(ADDRESS + path).text, path
        assert (
            secret in client.get(ADDRESS + path).text or "chunk_size" in path or "offset=3" in path
        ), path
    assert agent.delete(f"{ADDRESS}/notes/n?undo=true").status_code == 403
    masked = get(agent, "/chats/c")["content"]
    assert "[human-only content hidden]" in masked
    assert "zebra for all" in masked
