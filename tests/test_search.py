"""What a search finds, promises and says, as a person or an agent meets it."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.errors import InvalidInput, NotFound
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search import engine
from recollect.store.sqlite import sealed
from recollect.store.sqlite import store as sqlite_store

NOW = datetime(2025, 6, 18, 12, tzinfo=UTC)  # a Wednesday
# With words alone, with vectors, and with sealed volumes as well, which only SQLite has.
STATES = [
    *(("sqlite", "fresh"), ("sqlite", "embedded"), ("sqlite", "sealed")),
    *(("postgres", "fresh"), ("postgres", "embedded")),
]
in_every_state = pytest.mark.parametrize(("place", "state"), STATES, indirect=["place"])


def said(
    id: str, content: str, role: str = "user", days: float = 0, **fields: Any
) -> dict[str, Any]:
    """A message of so many days before now."""
    return {
        "id": id,
        "role": role,
        "content": content,
        "created_at": NOW - timedelta(days=days),
        **fields,
    }


def ids(page: Page) -> list[str]:
    return [hit.message_id for hit in page.hits]


def seal(library: recollect.Library, monkeypatch: pytest.MonkeyPatch, smallest: int = 3) -> None:
    """Make volumes of few messages, and vectors."""
    monkeypatch.setattr(sealed, "SMALLEST", smallest)
    monkeypatch.setattr(sqlite_store, "SMALLEST", smallest)
    library.index()


def bring_to(state: str, library: recollect.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    if state == "embedded":
        library.index()
    if state == "sealed":
        seal(library, monkeypatch)
        assert any((library._store.path.parent / "index/volumes").glob("*/volume.json"))  # type: ignore[attr-defined]


@pytest.fixture(scope="module", params=STATES, ids="-".join)
def talks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[recollect.Library]:
    """The same conversations in every store and state. Only to be read."""
    store, state = request.param
    place = (
        request.getfixturevalue("database")
        if store == "postgres"
        else tmp_path_factory.mktemp("talks")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_INDEXING", "manual")
        patch.delenv("RECOLLECT_EMBEDDINGS", raising=False)
        with recollect.open(place, user=f"talks-{uuid.uuid4()}") as library:
            _fill(library)
            bring_to(state, library, patch)
            yield library


def _fill(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        "Concurrency in Python",
        project="work",
        metadata={"tags": ["Idea", "Ärger"]},
        messages=[
            said("m1", "How do I run coroutines with asyncio?", days=40, author="Ann"),
            said("m2", "Use asyncio.gather() or a TaskGroup of Python 3.11.", "assistant", 40),
            said(
                "m3",
                "exit code 0x80070057 in C:\\Temp\\build-log.txt, errno -1073741819",
                "tool",
                39,
            ),
            said("m4", "Docker builds the image, kubernetes runs it", days=38),
            said("m5", "Docker alone is enough for me", days=37, author="Bob"),
        ],
    )
    library.add_conversation(
        "c2",
        "日本語",
        metadata={"tags": ["other"]},
        messages=[
            said("n1", "非同期処理について教えてください", days=20),
            said("n2", "ภาษาไทยเป็นภาษาที่ใช้ในประเทศไทย", "assistant", 19),
            said("n3", "JavaScript and TypeScript are not the same", days=18),
            said("n4", "internal instructions about asyncio", "system", 17, visibility="hidden"),
            said("n5", "std::vector<int>& v = f(x, y); // C++ and #include <map>", "assistant", 16),
            said("n6", "Der Spaziergang über die Straße war naïve", days=15),
        ],
    )


# -- what can be asked -----------------------------------------------------------


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
def test_what_operators_and_quotes_say_is_exactly_what_is_found(
    talks: recollect.Library, query: str, expected: set[str]
) -> None:
    for mode in ("text", "both"):
        page = talks.search(query, options=SearchOptions(mode=mode))
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
def test_plain_words_in_any_script_code_and_paths_put_the_right_message_first(
    talks: recollect.Library, query: str, first: str
) -> None:
    assert ids(talks.search(query))[0] == first
    assert ids(talks.search(query, options=SearchOptions(mode="text")))[0] == first


def test_a_fragment_is_looked_for_inside_words_only_where_no_word_is_that(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1", messages=[said("a", "JavaScript"), said("b", "a shell script"), said("c", "crypt")]
    )
    assert set(ids(library.search("script"))) == {"b"}
    assert set(ids(library.search("cript"))) == {"a", "b"}


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
def test_a_field_restricts_what_is_found_by_words_and_by_meaning(
    talks: recollect.Library, query: str, expected: set[str]
) -> None:
    allowed = set(ids(talks.search(query.partition(" ")[2], options=SearchOptions(limit=50))))
    for mode in ("text", "both"):
        page = talks.search(query, options=SearchOptions(mode=mode))
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
def test_fields_alone_give_the_newest(
    talks: recollect.Library, query: str, expected: list[str]
) -> None:
    page = talks.search(query)
    assert (ids(page), page.total, page.exact) == (expected, len(expected), True)


def test_fields_alone_give_each_conversation_once_where_that_is_asked(
    talks: recollect.Library,
) -> None:
    page = talks.search("role:user", options=SearchOptions(group="conversation"))
    assert [h.conversation_id for h in page.hits] == ["c2", "c1"]
    assert page.total == 2


def test_what_was_given_and_what_was_typed_must_both_hold(talks: recollect.Library) -> None:
    assert (
        ids(
            talks.search(
                "docker role:user", Filter.of(roles=["assistant"]), SearchOptions(mode="text")
            )
        )
        == []
    )
    assert ids(
        talks.search(
            "docker role:user",
            Filter.of(roles=["user", "tool"], authors=["Bob"]),
            SearchOptions(mode="text"),
        )
    ) == ["m5"]


def test_what_is_hidden_is_found_only_when_it_is_asked_for(talks: recollect.Library) -> None:
    for mode in ("text", "both"):
        assert "n4" not in ids(
            talks.search("internal instructions asyncio", options=SearchOptions(mode=mode))
        )
        assert (
            ids(
                talks.search(
                    "internal instructions asyncio",
                    Filter.of(hidden=True),
                    SearchOptions(mode=mode),
                )
            )[0]
            == "n4"
        )
    assert ids(talks.search('"internal instructions"', Filter.of(hidden=True))) == ["n4"]


# -- promises ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["both", "vector"])
@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("docker NOT kubernetes", lambda text: "docker" in text and "kubernetes" not in text),
        ('"docker alone"', lambda text: "docker alone" in text),
        ("docke* -image", lambda text: "docke" in text and "image" not in text),
        ("docker OR coroutines", lambda text: "docker" in text or "coroutines" in text),
        ("NEAR(docker image, 3)", lambda text: "docker builds the image" in text),
    ],
)
def test_no_hit_breaks_a_promise_whatever_the_mode(
    talks: recollect.Library, mode: str, query: str, kept: Callable[[str], bool]
) -> None:
    if mode == "vector" and not talks._store.spaces():
        with pytest.raises(InvalidInput, match="no vectors"):
            talks.search(query, options=SearchOptions(mode=mode))
        return
    page = talks.search(query, options=SearchOptions(mode=mode))
    assert page.hits
    texts = {p.id: p.content.lower() for c in ("c1", "c2") for p in talks.conversation(c).messages}
    assert [h.message_id for h in page.hits if not kept(texts[h.message_id])] == []


@pytest.mark.parametrize(
    "query", ["kubernetes AND javascript", "(kubernetes) AND (javascript)", "kuber* AND typesc*"]
)
def test_an_and_that_no_message_keeps_finds_nothing(talks: recollect.Library, query: str) -> None:
    page = talks.search(query)
    assert (page.hits, page.total) == ((), 0)


def test_quotes_that_no_message_has_all_of_fall_back_to_any_and_the_page_says_so(
    talks: recollect.Library,
) -> None:
    page = talks.search(
        'which "docker image" was in "kubernetes cluster zebra"?',
        options=SearchOptions(mode="text"),
    )
    assert page.hits[0].message_id == "m4"
    assert page.matched == "any"


def test_quotes_that_a_message_has_are_kept_and_the_page_says_so(talks: recollect.Library) -> None:
    page = talks.search('"docker alone" enough')
    assert (ids(page), page.matched) == (["m5"], "all")


def test_operators_that_do_not_fit_are_text_and_the_page_says_so(talks: recollect.Library) -> None:
    page = talks.search('docker AND (OR "', options=SearchOptions(mode="text"))
    assert (set(ids(page)[:2]), page.matched) == ({"m4", "m5"}, "literal")


def test_signs_alone_are_looked_for_as_they_are(talks: recollect.Library) -> None:
    page = talks.search("::")
    assert (ids(page), page.total, page.matched) == (["n5"], 1, "literal")


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
def test_nothing_typed_breaks_a_search(talks: recollect.Library, pieces: list[str]) -> None:
    try:
        page = talks.search(" ".join(pieces), options=SearchOptions(limit=3, now=NOW))
    except InvalidInput:
        return
    assert page.total >= len(page.hits)
    assert all(0 <= h.score <= 1 for h in page.hits)


@pytest.mark.parametrize(
    ("mode", "group"), [("fuzzy", "message"), ("", "message"), ("both", "day")]
)
def test_a_mode_or_group_that_is_none_is_refused(
    library: recollect.Library, mode: str, group: str
) -> None:
    with pytest.raises(InvalidInput, match="is not one of"):
        library.search("x", options=SearchOptions(mode=mode, group=group))


# -- times -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "both"])
def test_a_time_in_the_question_moves_its_messages_up_and_takes_none_away(
    library: recollect.Library, mode: str
) -> None:
    days = (1, 8, 28, 30, 75, 400)
    for day in days:
        text = f"I went to the restaurant with friends and {' ' * day}we had fish"  # one meaning, but no copies
        library.add_conversation(f"c{day}", messages=[said(f"d{day}", text, days=day)])
    others = [
        "My puppy chewed the sofa",
        "The invoice is overdue",
        "It rained all night",
        "Guitar strings broke",
        "The car needs new tyres",
        "Bread with olives",
        "A flight to Oslo",
        "The exam was hard",
    ]
    library.add_conversation(
        "x", messages=[said(f"x{n}", text, days=90 + n) for n, text in enumerate(others * 3)]
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


def test_now_is_when_the_question_is_asked(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        messages=[
            said("old", "the restaurant by the sea", days=370),
            said("new", "a restaurant in town", days=8),
        ],
    )
    asked = "restaurant last week"
    assert ids(library.search(asked, options=SearchOptions(now=NOW)))[0] == "new"
    assert (
        ids(library.search(asked, options=SearchOptions(now=NOW - timedelta(days=363))))[0] == "old"
    )
    assert ids(library.search(asked, options=SearchOptions(now="2024-06-20")))[0] == "old"


# -- at once, everywhere ---------------------------------------------------------------

ANOTHER = """
import sys, recollect
library = recollect.open(sys.argv[1])
page = library.search(sys.argv[2], options=recollect.SearchOptions(mode=sys.argv[3]))
print(page.total, *[h.message_id for h in page.hits])
"""


def elsewhere(home: Path, query: str, mode: str = "text") -> list[str]:
    """The total and the hits, as another process has them."""
    command = [sys.executable, "-c", ANOTHER, str(home), query, mode]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@in_every_state
def test_what_is_written_changed_or_deleted_is_so_at_once_for_another_process(
    library: recollect.Library, place: str, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", "Zeppelin", messages=[said("a", "walrus one"), said("b", "walrus two", days=1)]
    )
    library.add_conversation(
        "c2", "Other", messages=[said("c", "walrus three", days=2), said("d", "otter", days=3)]
    )
    bring_to(state, library, monkeypatch)
    program = f"""
