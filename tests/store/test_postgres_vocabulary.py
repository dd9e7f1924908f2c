"""The vocabulary on PostgreSQL."""

from __future__ import annotations

import pytest

from recollect import Document, Passage
from recollect.store.postgres import PostgresStore
from recollect.store.postgres import words as vocabulary


@pytest.mark.parametrize("newest", [1, 1_000])
def test_a_word_stays_in_the_vocabulary_while_any_passage_has_it(
    database: str, user: str, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    """Whether it is among the newest passages, whose words are left out first, or not."""
    monkeypatch.setattr(vocabulary, "_NEWEST", newest)
    store = PostgresStore(database, user)
    for number, text in enumerate(("heron bittern", "bittern egret", "egret ibis")):
        passage = Passage("m", "user", text)
        store.save([Document("test", f"c{number}", id=f"c{number}", passages=(passage,))])
    words = ["heron", "bittern", "egret", "ibis"]
    store.delete("c0")
    assert store.known_words(words) == {"bittern", "egret", "ibis"}
    store.delete("c2")
    assert store.known_words(words) == {"bittern", "egret"}
    store.delete("c1")
    assert store.known_words(words) == set()
    store.close()
