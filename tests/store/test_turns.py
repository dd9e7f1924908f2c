"""Writers take turns: long work in short transactions, and no work that nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from recollect import Document, Filter, Passage
from recollect.memory.observe.storing import as_document
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.observations import Observation
from recollect.store.base import Store
from recollect.store.sqlite import SqliteStore, connection


def conversation(*texts: str, id: str = "c") -> Document:
    passages = tuple(Passage(f"m{n}", "user", text) for n, text in enumerate(texts))
    return Document("test", id, "A title", passages=passages)


def observations(*texts: str) -> Document:
    passages = tuple(
        Passage(f"o{n}", "decision", text, visibility="hidden") for n, text in enumerate(texts)
    )
    return Document(OBSERVATIONS, "c", id=f"{OBSERVATIONS}:c", kind=OBSERVATION, passages=passages)


def observation_texts(store: Store) -> list[str]:
    return [passage.content for passage in store.document(f"{OBSERVATIONS}:c").passages]


def test_the_order_of_concepts_does_not_change_the_text_of_an_observation() -> None:
    first = Observation("o", "decision", "Use SQLite", "c", ("m0",), concepts=("disk", "cache"))
    second = replace(first, concepts=("cache", "disk"))
    documents = [as_document(conversation("text"), [each]) for each in (first, second)]
    contents = [document.passages[0].content for document in documents]
    assert contents[0] == contents[1]


# -- the text index ---


def test_a_word_that_another_process_has_removed_is_added_again(
    reopen: Callable[[], Store],
) -> None:
    here, there = reopen(), reopen()
    here.save([conversation("hello", id="a"), conversation("a xylophone", id="b")])
    there.delete("b")
    here.append("a", Passage("m1", "user", "another xylophone"))
    assert here.newest(Filter(), 10, text="ylopho").total == 1


def test_a_word_of_a_failed_write_is_added_by_the_next_one(sqlite_store: SqliteStore) -> None:
    store = sqlite_store
    store.save([conversation("hello")])

    def fail(db: connection.Connection, index: object) -> None:
        index.add([(99, "", "a xylophone")])  # type: ignore[attr-defined]
        raise ValueError

    with pytest.raises(ValueError):
        store._write_text(fail)
    store.append("c", Passage("m1", "user", "another xylophone"))
    assert store.known_words(["xylophone"]) == {"xylophone"}
