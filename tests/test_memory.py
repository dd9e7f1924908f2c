"""The Memory API in Python: search, details, reading conversations, timelines and deletion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.errors import InvalidInput, NotFound
from recollect.language.text import storable
from recollect.library import Library
from recollect.memory import api, backlog
from recollect.memory.names import conversation_id, conversation_path, file_name, project_name
from recollect.memory.observe import as_document, conversation_text
from recollect.memory.render import FACTS_LENGTH, search_text, top_facts
from recollect.memory.request_filters import MemoryFilter
from recollect.memory.results import MemoryResults, ObservationHit
from recollect.model.audience import MASK, Audience
from recollect.model.observations import Observation

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


def save_observations(library: Library, conversation: str, *observations: dict[str, Any]) -> None:
    """Store these observations of a conversation."""
    document = library.conversation(conversation)
    rows = [
        Observation(
            **{
                "type": "decision",
                "conversation": conversation,
                "project": document.project,
                "lines": (7, 12),
                "passages": tuple(p.id for p in document.passages[:2]),
                "created_at": document.created_at,
                **fields,
            }
        )
        for fields in observations
    ]
    library._store.save_observations(conversation, document.version, as_document(document, rows))


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


def test_a_search_finds_observations_only(world: Library) -> None:
    results = world.memory.search("token")
    assert (results.kind, ids(results), results.total) == (
        "observations",
        ["obs-2", "obs-3", "obs-4", "obs-5"],
        4,
    )
    assert {hit.kind for hit in world.search("token").hits} == {"conversation"}
    first = world.memory.search("JWT authentication").observations[0]
    assert (first.observation.id, first.path, first.observation.conversation) == (
        "obs-1",
        "/my-api/s1.jsonl",
        "s1",
    )
    assert 0 < first.score <= 1


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"types": ["bug-fix"]}, ["obs-2"]),
        ({"types": ["Bug_Fix", "learning"]}, ["obs-2", "obs-5"]),
        ({"projects": ["my-api"]}, ["obs-2", "obs-5"]),
        ({"projects": ["My-API"]}, ["obs-2", "obs-5"]),
        ({"projects": ["/home/me/auth-service"]}, ["obs-3", "obs-4"]),
        ({"projects": ["other"]}, []),
        ({"after": "2025-12-01"}, ["obs-2"]),
        ({"before": "2025-12-01"}, ["obs-2", "obs-3", "obs-4", "obs-5"]),
        ({"before": "2025-11-30"}, ["obs-3", "obs-4", "obs-5"]),
        ({"after": "2025-11-15", "before": "2025-11-15"}, ["obs-3", "obs-4"]),
        ({"concepts": ["jwt"]}, ["obs-3"]),
        ({"concepts": ["JWT", "Clock  Skew"]}, ["obs-2", "obs-3"]),
        ({"concepts": ["JW"]}, []),
        ({"concepts": ["++"]}, []),
        ({"files": ["token.ts"]}, ["obs-2"]),
        ({"files": ["src"]}, ["obs-2"]),
        ({"files": ["src/token"]}, ["obs-2"]),
        ({"files": ["/home/me/my-api/src/token.ts"]}, ["obs-2"]),
        ({"files": ["/elsewhere/lib/auth.tsx"]}, ["obs-3"]),
        ({"files": ["auth.ts"]}, []),
        ({"files": ["auth.ts", "AUTH.TSX"]}, ["obs-3"]),
        (
            {
                "files": ["lib/auth.tsx"],
                "types": ["pattern"],
                "concepts": ["jwt"],
                "projects": ["auth-service"],
                "after": "2025-11-01",
                "before": "2025-11-30",
            },
            ["obs-3"],
        ),
        ({"files": ["lib/auth.tsx"], "types": ["bugfix"]}, []),
    ],
)
def test_every_filter_is_applied(
    world: Library, filters: dict[str, Any], expected: list[str]
) -> None:
    results = world.memory.search("token", MemoryFilter(**filters))
    if results.kind == "observations":
        assert (ids(results), results.total) == (expected, len(expected))
    else:
        assert not expected


def test_filters_are_applied_before_the_limit(library: Library) -> None:
    add_conversation(library)
    rare = {n: ("rare",) for n in range(0, 700, 100)}
    save_observations(
        library,
        "s1",
        *(
            {"id": f"obs-{n}", "title": f"Token {n}", "concepts": rare.get(n, ())}
            for n in range(700)
        ),
    )
    results = library.memory.search("token", MemoryFilter(concepts=["rare"]), limit=3)
    assert (len(results.observations), results.total) == (3, 7)
    assert library.memory.search("token").total == 700


def test_vector_search_finds_observations_without_the_words_and_applies_filters(
    world: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")  # keeps the observations of this test
    world.index()
    results = world.memory.search("login security", mode="vector")
    assert results.kind == "observations" and results.observations
    filters = MemoryFilter(concepts=["cookies"])
    assert ids(world.memory.search("login security", filters, mode="vector")) == ["obs-4"]


def test_vector_search_without_vectors_is_an_error(world: Library) -> None:
    with pytest.raises(InvalidInput, match="vectors"):
        world.memory.search("token", mode="vector")


def test_queries_may_have_operators_fields_and_punctuation(world: Library) -> None:
    assert ids(world.memory.search("token before:2025-11-01")) == ["obs-5"]
    assert ids(world.memory.search('"token check" OR cookie')) == ["obs-2", "obs-4"]
    assert world.memory.search("!!").observations == ()
    assert ids(world.memory.search("after:2025-12-01", MemoryFilter(concepts=["clock skew"]))) == [
        "obs-2"
    ]


def test_exchanges_are_found_where_nothing_was_observed(library: Library) -> None:
    add_conversation(library, "s1")
    add_conversation(library, "s2", "/home/me/other", DAY - timedelta(days=3))
    results = library.memory.search("refresh tokens", MemoryFilter(projects=["my-api"]))
    assert (results.kind, results.observations) == ("exchanges", ())
    ((path, project, title, _, _, snippets, lines),) = results.conversations
    assert (path, project, title) == ("/my-api/s1.jsonl", "my-api", "Talk s1")
    assert "refresh tokens" in snippets[0]
    assert lines is not None
    text = library.memory.read(path, *lines)
    assert text.startswith("## Exchange 2\n") and text.endswith("Rotate them on every use.")
    early = MemoryFilter(before="2025-11-01")
    assert library.memory.search("refresh tokens", early).kind == "observations"
    bugfixes = MemoryFilter(types=["bugfix"])
    assert library.memory.search("refresh tokens", bugfixes).total == 0
    assert library.memory.search("quagga").conversations == ()


def test_several_concepts_find_conversations_that_contain_all_of_them(world: Library) -> None:
    add_conversation(world, "s4", "/home/me/my-api", DAY, "And a zebra.")
    results = world.memory.search(["zebra", "rotate"])
    assert (results.kind, [hit.path for hit in results.conversations], results.total) == (
        "conversations",
        ["/my-api/s4.jsonl"],
        1,
    )
    assert results.conversations[0].lines is not None
    for filters in (MemoryFilter(projects=["auth-service"]), MemoryFilter(before="2025-11-30")):
        assert world.memory.search(["zebra", "rotate"], filters).conversations == ()
    with pytest.raises(InvalidInput, match="must be a string"):
        world.memory.search(["zebra", "rotate"], MemoryFilter(types=["bugfix"]))


@pytest.mark.parametrize(
    ("query", "filters", "error"),
    [
        ("x", {}, "Query must be at least 2 characters"),
        ("  x ", {}, "Query must be at least 2 characters"),
        (["ab", "x"], {}, "Query must be at least 2 characters"),
        (
            ["ab"],
            {},
            "Query array must have 2-5 items. "
            "Must provide at least 2 concepts for multi-concept search",
        ),
        (
            ["ab"] * 6,
            {},
            "Query array must have 2-5 items. Cannot search more than 5 concepts at once",
        ),
        (7, {}, "Query must be string or array"),
        (["ab", 7], {}, "Query must be string or array"),
        ("ab", {"after": "yesterday"}, "Invalid date format: after is 'yesterday'. Use YYYY-MM-DD"),
        (
            "ab",
            {"before": "2025-13-01"},
            "Invalid date format: before is '2025-13-01'. Use YYYY-MM-DD",
        ),
        ("ab", {"before": "2025-12-01T10:00:00"}, "Invalid date format"),
        ("ab", {"types": ["poem"]}, "Unknown type: 'poem'. Types: decision, bugfix"),
    ],
)
def test_invalid_searches_are_errors(
    library: Library, query: Any, filters: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        library.memory.search(query, MemoryFilter(**filters))
    assert str(raised.value).startswith(error)


def test_an_unknown_mode_is_an_error(library: Library) -> None:
    with pytest.raises(InvalidInput, match=r"^mode: 'psychic' is not one of both, text, vector"):
        library.memory.search("ab", mode="psychic")


# -- details -------------------------------------------------------------------


def test_details_come_in_the_order_of_the_ids(world: Library) -> None:
    hits = world.memory.get(["obs-4", "obs-1", "obs-3", "obs-1"], audience=Audience.AGENT_MASKED)
    assert [hit.observation.id for hit in hits] == ["obs-4", "obs-1", "obs-3", "obs-1"]
    observation = hits[1].observation
    assert (observation.title, observation.facts, observation.concepts) == (
        "Use JWT for authentication",
        ("Chose JWT over sessions",),
        ("JWT", "Rate-Limiting"),
    )
    assert (observation.project, observation.conversation) == ("/home/me/my-api", "s1")
    assert (observation.created_at, observation.lines) == (DAY, (7, 12))


def test_the_error_names_all_unknown_ids(world: Library) -> None:
    with pytest.raises(InvalidInput, match=r"^Invalid observation ID: obs-9, s1-0$"):
        world.memory.get(["obs-1", "obs-9", "s1-0"])
    for bad_ids, error in (
        ([], "at least 1 observation ID"),
        (["obs-1"] * 21, "more than 20 observations at once"),
    ):
        with pytest.raises(InvalidInput, match=error):
            world.memory.get(bad_ids)


def test_observations_made_by_rules_point_to_their_messages(
    library: Library,
) -> None:
    library.add_conversation(
        "s1",
        "Roses",
        project="/home/me/garden",
        messages=[
            {
                "role": "user",
                "content": "We decided to prune the roses in March because frost kills the shoots.",
            },
            {
                "role": "assistant",
                "content": "Noted: pruning in March. The reason is late frost in February.",
            },
        ],
    )
    assert backlog.catch_up(library._store) == 1
    (first, *_) = library.memory.search(
        "prune roses", MemoryFilter(types=["decision"])
    ).observations
    (hit,) = library.memory.get([first.observation.id])
    text = library.memory.read(hit.path, *hit.observation.lines)
    assert "We decided to prune the roses in March" in text


# -- reading -------------------------------------------------------------------


def test_a_conversation_is_read_whole_or_by_lines(world: Library) -> None:
    text = world.memory.read("/my-api/s1.jsonl")
    lines = text.split("\n")
    assert lines[0] == "# Conversation: Talk s1" and lines[2] == "# Date: 2025-12-01"
    for start, end in ((1, 1), (5, 9), (3, len(lines)), (len(lines), len(lines) + 50)):
        assert world.memory.read("/my-api/s1.jsonl", start, end) == "\n".join(
            lines[start - 1 : end]
        )
    assert world.memory.read("/my-api/s1.jsonl", 4) == "\n".join(lines[3:])


def test_an_invalid_line_range_is_an_error_with_the_number_of_lines(world: Library) -> None:
    total = world.memory.read("/my-api/s1.jsonl").count("\n") + 1
    for start, end in ((0, None), (-3, 5), (5, 4), (total + 1, None)):
        with pytest.raises(InvalidInput, match=f"^Invalid line range: .*{total} lines"):
            world.memory.read("/my-api/s1.jsonl", start, end)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "s1",
        "s1.jsonl",
        "/my-api/s1",
        "/my-api/s9.jsonl",
        "/etc/passwd",
        "/my-api/../s1.jsonl",
        "../s1.jsonl",
        "/my-api/s1.jsonl/",
        "//s1.jsonl",
        "/my-api/.jsonl",
        "/my-api/observations:s1.jsonl",
        "/my-api/n1.jsonl",
        "/my-api/s1%2e.jsonl",
        "/my-api/%00.jsonl",
        "/home/me/.claude/projects/x/s1.jsonl",
        "/my-api/\ud800.jsonl",
    ],
)
def test_only_paths_of_conversations_are_read(world: Library, path: str) -> None:
    world.knowledge.create("notes", {"title": "n1", "content": "no conversation"})
    with pytest.raises(NotFound, match=r"^File not found: "):
        world.memory.read(path)


def test_a_long_conversation_is_read_in_parts(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_READ_LENGTH", 300)
    add_conversation(
        library, "s1", "p", DAY, *(f"Line {n} of the long tale." for n in range(40)), "x" * 1_000
    )
    whole = ""
    calls = 0
    start = 1
    while True:
        text = library.memory.read("/p/s1.jsonl", start)
        text, _, more = text.partition("\n\n[Lines ")
        assert len(text) <= 300
        whole += text + "\n"
        calls += 1
        if not more:
            break
        start = int(more.rpartition("startLine ")[2].rstrip("]"))
    assert "Line 39 of the long tale." in whole and calls > 3
    assert whole.count("Line 7 of") == 1


def test_human_only_messages_are_masked_hidden_or_shown(library: Library) -> None:
    add_conversation(library)
    library._store.append(
        "s1", recollect.Passage("p", "user", SECRET, visibility="human_only", created_at=DAY)
    )
    library.add_message("s1", "assistant", "That stays between us.", id="last")
    path = "/my-api/s1.jsonl"
    masked = library.memory.read(path, audience=Audience.AGENT_MASKED)
    assert MASK in masked and SECRET not in masked
    hidden = library.memory.read(path, audience=Audience.AGENT_HIDDEN)
    assert MASK not in hidden and SECRET not in hidden and "between us" in hidden
    assert SECRET in library.memory.read(path, audience=Audience.PERSON)
    assert library.memory.search("wombat", audience=Audience.PERSON).conversations
    for audience in (Audience.AGENT_MASKED, Audience.AGENT_HIDDEN):
        assert not library.memory.search("wombat", audience=audience).conversations
        assert not library.memory.search(["wombat", "rotate"], audience=audience).conversations
    lines = conversation_text(library.conversation("s1")).span(("last",))
    save_observations(
        library, "s1", {"id": "obs-1", "title": "Between us", "passages": ("last",), "lines": lines}
    )
    for audience in Audience:
        (hit,) = library.memory.get(["obs-1"], audience=audience)
        text = library.memory.read(hit.path, *hit.observation.lines, audience=audience)
        assert "between us" in text


# -- names ---------------------------------------------------------------------


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_every_id_can_be_read_back_from_its_path(project: str, id_: str) -> None:
    path = conversation_path(project, id_)
    assert path.isprintable() and "`" not in path and path.count("/") == 2
    assert conversation_id(path) == storable(id_)


def test_projects_and_files_have_short_names() -> None:
    assert [
        project_name(n)
        for n in ("/home/me/my-api", "C:\\work\\app\\", "~/x/y", "team/alpha", "default", "/")
    ] == [
        "my-api",
        "app",
        "y",
        "team/alpha",
        "default",
        "/",
    ]
    assert file_name("/home/me/my-api/src/a.ts", "/home/me/my-api") == "src/a.ts"
    assert file_name("/home/me/my-apis/a.ts", "/home/me/my-api") == "/home/me/my-apis/a.ts"
    assert file_name("default/a.ts", "default") == "default/a.ts"


def test_a_list_shows_a_few_facts_with_words_of_the_query_first() -> None:
    facts = (
        "Nothing of note happened here at all.",
        "T.",
        "The token is rotated. " + "word " * 60,
        "And more.",
    )
    hit = ObservationHit(
        Observation("obs-1", "decision", "T", "c", (), facts=facts),
        "/p/c.jsonl",
        terms=("rotated",),
    )
    excerpts = top_facts(hit)
    assert excerpts[0].startswith("The token is rotated.") and excerpts[0].endswith("…")
    assert sum(map(len, excerpts)) <= FACTS_LENGTH * 1.6 and "T." not in excerpts
    text = search_text(MemoryResults("observations", (hit,), total=1), "token")
    assert len(text) // 4 < 110


# -- timeline ------------------------------------------------------------------


def timeline(library: Library, anchor: str, **options: Any) -> tuple[list[str], int | None]:
    hits, index = library.memory.timeline(anchor, **options)
    return [hit.observation.id for hit in hits], index


def test_a_timeline_shows_the_observations_around_an_anchor(world: Library) -> None:
    assert timeline(world, "obs-3") == (["obs-5", "obs-3", "obs-4", "obs-1", "obs-2"], 1)
    assert timeline(world, "obs-4", before=1, after=1) == (["obs-3", "obs-4", "obs-1"], 1)
    assert timeline(world, "obs-5", before=3, after=0) == (["obs-5"], 0)
    assert timeline(world, "obs-3", projects=["my-api"]) == (
        ["obs-5", "obs-3", "obs-1", "obs-2"],
        1,
    )
    assert timeline(world, "2025-11-20", before=2, after=1) == (["obs-3", "obs-4", "obs-1"], None)
    assert timeline(world, "2025-12-01", before=1, after=9) == (["obs-4", "obs-1", "obs-2"], None)
    assert timeline(world, "1999-01-01", before=3, after=1) == (["obs-5"], None)
    assert timeline(world, "0001-01-01", after=1) == (["obs-5"], None)
    assert timeline(world, "9999-12-31", before=1) == (["obs-2"], None)


def test_simultaneous_observations_stay_in_order(library: Library) -> None:
    add_conversation(library)
    save_observations(
        library, "s1", *({"id": f"obs-{n:02}", "title": f"Step {n}"} for n in range(30))
    )
    assert timeline(library, "obs-15", before=2, after=2) == (
        ["obs-13", "obs-14", "obs-15", "obs-16", "obs-17"],
        2,
    )


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
    return sorted(summary.id for summary in library.conversations()[0])


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
    backlog.catch_up(library._store)
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
    assert backlog.catch_up(library._store) == 1
    library._store.reset_observations()
    assert backlog.catch_up(library._store) == 1
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


def test_a_conversation_that_continues_after_the_days_is_kept(world: Library) -> None:
    world.add_message("s2", "user", "Much later.", created_at="2025-11-20T00:00:00+00:00")
    world.update_conversation("s3", "Renamed today")
    world.memory.forget(before="2025-11-15", confirm=True)
    assert conversation_ids(world) == ["s1", "s2"]


def test_forget_takes_ids_or_a_path_or_a_project_and_dates(world: Library) -> None:
    for options in (
        {},
        {"ids": ["obs-1"], "path": "/x/s1.jsonl"},
        {"path": "/x/s1.jsonl", "project": "my-api"},
    ):
        with pytest.raises(InvalidInput, match="Say what to forget"):
            world.memory.forget(confirm=True, **options)
    with pytest.raises(InvalidInput, match="Invalid date format"):
        world.memory.forget(before="soon", confirm=True)
    with pytest.raises(InvalidInput, match="more than 20"):
        world.memory.forget(["obs-1"] * 21, confirm=True)
    assert conversation_ids(world) == ["s1", "s2", "s3"]
