"""Changing what stored passages say, taking one away, and forgetting what was before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from recollect.errors import Conflict, NotFound
from recollect.language.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.search import Filter
from recollect.store.base import Store


def talk(*contents: str, id: str = "c", title: str = "A talk") -> Document:
    passages = tuple(
        Passage(f"m{n}", "user", text, parent=f"m{n - 1}" if n else None)
        for n, text in enumerate(contents)
    )
    return Document("test", id, title, passages=passages)


def shouting(document: Document) -> Document:
    passages = tuple(
        p._replace(content=p.content.replace("walrus", "WHALE")) for p in document.passages
    )
    return replace(document, title=document.title.replace("walrus", "WHALE"), passages=passages)


def found(store: Store, word: str) -> list[str]:
    keys = store.match(parse(word), Filter(hidden=True), 10)
    return sorted(c.id for c in store.candidates(keys, Filter(hidden=True)))


def contents(store: Store, id: str = "c") -> list[str]:
    return [p.content for p in store.document(id).passages]


def test_a_revision_changes_words_and_titles_and_nothing_else(store: Store) -> None:
    store.save([talk("a walrus", "a seal", "walrus again", title="walrus")])
    before = store.document("c")
    assert store.revise("c", shouting) == 2
    after = store.document("c")
    assert after == shouting(before) and after.version == before.version + 1
    assert (
        found(store, "walrus") == []
        and found(store, "whale") == ["m0", "m2"]
        and found(store, "seal") == ["m1"]
    )
    assert store.verify().healthy


def test_a_revision_that_changes_nothing_is_none(store: Store) -> None:
    store.save([talk("a seal")])
    assert store.revise("c", shouting) == 0
    assert store.document("c").version == 1
    with pytest.raises(NotFound):
        store.revise("nowhere", shouting)


def test_a_revision_forgets_what_was_observed(store: Store) -> None:
    store.save([talk("a walrus")])
    seen = Document(
        OBSERVATIONS,
        "c",
        kind=OBSERVATION,
        id="observations:c",
        passages=(Passage("o", "fact", "walrus"),),
    )
    store.save_observations("c", 1, seen)
    assert store.unobserved(10) == ([], 0)
    store.revise("c", shouting)
    assert store.unobserved(10)[0] == [("c", 2)] and found(store, "walrus") == []


def test_what_was_revised_does_not_come_back_with_an_undo(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([talk("a walrus", title="walrus")], first.id)
    store.save([talk("the walrus", "more", title="walrus two")], second.id)
    store.revise("c", shouting)
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


def test_a_revised_note_stays_until_the_import_that_brought_it_is_taken_back(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([note("walrus one")], first.id)
    store.save([note("walrus two")], second.id)
    store.revise("n", shouting)
    store.undo_import(second.id)
    assert contents(store, "n") == ["WHALE two"]
    store.undo_import(first.id)
    with pytest.raises(NotFound):
        store.document("n")


def test_states_are_forgotten_where_they_are_unwanted(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([talk("a walrus"), talk("a seal", id="d"), note("walrus")], first.id)
    store.save([talk("clean"), talk("clean", id="d"), note("clean")], second.id)
    assert store.delete_undo_states(lambda state: "walrus" in state) == 2
    assert store.delete_undo_states(lambda state: "walrus" in state) == 0
    store.undo_import(second.id)
    assert [contents(store, id) for id in ("c", "d", "n")] == [["clean"], ["a seal"], ["clean"]]
    store.undo_import(first.id)
    assert list(store.iter_documents(Filter())) == []


def test_a_passage_is_cut_off(store: Store, reopen: Callable[[], Store]) -> None:
    store.save([talk("one", "two", "walrus")])
    assert store.delete_passage("c", "m2").content == "walrus"
    after = reopen().document("c")
    assert [(p.id, p.position, p.canonical) for p in after.passages] == [
        ("m0", 0, True),
        ("m1", 1, True),
    ]
    assert (after.head, after.version) == ("m1", 2)
    assert found(store, "walrus") == []
    store.append("c", Passage("m3", "user", "three"))
    assert [(p.id, p.parent) for p in store.document("c").passages][-1] == ("m3", "m1")
    assert store.verify().healthy


def test_the_last_passage_may_be_cut_off_and_others_added(store: Store) -> None:
    store.save([talk("walrus", title="seal")])
    store.delete_passage("c", "m0")
    assert store.document("c").passages == () and found(store, "seal") == []
    store.append("c", Passage("m1", "user", "again"))
    assert found(store, "seal") == ["m1"] and store.summary("c").message_count == 1


def test_what_has_answers_is_not_cut_off(store: Store) -> None:
    store.save([talk("one", "two")])
    with pytest.raises(Conflict, match="'m0' has replies"):
        store.delete_passage("c", "m0")
    for document, passage in (("c", "nothing"), ("nowhere", "m1")):
        with pytest.raises(NotFound):
            store.delete_passage(document, passage)
    assert contents(store) == ["one", "two"]
