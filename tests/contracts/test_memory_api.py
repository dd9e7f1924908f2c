"""The MCP tools of the Memory API (docs/contracts/memory-api.md)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clauses import proves
from memories import MASK, count_tokens, save_observations
from states import WITH_VECTORS, settle
from tool_calls import Caller, definitions

from recollect import Filter, Library

DAY = datetime(2025, 12, 1, 14, 30, tzinfo=UTC)
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
NUMBER = {"type": "integer"}
PARAMETERS = {
    "search": {
        "query": {"anyOf": [TEXT, TEXTS]},
        "mode": {"type": "string", "enum": ["both", "vector", "text"]},
        "limit": NUMBER,
        "after": TEXT,
        "before": TEXT,
        "projects": TEXTS,
        "types": TEXTS,
        "concepts": TEXTS,
        "files": TEXTS,
        "response_format": {"type": "string", "enum": ["markdown", "json"]},
    },
    "get_observations": {"ids": TEXTS},
    "read": {"path": TEXT, "startLine": NUMBER, "endLine": NUMBER},
}
OWN_PARAMETERS = ("tool_results", "max_tokens", "time_zone")
OWN_FORMAT = "compact"
"""What Recollect adds to the tools. All of it is optional."""
REQUIRED = {"search": ["query"], "get_observations": ["ids"], "read": ["path"]}
OBSERVATION_BLOCK = re.compile(
    r"### \d+\. \[[^\]]+\] - \d{4}-\d\d-\d\d\n\*\*ID:\*\* obs-\S+\n\*\*Type:\*\* [a-z]+\n"
    r"\*\*Score:\*\* \d\.\d\d\n\n"
    r"\*\*Title:\*\* .+(?:\n\*\*Facts:\*\*(?:\n- .+)+)?"
)
CONVERSATION_BLOCK = re.compile(
    r"### \d+\. \[[^\]]+\] - \d{4}-\d\d-\d\d\n\*\*Path:\*\* `/\S+\.jsonl`(?: lines \d+-\d+)?\n"
    r"\*\*Score:\*\* \d\.\d\d\n\n(?:.+\n?)+"
)


class Memory(Caller):
    """The tools, and their answers as text. A search waits for the index."""

    def text(self, tool: str, **arguments: Any) -> str:
        if tool == "search":
            with self.context().library() as library:
                settle(library)
        result = self.call(tool, arguments)
        assert result["isError"] is False, result
        (content,) = result["content"]
        assert content["type"] == "text"
        text: str = content["text"]
        return text

    def json(self, **arguments: Any) -> Any:
        """The answer of a search as JSON."""
        return json.loads(self.text("search", response_format="json", **arguments))

    def results(self, **arguments: Any) -> tuple[list[Any], int]:
        """The results of a search and their total."""
        answer = self.json(**arguments)
        return answer["results"], answer["total"]

    def error_text(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, arguments)
        assert result["isError"] is True, result
        (content,) = result["content"]
        text: str = content["text"]
        return text

    def ids(self, query: Any, **arguments: Any) -> list[str]:
        return re.findall(
            r"^\*\*ID:\*\* (\S+)$", self.text("search", query=query, **arguments), re.MULTILINE
        )


@pytest.fixture
def agent(place: str) -> Iterator[Memory]:
    caller = Memory(place, "memory")
    yield caller
    caller.close()


def converse(library: Library, id_: str, namespace: str, at: datetime, *contents: str) -> None:
    roles = ("user", "assistant")
    library.add_conversation(
        id_,
        f"About {id_}",
        project=namespace,
        created_at=at,
        messages=[
            {
                "id": f"{id_}-{n}",
                "role": roles[n % 2],
                "content": text,
                "created_at": at + timedelta(minutes=n),
            }
            for n, text in enumerate(contents)
        ],
    )


@pytest.fixture(autouse=True)
def observer_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the observations that a test saves. Indexing would replace them with its own."""
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")


@pytest.fixture
def memories(library: Library) -> Library:
    """The example of the contract: decisions about authentication in two projects."""
    converse(
        library,
        "session-abc123",
        "/home/me/my-api",
        DAY,
        "How should I implement authentication?",
        "Let me search for past authentication patterns...",
        "What about JWT tokens?",
        "Based on previous discussions, with React Router.",
    )
    converse(
        library,
        "session-def456",
        "/home/me/auth-service",
        DAY - timedelta(days=16),
        "Which flow do we take?",
        "OAuth2, with PKCE.",
    )
    save_observations(
        library,
        "session-abc123",
        {
            "id": "obs-abc123",
            "title": "Implement JWT authentication middleware",
            "subtitle": "Chose JWT over session-based auth for API scalability",
            "narrative": "After evaluating both options, decided on JWT.",
            "facts": (
                "Chose JWT over session-based auth for statelessness",
                "Implemented refresh token rotation for security",
                "Added rate limiting to prevent brute force",
                "Used HS256 for simplicity",
            ),
            "concepts": ("JWT", "middleware", "refresh-token"),
            "files_modified": ("auth.ts",),
            "files_read": ("middleware/jwt.ts",),
        },
        {
            "id": "obs-fix789",
            "type": "bugfix",
            "title": "Fix ERR_AUTH_FAILED on expired authentication",
            "facts": ("The clock was compared in local time",),
            "concepts": ("clock",),
            "files_read": ("src/clock.ts",),
        },
    )
    save_observations(
        library,
        "session-def456",
        {
            "id": "obs-def456",
            "type": "pattern",
            "title": "OAuth2 integration pattern for authentication",
            "facts": ("Standardized OAuth2 flow across services", "Created shared auth library"),
            "concepts": ("OAuth2", "JWT"),
            "created_at": DAY - timedelta(days=16),
        },
    )
    return library


