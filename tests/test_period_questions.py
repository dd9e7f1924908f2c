"""A question about nothing but a time is answered by what was written then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from selection import few

import recollect
from recollect import Filter, Page, SearchOptions
from recollect.language.queries.query import parse_query
from recollect.search.queries.query_reading import as_period

NOW = datetime(2026, 3, 12, 10, tzinfo=UTC)  # a Thursday
MESSAGES = {
    "2026-02-20": "Last week we did a lot, and the week before as well.",
    "2026-03-03": "The rain barrel behind the shed is full.",
    "2026-03-06": "Tomatoes need water twice a day.",
    "2026-03-11": "I repaired the gutter.",
}


@pytest.fixture(params=[pytest.param("fresh", marks=pytest.mark.full), "embedded"])
def diary(library: recollect.Library, request: pytest.FixtureRequest) -> recollect.Library:
    for day, text in MESSAGES.items():
        message = {"id": day, "role": "user", "content": text, "created_at": f"{day}T09:00:00Z"}
        library.add_conversation(f"of {day}", messages=[message])
    if request.param == "embedded":
        library.index()
    return library


def search(library: recollect.Library, query: str, **options: str) -> Page:
    return library.search(query, options=SearchOptions(now=NOW, **options))


@pytest.mark.parametrize("group", ["message", "conversation"])
def test_everything_of_the_time_is_listed_newest_first(
    diary: recollect.Library, group: str
) -> None:
    page = search(diary, "What did we do last week?", group=group)
    assert [hit.message_id for hit in page.hits] == ["2026-03-06", "2026-03-03"]
    assert (page.total, page.exact, page.missing) == (2, True, ())
    assert all(hit.arms == () for hit in page.hits)
    assert page.note == "Searched by time only: 2026-03-02 to 2026-03-08."


def test_a_time_can_have_no_beginning(diary: recollect.Library) -> None:
    page = search(diary, "before March 2026")
    assert [hit.message_id for hit in page.hits] == ["2026-02-20"]
    assert page.note == "Searched by time only: up to 2026-02-28."


def test_keywords_with_a_time_say_that_no_hit_is_from_then(diary: recollect.Library) -> None:
    page = search(diary, "rain barrel last year")
    assert page.hits[0].message_id == "2026-03-03"
    assert page.note == (
        "None of the best hits was written in that time (2025-01-01 to 2025-12-31)."
    )
    assert search(diary, "rain barrel this month").note == ""


@pytest.mark.parametrize("query", few(["May 5 2025", "may 5, 2025", "in May 2025"]))
def test_a_date_that_messages_only_mention_is_searched_for(
    diary: recollect.Library, query: str
) -> None:
    text = "The dentist saw me on May 5, 2025, in May 2025 that is."
    message = {"id": "dentist", "content": text, "created_at": "2026-03-01T09:00:00Z"}
    diary.add_conversation("dentist", messages=[{"role": "user", **message}])
    page = search(diary, query)
    assert [hit.message_id for hit in page.hits][:1] == ["dentist"]
    assert page.note.startswith("Nothing was written at that time (2025-05-")
    (result, *_) = diary.knowledge.search(query)["results"]
    assert result["id"] == "dentist"
    assert diary.memory.search(query).total >= 1
    counts = diary.count_matches(query, options=SearchOptions(now=NOW))
    assert counts is not None
    assert counts.messages >= 1


@pytest.mark.parametrize(
    ("question", "text"),
    few(
        [
            ("what happened at Christmas?", "We roast a goose for Christmas."),
            ("what is on Thursday?", "The plumber comes on Thursday."),
            ("what did we do in August?", "My birthday is in August."),
            ("Was haben wir über Weihnachten gesagt?", "An Weihnachten war sie beleidigt."),
        ]
    ),
)
def test_a_question_about_a_time_finds_what_mentions_it_if_nothing_is_of_that_time(
    diary: recollect.Library, question: str, text: str
) -> None:
    message = {"id": "mention", "role": "user", "content": text}
    diary.add_conversation("mention", messages=[message])
    page = search(diary, question)
    assert page.hits[0].message_id == "mention"
    assert page.note.startswith("Nothing was written at that time (")


@pytest.mark.both_stores
@pytest.mark.parametrize(
    "question",
    [
        "what will Tobias do in August",
        "What is Tobias going to do in August?",
        "Was wird Tobias im August machen?",
    ],
)
def test_a_question_about_the_future_finds_plans_and_not_what_was_written_a_year_before(
    library: recollect.Library, question: str
) -> None:
    texts = {
        "2025-08-04": "Tobias mowed the lawn, and Tobias called.",
        "2025-08-11": "What will Tobias do about the fence? Ask him.",
        "2026-02-01": "The plan of Tobias: two weeks of sailing in August.",
        "2026-02-02": "Tobias has a cold.",
    }
    for day, text in texts.items():
        message = {"id": day, "role": "user", "content": text, "created_at": f"{day}T09:00:00Z"}
        library.add_conversation(day, messages=[message])
    library.index()
    page = search(library, question)
    assert page.hits[0].message_id == "2026-02-01"
    assert "written in that time" not in page.note


def test_a_question_about_nothing_but_a_future_time_finds_what_mentions_it(
    diary: recollect.Library,
) -> None:
    messages = [
        {"id": "plan", "role": "user", "content": "In August, we go to the lake."},
        {"id": "old", "role": "user", "content": "Rain.", "created_at": "2025-08-04T09:00:00Z"},
    ]
    for message in messages:
        diary.add_conversation(message["id"], messages=[message])
    page = search(diary, "what will we do in August?")
    assert (page.hits[0].message_id, page.note) == ("plan", "")


@pytest.mark.both_stores
def test_only_what_passes_the_filter_decides_whether_a_date_is_a_time(
    library: recollect.Library,
) -> None:
    """One project has a message of that day, the other only mentions it."""
    for project, text, day in (
        ("work", "I repaired the gutter.", "2024-03-05"),
        ("garden", "Sow peas on March 5 2024, that is 2024-03-05.", "2024-02-01"),
    ):
        message = {"id": project, "role": "user", "content": text, "created_at": f"{day}T09:00:00Z"}
        library.add_conversation(project, messages=[message], project=project)
    for query in ("March 5 2024", "2024-03-05"):
        for project in ("work", "garden"):
            for page in (
                search(library, f"{query} in:{project}"),
                library.search(query, Filter(projects=(project,)), SearchOptions(now=NOW)),
            ):
                assert [hit.message_id for hit in page.hits] == [project], (query, project)
            results = library.knowledge.search(f"{query} in:{project}")["results"]
            assert [result["id"] for result in results] == [project]


@pytest.mark.both_stores
def test_a_date_in_digits_is_a_time_if_nothing_contains_it(diary: recollect.Library) -> None:
    for query in ("2026-03-06", "2026-03-06?", "06.03.2026"):
        page = search(diary, query)
        assert [hit.message_id for hit in page.hits] == ["2026-03-06"], query
        assert page.note == "Searched by time only: 2026-03-06."
    message = {"id": "bill", "role": "user", "content": "Pay the bill by 2026-03-06."}
    diary.add_conversation("bill", messages=[message])
    page = search(diary, "2026-03-06")
    assert ([hit.message_id for hit in page.hits], page.note) == (["bill"], "")
    page = search(diary, "2026-03-09")
    assert (page.hits, page.note) == ((), "No message mentions “2026-03-09”.")


def test_days_are_those_of_the_time_zone(diary: recollect.Library) -> None:
    evening_in_california = datetime(2026, 3, 11, 20, tzinfo=timezone(timedelta(hours=-8)))
    options = SearchOptions(now=evening_in_california)
    assert options.now.astimezone(UTC).day == 12
    page = diary.search("what did we do today?", options=options)
    assert [hit.message_id for hit in page.hits] == ["2026-03-11"]
    assert page.note == "Searched by time only: 2026-03-11."


def test_fields_still_apply(diary: recollect.Library) -> None:
    page = search(diary, "what did we do last week before:2026-03-04")
    assert [hit.message_id for hit in page.hits] == ["2026-03-03"]
    assert not search(diary, "what did we do last week role:assistant").hits


def test_a_question_with_a_topic_is_ranked(diary: recollect.Library) -> None:
    page = search(diary, "what did we do with the barrel last week?")
    assert page.hits[0].message_id == "2026-03-03"
    assert not page.note


def test_a_time_is_no_word_that_no_message_mentions(diary: recollect.Library) -> None:
    page = search(diary, "what is in the barrel before 2028?")
    assert (page.missing, page.note) == ((), "")
    page = search(diary, "was haben wir im März über barrel und Dünger gesagt")
    assert page.missing == ("dünger",)
    assert page.note == "No message mentions “dünger”."
    (hit, *_) = page.hits
    assert (hit.message_id, hit.terms) == ("2026-03-03", ("barrel",))


def test_all_kinds_and_memory_answer_in_the_same_way(diary: recollect.Library) -> None:
    assert diary.knowledge.search("What did we do in 1999?")["results"] == []
    (of_day,) = diary.knowledge.search("What did we do on March 6, 2026?")["results"]
    assert of_day["id"] == "of 2026-03-06"
    results = diary.memory.search("What did we do in 1999?")
    assert (results.hits, results.total) == ((), 0)
    assert diary.memory.search("What did we do on March 6, 2026?").total == 1


@pytest.mark.parametrize(
    "question",
    [
        "What happened yesterday?",
        "what have we been working on lately?",
        "Was haben wir letzte Woche gemacht?",
        "Qu'est-ce qu'on a fait hier ?",
        "¿Qué hicimos ayer?",
        "cosa abbiamo fatto ieri?",
        "o que fizemos ontem?",
        "Wat hebben we gisteren gedaan?",
        "3. Februar 2026",
        "昨天我们做了什么？",
        "先週何を聞いた？",
        "어제 무엇을 했나요?",
        "last week",
        "in February",
        "before 2026",
        "la semaine dernière",
        "em fevereiro",
        "先週",
        "지난주",
    ],
)
def test_a_question_about_a_time_is_recognized_in_each_language(question: str) -> None:
    query = as_period(parse_query(question), NOW)
    assert query.node is None
    assert query.fields.after is not None and query.fields.before is not None


@pytest.mark.parametrize(
    "question",
    [
        "what did Ada do last week",
        "what did we decide last week or yesterday",
        "yesterday",
        "2026-03-06 09:00",
        "barrel last week",
        '"last week"',
        "last week OR yesterday",
        "may I push to main?",
        '"what did we do" last week',
    ],
)
def test_other_questions_are_not_taken_for_one_about_a_time(question: str) -> None:
    query = parse_query(question)
    assert as_period(query, NOW) is query


@pytest.mark.parametrize("group", ["message", "conversation"])
def test_a_note_says_if_no_hit_is_of_the_time_that_a_question_names(
    library: recollect.Library, group: str
) -> None:
    message = {"role": "user", "content": "We decided to paint the fence green.", "id": "m1"}
    day = "2025-11-03T10:00:00Z"
    library.add_conversation("fence", "", messages=[message | {"created_at": day}])
    question = "What did we decide about the fence last week?"
    page = search(library, question, group=group)
    assert [hit.message_id for hit in page.hits] == ["m1"]
    remark = "None of the best hits was written in that time (2026-03-02 to 2026-03-08)."
    assert remark in page.note
    for other in ("last November", "next week", "in the 1990s"):
        assert "that time" not in search(library, question.replace("last week", other)).note
