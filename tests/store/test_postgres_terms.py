"""What the statement that begins a search looks up is what each question would find by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from traffic import tap

from recollect.language.languages.english import ENGLISH
from recollect.language.languages.french import FRENCH
from recollect.language.languages.german import GERMAN
from recollect.language.queries.query_tree import Or, Word
from recollect.language.words.spelling import neighbours
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.text import vocabulary
from recollect.store.values import TermPlan

TEXTS = (
    "Die Straßenbahn fährt zur Burg, die Fahrkarten kosten zwölf Euro.",
    "Wir gingen zu den Burgen und kauften eine Fahrkarte. Fahrkarten gibt es in jeder Burg.",
    "Les tramways vont au château, le billet coûte douze euros.",
    "The castle has a tower, and the castles on the river have more.",
    "The cattle are near the castle. A castle again.",
)
WORDS = {
    GERMAN: ["strassenbahnen", "burg", "fahrkarte", "gehen", "zeppelin"],
    FRENCH: ["tramway", "chateaux", "billets"],
    ENGLISH: ["castel", "towers", "zeppelin"],
}


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database, user)
    add(store, "c")
    yield store
    store.close()


def add(store: PostgresStore, id_: str) -> None:
    passages = [Passage(f"m{n}", "user", text) for n, text in enumerate(TEXTS)]
    passages.append(Passage("hidden", "user", TEXTS[1], visibility="hidden"))
    store.save([Document("test", id_, passages=tuple(passages))])


def answers(store: PostgresStore, words: Sequence[str], plan: TermPlan) -> tuple[object, ...]:
    variants = store.variants(words, plan.language)
    nodes = [Or(tuple(map(Word, forms))) if len(forms) > 1 else Word(*forms) for forms in variants]
    similar = store.similar_words(["castel"])
    corrections = [Word(word) for word in sorted(similar["castel"])]
    return (
        variants,
        store.frequencies(nodes),
        similar,
        store.frequencies(corrections),
        [store.has_match(node, Filter()) for node in corrections],
        store.variants(["castle", "cattle"]),
    )


@pytest.mark.parametrize("language", WORDS, ids=lambda language: language.code)
def test_what_was_looked_up_is_what_each_question_finds(
    database: str, user: str, store: PostgresStore, language: object, tmp_path: Path
) -> None:
    """Before and after a message is added, and if everything is remembered."""
    words = WORDS[language]  # type: ignore[index]
    plan = TermPlan(
        dict.fromkeys(words, frozenset()),
        language,  # type: ignore[arg-type]
        correctable=frozenset(["castel"]),
    )
    with tap(tmp_path / "trace") as traces:
        for number in range(4):
            other = PostgresStore(database, user)
            separately = answers(other, words, plan)
            other.close()
            traces.take()
            with store.snapshot():
                store.expect_terms(lambda: plan)
                assert answers(store, words, plan) == separately
            if language is ENGLISH:
                assert len(traces.take().statements) <= 2  # "cattle" was not announced
            if number % 2:
                add(store, f"c{number}")


def test_a_correction_that_was_announced_as_well_keeps_its_relatives(store: PostgresStore) -> None:
    words = {"castel": frozenset[str](), "castle": frozenset(["castle", "tower"])}
    plan = TermPlan(words, ENGLISH, correctable=frozenset(["castel"]))
    with store.snapshot():
        store.expect_terms(lambda: plan)
        assert store.variants(["castle"]) == [("castle", "castles")]
        assert store.known_words(["castle", "tower"]) == {"castle", "tower"}


def test_similar_words_are_the_neighbours_of_a_word(store: PostgresStore) -> None:
    words = ["castle", "cattle", "casle", "castles", "castlle", "catsle", "cxstle", "tower", "x"]
    words += ["gorilla", "ggorila", "goorilaa", "gorillas"]
    store.save([Document("test", "w", passages=(Passage("m", "user", " ".join(words)),))])
    with store.snapshot():
        plan = TermPlan({"castel": frozenset()}, ENGLISH, correctable=frozenset(["castel"]))
        store.expect_terms(lambda: plan)
        assert store.similar_words(["castel"])["castel"] == neighbours("castel") & set(words)
    for word in ("castle", "gorrila", "ccastel"):
        rows = store._read(
            lambda db, word=word: db.rows("select similar_words(?::integer, ?)", (db.owner, word))
        )
        assert {similar for (similar,) in rows} == neighbours(word) & set(words)


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
