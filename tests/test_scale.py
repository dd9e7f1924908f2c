"""The figures of docs/scale.md, and the simulation they come from."""

from __future__ import annotations

import itertools

import pytest

from bench import scale

INPUTS = scale.read_inputs()


def test_the_tables_of_the_page_are_those_of_the_inputs() -> None:
    """`python -m bench.scale --write` updates them."""
    page = scale.PAGE.read_text(encoding="utf-8")
    assert scale.fill(page, ["user", "node", "plans"], INPUTS) == page


@pytest.mark.full
def test_the_simulation_of_the_page_is_that_of_the_inputs() -> None:
    page = scale.PAGE.read_text(encoding="utf-8")
    assert scale.fill(page, ["simulations"], INPUTS) == page


def test_more_users_need_more_machines() -> None:
    plans = [scale.plan(users, INPUTS) for users in scale.SIZES]
    for smaller, larger in itertools.pairwise(plans):
        assert larger.servers >= smaller.servers
        assert larger.databases > smaller.databases


def test_the_resource_that_is_enough_for_the_fewest_users_decides() -> None:
    limits = scale.capacity_of_one_node(INPUTS)
    first = min(limits, key=lambda name: limits[name])
    assert scale.plan(limits[first] * 2, INPUTS).reason == first


def test_a_queue_serves_in_order_with_all_its_cores() -> None:
    station = scale.Station(2)
    assert [station.serve(0.0, 3.0), station.serve(0.0, 1.0)] == [3.0, 1.0]
    assert station.serve(0.5, 1.0) == 2.0
    assert station.serve(5.0, 1.0) == 6.0


def test_the_busy_hour_has_its_share_of_the_requests() -> None:
    arrivals = scale._arrivals(200, INPUTS, scale.Random(7))
    busy = sum(scale.is_busy(time) for time, _ in arrivals)
    assert busy / len(arrivals) == pytest.approx(INPUTS["usage"]["busy_hour_share"], rel=0.1)


def test_a_simulation_uses_the_cores_that_were_computed() -> None:
    users = 600
    result = scale.simulate(users, scale.Machines(servers=1, cores=2), INPUTS)
    load = scale.load_of(users, INPUTS, on_cluster=False)
    assert result.server_use * INPUTS["server"]["cores"] == pytest.approx(
        load.server_cores, rel=0.2
    )
    assert result.database_use * 2 == pytest.approx(load.database_cores, rel=0.3)
