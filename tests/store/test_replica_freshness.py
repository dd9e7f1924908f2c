"""When the state of a replica is new enough for a search."""

from __future__ import annotations

from recollect.store.postgres.replicas.freshness import LogPositions, OwnWrites


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_replica_is_as_old_as_the_newest_position_that_it_has_replayed() -> None:
    clock = Clock()
    positions = LogPositions(clock)
    assert positions.seconds_behind(100) is None
    positions.add(995.0, 100)
    positions.add(997.0, 200)
    positions.add(999.0, 300)
    assert [positions.seconds_behind(at) for at in (99, 100, 299, 300, 400)] == [None, 5, 3, 1, 1]
    assert positions.history_seconds() == 5


def test_a_primary_without_writes_does_not_make_a_replica_look_old() -> None:
    clock = Clock()
    positions = LogPositions(clock)
    for at in (100.0, 500.0, 999.0):
        positions.add(at, 100)
    assert positions.seconds_behind(100) == 1


def test_positions_of_an_earlier_primary_are_not_compared() -> None:
    positions = LogPositions(Clock())
    positions.add(995.0, 300)
    positions.add(999.0, 200)
    assert positions.seconds_behind(300) == 1
    assert positions.history_seconds() == 1


def test_a_write_is_required_of_replicas_until_all_of_them_have_it() -> None:
    clock = Clock()
    writes = OwnWrites(10, clock)
    assert writes.token(1) is None
    writes.begin_commit(1, 77)
    writes.end_commit(1, 77)
    clock.now += 10
    assert (writes.token(1), writes.token(2)) == (77, None)
    clock.now += 31
    assert writes.token(1) is None


def test_the_time_of_a_slow_commit_is_that_of_its_end() -> None:
    clock = Clock()
    writes = OwnWrites(10, clock)
    writes.begin_commit(1, 77)
    clock.now += 100
    assert writes.token(1) is None
    writes.end_commit(1, 77)
    assert writes.token(1) == 77


def test_the_end_of_an_earlier_commit_does_not_replace_a_later_one() -> None:
    writes = OwnWrites(10, Clock())
    writes.begin_commit(1, 77)
    writes.begin_commit(1, 78)
    writes.end_commit(1, 77)
    assert writes.token(1) == 78


def test_old_writes_of_many_owners_are_forgotten() -> None:
    clock = Clock()
    writes = OwnWrites(10, clock)
    for owner in range(10_000):
        writes.begin_commit(owner, owner)
    clock.now += 41
    writes.begin_commit(10_001, 1)
    assert len(writes._writes) == 1
