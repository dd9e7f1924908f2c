"""Forks and resumed sessions repeat messages of another conversation: undoing imports of them."""

from __future__ import annotations

import pytest
from messages import conversation, message

from recollect import Document, Filter
from recollect.errors import Conflict
from recollect.store.base import Store


def session(id: str, *letters: str, title: str = "A session") -> Document:
    messages = [message(letter, f"word{letter}", minutes=ord(letter)) for letter in letters]
    return conversation(*messages, id=id, title=title, shared_ids=True)


def run_import(store: Store, *documents: Document) -> int:
    receipt = store.start_import("sessions")
    store.save(documents, receipt.id)
    return receipt.id


def stored_ids(store: Store) -> dict[str, list[str]]:
    return {
        document.id: [passage.id for passage in document.passages]
        for document in store.iter_documents(Filter())
    }


def test_an_import_whose_messages_a_later_fork_repeats_is_undone_after_it(
    store: Store,
) -> None:
    original = run_import(store, session("c1", "a", "b", "c"))
    fork = run_import(store, session("c2", "a", "b", "x"))
    assert stored_ids(store) == {"c1": ["a", "b", "c"], "c2": ["x"]}
    with pytest.raises(Conflict, match=f"Undo import {fork} first"):
        store.undo_import(original)
    store.undo_import(fork)
    assert stored_ids(store) == {"c1": ["a", "b", "c"]}
    store.undo_import(original)
    assert stored_ids(store) == {}
    assert store.verify().healthy


def test_undoing_the_import_of_a_fork_keeps_the_original(store: Store) -> None:
    original = run_import(store, session("c1", "a", "b"))
    fork = run_import(store, session("c2", "a", "b", "x"))
    store.undo_import(fork)
    assert stored_ids(store) == {"c1": ["a", "b"]}
    store.undo_import(original)
    assert stored_ids(store) == {}


def test_an_original_that_is_imported_after_its_fork_leaves_no_empty_conversation(
    store: Store,
) -> None:
    fork = run_import(store, session("c2", "a", "b", "x"))
    original = run_import(store, session("c1", "a", "b"), session("c3", "b"))
    assert stored_ids(store) == {"c2": ["a", "b", "x"]}
    store.undo_import(original)
    assert stored_ids(store) == {"c2": ["a", "b", "x"]}
    store.undo_import(fork)
    assert stored_ids(store) == {}
