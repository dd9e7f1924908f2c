"""Candidates by pg_textsearch. It is in no package: these run where RECOLLECT_TEST_POSTGRES names a server with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from random import Random

import psycopg
import pytest

from recollect.language.query import Or, Word, parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore, bm25, text

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    with psycopg.connect(database) as db:
        if not db.execute("select 1 from pg_extension where extname = 'pg_textsearch'").fetchone():
            pytest.skip("This server has no pg_textsearch.")
    store = PostgresStore(database, user)
    yield store
    store.close()


def document(id: str, *texts: str, **fields: object) -> Document:
    passages = tuple(Passage(f"m{n}", "user", t, created_at=NOW) for n, t in enumerate(texts))
    return Document("test", id, passages=passages, **fields)  # type: ignore[arg-type]


def question(*words: str) -> Or:
    return Or(tuple(Word(word) for word in words))


def test_the_server_says_that_it_has_bm25(store: PostgresStore) -> None:
    assert "BM25" in store.engine
    assert store._by_bm25


def test_bm25_gives_the_same_candidates_as_gin(store: PostgresStore) -> None:
    rng = Random(3)
    vocabulary = [f"word{n}" for n in range(60)] + ["naïve", "東京", "кошка", "x86", "7"]
    store.save(
        [
            document(f"c{n}", " ".join(rng.choices(vocabulary, k=rng.randint(1, 40))))
            for n in range(300)
        ]
    )
    for _ in range(40):
        asked = question(*rng.sample(vocabulary, rng.randint(2, 5)))
        by_bm25, by_gin = (
            store._read(
                partial(
                    text.best,
                    node=asked,
                    filter=Filter(),
                    limit=100,
                    counts=store._counts,
                    by_bm25=by,
                )
            )
            for by in (True, False)
        )
        assert by_bm25 == by_gin


def test_what_is_deleted_changed_or_hidden_is_not_a_candidate(store: PostgresStore) -> None:
    store.save([document("c1", "walrus one", "walrus two"), document("c2", "walrus three")])
    hidden = Passage("h", "system", "walrus hidden", created_at=NOW, visibility="hidden")
    store.save([Document("test", "c3", passages=(hidden,))])
    asked = question("walrus", "seal")
    assert len(store.match(asked, Filter(), 10)) == 3
    assert len(store.match(asked, Filter(hidden=True), 10)) == 4
    store.delete("c2")
    store.save([document("c1", "nothing now", "walrus two")])
    assert len(store.match(asked, Filter(), 10)) == 1
    store.append("c1", Passage("new", "user", "a seal", created_at=NOW))
    assert len(store.match(asked, Filter(), 10)) == 2


def test_other_users_words_do_not_crowd_out_ones_own(store: PostgresStore, database: str) -> None:
    others = [PostgresStore(database, f"{store._connections.user}-{n}") for n in range(3)]
    for other in others:
        other.save([document(f"c{n}", "walrus") for n in range(700)])
    store.save([document("mine", "a walrus far down in a long text " + "word " * 200)])
    assert (
        store.candidates(store.match(question("walrus", "seal"), Filter(), 10), Filter())[
            0
        ].document
        == "mine"
    )
    for other in others:
        other.close()


def test_a_library_from_before_the_extension_is_brought_in(
    store: PostgresStore, database: str
) -> None:
    store.save([document("c1", "walrus one"), document("c2", "seal two")])

    def forget(db: object) -> None:
        db.run(f"delete from {bm25.TABLE}")  # type: ignore[attr-defined]
        db.run("delete from derived where name = 'bm25'")  # type: ignore[attr-defined]

    store._write(forget)
    assert store.match(question("walrus", "seal"), Filter(), 10) == []
    again = PostgresStore(database, store._connections.user)
    assert len(again.match(question("walrus", "seal"), Filter(), 10)) == 2
    assert len(again.match(parse('"walrus one"'), Filter(), 10)) == 1
    again.close()