import sys, recollect
def look(query):
    with recollect.open({place!r}) as library:
        page = library.search(query, options=recollect.SearchOptions(mode="text"))
        print(page.total, *sorted(h.message_id for h in page.hits), flush=True)
for line in sys.stdin:
    look(line.strip())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def found(query: str) -> list[str]:
            print(query, file=other.stdin, flush=True)
            return other.stdout.readline().split()  # type: ignore[union-attr]

        assert found("walrus") == ["3", "a", "b", "c"]
        library.add_message("c1", "user", "walrus four", id="e")
        assert found("walrus") == ["4", "a", "b", "c", "e"]
        library.add_conversation(
            "c2", "Other", messages=[said("c", "penguin three", days=2), said("d", "otter")]
        )
        assert found("walrus") == ["3", "a", "b", "e"]
        assert found("penguin") == ["1", "c"]
        assert found("zeppelin") == ["1", "a"]
        library.update_conversation("c1", "Airship")
        assert found("zeppelin") == ["0"]
        assert found("airship") == ["1", "a"]
        library.delete_conversation("c1")
        assert found("walrus") == ["0"]
        assert found("airship") == ["0"]
        assert found("penguin") == ["1", "c"]
        other.stdin.close()
        assert other.wait() == 0


@in_every_state
def test_what_was_deleted_is_in_no_answer(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[said("a", "the blue whale sings"), said("b", "the blue whale dives")]
    )
    library.add_conversation(
        "c2", messages=[said("c", "a blue whale was seen"), said("d", "tax papers", days=1)]
    )
    bring_to(state, library, monkeypatch)
    library.delete_conversation("c1")
    for mode in ("text", "both") + (("vector",) if state != "fresh" else ()):
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