# -- search -------------------------------------------------------------------


@proves("C4-01", "C4-03")
@pytest.mark.every_state
@pytest.mark.every_store
def test_one_concept_finds_observations(memories: Library, agent: Memory) -> None:
    text = agent.text("search", query="JWT middleware")
    head, *_ = text.split("\n")
    assert head == "## Search Results (2 observations)"
    blocks = text.partition("\n\n")[2].split("\n\n---\n\n")
    assert len(blocks) == 2 and all(OBSERVATION_BLOCK.fullmatch(block) for block in blocks), text
    assert blocks[0].startswith(
        "### 1. [my-api] - 2025-12-01\n**ID:** obs-abc123\n**Type:** decision\n**Score:** "
    )
    assert (
        "**Title:** Implement JWT authentication middleware\n**Facts:**\n"
        "- Chose JWT over session-based auth" in text
    )


def without_descriptions(schema: Any) -> Any:
    if isinstance(schema, dict):
        rules = {name: without_descriptions(rule) for name, rule in schema.items()}
        return {name: rule for name, rule in rules.items() if name != "description"}
    if isinstance(schema, list):
        return [without_descriptions(rule) for rule in schema]
    return schema


def without_additions(parameters: dict[str, Any]) -> dict[str, Any]:
    rules = {name: rule for name, rule in parameters.items() if name not in OWN_PARAMETERS}
    if "response_format" in rules:
        *documented, own = rules["response_format"]["enum"]
        assert own == OWN_FORMAT
        rules["response_format"] = {"type": "string", "enum": documented}
    return rules


@proves("C4-02")
@pytest.mark.sqlite_only
def test_the_tools_take_the_documented_parameters(agent: Memory) -> None:
    for tools in (definitions(agent.catalog), definitions("all"), definitions("memory")):
        for name, parameters in PARAMETERS.items():
            schema = tools[name]["inputSchema"]
            assert without_additions(without_descriptions(schema["properties"])) == parameters
            assert schema["required"] == REQUIRED[name]
            assert schema["additionalProperties"] is False
            assert tools[name]["annotations"]["readOnlyHint"] is True


@proves("C4-02")
@pytest.mark.every_state
def test_parameters_have_the_documented_defaults(memories: Library, agent: Memory) -> None:
    observations = [{"id": f"obs-{n}", "title": f"Token number {n}"} for n in range(12)]
    save_observations(memories, "session-def456", *observations)
    defaults = {"mode": "both", "limit": 10, "response_format": "markdown"}
    text = agent.text("search", query="token")
    assert text == agent.text("search", query="token", **defaults)
    assert text.startswith("## Search Results (10 observations)")
    empty = dict.fromkeys(("after", "before", "projects", "types", "concepts", "files"))
    assert text == agent.text("search", query="token", **empty)
    path = "/my-api/session-abc123.jsonl"
    assert agent.text("read", path=path) == agent.text("read", path=path, startLine=1)


@proves("C4-04")
@pytest.mark.every_state
def test_a_listed_observation_is_short(library: Library, agent: Memory) -> None:
    converse(library, "s", "p", DAY, "question", "answer")
    facts = tuple(f"Fact {n} about tokens is long\nand goes on, {'word ' * 40}" for n in range(6))
    title = "Token {n} is\na title of about eighty characters that takes up two lines"
    observations = (
        {"id": f"obs-{n}", "title": title.format(n=n), "facts": facts} for n in range(9)
    )
    save_observations(library, "s", *observations)
    text = agent.text("search", query="tokens")
    blocks = text.partition("\n\n")[2].split("\n\n---\n\n")
    assert len(blocks) == 9
    for block in blocks:
        heading, fact_lines = block.split("\n**Facts:**\n")
        title_line = heading.splitlines()[-1].removeprefix("**Title:** ")
        assert re.fullmatch(r"Token \d is a title .* two lines", title_line)
        lines = [line.removeprefix("- ") for line in fact_lines.splitlines()]
        assert len(lines) == 1
        assert all(line.startswith("Fact") and line.endswith("…") for line in lines)
        assert count_tokens(title_line + "".join(lines)) <= 40


