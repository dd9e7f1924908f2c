"""Search through the public API: hits, operators, filters, pages and scores."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits import few_candidates, few_counted, seal

import recollect
from recollect import Filter, Hit, Page, SearchOptions
from recollect.errors import InvalidInput, NotFound

NOW = datetime(2025, 6, 18, 12, tzinfo=UTC)  # a Wednesday
# Without vectors, with vectors, and with vectors and sealed volumes, which only SQLite has.
# People have vectors; the index of a large library is also sealed.
STATES = [
    ("sqlite", "embedded"),
    *(
        pytest.param(store, state, marks=pytest.mark.full)
        for store, state in (
            *(("sqlite", "fresh"), ("sqlite", "sealed")),
            *(("postgres", "fresh"), ("postgres", "embedded")),
        )
    ),
]
# As values of one fixture.
SAMPLE_STATES = [
    *(("sqlite", "embedded"), ("postgres", "embedded")),
    *(
        pytest.param(value, marks=pytest.mark.full)
        for value in (("sqlite", "fresh"), ("sqlite", "sealed"), ("postgres", "fresh"))
    ),
]
TOPICS = [
    "My puppy chewed the sofa",
    "The invoice is overdue",
    "It rained all night",
    "Guitar strings broke",
    "The car needs new tyres",
    "Bread with olives",
    "A flight to Oslo",
    "The exam was hard",
]
in_every_state = pytest.mark.parametrize(("place", "state"), STATES, indirect=["place"])


def message(
    id: str, content: str, role: str = "user", days: float = 0, **fields: Any
) -> dict[str, Any]:
    """A message that was written this many days before now."""
    return {
        "id": id,
        "role": role,
        "content": content,
        "created_at": NOW - timedelta(days=days),
        **fields,
    }


def ids(page: Page) -> list[str]:
    return [hit.message_id for hit in page.hits]


def bring_to(state: str, library: recollect.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    if state == "embedded":
        library.index()
    if state == "sealed":
        seal(library, monkeypatch)
        folder = library._store.path.parent  # type: ignore[attr-defined]
        assert any(folder.glob("index/volumes/*/volume.json"))


@pytest.fixture(scope="module", params=SAMPLE_STATES, ids="-".join)
def sample(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[recollect.Library]:
    """The same conversations in every store and state. Tests must not change them."""
    store, state = request.param
    if store == "postgres":
        place = request.getfixturevalue("database")
    else:
        place = tmp_path_factory.mktemp("sample")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_INDEXING", "manual")
        patch.delenv("RECOLLECT_EMBEDDINGS", raising=False)
        with recollect.open(place, user=f"sample-{uuid.uuid4()}") as library:
            add_samples(library)
            bring_to(state, library, patch)
            yield library


def add_samples(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        "Concurrency in Python",
        project="work",
        metadata={"tags": ["Idea", "Ärger"]},
        messages=[
            message("m1", "How do I run coroutines with asyncio?", days=40, author="Ann"),
            message("m2", "Use asyncio.gather() or a TaskGroup of Python 3.11.", "assistant", 40),
            message(
                "m3",
                "exit code 0x80070057 in C:\\Temp\\build-log.txt, errno -1073741819",
                "tool",
                39,
            ),
            message("m4", "Docker builds the image, kubernetes runs it", days=38),
            message("m5", "Docker alone is enough for me", days=37, author="Bob"),
        ],
    )
    library.add_conversation(
        "c2",
        "日本語",
        metadata={"tags": ["other"]},
        messages=[
            message("n1", "非同期処理について教えてください", days=20),
            message("n2", "ภาษาไทยเป็นภาษาที่ใช้ในประเทศไทย", "assistant", 19),
            message("n3", "JavaScript and TypeScript are not the same", days=18),
            message("n4", "internal instructions about asyncio", "system", 17, visibility="hidden"),
            message(
                "n5", "std::vector<int>& v = f(x, y); // C++ and #include <map>", "assistant", 16
            ),
            message("n6", "Der Spaziergang über die Straße war naïve", days=15),
        ],
    )


# -- operators, quotes and fields ---------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("asyncio AND gather", {"m2"}),
        ('"run coroutines"', {"m1"}),
        ("corout*", {"m1"}),
        ("docker NOT kubernetes", {"m5"}),
        ("docker -kubernetes", {"m5"}),
        ("gather OR coroutines", {"m1", "m2"}),
        ("(gather OR kubernetes) AND (docker OR taskgroup)", {"m2", "m4"}),
        ("NEAR(docker image, 3)", {"m4"}),
        ("docker NEAR/2 kubernetes", set()),
        ('"docker"', {"m4", "m5"}),
        ('"0x80070057"', {"m3"}),
        ('"-1073741819"', {"m3"}),
        ('"C:\\Temp\\build-log.txt"', {"m3"}),
        ('"asyncio.gather()"', {"m2"}),
        ('"std::vector<int>&"', {"n5"}),
        ('"f(x, y);"', {"n5"}),
        ('"非同期処理"', {"n1"}),
        ('"同期"', {"n1"}),
        ('"ประเทศไทย"', {"n2"}),
        ('"strasse"', {"n6"}),
        ('"NAIVE"', {"n6"}),
        ('"concurrency"', {"m1"}),
        ('"gather asyncio"', set()),
    ],
)
def test_operators_and_quotes_return_exactly_the_matching_messages(
    sample: recollect.Library, query: str, expected: set[str]
) -> None:
    for mode in ("text", "both"):
        page = sample.search(query, options=SearchOptions(mode=mode))
        assert set(ids(page)) == expected
        assert (page.total, page.exact) == (len(expected), True)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("how can I run many coroutines?", "m1"),
        ("exit code 0x80070057", "m3"),
        ("-1073741819", "m3"),
        ("C:\\Temp\\build-log.txt", "m3"),
        ("build-log", "m3"),
        ("asyncio.gather()", "m2"),
        ("非同期", "n1"),
        ("ประเทศไทย", "n2"),
        ("std::vector", "n5"),
        ("f(x, y);", "n5"),
        ("cript", "n3"),
        ("eScrip", "n3"),
        ("coroutine", "m1"),
        ("uber die strasse", "n6"),
    ],
)
def test_plain_words_code_and_paths_in_any_script_put_the_best_message_first(
    sample: recollect.Library, query: str, first: str
) -> None:
    assert ids(sample.search(query))[0] == first
    assert ids(sample.search(query, options=SearchOptions(mode="text")))[0] == first


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("docker from:Bob", {"m5"}),
        ("docker -from:Bob", {"m4"}),
        ('docker from:"Bob"', {"m5"}),
        ("asyncio role:user", {"m1"}),
        ("asyncio -role:user", {"m2"}),
        ("asyncio in:work", {"m1", "m2"}),
        ("asyncio -in:work", set()),
        ("asyncio tag:idea", {"m1", "m2"}),
        ("asyncio tag:ärger", {"m1", "m2"}),
        ("asyncio -tag:idea", set()),
        ("asyncio title:concurrency", {"m1", "m2"}),
        ("asyncio title:concur*", {"m1", "m2"}),
        ("asyncio -title:concurrency", set()),
        ("asyncio -title:concur*", set()),
        ('asyncio title:"in python"', {"m1", "m2"}),
        ("docker after:2025-05-12", {"m5"}),
        ("docker before:2025-05-11", {"m4"}),
        ("docker after:2025-06", set()),
    ],
)
def test_a_field_restricts_hits_by_words_and_hits_by_meaning(
    sample: recollect.Library, query: str, expected: set[str]
) -> None:
    allowed = set(ids(sample.search(query.partition(" ")[2], options=SearchOptions(limit=50))))
    for mode in ("text", "both"):
        page = sample.search(query, options=SearchOptions(mode=mode))
        assert {h.message_id for h in page.hits if "text" in h.arms} == expected
        assert set(ids(page)) <= allowed


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("role:tool", ["m3"]),
        ("in:work from:Ann,Bob", ["m5", "m1"]),
        ("title:日本語 role:assistant", ["n5", "n2"]),
    ],
)
def test_a_query_of_fields_only_lists_the_newest_first(
    sample: recollect.Library, query: str, expected: list[str]
) -> None:
    page = sample.search(query)
    assert (ids(page), page.total, page.exact) == (expected, len(expected), True)


def test_the_filter_and_the_fields_of_the_query_both_apply(sample: recollect.Library) -> None:
    query, options = "docker role:user", SearchOptions(mode="text")
    assert ids(sample.search(query, Filter.of(roles=["assistant"]), options)) == []
    by_bob = Filter.of(roles=["user", "tool"], authors=["Bob"])
    assert ids(sample.search(query, by_bob, options)) == ["m5"]


def test_hidden_messages_are_found_only_with_the_hidden_filter(sample: recollect.Library) -> None:
    query, hidden = "internal instructions asyncio", Filter.of(hidden=True)
    for mode in ("text", "both"):
        options = SearchOptions(mode=mode)
        assert "n4" not in ids(sample.search(query, options=options))
        assert ids(sample.search(query, hidden, options))[0] == "n4"
    assert ids(sample.search('"internal instructions"', hidden)) == ["n4"]


# -- every hit satisfies the query --------------------------------------------


@pytest.mark.parametrize("mode", ["both", "vector"])
@pytest.mark.parametrize(
    ("query", "satisfies"),
    [
        ("docker NOT kubernetes", lambda text: "docker" in text and "kubernetes" not in text),
        ('"docker alone"', lambda text: "docker alone" in text),
        ("docke* -image", lambda text: "docke" in text and "image" not in text),
        ("docker OR coroutines", lambda text: "docker" in text or "coroutines" in text),
        ("NEAR(docker image, 3)", lambda text: "docker builds the image" in text),
    ],
)
def test_every_hit_satisfies_the_operators_in_every_mode(
    sample: recollect.Library, mode: str, query: str, satisfies: Callable[[str], bool]
) -> None:
    if mode == "vector" and not sample._store.spaces():
        with pytest.raises(InvalidInput, match="no vectors"):
            sample.search(query, options=SearchOptions(mode=mode))
        return
    page = sample.search(query, options=SearchOptions(mode=mode))
    assert page.hits
    texts = {p.id: p.content.lower() for c in ("c1", "c2") for p in sample.conversation(c).messages}
    assert [h.message_id for h in page.hits if not satisfies(texts[h.message_id])] == []


@pytest.mark.parametrize(
    "query", ["kubernetes AND javascript", "(kubernetes) AND (javascript)", "kuber* AND typesc*"]
)
def test_an_and_that_no_message_satisfies_finds_nothing(
    sample: recollect.Library, query: str
) -> None:
    page = sample.search(query)
    assert (page.hits, page.total) == ((), 0)


def test_if_no_message_contains_every_phrase_any_phrase_matches(
    sample: recollect.Library,
) -> None:
    page = sample.search(
        'which "docker image" was in "kubernetes cluster zebra"?',
        options=SearchOptions(mode="text"),
    )
    assert page.hits[0].message_id == "m4"
    assert page.matched == "any"


@given(
    st.lists(
        st.sampled_from(
            [
                "docker",
                "asyncio",
                "kuber*",
                '"run',
                'coroutines"',
                "AND",
                "OR",
                "NOT",
                "NEAR",
                "(",
                ")",
                "-",
                "role:user",
                "in:",
                "前",
                "::",
                "#",
                "last week",
                "x" * 40,
                "title:a*",
                "*",
                "^",
                "{}",
            ]
        ),
        max_size=7,
    )
)
def test_no_query_crashes_a_search(sample: recollect.Library, pieces: list[str]) -> None:
    try:
        page = sample.search(" ".join(pieces), options=SearchOptions(limit=3, now=NOW))
    except InvalidInput:
        return
    assert page.total >= len(page.hits)
    assert all(0 <= h.score <= 1 for h in page.hits)


@pytest.mark.parametrize(
    ("mode", "group"), [("fuzzy", "message"), ("", "message"), ("both", "day")]
)
def test_an_unknown_mode_or_group_is_refused(
    library: recollect.Library, mode: str, group: str
) -> None:
    with pytest.raises(InvalidInput, match="is not one of"):
        library.search("x", options=SearchOptions(mode=mode, group=group))


# -- times --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "both"])
def test_a_time_in_the_query_ranks_its_messages_higher_and_removes_none(
    library: recollect.Library, mode: str
) -> None:
    days = (1, 8, 28, 30, 75, 400)
    for day in days:
        # With extra spaces, the texts mean the same but are not copies of each other.
        text = f"I went to the restaurant with friends and {' ' * day}we had fish"
        library.add_conversation(f"c{day}", messages=[message(f"d{day}", text, days=day)])
    library.add_conversation(
        "x", messages=[message(f"x{n}", text, days=90 + n) for n, text in enumerate(TOPICS * 3)]
    )
    if mode == "both":
        library.index()
    for time, first in [
        ("last week", {"d8"}),
        ("in May", {"d28", "d30"}),
        ("four weeks ago", {"d28"}),
        ("yesterday", {"d1"}),
        ("last year", {"d400"}),
    ]:
        page = library.search(
            f"which restaurant did I visit {time}", options=SearchOptions(mode=mode, now=NOW)
        )
        assert set(ids(page)[: len(first)]) == first, time
        assert set(ids(page)) >= {f"d{day}" for day in days}, time


# -- changes are visible at once ----------------------------------------------


@pytest.mark.parametrize(
    ("place", "state"),
    [("sqlite", "embedded"), pytest.param("postgres", "embedded", marks=pytest.mark.full)],
    indirect=["place"],
)
def test_another_process_sees_additions_changes_and_deletions_at_once(
    library: recollect.Library, place: str, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", "Zeppelin", messages=[message("a", "walrus one"), message("b", "walrus two", days=1)]
    )
    library.add_conversation(
        "c2",
        "Other",
        messages=[message("c", "walrus three", days=2), message("d", "otter", days=3)],
    )
    bring_to(state, library, monkeypatch)
    program = f"""
