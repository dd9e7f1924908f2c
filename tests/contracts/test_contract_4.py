"""Contract 4, the memory of conversations: every promise of the page, through the tools, on every store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clauses import proves
from tool_calls import Caller

from recollect.library import Library
from recollect.manage import observing
from recollect.model import MASK, Observation, Passage
from recollect.serve.mcp.catalog import Catalog

DAY = datetime(2025, 12, 1, 14, 30, tzinfo=UTC)
PARAMETERS = {
    "search": {
        "query",
        "mode",
        "limit",
        "after",
        "before",
        "projects",
        "types",
        "concepts",
        "files",
        "response_format",
    },
    "get_observations": {"ids"},
    "read": {"path", "startLine", "endLine"},
}
LISTED = re.compile(
    r"### \d+\. \[[^\]]+\] - \d{4}-\d\d-\d\d\n\*\*ID:\*\* obs-\S+\n\*\*Type:\*\* [a-z]+\n\*\*Score:\*\* \d\.\d\d\n\n"
    r"\*\*Title:\*\* .+(?:\n\*\*Facts:\*\*(?:\n- .+)+)?"
)
CONVERSATION = re.compile(
    r"### \d+\. \[[^\]]+\] - \d{4}-\d\d-\d\d\n\*\*Path:\*\* `/\S+\.jsonl`(?: lines \d+-\d+)?\n"
    r"\*\*Score:\*\* \d\.\d\d\n\n(?:.+\n?)+"
)


class Memory(Caller):
    """The three tools, and what they say as text."""

    def told(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, arguments)
        assert result["isError"] is False, result
        (content,) = result["content"]
        assert content["type"] == "text"
        text: str = content["text"]
        return text

    def refused(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, arguments)
        assert result["isError"] is True, result
        (content,) = result["content"]
        text: str = content["text"]
        return text

    def ids(self, query: Any, **arguments: Any) -> list[str]:
        return re.findall(
            r"^\*\*ID:\*\* (\S+)$", self.told("search", query=query, **arguments), re.MULTILINE
        )


@pytest.fixture
def agent(place: str) -> Iterator[Memory]:
    caller = Memory(place, "memory")
    yield caller
    caller.close()


def talk(library: Library, id_: str, namespace: str, at: datetime, *said: str) -> None:
    roles = ("user", "assistant")
    library.add_conversation(
        id_,
        f"About {id_}",
        namespace=namespace,
        created_at=at,
        messages=[
            {
                "id": f"{id_}-{n}",
                "role": roles[n % 2],
                "content": text,
                "created_at": at + timedelta(minutes=n),
            }
            for n, text in enumerate(said)
        ],
    )


def keep(library: Library, conversation: str, *observations: dict[str, Any]) -> None:
    document = library.conversation(conversation)
    made = [
        Observation(
            **{
                "type": "decision",
                "conversation": conversation,
                "project": document.namespace,
                "lines": (5, 12),
                "passages": tuple(p.id for p in document.passages[:2]),
                "created_at": document.created_at,
                **given,
            }
        )
        for given in observations
    ]
    library.store.observe(conversation, document.version, observing.as_document(document, made))


@pytest.fixture
def world(library: Library) -> Library:
    """The contract's example: decisions about authentication in two projects."""
    talk(
        library,
        "session-abc123",
        "/home/me/my-api",
        DAY,
        "How should I implement authentication?",
        "Let me search for past authentication patterns...",
        "What about JWT tokens?",
        "Based on previous discussions, with React Router.",
    )
    talk(
        library,
        "session-def456",
        "/home/me/auth-service",
        DAY - timedelta(days=16),
        "Which flow do we take?",
        "OAuth2, with PKCE.",
    )
    keep(
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
    keep(
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


# -- search --------------------------------------------------------------------


@proves("C4-01", "C4-03")
def test_one_concept_finds_observations(world: Library, agent: Memory) -> None:
    text = agent.told("search", query="JWT middleware")
    head, *_ = text.split("\n")
    assert head == "## Search Results (2 observations)"
    blocks = text.partition("\n\n")[2].split("\n\n---\n\n")
    assert len(blocks) == 2 and all(LISTED.fullmatch(block) for block in blocks), text
    assert blocks[0].startswith(
        "### 1. [my-api] - 2025-12-01\n**ID:** obs-abc123\n**Type:** decision\n**Score:** "
    )
    assert (
        "**Title:** Implement JWT authentication middleware\n**Facts:**\n- Chose JWT over session-based auth"
        in text
    )


@proves("C4-02")
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_tools_take_what_the_contract_says(agent: Memory) -> None:
    listed = {tool["name"]: tool for tool in agent.catalog.listing()}
    for name, parameters in PARAMETERS.items():
        assert listed[name]["inputSchema"]["properties"].keys() == parameters
        assert listed[name]["annotations"]["readOnlyHint"] is True
    assert listed["search"]["inputSchema"]["required"] == ["query"]
    assert PARAMETERS.keys() <= {tool["name"] for tool in Catalog().listing()}
    assert PARAMETERS.keys() <= {tool["name"] for tool in Catalog("memory").listing()}


@proves("C4-04")
def test_a_listed_observation_is_short(library: Library, agent: Memory) -> None:
    talk(library, "s", "p", DAY, "question", "answer")
    facts = tuple(
        f"Fact {n} about tokens is a long sentence that goes on and on, {'word ' * 40}"
        for n in range(6)
    )
    keep(
        library,
        "s",
        *(
            {"id": f"obs-{n}", "title": f"Token {n} " + "title " * 11, "facts": facts}
            for n in range(10)
        ),
    )
    text = agent.told("search", query="tokens")
    assert text.count("**ID:**") == 10
    assert len(text) / 4 / 10 < 110  # the contract's labels are half of it


@proves("C4-05")
def test_words_are_found_as_they_are(world: Library, agent: Memory) -> None:
    assert agent.ids("err_auth_failed", mode="text") == ["obs-fix789"]
    assert agent.ids('"shared auth library"', mode="text") == ["obs-def456"]
    assert agent.ids("authentication clock", mode="text") == ["obs-fix789"]
    assert len(agent.ids("authentication quagga", mode="text")) == 3
    assert agent.ids("authentication") == agent.ids("authentication", mode="both")
    assert "mode" in agent.refused("search", query="authentication", mode="psychic")


@proves("C4-06")
def test_meaning_finds_what_words_do_not(
    world: Library, agent: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    world.index()
    found = json.loads(
        agent.told("search", query="login security", mode="vector", response_format="json")
    )["results"]
    scores = [result["score"] for result in found]
    assert found and scores == sorted(scores, reverse=True) and len(set(scores)) == len(scores)


@proves("C4-07")
def test_the_limit_is_clamped(library: Library, agent: Memory) -> None:
    talk(library, "s", "p", DAY, "question", "answer")
    keep(library, "s", *({"id": f"obs-{n}", "title": f"Token number {n}"} for n in range(60)))
    sizes = [
        len(agent.ids("token", **given))
        for given in ({}, {"limit": 3}, {"limit": 0}, {"limit": 99})
    ]
    assert sizes == [10, 3, 1, 50]


@proves("C4-08")
def test_days_are_inclusive(world: Library, agent: Memory) -> None:
    assert agent.ids("authentication", after="2025-12-01") == agent.ids(
        "authentication", after="2025-11-16"
    )
    assert agent.ids("authentication", before="2025-11-15") == ["obs-def456"]
    assert agent.ids("authentication", after="2025-11-15", before="2025-11-15") == ["obs-def456"]
    assert "session-abc123" in agent.told(
        "search", query=["JWT", "React Router"], before="2025-12-01"
    )
    assert agent.told("search", query=["JWT", "React Router"], before="2025-11-30").startswith(
        "No conversations found"
    )


@proves("C4-09")
def test_projects_are_named_as_results_name_them(world: Library, agent: Memory) -> None:
    assert agent.ids("authentication", projects=["auth-service"]) == ["obs-def456"]
    assert len(agent.ids("authentication", projects=["auth-service", "my-api"])) == 3
    assert agent.ids("authentication", projects=["/home/me/auth-service"]) == ["obs-def456"]
    assert "session-abc123" in agent.told(
        "search", query=["JWT", "React Router"], projects=["my-api"]
    )
    assert "No conversations" in agent.told(
        "search", query=["JWT", "React Router"], projects=["auth-service"]
    )


@proves("C4-10")
def test_types_are_accepted_in_many_spellings(world: Library, agent: Memory) -> None:
    for spelling in ("bugfix", "bug-fix", "Bug_Fix", "fix"):
        assert agent.ids("authentication", types=[spelling]) == ["obs-fix789"]
    assert sorted(agent.ids("authentication", types=["decision", "bug-fix"])) == [
        "obs-abc123",
        "obs-fix789",
    ]
    assert agent.refused("search", query="ab", types=["poem"]).startswith("Unknown type: 'poem'")


@proves("C4-11")
def test_concepts_are_those_an_observation_is_tagged_with(world: Library, agent: Memory) -> None:
    assert agent.ids("authentication", concepts=["Middleware"]) == ["obs-abc123"]
    assert sorted(agent.ids("authentication", concepts=["jwt"])) == ["obs-abc123", "obs-def456"]
    assert agent.ids("authentication", concepts=["simplicity"]) == []


@proves("C4-12")
def test_files_are_those_read_modified_or_mentioned(world: Library, agent: Memory) -> None:
    assert agent.ids("authentication", files=["auth.ts"]) == ["obs-abc123"]
    assert agent.ids("authentication", files=["jwt.ts"]) == ["obs-abc123"]
    assert agent.ids("authentication", files=["src/clock.ts"]) == ["obs-fix789"]
    keep(
        world,
        "session-def456",
        {"id": "obs-m", "title": "Look at `lib/oauth.py` for authentication"},
    )
    assert agent.ids("authentication", files=["oauth.py"]) == ["obs-m"]


@pytest.mark.both_stores
@proves("C4-13")
def test_all_filters_hold_together(world: Library, agent: Memory) -> None:
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
def test_an_array_finds_conversations_that_have_it_all(world: Library, agent: Memory) -> None:
    text = agent.told("search", query=["React Router", "authentication", "JWT"])
    head, _, block = text.partition("\n\n")
    assert head == "## Search Results (1 conversation)"
    assert CONVERSATION.fullmatch(block), block
    assert (
        "**Path:** `/my-api/session-abc123.jsonl`" in block
        and "Summary: About session-abc123" in block
    )
    assert agent.told("search", query=["React Router", "PKCE"]).startswith("No conversations found")


@proves("C4-16")
def test_programs_get_json(world: Library, agent: Memory) -> None:
    found = agent.answer("search", query="JWT middleware", response_format="json")
    assert found.keys() == {"results", "total"} and found["total"] == 2
    assert found["results"][0].keys() == {
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
    found = agent.answer("search", query=["JWT", "React Router"], response_format="json")
    (result,) = found["results"]
    assert {"path", "project", "date", "score", "summary", "snippet"} <= result.keys()
    assert (result["path"], result["project"], result["date"], found["total"]) == (
        "/my-api/session-abc123.jsonl",
        "my-api",
        "2025-12-01",
        1,
    )


@proves("C4-17")
def test_nothing_found_is_said(world: Library, agent: Memory) -> None:
    assert (
        agent.told("search", query="quagga zebra") == "No observations found matching your query."
    )
    text = agent.told("search", query=["quagga", "zebra"])
    assert text == "No conversations found matching all concepts: quagga, zebra"


@proves("C4-18")
def test_exchanges_are_shown_where_nothing_was_observed(library: Library, agent: Memory) -> None:
    talk(
        library,
        "s1",
        "/home/me/zoo",
        DAY,
        "What is a quagga?",
        "A kind of zebra, extinct since 1883.",
    )
    text = agent.told("search", query="quagga")
    first, _, rest = text.partition("\n\n")
    assert first == "No observations found. Showing exchanges that match:"
    assert rest.startswith(
        "## Search Results (1 exchange)\n\n### 1. [zoo] - 2025-12-01\n**Path:** `/zoo/s1.jsonl` lines "
    )
    found = agent.answer("search", query="quagga", response_format="json")
    assert (
        found["note"].startswith("No observations found.")
        and found["results"][0]["path"] == "/zoo/s1.jsonl"
    )


# -- details -------------------------------------------------------------------


@proves("C4-19", "C4-21")
def test_details_are_told_as_in_the_contract(world: Library, agent: Memory) -> None:
    assert agent.told("get_observations", ids=["obs-abc123"]) == (
        "Retrieved 1 observation:\n\n"
        "## [my-api, 2025-12-01 14:30] - decision: Implement JWT authentication middleware\n\n"
        "**Chose JWT over session-based auth for API scalability**\n\n"
        "After evaluating both options, decided on JWT.\n\n"
        "**Facts:**\n- Chose JWT over session-based auth for statelessness\n"
        "- Implemented refresh token rotation for security\n- Added rate limiting to prevent brute force\n"
        "- Used HS256 for simplicity\n\n"
        "**Concepts:** `JWT`, `middleware`, `refresh-token`\n\n"
        "**Files:** `auth.ts`, `middleware/jwt.ts`\n\n"
        "**Source:** `/my-api/session-abc123.jsonl` lines 5-12"
    )


@proves("C4-20")
def test_details_come_in_the_order_asked(world: Library, agent: Memory) -> None:
    text = agent.told("get_observations", ids=["obs-def456", "obs-abc123", "obs-fix789"])
    assert text.startswith(
        "Retrieved 3 observations:\n\n## [auth-service, 2025-11-15 14:30] - pattern: OAuth2"
    )
    assert re.findall(r"^## \[.*?\] - (\w+)", text, re.MULTILINE) == [
        "pattern",
        "decision",
        "bugfix",
    ]
    assert text.count("\n\n---\n\n") == 2
    assert agent.told("get_observations", ids=["obs-abc123"] * 20).startswith(
        "Retrieved 20 observations:"
    )


# -- reading -------------------------------------------------------------------


@proves("C4-22")
def test_a_conversation_is_told_exchange_by_exchange(world: Library, agent: Memory) -> None:
    text = agent.told("read", path="/my-api/session-abc123.jsonl")
    assert re.match(
        r"# Conversation: .+\n# Project: .+\n# Date: 2025-12-01\n\n## Exchange 1\n\n\*\*User:\*\*\n",
        text,
    )
    second = "## Exchange 2\n\n**User:**\nWhat about JWT tokens?\n\n**Assistant:**\nBased on previous discussions"
    assert second in text
    assert text.count("\n\n---\n\n") == 1


@proves("C4-23")
def test_lines_are_counted_from_one(world: Library, agent: Memory) -> None:
    path = "/my-api/session-abc123.jsonl"
    lines = agent.told("read", path=path).split("\n")
    for first, last in ((1, 1), (3, 8), (8, len(lines)), (2, len(lines) + 9)):
        assert agent.told("read", path=path, startLine=first, endLine=last) == "\n".join(
            lines[first - 1 : last]
        )
    assert agent.told("read", path=path, startLine=6) == "\n".join(lines[5:])


@proves("C4-24", "C4-29")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../etc/passwd", "/my-api/session-zzz.jsonl", "", "library.db"]
)
def test_no_file_can_be_read(world: Library, agent: Memory, path: str) -> None:
    assert agent.refused("read", path=path) == f"File not found: {path}"


# -- errors --------------------------------------------------------------------


@proves("C4-25", "C4-26")
def test_a_query_must_be_one(world: Library, agent: Memory) -> None:
    wrong: list[Any] = [7, None, {"a": 1}, ["ab", 7], True]
    for query in wrong:
        assert agent.refused("search", query=query) == "Query must be string or array"
    assert agent.refused("search") == "Query must be string or array"
    assert agent.refused("search", query="x") == "Query must be at least 2 characters"
    for array in ([], ["one"], ["two"] * 6):
        assert agent.refused("search", query=array).startswith("Query array must have 2-5 items")
    assert "at least 2 concepts" in agent.refused("search", query=["one"])
    assert "more than 5 concepts" in agent.refused("search", query=["two"] * 6)
    assert "Unknown argument: 'user'" in agent.refused("search", query="ab", user="ann")


@proves("C4-27")
@pytest.mark.parametrize("name", ["after", "before"])
def test_a_date_must_be_one(world: Library, agent: Memory, name: str) -> None:
    for date in ("tomorrow", "2025-12-1", "2025-02-30", "01.12.2025", "2025-12-01T00:00:00Z"):
        error = agent.refused("search", query="ab", **{name: date})
        assert error == f"Invalid date format: {name} is {date!r}. Use YYYY-MM-DD"


@proves("C4-28")
def test_an_id_must_exist(world: Library, agent: Memory) -> None:
    error = agent.refused("get_observations", ids=["obs-nope", "obs-abc123", "obs-neither"])
    assert error == "Invalid observation ID: obs-nope, obs-neither"
    assert agent.refused("get_observations", ids=[]) == "Must provide at least 1 observation ID"
    assert (
        agent.refused("get_observations", ids=["obs-abc123"] * 21)
        == "Cannot get more than 20 observations at once"
    )


@proves("C4-30")
def test_a_range_must_be_in_the_conversation(world: Library, agent: Memory) -> None:
    path = "/my-api/session-abc123.jsonl"
    total = agent.told("read", path=path).count("\n") + 1
    for range_ in ({"startLine": 0}, {"startLine": 5, "endLine": 4}, {"startLine": total + 1}):
        error = agent.refused("read", path=path, **range_)
        assert error.startswith("Invalid line range: ") and f"{total} lines" in error
    assert agent.refused("read", path=path, startLine="soon").startswith(
        "Invalid line range: startLine"
    )


# -- the three layers ------------------------------------------------------------


@proves("C4-31", "C4-32")
def test_each_layer_leads_to_the_next(
    library: Library, agent: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL", raising=False)
    talk(
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
    details = agent.told("get_observations", ids=ids[:20])
    facts = re.findall(r"^- (.+)$", details, re.MULTILINE)
    path, first, last = re.findall(r"\*\*Source:\*\* `(\S+)` lines (\d+)-(\d+)", details)[0]
    text = agent.told("read", path=path, startLine=int(first), endLine=int(last))
    assert "We decided to prune the roses in March" in text
    assert facts and all(fact.rstrip("….") in agent.told("read", path=path) for fact in facts)


@proves("C4-33")
def test_what_only_people_may_see_stays_unseen(
    library: Library, agent: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(library, "s1", "p", DAY, "We decided to feed the wombat at noon.", "Noted.")
    secret = "We decided that the vault code of the numbat is 7261."
    library.store.append(
        "s1", Passage("x", "user", secret, visibility="human_only", created_at=DAY)
    )
    library.index()
    for query in ("numbat vault", "decided"):
        assert "7261" not in agent.told("search", query=query, response_format="json")
    assert "numbat" not in agent.told("search", query=["numbat", "wombat"]).partition(":")[0]
    text = agent.told("read", path="/p/s1.jsonl")
    assert MASK in text and "7261" not in text
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    assert MASK not in agent.told("read", path="/p/s1.jsonl")


@proves("C4-34")
def test_what_happened_around(world: Library, agent: Memory) -> None:
    text = agent.told("timeline", anchor="obs-abc123", before=1, after=1)
    assert text == (
        "## Timeline (3 observations)\n\n"
        "- 2025-11-15 14:30 [auth-service] pattern obs-def456: OAuth2 integration pattern for authentication\n"
        "→ 2025-12-01 14:30 [my-api] decision obs-abc123: Implement JWT authentication middleware\n"
        "- 2025-12-01 14:30 [my-api] bugfix obs-fix789: Fix ERR_AUTH_FAILED on expired authentication"
    )
    assert agent.told("timeline", anchor="2025-11-30", after=0).count("obs-") == 1
    assert agent.refused("timeline", anchor="soon").startswith("Invalid anchor")


@proves("C4-35")
def test_what_is_forgotten_is_gone(world: Library, agent: Memory) -> None:
    preview = agent.told("forget", ids=["obs-fix789"])
    assert (
        preview.startswith("This would delete 1 observation, for good:\n- obs-fix789")
        and "confirm" in preview
    )
    assert agent.told("forget", ids=["obs-fix789"], confirm=True).startswith(
        "Forgot 1 observation, for good:"
    )
    assert (
        agent.refused("get_observations", ids=["obs-fix789"])
        == "Invalid observation ID: obs-fix789"
    )
    text = agent.told("forget", ids=["obs-def456"], scope="conversation", confirm=True)
    assert text.startswith("Forgot 1 conversation with 2 messages and 1 observation, for good:")
    assert agent.refused("read", path="/auth-service/session-def456.jsonl").startswith(
        "File not found"
    )
    assert agent.told("forget", project="my-api", before="2025-11-30", confirm=True).startswith(
        "Nothing matches"
    )
    assert agent.told("forget", project="my-api", confirm=True).startswith(
        "Forgot 1 conversation with 4 messages"
    )
    assert (
        agent.told("search", query="authentication") == "No observations found matching your query."
    )
