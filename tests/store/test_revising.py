"""Revising stored text, deleting passages, and deleting earlier states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from recollect import Document, Filter, Passage
from recollect.errors import Conflict, NotFound
from recollect.language.queries.query import parse
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.store.base import Store

pytestmark = pytest.mark.every_store


def conversation(*contents: str, id: str = "c", title: str = "A conversation") -> Document:
    passages: list[Passage] = []
    parent = None
    for n, text in enumerate(contents):
        passages.append(Passage(f"m{n}", "user", text, parent=parent))
        parent = f"m{n}"
    return Document("test", id, title, passages=tuple(passages))


def replace_walrus(document: Document) -> Document:
    passages = tuple(
        p._replace(content=p.content.replace("walrus", "WHALE")) for p in document.passages
    )
    return replace(document, title=document.title.replace("walrus", "WHALE"), passages=passages)


def matching_ids(store: Store, word: str) -> list[str]:
    keys = store.match(parse(word), Filter(hidden=True), 10)
    return sorted(c.id for c in store.candidates(keys, Filter(hidden=True)))


def contents(store: Store, id: str = "c") -> list[str]:
    return [p.content for p in store.document(id).passages]


def test_a_revision_changes_text_and_title_and_nothing_else(store: Store) -> None:
    store.save([conversation("a walrus", "a seal", "walrus again", title="walrus")])
    before = store.document("c")
    assert store.revise("c", replace_walrus) == 2
    after = store.document("c")
    assert after == replace_walrus(before) and after.version == before.version + 1
    assert matching_ids(store, "walrus") == []
    assert matching_ids(store, "whale") == ["m0", "m2"]
    assert matching_ids(store, "seal") == ["m1"]
    assert store.verify().healthy


def test_a_revision_deletes_observations(store: Store) -> None:
    store.save([conversation("a walrus")])
    observations = Document(
        OBSERVATIONS,
        "c",
        kind=OBSERVATION,
        id="observations:c",
        passages=(Passage("o", "fact", "walrus"),),
    )
    store.save_observations("c", 1, observations)
    assert store.unobserved(10) == ([], 0)
    store.revise("c", replace_walrus)
    assert store.unobserved(10)[0] == [("c", 2)] and matching_ids(store, "walrus") == []


def test_an_undo_does_not_restore_revised_text(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([conversation("a walrus", title="walrus")], first.id)
    store.save([conversation("the walrus", "more", title="walrus two")], second.id)
    store.revise("c", replace_walrus)
    store.undo_import(second.id)
    assert (contents(store), store.document("c").title) == (["the WHALE"], "WHALE two")
    store.undo_import(first.id)
    with pytest.raises(NotFound):
        store.document("c")


def note(text: str) -> Document:
    return Document(
        "notes",
        "n",
        "Note",
        kind="note",
        id="n",
        passages=(Passage(f"n-{text}", None, text, type="chunk"),),
    )


def test_a_revised_note_stays_until_the_import_that_created_it_is_undone(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([note("walrus one")], first.id)
    store.save([note("walrus two")], second.id)
    store.revise("n", replace_walrus)
    store.undo_import(second.id)
    assert contents(store, "n") == ["WHALE two"]
    store.undo_import(first.id)
    with pytest.raises(NotFound):
        store.document("n")


def test_unwanted_undo_states_are_deleted(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([conversation("a walrus"), conversation("a seal", id="d"), note("walrus")], first.id)
    store.save([conversation("clean"), conversation("clean", id="d"), note("clean")], second.id)
    assert store.delete_undo_states(lambda state: "walrus" in state) == 2
    assert store.delete_undo_states(lambda state: "walrus" in state) == 0
    store.undo_import(second.id)
    assert [contents(store, id) for id in ("c", "d", "n")] == [["clean"], ["a seal"], ["clean"]]
    store.undo_import(first.id)
    assert list(store.iter_documents(Filter())) == []


def test_a_passage_can_be_deleted(store: Store, reopen: Callable[[], Store]) -> None:
    store.save([conversation("one", "two", "walrus")])
    assert store.delete("c", "m2").passages[0].content == "walrus"
    after = reopen().document("c")
    assert [(p.id, p.position, p.canonical) for p in after.passages] == [
        ("m0", 0, True),
        ("m1", 1, True),
    ]
    assert (after.head, after.version) == ("m1", 2)
    assert matching_ids(store, "walrus") == []
    store.append("c", Passage("m3", "user", "three"))
    assert [(p.id, p.parent) for p in store.document("c").passages][-1] == ("m3", "m1")
    assert store.verify().healthy


def test_a_passage_with_replies_cannot_be_deleted(store: Store) -> None:
    store.save([conversation("one", "two")])
    with pytest.raises(Conflict, match="'m0' has replies"):
        store.delete("c", "m0")
    for document, passage in (("c", "nothing"), ("nowhere", "m1")):
        with pytest.raises(NotFound):
            store.delete(document, passage)
    assert contents(store) == ["one", "two"]