@proves("C4-05")
@pytest.mark.every_state
def test_text_mode_finds_exact_words_and_phrases(memories: Library, agent: Memory) -> None:
    for query, ids in {
        "err_auth_failed": ["obs-fix789"],
        "ERR_AUTH_FAILED": ["obs-fix789"],
        "SHARED auth LIBRARY": ["obs-def456"],
        '"shared auth library"': ["obs-def456"],
        "authentication clock": ["obs-fix789"],
        "clock authentication": ["obs-fix789"],
        '"authentication clock"': [],
        "hs256": ["obs-abc123"],
        "quagga": [],
    }.items():
        assert agent.ids(query, mode="text") == ids, query
    everything = ["obs-abc123", "obs-def456", "obs-fix789"]
    assert sorted(agent.ids("authentication", mode="text")) == everything
    for query in ("authentication quagga", "project:my-api authentication quagga"):
        assert agent.ids(query, mode="text") == []
        answer = agent.json(query=query, mode="text", types=["decision"])
        assert (answer["total"], answer["note"][:36]) == (0, "No text contains all of these words.")
        assert sorted(agent.ids(query))[:1] == everything[:1]


@proves("C4-05")
@pytest.mark.every_state
def test_both_is_the_default_mode_and_an_unknown_mode_is_refused(
    memories: Library, agent: Memory
) -> None:
    for query in ("authentication", "login security", "clock"):
        default = agent.text("search", query=query)
        assert default == agent.text("search", query=query, mode="both")
    error = agent.error_text("search", query="authentication", mode="psychic")
    assert error == "Invalid mode: 'psychic'. Allowed: both, vector, text."


MEANINGS = {
    "dog": ("obs-1", "Adopt a puppy from the shelter"),
    "automobile": ("obs-2", "Renew the insurance of the vehicle"),
    "musical instrument": ("obs-3", "Practise the violin every evening"),
    "dinner recipe": ("obs-4", "Cook the vegetables in broth"),
}


@proves("C4-06")
@pytest.mark.every_state(*WITH_VECTORS)
def test_vector_mode_finds_what_is_close_in_meaning(library: Library, agent: Memory) -> None:
    converse(library, "s", "p", DAY, "question", "answer")
    save_observations(
        library, "s", *({"id": id_, "title": title} for id_, title in MEANINGS.values())
    )
    for query, (id_, _) in MEANINGS.items():
        assert agent.ids(query, mode="vector")[0] == id_
        assert agent.ids(query, mode="both")[0] == id_
        assert agent.ids(query, mode="text") == []
        results = agent.json(query=query, mode="vector")["results"]
        scores = [result["score"] for result in results]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 1 for score in scores)


@proves("C4-06")
@pytest.mark.every_state("fresh", "sealed")
def test_vector_mode_without_vectors_says_how_to_make_them(
    memories: Library, agent: Memory
) -> None:
    agent.text("search", query="authentication")
    error = agent.error_text("search", query="authentication", mode="vector")
    assert error.startswith("There are no vectors to search yet.")


@proves("C4-07")
@pytest.mark.every_state
def test_the_limit_is_clamped(library: Library, agent: Memory) -> None:
    converse(library, "s", "p", DAY, "question", "answer")
    save_observations(
        library, "s", *({"id": f"obs-{n}", "title": f"Token number {n}"} for n in range(60))
    )
    sizes = [
        len(agent.ids("token", **limit))
        for limit in ({}, {"limit": 3}, {"limit": 0}, {"limit": 99})
    ]
    assert sizes == [10, 3, 1, 50]


@proves("C4-08")
@pytest.mark.every_state
def test_days_are_inclusive(memories: Library, agent: Memory) -> None:
    since_december = agent.ids("authentication", after="2025-12-01")
    assert since_december == agent.ids("authentication", after="2025-11-16")
    assert agent.ids("authentication", before="2025-11-15") == ["obs-def456"]
    assert agent.ids("authentication", after="2025-11-15", before="2025-11-15") == ["obs-def456"]
    concepts = ["JWT", "React Router"]
    assert "session-abc123" in agent.text("search", query=concepts, before="2025-12-01")
    text = agent.text("search", query=concepts, before="2025-11-30")
    assert text.startswith("No conversations found")


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@proves("C4-08")
@pytest.mark.usefixtures("in_tokyo")
def test_days_and_hours_are_local_in_text_and_utc_in_json(library: Library, agent: Memory) -> None:
    late = DAY.replace(hour=23)
    converse(library, "s", "p", late, "Which flour?", "Rye flour.")
    save_observations(library, "s", {"id": "obs-rye", "title": "Rye flour"})
    for zone, day, hour in (("", "02", "08"), ("Asia/Tokyo", "02", "08"), ("UTC", "01", "23")):
        arguments = {"query": "rye", "time_zone": zone}
        text = agent.text("search", after=f"2025-12-{day}", before=f"2025-12-{day}", **arguments)
        assert f"[p] - 2025-12-{day}\n**ID:** obs-rye" in text
        other_day = f"2025-12-{3 - int(day):02}"
        assert agent.ids(after=other_day, before=other_day, **arguments) == []
        assert agent.json(**arguments)["results"][0]["date"] == "2025-12-01"
        details = agent.text("get_observations", ids=["obs-rye"], time_zone=zone)
        assert f"[p, 2025-12-{day} {hour}:30]" in details
        assert f"2025-12-{day} {hour}:30" in agent.text(
            "timeline", anchor=f"2025-12-{day}", time_zone=zone
        )
        assert f"# Date: 2025-12-{day}" in agent.text("read", path="/p/s.jsonl", time_zone=zone)
    assert agent.error_text("search", query="rye", time_zone="Mars/Base").startswith("Unknown time")
    for day in ("0001-01-01", "9999-12-31"):
        assert agent.ids("rye", before=day) == (["obs-rye"] if day > "1" else [])


