"""Dates and periods in the text of a question."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.when import Window, date_words, windows

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)  # a Wednesday
DATA = Path(__file__).parent / "data/english_times.toml"
EXPRESSIONS = tomllib.loads(DATA.read_text(encoding="utf-8"))


def windows_in(text: str, now: datetime = NOW) -> list[str]:
    """The windows of a text, each as "start end"."""
    return [f"{format_time(w.start)} {format_time(w.end)}" for w in windows(text, now)]


def format_time(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="minutes").removesuffix("T00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what will Tobias do in August", []),
        ("Will it rain in August?", []),
        ("When is Ann going to move in May?", []),
        ("what'll we do on Monday", []),
        ("what will we do before August", []),
        ("Was wird Tobias im August machen?", []),
        ("what will we do in March", []),
        ("what will we do this week", ["2026-03-16 2026-03-23"]),
        ("what will we say about last August", ["2025-08-01 2025-09-01"]),
        ("what will count in May 2024", ["2024-05-01 2024-06-01"]),
        ("what did Will plant in August", ["2025-08-01 2025-09-01"]),
        ("what did he do in August", ["2025-08-01 2025-09-01"]),
    ],
)
def test_a_question_about_the_future_does_not_mean_what_is_over(
    text: str, expected: list[str]
) -> None:
    assert windows_in(text) == expected


@pytest.mark.parametrize(("text", "window"), EXPRESSIONS["periods"].items())
def test_a_date_or_period_in_a_text_is_recognized(text: str, window: str) -> None:
    assert windows_in(text) == [window]


@pytest.mark.parametrize("text", EXPRESSIONS["others"]["texts"])
def test_an_ambiguous_expression_is_not_a_time(text: str) -> None:
    assert windows_in(text) == []


def test_several_times_are_listed_once_each_in_text_order() -> None:
    text = "Was it in May 2023, or yesterday? Or the 3rd of June, 2024 – or yesterday…"
    may, yesterday, june = windows(text, NOW)
    assert (may.words, june.words) == ("May 2023", "the 3rd of June, 2024")
    start, end = datetime(2026, 3, 17, tzinfo=UTC), datetime(2026, 3, 18, tzinfo=UTC)
    assert yesterday == Window(start, end, "yesterday")


@pytest.mark.parametrize(
    ("now", "text", "window"),
    [
        ("2026-01-01", "yesterday", "2025-12-31 2026-01-01"),
        ("2026-01-15", "last month", "2025-12-01 2026-01-01"),
        ("2026-01-15", "last week", "2026-01-05 2026-01-12"),
        ("2026-01-15", "this winter", "2025-12-01 2026-03-01"),
        ("2026-07-15", "last summer", "2025-06-01 2025-09-01"),
        ("2026-07-15", "this summer", "2026-06-01 2026-09-01"),
        ("2026-07-15", "this May", "2026-05-01 2026-06-01"),
        ("2026-03-31", "a month ago", "2026-02-16 2026-03-13"),
        ("2024-02-29", "a year ago", "2022-12-30 2023-04-30"),
        ("2026-03-15", "last weekend", "2026-03-07 2026-03-09"),
        ("2026-03-15", "over the weekend", "2026-03-14 2026-03-16"),
        ("2026-03-16", "last Monday", "2026-03-09 2026-03-10"),
        ("2026-12-25", "at Christmas", "2026-12-24 2026-12-27"),
        ("2026-12-25", "last Christmas", "2025-12-24 2025-12-27"),
    ],
)
def test_relative_times_depend_on_the_current_date(now: str, text: str, window: str) -> None:
    assert windows_in(text, datetime.fromisoformat(now).replace(tzinfo=UTC)) == [window]


VOCABULARY = """
    since before after between and from to in on the of early mid late end last this past next half
    May may Jan Monday friday summer fall christmas 2023 1970 2099 1 8th 29 31 999 February
    two a few couple days weeks months years hours ago back week month year weekend yesterday night
    2023-05-08 31.12.2099 8-10 - , . ’s
"""
WORDS = st.lists(
    st.one_of(st.sampled_from(VOCABULARY.split()), st.text(max_size=4)), max_size=24
).map(" ".join)
MOMENTS = st.datetimes(
    min_value=datetime(2, 1, 1),
    max_value=datetime(9998, 12, 31),
    timezones=st.sampled_from([UTC, ZoneInfo("America/New_York"), timezone(timedelta(hours=14))]),
)


@given(st.one_of(st.text(), WORDS), MOMENTS)
def test_every_window_begins_before_it_ends_and_quotes_the_text(text: str, now: datetime) -> None:
    for window in windows(text, now):
        assert window.start < window.end
        assert window.start.tzinfo is window.end.tzinfo is now.tzinfo
        assert window.words and window.words in text
        assert window.start.astimezone(UTC) < window.end.astimezone(UTC)


LONG_TEXTS = ["May 8 ", "since early ", "2023-05-08 ", "1,1"]
SIMILAR_LONG_TEXTS = ["a ", "last ", "1-1-", "between May and ", "12 ", ",", "'a", "the 8 "]


@pytest.mark.parametrize(
    "fragment",
    [*LONG_TEXTS, *(pytest.param(each, marks=pytest.mark.full) for each in SIMILAR_LONG_TEXTS)],
)
def test_a_long_repetitive_text_is_scanned_to_the_end(fragment: str) -> None:
    assert len(windows(fragment * (50_000 // len(fragment)), NOW)) <= 1


@given(st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC)))
def test_the_words_of_a_date_are_recognized_as_that_date(moment: datetime) -> None:
    iso, day, month, year, _ = date_words(moment).split()
    for text in (iso, f"{day} {month} {year}", f"on {day} {month} {year}"):
        (window,) = windows(text, moment + timedelta(days=1))
        assert format_time(window.start) == iso
        assert format_time(window.end - timedelta(days=1)) == iso


@pytest.mark.parametrize("now", [datetime.min, datetime.max])
def test_no_moment_is_too_early_or_too_late(now: datetime) -> None:
    for text in ("next week", "yesterday", "last year", "in May", "three months ago"):
        windows(text, now.replace(tzinfo=UTC))
