"""The matches that a process remembers are those that the index of the server has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from messages import message
from traffic import tap

from recollect.language.queries.query_tree import And, Node, Or, Word
from recollect.model.documents import Document
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.text import best_matches
from recollect.store.postgres.text.word_matches import LENGTH_BITS, MEMORY, Matches, Memory
from recollect.store.values import SearchPlan

WORDS = ("tram", "trams", "castle", "ticket", "tourist", "night", "euros", "river")
TRAM = Or((Word("tram"), Word("trams")))  # the forms of one word
ANY_WORD = Or((TRAM, Word("castle"), Word("ticket"), Word("river")))
QUERIES: tuple[Node, ...] = (
    ANY_WORD,
    Or((Word("tram"), Word("castle"))),
    And((Word("castle"), Word("ticket"))),
    Word("night"),
)
Result = tuple[list[int], tuple[int, bool]]


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database, user)
    yield store
    store.close()


def search(store: PostgresStore, node: Node, limit: int = 20) -> Result:
    """As a search does it: it looks up the words first, and announces its steps."""
    with store.snapshot():
        store.variants(["tram", "castle", "ticket", "river", "night"])
        store.expect(SearchPlan((node,), Filter(), limit))
        return store.match(node, Filter(), limit), store.count(node, Filter())


def search_index(store: PostgresStore, node: Node, limit: int = 20) -> Result:
    """Without the words, nothing is remembered."""
    return store.match(node, Filter(), limit), store.count(node, Filter())


def text(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(1, 9)))


def add(store: PostgresStore, rng: Random, number: int) -> None:
    passages = tuple(message(f"m{place}", text(rng), minutes=place) for place in range(4))
    store.save([Document("test", f"c{number}", id=f"c{number}", passages=passages)])


def append(store: PostgresStore, rng: Random, number: int) -> None:
    store.append("c0", message(f"a{number}", text(rng)))


def rename(store: PostgresStore, rng: Random, number: int) -> None:
    store.update("c0", title=text(rng))


def revise(store: PostgresStore, rng: Random, number: int) -> None:
    def change(document: Document) -> Document:
        passages = [each._replace(content=text(rng)) for each in document.passages]
        return replace(document, passages=tuple(passages))

    store.revise("c0", change)


def hide(store: PostgresStore, rng: Random, number: int) -> None:
    first, *others = store.document("c0").passages
    first = first._replace(visibility="hidden" if first.visibility == "all" else "all")
    store.save([replace(store.document("c0"), passages=(first, *others))])


def delete(store: PostgresStore, rng: Random, number: int) -> None:
    add(store, rng, number)
    search(store, ANY_WORD)
    store.delete(f"c{number}")


@pytest.mark.parametrize(
    "change",
    [append, delete, *(pytest.param(c, marks=pytest.mark.full) for c in (rename, revise, hide))],
)
def test_remembered_matches_are_those_of_the_index(
    database: str,
    user: str,
    store: PostgresStore,
    change: Callable[[PostgresStore, Random, int], None],
) -> None:
    rng = Random(1)
    other = PostgresStore(database, user)
    for number in range(3):
        add(store, rng, number)
    for number in range(3, 7):
        before = search(store, ANY_WORD)
        change(store, rng, number)
        assert [search(store, node) for node in QUERIES] == [
            search_index(other, node) for node in QUERIES
        ]
        assert search(store, ANY_WORD) != before or change in (delete, rename)
    other.close()


def test_rare_pairs_select_the_same_matches(
    database: str, user: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_matches, "_MANY_MATCHES", 20)
    rng = Random(2)
    for number in range(20):
        add(store, rng, number)
    other = PostgresStore(database, user)
    for limit in (3, 10, 40):
        results = search(store, ANY_WORD, limit), search_index(other, ANY_WORD, limit)
        assert results[0] == results[1]
    other.close()


def test_a_search_looks_its_words_up_with_one_statement(
    store: PostgresStore, tmp_path: Path
) -> None:
    for number in range(5):
        add(store, Random(number), number)
    with tap(tmp_path / "trace") as traces:
        first = search(store, ANY_WORD)
        assert len(traces.take().statements) == 2  # the facts, and the words
        assert search(store, ANY_WORD) == first
        assert len(traces.take().statements) == 1


def test_new_conversations_leave_what_is_remembered_valid(store: PostgresStore) -> None:
    """The opening of a conversation is indexed again with its title, but nobody knows it yet."""
    add(store, Random(4), 0)
    for number in range(3):
        search(store, ANY_WORD)
        (removed,) = {matches.removed for matches in remembered(store)}
        store.save([Document("test", f"n{number}", id=f"n{number}", title="The river")])
        store.append(f"n{number}", message("m", "the tram to the castle"))
        keys, (total, _) = search(store, ANY_WORD)
        assert {matches.removed for matches in remembered(store)} == {removed}
        other = PostgresStore(store._transactions._pool.url, store._transactions.user)
        assert (keys, (total, True)) == search_index(other, ANY_WORD)
        other.close()


def remembered(store: PostgresStore) -> list[Matches]:
    queries = store._counts._queries.values()
    entries = [MEMORY.get(store._counts._library, query) for query in queries]
    return [matches for matches in entries if matches is not None]


def test_an_older_state_has_no_later_matches() -> None:
    matches = Matches(np.array([1, 5, 9], np.int64) << LENGTH_BITS, 3, 9, removed=0)
    assert [key >> LENGTH_BITS for key in matches.until(5)] == [1, 5]
    assert len(matches.until(9)) == 3
    assert matches.next_key(5, 0) is None
    assert matches.next_key(12, 0) == 10
    assert matches.next_key(12, 1) == 0
    assert matches.next_key(100_000, 0) == 0


def test_the_matches_that_were_not_used_for_longest_are_forgotten() -> None:
    memory = Memory(max_matches=25)
    ten = Matches(np.zeros(10, np.int64), 10, 10, 0)
    library = memory.new_library()
    for word in ("tram", "castle"):
        memory.add(library, word, ten)
    assert memory.get(library, "tram") is not None
    memory.add(library, "ticket", ten)
    remembered = [word for word in ("tram", "castle", "ticket") if memory.get(library, word)]
    assert remembered == ["tram", "ticket"]
    memory.add(library, "ticket", ten)  # replaces it
    assert memory.get(library, "tram") is not None
    assert memory.get(memory.new_library(), "tram") is None
