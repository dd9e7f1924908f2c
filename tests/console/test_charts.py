"""Charts: tooltips, tables, and escaped labels."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from recollect.serve.console.views.charts import bar_chart, column_chart, fill_months, round_up


def titles(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter("title")]


def test_every_bar_has_its_number_as_a_tooltip() -> None:
    chart = column_chart("Messages over time", [("2026-01", 3), ("2026-02", 0), ("2026-03", 1200)])
    assert titles(chart.drawing) == ["2026-01: 3", "2026-03: 1,200"]
    assert chart.rows == (("2026-01", 3), ("2026-02", 0), ("2026-03", 1200))


def test_bar_charts_show_the_longest_bars_first_and_sum_up_the_rest() -> None:
    chart = bar_chart("By model", [(f"m{n}", n) for n in range(1, 31)], "Model")
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
def test_names_are_escaped(pairs: list[tuple[str, int]]) -> None:
    for chart in (bar_chart("a <b>", pairs, "x"), column_chart("a <b>", pairs)):
        tags = {element.tag for element in ElementTree.fromstring(chart.drawing).iter()}
        assert tags <= {"svg", "rect", "title", "text", "line", "g"}


def test_months_without_messages_are_included() -> None:
    assert fill_months([("2025-11", 1), ("2026-02", 2), ("no month", 3)]) == [
        ("2025-11", 1),
        ("2025-12", 0),
        ("2026-01", 0),
        ("2026-02", 2),
    ]
    assert fill_months([]) == []
    assert len(fill_months([("1970-01", 1), ("2026-02", 2)])) == 60


@given(st.integers(0, 10**12))
def test_an_axis_ends_at_a_round_number_a_little_above_the_maximum(highest: int) -> None:
    assert highest <= round_up(highest) <= max(1, 2 * highest)


def test_bars_and_rows_of_the_table_are_links() -> None:
    chart = column_chart(
        "Messages", [("2026-01", 3), ("2026-02", 0)], link=lambda name: f"/?m={name}"
    )
    hrefs = [element.get("href") for element in ElementTree.fromstring(chart.drawing).iter("a")]
    assert hrefs == ["/?m=2026-01"]
    assert chart.link("2026-01") == "/?m=2026-01"
