"""What is read for several plans at once is what each step would read by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from recollect.language.queries.query_tree import Node, Or, Word
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION, NOTE
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.text import matches
from recollect.store.values import Candidate, CandidateRead, SearchPlan, Space

NODE = Or((Word("tram"), Word("castle")))
FILTERS = (
    Filter(),
    Filter(kinds=(CONVERSATION,)),
    Filter(kinds=(NOTE,)),
    Filter(projects=("travel",)),
    Filter(roles=("user",)),
    Filter(projects=("travel",), kinds=(CONVERSATION,), hidden=True),
)
LIMIT = 7


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database, user)
    for number in range(6):
        passages = tuple(
            Passage(f"m{place}", ("user", "assistant")[place % 2], text)
            for place, text in enumerate(("a tram", "the castle", "a tram to the castle", "no"))
        )
        kind = NOTE if number == 5 else CONVERSATION
        project = "travel" if number % 2 else "home"
        store.save([Document("test", f"d{number}", kind=kind, project=project, passages=passages)])
    yield store
    store.close()


@pytest.fixture
def space(store: PostgresStore) -> Space:
    space = store.add_space("test", "1", 4, None)
    passages, _ = store.unembedded(space, 100)
    rng = np.random.default_rng(1)
    store.add_vectors(space, {each: [rng.normal(size=4).astype("f4")] for each in passages})
    return space


def steps(store: PostgresStore, filter: Filter, space: Space, vector: Any) -> tuple[Any, ...]:
    nodes: tuple[Node, ...] = (Word("tram"), NODE)
    return (
        [sorted(store.match(node, filter, LIMIT)) for node in nodes],
        store.nearest(space, vector, filter, LIMIT),
        store.count(NODE, filter),
    )


@pytest.mark.parametrize("max_documents", [2_000, 2])
def test_plans_find_what_the_steps_find(
    store: PostgresStore, space: Space, max_documents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the documents that pass a filter are few or not."""
    vector = np.array([1.0, 0.5, -0.5, 0.25], "f4")
    separately = [steps(store, filter, space, vector) for filter in FILTERS]
    monkeypatch.setattr(matches, "MAX_LISTED_DOCUMENTS", max_documents)
    plans = [SearchPlan((Word("tram"), NODE), each, LIMIT, space, vector) for each in FILTERS]
    with store.snapshot():
        store.expect(*plans)
        assert [steps(store, filter, space, vector) for filter in FILTERS] == separately


def test_candidates_of_several_reads_are_those_of_each(store: PostgresStore) -> None:
    keys = store.match(NODE, Filter(), 100)
    ids = (("d1", "m0"), ("d2", "m1"), ("d3", "missing"), ("missing", "m0"))
    travel = Filter(projects=("travel",))

    def read() -> list[list[Candidate]]:
        reads = [
            store.candidates(keys, Filter()),
            store.candidates(keys, travel),
            store.previous_passages(keys),
            store.candidates_by_id(ids, travel),
            store.candidates_by_id(ids[:1], travel),
        ]
        return [sorted(each) for each in reads]

    separately = read()
    assert [each.id for each in separately[-2]] == ["m0"]
    with store.snapshot():
        store.expect_candidates(
            CandidateRead(tuple(keys), Filter()),
            CandidateRead(tuple(keys), travel),
            CandidateRead(tuple(keys)),
            CandidateRead(ids=ids, filter=travel),
        )
        assert read() == separately
