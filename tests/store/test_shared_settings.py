"""Exclusions that all servers of a database share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import recollect
from recollect.places import shared_database
from recollect.settings import place as library_place
from recollect.store.shared import exclusions
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.exclusions import SharedExclusions

pytestmark = pytest.mark.both_stores


@pytest.fixture
def shared(place: str) -> Iterator[SharedDatabase]:
    shared = shared_database(library_place(place))
    yield shared
    shared.execute(exclusions.TABLES, "delete from exclusion")
    shared.close()


def test_patterns_are_listed_in_their_order_and_once(shared: SharedDatabase) -> None:
    patterns = SharedExclusions(shared)
    for pattern in ("zebra-*", "~/clients/*", "zebra-*"):
        patterns.add(pattern)
    assert sorted(patterns.patterns()) == ["zebra-*", "~/clients/*"]
    patterns.remove("zebra-*")
    assert patterns.patterns() == ["~/clients/*"]


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
