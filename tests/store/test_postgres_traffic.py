"""How many statements, transactions and round trips a search and an append are on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from selection import few
from traffic import Tap, Traffic, tap

import recollect
from recollect.model.audience import Audience
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.cluster import is_distributed

MODES = ["both", pytest.param("text", marks=pytest.mark.full)]

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=7)
TEXTS = (
    "Which tram goes to the castle?",
    "Tram 22 goes to the castle. The castle opens at nine.",
    "Is there a ticket for tourists?",
    "A tourist ticket is valid on every tram and costs twelve euros.",
    "Welche Straßenbahn fährt zur Burg? Die Fahrkarte kostet zwölf Euro.",
    "Quel tramway va au château ? Le billet coûte douze euros.",
    "哪路电车去城堡？车票十二欧元。",
    "Castles have towers. The castles on the river are old.",
)


PASTED = (
    "The tourist ticket is valid on every tram to the castle. "
    + " ".join(f"Line{number} stops there." for number in range(60))
    + " It costs twelve euros, and the castles on the river have towers."
)
DECISION = "We decided to use PostgreSQL for the timetable of the tram instead of a spreadsheet."


@pytest.fixture
def library(
    database: str, user: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[recollect.Library, Tap]]:
    """A conversation about a trip, one about its timetable with observations, and a note."""
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "static")
    monkeypatch.setenv("RECOLLECT_OBSERVER", "rules")
    with (
        tap(tmp_path / "trace") as traces,
        recollect.open(database, user, background=False) as library,
    ):
        passages = tuple(
            Passage(f"m{number}", "user", text, created_at=NOON)
            for number, text in enumerate(TEXTS)
        )
        library._store.save(
            [
                Document("test", "trip", id="trip", project="travel", passages=passages),
                Document(
                    "test",
                    "timetable",
                    id="timetable",
                    project="travel",
                    passages=(
                        Passage("q", "user", "Where do we keep the timetable?", created_at=NOON),
                        Passage("a", "assistant", DECISION, created_at=NOON),
                    ),
                ),
            ]
        )
        library.knowledge.create("notes", {"title": "Castle", "content": "It opens at nine."})
        library.index()
        library.search("warm up", options=SearchOptions(mode="both"))
        traces.take()
        yield library, traces


@pytest.fixture
def on_cluster(database: str) -> bool:
    with psycopg.connect(database) as db:
        return is_distributed(db)


@pytest.fixture
def begin_messages(on_cluster: bool) -> int:
    """How many messages begin a transaction: a cluster gets each of its statements alone."""
    return 4 if on_cluster else 1


def search(
    library: tuple[recollect.Library, Tap],
    text: str,
    mode: str,
    filter: Filter | None = None,
    **options: Any,
) -> Traffic:
    opened, traces = library
    traces.take()
    assert opened.search(text, filter, SearchOptions(mode=mode, **options)).hits
    return traces.take()


SEARCHES = [
    "which tram goes to the castle",
    "Which ticketing is there for tourism?",  # words of the same families
    "which zeppelin goes to the castle",
    "we take the tram to the castle every day",
    "Welche Straßenbahnen fahren zur Burg?",
]
SIMILAR_SEARCHES = [
    "castel",
    "ticket role:user after:2025-01-01",
    '"every tram"',
    "tourist ticket",
    "euros",
    "cast*",
    "tram AND castle",
    "tram NOT castle",
    "which tram goes to the castel",
    "Quels tramways vont au château ?",
    "¿Qué tranvía va al castillo? tram",
    "when do we fly to see the castle?",
    "城堡じゃが",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text", [*SEARCHES, *(pytest.param(text, marks=pytest.mark.full) for text in SIMILAR_SEARCHES)]
)
def test_a_search_is_one_transaction_with_at_most_four_statements(
    library: tuple[recollect.Library, Tap], begin_messages: int, text: str, mode: str
) -> None:
    """Whether its words were searched before or not, and after a write.

    The first statement is part of the message that begins the transaction.
    """
    for number in range(3):
        traffic = search(library, text, mode, limit=10 + number)
        assert traffic.transactions == 1
        assert len(traffic.statements) <= 4, "\n".join(s[:60] for s in traffic.statements)
        assert traffic.round_trips <= begin_messages + 4
        library[0]._store.append("trip", Passage(f"new {number}", "user", f"tram tickets {number}"))
    library[0]._recent_searches._searches.clear()
    assert len(search(library, text, mode).statements) <= 4


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "limit"),
    [("zeppelin tram", 4), ("Welke tram gaat naar de huizen en de straat?", 6)],
)
def test_a_missing_word_is_looked_for_in_compounds_with_at_most_two_more_statements(
    library: tuple[recollect.Library, Tap], text: str, limit: int, mode: str
) -> None:
    """If the question, or the library of keywords, is in a language that joins words."""
    traffic = search(library, text, mode)
    assert len(traffic.statements) <= limit, "\n".join(s[:60] for s in traffic.statements)


@pytest.mark.parametrize("mode", MODES)
def test_the_words_of_a_pasted_text_are_counted_with_the_first_statement(
    library: tuple[recollect.Library, Tap], mode: str
) -> None:
    """Another one looks up the forms of those that are searched for."""
    traffic = search(library, PASTED, mode)
    assert traffic.transactions == 1
    assert len(traffic.statements) <= 5, "\n".join(s[:60] for s in traffic.statements)


def test_the_parts_of_all_compounds_are_looked_up_and_counted_at_once(
    library: tuple[recollect.Library, Tap],
) -> None:
    """The library has none of these words, but words that they consist of, or end with.

    Two of the statements look for longer words that contain them, or that two of them form.
    """
    text = "Welche Burgfahrkarte und welche Straßenbahnfahrkarte kostet zwölf Schifffahrkarten?"
    for mode in ("text", "both"):
        traffic = search(library, text, mode)
        assert traffic.transactions == 1
        assert len(traffic.statements) <= 8, "\n".join(s[:60] for s in traffic.statements)


@pytest.mark.parametrize("mode", MODES)
def test_a_search_in_a_project_has_as_many_statements(
    library: tuple[recollect.Library, Tap], mode: str
) -> None:
    """The matches and neighbours are read among its messages, if these are not many."""
    text = "which tram goes to the castle"
    traffic = search(library, text, mode, Filter(projects=("travel",)))
    assert len(traffic.statements) <= 4, "\n".join(s[:60] for s in traffic.statements)


def test_typing_a_question_takes_at_most_four_statements_a_key(
    library: tuple[recollect.Library, Tap], on_cluster: bool
) -> None:
    # A cluster reads the matches of the prefix and the neighbours separately.
    limit = 5 if on_cluster else 4
    for text in ("which tr", "which tram go", "which tram goes to the cas"):
        traffic = search(library, text, "both", typing=True)
        assert (traffic.transactions, len(traffic.statements) <= limit) == (1, True)


QUESTIONS = {
    "a question": "which tram goes to the castle",
    "a word that occurs nowhere": "which zeppelin goes to the castle",
    "a named time": "what did we say about the tram last week",
    "keywords": "tram timetable",
}


@pytest.mark.parametrize("mode", few(MODES))
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_search_by_an_agent_has_as_many_statements(
    library: tuple[recollect.Library, Tap], question: str, mode: str
) -> None:
    """Although it also reads observations, and whether messages are human-only."""
    opened, traces = library
    filter = Filter(kinds=(CONVERSATION,))
    options = SearchOptions(mode=mode, group="conversation", observations=True, now=LATER)
    assert opened.search(question, filter, options, audience=Audience.AGENT_MASKED).hits
    traffic = traces.take()
    assert traffic.transactions == 1
    assert len(traffic.statements) <= 4, "\n".join(s[:60] for s in traffic.statements)


@pytest.mark.parametrize("mode", MODES)
def test_a_question_without_spaces_has_as_many_statements(
    library: tuple[recollect.Library, Tap], mode: str
) -> None:
    """Except on a cluster, which finds its pairs of characters and the neighbours separately."""
    traffic = search(library, "哪路电车去城堡？", mode)
    assert len(traffic.statements) <= 4, "\n".join(s[:60] for s in traffic.statements)


def test_a_search_in_a_period_has_as_many_statements(
    library: tuple[recollect.Library, Tap],
) -> None:
    traffic = search(library, QUESTIONS["a named time"], "both", now=LATER)
    assert len(traffic.statements) <= 4, "\n".join(s[:60] for s in traffic.statements)


def test_a_search_by_an_agent_from_whom_nothing_is_hidden_has_as_many_statements(
    library: tuple[recollect.Library, Tap],
) -> None:
    """Although it asks which messages are human-only."""
    opened, traces = library
    assert opened.search("castle", audience=Audience.AGENT_HIDDEN).hits
    traffic = traces.take()
    assert (traffic.transactions, len(traffic.statements) <= 4) == (1, True)


def test_a_search_of_everything_reads_its_results_with_one_more_statement(
    library: tuple[recollect.Library, Tap], on_cluster: bool
) -> None:
    opened, traces = library
    limits = {"castle": 6, "which tram goes to the castle": 7, "castel": 8, '"tram 22"': 7}
    for text, limit in limits.items():
        assert opened.knowledge.search(text)["results"]
        traffic = traces.take()
        assert traffic.transactions == 1
        if not on_cluster:
            assert len(traffic.statements) <= limit, "\n".join(s[:60] for s in traffic.statements)


def test_a_search_of_the_memory_does_not_read_its_results_one_by_one(
    library: tuple[recollect.Library, Tap], on_cluster: bool
) -> None:
    """The observations of conversations, the conversations, the results and later decisions."""
    opened, traces = library
    for number in range(5):
        exchange = (Passage("q", "user", f"Where is castle {number}? On a hill?", created_at=NOON),)
        opened._store.save([Document("test", f"hill {number}", passages=exchange)])
    opened.memory.search("warm up")
    traces.take()
    for text in ("castle", "which tram goes to the castle", "castle on a hill"):
        assert len(opened.memory.search(text).hits) > 1
        traffic = traces.take()
        assert traffic.transactions == 1
        if not on_cluster:
            assert len(traffic.statements) <= 14, "\n".join(s[:60] for s in traffic.statements)


def test_the_next_page_of_a_search_is_one_statement(
    library: tuple[recollect.Library, Tap], begin_messages: int
) -> None:
    search(library, "castle", "text")
    traffic = search(library, "castle", "text")
    assert (traffic.transactions, len(traffic.statements)) == (1, 1)
    assert traffic.round_trips == begin_messages + 1


def test_the_newest_messages_are_read_without_counting_all(
    library: tuple[recollect.Library, Tap],
) -> None:
    opened, traces = library
    traces.take()
    assert len(opened._store.recent(None, Filter(kinds=(CONVERSATION,)), 2)) == 2
    assert not [sql for sql in traces.take().statements if "count(*)" in sql]


def test_an_append_is_one_transaction_with_few_statements(
    library: tuple[recollect.Library, Tap], begin_messages: int
) -> None:
    opened, traces = library
    for number in range(10):  # a connection has other plans after a while
        traces.take()
        opened._store.append(
            "trip", Passage(f"new {number}", "user", "Does the tram run at night?")
        )
        traffic = traces.take()
        assert traffic.transactions == 1
        assert len(traffic.statements) <= 2, "\n".join(s[:90] for s in traffic.statements)
        assert traffic.round_trips <= begin_messages + 2


def test_many_messages_are_added_with_as_many_statements_as_two(
    library: tuple[recollect.Library, Tap],
) -> None:
    opened, traces = library
    counts = []
    for number in (2, 2, 100):  # a connection has other plans after a while
        messages = [
            Passage(f"{len(counts)}-{n}", "user", "Does the tram run at night?")
            for n in range(number)
        ]
        traces.take()
        assert opened.add_messages("trip", messages) == number
        counts.append(len(traces.take().statements))
    assert counts[1] == counts[2]


def test_candidates_are_planned_once_for_a_connection(database: str, user: str) -> None:
    store = PostgresStore(database, user)
    store.save([Document("test", "c", passages=(Passage("m", "user", "a castle"),))])
    filter = Filter(not_authors=("Ann", "Bob"), not_roles=("tool",))  # only in this test
    for _ in range(5):
        with store.snapshot():
            assert store.candidates([1], filter)
            db = store._transactions._snapshot.db
            assert db is not None
            plans = db.rows(
                "select statement, generic_plans, custom_plans from pg_prepared_statements"
            )
    ((generic, custom),) = [
        counts for statement, *counts in plans if "coalesce(p.author, '') <> all" in statement
    ]
    assert (generic > 0, custom) == (True, 0)
    store.close()


def test_an_interrupted_search_continues_in_another_transaction(database: str, user: str) -> None:
    store = PostgresStore(database, user)
    store.save([Document("test", "c", passages=(Passage("m", "user", "a castle"),))])
    with store.snapshot():
        assert store.size() == 1
        store._transactions._snapshot.db._session.pgconn.finish()  # type: ignore[union-attr]
        assert store.variants(["castle"]) == [("castle",)]
        store.release_snapshot()
        assert store.size() == 1
    store.close()


def test_a_write_inside_a_snapshot_uses_no_second_connection(database: str, user: str) -> None:
    store = PostgresStore(database, user)
    with store.snapshot():
        assert store.size() == 0
        store.save([Document("test", "c", passages=(Passage("m", "user", "a castle"),))])
        assert store.size() == 1
    store.close()
