"""The Memory API in Python: search, details, reading conversations, timelines and deletion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memories import (
    MASK,
    Audience,
    ConversationHit,
    MemoryResults,
    ObservationHit,
    observe_all,
    save_observations,
    search_json,
    search_text,
)

import recollect
from recollect import Library
from recollect.errors import InvalidInput, NotFound

DAY = datetime(2025, 12, 1, 14, 30, tzinfo=UTC)
SECRET = "the wombat code is 7261"


def add_conversation(
    library: Library,
    id_: str = "s1",
    project: str = "/home/me/my-api",
    at: datetime = DAY,
    *more: str,
) -> None:
    """Add a conversation of two exchanges without observations."""
    texts = [
        ("user", "How should I implement authentication?"),
        ("assistant", f"JWT, as in {id_}.\nIt needs no state."),
        ("user", "What about refresh tokens?"),
        ("assistant", "Rotate them on every use."),
    ]
    texts += [("user", text) for text in more]
    library.add_conversation(
        id_,
        f"Talk {id_}",
        project=project,
        created_at=at,
        messages=[
            {
                "id": f"{id_}-{n}",
                "role": role,
                "content": text,
                "created_at": at + timedelta(minutes=n),
            }
            for n, (role, text) in enumerate(texts)
        ],
    )


@pytest.fixture
def world(library: Library) -> Library:
    """Three conversations in two projects, with five observations."""
    add_conversation(library, "s1")
    add_conversation(library, "s2", "/home/me/auth-service", DAY - timedelta(days=16))
    add_conversation(library, "s3", "/home/me/my-api", DAY - timedelta(days=60))
    save_observations(
        library,
        "s1",
        {
            "id": "obs-1",
            "title": "Use JWT for authentication",
            "facts": ("Chose JWT over sessions",),
            "concepts": ("JWT", "Rate-Limiting"),
            "files_modified": ("/home/me/my-api/src/auth.ts",),
        },
        {
            "id": "obs-2",
            "type": "bugfix",
            "title": "Fix the token check",
            "facts": ("The clock was wrong",),
            "concepts": ("clock skew",),
            "files_read": ("/home/me/my-api/src/token.ts",),
        },
    )
    save_observations(
        library,
        "s2",
        {
            "id": "obs-3",
            "type": "pattern",
            "title": "OAuth2 and token exchange",
            "facts": ("One library for all",),
            "concepts": ("JWT middleware",),
            "files_modified": ("lib/auth.tsx",),
        },
        {"id": "obs-4", "title": "Keep the token in a cookie", "concepts": ("cookies",)},
    )
    save_observations(
        library, "s3", {"id": "obs-5", "type": "learning", "title": "A token has three parts"}
    )
    return library


def ids(results: MemoryResults) -> list[str]:
    return sorted(hit.observation.id for hit in results.observations)


# -- search --------------------------------------------------------------------


def test_queries_may_have_operators_fields_and_punctuation(world: Library) -> None:
    assert ids(world.memory.search("token before:2025-11-01")) == ["obs-5"]
    assert ids(world.memory.search('"token check" OR cookie')) == ["obs-2", "obs-4"]
    assert world.memory.search("!!").observations == ()
    assert ids(world.memory.search("after:2025-12-01", concepts=["clock skew"])) == ["obs-2"]


def add_log(library: Library, id_: str, *, is_observed: bool) -> None:
    """Add a conversation of which one message contains identifiers, and no observation does."""
    library.add_conversation(
        id_,
        "Login",
        project="/home/me/my-api",
        created_at=DAY,
        messages=[
            {"id": "q", "role": "user", "content": "Why can nobody sign in?"},
            {
                "id": "a",
                "role": "assistant",
                "content": "The log says ERR_AUTH_FAILED since 2026-03-05, with Python 3.12.7.",
            },
        ],
    )
    if is_observed:
        observation = {"id": "obs-log", "type": "bugfix", "title": "The clock of the host was slow"}
        save_observations(library, id_, observation)


@pytest.fixture(params=["without vectors", "with vectors"])
def has_vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")  # keeps the observations of a test
    return bool(request.param == "with vectors")


@pytest.mark.both_stores
def test_observations_and_exchanges_are_ranked_together(world: Library, has_vectors: bool) -> None:
    add_conversation(world, "s4", "/home/me/my-api", DAY, "The token check of the gateway is slow.")
    if has_vectors:
        world.index()
    results = world.memory.search("token check gateway")
    assert results.kind == "mixed" and len(results.hits) == results.total
    first = results.hits[0]
    assert isinstance(first, ConversationHit) and "gateway" in first.snippets[0]
    assert "obs-2" in ids(results)
    scores = [hit.score for hit in results.hits]
    assert scores == sorted(scores, reverse=True)
    observations, exchanges = len(results.observations), len(results.conversations)
    text = search_text(results, "token check gateway")
    assert text.startswith(
        f"## Search Results ({observations} observations and {exchanges} exchanges)\n\n"
        "### 1. [my-api] - 2025-12-01\n**Path:** `/my-api/s4.jsonl` lines "
    )
    assert "**ID:** obs-2\n**Type:** bugfix\n" in text
    entries = search_json(results)["results"]
    assert [("id" in entry) for entry in entries] == [
        isinstance(hit, ObservationHit) for hit in results.hits
    ]


def test_of_several_observations_of_a_message_the_best_match_is_listed(library: Library) -> None:
    add_conversation(library, "s1", "p", DAY, "The zebra has the code 4711.")
    save_observations(
        library,
        "s1",
        {"id": "obs-a", "title": "Nothing of the kind"},
        {"id": "obs-z", "title": "The zebra is back"},
    )
    results = library.memory.search("zebra 4711")
    assert ids(results) == ["obs-z"]


@pytest.mark.both_stores
def test_beyond_the_limit_the_total_is_a_lower_bound(library: Library) -> None:
    """The observations of all conversations would have to be read to tell the results apart."""
    for n in range(20):
        add_conversation(library, f"s{n}", "p", DAY, f"Zebra {n}.", f"Zebra {n} again.")
        if n % 2:
            save_observations(library, f"s{n}", {"id": f"obs-{n}", "title": f"Stripes {n}"})
    results = library.memory.search("zebra", limit=3)
    assert len(results.hits) == 3
    assert not results.is_exact and 20 <= results.total <= 30
    assert search_json(results)["exact"] is False
    results = library.memory.search("zebra", limit=50)
    assert results.total == len(results.hits) == 30 and results.is_exact
    assert "exact" not in search_json(results)


def test_words_that_occur_nowhere_find_nothing_but_the_nearest_are_kept_apart(
    world: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.memory.search("xyzzyplugh").nearest == ()
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    world.index()
    results = world.memory.search("xyzzyplugh")
    assert (results.kind, results.hits, results.total) == ("observations", (), 0)
    assert 0 < len(results.nearest) <= 3
    assert search_text(results, "xyzzyplugh") == "No observations found matching your query."
    answer = search_json(results)
    assert answer["results"] == [] and answer["total"] == 0
    assert len(answer["nearest"]) == len(results.nearest)


@pytest.mark.both_stores
def test_a_human_only_message_does_not_lead_agents_to_its_observation(
    library: Library, has_vectors: bool
) -> None:
    add_conversation(library)
    library._store.append(
        "s1", recollect.Passage("p", "user", SECRET, visibility="human_only", created_at=DAY)
    )
    save_observations(library, "s1", {"id": "obs-1", "title": "Use JWT for authentication"})
    if has_vectors:
        library.index()
    (hit,) = library.memory.search("wombat", audience=Audience.PERSON).observations
    assert SECRET in hit.quote
    for audience in (Audience.AGENT_MASKED, Audience.AGENT_HIDDEN):
        for mode in ("both", "text"):
            results = library.memory.search("wombat", mode=mode, audience=audience)
            assert (results.hits, results.total, results.note) == ((), 0, "")
            assert "wombat" not in str(results)
        results = library.memory.search("JWT authentication", audience=audience)
        assert ids(results) == ["obs-1"] and "wombat" not in str(results)


@pytest.mark.both_stores
def test_filters_of_observations_keep_the_nearest_and_the_unrelated_apart(
    world: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    world.index()
    types = ["decision"]
    for query in ("xyzzyplugh", "which broker do the drones of the fleet use?"):
        results = world.memory.search(query, types=types)
        assert (results.hits, results.total) == ((), 0), query
        assert 0 < len(results.nearest) <= 3
        assert "unrelated" not in results.note
    note = world.memory.search("xyzzyplugh", types=types).note
    assert note == "No observation mentions “xyzzyplugh”."
    add_log(world, "log", is_observed=False)
    assert world.memory.search("nobody", types=types).note == "No observation mentions “nobody”."


def test_a_note_says_why_a_filter_finds_nothing(world: Library) -> None:
    def note(**filters: Any) -> str:
        results = world.memory.search("token", **filters)
        assert (results.hits, results.total) == ((), 0)
        return results.note

    projects = "is in a project named “my-apo”. Projects: /home/me/my-api, /home/me/auth-service."
    assert note(projects=["my-apo"]) == f"Nothing {projects}"
    assert note(projects=["my-apo"], types=["bugfix"]) == f"No observation {projects}"
    reversed_dates = "Nothing is both after 2025-12-03 and before 2025-12-01."
    assert note(after="2025-12-03", before="2025-12-01") == reversed_dates
    # There are observations with the word, and a type is not a role.
    assert note(files=["nowhere.ts"]) == note(concepts=["nothing"]) == note(types=["test"]) == ""


def test_several_concepts_also_find_conversations_that_say_them_in_other_words(
    library: Library,
) -> None:
    for id_, *texts in (
        ("pool", "How many database connections should each worker get?", "Seven of them."),
        ("cake", "Which flour do I need for a sponge cake?", "Any soft wheat flour."),
    ):
        library.add_conversation(id_, messages=[{"role": "user", "content": t} for t in texts])
    library.index()

    def paths(*concepts: str, mode: str = "both") -> list[str]:
        return [hit.path for hit in library.memory.search(concepts, mode=mode).conversations]

    concepts = ("connection pool", "worker count")
    assert paths(*concepts) == paths(*concepts, mode="vector") == ["/default/pool.jsonl"]
    assert paths(*concepts, mode="text") == []
    assert paths("connection pool", "sponge cake") == paths("graphql federation", "PKCE") == []
    assert paths("flour", "sponge") == ["/default/cake.jsonl"]


# -- details -------------------------------------------------------------------


# -- reading -------------------------------------------------------------------


def test_a_line_that_was_cut_is_read_with_the_budget_that_the_answer_names(
    library: Library,
) -> None:
    add_conversation(library, "s1", "p", DAY, "x" * 5_000, "y" * 200_000)

    def read(line: int, max_tokens: int) -> tuple[str, int]:
        text = library.memory.read("/p/s1.jsonl", line, line, max_tokens=max_tokens)
        text, _, note = text.partition("\n\n[")
        return text, int(note.partition("max_tokens ")[2].rstrip(".]") or 0)

    lines = library.memory.read("/p/s1.jsonl", max_tokens=25_000).split("\n")
    line = lines.index("x" * 5_000) + 1
    text, needed = read(line, 2_000 // 4)
    assert len(text) < 2_000 and text.endswith("x…")
    assert read(line, needed - 1)[0].endswith("…")
    assert read(line, needed) == ("x" * 5_000, 0)
    assert read(line + 7, 500)[1] == 25_000
    assert read(line + 7, 25_000) == ("y" * 99_759 + "…", 0)


def add_session(library: Library) -> None:
    """Add a coding session whose tools return much."""
    log = "\n".join(f"ok {n}" for n in range(40))
    source = "\n".join(f"line {n} of the server" for n in range(62))
    messages: list[dict[str, Any]] = [
        {"id": "m0", "role": "user", "content": "Why does the server not start?"},
        tool_call("m1", "Read", "file_path: /home/me/my-api/src/server.ts"),
        tool_result("m2", "Read", source),
        {"id": "m3", "role": "assistant", "content": "The port is wrong. I run the tests."},
        tool_call("m4", "Bash", "command: npm test\ndescription: Run all tests"),
        tool_result("m5", "Bash", log),
        {"id": "m6", "role": "assistant", "content": "They pass with port 8080."},
        {"id": "m7", "role": "user", "content": "Thanks."},
    ]
    library.add_conversation(
        "code", "Server", project="/home/me/my-api", created_at=DAY, messages=messages
    )


def tool_call(id_: str, tool: str, content: str) -> dict[str, Any]:
    return {"id": id_, "role": "assistant", "type": "tool_call", "tool": tool, "content": content}


def tool_result(id_: str, tool: str, content: str) -> dict[str, Any]:
    return {"id": id_, "role": "tool", "type": "tool_result", "tool": tool, "content": content}


SESSION = "/my-api/code.jsonl"


def test_lines_are_those_of_the_full_text_with_and_without_results_of_tools(
    library: Library,
) -> None:
    add_session(library)
    lines = library.memory.read(SESSION, tool_results=True).split("\n")
    answer = lines.index("They pass with port 8080.") + 1
    for tool_results in (False, True):
        text = library.memory.read(SESSION, answer, answer, tool_results=tool_results)
        assert text == "They pass with port 8080."
    inside = lines.index("line 30 of the server") + 1
    text = library.memory.read(SESSION, inside, inside + 1)
    assert text.startswith("[Read src/server.ts, 62 lines]\n\n[Tool results are omitted.")
    text = library.memory.read(SESSION, inside, inside + 1, tool_results=True)
    assert text == "line 30 of the server\nline 31 of the server"


def test_the_label_of_a_result_does_not_repeat_a_human_only_call(library: Library) -> None:
    call = {**tool_call("m1", "Bash", f"command: {SECRET}"), "visibility": "human_only"}
    messages = [
        {"id": "m0", "role": "user", "content": "Go on."},
        call,
        tool_result("m2", "Bash", "done"),
    ]
    library.add_conversation("s1", "Secret", project="p", messages=messages)
    text = library.memory.read("/p/s1.jsonl", audience=Audience.AGENT_MASKED)
    assert "[Result, 1 line]" in text and MASK in text and "wombat" not in text
    text = library.memory.read("/p/s1.jsonl", audience=Audience.AGENT_HIDDEN)
    assert "[Bash, 1 line]" in text and "wombat" not in text
    assert f"[Bash {SECRET}, 1 line]" in library.memory.read("/p/s1.jsonl")


# -- timeline ------------------------------------------------------------------


def timeline(library: Library, anchor: str, **options: Any) -> tuple[list[str], int | None]:
    hits, index = library.memory.timeline(anchor, **options)
    return [hit.observation.id for hit in hits], index


def test_a_timeline_reaches_over_years_without_observations(library: Library) -> None:
    for year in (1990, 2005, 2025):
        add_conversation(library, f"c{year}", at=DAY.replace(year=year))
        save_observations(library, f"c{year}", {"id": f"obs-{year}", "title": f"Year {year}"})
    ids = ["obs-1990", "obs-2005", "obs-2025"]
    assert timeline(library, "obs-2005") == (ids, 1)
    assert timeline(library, "obs-2005", before=0) == (ids[1:], 0)
    assert timeline(library, "obs-2005", after=0) == (ids[:2], 1)
    assert timeline(library, "2015-01-01") == (ids, None)


def test_an_invalid_anchor_is_an_error(library: Library) -> None:
    add_conversation(library)
    save_observations(library, "s1", {"id": "obs-1", "title": "Undated", "created_at": None})
    for anchor, error in (
        ("obs-9", "Invalid observation ID"),
        ("soon", "Invalid anchor"),
        ("obs-1", "no date"),
    ):
        with pytest.raises(InvalidInput, match=error):
            library.memory.timeline(anchor)


# -- deletion ------------------------------------------------------------------


def conversation_ids(library: Library) -> list[str]:
    return sorted(summary.id for summary in library.conversation_page()[0])


def test_nothing_is_deleted_without_confirm(world: Library) -> None:
    deletion = world.memory.forget(["obs-1"], conversations=True)
    assert [summary.id for summary in deletion.conversations] == ["s1"]
    assert (deletion.message_count, deletion.observation_count) == (4, 2)
    (hit,) = world.memory.forget(["obs-1"]).observations
    assert hit.observation.id == "obs-1"
    assert conversation_ids(world) == ["s1", "s2", "s3"] and world.memory.get(["obs-1"])


def observation_ids(library: Library, *queries: str) -> set[str]:
    return {
        hit.observation.id for query in queries for hit in library.memory.search(query).observations
    }


def test_a_deleted_observation_is_never_made_again(library: Library) -> None:
    library.add_conversation(
        "s1",
        "Roses",
        messages=[
            {
                "id": "a",
                "role": "user",
                "content": "We decided to prune the roses in March because of frost.",
            },
            {
                "id": "b",
                "role": "user",
                "content": "I always water the tomatoes in the morning, never at night.",
            },
        ],
    )
    observe_all(library)
    before = observation_ids(library, "roses", "tomatoes")
    deleted_id = library.memory.search("roses").observations[0].observation.id
    library.memory.forget([deleted_id], confirm=True)
    with pytest.raises(InvalidInput, match="Invalid observation ID"):
        library.memory.get([deleted_id])
    library.add_message("s1", "assistant", "Noted.")
    document = library.conversation("s1")
    library._store.save(
        [
            recollect.Document(
                document.source,
                "s1",
                "Roses again",
                updated_at=datetime.now(UTC) + timedelta(days=1),
                passages=document.passages,
            )
        ]
    )
    assert observe_all(library) == 1
    library._store.reset_observations()
    assert observe_all(library) == 1
    after = observation_ids(library, "roses", "tomatoes")
    assert deleted_id not in after and before - {deleted_id} <= after
    assert "We decided to prune" in library.memory.read("/default/s1.jsonl")


def test_a_conversation_is_deleted_with_its_observations(world: Library) -> None:
    world.memory.forget(["obs-1"], conversations=True, confirm=True)
    assert conversation_ids(world) == ["s2", "s3"]
    assert ids(world.memory.search("token")) == ["obs-3", "obs-4", "obs-5"]
    world.memory.forget(path="/x/s2.jsonl", confirm=True)
    assert conversation_ids(world) == ["s3"]
    with pytest.raises(NotFound):
        world.memory.forget(path="/x/s2.jsonl", confirm=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"project": "my-api"}, ["s2"]),
        ({"project": "my-api", "after": "2025-11-01"}, ["s2", "s3"]),
        ({"before": "2025-11-15"}, ["s1"]),
        ({"after": "2025-11-15"}, ["s3"]),
        ({"project": "unheard-of"}, ["s1", "s2", "s3"]),
        ({"after": "2026-01-01"}, ["s1", "s2", "s3"]),
    ],
)
def test_conversations_are_deleted_by_project_and_days(
    world: Library, options: dict[str, Any], expected: Sequence[str]
) -> None:
    world.memory.forget(confirm=True, **options)
    assert conversation_ids(world) == expected


@pytest.mark.both_stores
def test_the_preview_of_a_project_counts_all_of_many_conversations(
    library: Library,
) -> None:
    names = [f"c{number}" for number in range(7)] + ["long" * 200]
    for number, name in enumerate(names):
        add_conversation(library, name, at=DAY - timedelta(days=number % 2))
        if number != 2:
            titles = ("Use JWT", "Rotate tokens")[: 1 + number % 2]
            rows = [{"id": f"obs-{number}-{title}", "title": title} for title in titles]
            save_observations(library, library.conversation(name).id, *rows)
    add_conversation(library, "undated", project="/home/me/other")
    deletion = library.memory.forget(project="my-api")
    assert len(deletion.conversations) == len(names)
    assert (deletion.message_count, deletion.observation_count) == (4 * len(names), 11)
    times = [summary.updated_at for summary in deletion.conversations]
    assert times == sorted(times, key=str, reverse=True)
    assert conversation_ids(library)[-1] == "undated"


def test_a_conversation_that_continues_after_the_days_is_kept(world: Library) -> None:
    world.add_message("s2", "user", "Much later.", created_at="2025-11-20T00:00:00+00:00")
    world.update_conversation("s3", "Renamed today")
    world.memory.forget(before="2025-11-15", confirm=True)
    assert conversation_ids(world) == ["s1", "s2"]