import sys, recollect
def search(query):
    with recollect.open({place!r}) as library:
        page = library.search(query, options=recollect.SearchOptions(mode="text"))
        print(page.total, *sorted(h.message_id for h in page.hits), flush=True)
for line in sys.stdin:
    search(line.strip())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def search(query: str) -> list[str]:
            """The total and the hits in the other process."""
            print(query, file=other.stdin, flush=True)
            return other.stdout.readline().split()  # type: ignore[union-attr]

        assert search("walrus") == ["3", "a", "b", "c"]
        library.add_message("c1", "user", "walrus four", id="e")
        assert search("walrus") == ["4", "a", "b", "c", "e"]
        library._store.revise(
            "c2",
            lambda old: replace(
                old, passages=(old.passages[0]._replace(content="penguin three"), old.passages[1])
            ),
        )
        assert search("walrus") == ["3", "a", "b", "e"]
        assert search("penguin") == ["1", "c"]
        assert search("zeppelin") == ["1", "a"]
        library.update_conversation("c1", "Airship")
        assert search("zeppelin") == ["0"]
        assert search("airship") == ["1", "a"]
        library.delete_conversation("c1")
        assert search("walrus") == ["0"]
        assert search("airship") == ["0"]
        assert search("penguin") == ["1", "c"]
        other.stdin.close()
        assert other.wait() == 0


