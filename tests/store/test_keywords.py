"""The keywords of notes and media are in the text index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from recollect import Document, Filter, Passage
from recollect.importers.items import with_text
from recollect.language.queries.query_tree import Word
from recollect.model.kinds import MEDIA, NOTE
from recollect.store.base import Store

EVERYTHING = Filter(kinds=(), hidden=True)
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def item(id_: str, kind: str = NOTE, **metadata: Any) -> Document:
    document = Document("notes", id_, f"Title of {id_}", kind, metadata=metadata, created_at=NOON)
    return with_text(document, "Water twice a week. " * 100)


def matches(store: Store, word: str) -> set[str]:
    keys = store.match(Word(word), EVERYTHING, 100)
    assert store.count(Word(word), EVERYTHING) == (len(keys), True)
    return {document for document, _ in store.passages_by_key(keys).values()}


def save_items(store: Store) -> None:
    messages = (Passage("m", "user", "Hello."),)
    tags = {"tags": ["xylophone"]}
    talk = Document("chatgpt", "talk", "Title of talk", metadata=tags, passages=messages)
    store.save(
        [
            item("tagged", tags=["xylophone", "Blue Whale", 7]),
            item("paper", MEDIA, tags=["xylophone"]),
            item("untagged"),
            item("odd", tags="xylophone"),
            talk,
        ]
    )


def test_items_are_found_by_their_keywords(store: Store) -> None:
    save_items(store)
    assert not store.needs_refresh()
    assert matches(store, "xylophone") == {"tagged", "paper"}
    assert matches(store, "blue whale") == {"tagged"}
    assert matches(store, "untagged") == {"untagged"}


def test_keywords_are_indexed_with_the_title_but_are_not_part_of_it(store: Store) -> None:
    save_items(store)
    keys = store.match(Word("xylophone"), EVERYTHING, 100)
    candidates = store.candidates(keys, EVERYTHING)
    assert {each.title for each in candidates} == {"Title of tagged", "Title of paper"}
    assert "Title of tagged\nxylophone, Blue Whale" in {each.indexed_title for each in candidates}
