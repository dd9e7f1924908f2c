"""The stored counts are the same as a full count, whatever was written before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.model.documents import arrange
from recollect.model.undo import Edit
from recollect.store.base import Store
from recollect.store.sql import statistics

IDS = ["c1", "c2", "c3"]  # c3 is a note
PASSAGE_IDS = ["a", "b", "c", "d"]
TIMES = [
    None,
    datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
    datetime(1, 1, 2, 3, tzinfo=UTC),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
]
PASSAGES = st.tuples(
    st.sampled_from(PASSAGE_IDS),
    st.sampled_from([None, "user", "assistant", "x" * 300]),
    st.text(max_size=5),
    st.sampled_from(["message", "tool_call", "tool_result"]),
    st.none(),
    st.sampled_from([None, "m1", "m2", "m\ud800"]),
    st.sampled_from([None, "web", "shell"]),
    st.sampled_from([None, *PASSAGE_IDS]),
    st.sampled_from(TIMES),
).map(lambda values: Passage(*values))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    id_ = draw(st.sampled_from(IDS))
    kind = "note" if id_ == "c3" else "conversation"
    passages = draw(st.lists(PASSAGES, unique_by=lambda passage: passage.id, max_size=4))
    day = draw(st.integers(0, 9))
    document = Document(
        "test",
        id_,
        kind=kind,
        project=f"project {day % 2}",
        updated_at=datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day),
        passages=tuple(passages),
        partial=draw(st.booleans()),
    )
    return arrange(document)


def import_documents(store: Store, documents: list[Document]) -> None:
    receipt = store.start_import("here")
    store.save(documents, receipt.id)
    store.update_receipt(receipt)


def undo_import(store: Store, age: int) -> None:
    for receipt in store.receipts()[age:][:1]:
        store.undo_import(receipt.id)


def change_models(store: Store, id_: str, model: str | None) -> None:
    store.revise(id_, lambda document: with_model(document, model))


def move_to_project(store: Store, id_: str, project: str) -> None:
    store.edit(id_, Edit(project=project))


def method(name: str) -> st.SearchStrategy[Any]:
    """A method of the store, as a function."""
    return st.just(lambda store, *values: getattr(store, name)(*values))


IDENTIFIERS = st.sampled_from(IDS)
OPERATIONS = st.one_of(
    st.tuples(method("save"), st.lists(documents(), max_size=2)),
    st.tuples(st.just(import_documents), st.lists(documents(), max_size=2)),
    st.tuples(st.just(undo_import), st.integers(0, 3)),
    st.tuples(method("append"), IDENTIFIERS, PASSAGES),
    st.tuples(method("extend"), IDENTIFIERS, st.lists(PASSAGES, max_size=2)),
    st.tuples(st.just(change_models), IDENTIFIERS, st.sampled_from(["m1", None])),
    st.tuples(method("rewrite"), st.just("c3"), documents()),
    st.tuples(st.just(move_to_project), IDENTIFIERS, st.sampled_from(["one", "two"])),
    st.tuples(method("delete"), IDENTIFIERS, st.sampled_from(PASSAGE_IDS)),
    st.tuples(method("delete"), IDENTIFIERS),
)


def with_model(document: Document, model: str | None) -> Document:
    passages = tuple(passage._replace(model=model) for passage in document.passages)
    return replace(document, passages=passages)


def all_counts(store: Store) -> tuple[Any, ...]:
    def tally(db: Any) -> dict[tuple[str, str], int]:
        rows = db.rows("select name, value, count from tally")
        return {(name, value): count for name, value, count in rows}

    return store._read(tally), store.stats(), store.activity()  # type: ignore[attr-defined]


@settings(
    max_examples=max(10, settings.default.max_examples // 8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(OPERATIONS, max_size=8))
def test_counts_equal_a_full_count_after_any_operations(
    store: Store, operations: list[tuple[Any, ...]]
) -> None:
    for operation, *values in operations:
        with suppress(NotFound, Conflict, InvalidInput):
            operation(store, *values)
    counts = all_counts(store)
    store._write(statistics.recount)  # type: ignore[attr-defined]
    assert all_counts(store) == counts