@proves("C4-09")
@pytest.mark.every_state
def test_projects_are_filtered_by_the_names_in_results(memories: Library, agent: Memory) -> None:
    assert agent.ids("authentication", projects=["auth-service"]) == ["obs-def456"]
    assert len(agent.ids("authentication", projects=["auth-service", "my-api"])) == 3
    assert agent.ids("authentication", projects=["/home/me/auth-service"]) == ["obs-def456"]
    concepts = ["JWT", "React Router"]
    assert "session-abc123" in agent.text("search", query=concepts, projects=["my-api"])
    text = agent.text("search", query=concepts, projects=["auth-service"])
    assert "No conversations" in text


@proves("C4-10")
@pytest.mark.every_state
def test_types_are_accepted_in_many_spellings(memories: Library, agent: Memory) -> None:
    for spelling in ("bugfix", "bug-fix", "Bug_Fix", "fix"):
        assert agent.ids("authentication", types=[spelling]) == ["obs-fix789"]
    assert sorted(agent.ids("authentication", types=["decision", "bug-fix"])) == [
        "obs-abc123",
        "obs-fix789",
    ]
    assert agent.error_text("search", query="ab", types=["poem"]).startswith("Unknown type: 'poem'")


@proves("C4-11")
@pytest.mark.every_state
def test_concepts_are_the_tags_of_an_observation(memories: Library, agent: Memory) -> None:
    assert agent.ids("authentication", concepts=["Middleware"]) == ["obs-abc123"]
    assert sorted(agent.ids("authentication", concepts=["jwt"])) == ["obs-abc123", "obs-def456"]
    assert agent.ids("authentication", concepts=["simplicity"]) == []


@proves("C4-12")
@pytest.mark.every_state
def test_files_are_those_read_modified_or_mentioned(memories: Library, agent: Memory) -> None:
    assert agent.ids("authentication", files=["auth.ts"]) == ["obs-abc123"]
    assert agent.ids("authentication", files=["jwt.ts"]) == ["obs-abc123"]
    assert agent.ids("authentication", files=["src/clock.ts"]) == ["obs-fix789"]
    save_observations(
        memories,
        "session-def456",
        {"id": "obs-m", "title": "Look at `lib/oauth.py` for authentication"},
    )
    assert agent.ids("authentication", files=["oauth.py"]) == ["obs-m"]


@proves("C4-13")
@pytest.mark.every_state
def test_all_filters_apply_together(memories: Library, agent: Memory) -> None:
    filters = {
        "types": ["decision", "bug-fix"],
        "concepts": ["JWT", "middleware"],
        "files": ["auth.ts"],
        "projects": ["my-api"],
        "after": "2025-12-01",
        "before": "2025-12-01",
    }
    assert agent.ids("authentication", limit=1, **filters) == ["obs-abc123"]
    for name, other in (
        ("types", ["pattern"]),
        ("concepts", ["clock"]),
        ("files", ["clock.ts"]),
        ("projects", ["auth-service"]),
        ("after", "2025-12-02"),
        ("before", "2025-11-30"),
    ):
        assert agent.ids("authentication", **{**filters, name: other}) == []


@proves("C4-14", "C4-15")
@pytest.mark.every_state
def test_an_array_finds_conversations_that_contain_all_concepts(
    memories: Library, agent: Memory
) -> None:
    text = agent.text("search", query=["React Router", "authentication", "JWT"])
    head, _, block = text.partition("\n\n")
    assert head == "## Search Results (1 conversation)"
    assert CONVERSATION_BLOCK.fullmatch(block), block
    assert "**Path:** `/my-api/session-abc123.jsonl`" in block
    assert "Summary: About session-abc123" in block
    assert agent.text("search", query=["React Router", "PKCE"]).startswith("No conversations found")


@proves("C4-16")
@pytest.mark.every_state
def test_json_has_results_and_total(memories: Library, agent: Memory) -> None:
    page = agent.answer("search", query="JWT middleware", response_format="json")
    assert page.keys() == {"results", "total"} and page["total"] == 2
    assert page["results"][0].keys() == {
        "id",
        "path",
        "project",
        "date",
        "type",
        "title",
        "facts",
        "concepts",
        "files",
        "score",
        "summary",
        "snippet",
    }
    page = agent.answer("search", query=["JWT", "React Router"], response_format="json")
    (result,) = page["results"]
    assert {"path", "project", "date", "score", "summary", "snippet"} <= result.keys()
    assert result["path"] == "/my-api/session-abc123.jsonl"
    assert (result["project"], result["date"]) == ("my-api", "2025-12-01")
    assert page["total"] == 1


NO_OBSERVATIONS = "No observations found matching your query."


