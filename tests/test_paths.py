"""Paths through a conversation with branches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect import Document, Passage
from recollect.errors import NotFound
from recollect.knowledge.paths import path_through
from recollect.model.documents import Position, arrange


@st.composite
def trees(draw: st.DrawFn) -> list[Position]:
    """The positions of any tree, as a store returns them. Parents may be missing."""
    size = draw(st.integers(1, 25))
    passages = []
    for n in range(size):
        parent = draw(st.sampled_from([None, "gone", *(f"m{k}" for k in range(n))]))
        passages.append(Passage(f"m{n}", "user", "", parent=parent))
    head = draw(st.sampled_from([None, *(p.id for p in passages)]))
    arranged = arrange(Document("test", "t", passages=tuple(passages), head=head))
    return [
        Position(n, p.id, p.parent, p.position, p.canonical)
        for n, p in enumerate(arranged.passages)
    ]


@given(trees(), st.data())
def test_a_path_leads_from_a_root_through_the_message_to_a_leaf(
    positions: list[Position], data: st.DataObject
) -> None:
    ids = {position.id for position in positions}
    through = data.draw(st.sampled_from(sorted(ids)))
    steps = path_through(positions, through)
    path = [step.position.id for step in steps]
    assert through in path
    assert len(set(path)) == len(path)
    if any(position.parent in ids for position in positions):
        parents = [step.position.parent if step.position.parent in ids else None for step in steps]
        assert parents == [None, *path[:-1]]
    else:
        assert path == [position.id for position in positions]


@given(trees())
def test_the_default_path_extends_the_canonical_one(positions: list[Position]) -> None:
    canonical = [position for position in positions if position.canonical]
    steps = [step.position for step in path_through(positions)]
    assert steps[: len(canonical)] == canonical
    assert all(
        position.parent == before.id
        for before, position in zip(
            steps[len(canonical) - 1 :], steps[len(canonical) :], strict=False
        )
    )


@given(trees())
def test_siblings_have_the_same_parent_and_include_the_message(
    positions: list[Position],
) -> None:
    by_id = {position.id: position for position in positions}
    for step in path_through(positions):
        assert step.siblings[step.index] == step.position.id
        parents = {by_id[s].parent if by_id[s].parent in by_id else None for s in step.siblings}
        assert len(parents) == 1


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(NotFound, match="ghost"):
        path_through([Position(1, "a", None, 0, True)], "ghost")


# -- views of a library --------------------------------------------------------------


def add_branched_conversation(library: recollect.Library) -> None:
    turns = [
        {"id": "q", "role": "user", "content": "question"},
        {"id": "a1", "role": "assistant", "content": "first answer", "parent": "q"},
        {"id": "a2", "role": "assistant", "content": "second answer", "parent": "q"},
        {"id": "more", "role": "user", "content": "and then", "parent": "a2"},
    ]
    library.add_conversation("c", messages=turns)


def test_a_view_shows_the_latest_branch_and_the_siblings(
    library: recollect.Library,
) -> None:
    add_branched_conversation(library)
    view = library.view("c")
    assert [(s.passage.id, s.siblings, s.index) for s in view.messages] == [
        ("q", ("q",), 0),
        ("a2", ("a1", "a2"), 1),
        ("more", ("more",), 0),
    ]
    assert (view.start, view.total, view.document.passages) == (0, 3, ())
    assert (view.conversation_total, view.size) == (4, "4 messages, 3 on this branch")
    other = library.view("c", through="a1")
    assert other.size == "4 messages, 2 on this branch"
    assert [s.passage.content for s in other.messages] == ["question", "first answer"]


def test_a_view_starts_at_an_offset_or_around_a_message(library: recollect.Library) -> None:
    library.add_conversation(
        "long", messages=[{"id": f"m{n}", "role": "user", "content": str(n)} for n in range(100)]
    )

    def visible(**options: object) -> tuple[list[str], int, int]:
        view = library.view("long", limit=4, **options)  # type: ignore[arg-type]
        return [s.passage.id for s in view.messages], view.start, view.total

    assert visible() == (["m0", "m1", "m2", "m3"], 0, 100)
    assert visible(around="m50") == (["m48", "m49", "m50", "m51"], 48, 100)
    assert visible(around="m0") == (["m0", "m1", "m2", "m3"], 0, 100)
    assert visible(around="m99") == (["m96", "m97", "m98", "m99"], 96, 100)
    assert visible(start=98) == (["m98", "m99"], 98, 100)
    assert visible(start=1_000) == ([], 100, 100)
    with pytest.raises(NotFound):
        library.view("long", around="ghost")
    with pytest.raises(NotFound):
        library.view("nowhere")


CHAIN = [
    {"id": f"m{n}", "role": "user", "content": str(n), "parent": f"m{n - 1}"} for n in range(30)
]
FLAT = [{"id": f"m{n}", "role": "user", "content": str(n)} for n in range(30)]


@pytest.mark.parametrize("messages", [CHAIN, FLAT], ids=["chain", "flat"])
@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, 0),
        ({"start": 28}, 28),
        ({"through": "m3"}, 0),
        ({"around": "m9"}, 7),
        ({"through": "m9", "around": "m29"}, 26),
        ({"through": "m9", "around": "ghost"}, 0),
        ({"around": "m9", "start": 2}, 2),
    ],
    ids=str,
)
def test_a_view_without_branches_is_a_page_of_all_messages(
    library: recollect.Library, messages: list[dict[str, str]], options: dict[str, Any], start: int
) -> None:
    library.add_conversation("c", messages=messages)
    view = library.view("c", limit=4, **options)
    assert (view.start, view.total) == (start, len(messages))
    assert [(m.passage.id, m.siblings, m.index) for m in view.messages] == [
        (message["id"], (message["id"],), 0) for message in messages[start : start + 4]
    ]
