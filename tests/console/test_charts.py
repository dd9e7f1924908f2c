"""Plots say what they show, to everybody."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from recollect.serve.console.charts import bars, columns, months, nice_top


def titles(drawing: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(drawing).iter("title")]


def test_every_bar_says_its_number() -> None:
    chart = columns("Messages over time", [("2026-01", 3), ("2026-02", 0), ("2026-03", 1200)])
    assert titles(chart.drawing) == ["2026-01: 3", "2026-03: 1,200"]
    assert chart.rows == (("2026-01", 3), ("2026-02", 0), ("2026-03", 1200))


def test_lying_bars_are_the_longest_first_and_the_rest_is_named() -> None:
    chart = bars("By model", [(f"m{n}", n) for n in range(1, 31)], "Model")
    assert titles(chart.drawing)[0] == "m30: 30"
    assert len(titles(chart.drawing)) == 10
    assert chart.note == "and 20 more with 210 messages"
    assert len(chart.rows) == 30


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=50),
            st.integers(0, 10**9),
        )
    )
)
def test_any_name_stays_text(pairs: list[tuple[str, int]]) -> None:
    for chart in (bars("a <b>", pairs, "x"), columns("a <b>", pairs)):
        tags = {found.tag for found in ElementTree.fromstring(chart.drawing).iter()}
        assert tags <= {"svg", "rect", "title", "text", "line", "g"}


def test_months_without_messages_are_drawn_too() -> None:
    assert months([("2025-11", 1), ("2026-02", 2), ("no month", 3)]) == [
        ("2025-11", 1),
        ("2025-12", 0),
        ("2026-01", 0),
        ("2026-02", 2),
    ]
    assert months([]) == []
    assert len(months([("1970-01", 1), ("2026-02", 2)])) == 60


@given(st.integers(0, 10**12))
def test_an_axis_ends_a_little_above(highest: int) -> None:
    assert highest <= nice_top(highest) <= max(1, 2 * highest)
