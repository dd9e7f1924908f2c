"""A store forgets documents and passages, and does not import them again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recollect import Document, Passage
from recollect.store.base import Store
from recollect.store.values import Removal

pytestmark = pytest.mark.every_store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)


def talk(*texts: str, id: str = "c1", shared_ids: bool = False) -> Document:
    passages = []
    parent = None
    for number, text in enumerate(texts):
        created_at = NOON + timedelta(minutes=number)
        passages.append(Passage(f"m{number}", "user", text, parent=parent, created_at=created_at))
        parent = f"m{number}"
    return Document(
        "test",
        id,
        "A talk",
        passages=tuple(passages),
        updated_at=NOON,
        metadata={"summary": "about ferns"},
        shared_ids=shared_ids,
    )


def texts(store: Store, id: str = "c1") -> list[str]:
    return [passage.content for passage in store.document(id).passages]


def import_again(store: Store, document: Document) -> int:
    (result,) = store.save([document], skip_forgotten=True)
    return result.forgotten


def test_replies_to_a_forgotten_message_answer_the_one_before_it(store: Store) -> None:
    store.save([talk("one", "two", "three", "four")])
    result = store.forget([Removal("c1", ("m1", "m2"))])
    assert (result.documents, result.changed_documents, result.passages) == (0, 1, 2)
    document = store.document("c1")
    assert [(p.id, p.parent, p.position, p.canonical) for p in document.passages] == [
        ("m0", None, 0, True),
        ("m3", "m0", 1, True),
    ]
    assert document.head == "m3"


def test_a_forgotten_message_is_not_imported_again_but_new_ones_are(store: Store) -> None:
    store.save([talk("one", "two", "three")])
    store.forget([Removal("c1", ("m1",))])
    assert import_again(store, talk("one", "two", "three", "four")) == 1
    assert texts(store) == ["one", "three", "four"]
    assert [p.parent for p in store.document("c1").passages] == [None, "m0", "m2"]
    assert import_again(store, talk("one", "two", "three", "four")) == 1
    assert texts(store) == ["one", "three", "four"]


def test_a_forgotten_conversation_is_not_imported_again(store: Store) -> None:
    store.save([talk("one", "two")])
    result = store.forget([Removal("c1")])
    assert (result.documents, result.passages) == (1, 2)
    (saved,) = store.save([talk("one", "two", "three")], skip_forgotten=True)
    assert (saved.id, saved.created, saved.forgotten) == ("", False, 3)
    assert store.find_id("test", "c1") is None


def test_somebody_who_writes_it_again_may_do_so(store: Store) -> None:
    store.save([talk("one")])
    store.forget([Removal("c1")])
    store.save([talk("one")])
    assert texts(store) == ["one"]


def test_a_copy_of_a_forgotten_message_in_another_conversation_is_not_imported(
    store: Store,
) -> None:
    store.save([talk("one", "two", shared_ids=True)])
    store.forget([Removal("c1")])
    copy = talk("one", "two", "three", id="c2", shared_ids=True)
    assert import_again(store, copy) == 2
    assert texts(store, "c2") == ["three"]


def test_recorders_that_send_the_whole_history_do_not_bring_it_back(store: Store) -> None:
    store.save([Document("test", "c1", updated_at=NOON)])
    history = talk("one", "two", "three").passages
    store.extend("c1", history[:2])
    store.forget([Removal("c1", ("m0", "m1"))])
    store.save([Document("test", "c2", updated_at=NOON)])
    assert store.extend("c2", history) == 1
    assert texts(store, "c2") == ["three"]


def test_title_and_metadata_can_be_forgotten_and_stay_so(store: Store) -> None:
    store.save([talk("one")])
    store.forget([Removal("c1", (), has_title=True, metadata=("summary",))])
    document = store.document("c1")
    assert (document.title, dict(document.metadata)) == ("", {})
    import_again(store, talk("one"))
    document = store.document("c1")
    assert (document.title, dict(document.metadata)) == ("", {})


def test_undoing_an_import_does_not_bring_a_forgotten_text_back(store: Store) -> None:
    store.save([talk("one", "two")], store.start_import("a").id)
    changed = talk("one", "changed")
    receipt = store.start_import("b")
    store.save([changed], receipt.id)
    store.forget([Removal("c1", ("m1",))])
    store.undo_import(receipt.id)
    assert texts(store) == ["one"]


def test_a_conversation_without_remaining_messages_is_deleted(store: Store) -> None:
    store.save([talk("one", "two")])
    result = store.forget([Removal("c1", ("m0", "m1"))])
    assert (result.documents, result.passages) == (1, 2)
    assert store.find_id("test", "c1") is None
    assert import_again(store, talk("one", "two", "three")) == 2
    assert texts(store) == ["three"]
