"""Exclusions and budgets that all servers of a database share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import partial

import pytest

import recollect
from recollect.memory.observe.model import SharedBudget
from recollect.places import shared_database
from recollect.settings import LIMITS
from recollect.settings import place as library_place
from recollect.store.shared import budgets, exclusions
from recollect.store.shared.budgets import SharedBudgets
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.exclusions import SharedExclusions

pytestmark = pytest.mark.both_stores


@pytest.fixture
def shared(place: str) -> Iterator[SharedDatabase]:
    shared = shared_database(library_place(place))
    yield shared
    shared.execute(exclusions.TABLES, "delete from exclusion")
    shared.execute(budgets.TABLES, "delete from budget")
    shared.close()


def test_patterns_are_listed_in_their_order_and_once(shared: SharedDatabase) -> None:
    patterns = SharedExclusions(shared)
    for pattern in ("zebra-*", "~/clients/*", "zebra-*"):
        patterns.add(pattern)
    assert sorted(patterns.patterns()) == ["zebra-*", "~/clients/*"]
    patterns.remove("zebra-*")
    assert patterns.patterns() == ["~/clients/*"]


def test_a_budget_is_spent_by_all_and_renewed_every_day(shared: SharedDatabase) -> None:
    here, there = SharedBudgets(shared), SharedBudgets(shared)
    assert here.spend("observer", "2026-01-05", 80, 100)
    assert not there.spend("observer", "2026-01-05", 30, 100)
    assert there.spend("observer", "2026-01-05", 20, 100)
    assert not here.spend("observer", "2026-01-06", 101, 100)
    assert here.spend("observer", "2026-01-06", 100, 100)


def test_the_observer_spends_the_shared_budget(place: str, shared: SharedDatabase) -> None:
    budget = SharedBudget(partial(shared_database, library_place(place)))
    monday = date(2026, 1, 5)
    assert budget.spend(LIMITS.observer_characters_each_day, monday)
    assert not SharedBudgets(shared).spend(
        "observer", "2026-01-05", 1, LIMITS.observer_characters_each_day
    )


def test_what_one_server_excludes_is_imported_by_no_program(on_postgres: str) -> None:
    shared = shared_database(on_postgres)
    SharedExclusions(shared).add("secret-*")
    with recollect.open(on_postgres, background=False) as library:
        assert library.exclusion().matching_pattern("secret-project")
        receipt = library.import_items(
            [{"id": "c", "namespace": "secret-1", "messages": [{"role": "user", "content": "x"}]}]
        )
        assert "excluded by the pattern secret-*" in receipt.files[0].conversations.skipped
    SharedExclusions(shared).remove("secret-*")
    shared.close()
