"""What every store promises of vectors (recollect/store/base.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recollect.errors import NotFound
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import Space

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter()


def said(
    id: str, content: str, role: str | None = "user", minutes: int = 0, **fields: Any
) -> Passage:
    return Passage(id, role, content, created_at=NOON + timedelta(minutes=minutes), **fields)


def conversation(id: str, *passages: Passage, **fields: Any) -> Document:
    return Document(
        "test", id, passages=passages, **({"created_at": NOON, "updated_at": NOON} | fields)
    )


def unit(seed: int, count: int, dimensions: int) -> NDArray[np.float32]:
    made = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    unit_: NDArray[np.float32] = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit_


def embed_all(
    store: Store, space: Space, made: NDArray[np.float32]
) -> dict[int, NDArray[np.float32]]:
    """Give each passage that waits the next of these vectors."""
    given_: dict[int, NDArray[np.float32]] = {}
    while batch := store.unembedded(space, 1_000)[0]:
        some = {p.key: made[len(given_) + n] for n, p in enumerate(batch)}
        store.add_vectors(space, {p: [some[p.key]] for p in batch})
        given_ |= some
    return given_


def keys(hits: list[tuple[int, float]]) -> list[int]:
    return [key for key, _ in hits]


# -- nearest -----------------------------------------------------------------------


def test_the_nearest_are_those_of_comparing_with_every_vector(store: Store) -> None:
    store.save(
        [conversation(f"c{c}", *(said(f"m{n}", "x") for n in range(500))) for c in range(10)]
    )
    space = store.add_space("test", "1", 256, None)
    vectors = unit(1, 5_000, 256)
    by_key = embed_all(store, space, vectors)
    matrix, numbers = np.array(list(by_key.values())), np.array(list(by_key))
    store.mark_space_ready(space)
    right = 0
    for copied in (False, True):
        if copied:
            store.refresh()
        for query in unit(2, 25, 256):
            hits = store.nearest(space, query, EVERYTHING, 10)
            exact = matrix @ query
            right += len(set(keys(hits)) & set(numbers[np.argsort(-exact)[:10]].tolist()))
            truth = dict(zip(numbers.tolist(), exact.tolist(), strict=True))
            assert all(abs(cosine - truth[key]) < 0.01 for key, cosine in hits)
            assert [c for _, c in hits] == sorted((c for _, c in hits), reverse=True)
    assert right >= 0.98 * 500


def test_a_passage_with_several_vectors_is_as_near_as_its_nearest_and_comes_once(
    store: Store,
) -> None:
    store.save([conversation("c1", *(said(f"m{n}", "x") for n in range(6)))])
    space = store.add_space("test", "1", 16, None)
    vectors = unit(3, 60, 16)
    batch, _ = store.unembedded(space, 10)
    store.add_vectors(space, {p: list(vectors[10 * n : 10 * n + 10]) for n, p in enumerate(batch)})
    for query in unit(4, 5, 16):
        hits = store.nearest(space, query, EVERYTHING, 4)
        truth = {
            p.key: float((vectors[10 * n : 10 * n + 10] @ query).max()) for n, p in enumerate(batch)
        }
        assert len(set(keys(hits))) == 4
        assert min(truth[k] for k in keys(hits)) > sorted(truth.values())[-4] - 0.03
        cosines = store.cosines(space, query, [p.key for p in batch])
        assert cosines == pytest.approx(truth, abs=0.02)
        assert dict(hits) == pytest.approx({k: cosines[k] for k in keys(hits)}, abs=1e-4)


def test_the_vectors_of_a_passage_come_back_about_as_they_went_in(store: Store) -> None:
    store.save([conversation("c1", said("a", "x"), said("b", "y"))])
    space = store.add_space("test", "1", 32, None)
    vectors = unit(5, 2, 32)
    a, b = store.passage_key("c1", "a"), store.passage_key("c1", "b")
    waiting = {p.key: p for p in store.unembedded(space, 2)[0]}
    store.add_vectors(space, {waiting[a]: list(vectors), waiting[b]: []})
    assert np.allclose(store.vectors(space, a), vectors, atol=0.005)
    assert store.vectors(space, b) == []
    assert store.cosines(space, vectors[0], [a, b, 999]).keys() == {a}


# -- filters --------------------------------------------------------------------------


@pytest.fixture
def varied(store: Store) -> Store:
    store.save(
        [
            conversation(
                "c1",
                said("a", "x", author="Ann"),
                said("b", "x", "assistant", 10),
                title="Big Walrus",
                project="work",
                metadata={"tags": ["Idea"]},
            ),
            conversation(
                "c2",
                said("c", "x", None, 20, author="Bob"),
                Passage("d", "tool", "no time"),
                said("e", "x", "system", 30, visibility="hidden"),
                title="Small",
                metadata={"tags": ["todo"]},
            ),
            Document("other", "c3", "Walrus note", "note", passages=(said("f", "x", minutes=40),)),
        ]
    )
    space = store.add_space("test", "1", 8, None)
    embed_all(store, space, unit(6, 6, 8))
    return store


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(
    ("filter", "expected"),
    [
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
    ],
)
def test_a_filter_holds_inside_the_search(
    varied: Store, filter: Filter, expected: str, copied: bool
) -> None:
    if copied:
        varied.refresh()
    (space,) = varied.spaces()
    query = unit(7, 1, 8)[0]
    hits = keys(varied.nearest(space, query, filter, 10))
    assert "".join(sorted(c.id for c in varied.candidates(hits, Filter(hidden=True)))) == expected
    assert keys(varied.nearest(space, query, filter, 1)) == hits[:1]


# -- waiting -----------------------------------------------------------------------------


def test_everything_waits_once_and_what_is_new_or_changed_waits_again(store: Store) -> None:
    store.save([conversation("c1", said("a", "one", author="Ann"), said("b", "two"), title="Talk")])
    space = store.add_space("test", "1", 8, None)
    batch, waiting = store.unembedded(space, 10)
    assert [(p.title, p.author, p.content) for p in batch] == [
        ("Talk", "Ann", "one"),
        ("", None, "two"),
    ]
    assert waiting == 2
    store.add_vectors(space, {p: [unit(8, 1, 8)[0]] for p in batch})
    assert store.unembedded(space, 10) == ([], 0)
    store.append("c1", said("c", "three"))
    store.save(
        [conversation("c1", said("a", "changed", author="Ann"), said("b", "two"), title="Talk")]
    )
    batch, waiting = store.unembedded(space, 10)
    assert (sorted(p.content for p in batch), waiting) == (["changed", "three"], 2)
    assert len(store.unembedded(space, 1)[0]) == 1


def test_the_first_message_waits_again_when_its_title_changes(store: Store) -> None:
    """The title is embedded with it."""
    store.save([conversation("c1", said("a", "one"), said("b", "two"), title="Zeppelin")])
    space = store.add_space("test", "1", 8, None)
    embed_all(store, space, unit(9, 2, 8))
    store.update("c1", title="Airship")
    assert [(p.title, p.content) for p in store.unembedded(space, 10)[0]] == [("Airship", "one")]


def test_nothing_waits_when_what_waited_was_deleted(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"))])
    space = store.add_space("test", "1", 8, None)
    embed_all(store, space, unit(10, 1, 8))
    store.save([conversation("c2", said("b", "two"), said("c", "three"))])
    assert store.unembedded(space, 10)[1] == 2
    store.delete("c2")
    assert store.unembedded(space, 10) == ([], 0)


def test_nothing_that_was_deleted_or_edited_stays_in_the_queue(store: Store) -> None:
    space = store.add_space("test", "1", 8, None)
    store.save([conversation("c1", said("a", "one"), said("b", "two"), title="Boats")])
    note = Document("test", "n1", "Note", kind="note", passages=(said("a", "first"),))
    (saved,) = store.save([note])
    embed_all(store, space, unit(25, 3, 8))
    store.mark_space_ready(space)
    store.delete_passage("c1", "b")
    store.delete_passage("c1", "a")
    store.rewrite(saved.id, replace(note, passages=(said("b", "second"),)))
    store.delete("c1")
    assert [p.content for p in store.unembedded(space, 1)[0]] == ["second"]
    assert store.unembedded(space, 10)[1] == 1
    assert store.verify().healthy


def test_what_waits_is_listed_although_the_queue_names_passages_that_do_not_exist(
    store: Store,
) -> None:
    store.save([conversation("c1", said("a", "one"), said("b", "two"))])
    space = store.add_space("test", "1", 8, None)
    embed_all(store, space, unit(26, 2, 8))
    store.delete("c1")
    leave_in_queue(store, space, range(1, 3))
    store.save([conversation("c2", said("c", "three"))])
    assert store.verify().orphaned_in_queue == 2
    assert not store.verify().healthy
    batch, waiting = store.unembedded(space, 1)
    assert ([p.content for p in batch], waiting) == (["three"], 1)
    store.repair()
    assert store.verify().healthy


def test_passages_without_a_vector_that_do_not_wait_can_be_listed_and_queued(store: Store) -> None:
    store.save([conversation("c1", *(said(f"m{n}", f"text {n}") for n in range(4)))])
    space = store.add_space("test", "1", 8, None)
    batch, _ = store.unembedded(space, 3)
    store.add_vectors(space, {p: [unit(27, 1, 8)[0]] if n else [] for n, p in enumerate(batch)})
    assert [p.content for p in store.vectorless(space, 0, 10)] == ["text 0"]
    assert store.vectorless(space, batch[0].key, 10) == []
    for _ in range(2):
        store.queue(space, [batch[0].key, 999])
    assert store.vectorless(space, 0, 10) == []
    assert [p.content for p in store.unembedded(space, 10)[0]] == ["text 0", "text 3"]
    assert store.verify().healthy


def leave_in_queue(store: Store, space: Space, passages: Iterable[int]) -> None:
    """Queue passages that do not exist, as an earlier version did."""
    rows = [(passage, space.id) for passage in passages]
    sql = "insert into unembedded (passage, space) values (?, ?)"
    store._write(lambda db: db.run_many(sql, rows))  # type: ignore[attr-defined]


def test_a_vector_of_what_was_deleted_meanwhile_is_left_out(store: Store) -> None:
    store.save([conversation("c1", said("a", "one")), conversation("c2", said("b", "two"))])
    space = store.add_space("test", "1", 8, None)
    batch, _ = store.unembedded(space, 10)
    store.delete("c1")
    store.add_vectors(space, {p: [unit(11, 1, 8)[0]] for p in batch})
    assert keys(store.nearest(space, unit(11, 1, 8)[0], EVERYTHING, 10)) == [
        store.passage_key("c2", "b")
    ]
    assert store.vectors(space, batch[0].key) == []


def test_a_vector_of_what_was_changed_meanwhile_is_left_out_and_it_waits_on(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"))])
    space = store.add_space("test", "1", 8, None)
    batch, _ = store.unembedded(space, 10)
    store.save([conversation("c1", said("a", "something else"))])
    store.add_vectors(space, {p: [unit(12, 1, 8)[0]] for p in batch})
    assert [p.content for p in store.unembedded(space, 10)[0]] == ["something else"]
    assert store.vectors(space, batch[0].key) == []


@pytest.mark.parametrize("copied", [False, True])
def test_what_was_deleted_or_changed_is_not_near_anything(store: Store, copied: bool) -> None:
    store.save(
        [
            conversation("c1", said("a", "one")),
            conversation("c2", said("b", "two"), said("c", "three")),
        ]
    )
    space = store.add_space("test", "1", 8, None)
    given_ = embed_all(store, space, unit(13, 3, 8))
    if copied:
        store.refresh()
    query = given_[store.passage_key("c1", "a")]
    store.delete("c1")
    store.save([conversation("c2", said("b", "other"), said("c", "three"))])
    assert keys(store.nearest(space, query, EVERYTHING, 10)) == [store.passage_key("c2", "c")]
    assert store.cosines(space, query, list(given_)).keys() == {store.passage_key("c2", "c")}


def test_undoing_an_import_takes_its_vectors_back(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"))])
    receipt = store.start_import("p")
    store.save([conversation("c2", said("b", "two"))], receipt.id)
    store.finish_import(receipt)
    space = store.add_space("test", "1", 8, None)
    given_ = embed_all(store, space, unit(14, 2, 8))
    store.refresh()
    store.undo_import(receipt.id)
    assert keys(store.nearest(space, unit(14, 1, 8)[0], EVERYTHING, 10)) == [min(given_)]


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(["append", "change", "delete", "embed", "refresh"]), max_size=12),
    st.integers(0, 99),
)
def test_after_any_changes_each_passage_has_its_own_vector_or_waits(
    reopen: Callable[[], Store], steps: list[str], seed: int
) -> None:
    store = reopen()
    for document in list(store.iter_documents(EVERYTHING)):
        store.delete(document.id)
    space = store.add_space("test", str(seed), 8, None)
    rng = np.random.default_rng(seed)

    def of(content: str) -> NDArray[np.float32]:
        return unit(sum(content.encode()), 1, 8)[0]

    for number, step in enumerate(steps):
        ids = [d.id for d in store.iter_documents(EVERYTHING)]
        some = ids[int(rng.integers(len(ids)))] if ids else ""
        if step == "append" or not ids:
            store.save(
                [
                    conversation(
                        f"{seed}-{number}", said("a", f"text {number}"), said("b", f"more {number}")
                    )
                ]
            )
        elif step == "change":
            store.save([conversation(some, said("a", f"changed {number}"))])
        elif step == "delete":
            store.delete(some)
        elif step == "embed":
            store.add_vectors(space, {p: [of(p.content)] for p in store.unembedded(space, 3)[0]})
        else:
            store.refresh()
    here = {
        store.passage_key(d.id, p.id): p.content
        for d in store.iter_documents(EVERYTHING)
        for p in d.passages
    }
    waiting = {p.key for p in store.unembedded(space, 1_000)[0]}
    near = store.nearest(space, unit(99, 1, 8)[0], EVERYTHING, 1_000)
    assert sorted(keys(near)) == sorted(here.keys() - waiting)
    for key in here.keys() - waiting:
        assert np.allclose(store.vectors(space, key)[0], of(here[key]), atol=0.01)


# -- spaces --------------------------------------------------------------------------------


def test_a_space_is_known_by_its_model_and_version(
    store: Store, reopen: Callable[[], Store]
) -> None:
    first = store.add_space("test", "1", 8, b"state")
    assert store.add_space("test", "1", 8, b"state") == first
    second = store.add_space("test", "2", 16, None)
    assert first.id != second.id
    assert (
        first.name,
        first.version,
        first.dimensions,
        first.model_state,
        first.last_key,
        first.ready,
    ) == (
        "test",
        "1",
        8,
        b"state",
        0,
        False,
    )
    assert reopen().spaces() == [first, second]


def test_vectors_of_two_spaces_are_never_mixed(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"), said("b", "two"))])
    first, second = store.add_space("test", "1", 8, None), store.add_space("test", "2", 4, None)
    embed_all(store, first, unit(15, 2, 8))
    a, b = store.passage_key("c1", "a"), store.passage_key("c1", "b")
    store.add_vectors(
        second, {p: [unit(16, 1, 4)[0]] for p in store.unembedded(second, 2)[0] if p.key == a}
    )
    for _ in range(2):
        assert keys(store.nearest(second, unit(16, 1, 4)[0], EVERYTHING, 10)) == [a]
        assert sorted(keys(store.nearest(first, unit(15, 1, 8)[0], EVERYTHING, 10))) == [a, b]
        assert [len(v) for v in store.vectors(second, a)] == [4]
        assert store.vectors(second, b) == []
        store.refresh()
    store.drop_space(first)
    assert [s.id for s in store.spaces()] == [second.id]
    assert keys(store.nearest(second, unit(16, 1, 4)[0], EVERYTHING, 10)) == [a]


def test_what_changes_waits_in_every_space(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"), said("b", "two"))])
    first, second = store.add_space("test", "1", 8, None), store.add_space("test", "2", 8, None)
    embed_all(store, first, unit(17, 2, 8))
    embed_all(store, second, unit(18, 2, 8))
    store.save([conversation("c1", said("a", "changed"), said("b", "two"))])
    embed_all(store, second, unit(19, 1, 8))
    assert [p.content for p in store.unembedded(first, 10)[0]] == ["changed"]


def test_a_space_says_how_far_it_is(store: Store, reopen: Callable[[], Store]) -> None:
    store.save([conversation("c1", *(said(f"m{n}", "x") for n in range(4)))])
    space = store.add_space("test", "1", 8, None)
    batch, _ = store.unembedded(space, 2)
    store.add_vectors(space, {p: [unit(20, 1, 8)[0]] for p in batch})
    (half,) = reopen().spaces()
    assert (half.last_key, half.ready) == (batch[-1].key, False)
    store.mark_space_ready(space)
    assert reopen().spaces()[0].ready


def test_only_one_may_embed_a_library_at_a_time(store: Store, reopen: Callable[[], Store]) -> None:
    other = reopen()
    with store.indexing_lock() as first:
        assert first
        with other.indexing_lock() as second:
            assert not second
    with other.indexing_lock() as again:
        assert again


def test_the_lock_is_free_as_soon_as_it_is_released(
    store: Store, reopen: Callable[[], Store]
) -> None:
    for _ in range(25):
        for one in (store, reopen()):
            with one.indexing_lock() as alone:
                assert alone


def test_a_sample_is_spread_over_the_library(store: Store) -> None:
    store.save([conversation("c1", *(said(f"m{n}", f"text {n}") for n in range(100)))])
    sample = [int(text.split()[1]) for text in store.sample(10)]
    assert 10 <= len(sample) <= 20
    assert (min(sample) < 20, max(sample) > 80) == (True, True)
    assert len(list(store.sample(1_000))) == 100


def test_the_key_of_what_is_not_there_is_not_found(store: Store) -> None:
    store.save([conversation("c1", said("a", "one"))])
    assert store.candidates([store.passage_key("c1", "a")], EVERYTHING)[0].id == "a"
    for document, passage in (("c1", "b"), ("c2", "a")):
        with pytest.raises(NotFound):
            store.passage_key(document, passage)