def test_words_that_are_no_more_are_no_variants(library: recollect.Library) -> None:
    library.add_conversation("c1", messages=[said("a", "JavaScript")])
    library.add_conversation("c2", messages=[said("b", "TypeScript")])
    library.delete_conversation("c1")
    page = library.search("cript")
    assert (ids(page), page.total) == (["b"], 1)
    assert page.hits[0].terms == ("cript",)


# -- pages and totals ----------------------------------------------------------------


_SEA = ["sea", "ice", "tusk", "fish"]


def crowd(library: recollect.Library, count: int, rng: random.Random | None = None) -> None:
    """As many messages with one word in common, of different lengths, in conversations of ten."""
    rng = rng or random.Random(7)
    for start in range(0, count, 10):
        library.add_conversation(
            f"c{start}",
            messages=[
                said(
                    f"m{n}",
                    f"walrus {' '.join(rng.choices(_SEA, k=rng.randrange(30)))} w{n}",
                    rng.choice(["user", "assistant"]),
                    days=n / 10,
                )
                for n in range(start, min(start + 10, count))
            ],
        )


def walked(library: recollect.Library, query: str, size: int, **options: Any) -> list[Hit]:
    """All hits, page by page."""
    hits: list[Hit] = []
    while True:
        page = library.search(query, options=SearchOptions(limit=size, offset=len(hits), **options))
        if not page.hits:
            return hits
        hits += page.hits


