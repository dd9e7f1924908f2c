"""The MCP tools, sessions and resource of the Knowledge API (docs/contracts/knowledge-api.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from clauses import proves
from rest_client import Client
from states import settle
from tool_calls import Caller

from recollect import Library
from recollect.knowledge.retrieval import DEFAULTS, NUMBERS, Retrieval
from recollect.serve.http.service import Service
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.protocol import Dispatcher

SEARCH = {"query", "limit", "offset", "snippet_length"}
PARAMETERS = {
    "notes.search": SEARCH | {"keywords"},
    "notes.get": {"note_id", "retrieval"},
    "media.search": SEARCH | {"media_types", "date_from", "date_to", "order_by"},
    "media.get": {"media_id", "retrieval"},
    "media.transcript": {"media_id", "format", "include_timestamps"},
    "chats.search": SEARCH | {"by", "character_id", "sender"},
    "chats.get": {"conversation_id", "page", "page_size", "retrieval"},
    "characters.search": SEARCH,
    "characters.get": {"character_id"},
    "prompts.search": SEARCH | {"fields"},
    "prompts.get": {"prompt_id_or_name"},
    "knowledge.search": SEARCH | {"sources", "order_by", "filters"},
    "knowledge.get": {"source", "id", "retrieval"},
}
"""The tools of the contract with all their parameters."""
EXTRA_PARAMETERS = {
    **{name: {"max_tokens"} for name in PARAMETERS if name.endswith(".search")},
    "knowledge.search": {"shape", "rerank", "correct", "repeat", "max_tokens"},
    "media.transcript": {"max_tokens", "offset"},
}
"""Parameters that are not in the contract. Neither is the tool `notes.write`."""


@pytest.fixture
def caller(place: str) -> Iterator[Caller]:
    caller = Caller(place, "knowledge", "sources")
    yield caller
    caller.close()


@pytest.fixture
def session(place: str) -> Iterator[Caller]:
    caller = Caller(place, "knowledge", "sources", session=Session())
    yield caller
    caller.close()


def fill(library: Library, count: int = 1) -> None:
    """Save this number of items of each source, which all mention a quagga."""
    for n in range(count):
        library.knowledge.create("notes", {"title": f"Note {n}", "content": "The quagga sleeps."})
        library.knowledge.create(
            "media", {"title": f"Paper {n}", "media_type": "pdf", "content": "A quagga."}
        )
        library.knowledge.create("characters", {"name": f"Quentin {n}", "description": "A quagga."})
        library.knowledge.create("prompts", {"name": f"Zoo {n}", "user_prompt": "Any quagga?"})
        library.add_conversation(
            f"c{n}", f"Chat {n}", messages=[{"id": "m", "role": "user", "content": "a quagga"}]
        )
    settle(library)


def uris(answer: Any) -> list[str]:
    return [result["uri"] for result in answer["results"]]


# -- the tools ----------------------------------------------------------------


@proves("C3-40")
@pytest.mark.every_state
@pytest.mark.every_store
def test_every_tool_is_offered_with_dots_or_underscores(caller: Caller, library: Library) -> None:
    fill(library)
    names = {tool["name"] for tool in Catalog("knowledge").listing()}
    assert {name.replace(".", "_") for name in PARAMETERS} <= names
    assert {
        tool["name"] for tool in Catalog("knowledge", names="dotted").listing()
    } >= PARAMETERS.keys()
    for name in ("knowledge_search", "knowledge.search"):
        assert len(caller.call(name, {"query": "quagga"})["structuredContent"]["results"]) == 5


@proves("C3-41")
@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", PARAMETERS)
def test_tools_take_the_documented_parameters_and_are_read_only(caller: Caller, name: str) -> None:
    tool = next(
        tool for tool in Catalog("knowledge", names="dotted").listing() if tool["name"] == name
    )
    assert tool["inputSchema"]["properties"].keys() == PARAMETERS[name] | EXTRA_PARAMETERS.get(
        name, set()
    )
    assert tool["inputSchema"]["additionalProperties"] is False
    assert tool["annotations"]["readOnlyHint"] is True


@proves("C3-41")
def test_schemas_name_defaults_limits_and_both_types_of_ids() -> None:
    tools = {tool["name"]: tool["inputSchema"] for tool in Catalog("knowledge").listing()}
    for name, schema in tools.items():
        properties = schema["properties"]
        if name.endswith("_search"):
            limit = {"default": 20 if name == "knowledge_search" else 10}
            assert properties["limit"] == {"type": "integer", "minimum": 1, "maximum": 100, **limit}
            assert properties["offset"] == {"type": "integer", "default": 0, "minimum": 0}
        options = properties | properties.get("retrieval", {"properties": {}})["properties"]
        for option in NUMBERS.keys() & options.keys():
            _, least, most, _ = NUMBERS[option]
            assert (options[option]["minimum"], options[option]["maximum"]) == (least, most)
            if option not in ("max_tokens", "sibling_window"):  # without one, others decide
                assert options[option]["default"] == DEFAULTS[option]
    both = [{"type": "string"}, {"type": "integer"}]
    assert tools["media_get"]["properties"]["media_id"]["anyOf"] == both
    assert tools["knowledge_get"]["properties"]["id"]["anyOf"] == both
    assert tools["characters_get"]["properties"]["character_id"]["anyOf"] == both
    assert tools["chats_get"]["properties"]["page_size"]["default"] == 50
    retrieval = tools["notes_get"]["properties"]["retrieval"]["properties"]
    assert retrieval.keys() == Retrieval.__dataclass_fields__.keys()
    assert retrieval["mode"]["default"] == "snippet"
    assert tools["chats_search"]["properties"]["by"]["default"] == "both"


@proves("C3-42")
@pytest.mark.every_state
def test_an_answer_is_the_documented_object_also_as_text(caller: Caller, library: Library) -> None:
    fill(library)
    for source in ("notes", "media", "chats", "characters", "prompts"):
        result = caller.call(f"{source}_search", {"query": "quagga"})
        answer = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == answer
        assert answer.keys() == {"results", "has_more", "next_offset", "total_estimated"}
        item = caller.answer("knowledge_get", source=source, id=answer["results"][0]["id"])
        assert item.keys() == {"meta", "content", "attachments"}


@proves("C3-43")
@pytest.mark.every_state
def test_the_default_limit_is_ten_for_a_source_and_twenty_for_all(
    caller: Caller, library: Library
) -> None:
    fill(library, 12)
    assert len(uris(caller.answer("notes_search", query="quagga"))) == 10
    assert len(uris(caller.answer("knowledge_search", query="quagga"))) == 20
    assert len(uris(caller.answer("knowledge_search", query="quagga", limit=1_000))) == 60
    assert len(uris(caller.answer("knowledge_search", query="quagga", limit=0))) == 1


@proves("C3-44")
def test_errors_name_the_tool_or_the_missing_item(caller: Caller, library: Library) -> None:
    for tool, arguments, error in (
        ("media_search", {"query": ""}, "Invalid arguments for media_search: "),
        ("media_search", {"query": "x", "user_id": 2}, "Invalid arguments for media_search: "),
        ("media_search", {"query": "x" * 1_001}, "Invalid arguments for media_search: "),
        (
            "notes_get",
            {"note_id": "x", "retrieval": {"mode": "all"}},
            "Invalid arguments for notes_get: ",
        ),
        ("media_get", {"media_id": 7}, "Media not found: 7"),
        ("chats_get", {"conversation_id": "x"}, "Conversation not found: x"),
        ("characters_get", {"character_id": 7}, "Character not found: 7"),
        ("prompts_get", {"prompt_id_or_name": "x"}, "Prompt not found: x"),
        ("notes_get", {"note_id": "x"}, "Note not found: x"),
    ):
        assert caller.error(tool, **arguments)["error"].startswith(error)


@proves("C3-27")
@pytest.mark.parametrize("budget", [60, 250])
@pytest.mark.parametrize("format", ["text", "srt", "vtt", "json"])
def test_a_transcript_is_read_in_pages_of_whole_cues(
    caller: Caller, library: Library, format: str, budget: int
) -> None:
    cues = [f"{n}\n00:{n:02}:00,000 --> 00:{n:02}:30,000\nThe quagga “{n}”" for n in range(1, 60)]
    fields = {"title": "Talk", "transcript": "\n\n".join(cues)}
    id_ = library.knowledge.create("media", fields).id
    call = {"media_id": id_, "format": format, "max_tokens": budget}
    pages, offset = [], 0
    while offset is not None:
        page = caller.answer("media_transcript", **call, offset=offset)
        assert len(json.dumps(page, ensure_ascii=False)) <= 4 * budget
        pages.append(page["content"])
        offset = page.get("next_offset")
    assert len(pages) > 1
    whole = library.knowledge.transcript(id_, format, format == "json")
    if format == "json":
        assert [cue for page in pages for cue in page["segments"]] == whole["segments"]
    elif format == "vtt":
        assert all(page.startswith("WEBVTT\n\n") for page in pages)
        assert "".join(page[8:] for page in pages) == whole[8:]
    else:
        assert ("\n" if format == "text" else "").join(pages) == whole


@proves("C3-27")
def test_a_page_of_a_transcript_cuts_only_a_cue_that_is_too_long(
    caller: Caller, library: Library
) -> None:
    cues = [{"start": n, "end": n + 1, "text": f"{n} quagga" * 50} for n in range(3)]
    media_id = library.knowledge.create("media", {"title": "Talk", "transcript": cues}).id
    for format in ("srt", "vtt", "json", "text"):
        call = {"media_id": media_id, "format": format, "max_tokens": 30}
        page = caller.answer("media_transcript", **call, offset=1)
        assert "quagga" in str(page["content"])
        assert (page["cut"], page["next_offset"]) == (True, 2)
        assert len(json.dumps(page)) <= 120
        assert "next_offset" not in caller.answer("media_transcript", **call, offset=2)


# -- preferences and sessions -------------------------------------------------


@proves("C3-45")
def test_arguments_override_preferences_and_preferences_override_defaults(
    place: str, library: Library
) -> None:
    library.knowledge.create("notes", {"title": "Long", "content": "The quagga sleeps. " * 200})

    def length(config: dict[str, Any], **arguments: Any) -> int:
        caller = Caller(place, "sources", config=config)
        (result,) = caller.answer("notes_search", query="quagga", **arguments)["results"]
        caller.close()
        return len(result["snippet"])

    assert 150 < length({}) <= 300
    assert 20 < length({"snippet_length": 60}) <= 60
    assert 60 < length({"snippet_length": 60}, snippet_length=120) <= 120


@proves("C3-45", "C3-46")
@pytest.mark.parametrize("in_config", [True, False])
@pytest.mark.parametrize("shape", ["full", "compact"])
def test_a_page_of_results_keeps_to_the_budget(
    place: str, library: Library, *, in_config: bool, shape: str
) -> None:
    fill(library, 5)
    budget = {"max_tokens": 900}
    for session in (None, Session()):
        caller = Caller(place, "knowledge", config=budget if in_config else {}, session=session)
        pages, offset = [], 0
        while len(pages) < 25 and offset is not None:
            call = {} if in_config else budget
            call |= {"query": "quagga", "shape": shape, "offset": 0 if session else offset}
            page = caller.answer("knowledge_search", **call)
            assert len(json.dumps(page, ensure_ascii=False)) <= 4 * 900
            pages += [result["id"] for result in page["results"]]
            offset = page["next_offset"]
        assert len(pages) == len(set(pages)) == 25
        small = caller.answer("knowledge_search", query="quagga", max_tokens=10)
        assert len(small["results"]) == 1
        assert len(small["results"][0]["snippet"]) <= 40
        caller.close()


@proves("C3-46")
@pytest.mark.every_state
def test_a_session_repeats_no_result_until_all_were_returned(
    caller: Caller, session: Caller, library: Library
) -> None:
    fill(library, 3)
    everything = uris(caller.answer("knowledge_search", query="quagga", limit=100))
    assert len(everything) == len(set(everything)) == 15
    for _ in range(2):
        answers = [session.answer("knowledge_search", query="quagga", limit=4) for _ in range(4)]
        assert [len(answer["results"]) for answer in answers] == [4, 4, 4, 3]
        assert [uri for answer in answers for uri in uris(answer)] == everything
    for _ in range(2):
        assert uris(caller.answer("knowledge_search", query="quagga", limit=4)) == everything[:4]


@proves("C3-46")
@pytest.mark.every_state
def test_searches_of_a_single_source_repeat_their_results(
    session: Caller, library: Library
) -> None:
    fill(library, 2)
    assert len(uris(session.answer("knowledge_search", query="quagga"))) == 10
    for source in ("notes", "media", "chats", "characters", "prompts"):
        once, again = (uris(session.answer(f"{source}_search", query="quagga")) for _ in range(2))
        assert len(once) == 2
        assert all(uri.startswith(f"{source}://") for uri in once)
        assert once == again


@proves("C3-47")
@pytest.mark.every_state
def test_the_header_identifies_a_session_over_http(
    client: Client, service: Service, user: str
) -> None:
    with service.libraries.borrow(user) as library:
        fill(library)
    preferences = json.dumps({"snippet_length": 12, "user_id": "bob"})
    config = base64.b64encode(preferences.encode()).decode()

    def request(method: str, session: str = "", path: str = "/mcp", **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"accept": "application/json, text/event-stream"}
        if session:
            headers["mcp-session-id"] = session
        return client.post(path, json=body, headers=headers)

    client_info = {"name": "tldw", "version": "1"}
    response = request(
        "initialize",
        path=f"/mcp?config={config}",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo=client_info,
    )
    session = response.headers["mcp-session-id"]

    def search(session: str) -> list[dict[str, Any]]:
        call = {"name": "knowledge.search", "arguments": {"query": "quagga", "limit": 3}}
        answer = request("tools/call", session, **call).json()["result"]["structuredContent"]
        results: list[dict[str, Any]] = answer["results"]
        return results

    first, second = search(session), search(session)
    assert (len(first), len(second)) == (3, 2)
    assert not {result["uri"] for result in first} & {result["uri"] for result in second}
    assert all(len(result["snippet"]) <= 12 for result in first)
    assert client.delete("/mcp", headers={"mcp-session-id": session}).status_code in (200, 204)


@proves("C3-48")
@pytest.mark.every_state
def test_an_item_is_read_at_the_match_of_the_last_query(session: Caller, library: Library) -> None:
    filler = "Nothing is said here of it. " * 300
    id_ = library.knowledge.create(
        "notes", {"title": "Long", "content": f"{filler}Now the quagga. {filler}"}
    ).id
    assert "quagga" not in session.answer("notes_get", note_id=id_)["content"]
    session.answer("notes_search", query="quagga")
    for mode in ("snippet", "chunk"):
        item = session.answer("notes_get", note_id=id_, retrieval={"mode": mode})
        assert "quagga" in item["content"], mode


@proves("C3-48")
@pytest.mark.every_state
def test_a_location_of_a_changed_item_is_found_again_by_the_last_query(
    session: Caller, library: Library
) -> None:
    filler = "Nothing is said here of it. " * 300
    note = {"title": "Long", "content": f"{filler}Now the quagga. {filler}"}
    id_ = library.knowledge.create("notes", note).id
    settle(library)
    (hit,) = session.answer("notes_search", query='"quagga"')["results"]
    note["content"] = f"New. {filler}{filler}And now the quagga. {filler}"
    library.knowledge.edit("notes", id_, note)
    item = session.answer("notes_get", note_id=id_, retrieval={"loc": hit["loc"]})
    assert "quagga" in item["content"]
    assert "has changed" in item["note"]


# -- deep research ------------------------------------------------------------


class DeepResearch(Caller):
    """A client that names itself as OpenAI's, with every tool in the catalog."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.catalog = Catalog()
        self.dispatcher = Dispatcher(self.catalog)
        self.request(
            "initialize",
            protocolVersion="2025-06-18",
            clientInfo={"name": "openai-mcp", "version": "1"},
        )

    def request(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.dispatcher.handle(message, self.context())
        assert isinstance(answer, dict)
        return json.loads(json.dumps(answer["result"]))

    def call_json(self, tool: str, **arguments: Any) -> Any:
        """The answer of a tool, which is the same as text and as structured content."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        assert result["isError"] is False, result
        (content,) = result["content"]
        assert json.loads(content["text"]) == result["structuredContent"]
        return result["structuredContent"]


@pytest.fixture
def deep_research(place: str) -> Iterator[DeepResearch]:
    client = DeepResearch(place)
    yield client
    client.close()


@proves("C3-49")
def test_a_deep_research_client_sees_search_and_fetch_next_to_the_canonical_tools(
    deep_research: DeepResearch,
) -> None:
    tools = {tool["name"]: tool for tool in deep_research.request("tools/list")["tools"]}
    canonical = {name.replace(".", "_") for name in PARAMETERS}
    assert tools.keys() == {"search", "fetch", *canonical}
    # OpenAI's clients require that all other tools are read-only.
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
    for name, parameter in (("search", "query"), ("fetch", "id")):
        schema = tools[name]["inputSchema"]
        assert {key: rule["type"] for key, rule in schema["properties"].items()} == {
            parameter: "string"
        }
        assert schema["required"] == [parameter]
        assert tools[name]["annotations"]["readOnlyHint"] is True
    other = {tool["name"]: tool for tool in Catalog("memory").listing()}
    assert "fetch" not in other
    assert "mode" in other["search"]["inputSchema"]["properties"]


@proves("C3-49")
@pytest.mark.every_state
def test_fetch_returns_the_whole_text_of_what_search_finds(
    deep_research: DeepResearch, library: Library
) -> None:
    fill(library)
    results = deep_research.call_json("search", query="quagga")["results"]
    canonical = deep_research.call_json("knowledge_search", query="quagga")["results"]
    assert [result.keys() for result in results] == [{"id", "title", "url"}] * 5
    texts = {
        "notes": ("Note 0", "The quagga sleeps."),
        "media": ("Paper 0", "A quagga."),
        "characters": ("Quentin 0", "A quagga."),
        "prompts": ("Zoo 0", "Any quagga?"),
        "chats": ("Chat 0", "a quagga"),
    }
    for result, same in zip(results, canonical, strict=True):
        title, text = texts.pop(same["source"])
        assert result["title"].startswith(f"{title} (")
        assert text in result["title"]
        item = deep_research.call_json("fetch", id=result["id"])
        assert item.keys() == {"id", "title", "text", "url", "metadata"}
        assert (item["id"], item["title"], item["url"]) == (result["id"], title, result["url"])
        assert text in item["text"]
        assert all(isinstance(value, str) for value in item["metadata"].values())
        item_id = {"source": same["source"], "id": same["id"]}
        assert deep_research.call_json("knowledge_get", **item_id)["meta"]["title"] == title
    assert texts == {}


@proves("C3-49")
@pytest.mark.every_state
def test_search_and_fetch_take_every_argument_of_the_tools_they_stand_for(
    deep_research: DeepResearch, library: Library
) -> None:
    fill(library, 3)
    call = deep_research.call_json
    options = {"sources": ["notes"], "limit": 2, "filters": {}, "order_by": "recent"}
    page = call("search", query="quagga", **options)
    assert len(page["results"]) == page["next_offset"] == 2
    assert len(call("search", query="quagga", **options, offset=2)["results"]) == 1
    full = call("search", query="quagga", shape="full", snippet_length=12)["results"]
    assert len(full) == 13, "messages with the same text are one result"
    assert all(
        "text" in result for result in call("search", query="quagga", shape="compact")["results"]
    )
    assert all(result["loc"] and len(result["snippet"]) <= 12 for result in full)
    for source in ("notes", "media", "chats", "characters", "prompts"):
        (same,) = call("search", query="quagga", sources=[source], limit=1, shape="full")["results"]
        plain = same["uri"].removeprefix(f"{source}://").partition("#")[0]
        for place in ({"source": source}, {}):
            assert "quagga" in call("fetch", id=plain, **place)["text"]
            for mode in ("snippet", "chunk", "full"):
                retrieval = {"mode": mode, "query": "quagga"}
                item = call("fetch", id=plain, **place, retrieval=retrieval)
                assert item.keys() == {"id", "title", "text", "url", "metadata"}
                assert "quagga" in item["text"]
                assert item["metadata"]["source"] == source


@proves("C3-50")
@pytest.mark.every_state
def test_the_compact_shape_has_five_fields(caller: Caller, library: Library) -> None:
    fill(library)
    compact = caller.answer("knowledge_search", query="quagga", shape="compact")["results"]
    assert len(compact) == 5
    assert all(result.keys() == {"id", "title", "text", "url", "metadata"} for result in compact)
    plain = caller.answer("knowledge_search", query="quagga")
    assert [result["id"] for result in compact] == uris(plain)


# -- resources and users ------------------------------------------------------


@proves("C3-51")
def test_the_types_of_media_are_a_resource(caller: Caller, library: Library) -> None:
    fill(library, 2)
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "resources/read",
        "params": {"uri": "media://types"},
    }
    answer = caller.dispatcher.handle(request, caller.context())
    assert isinstance(answer, dict)
    (content,) = answer["result"]["contents"]
    document = json.loads(content["text"])
    assert content["mimeType"] == "application/json"
    assert document["types"] == [{"media_type": "pdf", "count": 2}]
    assert {"video", "podcast", "article"} <= set(document["suggested"])


@proves("C3-52")
@pytest.mark.every_state
def test_no_argument_can_name_another_user(place: str, library: Library, user: str) -> None:
    fill(library)
    library.knowledge.create("notes", {"title": "Mine", "content": "the canary sings"})
    answer = library.knowledge.search("canary")["results"][0]
    other = Caller(place, "knowledge", "sources", user=f"other-{user}", config={"user_id": user})
    other.answer("notes_write", content="nothing")
    assert other.answer("knowledge_search", query="canary")["results"] == []
    assert other.error("knowledge_get", source="notes", id=answer["id"])["error"].startswith(
        "Note not found"
    )
    for name in ("user_id", "_context", "db_paths", "user"):
        error = other.error("knowledge_search", query="canary", **{name: user})["error"]
        assert "Unknown argument" in error
    other.close()
