"""Words that the library writes with a space and the user without, or the other way round."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect
from recollect import Filter, SearchOptions

TEXTS = {
    "care": "My self-care routine: no screens after ten, a bath, and a book.",
    "abort": "Wrap the request in an AbortController and pass its signal.",
    "fryer": "The air fryer is loud. A fryer needs air, too.",
    "market": "There is a market for every air.",
    "room": "The standup is in room B-204 on Tuesdays.",
    "desk": "My desk is C17, next to the window.",
    "python": "Pin Python 3.12 in the Dockerfile.",
    "trace": 'File "/srv/app/payments/handlers.py", line 214, in charge',
    "lint": "handlers.py has 3 warnings.",
    "gpu": "The GPU has 24 GB, and the PDF explains the KPI.",
    "pod": "The pod is in CrashLoopBackOff since the upgrade.",
    "loop": "The loop goes back to the start of the track.",
    "posts": "I want to #buildinpublic and post every week.",
    "hook": "useLayoutEffect runs before the browser paints.",
    "sso": "The login page redirects twice.",
    "limit": "It raises TooManyRequestsError, so we wait.",
    "dns": "The DNS server answers by SMS.",
}


@pytest.fixture
def notes(library: recollect.Library) -> recollect.Library:
    return add_texts(library, TEXTS)


def hits(library: recollect.Library, query: str, **options: object) -> list[str]:
    page = library.search(query, options=SearchOptions(**options))  # type: ignore[arg-type]
    return [hit.conversation_id for hit in page.hits]


@pytest.mark.both_stores
def test_a_missing_space_is_corrected_visibly_and_reversibly(notes: recollect.Library) -> None:
    page = notes.search("selfcare")
    assert [hit.conversation_id for hit in page.hits] == ["care"]
    assert page.note == "Searched for “self care” instead of “selfcare”."
    assert page.corrections == {"selfcare": "self care"}
    assert hits(notes, "selfcare", correct=False) == []


@pytest.mark.both_stores
def test_the_first_of_two_words_may_be_short_but_not_a_function_word(
    library: recollect.Library,
) -> None:
    add_texts(library, {"coast": "We fly to Da Nang.", "guess": "Was it her man or for men?"})
    assert hits(library, "danang") == ["coast"]
    for name in ("herman", "formen"):
        page = library.search(name)
        assert (page.hits, page.corrections) == ((), {}), name


@pytest.mark.both_stores
def test_the_words_must_be_next_to_each_other(notes: recollect.Library) -> None:
    assert hits(notes, "airfryer") == ["fryer"]
    page = notes.search("airmarket")  # both words, but apart
    assert (page.hits, page.note) == ((), "No message mentions “airmarket”.")


def test_a_space_is_only_inserted_where_the_filter_finds_something(
    notes: recollect.Library,
) -> None:
    page = notes.search("airfryer", Filter(projects=("home",)))
    assert (page.hits, page.corrections) == ((), {})


def test_several_words_are_found_as_one(notes: recollect.Library) -> None:
    queries = {
        "abort controller": "abort",
        "crash loop back off": "pod",
        "pod crash loop back off": "pod",
        "build in public": "posts",
        "use layout effect": "hook",
        "log in": "sso",
        "too many requests error": "limit",
    }
    for query, name in queries.items():
        page = notes.search(query)
        assert [hit.conversation_id for hit in page.hits][:1] == [name], query
        assert page.note == "", query


def test_words_in_one_word_rank_between_adjacent_and_scattered_words(
    library: recollect.Library,
) -> None:
    texts = {
        "one": "The AbortController stops it.",
        "adjacent": "An abort controller stops it.",
        "scattered": "The controller may abort it.",
        "some": "They may abort it.",
    }
    add_texts(library, texts)
    assert hits(library, "abort controller") == ["adjacent", "one", "scattered", "some"]


def test_numbers_are_not_joined(library: recollect.Library) -> None:
    library.add_conversation("rent", messages=[{"role": "user", "content": "It costs 123456."}])
    assert hits(library, "123 456") == []


def test_letters_and_digits_are_found_together_and_apart(notes: recollect.Library) -> None:
    queries = {"room B204": "room", "B204": "room", "C-17": "desk", "python3.12": "python"}
    for query, name in queries.items():
        assert hits(notes, query)[0] == name


@pytest.mark.both_stores
def test_a_code_is_found_without_its_separators(library: recollect.Library) -> None:
    texts = {
        "headphones": "I bought the WH-1000XM4 headphones.",
        "printer": "The printer HL-L2350DW is offline.",
        "model": "GPT-4o answers faster.",
        "plate": "My licence plate is 1-XYZ-789.",
        "camera": "The camera is an X-T4.",
        "others": "The DW has 1000 L and 4 o and a WH: GPT or XYZ?",
    }
    add_texts(library, texts)
    queries = {
        "wh1000xm4": "headphones",
        "WH1000-XM4": "headphones",
        "where did I buy the WH1000XM4?": "headphones",
        "hll2350dw": "printer",
        "gpt4o": "model",
        "1xyz789": "plate",
        "xt4": "camera",
    }
    for query, name in queries.items():
        page = library.search(query)
        assert ([hit.conversation_id for hit in page.hits][:1], page.note) == ([name], ""), query
    for query in ("wh1000xm5", "hll2350", "xyz1789", "gpt4"):
        assert hits(library, query) == [], query


@pytest.mark.both_stores
def test_a_name_is_found_without_its_apostrophe(library: recollect.Library) -> None:
    for number in range(3):
        library.add_conversation(
            f"{number}", messages=[{"role": "user", "content": f"O'Brien called {number} times."}]
        )
    add_texts(library, {"dangelo": "Ms. D’Angelo has an appointment.", "other": "Brien, o Brien!"})
    page = library.search("obrien")
    assert {"0", "1", "2"} <= {hit.conversation_id for hit in page.hits}
    assert page.corrections == {"obrien": "o brien"}
    assert hits(library, "dangelo") == ["dangelo"]
    assert hits(library, "dangelo", correct=False) == []


def test_a_line_of_a_file_is_found_in_any_format_and_else_the_file(
    notes: recollect.Library,
) -> None:
    for query in ("handlers.py:214", "handlers.py:214:9", "handlers.py:214,"):
        assert hits(notes, query) == ["trace", "lint"], query


def test_the_plural_of_an_acronym_is_the_same_word(notes: recollect.Library) -> None:
    for word in ("GPUs", "PDFs", "KPIs", "gpu", "pdf", "kpi"):
        assert hits(notes, word) == ["gpu"], word


def test_an_acronym_that_ends_in_s_is_not_a_plural(notes: recollect.Library) -> None:
    for word in ("dn", "sm", "gp"):
        assert hits(notes, word) == [], word


def test_a_number_that_occurs_nowhere_resembles_nothing(notes: recollect.Library) -> None:
    notes.index()
    page = notes.search("1500")
    assert (page.hits, page.total) == ((), 0)
    assert page.note.startswith("No message mentions “1500”.")
