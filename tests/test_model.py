"""Conversations are trees: their reading order, and the canonical path through the branches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.model.documents import arrange

START = datetime(2025, 1, 1, tzinfo=UTC)


def tree(*links: tuple[str, str | None], head: str | None = None) -> Document:
    passages = tuple(
        Passage(id, "user", id, parent=parent, created_at=START + timedelta(minutes=n))
        for n, (id, parent) in enumerate(links)
    )
    return arrange(Document("test", "c", passages=passages, head=head))


def order(document: Document) -> list[str]:
    return [p.id for p in document.passages]


def path(document: Document) -> list[str]:
    return [p.id for p in document.canonical]


def test_the_path_to_the_head_is_canonical() -> None:
    document = tree(("a", None), ("b", "a"), ("c", "a"), ("d", "b"), head="d")
    assert (order(document), path(document)) == (["a", "b", "d", "c"], ["a", "b", "d"])


def test_without_a_head_the_newest_leaf_becomes_the_head() -> None:
    document = tree(("a", None), ("b", "a"), ("c", "a"))
    assert (document.head, path(document)) == ("c", ["a", "c"])


def test_messages_without_parents_are_all_canonical_and_stay_in_order() -> None:
    document = tree(("a", None), ("b", None), ("c", None))
    assert path(document) == ["a", "b", "c"]


def test_a_child_listed_before_its_parent_is_moved_after_it() -> None:
    assert order(tree(("b", "a"), ("a", None))) == ["a", "b"]


def test_a_message_whose_parent_is_missing_becomes_a_root() -> None:
    assert order(tree(("a", "gone"), ("b", "a"))) == ["a", "b"]


def test_a_cycle_is_broken() -> None:
    document = tree(("a", "b"), ("b", "a"), ("c", "c"))
    assert sorted(order(document)) == ["a", "b", "c"]


def test_a_chain_of_20_000_messages_is_arranged() -> None:
    links = [(f"m{n}", f"m{n - 1}") for n in range(1, 20_000)]
    document = tree(("m0", None), *links)
    assert len(path(document)) == 20_000


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20, unique_by=lambda t: t[0]
    )
)
def test_any_graph_of_messages_gets_a_complete_order(links: list[tuple[int, int]]) -> None:
    document = tree(*((str(a), str(b)) for a, b in links))
    assert sorted(order(document)) == sorted(str(a) for a, _ in links)
    assert [p.position for p in document.passages] == list(range(len(links)))
    assert arrange(document) == document
