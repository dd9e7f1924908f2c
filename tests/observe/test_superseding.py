"""A later decision supersedes the earlier one about the same topic, and comes before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from recollect import Filter, Library
from recollect.memory.observe import from_passage
from recollect.memory.observe.storing import searchable_text
from recollect.memory.rendering import details_text, search_compact, search_json, search_text
from recollect.memory.results import MemoryFilter, MemoryHit, ObservationHit
from recollect.memory.superseding import find_successors, promote, successor_ids
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def decision(id_: str, day: int, text: str) -> Observation:
    created_at = START + timedelta(days=day)
    return Observation(id_, "decision", text, "c", ("p",), created_at=created_at)


REDIS = decision("a", 0, "Sessions of the shop are stored in Redis.")
POSTGRES = decision("b", 5, "We drop Redis, sessions of the shop go to PostgreSQL.")
SQLITE = decision("c", 9, "PostgreSQL is too slow, sessions of the shop go to SQLite instead.")
COLORS = decision("d", 3, "The buttons of the gallery are green.")


def successors(decisions: Sequence[Observation]) -> dict[str, Observation]:
    by_id = {each.id: each for each in decisions}
    texts = {each.id: (each.created_at, searchable_text(each)) for each in decisions}
    return {id_: by_id[later] for id_, later in successor_ids(texts, by_id).items()}


@pytest.mark.parametrize("order", [*permutations((REDIS, POSTGRES, COLORS))])
def test_a_later_decision_supersedes_the_earlier_one(order: tuple[Observation, ...]) -> None:
    assert successors(order) == {"a": POSTGRES}


def test_the_newest_decision_supersedes_all_before_it() -> None:
    assert successors([REDIS, POSTGRES, SQLITE]) == {"a": SQLITE, "b": SQLITE}


def test_decisions_about_other_topics_are_not_superseded() -> None:
    other = decision("e", 6, "We drop the carousel, the gallery shows a grid of pictures.")
    assert successors([REDIS, COLORS, other]) == {}


def test_words_that_any_decision_has_are_no_topic() -> None:
    orders = decision("a", 0, "Let's switch to PostgreSQL for the orders. Committed as 4e1fa07.")
    packages = decision("b", 5, "Let's switch to pnpm. Switched; the lock file is committed.")
    assert successors([orders, packages]) == {}


def test_an_observation_without_a_date_supersedes_nothing() -> None:
    assert successors([REDIS, replace(POSTGRES, created_at=None)]) == {}


def hits(*observations: Observation) -> list[MemoryHit]:
    return [ObservationHit(each, "/-/c.jsonl", 0.5) for each in observations]


def ids(results: Sequence[MemoryHit]) -> str:
    return "".join(hit.observation.id for hit in results if isinstance(hit, ObservationHit))


def test_the_later_decision_comes_directly_before_the_earlier_one() -> None:
    later = {"a": POSTGRES}
    assert ids(promote(hits(COLORS, REDIS, POSTGRES), later)) == "dba"
    assert ids(promote(hits(POSTGRES, COLORS, REDIS), later)) == "bda"


def test_the_later_decision_is_inserted_if_only_the_earlier_one_was_found() -> None:
    later = {"a": POSTGRES}
    assert ids(promote(hits(REDIS, COLORS), later)) == "bad"
    assert ids(promote(hits(REDIS, COLORS), later, insert=False)) == "ad"


def test_the_earlier_decision_names_its_successor() -> None:
    first, second = promote(hits(REDIS), {"a": POSTGRES})
    assert isinstance(first, ObservationHit)
    assert isinstance(second, ObservationHit)
    assert (first.successor, second.successor) == (None, POSTGRES)


def add_decision(library: Library, id_: str, project: str, text: str, day: int) -> None:
    library.add_conversation(
        id_,
        id_,
        project=project,
        messages=[{"role": "user", "content": text, "created_at": START + timedelta(days=day)}],
    )


def stored(library: Library) -> dict[str, Observation]:
    store = library._store
    candidates, _ = store.newest(Filter(hidden=True, kinds=(OBSERVATION,)), 100, 0)
    result = {}
    for candidate in candidates:
        [(_, passage)] = store.passages_by_key([candidate.key]).values()
        observation = from_passage(passage, candidate.project)
        result[observation.conversation] = observation
    return result


def test_decisions_of_a_library_are_superseded_per_project(library: Library) -> None:
    redis = "We decided to keep the sessions of the shop in Redis."
    postgres = "We drop Redis, the sessions of the shop go to PostgreSQL."
    add_decision(library, "late", "/work/shop", postgres, 7)
    add_decision(library, "early", "/work/shop", redis, 0)
    add_decision(library, "elsewhere", "/work/blog", redis, 0)
    library.index()
    observations = stored(library)
    result = find_successors(library._store, observations.values())
    assert {id_: each.conversation for id_, each in result.items()} == {
        observations["early"].id: "late"
    }


def test_a_search_returns_the_later_decision_first_and_says_so(library: Library) -> None:
    redis = "We decided to keep the sessions of the shop in Redis."
    postgres = "We drop Redis, the sessions of the shop go to PostgreSQL."
    add_decision(library, "early", "/work/shop", redis, 0)
    add_decision(library, "late", "/work/shop", postgres, 7)
    library.index()
    results = library.memory.search("decided to keep sessions in Redis")
    later, earlier = results.observations
    assert (later.observation.conversation, earlier.observation.conversation) == ("late", "early")
    note = f"Superseded by {later.observation.id} (2026-03-08): "
    assert note in search_text(results, "Redis")
    assert note in details_text(library.memory.get([earlier.observation.id]))
    assert f"(superseded by {later.observation.id})" in search_compact(results, "Redis")
    assert search_json(results)["results"][1]["superseded_by"] == later.observation.id


def test_a_search_within_dates_does_not_add_later_decisions(library: Library) -> None:
    add_decision(library, "early", "/work/shop", "We keep the sessions of the shop in Redis.", 0)
    add_decision(library, "late", "/work/shop", "We drop Redis for sessions of the shop.", 7)
    library.index()
    results = library.memory.search("Redis sessions", MemoryFilter(before="2026-03-03"))
    assert {hit.observation.conversation for hit in results.observations} == {"early"}
