"""The store knows which messages only people may see, without reading messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect import Document, Passage
from recollect.model.audience import is_human_only
from recollect.store.base import Store
from recollect.store.sqlite import SqliteStore

pytestmark = pytest.mark.every_store

SECRET = {"human_only": True}
LABELS: list[dict[str, Any]] = [
    {},
    {"type": "human"},
    {"human": "only"},
    {"human_only": False},
    {"nested": {"human_only": True}},
    {"audience": "all", "name": "human"},
    {"audience": ["human", "agents"]},
    {"human_only": True},
    {"Human-Only": "yes", "broken": "\ud800"},
    {"hu\nman\u2003only": 1},
    {"_audience": ["Human", "humans"]},
    {"visi bility": "human\tonly"},
]


def human_only_ids(store: Store) -> set[str]:
    keys = store.human_only()
    assert store.human_only(list(keys)) == keys
    assert set(keys.values()) <= {"c1", "c2"}
    return {passage.id for _, passage in store.passages_by_key(list(keys)).values()}


def conversation(id: str, passages: Sequence[Passage]) -> Document:
    return Document("test", id, "A talk", passages=tuple(passages))


def labelled_passages() -> list[Passage]:
    labelled = [
        Passage(f"m{n}", "user", f"zebra {n}", metadata=metadata)
        for n, metadata in enumerate(LABELS)
    ]
    visibilities = ("hidden", "human_only", "hu\0man", "Humans Only", "nobody")
    return labelled + [
        Passage(f"v{n}", "user", f"zebra {n}", visibility=visibility)
        for n, visibility in enumerate(visibilities)
    ]


def test_the_store_agrees_with_the_rule(store: Store) -> None:
    passages = labelled_passages()
    expected = {passage.id for passage in passages if is_human_only(passage)}
    assert len(expected) == 7
    store.save([conversation("c1", passages)])
    assert human_only_ids(store) == expected
    key = store.passage_key("c1", "m0")
    assert store.human_only([key]) == {}


def test_every_way_of_writing_keeps_the_labels(store: Store) -> None:
    store.save([conversation("c1", [Passage("a", "user", "zebra")])])
    assert human_only_ids(store) == set()
    store.append("c1", Passage("b", "user", "zebra", metadata=SECRET))
    store.extend("c1", [Passage("c", "user", "zebra", visibility="human_only")])
    assert human_only_ids(store) == {"b", "c"}
    changed = [Passage("a", "user", "zebra", metadata=SECRET), Passage("b", "user", "zebra")]

    def revise(document: Document) -> Document:
        return replace(document, passages=(*changed, *document.passages[2:]))

    store.revise("c1", revise)
    assert human_only_ids(store) == {"a", "c"}
    store.delete("c1", "a")
    assert human_only_ids(store) == {"c"}
    store.save([conversation("c2", [Passage("a", "user", "zebra", metadata=SECRET)])])
    store.delete("c1")
    assert human_only_ids(store) == {"a"}


def test_a_moved_library_has_the_labels(store: Store, tmp_path: Path) -> None:
    passages = labelled_passages()
    store.save([conversation("c1", passages)])
    copy = SqliteStore(tmp_path / "copy" / "library.db")
    try:
        store.export_batches(copy.import_batch)
        assert human_only_ids(copy) == human_only_ids(store)
    finally:
        copy.close()