@proves("C4-17")
@pytest.mark.every_state
def test_without_matches_the_answer_says_so(memories: Library, agent: Memory) -> None:
    for arguments in (
        {"query": "quagga zebra", "mode": "text"},
        {"query": "authentication", "projects": ["zoo"]},
        {"query": "authentication", "types": ["test"]},
        {"query": "authentication", "after": "2030-01-01"},
    ):
        assert agent.text("search", **arguments) == NO_OBSERVATIONS
        assert agent.results(**arguments) == ([], 0)
    concepts = ["quagga", "zebra"]
    text = agent.text("search", query=concepts)
    assert text == "No conversations found matching all concepts: quagga, zebra"
    assert agent.results(query=concepts) == ([], 0)


@proves("C4-17")
@pytest.mark.every_state
def test_unknown_words_find_nothing(memories: Library, agent: Memory) -> None:
    assert agent.text("search", query="quagga zebra") == NO_OBSERVATIONS
    assert agent.results(query="quagga zebra") == ([], 0)


@proves("C4-17")
@pytest.mark.parametrize("mode", ["both", "vector", "text"])
def test_nothing_is_found_in_a_fresh_library(library: Library, agent: Memory, mode: str) -> None:
    library.close()
    assert agent.text("search", query="castle", mode=mode).startswith("No observations found")
    assert agent.text("search", query=["castle", "moat"], mode=mode).startswith("No conversations")


@proves("C4-18")
@pytest.mark.every_state
@pytest.mark.parametrize("mode", ["both", "text"])
def test_exchanges_are_listed_if_no_observation_matches(
    library: Library, agent: Memory, mode: str
) -> None:
    question, answer = "What is a quagga?", "A kind of zebra, extinct since 1883."
    converse(library, "s1", "/home/me/zoo", DAY, "Good morning.", "Hello!", question, answer)
    note = "No observations found. Showing exchanges that match:"
    text = agent.text("search", query="quagga", mode=mode)
    assert text.startswith(f"{note}\n\n## Search Results (")
    block = re.search(
        r"^### 1\. \[zoo\] - 2025-12-01\n\*\*Path:\*\* `(/zoo/s1\.jsonl)` lines (\d+)-(\d+)\n"
        r"\*\*Score:\*\* \d\.\d\d\n\n(.*)",
        text,
        re.MULTILINE,
    )
    assert block is not None, text
    path, first, last = block[1], int(block[2]), int(block[3])
    assert block[4] == question
    lines = agent.text("read", path=path, startLine=first, endLine=last)
    assert question in lines
    assert answer in lines
    assert "Good morning." not in lines
    page = agent.json(query="quagga", mode=mode)
    result = page["results"][0]
    assert page["note"] == note
    assert (result["path"], result["project"], result["lines"]) == (path, "zoo", [first, last])
    assert result["snippet"] == question


@proves("C4-18")
@pytest.mark.every_state
def test_exchanges_are_not_listed_beside_observations_or_under_their_filters(
    memories: Library, agent: Memory
) -> None:
    assert "exchange" not in agent.text("search", query="authentication")
    for filters in ({"types": ["test"]}, {"concepts": ["zoo"]}, {"files": ["zoo.ts"]}):
        assert agent.text("search", query="React Router", **filters) == NO_OBSERVATIONS


@proves("C4-18")
@pytest.mark.every_state
@pytest.mark.every_store
def test_an_exchange_without_an_observation_is_listed_beside_observations(
    memories: Library, agent: Memory
) -> None:
    question = "Is the JWT middleware of the gateway safe?"
    converse(memories, "session-new", "/home/me/gateway", DAY, question, "Yes.")
    text = agent.text("search", query="JWT middleware gateway")
    head, _, entries = text.partition("\n\n")
    assert head == "## Search Results (2 observations and 1 exchange)"
    exchange, *observations = entries.split("\n\n---\n\n")
    assert CONVERSATION_BLOCK.fullmatch(exchange), exchange
    assert "**Path:** `/gateway/session-new.jsonl` lines " in exchange and question in exchange
    assert all(OBSERVATION_BLOCK.fullmatch(block) for block in observations)
    page = agent.json(query="JWT middleware gateway")
    assert [result.get("id") for result in page["results"]] == [None, "obs-abc123", "obs-def456"]
    assert page["total"] == 3


@proves("C4-36")
@pytest.mark.every_state
@pytest.mark.every_store
def test_a_word_of_a_message_finds_the_observation_of_the_message(
    memories: Library, agent: Memory
) -> None:
    results, total = agent.results(query="React Router")
    assert [result["id"] for result in results] == ["obs-abc123"] and total == 1
    assert "React Router" in results[0]["snippet"]
    text = agent.text("search", query="React Router")
    assert OBSERVATION_BLOCK.fullmatch(text.partition("\n\n")[2]), text
    assert "**Facts:**\n- Based on previous discussions, with React Router." in text


