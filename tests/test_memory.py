"""What is remembered of past work: finding observations, their details, the lines behind them, and forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.errors import InvalidInput, NotFound
from recollect.library import Library
from recollect.memory import api as module
from recollect.memory import backlog as observing
from recollect.memory.api import Recalled, file_of, path_of, project_of
from recollect.memory.observe import reading
from recollect.memory.render import FACTS, facts_for, search_text
from recollect.model.audience import MASK, Audience
from recollect.model.observations import Observation

DAY = datetime(2025, 12, 1, 14, 30, tzinfo=UTC)
SECRET = "the wombat code is 7261"


def talk(
    library: Library,
    id_: str = "s1",
    namespace: str = "/home/me/my-api",
    at: datetime = DAY,
    *more: str,
) -> None:
    """A conversation of two exchanges, of which nothing has been observed."""
    said = [
        ("user", "How should I implement authentication?"),
        ("assistant", f"JWT, as in {id_}.\nIt needs no state."),
        ("user", "What about refresh tokens?"),
        ("assistant", "Rotate them on every use."),
    ]
    said += [("user", text) for text in more]
    library.add_conversation(
        id_,
        f"Talk {id_}",
        project=namespace,
        created_at=at,
        messages=[
            {
                "id": f"{id_}-{n}",
                "role": role,
                "content": text,
                "created_at": at + timedelta(minutes=n),
            }
            for n, (role, text) in enumerate(said)
        ],
    )


def keep(library: Library, conversation: str, *observations: dict[str, Any]) -> None:
    """Let these be what was observed in a conversation."""
    document = library.conversation(conversation)
    made = [
        Observation(
            **{
                "type": "decision",
                "conversation": conversation,
                "project": document.project,
                "lines": (7, 12),
                "passages": tuple(p.id for p in document.passages[:2]),
                "created_at": document.created_at,
                **given_,
            }
        )
        for given_ in observations
    ]
    library.store.save_observations(
        conversation, document.version, observing.as_document(document, made)
    )


@pytest.fixture
def world(library: Library) -> Library:
    """Three conversations in two projects, with five observations."""
    talk(library, "s1")
    talk(library, "s2", "/home/me/auth-service", DAY - timedelta(days=16))
    talk(library, "s3", "/home/me/my-api", DAY - timedelta(days=60))
    keep(
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
    keep(
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
    keep(library, "s3", {"id": "obs-5", "type": "learning", "title": "A token has three parts"})
    return library


def ids(found: module.Answer) -> list[str]:
    return sorted(one.observation.id for one in found.observations)


# -- finding -------------------------------------------------------------------


def test_observations_are_found_and_nothing_else(world: Library) -> None:
    found = world.memory.search("token")
    assert (found.kind, ids(found), found.total) == (
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
def test_every_filter_holds(world: Library, filters: dict[str, Any], expected: list[str]) -> None:
    found = world.memory.search("token", **filters)
    if found.kind == "observations":
        assert (ids(found), found.total) == (expected, len(expected))
    else:
        assert not expected


def test_filters_come_before_the_limit(library: Library) -> None:
    talk(library)
    rare = {n: ("rare",) for n in range(0, 700, 100)}
    keep(
        library,
        "s1",
        *(
            {"id": f"obs-{n}", "title": f"Token {n}", "concepts": rare.get(n, ())}
            for n in range(700)
        ),
    )
    found = library.memory.search("token", concepts=["rare"], limit=3)
    assert (len(found.observations), found.total) == (3, 7)
    assert library.memory.search("token").total == 700


def test_meaning_finds_what_words_do_not_and_filters_hold_there_too(
    world: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")  # so that what the test observed stays
    world.index()
    everything = world.memory.search("login security", mode="vector")
    assert everything.kind == "observations" and everything.observations
    only = world.memory.search("login security", mode="vector", concepts=["cookies"])
    assert ids(only) == ["obs-4"]


def test_without_vectors_a_search_by_meaning_alone_says_so(world: Library) -> None:
    with pytest.raises(InvalidInput, match="vectors"):
        world.memory.search("token", mode="vector")


def test_signs_and_fields_are_searched_too(world: Library) -> None:
    assert ids(world.memory.search("token before:2025-11-01")) == ["obs-5"]
    assert ids(world.memory.search('"token check" OR cookie')) == ["obs-2", "obs-4"]
    assert world.memory.search("!!").observations == ()
    assert ids(world.memory.search("after:2025-12-01", concepts=["clock skew"])) == ["obs-2"]


def test_what_was_not_observed_is_found_as_it_was_said(library: Library) -> None:
    talk(library, "s1")
    talk(library, "s2", "/home/me/other", DAY - timedelta(days=3))
    found = library.memory.search("refresh tokens", projects=["my-api"])
    assert (found.kind, found.observations) == ("exchanges", ())
    ((path, project, title, _, _, snippets, lines),) = found.talks
    assert (path, project, title) == ("/my-api/s1.jsonl", "my-api", "Talk s1")
    assert "refresh tokens" in snippets[0]
    assert lines is not None
    text = library.memory.read(path, *lines)
    assert text.startswith("## Exchange 2\n") and text.endswith("Rotate them on every use.")
    assert library.memory.search("refresh tokens", before="2025-11-01").kind == "observations"
    assert library.memory.search("refresh tokens", types=["bugfix"]).total == 0
    assert library.memory.search("quagga").talks == ()


def test_several_concepts_find_conversations_that_have_them_all(world: Library) -> None:
    talk(world, "s4", "/home/me/my-api", DAY, "And a zebra.")
    found = world.memory.search(["zebra", "rotate"])
    assert (found.kind, [t.path for t in found.talks], found.total) == (
        "conversations",
        ["/my-api/s4.jsonl"],
        1,
    )
    assert found.talks[0].lines is not None
    assert world.memory.search(["zebra", "rotate"], projects=["auth-service"]).talks == ()
    assert world.memory.search(["zebra", "rotate"], before="2025-11-30").talks == ()
    with pytest.raises(InvalidInput, match="must be a string"):
        world.memory.search(["zebra", "rotate"], types=["bugfix"])


@pytest.mark.parametrize(
    ("query", "options", "error"),
    [
        ("x", {}, "Query must be at least 2 characters"),
        ("  x ", {}, "Query must be at least 2 characters"),
        (["ab", "x"], {}, "Query must be at least 2 characters"),
        (
            ["ab"],
            {},
            "Query array must have 2-5 items. Must provide at least 2 concepts for multi-concept search",
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
        ("ab", {"mode": "psychic"}, "mode: 'psychic' is not one of both, text, vector"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    library: Library, query: Any, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        library.memory.search(query, **options)
    assert str(refused.value).startswith(error)


# -- details -------------------------------------------------------------------


def test_details_come_in_the_order_asked(world: Library) -> None:
    found = world.memory.get(["obs-4", "obs-1", "obs-3", "obs-1"], audience=Audience.AGENT_MASKED)
    assert [one.observation.id for one in found] == ["obs-4", "obs-1", "obs-3", "obs-1"]
    one = found[1].observation
    assert (one.title, one.fields, one.concepts) == (
        "Use JWT for authentication",
        ("Chose JWT over sessions",),
        ("JWT", "Rate-Limiting"),
    )
    assert (one.project, one.conversation, one.created_at, one.lines) == (
        "/home/me/my-api",
        "s1",
        DAY,
        (7, 12),
    )


def test_unknown_ids_are_named_and_nothing_is_returned(world: Library) -> None:
    with pytest.raises(InvalidInput, match=r"^Invalid observation ID: obs-9, s1-0$"):
        world.memory.get(["obs-1", "obs-9", "s1-0"])
    for given_, error in (
        ([], "at least 1 observation ID"),
        (["obs-1"] * 21, "more than 20 observations at once"),
    ):
        with pytest.raises(InvalidInput, match=error):
            world.memory.get(given_)


def test_observations_are_made_by_the_rules_and_lead_back_to_what_was_said(
    library: Library,
) -> None:
    library.add_conversation(
        "s1",
        "Roses",
        project="/home/me/garden",
        messages=[
            {
                "role": "user",
                "content": "We decided to prune the roses in March because frost kills the new shoots.",
            },
            {
                "role": "assistant",
                "content": "Noted: pruning in March. The reason is late frost in February.",
            },
        ],
    )
    assert observing.catch_up(library.store) == 1
    (first, *_) = library.memory.search("prune roses", types=["decision"]).observations
    (one,) = library.memory.get([first.observation.id])
    text = library.memory.read(one.path, *one.observation.lines)
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


def test_a_range_that_is_none_is_refused_and_says_how_many_lines_there_are(world: Library) -> None:
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
    monkeypatch.setattr(module, "MOST_READ", 300)
    talk(library, "s1", "p", DAY, *(f"Line {n} of the long tale." for n in range(40)), "x" * 1_000)
    whole = reads = ""
    start = 1
    while True:
        text = library.memory.read("/p/s1.jsonl", start)
        text, _, more = text.partition("\n\n[Lines ")
        assert len(text) <= 300
        whole += text + "\n"
        reads += "."
        if not more:
            break
        start = int(more.rpartition("startLine ")[2].rstrip("]"))
    assert "Line 39 of the long tale." in whole and len(reads) > 3
    assert whole.count("Line 7 of") == 1


def test_what_only_people_may_see_is_masked_hidden_or_shown(library: Library) -> None:
    talk(library)
    library.store.append(
        "s1", recollect.Passage("p", "user", SECRET, visibility="human_only", created_at=DAY)
    )
    library.add_message("s1", "assistant", "That stays between us.", id="last")
    path = "/my-api/s1.jsonl"
    assert MASK in library.memory.read(
        path, audience=Audience.AGENT_MASKED
    ) and SECRET not in library.memory.read(path, audience=Audience.AGENT_MASKED)
    hidden = library.memory.read(path, audience=Audience.AGENT_HIDDEN)
    assert MASK not in hidden and SECRET not in hidden and "between us" in hidden
    assert SECRET in library.memory.read(path, audience=Audience.PERSON)
    assert library.memory.search("wombat", audience=Audience.PERSON).talks
    for audience in (Audience.AGENT_MASKED, Audience.AGENT_HIDDEN):
        assert not library.memory.search("wombat", audience=audience).talks
        assert not library.memory.search(["wombat", "rotate"], audience=audience).talks
    lines = reading(library.conversation("s1")).span(("last",))
    keep(
        library, "s1", {"id": "obs-1", "title": "Between us", "passages": ("last",), "lines": lines}
    )
    for audience in Audience:
        (one,) = library.memory.get(["obs-1"], audience=audience)
        assert "between us" in library.memory.read(
            one.path, *one.observation.lines, audience=audience
        )


# -- names ---------------------------------------------------------------------


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_every_name_survives_its_path(namespace: str, id_: str) -> None:
    from urllib.parse import unquote

    from recollect.language.text import storable

    path = path_of(namespace, id_)
    assert path.isprintable() and "`" not in path and path.count("/") == 2
    match = module._PATH.fullmatch(path)
    assert match is not None and unquote(match[2]) == storable(id_)


def test_projects_and_files_have_short_names() -> None:
    assert [
        project_of(n)
        for n in ("/home/me/my-api", "C:\\work\\app\\", "~/x/y", "team/alpha", "default", "/")
    ] == [
        "my-api",
        "app",
        "y",
        "team/alpha",
        "default",
        "/",
    ]
    assert file_of("/home/me/my-api/src/a.ts", "/home/me/my-api") == "src/a.ts"
    assert file_of("/home/me/my-apis/a.ts", "/home/me/my-api") == "/home/me/my-apis/a.ts"
    assert file_of("default/a.ts", "default") == "default/a.ts"


def test_a_list_shows_few_facts_and_those_first_that_were_asked_for() -> None:
    facts = (
        "Nothing of note happened here at all.",
        "T.",
        "The token is rotated. " + "word " * 60,
        "And more.",
    )
    one = Recalled(
        Observation("obs-1", "decision", "T", "c", (), facts=facts),
        "/p/c.jsonl",
        terms=("rotated",),
    )
    shown = facts_for(one)
    assert shown[0].startswith("The token is rotated.") and shown[0].endswith("…")
    assert sum(map(len, shown)) <= FACTS * 1.6 and "T." not in shown
    text = search_text(module.Answer("observations", (one,), total=1), "token")
    assert len(text) // 4 < 110


# -- around a time -------------------------------------------------------------


def around(library: Library, anchor: str, **options: Any) -> tuple[list[str], int | None]:
    found, place = library.memory.timeline(anchor, **options)
    return [one.observation.id for one in found], place


def test_what_happened_around_an_observation(world: Library) -> None:
    assert around(world, "obs-3") == (["obs-5", "obs-3", "obs-4", "obs-1", "obs-2"], 1)
    assert around(world, "obs-4", before=1, after=1) == (["obs-3", "obs-4", "obs-1"], 1)
    assert around(world, "obs-5", before=3, after=0) == (["obs-5"], 0)
    assert around(world, "obs-3", projects=["my-api"]) == (["obs-5", "obs-3", "obs-1", "obs-2"], 1)
    assert around(world, "2025-11-20", before=2, after=1) == (["obs-3", "obs-4", "obs-1"], None)
    assert around(world, "2025-12-01", before=1, after=9) == (["obs-4", "obs-1", "obs-2"], None)
    assert around(world, "1999-01-01", before=3, after=1) == (["obs-5"], None)
    assert around(world, "0001-01-01", after=1) == (["obs-5"], None)
    assert around(world, "9999-12-31", before=1) == (["obs-2"], None)


def test_many_observations_of_one_moment_stay_in_order(library: Library) -> None:
    talk(library)
    keep(library, "s1", *({"id": f"obs-{n:02}", "title": f"Step {n}"} for n in range(30)))
    assert around(library, "obs-15", before=2, after=2) == (
        ["obs-13", "obs-14", "obs-15", "obs-16", "obs-17"],
        2,
    )


def test_an_anchor_that_is_none_is_refused(library: Library) -> None:
    talk(library)
    keep(library, "s1", {"id": "obs-1", "title": "Undated", "created_at": None})
    for anchor, error in (
        ("obs-9", "Invalid observation ID"),
        ("soon", "Invalid anchor"),
        ("obs-1", "no date"),
    ):
        with pytest.raises(InvalidInput, match=error):
            library.memory.timeline(anchor)


# -- forgetting ----------------------------------------------------------------


def left(library: Library) -> list[str]:
    return sorted(about.id for about in library.conversations()[0])


def test_nothing_is_forgotten_unless_it_is_confirmed(world: Library) -> None:
    forgotten = world.memory.forget(["obs-1"], conversations=True)
    assert [about.id for about in forgotten.conversations] == ["s1"]
    assert (forgotten.messages, forgotten.observed) == (4, 2)
    assert [one.observation.id for one in world.memory.forget(["obs-1"]).observations] == ["obs-1"]
    assert left(world) == ["s1", "s2", "s3"] and world.memory.get(["obs-1"])


def test_an_observation_is_forgotten_and_never_made_again(library: Library) -> None:
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
    observing.catch_up(library.store)
    before = {
        one.observation.id
        for q in ("roses", "tomatoes")
        for one in library.memory.search(q).observations
    }
    gone = library.memory.search("roses").observations[0].observation.id
    library.memory.forget([gone], confirm=True)
    with pytest.raises(InvalidInput, match="Invalid observation ID"):
        library.memory.get([gone])
    library.add_message("s1", "assistant", "Noted.")
    again = library.conversation("s1")
    library.store.save(
        [
            recollect.Document(
                again.source,
                "s1",
                "Roses again",
                updated_at=datetime.now(UTC) + timedelta(days=1),
                passages=again.passages,
            )
        ]
    )
    assert observing.catch_up(library.store) == 1
    library.store.reset_observations()
    assert observing.catch_up(library.store) == 1
    after = {
        one.observation.id
        for q in ("roses", "tomatoes")
        for one in library.memory.search(q).observations
    }
    assert gone not in after and before - {gone} <= after
    assert "We decided to prune" in library.memory.read("/default/s1.jsonl")


def test_a_conversation_goes_with_everything_that_was_observed_in_it(world: Library) -> None:
    world.memory.forget(["obs-1"], conversations=True, confirm=True)
    assert left(world) == ["s2", "s3"]
    assert ids(world.memory.search("token")) == ["obs-3", "obs-4", "obs-5"]
    world.memory.forget(path="/x/s2.jsonl", confirm=True)
    assert left(world) == ["s3"]
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
def test_a_project_or_days_are_forgotten(
    world: Library, options: dict[str, Any], expected: Sequence[str]
) -> None:
    world.memory.forget(confirm=True, **options)
    assert left(world) == expected


def test_a_conversation_that_goes_on_past_the_days_stays(world: Library) -> None:
    world.add_message("s2", "user", "Much later.", created_at="2025-11-20T00:00:00+00:00")
    world.update_conversation("s3", "Renamed today")
    world.memory.forget(before="2025-11-15", confirm=True)
    assert left(world) == ["s1", "s2"]


def test_what_to_forget_must_be_said_in_one_way(world: Library) -> None:
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
    assert left(world) == ["s1", "s2", "s3"]
