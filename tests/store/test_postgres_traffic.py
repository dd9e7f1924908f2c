"""How many statements, transactions and round trips a search and an append are on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from selection import few
from traffic import Tap, tap

import recollect
from recollect.model.audience import Audience
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.store.postgres import PostgresStore

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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    few(
        [
            "which tram goes to the castle",
            "which zeppelin goes to the castle",
            "Welche Straßenbahnen fahren zur Burg?",
            "ticket role:user after:2025-01-01",
            "tram NOT castle",
            "which tram goes to the castel",
            "哪路电车去城堡？",
        ]
    ),
)
def test_a_search_is_one_transaction_with_few_statements(
    library: tuple[recollect.Library, Tap], text: str, mode: str
) -> None:
    opened, traces = library
    options = SearchOptions(mode=mode, group="conversation", observations=True, now=LATER)
    filter = Filter(kinds=(CONVERSATION,), projects=("travel",))
    assert opened.search(text, filter, options, audience=Audience.AGENT_MASKED).hits
    traffic = traces.take()
    assert traffic.transactions == 1
    assert len(traffic.statements) <= 30, "\n".join(s[:60] for s in traffic.statements)


def test_a_search_of_the_memory_does_not_read_its_results_one_by_one(
    library: tuple[recollect.Library, Tap],
) -> None:
    """The observations of conversations, the conversations, the results and later decisions."""
    opened, traces = library
    for number in range(5):
        exchange = (Passage("q", "user", f"Where is castle {number}? On a hill?", created_at=NOON),)
        opened._store.save([Document("test", f"hill {number}", passages=exchange)])
    opened.memory.search("warm up")
    traces.take()
    assert len(opened.memory.search("which tram goes to the castle").hits) > 1
    traffic = traces.take()
    assert traffic.transactions == 1
    assert len(traffic.statements) <= 30, "\n".join(s[:60] for s in traffic.statements)


def test_the_newest_messages_are_read_without_counting_all(
    library: tuple[recollect.Library, Tap],
) -> None:
    opened, traces = library
    traces.take()
    assert len(opened._store.recent(None, Filter(kinds=(CONVERSATION,)), 2)) == 2
    assert not [sql for sql in traces.take().statements if "count(*)" in sql]


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