@proves("C4-37")
@pytest.mark.every_state
def test_compact_results_are_one_short_line_each(memories: Library, agent: Memory) -> None:
    converse(memories, "s", "p", DAY, f"{'The token is long. ' * 40}The end.", "Yes.")
    facts = tuple(f"The token has part {n}, {'word ' * 40}" for n in range(3))
    title = "A token with a title that takes much more than the room that there is in one line of "
    observations = [
        {"id": f"obs-{n}", "title": f"{title} {n} {'x ' * n}", "facts": facts[:n]} for n in range(4)
    ]
    save_observations(memories, "session-def456", *observations)
    text = agent.text("search", query="token", response_format="compact", limit=4)
    *lines, note = text.split("\n")
    assert len(lines) == 4
    for line in lines:
        assert count_tokens(line) <= 40
        assert re.match(
            r"(obs-\S+|/\S+\.jsonl:\d+-\d+) \d{4}-\d\d-\d\d [a-z]+: .*token", line, re.IGNORECASE
        )
    assert note == "[2 more. To list them: limit 6]"
    assert len(agent.text("search", query="token", response_format="compact").split("\n")) == 6
    for line in lines:
        assert "**Assistant:**" in agent.text("read", path=line.split(" ")[0])
    text = agent.text("search", query="quagga zebra", response_format="compact")
    first, *rest = text.split("\n")
    assert first == NO_OBSERVATIONS
    if rest:
        assert rest[0] == "Nearest in meaning, but not matches:" and len(rest) <= 4


# -- details ------------------------------------------------------------------


@proves("C4-19", "C4-21")
def test_details_have_the_documented_layout(memories: Library, agent: Memory) -> None:
    assert agent.text("get_observations", ids=["obs-abc123"]) == (
        "Retrieved 1 observation:\n\n"
        "## [my-api, 2025-12-01 14:30] - decision: Implement JWT authentication middleware\n\n"
        "**Chose JWT over session-based auth for API scalability**\n\n"
        "After evaluating both options, decided on JWT.\n\n"
        "**Facts:**\n- Chose JWT over session-based auth for statelessness\n"
        "- Implemented refresh token rotation for security\n"
        "- Added rate limiting to prevent brute force\n"
        "- Used HS256 for simplicity\n\n"
        "**Concepts:** `JWT`, `middleware`, `refresh-token`\n\n"
        "**Files:** `auth.ts`, `middleware/jwt.ts`\n\n"
        "**Source:** `/my-api/session-abc123.jsonl` lines 5-12"
    )


@proves("C4-20")
def test_details_are_in_the_order_of_the_ids(memories: Library, agent: Memory) -> None:
    text = agent.text("get_observations", ids=["obs-def456", "obs-abc123", "obs-fix789"])
    assert text.startswith(
        "Retrieved 3 observations:\n\n## [auth-service, 2025-11-15 14:30] - pattern: OAuth2"
    )
    types = re.findall(r"^## \[.*?\] - (\w+)", text, re.MULTILINE)
    assert types == ["pattern", "decision", "bugfix"]
    assert text.count("\n\n---\n\n") == 2
    assert agent.text("get_observations", ids=["obs-abc123"] * 20).startswith(
        "Retrieved 20 observations:"
    )


@proves("C4-39")
def test_details_repeat_no_sentence(memories: Library, agent: Memory) -> None:
    save_observations(
        memories,
        "session-def456",
        {
            "id": "obs-r",
            "title": "Rotate the refresh tokens",
            "subtitle": "A stolen token is noticed at the next…",
            "narrative": "Rotate the refresh tokens.\n"
            "A stolen token is noticed at the next refresh. The cookie stays.",
            "facts": (
                "Rotate the refresh tokens",
                "A stolen token is noticed",
                "The limit is 30 days",
                "the limit is 30 days.",
                "Ran `npm test`: passed",
            ),
        },
    )
    text = agent.text("get_observations", ids=["obs-r"])
    assert text.partition("\n\n")[2] == (
        "## [auth-service, 2025-11-15 14:30] - decision: Rotate the refresh tokens\n\n"
        "A stolen token is noticed at the next refresh. The cookie stays.\n\n"
        "**Facts:**\n- The limit is 30 days\n- Ran `npm test`: passed\n\n"
        "**Source:** `/auth-service/session-def456.jsonl` lines 5-12"
    )


# -- reading ------------------------------------------------------------------


@proves("C4-22")
def test_a_conversation_is_read_exchange_by_exchange(memories: Library, agent: Memory) -> None:
    text = agent.text("read", path="/my-api/session-abc123.jsonl")
    assert re.match(
        r"# Conversation: .+\n# Project: .+\n# Date: 2025-12-01\n\n"
        r"## Exchange 1\n\n\*\*User:\*\*\n",
        text,
    )
    assert (
        "## Exchange 2\n\n**User:**\nWhat about JWT tokens?\n\n"
        "**Assistant:**\nBased on previous discussions"
    ) in text
    assert text.count("\n\n---\n\n") == 1


@proves("C4-23")
def test_lines_are_counted_from_one(memories: Library, agent: Memory) -> None:
    path = "/my-api/session-abc123.jsonl"
    lines = agent.text("read", path=path).split("\n")
    for first, last in ((1, 1), (3, 8), (8, len(lines)), (2, len(lines) + 9)):
        text = agent.text("read", path=path, startLine=first, endLine=last)
        assert text == "\n".join(lines[first - 1 : last])
    assert agent.text("read", path=path, startLine=6) == "\n".join(lines[5:])


