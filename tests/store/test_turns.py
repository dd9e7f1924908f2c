"""Writers take turns: long work in short transactions, and no work that nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recollect import Document, Filter, Passage
from recollect.memory.observe.storing import as_document
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.observations import Observation
from recollect.store.base import Store
from recollect.store.sql import observations as observation_sql
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


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[observation_sql.Step]:
    """Every transaction that saves observations. Each saves one observation only."""
    steps: list[observation_sql.Step] = []
    save = observation_sql.save

    def save_step(*arguments: object) -> observation_sql.Step:
        steps.append(save(*arguments))  # type: ignore[arg-type]
        return steps[-1]

    monkeypatch.setattr(observation_sql, "save", save_step)
    monkeypatch.setattr("recollect.store.sql.store._OBSERVATIONS_PER_TRANSACTION", 1)
    return steps


# -- observations ---


def before_second_write(
    store: Any, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = []
    write = store._write_text

    def write_text(work: object, **options: object) -> object:
        writes.append(work)
        if len(writes) == 2:
            action()
        return write(work, **options)

    monkeypatch.setattr(store, "_write_text", write_text)


def test_many_observations_are_saved_in_many_transactions(
    store: Store, steps: list[observation_sql.Step]
) -> None:
    store.save([conversation("text")])
    store.save_observations("c", 1, observations("one", "two", "three"))
    assert observation_texts(store) == ["one", "two", "three"]
    assert [step.is_complete for step in steps] == [False, False, True]
    steps.clear()
    store.save_observations("c", 1, observations("one", "TWO", "THREE", "four"))
    assert observation_texts(store) == ["one", "TWO", "THREE", "four"]
    assert len(steps) == 3
    assert store.unobserved(1) == ([], 0) and store.verify().healthy


def test_removed_observations_go_first_and_the_order_is_right_at_the_end(
    store: Store, steps: list[observation_sql.Step]
) -> None:
    store.save([conversation("text")])
    store.save_observations("c", 1, observations("one", "two", "three"))
    steps.clear()
    document = observations("one", "two", "three")
    reordered = replace(document, passages=(document.passages[2], document.passages[1]))
    store.save_observations("c", 1, reordered)
    assert observation_texts(store) == ["three", "two"]
    assert [step.has_removed for step in steps] == [True]
    assert store.summary(f"{OBSERVATIONS}:c").message_count == 2
    assert store.verify().healthy


def test_a_save_that_is_interrupted_leaves_the_conversation_unobserved(
    store: Store, steps: list[observation_sql.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save([conversation("text")])

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        before_second_write(store, interrupt, patch)
        with pytest.raises(KeyboardInterrupt):
            store.save_observations("c", 1, observations("one", "two"))
    assert store.unobserved(1) == ([("c", 1)], 1) and store.verify().healthy
    store.save_observations("c", 1, observations("one", "two"))
    assert observation_texts(store) == ["one", "two"] and store.unobserved(1) == ([], 0)


def test_a_conversation_that_is_deleted_meanwhile_gets_no_observations(
    store: Store, steps: list[observation_sql.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save([conversation("text")])
    before_second_write(store, lambda: store.delete("c"), monkeypatch)
    store.save_observations("c", 1, observations("one", "two", "three"))
    assert store.summaries(Filter(hidden=True), "", 10, 0) == ([], 0)
    assert steps[-1] == observation_sql.Step(has_removed=False, is_complete=True)


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