@in_every_state
def test_words_between_the_colours_of_a_terminal_are_found_and_marked(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    coloured = "\x1b[31mFailed\x1b[0m tests: \x1b[33mERR_\x1b[1mAUTH_42\x1b[0m (line 7)"
    others = [message(f"m{n}", f"another message {n}") for n in range(3)]
    library.add_conversation("c1", messages=[message("a", coloured), *others])
    bring_to(state, library, monkeypatch)
    for query, expected in {
        "failed": "[Failed] tests: ERR_AUTH_42 (line 7)",
        '"Failed tests"': "[Failed tests]: ERR_AUTH_42 (line 7)",
        '"failed tests: ERR_AUTH_42"': "[Failed tests: ERR_AUTH_42] (line 7)",
        "fail*": "[Fail]ed tests: ERR_AUTH_42 (line 7)",
        "ERR_AUTH_42": "Failed tests: [ERR_AUTH_42] (line 7)",
        "why did the tests fail": "[Failed] [tests]: ERR_AUTH_42 (line 7)",
    }.items():
        for mode in ("text", "both"):
            hit = library.search(query, options=SearchOptions(mode=mode)).hits[0]
            snippet = hit.snippet
            for start, end in reversed(hit.marks):
                snippet = f"{snippet[:start]}[{snippet[start:end]}]{snippet[end:]}"
            assert (hit.message_id, snippet) == ("a", expected)


@in_every_state
def test_deleted_messages_are_never_returned(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[message("a", "the blue whale sings"), message("b", "the blue whale dives")]
    )
    library.add_conversation(
        "c2", messages=[message("c", "a blue whale was seen"), message("d", "tax papers", days=1)]
    )
    bring_to(state, library, monkeypatch)
    library.delete_conversation("c1")
    modes = ["text", "both"]
    if state != "fresh":
        modes.append("vector")
    for mode in modes:
        page = library.search("blue whale", options=SearchOptions(mode=mode))
        assert page.hits[0].message_id == "c"
        assert set(ids(page)) <= {"c", "d"}
        assert page.total <= 2
        assert not {"a", "b"} & set(ids(library.related("c2", "c", SearchOptions(mode=mode))))
    assert library.search("blue whale", options=SearchOptions(mode="text")).total == 1
    assert library.search('"blue whale"').total == 1
    assert ids(library.search("whal*")) == ["c"]
    assert ids(library.search("sings OR dives")) == []
    with pytest.raises(NotFound):
        library.related("c1", "a")


# -- pages and totals ---------------------------------------------------------


_SEA = ["sea", "ice", "tusk", "fish"]


@in_every_state
def test_a_message_of_the_period_in_a_question_is_found_among_many_other_matches(
    library: recollect.Library, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "abcdefghijklmnopqrst"
    others = [message(n, f"I bought kitchen knife {n}{n}", days=90) for n in names]
    library.add_conversation("knives", "", messages=others)
    library.add_conversation("smoker", "", messages=[message("x", "I bought a smoker.", days=10)])
    bring_to(state, library, monkeypatch)
    few_candidates(monkeypatch, 5)
    query = "What did I buy for the kitchen 10 days ago?"
    page = library.search(query, options=SearchOptions(now=NOW))
    assert "x" in ids(page)
    assert page.total >= 21
    knives = library.search(query, Filter(conversations=("knives",)), SearchOptions(now=NOW))
    assert "x" not in ids(knives)


def add_many(library: recollect.Library, count: int, rng: random.Random | None = None) -> None:
    """Add messages of different lengths with one word in common, ten to a conversation."""
    rng = rng or random.Random(7)
    for start in range(0, count, 10):
        messages = []
        for n in range(start, min(start + 10, count)):
            filler = " ".join(rng.choices(_SEA, k=rng.randrange(30)))
            role = rng.choice(["user", "assistant"])
            messages.append(message(f"m{n}", f"walrus {filler} w{n}", role, days=n / 10))
        library.add_conversation(f"c{start}", messages=messages)


def all_hits(library: recollect.Library, query: str, size: int, **options: Any) -> list[Hit]:
    """The hits of every page."""
    hits: list[Hit] = []
    while True:
        page = library.search(query, options=SearchOptions(limit=size, offset=len(hits), **options))
        if not page.hits:
            return hits
        hits += page.hits


@pytest.mark.full
@pytest.mark.parametrize("mode", ["text", "both"])
def test_paging_through_700_matches_returns_each_once(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    add_many(library, 700)
    if mode == "both":
        seal(library, monkeypatch, 500)
    for query in ("walrus", "walrus tusk fish"):
        hits = all_hits(library, query, 100, mode=mode, now=NOW)
        assert sorted(h.message_id for h in hits) == sorted(f"m{n}" for n in range(700))
        page = library.search(query, options=SearchOptions(mode=mode))
        assert (page.total, page.exact) == (700, mode == "text")


@in_every_state
def test_matches_that_are_not_ranked_are_counted_and_on_the_last_pages(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    add_many(library, 90)
    bring_to(state, library, monkeypatch)
    for mode in ("text", "both"):
        hits = all_hits(library, "walrus", 25, mode=mode, now=NOW)
        assert sorted(h.message_id for h in hits) == sorted(f"m{n}" for n in range(90))
    page = library.search("walrus", options=SearchOptions(mode="text"))
    assert (page.total, page.exact) == (90, True)


@pytest.mark.parametrize("mode", ["text", "both"])
def test_ten_pages_of_five_equal_one_page_of_fifty(library: recollect.Library, mode: str) -> None:
    add_many(library, 120)
    if mode == "both":
        library.index()
    whole = library.search("walrus tusk", options=SearchOptions(limit=50, mode=mode, now=NOW))
    parts = [
        library.search("walrus tusk", options=SearchOptions(limit=5, offset=n, mode=mode, now=NOW))
        for n in range(0, 50, 5)
    ]
    assert [h for p in parts for h in p.hits] == list(whole.hits)
    assert {p.total for p in parts} == {whole.total}


def test_paging_through_conversations_returns_each_once(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_candidates(monkeypatch, 10)
    add_many(library, 160)
    hits = all_hits(library, "walrus", 5, group="conversation")
    assert len({h.conversation_id for h in hits}) == len(hits)
    page = library.search("walrus", options=SearchOptions(group="conversation"))
    assert page.total == len(hits)
    assert len(hits) == 16 or not page.exact


@pytest.mark.parametrize("mode", ["text", "both"])
def test_the_number_of_conversations_is_the_same_on_every_page(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    few_candidates(monkeypatch, 10)
    add_many(library, 400)
    if mode == "both":
        library.index()
    for query in ("walrus", "walrus tusk fish"):
        pages = [
            library.search(
                query,
                options=SearchOptions(
                    mode=mode, limit=5, offset=offset, group="conversation", now=NOW
                ),
            )
            for offset in range(0, 45, 5)
        ]
        assert {(page.total, page.exact) for page in pages} == {(40, mode == "text")}
        assert [len(page.hits) for page in pages] == [5] * 8 + [0]


def test_the_number_of_conversations_is_a_minimum_if_too_many_messages_match(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_candidates(monkeypatch, 10)
    few_counted(monkeypatch, 150)
    add_many(library, 400)
    options = SearchOptions(mode="text", limit=5, group="conversation", now=NOW)
    first = library.search("walrus", options=options)
    second = library.search("walrus", options=replace(options, offset=5))
    last = library.search("walrus", options=replace(options, offset=35))
    assert 15 <= first.total == second.total < last.total == 40
    assert not first.exact and not last.exact


def test_limit_and_offset_are_clamped_and_a_page_past_the_end_is_empty(
    library: recollect.Library,
) -> None:
    add_many(library, 30)
    assert len(library.search("walrus", options=SearchOptions(limit=0)).hits) == 1
    assert library.search("walrus", options=SearchOptions(offset=30)).hits == ()
    assert library.search("walrus", options=SearchOptions(offset=10**9)).hits == ()
    assert library.search("walrus", options=SearchOptions(limit=10**9, offset=-5)).total == 30


# -- hits and their scores ----------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "both", "vector"])
def test_a_hit_explains_its_match_and_its_score_parts_add_up(
    library: recollect.Library, mode: str
) -> None:
    library.add_conversation(
        "c1",
        "Pets",
        messages=[
            message("a", "My dog is called Rex and he likes long walks"),
            message("b", "Dogs need a walk twice a day", "assistant"),
            message("c", "What do puppies eat?", days=3, author="Ann"),
            message("d", "The invoice was paid", days=300),
        ],
    )
    if mode != "text":
        library.index()
    page = library.search(
        "when did I walk the dog last week", options=SearchOptions(mode=mode, now=NOW)
    )
    assert page.mode == mode
    assert page.hits[0].message_id in ("a", "b")
    for hit in page.hits:
        assert 0 < hit.score <= 1
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=0.001)
        assert set(hit.arms) <= ({"text", "vector"} if mode == "both" else {mode})
        assert hit.arms
    assert [h.score for h in page.hits] == sorted((h.score for h in page.hits), reverse=True)
    if mode != "vector":
        (first,) = [h for h in page.hits if h.message_id == "a"]
        assert set(first.terms) == {"walk", "dog"}
        assert {first.snippet[start:end].lower() for start, end in first.marks} == {"dog", "walks"}


def test_messages_with_the_same_text_are_one_hit_with_a_count_of_copies(
    library: recollect.Library,
) -> None:
    for n in range(5):
        library.add_conversation(f"c{n}", messages=[message(f"m{n}", "Continue, please", days=n)])
    page = library.search("continue", options=SearchOptions(mode="text", now=NOW))
    assert [(h.message_id, h.copies) for h in page.hits] == [("m0", 4)]
    assert page.total == 5


@in_every_state
def test_grouped_by_conversation_each_appears_once_with_its_next_best_messages(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[message(f"a{n}", f"walrus tusk w{n}", days=n) for n in range(5)]
    )
    library.add_conversation("c2", messages=[message("b", "one walrus", days=1)])
    library.add_conversation("c3", messages=[message("c", "invoice", days=1)])
    bring_to(state, library, monkeypatch)
    page = library.search(
        "walrus tusk", options=SearchOptions(group="conversation", mode="text", now=NOW)
    )
    assert [(h.conversation_id, len(h.also)) for h in page.hits] == [("c1", 2), ("c2", 0)]
    assert (page.total, page.exact) == (2, True)
    first = page.hits[0]
    assert len({first.message_id, *(h.message_id for h in first.also)}) == 3
    assert first.score >= first.also[0].score >= first.also[1].score


def test_user_messages_come_first_unless_the_query_asks_for_the_assistant(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1",
        messages=[
            message("u", "Oolong tea is what I like"),
            message("a", "Oolong tea is what folk like", "assistant"),
        ],
    )
    library.add_conversation(
        "c2", messages=[message("x", "Rain today."), message("y", "Take a coat.", "assistant")]
    )
    options = SearchOptions(mode="text")
    assert ids(library.search("which tea do I like", options=options))[0] == "u"
    query = "which tea did you recommend, the one to like"
    assert ids(library.search(query, options=options))[0] == "a"


def test_messages_of_an_author_named_in_the_query_come_first(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        messages=[
            message("ann", "I am going to move to Lisbon", author="Ann"),
            message(
                "bob",
                "I am going to move to Lisbon soon, said everyone who wants to move",
                author="Bob",
            ),
        ],
    )
    assert ids(library.search("When does Bob move to Lisbon?"))[0] == "bob"
    assert ids(library.search("When does Ann move to Lisbon?"))[0] == "ann"


def test_the_newer_of_two_similar_messages_comes_first_but_a_better_match_beats_both(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1",
        messages=[
            message("old", "The walrus sleeps on ice floe one", days=700),
            message("new", "The walrus sleeps on ice floe two", days=2),
            message("best", "The password of the walrus sanctuary wifi is tusk", days=900),
        ],
    )
    options = SearchOptions(mode="text", now=NOW)
    assert ids(library.search("walrus sleeps", options=options))[:2] == ["new", "old"]
    assert ids(library.search("walrus sanctuary password", options=options))[0] == "best"


# -- concepts -----------------------------------------------------------------


@in_every_state
def test_a_concept_search_returns_only_conversations_with_every_concept(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "both",
        messages=[message("a", "the walrus ate"), message("b", "an invoice came", "assistant")],
    )
    library.add_conversation(
        "one", messages=[message("c", "the walrus slept"), message("d", "it was cold", "assistant")]
    )
    library.add_conversation(
        "other", messages=[message("e", "the invoice was paid"), message("f", "good", "assistant")]
    )
    library.add_conversation(
        "none", messages=[message("g", "guitar lessons"), message("h", "chords", "assistant")]
    )
    bring_to(state, library, monkeypatch)
    page = library.search(["walrus", "invoice"], options=SearchOptions(mode="text"))
    assert [h.conversation_id for h in page.hits] == ["both"]
    assert {page.hits[0].message_id, *(h.message_id for h in page.hits[0].also)} == {"a", "b"}
    assert (page.total, page.exact, page.matched) == (1, True, "all")
    assert "none" not in [h.conversation_id for h in library.search(["walrus", "invoice"]).hits]
    assert library.search(["walrus", "invoice"]).hits[0].conversation_id == "both"
    assert library.search(["walrus", "zeppelin"], options=SearchOptions(mode="text")).hits == ()
    concepts = ["walrus", "ate", '"an invoice"']
    page = library.search(concepts, options=SearchOptions(mode="text"))
    assert [h.conversation_id for h in page.hits] == ["both"]


def test_a_conversation_with_every_concept_is_found_among_many_with_only_one(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_candidates(monkeypatch, 10)
    library.add_conversation(
        "both",
        messages=[
            message("a", "something of a walrus among very many other words", days=99),
            message("b", "invoice"),
        ],
    )
    for n in range(30):
        library.add_conversation(f"c{n}", messages=[message(f"m{n}", f"walrus w{n}", days=n / 9)])
    page = library.search(["walrus", "invoice"], options=SearchOptions(mode="text", now=NOW))
    assert [h.conversation_id for h in page.hits] == ["both"]


@pytest.mark.both_stores
def test_what_to_know_about_each_concept_is_said(library: recollect.Library) -> None:
    for n in range(4):
        texts = [f"trip {n} to kyoto", f"the garden has tomatoes, {n} of them"]
        messages = [message(f"{n}{k}", text) for k, text in enumerate(texts)]
        library.add_conversation(f"c{n}", messages=messages)
    options = SearchOptions(mode="text")
    page = library.search(["kyotto", "tomatoes"], options=options)
    assert page.total == 4
    assert page.corrections == {"kyotto": "kyoto"}
    assert page.note == "Searched for “kyoto” instead of “kyotto”."
    page = library.search(["zzyzx", "tomatoes"], options=options)
    assert (page.total, page.missing) == (0, ("zzyzx",))
    assert page.note == "No message mentions “zzyzx”."


@pytest.mark.parametrize(
    "concepts", [[], ["a", "b", "c", "d", "e", "f"], ["walrus", "?!"], ["walrus", ""]]
)
def test_too_few_too_many_or_empty_concepts_are_refused(
    library: recollect.Library, concepts: list[str]
) -> None:
    with pytest.raises(InvalidInput, match="concept"):
        library.search(concepts)


def test_a_single_concept_is_a_query(library: recollect.Library) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": "a walrus on the beach"}])
    assert library.search(["walrus"]) == library.search("walrus")


@pytest.mark.both_stores
@pytest.mark.parametrize("mode", ["text", "vector", "both"])
def test_punctuation_is_searched_for_literally_in_every_mode(
    library: recollect.Library, mode: str
) -> None:
    library.add_conversation("c", messages=[message("a", "Stop!!!"), message("b", "Stop.")])
    page = library.search("!!!", options=SearchOptions(mode=mode))
    assert (ids(page), page.matched) == (["a"], "literal")
    results: Any = library.knowledge.search("!!!", mode=mode)["results"]
    assert [result["message_id"] for result in results] == ["a"]


@pytest.mark.full
def test_the_total_counts_what_is_found_by_words_and_what_by_meaning(
    library: recollect.Library,
) -> None:
    others = (
        "The invoice of March is late",
        "The train to Rome was full",
        "Yeast makes dough rise",
    )
    for number in range(250):
        library.add_conversation(
            f"c{number}",
            messages=[
                message("a", f"The doctor is in room {number}."),
                message("b", f"Migraine and head pain again, day {number}."),
                message("c", f"{others[number % 3]} {number}."),
            ],
        )
    library.index()
    query = "what does the doctor say about my headache"
    pages = [
        library.search(query, options=SearchOptions(limit=200, offset=offset))
        for offset in (0, 200)
    ]
    hits = [hit for page in pages for hit in page.hits]
    assert any("text" not in hit.arms for hit in hits if hit.arms)
    assert {page.total for page in pages} == {len(hits)}


# -- related ------------------------------------------------------------------


@in_every_state
def test_related_messages_are_similar_and_exclude_the_message_itself(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[message("a", "the walrus sleeps on the ice"), message("b", "tax papers")]
    )
    library.add_conversation(
        "c2", messages=[message("c", "a walrus and an ice floe"), message("d", "guitar chords")]
    )
    library.add_conversation(
        "c3",
        messages=[message("h", "ice walrus", "system", visibility="hidden"), message("e", "hm")],
    )
    bring_to(state, library, monkeypatch)
    page = library.related("c1", "a")
    assert page.hits[0].message_id == "c"
    assert not {"a", "h"} & set(ids(page))
    text = library.related("c1", "a", SearchOptions(mode="text"))
    assert (ids(text), text.total) == (["c"], 1)
    with pytest.raises(NotFound):
        library.related("c1", "nothing")
    with pytest.raises(NotFound):
        library.related("nowhere", "a")


def test_no_page_of_related_messages_contains_the_message_itself(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_candidates(monkeypatch, 5)
    library.add_conversation(
        "c1", messages=[message(f"m{n}", f"walrus w{n}", days=n) for n in range(40)]
    )
    related: list[str] = []
    while True:
        options = SearchOptions(mode="text", limit=5, offset=len(related))
        page = library.related("c1", "m20", options)
        if not page.hits:
            break
        related += ids(page)
    assert sorted(related) == sorted(f"m{n}" for n in range(40) if n != 20)


def test_a_message_without_words_has_no_related_messages(library: recollect.Library) -> None:
    library.add_conversation(
        "c1", messages=[message("a", "!?"), message("b", ""), message("c", "walrus")]
    )
    for id in ("a", "b"):
        assert library.related("c1", id, SearchOptions(mode="text")).hits == ()
    library.index()
    assert "a" not in ids(library.related("c1", "a"))


# -- with and without vectors -------------------------------------------------


def test_without_vectors_search_uses_words_and_vector_mode_is_an_error(
    library: recollect.Library,
) -> None:
    library.add_conversation("c1", messages=[message("a", "walrus")])
    page = library.search("walrus")
    assert (page.mode, page.embedded, page.note, page.hits[0].arms) == ("text", 0.0, "", ("text",))
    with pytest.raises(InvalidInput, match="no vectors"):
        library.search("walrus", options=SearchOptions(mode="vector"))
    with pytest.raises(InvalidInput, match="no vectors"):
        library.related("c1", "a", SearchOptions(mode="vector"))


def test_messages_that_share_no_word_with_the_query_are_found_by_meaning(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1", messages=[message(f"m{n}", text, days=n) for n, text in enumerate(TOPICS)]
    )
    library.index()
    page = library.search("young dog", options=SearchOptions(now=NOW))
    assert (page.hits[0].message_id, page.hits[0].arms, page.mode) == ("m0", ("vector",), "both")
    options = SearchOptions(mode="vector", now=NOW)
    assert ids(library.search("young dog", options=options))[0] == "m0"
    assert ids(library.search("airplane to Norway", options=options))[0] == "m6"
    assert ids(library.search("young dog", options=SearchOptions(mode="text"))) == []


@pytest.mark.both_stores
def test_the_first_score_says_how_much_of_the_query_the_hits_contain(
    library: recollect.Library,
) -> None:
    texts = ["The plumber fixed the boiler in March.", "My plumber has a van.", "It rained."]
    for number, text in enumerate(texts):
        library.add_conversation(f"c{number}", messages=[message(f"m{number}", text)])
    library.index()

    def score(query: str) -> float:
        return library.search(query, options=SearchOptions(now=NOW)).hits[0].score

    answerable = score("When did the plumber fix the boiler?")
    assert answerable > 0.8 > 0.6 > score("Which plumber repaired the roof of the harbour office?")
    assert score("plumber boiler") == score("plumber AND van") == 1
    assert score("plumber trampoline") < 0.6


# -- the reranker ---