@pytest.mark.parametrize("mode", ["text", "both"])
def test_seven_hundred_matches_are_walked_to_the_end_and_each_comes_once(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    crowd(library, 700)
    if mode == "both":
        seal(library, monkeypatch, 500)
    for query in ("walrus", "walrus tusk fish"):
        hits = walked(library, query, 100, mode=mode, now=NOW)
        assert sorted(h.message_id for h in hits) == sorted(f"m{n}" for n in range(700))
        page = library.search(query, options=SearchOptions(mode=mode))
        assert (page.total, page.exact) == (700, mode == "text")


@in_every_state
def test_pages_do_not_depend_on_their_size_also_past_what_is_ranked(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(engine, "TEXT_CANDIDATES", 10)
    crowd(library, 160)
    bring_to(state, library, monkeypatch)
    small = [h.message_id for h in walked(library, "walrus", 5, now=NOW)]
    large = [h.message_id for h in walked(library, "walrus", 50, now=NOW)]
    assert len(small) == len(set(small))
    assert set(small) == {f"m{n}" for n in range(160)}
    assert small == large


@pytest.mark.parametrize("mode", ["text", "both"])
def test_ten_pages_of_five_are_one_page_of_fifty(library: recollect.Library, mode: str) -> None:
    crowd(library, 120)
    if mode == "both":
        library.index()
    whole = library.search("walrus tusk", options=SearchOptions(limit=50, mode=mode, now=NOW))
    parts = [
        library.search("walrus tusk", options=SearchOptions(limit=5, offset=n, mode=mode, now=NOW))
        for n in range(0, 50, 5)
    ]
    assert [h for p in parts for h in p.hits] == list(whole.hits)
    assert {p.total for p in parts} == {whole.total}


def test_a_total_counts_what_the_pages_hold(library: recollect.Library) -> None:
    library.add_conversation(
        "c1", messages=[said(f"m{n}", f"common w{n}", days=n) for n in range(60)]
    )
    library.add_conversation("c2", messages=[said(f"r{n}", f"rare w{n}", days=n) for n in range(5)])
    page = library.search("rare common", options=SearchOptions(mode="text"))
    assert (page.total, page.exact) == (65, True)
    assert len(walked(library, "rare common", 50, mode="text")) == 65


def test_conversations_can_be_walked_to_the_end(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TEXT_CANDIDATES", 10)
    crowd(library, 160)
    hits = walked(library, "walrus", 5, group="conversation")
    assert len({h.conversation_id for h in hits}) == len(hits)
    page = library.search("walrus", options=SearchOptions(group="conversation"))
    assert page.total == len(hits)
    assert len(hits) == 16 or not page.exact


def test_a_page_is_clamped_and_nothing_lies_past_the_end(library: recollect.Library) -> None:
    crowd(library, 30)
    assert len(library.search("walrus", options=SearchOptions(limit=0)).hits) == 1
    assert library.search("walrus", options=SearchOptions(offset=30)).hits == ()
    assert library.search("walrus", options=SearchOptions(offset=10**9)).hits == ()
    assert library.search("walrus", options=SearchOptions(limit=10**9, offset=-5)).total == 30


# -- hits, and why -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "both", "vector"])
def test_a_hit_says_why_it_was_found_and_its_parts_add_up(
    library: recollect.Library, mode: str
) -> None:
    library.add_conversation(
        "c1",
        "Pets",
        messages=[
            said("a", "My dog is called Rex and he likes long walks"),
            said("b", "Dogs need a walk twice a day", "assistant"),
            said("c", "What do puppies eat?", days=3, author="Ann"),
            said("d", "The invoice was paid", days=300),
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


def test_messages_with_the_same_text_are_one_hit_that_counts_them(
    library: recollect.Library,
) -> None:
    for n in range(5):
        library.add_conversation(f"c{n}", messages=[said(f"m{n}", "Continue, please", days=n)])
    page = library.search("continue", options=SearchOptions(mode="text", now=NOW))
    assert [(h.message_id, h.copies) for h in page.hits] == [("m0", 4)]
    assert page.total == 5


def test_what_a_hit_stands_for_does_not_come_again_on_a_later_page(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TEXT_CANDIDATES", 10)
    messages = [
        said(f"m{n}", f"walrus and quite some other words, number {n}", days=n) for n in range(30)
    ]
    messages += [said(f"s{n}", "walrus again", days=n) for n in range(6)]
    library.add_conversation("c1", messages=messages)
    hits = walked(library, "walrus", 5, mode="text", now=NOW)
    same = [h for h in hits if h.snippet == "walrus again"]
    assert [h.copies for h in same] == [5]
    assert len(hits) == 31


@in_every_state
def test_by_conversation_each_comes_once_with_its_next_best(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[said(f"a{n}", f"walrus tusk w{n}", days=n) for n in range(5)]
    )
    library.add_conversation("c2", messages=[said("b", "one walrus", days=1)])
    library.add_conversation("c3", messages=[said("c", "invoice", days=1)])
    bring_to(state, library, monkeypatch)
    page = library.search(
        "walrus tusk", options=SearchOptions(group="conversation", mode="text", now=NOW)
    )
    assert [(h.conversation_id, len(h.also)) for h in page.hits] == [("c1", 2), ("c2", 0)]
    assert (page.total, page.exact) == (2, True)
    first = page.hits[0]
    assert len({first.message_id, *(h.message_id for h in first.also)}) == 3
    assert first.score >= first.also[0].score >= first.also[1].score


def test_what_the_person_said_comes_before_what_the_assistant_said(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1",
        messages=[
            said("u", "Oolong tea is what I like"),
            said("a", "Oolong tea is what folk like", "assistant"),
        ],
    )
    library.add_conversation(
        "c2", messages=[said("x", "Rain today."), said("y", "Take a coat.", "assistant")]
    )
    assert ids(library.search("which tea do I like", options=SearchOptions(mode="text")))[0] == "u"
    assert (
        ids(
            library.search(
                "which tea did you recommend, the one to like", options=SearchOptions(mode="text")
            )
        )[0]
        == "a"
    )


def test_the_speaker_that_is_named_comes_first(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        messages=[
            said("ann", "I am going to move to Lisbon", author="Ann"),
            said(
                "bob",
                "I am going to move to Lisbon soon, said everyone who wants to move",
                author="Bob",
            ),
        ],
    )
    assert ids(library.search("When does Bob move to Lisbon?"))[0] == "bob"
    assert ids(library.search("When does Ann move to Lisbon?"))[0] == "ann"


def test_the_newer_of_two_alike_comes_first_but_a_better_old_one_before_both(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1",
        messages=[
            said("old", "The walrus sleeps on ice floe one", days=700),
            said("new", "The walrus sleeps on ice floe two", days=2),
            said("best", "The password of the walrus sanctuary wifi is tusk", days=900),
        ],
    )
    assert ids(library.search("walrus sleeps", options=SearchOptions(mode="text", now=NOW)))[
        :2
    ] == ["new", "old"]
    assert (
        ids(
            library.search("walrus sanctuary password", options=SearchOptions(mode="text", now=NOW))
        )[0]
        == "best"
    )


def test_a_word_in_the_title_helps_every_message_of_its_conversation(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1", "Groceries", messages=[said("a", "first"), said("b", "the budget was fifty euros")]
    )
    library.add_conversation(
        "c2", "Holidays", messages=[said("c", "first"), said("d", "the budget was ninety euros")]
    )
    assert (
        ids(library.search("groceries budget", options=SearchOptions(mode="text", now=NOW)))[0]
        == "b"
    )
    assert (
        ids(library.search("holidays budget", options=SearchOptions(mode="text", now=NOW)))[0]
        == "d"
    )


# -- concepts ------------------------------------------------------------------------


@in_every_state
def test_a_conversation_must_have_every_concept(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "both", messages=[said("a", "the walrus ate"), said("b", "an invoice came", "assistant")]
    )
    library.add_conversation(
        "one", messages=[said("c", "the walrus slept"), said("d", "it was cold", "assistant")]
    )
    library.add_conversation(
        "other", messages=[said("e", "the invoice was paid"), said("f", "good", "assistant")]
    )
    library.add_conversation(
        "none", messages=[said("g", "guitar lessons"), said("h", "chords", "assistant")]
    )
    bring_to(state, library, monkeypatch)
    page = library.search(["walrus", "invoice"], options=SearchOptions(mode="text"))
    assert [h.conversation_id for h in page.hits] == ["both"]
    assert {page.hits[0].message_id, *(h.message_id for h in page.hits[0].also)} == {"a", "b"}
    assert (page.total, page.exact, page.matched) == (1, True, "all")
    assert "none" not in [h.conversation_id for h in library.search(["walrus", "invoice"]).hits]
    assert library.search(["walrus", "invoice"]).hits[0].conversation_id == "both"
    assert library.search(["walrus", "zeppelin"], options=SearchOptions(mode="text")).hits == ()
    assert [
        h.conversation_id
        for h in library.search(
            ["walrus", "ate", '"an invoice"'], options=SearchOptions(mode="text")
        ).hits
    ] == ["both"]


def test_a_conversation_with_every_concept_is_found_behind_many_with_one(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TEXT_CANDIDATES", 10)
    library.add_conversation(
        "wanted",
        messages=[
            said("a", "something of a walrus among very many other words", days=99),
            said("b", "invoice"),
        ],
    )
    for n in range(30):
        library.add_conversation(f"c{n}", messages=[said(f"m{n}", f"walrus w{n}", days=n / 9)])
    page = library.search(["walrus", "invoice"], options=SearchOptions(mode="text", now=NOW))
    assert [h.conversation_id for h in page.hits] == ["wanted"]


def test_the_parts_of_a_hit_for_concepts_add_up_too(library: recollect.Library) -> None:
    library.add_conversation(
        "c", messages=[said("a", "the walrus ate"), said("b", "an invoice came and went away")]
    )
    for hit in library.search(["walrus", "invoice"], options=SearchOptions(mode="text")).hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=0.001)


@pytest.mark.parametrize(
    "concepts", [[], ["one"], ["a", "b", "c", "d", "e", "f"], ["walrus", "?!"], ["walrus", ""]]
)
def test_one_concept_or_six_or_one_without_a_word_is_refused(
    library: recollect.Library, concepts: list[str]
) -> None:
    with pytest.raises(InvalidInput, match="concept"):
        library.search(concepts)


# -- related ---------------------------------------------------------------------------


@in_every_state
def test_related_messages_are_like_the_given_one_and_not_itself(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    library.add_conversation(
        "c1", messages=[said("a", "the walrus sleeps on the ice"), said("b", "tax papers")]
    )
    library.add_conversation(
        "c2", messages=[said("c", "a walrus and an ice floe"), said("d", "guitar chords")]
    )
    library.add_conversation(
        "c3", messages=[said("h", "ice walrus", "system", visibility="hidden"), said("e", "hm")]
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


def test_a_message_is_not_related_to_itself_on_any_page(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TEXT_CANDIDATES", 5)
    library.add_conversation(
        "c1", messages=[said(f"m{n}", f"walrus w{n}", days=n) for n in range(40)]
    )
    seen: list[str] = []
    while page := ids(
        library.related("c1", "m20", SearchOptions(mode="text", limit=5, offset=len(seen)))
    ):
        seen += page
    assert sorted(seen) == sorted(f"m{n}" for n in range(40) if n != 20)


def test_a_message_without_a_word_has_nothing_related(library: recollect.Library) -> None:
    library.add_conversation("c1", messages=[said("a", "!?"), said("b", ""), said("c", "walrus")])
    for id in ("a", "b"):
        assert library.related("c1", id, SearchOptions(mode="text")).hits == ()
    library.index()
    library.related("c1", "a")


def test_a_very_long_message_has_related_ones(library: recollect.Library) -> None:
    library.add_conversation(
        "c1",
        messages=[
            said("a", "walrus tusk " + " ".join(f"word{n}" for n in range(5_000))),
            said("b", "a walrus"),
        ],
    )
    assert ids(library.related("c1", "a", SearchOptions(mode="text"))) == ["b"]


# -- with and without vectors -------------------------------------------------------------


def test_without_vectors_words_answer_and_asking_for_vectors_is_an_error(
    library: recollect.Library,
) -> None:
    library.add_conversation("c1", messages=[said("a", "walrus")])
    page = library.search("walrus")
    assert (page.mode, page.embedded, page.note, page.hits[0].arms) == ("text", 0.0, "", ("text",))
    with pytest.raises(InvalidInput, match="no vectors"):
        library.search("walrus", options=SearchOptions(mode="vector"))
    with pytest.raises(InvalidInput, match="no vectors"):
        library.related("c1", "a", SearchOptions(mode="vector"))


def test_what_shares_no_word_with_the_question_is_found_by_meaning(
    library: recollect.Library,
) -> None:
    texts = [
        "My puppy chewed the sofa",
        "The invoice is overdue",
        "It rained all night",
        "Guitar strings broke",
        "The car needs new tyres",
        "Bread with olives",
        "A flight to Oslo",
        "The exam was hard",
    ]
    library.add_conversation(
        "c1", messages=[said(f"m{n}", text, days=n) for n, text in enumerate(texts)]
    )
    library.index()
    page = library.search("young dog", options=SearchOptions(now=NOW))
    assert (page.hits[0].message_id, page.hits[0].arms, page.mode) == ("m0", ("vector",), "both")
    assert (
        ids(library.search("young dog", options=SearchOptions(mode="vector", now=NOW)))[0] == "m0"
    )
    assert (
        ids(library.search("airplane to Norway", options=SearchOptions(mode="vector", now=NOW)))[0]
        == "m6"
    )
    assert ids(library.search("young dog", options=SearchOptions(mode="text"))) == []


@pytest.mark.parametrize("sign", ["\ue000\ue001", "ភាសា"])
def test_a_question_that_means_nothing_to_the_model_is_answered_by_words(
    library: recollect.Library, sign: str
) -> None:
    library.add_conversation("c1", messages=[said("a", f"{sign} sign"), said("b", "walrus")])
    library.index()
    assert ids(library.search(f'"{sign}"')) == ["a"]
    assert ids(library.search(sign))[0] == "a"


def test_parentheses_in_a_question_are_only_signs(library: recollect.Library) -> None:
    library.add_conversation(
        "c1", messages=[said("a", "I went to the Museum of Modern Art"), said("b", "tax papers")]
    )
    page = library.search(
        "When was my visit to the Museum of Modern Art (MoMA)?", options=SearchOptions(mode="text")
    )
    assert (ids(page)[0], page.matched) == ("a", "any")


def test_by_meaning_alone_no_page_falls_back_to_words(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "VECTOR_CANDIDATES", 5)
    crowd(library, 40)
    library.index()
    hits = walked(library, "walrus", 3, mode="vector", now=NOW)
    assert {h.arms for h in hits} == {("vector",)}
    assert len(hits) <= 5
