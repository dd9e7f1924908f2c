"""Dates and periods in the text of a question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.when import Window, date_words, windows

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)  # a Wednesday


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


@pytest.mark.parametrize(
    ("text", "window"),
    [
        # days
        ("what did I ask today", "2026-03-18 2026-03-19"),
        ("what we said yesterday about it", "2026-03-17 2026-03-18"),
        ("yesterday's meeting", "2026-03-17 2026-03-18"),
        ("the day before yesterday", "2026-03-16 2026-03-17"),
        ("tonight", "2026-03-18T18:00 2026-03-19T06:00"),
        ("this morning", "2026-03-18 2026-03-18T12:00"),
        ("this afternoon", "2026-03-18T12:00 2026-03-18T18:00"),
        ("last night", "2026-03-17T18:00 2026-03-18T06:00"),
        ("yesterday morning", "2026-03-17 2026-03-17T12:00"),
        ("the other day", "2026-03-08 2026-03-18"),
        ("recently", "2026-02-16 2026-03-19"),
        # ago
        ("10 minutes ago", "2026-03-18T15:05 2026-03-18T15:35"),
        ("half an hour ago", "2026-03-18T14:45 2026-03-18T15:15"),
        ("two hours ago", "2026-03-18T12:30 2026-03-18T14:30"),
        ("three days ago", "2026-03-14 2026-03-17"),
        ("about 10 days ago", "2026-03-06 2026-03-11"),
        ("a week ago", "2026-03-08 2026-03-15"),
        ("4 weeks back", "2026-02-14 2026-02-23"),
        ("a couple of months ago", "2026-01-04 2026-02-02"),
        ("a few weeks ago", "2026-02-07 2026-03-08"),
        ("several days ago", "2026-03-09 2026-03-17"),
        ("2-3 weeks ago", "2026-02-22 2026-03-08"),
        ("twelve months ago", "2025-02-16 2025-04-18"),
        ("half a year ago", "2025-08-27 2025-10-11"),
        ("a year ago today", "2025-01-17 2025-05-18"),
        ("ten years ago", "2015-09-17 2016-09-18"),
        # weeks, months and years around now
        ("last week", "2026-03-09 2026-03-16"),
        ("last month", "2026-02-01 2026-03-01"),
        ("last year", "2025-01-01 2026-01-01"),
        ("earlier this week", "2026-03-16 2026-03-23"),
        ("this month", "2026-03-01 2026-04-01"),
        ("the week before last", "2026-03-02 2026-03-09"),
        ("past 3 days", "2026-03-15 2026-03-19"),
        ("the last two weeks", "2026-03-04 2026-03-19"),
        ("in the past couple of weeks", "2026-03-04 2026-03-19"),
        ("the past week", "2026-03-11 2026-03-19"),
        ("in the last month", "2026-02-18 2026-03-19"),
        ("in the last 24 hours", "2026-03-17T15:30 2026-03-19"),
        # weekdays
        ("last Monday", "2026-03-16 2026-03-17"),
        ("on Monday", "2026-03-16 2026-03-17"),
        ("last Friday night", "2026-03-13 2026-03-14"),
        ("this Monday", "2026-03-16 2026-03-17"),
        ("Monday last week", "2026-03-09 2026-03-10"),
        ("on Monday two weeks ago", "2026-03-02 2026-03-03"),
        ("last weekend", "2026-03-14 2026-03-16"),
        ("over the weekend", "2026-03-14 2026-03-16"),
        # months
        ("in May", "2025-05-01 2025-06-01"),
        ("in March", "2026-03-01 2026-04-01"),
        ("last March", "2025-03-01 2025-04-01"),
        ("last may?", "2025-05-01 2025-06-01"),
        ("in May 2023", "2023-05-01 2023-06-01"),
        ("may 2023", "2023-05-01 2023-06-01"),
        ("in May of last year", "2025-05-01 2025-06-01"),
        ("2023-05", "2023-05-01 2023-06-01"),
        # dates
        ("May 8", "2025-05-08 2025-05-09"),
        ("on may 8 we met", "2025-05-08 2025-05-09"),
        ("8 May 2023", "2023-05-08 2023-05-09"),
        ("May 8th, 2023", "2023-05-08 2023-05-09"),
        ("May 8, 2023", "2023-05-08 2023-05-09"),
        ("the 8th of May", "2025-05-08 2025-05-09"),
        ("Jan. 5, 2024", "2024-01-05 2024-01-06"),
        ("Monday, May 8", "2023-05-08 2023-05-09"),
        ("on Thursday, May 8", "2025-05-08 2025-05-09"),
        ("February 29", "2024-02-29 2024-03-01"),
        ("May 8-10, 2023", "2023-05-08 2023-05-11"),
        ("May 8 – 10", "2025-05-08 2025-05-11"),
        ("notes-2023-05-08.md", "2023-05-08 2023-05-09"),
        ("2023-05-08T10:30:00Z", "2023-05-08 2023-05-09"),
        ("2023/05/08", "2023-05-08 2023-05-09"),
        ("8.5.2023", "2023-05-08 2023-05-09"),
        ("5/23/2023", "2023-05-23 2023-05-24"),
        ("23/5/2023", "2023-05-23 2023-05-24"),
        ("the week of May 8, 2023", "2023-05-08 2023-05-15"),
        # years, seasons, parts
        ("in 2023", "2023-01-01 2024-01-01"),
        ("last summer", "2025-06-01 2025-09-01"),
        ("last winter", "2025-12-01 2026-03-01"),
        ("this spring", "2026-03-01 2026-06-01"),
        ("in the fall of 2023", "2023-09-01 2023-12-01"),
        ("winter 2023", "2023-12-01 2024-03-01"),
        ("last Christmas", "2025-12-24 2025-12-27"),
        ("over Christmas 2023", "2023-12-24 2023-12-27"),
        ("early May", "2025-05-01 2025-05-14"),
        ("mid-May", "2025-05-10 2025-05-23"),
        ("late May 2023", "2023-05-19 2023-06-01"),
        ("late March", "2025-03-19 2025-04-01"),
        ("at the beginning of may", "2025-05-01 2025-05-09"),
        ("end of 2024", "2024-10-01 2025-01-01"),
        # from, to, between
        ("since May", "2025-05-01 2026-03-19"),
        ("since Monday", "2026-03-16 2026-03-19"),
        ("since early 2025", "2025-01-01 2026-03-19"),
        ("since 2024", "2024-01-01 2026-03-19"),
        ("before 2024", "0001-01-02 2024-01-01"),
        ("after June 2025", "2025-07-01 2026-03-19"),
        ("after the end of 2024", "2025-01-01 2026-03-19"),
        ("between May and July", "2025-05-01 2025-08-01"),
        ("between May and July 2023", "2023-05-01 2023-08-01"),
        ("between May 2023 and July", "2023-05-01 2023-08-01"),
        ("between May 3 and May 10", "2025-05-03 2025-05-11"),
        ("from 2022 to 2024", "2022-01-01 2025-01-01"),
    ],
)
def test_a_date_or_period_in_a_text_is_recognized(text: str, window: str) -> None:
    assert windows_in(text) == [window]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I may have asked",
        "this may be it",
        "the 8th may fail",
        "May I ask",
        "march on",
        "a march on Washington",
        "second",
        "a second ago",
        "fall down",
        "the last fall of Rome",
        "spring boot",
        "in summer I swim",
        "sat down",
        "jan",
        "April said hi",
        "June's recipe",
        "Monday",
        "every Monday",
        "on Mondays",
        "from Monday to Friday",
        "next week",
        "next Monday",
        "in May next year",
        "in the next two weeks",
        "tomorrow",
        "the day after tomorrow",
        "this Friday",
        "this weekend",
        "in 2030",
        "on 2026-04-01",
        "2023",
        "in 3000",
        "Y2023",
        "in M5",
        "error 2023-99",
        "1234-05-08",
        "2023-13-45",
        "June 31",
        "May 45",
        "5/8/2023",
        "10:30",
        "1.5 years ago",
        "two and a half years ago",
        "a year and two months ago",
        "3 ago",
        "a while ago",
        "two weeks earlier",
        "in a week",
        "the last day of May",
        "last two weeks of May",
        "the last straw",
        "the past",
        "most recently",
        "hier ist es",
        "for the first time in ages",
        "日本語",
        "2023년",
        "in $2023",
    ],
)
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