@proves("C4-38")
def test_reading_folds_results_of_tools_and_stops_at_the_budget(
    library: Library, agent: Memory
) -> None:
    call = {"role": "assistant", "type": "tool_call", "tool": "Read"}
    result = {"role": "tool", "type": "tool_result", "tool": "Read"}
    source = "\n".join(f"line {n}" for n in range(62))
    answer = "\n".join(f"Step {n}: {'word ' * 20}" for n in range(200))
    messages = [
        {"id": "m0", "role": "user", "content": "What does the server do?"},
        {"id": "m1", "content": "file_path: src/server.ts", **call},
        {"id": "m2", "content": source, **result},
        {"id": "m3", "role": "assistant", "content": answer},
    ]
    library.add_conversation("s1", "Server", project="p", created_at=DAY, messages=messages)
    save_observations(library, "s1", {"id": "obs-1", "title": "Server", "passages": ("m0", "m2")})
    text = agent.text("read", path="/p/s1.jsonl")
    assert "\n\n[Read src/server.ts, 62 lines]\n\n**Assistant:**\nStep 0: " in text
    assert 1_900 < count_tokens(text) <= 2_000
    start = int(text.rpartition("startLine ")[2].rstrip("]"))
    more = agent.text("read", path="/p/s1.jsonl", startLine=start, max_tokens=500)
    assert more.startswith("Step ") and count_tokens(more) <= 500
    whole = agent.text("read", path="/p/s1.jsonl", tool_results=True, max_tokens=20_000)
    assert "line 61" in whole and "Step 199" in whole
    assert whole.split("\n")[start - 1] == more.split("\n")[0]
    text = agent.text("read", path="obs-1")
    assert "What does the server do?" in text and "Step 0" not in text
    error = agent.error_text("read", path="obs-none")
    assert error == "Invalid observation ID: obs-none"


@proves("C4-24", "C4-29")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../etc/passwd", "/my-api/session-zzz.jsonl", "", "library.db"]
)
def test_files_outside_the_library_cannot_be_read(
    memories: Library, agent: Memory, path: str
) -> None:
    assert agent.error_text("read", path=path) == f"File not found: {path}"


# -- errors -------------------------------------------------------------------


@proves("C4-25", "C4-26")
def test_an_invalid_query_is_an_error(memories: Library, agent: Memory) -> None:
    for query in (7, None, {"a": 1}, ["ab", 7], True):
        assert agent.error_text("search", query=query) == "Query must be string or array"
    assert agent.error_text("search") == "Query must be string or array"
    assert agent.error_text("search", query="x") == "Query must be at least 2 characters"
    for array in ([], ["one"], ["two"] * 6):
        assert agent.error_text("search", query=array).startswith("Query array must have 2-5 items")
    assert "at least 2 concepts" in agent.error_text("search", query=["one"])
    assert "more than 5 concepts" in agent.error_text("search", query=["two"] * 6)
    assert "Unknown argument: 'user'" in agent.error_text("search", query="ab", user="ann")


@proves("C4-27")
@pytest.mark.parametrize("name", ["after", "before"])
def test_an_invalid_date_is_an_error(memories: Library, agent: Memory, name: str) -> None:
    for date in ("tomorrow", "2025-12-1", "2025-02-30", "01.12.2025", "2025-12-01T00:00:00Z"):
        error = agent.error_text("search", query="ab", **{name: date})
        assert error == f"Invalid date format: {name} is {date!r}. Use YYYY-MM-DD"


@proves("C4-28")
def test_an_unknown_id_is_an_error(memories: Library, agent: Memory) -> None:
    error = agent.error_text("get_observations", ids=["obs-nope", "obs-abc123", "obs-neither"])
    assert error == "Invalid observation ID: obs-nope, obs-neither"
    assert agent.error_text("get_observations", ids=[]) == "Must provide at least 1 observation ID"
    error = agent.error_text("get_observations", ids=["obs-abc123"] * 21)
    assert error == "Cannot get more than 20 observations at once"


@proves("C4-30")
def test_a_range_outside_the_conversation_is_an_error(memories: Library, agent: Memory) -> None:
    path = "/my-api/session-abc123.jsonl"
    total = agent.text("read", path=path).count("\n") + 1
    for range_ in ({"startLine": 0}, {"startLine": 5, "endLine": 4}, {"startLine": total + 1}):
        error = agent.error_text("read", path=path, **range_)
        assert error.startswith("Invalid line range: ") and f"{total} lines" in error
    assert agent.error_text("read", path=path, startLine="soon").startswith(
        "Invalid line range: startLine"
    )


# -- the three layers ---------------------------------------------------------


