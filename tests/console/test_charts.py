"""The charts of the activity page: tooltips, tables, links, and escaped names."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

import recollect

pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)

EVIL = "</title><script>alert(1)</script>"


def figures(html: str) -> dict[str, str]:
    """The HTML of each chart by its title."""
    found = re.findall(r"<figcaption>(.*?)</figcaption>(.*?)</figure>", html, re.DOTALL)
    return {unescape(title): figure for title, figure in found}


def titles(figure: str) -> list[str]:
    return [unescape(title) for title in re.findall(r"<title>(.*?)</title>", figure)]


@pytest.fixture
def html(client: TestClient, library: recollect.Library) -> str:
    for number in range(13):
        messages = [
            {"role": "user", "content": "x", "created_at": "2025-11-30T10:00:00Z"},
            {"role": "assistant", "content": "y", "model": EVIL if number == 0 else "m"},
        ]
        library.add_conversation(f"c{number}", project=f"p{number}", messages=messages)
    later = {"role": "user", "content": "x", "created_at": "2026-02-01T10:00:00Z"}
    library.add_conversation("later", project="p0", messages=[later])
    return client.get("/activity").text


def test_every_column_has_its_number_as_a_tooltip_and_empty_months_are_included(
    html: str,
) -> None:
    chart = figures(html)["Messages per month"]
    assert titles(chart) == ["2025-11: 13", "2026-02: 1"]
    assert re.findall(r'<th scope="row">(?:<a[^>]*>)?([^<]*)', chart) == [
        "2025-11",
        "2025-12",
        "2026-01",
        "2026-02",
    ]
    assert "You wrote 14 messages since November 2025." in html
    assert 'href="/?q=role%3Auser%20after%3A2025-11%20before%3A2025-11"' in chart


def test_the_longest_bars_come_first_and_the_rest_is_summed_up(html: str) -> None:
    chart = figures(html)["Busiest projects"]
    assert titles(chart)[0] == "p0: 2"
    assert len(titles(chart)) == 10
    assert "and 3 more with 3 messages" in chart
    assert 'href="/?q=role%3Auser&amp;project=p0"' in chart
    assert len(re.findall('<th scope="row">', chart)) == 13


def test_names_are_escaped(html: str) -> None:
    assert f"{EVIL}: 1" in titles(figures(html)["Replies by model"])
    assert "<script>alert" not in html
