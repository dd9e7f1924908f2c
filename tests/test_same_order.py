"""SQLite and PostgreSQL return the same hits in the same order.

The libraries are too small for sealed volumes, whose candidates differ slightly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect import Document, Filter, Page, Passage, SearchOptions

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MODES = ("text", "vector", "both")
GROUPS = ("message", "conversation")
TOPICS = (
    "postgres index vacuum bloat autovacuum table query planner partition",
    "sourdough starter flour water oven crust hydration loaf baking",
    "walrus arctic ice blubber tusks swimming seal polar",
    "python asyncio event loop deadlock coroutine task gather timeout",
    "trip Lisbon hotel flight museum tram beach dinner",
    "garden tomatoes soil compost seedlings watering pruning harvest",
)
COMMON = "the a of to and we I you it is was that this for with on in my how what did do can please"
UNUSUAL = (
    "Übergröße naïve café",
    "東京の天気はどうですか",
    "C++ std::vector -m --force",
    "foo_bar.baz/qux",
    "кошка сидела",
    "🙂🙂",
)
QUERIES = (
    "how did we fix the deadlock in the event loop",
    "sourdough",
    "what flour did I use for the loaf last week",
    "postgres vacuum",
    '"event loop"',
    "bak*",
    "walrus NOT ice",
    "tomatoes OR compost",
    "NEAR(soil compost, 5)",
    "swim",
    "東京",
    "天気",
    "naive cafe",
    "std::vector",
    "role:user dinner",
    "in:work planner",
    "title:talk museum",
    "watering seedlings after:2026-02-01",
    "nothinglikethisanywhere",
    "the",
    "the garden and the walrus",
    "-m --force",
    '"table query" planner',
    "(flight OR hotel) AND Lisbon",
    "кошка",
    "🙂",
)


def documents(seed: int, messages: int) -> list[Document]:
    """Random conversations with at least this many messages."""
    rng = Random(seed)
    conversations: list[Document] = []
    count = 0
    while count < messages:
        number = len(conversations)
        topic = rng.choice(TOPICS).split()
        start = NOW - timedelta(days=rng.uniform(0, 90))
        passages = random_passages(rng, topic, start)
        count += len(passages)
        conversations.append(
            Document(
                "test",
                f"c{number}",
                title=rng.choice(["", "A talk about " + topic[0], " ".join(topic[:3])]),
                project=rng.choice(["default", "work"]),
                created_at=start,
                updated_at=start,
                passages=tuple(passages),
            )
        )
    return conversations


def random_passages(rng: Random, topic: list[str], start: datetime) -> list[Passage]:
    """One to nine messages about a topic. Some have no time, some are hidden, some are copies."""
    passages: list[Passage] = []
    for turn in range(rng.randint(1, 9)):
        text = random_text(rng, topic)
        if passages and rng.random() < 0.05:
            text = passages[0].content
        passage = Passage(
            f"m{turn}",
            rng.choice(["user", "assistant", "tool", None]),
            text,
            author=rng.choice([None, None, "Ada", "Ben"]),
            created_at=start + timedelta(minutes=turn),
        )
        if passages:
            passage = passage._replace(parent=passages[-1].id)
        if rng.random() < 0.05:
            passage = passage._replace(created_at=None)
        if rng.random() < 0.05:
            passage = passage._replace(visibility="hidden")
        passages.append(passage)
    return passages


def random_text(rng: Random, topic: list[str]) -> str:
    words = rng.choices(COMMON.split(), k=rng.randint(2, 30))
    words += rng.choices(topic, k=rng.randint(1, 8))
    rng.shuffle(words)
    return " ".join(words) + rng.choice(["", ".", "?", " " + rng.choice(UNUSUAL)])


@pytest.fixture
def libraries(tmp_path: Path, database: str, user: str) -> Iterator[list[recollect.Library]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(recollect.open(place, user=user, background=False))
            for place in (tmp_path / "library", database)
        ]


def summary(page: Page) -> list[object]:
    hits = [
        (
            h.conversation_id,
            h.message_id,
            round(h.score, 4),
            h.snippet,
            h.marks,
            h.terms,
            h.copies,
            tuple(a.message_id for a in h.also),
        )
        for h in page.hits
    ]
    return [hits, page.total, page.exact, page.matched, page.mode, page.embedded]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (0, 2, 3))]
)
def test_both_stores_return_the_same_hits_in_the_same_order(
    libraries: list[recollect.Library], seed: int
) -> None:
    sizes = {0: 300, 1: 70}
    conversations = documents(seed, sizes.get(seed, 140))
    for library in libraries:
        library._store.save(conversations)
        library.index()
    for mode, group, query in product(MODES, GROUPS, QUERIES):
        options = SearchOptions(mode=mode, group=group, limit=50, now=NOW)
        first, second = (library.search(query, options=options) for library in libraries)
        assert summary(first) == summary(second), (mode, group, query)


@pytest.mark.full
def test_both_stores_page_and_filter_the_same(libraries: list[recollect.Library]) -> None:
    for library in libraries:
        library._store.save(documents(9, 800))
    for query in ("the garden", "postgres", "what did we do", "swimming ice"):
        for offset in (0, 10, 150, 300):
            first, second = (
                library.search(
                    query, options=SearchOptions(mode="text", limit=10, offset=offset, now=NOW)
                )
                for library in libraries
            )
            assert (first.total, first.exact, len(first.hits)) == (
                second.total,
                second.exact,
                len(second.hits),
            )
            if offset < 150:
                assert summary(first) == summary(second)
        for filters in (
            {"roles": ["user"]},
            {"authors": ["Ada"]},
            {"after": "2026-02-10", "before": "2026-02-20"},
            {"projects": ["work"]},
            {"hidden": True},
            {"conversations": ["c3", "c4"]},
        ):
            first, second = (
                library.search(
                    query,
                    Filter.of(**filters),
                    SearchOptions(mode="text", limit=50, now=NOW),
                )
                for library in libraries
            )
            assert summary(first) == summary(second), (query, filters)


@pytest.mark.full
def test_both_stores_find_the_same_related_messages_and_concepts(
    libraries: list[recollect.Library],
) -> None:
    for library in libraries:
        library._store.save(documents(5, 200))
        library.index()
    first, second = (library.related("c1", "m0", SearchOptions(limit=30)) for library in libraries)
    assert summary(first) == summary(second)
    first, second = (
        library.search(["garden soil", "water"], options=SearchOptions(limit=30, now=NOW))
        for library in libraries
    )
    assert summary(first) == summary(second)


WORDS = "the loaf Loaves walrus naïve naive café 東京 京 std::vector x_y running ran 12 -5 🙂"
WORD = st.sampled_from(WORDS.split())


@given(
    st.lists(st.lists(WORD, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12),
    st.lists(WORD, min_size=1, max_size=3).map(" ".join),
)
@pytest.mark.full
def test_both_stores_return_the_same_hits_for_any_text(
    libraries: list[recollect.Library], texts: list[str], query: str
) -> None:
    for library in libraries:
        for document in list(library.documents()):
            library.delete_conversation(document.id)
        library._store.save(
            [
                Document(
                    "test", f"c{n // 3}-{n}", passages=(Passage("m", "user", t, created_at=NOW),)
                )
                for n, t in enumerate(texts)
            ]
        )
    for text in (query, f'"{query}"', f"{query.split()[0]}*"):
        first, second = (
            library.search(text, options=SearchOptions(mode="text", limit=50, now=NOW))
            for library in libraries
        )
        assert summary(first) == summary(second)
        assert [c.content for c in libraries[0].recent(text)] == [
            c.content for c in libraries[1].recent(text)
        ]