@proves("C4-31", "C4-32")
def test_each_layer_leads_to_the_next(
    library: Library, agent: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL", raising=False)
    monkeypatch.delenv("RECOLLECT_OBSERVER")
    converse(
        library,
        "s1",
        "/home/me/garden",
        DAY,
        "We decided to prune the roses in March because frost kills the new shoots.",
        "Noted: pruning in March. The root cause of last year's loss was frost in February.",
        "ok",
        "Fine.",
    )
    library.index()
    ids = agent.ids("prune roses")
    details = agent.text("get_observations", ids=ids[:20])
    facts = re.findall(r"^- (.+)$", details, re.MULTILINE)
    path, first, last = re.findall(r"\*\*Source:\*\* `(\S+)` lines (\d+)-(\d+)", details)[0]
    text = agent.text("read", path=path, startLine=int(first), endLine=int(last))
    assert "We decided to prune the roses in March" in text
    assert facts and all(fact.rstrip("….") in agent.text("read", path=path) for fact in facts)


SECRET = "We decided that the vault code of the numbat is 7261, because the quokka knows it."


@pytest.fixture
def secret(library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A conversation with a human-only message, observed by the rules."""
    monkeypatch.delenv("RECOLLECT_OBSERVER")
    converse(library, "s1", "p", DAY, "We decided to feed the wombat at noon.", "Noted.")
    message = {"visibility": "human_only", "created_at": DAY}
    library.add_message("s1", "user", SECRET, id="x", **message)
    library.index()
    return library


@proves("C4-33")
@pytest.mark.every_state
@pytest.mark.parametrize("setting", ["", "hide"])
def test_agents_find_no_word_of_a_human_only_message(
    secret: Library, agent: Memory, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", setting)
    (document,) = (d for d in secret.documents(Filter.of(kinds=["observation"])))
    assert any("wombat" in passage.content for passage in document.passages)
    assert not any("numbat" in passage.content for passage in document.passages)
    for query in ("numbat vault", "7261", "quokka", "decided", "vault code", '"the numbat"'):
        for mode in ("both", "text"):
            for answer in (
                agent.text("search", query=query, mode=mode),
                json.dumps(agent.json(query=query, mode=mode)),
            ):
                assert not re.search("numbat|7261|quokka|vault", answer), query
    for concepts in (["numbat", "wombat"], ["quokka", "noon"]):
        expected = f"No conversations found matching all concepts: {', '.join(concepts)}"
        assert agent.text("search", query=concepts) == expected
    for text in (
        agent.text("get_observations", ids=agent.ids("wombat")),
        agent.text("timeline", anchor="2025-12-01"),
    ):
        assert "wombat" in text
        assert not re.search("numbat|7261|quokka|vault", text)


@proves("C4-33")
def test_read_shows_a_placeholder_to_agents_and_everything_to_people(
    secret: Library, agent: Memory, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/p/s1.jsonl"
    text = agent.text("read", path=path)
    assert MASK in text
    assert "7261" not in text
    person = Memory(place, "memory", agent=False)
    assert SECRET in person.text("read", path=path)
    assert SECRET[:40] in person.text("search", query="numbat vault", mode="text")
    person.close()
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    text = agent.text("read", path=path)
    assert "wombat" in text
    assert MASK not in text
    assert "7261" not in text


@proves("C4-34")
def test_a_timeline_lists_what_was_observed_around_an_anchor(
    memories: Library, agent: Memory
) -> None:
    text = agent.text("timeline", anchor="obs-abc123", before=1, after=1)
    assert text == (
        "## Timeline (3 observations)\n\n"
        "- 2025-11-15 14:30 [auth-service] pattern obs-def456: "
        "OAuth2 integration pattern for authentication\n"
        "→ 2025-12-01 14:30 [my-api] decision obs-abc123: "
        "Implement JWT authentication middleware\n"
        "- 2025-12-01 14:30 [my-api] bugfix obs-fix789: "
        "Fix ERR_AUTH_FAILED on expired authentication"
    )
    assert agent.text("timeline", anchor="2025-11-30", after=0).count("obs-") == 1
    assert agent.error_text("timeline", anchor="soon").startswith("Invalid anchor")


@proves("C4-35")
@pytest.mark.every_state
def test_forgotten_memories_are_deleted(memories: Library, agent: Memory) -> None:
    preview = agent.text("forget", ids=["obs-fix789"])
    assert preview.startswith("This would delete 1 observation, for good:\n- obs-fix789")
    assert "confirm" in preview
    text = agent.text("forget", ids=["obs-fix789"], confirm=True)
    assert text.startswith("Forgot 1 observation, for good:")
    error = agent.error_text("get_observations", ids=["obs-fix789"])
    assert error == "Invalid observation ID: obs-fix789"
    text = agent.text("forget", ids=["obs-def456"], scope="conversation", confirm=True)
    assert text.startswith("Forgot 1 conversation with 2 messages and 1 observation, for good:")
    error = agent.error_text("read", path="/auth-service/session-def456.jsonl")
    assert error.startswith("File not found")
    text = agent.text("forget", project="my-api", before="2025-11-30", confirm=True)
    assert text.startswith("Nothing matches")
    text = agent.text("forget", project="my-api", confirm=True)
    assert text.startswith("Forgot 1 conversation with 4 messages")
    assert agent.text("search", query="authentication") == NO_OBSERVATIONS
