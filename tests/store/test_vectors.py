"""The contract of every store for vectors (recollect/store/base.py)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import NOON, message
from numpy.typing import NDArray
from random_vectors import conversation, embed_all, keys, unit

from recollect import Document, Filter, Passage
from recollect.store.base import Store

pytestmark = pytest.mark.every_store

EVERYTHING = Filter()


# -- nearest ---


def test_the_nearest_passages_are_those_of_an_exact_comparison(store: Store) -> None:
    store.save(
        [conversation(f"c{c}", *(message(f"m{n}", "x") for n in range(200))) for c in range(10)]
    )
    space = store.add_space("test", "1", 256, None)
    vectors = unit(1, 2_000, 256)
    by_key = embed_all(store, space, vectors)
    matrix, numbers = np.array(list(by_key.values())), np.array(list(by_key))
    store.update_space(space, ready=True)
    correct = 0
    for is_refreshed in (False, True):
        if is_refreshed:
            store.refresh()
        for query in unit(2, 25, 256):
            hits = store.nearest(space, query, EVERYTHING, 10)
            exact = matrix @ query
            correct += len(set(keys(hits)) & set(numbers[np.argsort(-exact)[:10]].tolist()))
            truth = dict(zip(numbers.tolist(), exact.tolist(), strict=True))
            assert all(abs(cosine - truth[key]) < 0.01 for key, cosine in hits)
            assert [c for _, c in hits] == sorted((c for _, c in hits), reverse=True)
    assert correct >= 0.98 * 500


def test_the_highest_cosines_are_those_of_the_nearest_passages(mixed_store: Store) -> None:
    (space,) = mixed_store.spaces()
    queries = unit(29, 5, 8)
    for is_refreshed in (False, True):
        if is_refreshed:
            mixed_store.refresh()
        nearest = [mixed_store.nearest(space, query, Filter(), 1) for query in queries]
        assert mixed_store.highest_cosines(space, queries) == [c for ((_, c),) in nearest]


def test_vectors_are_read_back_nearly_unchanged(store: Store) -> None:
    store.save([conversation("c1", message("a", "x"), message("b", "y"))])
    space = store.add_space("test", "1", 32, None)
    vectors = unit(5, 2, 32)
    a, b = store.passage_key("c1", "a"), store.passage_key("c1", "b")
    unembedded = {p.key: p for p in store.unembedded(space, 2)[0]}
    store.add_vectors(space, {unembedded[a]: list(vectors), unembedded[b]: []})
    assert np.allclose(store.vectors(space, a), vectors, atol=0.005)
    assert store.vectors(space, b) == []
    assert store.cosines(space, vectors[0], [a, b, 999]).keys() == {a}


# -- filters ---


@pytest.fixture
def mixed_store(store: Store) -> Store:
    store.save(
        [
            conversation(
                "c1",
                message("a", "x", author="Ann"),
                message("b", "x", "assistant", 10),
                title="Big Walrus",
                project="work",
                metadata={"tags": ["Idea"]},
            ),
            conversation(
                "c2",
                message("c", "x", None, 20, author="Bob"),
                Passage("d", "tool", "no time"),
                message("e", "x", "system", 30, visibility="hidden"),
                title="Small",
                metadata={"tags": ["todo"]},
            ),
            Document(
                "other", "c3", "Walrus note", "note", passages=(message("f", "x", minutes=40),)
            ),
        ]
    )
    space = store.add_space("test", "1", 8, None)
    embed_all(store, space, unit(6, 6, 8))
    return store


FILTERS = [
    (Filter(), "abcdf"),
    (Filter(hidden=True), "abcdef"),
    (Filter(roles=("user",)), "af"),
    (Filter(roles=("tool", "assistant")), "bd"),
    (Filter(not_roles=("user",)), "bcd"),
    (Filter(authors=("Ann", "Bob")), "ac"),
    (Filter(not_authors=("Ann",)), "bcdf"),
    (Filter(after=NOON + timedelta(minutes=10)), "bcf"),
    (Filter(before=NOON + timedelta(minutes=10)), "ab"),
    (Filter(after=NOON, before=NOON), "a"),
    (Filter(projects=("work",)), "ab"),
    (Filter(not_projects=("work",)), "cdf"),
    (Filter(sources=("other",)), "f"),
    (Filter(kinds=("conversation",)), "abcd"),
    (Filter(conversations=("c2",)), "cd"),
    (Filter(tags=("idea",)), "ab"),
    (Filter(not_tags=("idea",)), "cdf"),
    (Filter(titles=("walrus",)), "abf"),
    (Filter(titles=("big walrus",)), "ab"),
    (Filter(not_titles=("walrus",)), "cd"),
    (Filter(roles=("nobody",)), ""),
    (Filter(conversations=("nowhere",)), ""),
    (Filter(titles=("walrus",), roles=("user",), after=NOON + timedelta(minutes=1)), "f"),
]


@pytest.mark.parametrize("is_refreshed", [False, True])
def test_filters_apply_within_the_search(mixed_store: Store, is_refreshed: bool) -> None:
    if is_refreshed:
        mixed_store.refresh()
    (space,) = mixed_store.spaces()
    query = unit(7, 1, 8)[0]
    for filter, expected in FILTERS:
        hits = keys(mixed_store.nearest(space, query, filter, 10))
        messages = mixed_store.candidates(hits, Filter(hidden=True))
        assert "".join(sorted(c.id for c in messages)) == expected, filter
        assert keys(mixed_store.nearest(space, query, filter, 1)) == hits[:1], filter


# -- the embedding queue ---


def test_embedded_passages_without_a_vector_can_be_listed_and_queued(store: Store) -> None:
    store.save([conversation("c1", *(message(f"m{n}", f"text {n}") for n in range(4)))])
    space = store.add_space("test", "1", 8, None)
    batch, _ = store.unembedded(space, 3)
    store.add_vectors(space, {p: [unit(27, 1, 8)[0]] if n else [] for n, p in enumerate(batch)})
    assert [p.content for p in store.unembedded(space, 10, after=0)[0]] == ["text 0"]
    assert store.unembedded(space, 10, after=batch[0].key)[0] == []
    for _ in range(2):
        store.update_space(space, queue=[batch[0].key, 999])
    assert store.unembedded(space, 10, after=0)[0] == []
    assert [p.content for p in store.unembedded(space, 10)[0]] == ["text 0", "text 3"]
    assert store.verify().healthy


@pytest.mark.parametrize("is_refreshed", [False, True])
def test_deleted_and_changed_passages_are_not_found_by_their_old_vectors(
    store: Store, is_refreshed: bool
) -> None:
    store.save(
        [
            conversation("c1", message("a", "one")),
            conversation("c2", message("b", "two"), message("c", "three")),
        ]
    )
    space = store.add_space("test", "1", 8, None)
    by_key = embed_all(store, space, unit(13, 3, 8))
    if is_refreshed:
        store.refresh()
    query = by_key[store.passage_key("c1", "a")]
    store.delete("c1")
    store.save([conversation("c2", message("b", "other"), message("c", "three"))])
    assert keys(store.nearest(space, query, EVERYTHING, 10)) == [store.passage_key("c2", "c")]
    assert store.cosines(space, query, list(by_key)).keys() == {store.passage_key("c2", "c")}


@settings(max_examples=max(5, settings.default.max_examples))
@given(
    st.lists(st.sampled_from(["append", "change", "delete", "embed", "refresh"]), max_size=12),
    st.integers(0, 99),
)
def test_after_any_changes_each_passage_has_its_own_vector_or_is_unembedded(
    reopen: Callable[[], Store], steps: list[str], seed: int
) -> None:
    store = reopen()
    for document in list(store.iter_documents(EVERYTHING)):
        store.delete(document.id)
    space = store.add_space("test", str(seed), 8, None)
    rng = np.random.default_rng(seed)

    def vector_of(content: str) -> NDArray[np.float32]:
        return unit(sum(content.encode()), 1, 8)[0]

    for number, step in enumerate(steps):
        ids = [d.id for d in store.iter_documents(EVERYTHING)]
        some = ""
        if ids:
            some = ids[int(rng.integers(len(ids)))]
        if step == "append" or not ids:
            store.save(
                [
                    conversation(
                        f"{seed}-{number}",
                        message("a", f"text {number}"),
                        message("b", f"more {number}"),
                    )
                ]
            )
        elif step == "change":
            store.save([conversation(some, message("a", f"changed {number}"))])
        elif step == "delete":
            store.delete(some)
        elif step == "embed":
            store.add_vectors(
                space, {p: [vector_of(p.content)] for p in store.unembedded(space, 3)[0]}
            )
        else:
            store.refresh()
    contents = {
        store.passage_key(d.id, p.id): p.content
        for d in store.iter_documents(EVERYTHING)
        for p in d.passages
    }
    unembedded = {p.key for p in store.unembedded(space, 1_000)[0]}
    hits = store.nearest(space, unit(99, 1, 8)[0], EVERYTHING, 1_000)
    assert sorted(keys(hits)) == sorted(contents.keys() - unembedded)
    for key in contents.keys() - unembedded:
        assert np.allclose(store.vectors(space, key)[0], vector_of(contents[key]), atol=0.01)


# -- spaces ---


def test_only_one_store_can_hold_the_indexing_lock(
    store: Store, reopen: Callable[[], Store]
) -> None:
    other = reopen()
    with store.indexing_lock() as first:
        assert first
        with other.indexing_lock() as second:
            assert not second
    with other.indexing_lock() as again:
        assert again
