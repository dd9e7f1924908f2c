"""Hits need evidence, keywords are not questions, and typing errors are corrected visibly."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from limits import no_time
from selection import few

import recollect
from recollect import Filter, Page, SearchOptions
from recollect.errors import InvalidInput

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GARDEN = {
    "barrel": ["I installed a 300-litre rain barrel behind the shed.", "A good size."],
    "weather": ["Maybe rain tomorrow, maybe not.", "The barrel of the pen is blue."],
    "tomatoes": [
        "The tomatoes need water twice a day.",
        "My neighbour waters the tomatoes while I am away.",
        "Tomatoes again: the balcony is full of them.",
        "Yet more tomatoes, and basil next to them.",
    ],
    "soup": ["Tomatoes make a fine soup.", "Serve it cold."],
    "films": ["The film festival starts in May.", "I bought two tickets for it."],
    "errors": ["The login fails with ERR_AUTH_FAILED since version 3.12.7.", "Look at src/app.ts."],
}


@pytest.fixture(params=[pytest.param("fresh", marks=pytest.mark.full), "embedded"])
def garden(library: recollect.Library, request: pytest.FixtureRequest) -> recollect.Library:
    for name, texts in GARDEN.items():
        add(library, name, *texts)
    if request.param == "embedded":
        library.index()
    return library


def add(library: recollect.Library, name: str, *texts: str, title: str = "") -> None:
    messages = [
        {"id": f"{name}-{n}", "role": ("user", "assistant")[n % 2], "content": text}
        for n, text in enumerate(texts)
    ]
    library.add_conversation(name, title, messages=messages)


def search(library: recollect.Library, query: str, **options: Any) -> Page:
    return library.search(query, options=SearchOptions(now=NOW, **options))


def ids(page: Page) -> list[str]:
    return [hit.message_id for hit in page.hits]


# -- evidence ------------------------------------------------------------------


@pytest.mark.parametrize("query", ["zxqv", "zxqv blorptang", "what is a zxqv", "quagga"])
def test_words_that_no_message_mentions_find_nothing(garden: recollect.Library, query: str) -> None:
    page = search(garden, query)
    assert (ids(page), page.total) == ([], 0)
    assert page.missing and f"“{page.missing[0]}”" in page.note
    assert len(page.nearest) <= 3
    if page.mode == "both":
        assert all(hit.arms == ("vector",) for hit in page.nearest)
        assert len(page.nearest) == 3


TO_A_SEARCH = (
    "find the conversation where we talked about {}",
    "Can you show me all chats about {}?",
    "search for {}",
    "have we ever discussed {}?",
    "what did I say about {}",
    "do you remember {}?",
    "Was haben wir über {} gesprochen?",
    "Quand avons-nous parlé de {} ?",
    "¿Cuándo hablamos de {}?",
    "Quando abbiamo parlato di {}?",
    "Quando falamos sobre {}?",
    "Waar hebben we {} besproken?",
)


def test_what_people_say_to_a_search_is_no_evidence(library: recollect.Library) -> None:
    words = "find search show chats conversation talked discussed discuss say said remember"
    foreign = "gesprochen parlé hablamos parlato falamos besproken"
    add(library, "words", f"We had a talk: {words} {foreign}.", "I see.")
    add(library, "tomatoes", "Tomatoes need water.", "I see.")
    library.index()
    for question in TO_A_SEARCH:
        assert not search(library, question.format("zxqv")).hits, question
        page = search(library, question.format("tomatoes"))
        assert ids(page)[0] == "tomatoes-0", question


@pytest.mark.parametrize(
    ("question", "answer"),
    few(
        [
            (
                "Bitte fasse zusammen, was wir über Museen besprochen haben",
                "Die Museen sind schön.",
            ),
            ("Empfiehl mir ein Museum", "Das Museum am Hafen ist schön."),
            ("Résume ce que nous avons dit à propos de la voiture", "La voiture est en panne."),
            ("Recomiéndame un pueblo", "El pueblo de Frigiliana es blanco."),
            ("Riassumi quello che abbiamo detto sul formaggio", "Il formaggio è fresco."),
            ("O que dissemos sobre o bairro?", "O bairro de Cedofeita é animado."),
            ("Vat samen wat we over de tent besproken hebben", "De tent lekt."),
            ("帮我总结一下京都的红叶", "京都的红叶很美。"),
            ("味噌汁について話したことをまとめて", "昨日、味噌汁を作りました。"),
        ]
    ),
)
def test_the_form_of_a_question_is_not_its_topic(
    library: recollect.Library, question: str, answer: str
) -> None:
    add(library, "answer", answer, "👍")
    add(library, "other", "A quiet harbour.", "👍")
    library.index()
    page = search(library, question)
    assert (ids(page)[0], page.weak) == ("answer-0", False)
    assert page.missing == ()


def test_an_identifier_that_occurs_nowhere_is_named_as_it_was_typed(
    garden: recollect.Library,
) -> None:
    assert search(garden, "ERR_ZXQV.").missing == ("ERR_ZXQV",)
    assert set(search(garden, "src/zxqv.py blorptang").missing) == {"src/zxqv.py", "blorptang"}


@pytest.mark.parametrize(
    ("query", "has_nearest"),
    [('"zxqv of roses"', True), ("zxqv AND roses", True), ("zxqv NOT roses", False)],
)
def test_operators_that_nothing_satisfies_come_with_the_nearest(
    library: recollect.Library, query: str, has_nearest: bool
) -> None:
    for name, texts in GARDEN.items():
        add(library, name, *texts)
    library.index()
    page = library.search(query)
    assert (page.total, bool(page.nearest)) == (0, has_nearest)


def test_nothing_found_in_everything_comes_with_the_nearest(library: recollect.Library) -> None:
    for name, texts in GARDEN.items():
        add(library, name, *texts)
    library.index()
    answer = library.knowledge.search("zxqv")
    assert (answer["results"], answer["total_estimated"], answer["has_more"]) == ([], 0, False)
    assert answer["note"] == "Nothing mentions “zxqv”."
    assert 1 <= len(answer["nearest"]) <= 3
    assert {result["score_type"] for result in answer["nearest"]} == {"vector"}


def test_a_filter_that_leaves_no_true_hit_returns_none(garden: recollect.Library) -> None:
    for filter in (Filter(conversations=("films",)), Filter.of(after="2030-01-01")):
        page = garden.search("barrel", filter, SearchOptions(now=NOW))
        assert (ids(page), page.total) == ([], 0)


def test_other_words_with_the_same_meaning_are_found(library: recollect.Library) -> None:
    for name, texts in GARDEN.items():
        add(library, name, *texts)
    library.index()
    page = search(library, "movie")
    assert ids(page)[:1] == ["films-0"]
    assert page.hits[0].arms == ("vector",)


# -- identifiers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "first"),
    few(
        [
            ("ERR_AUTH_FAILED", "errors-0"),
            ("3.12.7", "errors-0"),
            ("src/app.ts", "errors-1"),
            ("why does login give ERR_AUTH_FAILED", "errors-0"),
        ]
    ),
)
def test_a_message_with_the_identifier_comes_first(
    garden: recollect.Library, query: str, first: str
) -> None:
    add(garden, "login", *(f"The login and the app fail, number {n}." for n in range(40)))
    assert ids(search(garden, query))[0] == first


@pytest.mark.parametrize(
    "query", few(["ERR_AUTH_TIMEOUT", "3.12.8", "src/auth/app.ts", "300-gram"])
)
def test_some_words_of_an_identifier_are_no_evidence(garden: recollect.Library, query: str) -> None:
    add(
        garden,
        "parts",
        "Auth failed: 3 of 12 apps, then 8 of 300.",
        "The timeout of src is 1 gram.",
    )
    page = search(garden, query)
    assert (page.hits, page.total, page.missing) == ((), 0, (query,))
    assert (page.mode == "both") == bool(page.nearest)


def test_a_word_typed_with_symbols_comes_first_with_them(library: recollect.Library) -> None:
    add(library, "words", "Retry the retry until retry works, and count the foo: foo, foo.")
    long = " with a long description of what happens next in the program"
    add(library, "code", "Decorate it with @retry(stop=3) and call foo()" + long)
    for query in ("@retry", "foo()"):
        assert ids(search(library, query))[0] == "code-0", query
    assert ids(search(library, "retry"))[0] == "words-0"


def test_an_identifier_in_a_title_comes_first_even_without_vectors(
    library: recollect.Library,
) -> None:
    for number in range(80):
        add(library, f"c{number}", f"JIRA ticket {number} mentions 48213 kittens.")
    library.index()
    add(library, "ticket", "Nothing to see here.", title="Notes on JIRA-48213")
    page = search(library, "JIRA-48213")
    assert page.hits[0].conversation_id == "ticket"


# -- keywords ------------------------------------------------------------------


def test_all_words_come_before_some_of_them(garden: recollect.Library) -> None:
    page = search(garden, "tomatoes neighbour")
    assert ids(page)[0] == "tomatoes-1"


@pytest.mark.parametrize("query", ["T-Rex", "t rex", "what did I say about the T-Rex?"])
def test_a_single_letter_is_no_evidence(library: recollect.Library, query: str) -> None:
    add(library, "dinosaurs", "The T-Rex was in the museum.", "A king is a rex in Latin.")
    add(library, "plans", "I can't come, I won't come, and I don't want to.")
    page = search(library, query, mode="text")
    assert (ids(page), page.total) == (["dinosaurs-0", "dinosaurs-1"], 2)
    assert page.hits[0].terms == ("t", "rex")
    assert ids(search(library, "t", mode="text")) == ["plans-0", "dinosaurs-0"]


def test_at_most_two_messages_of_a_conversation_come_before_others(
    garden: recollect.Library,
) -> None:
    conversations = [hit.conversation_id for hit in search(garden, "tomatoes").hits]
    assert conversations.count("tomatoes") == 4
    assert conversations.index("soup") <= 2


def test_while_typing_the_last_word_is_a_prefix(garden: recollect.Library) -> None:
    assert "films-0" not in ids(search(garden, "film fes", mode="text", correct=False))[1:]
    page = search(garden, "film fes", typing=True)
    assert ids(page)[0] == "films-0"
    assert "fes*" in page.hits[0].terms


def test_copies_are_folded_in_a_search_over_everything(library: recollect.Library) -> None:
    for number in range(3):
        add(library, f"c{number}", "The same lighthouse.")
    assert len(library.knowledge.search("lighthouse")["results"]) == 3
    answer = library.knowledge.search("lighthouse", fold=True)
    assert (len(answer["results"]), answer["total_estimated"]) == (1, 1)


# -- typing errors -------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("¿Cómo se llama nuestra perra?", "Adoptamos una perrita. Se llama Luna."),
        ("Wie heißt unser Kater?", "Wir haben ein Katzenkind. Es heißt Mohrle."),
    ],
)
def test_words_that_ask_for_a_name_find_the_answer_that_gives_it(
    library: recollect.Library, question: str, answer: str
) -> None:
    add(library, "answer", answer, "👍")
    add(library, "other", "A quiet harbour.", "👍")
    library.index()
    assert ids(search(library, question))[0] == "answer-0"


def test_a_typing_error_is_corrected_visibly_and_reversibly(garden: recollect.Library) -> None:
    page = search(garden, "tomatoez")
    assert page.corrections == {"tomatoez": "tomatoes"}
    assert "Searched for “tomatoes” instead of “tomatoez”." in page.note
    assert set(ids(page)) == {"soup-0", *(f"tomatoes-{n}" for n in range(4))}
    as_typed = search(garden, "tomatoez", correct=False)
    assert (ids(as_typed), as_typed.corrections) == ([], {})


def test_umlauts_may_be_written_with_an_e(library: recollect.Library) -> None:
    add(library, "heating", "Das Ausdehnungsgefäß und die Umwälzpumpe sind neu.")
    for typed in ("umwaelzpumpe", "Ausdehnungsgefaess"):
        page = search(library, typed)
        assert (ids(page), page.corrections) == (["heating-0"], {})


@pytest.mark.both_stores
def test_a_single_word_stands_for_its_forms_in_other_languages(library: recollect.Library) -> None:
    """It is not misspelled, so nothing is corrected."""
    add(library, "cat", "Die Katze schläft auf dem Stuhl.")
    add(library, "book", "Ha comprato una bicicletta, che è rossa, e un libro.")
    for typed, id_ in (("Katzen", "cat-0"), ("libri", "book-0")):
        page = search(library, typed)
        assert (ids(page), page.corrections, page.note) == ([id_], {}, "")


def test_a_correction_is_named_with_its_accents(library: recollect.Library) -> None:
    add(library, "flat", "Le propriétaire garde la caution.")
    page = search(library, "propietaire")
    assert page.note == "Searched for “propriétaire” instead of “propietaire”."


def test_a_search_of_all_kinds_corrects_words_only_to_what_its_filters_pass(
    library: recollect.Library,
) -> None:
    for number in range(4):
        text = {"id": "m", "role": "user", "content": "the telescope arrived"}
        library.add_conversation(f"a{number}", project="alpha", messages=[text])
    other = {"id": "m", "role": "user", "content": "the tent arrived"}
    library.add_conversation("b", project="beta", messages=[other])
    for project, corrections in (("alpha", {"telescpoe": "telescope"}), ("beta", {})):
        answer = library.knowledge.search(f"telescpoe arrived in:{project}")
        assert answer.get("corrections", {}) == corrections


def test_the_word_being_typed_is_corrected_if_no_word_begins_with_it(
    garden: recollect.Library,
) -> None:
    page = search(garden, "tomatoez", typing=True)
    assert page.corrections == {"tomatoez": "tomatoes"}
    assert set(ids(page)) == {"soup-0", *(f"tomatoes-{n}" for n in range(4))}
    assert search(garden, "tomat", typing=True).corrections == {}


@pytest.mark.parametrize("query", few(["festivel", "rian", "x" * 900]))
def test_rare_short_and_very_long_words_are_not_corrected(
    garden: recollect.Library, query: str
) -> None:
    assert search(garden, query).corrections == {}


# -- what a query is -----------------------------------------------------------


def test_punctuation_after_keywords_changes_nothing(garden: recollect.Library) -> None:
    garden.index()
    for query in ("tomatoes", "rain barrel"):
        plain = search(garden, query)
        for end in (".", ",", "!", " …", ":"):
            page = search(garden, query + end)
            assert (page.hits, page.total, page.matched) == (plain.hits, plain.total, plain.matched)


# -- the reranker --------------------------------------------------------------


@pytest.fixture
def dinners(library: recollect.Library, monkeypatch: pytest.MonkeyPatch) -> recollect.Library:
    monkeypatch.setenv("RECOLLECT_RERANK", "auto")
    for number in range(4):
        add(library, f"c{number}", f"We went to dinner at restaurant number {number}.")
    library.index()
    return library


def is_reranked(page: Page) -> bool:
    return any("rerank" in hit.parts for hit in page.hits)


QUESTION_ABOUT_DINNER = "where did we go to dinner"


def test_auto_reranks_questions_with_close_scores(dinners: recollect.Library) -> None:
    assert is_reranked(search(dinners, QUESTION_ABOUT_DINNER))
    assert not is_reranked(search(dinners, QUESTION_ABOUT_DINNER, rerank=False))


@pytest.mark.parametrize(
    ("query", "options"),
    few(
        [
            ("dinner restaurant", {}),
            (QUESTION_ABOUT_DINNER, {"typing": True}),
            (QUESTION_ABOUT_DINNER, {"mode": "text"}),
            ("In welchem restaurant waren wir?", {}),
        ]
    ),
)
def test_auto_reranks_only_complete_english_questions_by_words_and_meaning(
    dinners: recollect.Library, query: str, options: dict[str, Any]
) -> None:
    assert not is_reranked(search(dinners, query, **options))
    assert is_reranked(search(dinners, query, rerank=True, **options))


# -- synonyms ------------------------------------------------------------------


def test_synonyms_stand_in_for_a_word_that_no_message_mentions(garden: recollect.Library) -> None:
    add(garden, "cluster", "We moved the cluster to Kubernetes.", "And it works.")
    page = search(garden, "k8s", mode="text")
    assert (ids(page), page.total) == (["cluster-0"], 1)
    assert page.missing == ("k8s",)
    add(garden, "short", "The k8s cluster is down.", "Restart it.")
    assert ids(search(garden, "k8s", mode="text")) == ["short-0"]


def test_more_synonyms_come_from_a_file(
    garden: recollect.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(search(garden, "cistern", mode="text")) == []
    path = tmp_path / "synonyms.txt"
    path.write_text("# for the garden\ncistern, rain barrel\n", encoding="utf-8")
    monkeypatch.setenv("RECOLLECT_SYNONYMS", str(path))
    assert ids(search(garden, "cistern", mode="text")) == ["barrel-0"]
    monkeypatch.setenv("RECOLLECT_SYNONYMS", str(tmp_path / "missing.txt"))
    with pytest.raises(InvalidInput, match="synonyms"):
        search(garden, "cistern")


def test_the_possessive_s_is_not_a_keyword(garden: recollect.Library) -> None:
    add(garden, "ann", "It's Ann who has the roses.", "That's nice.")
    for query in ("Ann's roses", "Ann’s roses"):
        page = search(garden, query, mode="text")
        assert (page.hits[0].terms, ids(page)[0]) == (("ann", "roses"), "ann-0")


@pytest.mark.parametrize(
    ("kinds", "note"),
    few(
        [
            (("note",), "No note mentions “harbour”."),
            (("media",), "No media item mentions “harbour”."),
            (("character", "prompt"), "Nothing mentions “harbour”."),
        ]
    ),
)
def test_a_word_that_only_messages_have_is_in_no_item(
    library: recollect.Library, kinds: tuple[str, ...], note: str
) -> None:
    add(library, "c", "A quiet harbour.")
    library.knowledge.create("notes", {"title": "Plan", "content": "The dahlias need fertiliser."})
    library.index()
    page = library.search("harbour", Filter(kinds=kinds))
    assert (page.hits, page.note, page.missing) == ((), note, ("harbour",))
    sources = [{"note": "notes", "media": "media"}.get(kind, f"{kind}s") for kind in kinds]
    answer = library.knowledge.search("harbour", sources=sources)
    assert (answer["results"], answer["note"]) == ([], note)
    assert "note" not in library.knowledge.search("harbour")
    assert library.search("fertiliser", Filter(kinds=("note",))).note == ""


@pytest.mark.parametrize(
    "identifier", few(["ERR_AUTH_FAILED", "3.12.7", "src/app.ts", "OPS-8213", "QX-90"])
)
def test_an_identifier_is_found_after_each_key(garden: recollect.Library, identifier: str) -> None:
    add(garden, "ticket", "See the ticket.", "It is closed.", title="OPS-8213 and QX-90")
    conversation = "errors"
    if identifier in ("OPS-8213", "QX-90"):
        conversation = "ticket"
    for end in range(3, len(identifier) + 1):
        page = search(garden, identifier[:end], typing=True)
        assert page.hits[0].conversation_id == conversation, identifier[:end]
        assert page.note == ""


def test_words_in_a_title_satisfy_a_query(garden: recollect.Library) -> None:
    add(garden, "ticket", "See the log.", "It is closed.", title="OPS-8213 slow invoices")
    for query in ("OPS-8213", "slow log"):
        page = search(garden, query)
        assert (ids(page), page.matched) == (["ticket-0"], "all"), query
    assert search(garden, "slow tomatoes").matched == "any"


def test_a_request_finds_preferences_though_it_names_something_new(
    garden: recollect.Library,
) -> None:
    add(garden, "travel", "I prefer window seats and I hate early flights.", "Noted.")
    for request in ("Suggest a flight to Rome", "please recommend flights to Oslo"):
        page = search(garden, request)
        assert (ids(page)[0], page.weak) == ("travel-0", False), request
        assert "suggest" not in page.missing and "recommend" not in page.missing
    assert search(garden, "Which flight did Rita book to Rome?").weak


def test_keywords_find_only_messages_with_words_of_them(garden: recollect.Library) -> None:
    page = search(garden, "tomatoes")
    assert page.hits and all("text" in hit.arms for hit in page.hits)
    assert page.total == len(page.hits)


def test_quoted_text_in_a_question_comes_first(garden: recollect.Library) -> None:
    add(garden, "talk", "We paid a lot: the new barrel is for rain, and we said so.")
    page = search(garden, 'what did we say about the new "rain barrel" and what we paid')
    assert ids(page)[0] == "barrel-0"


def test_quotes_turn_a_correction_off(garden: recollect.Library) -> None:
    assert search(garden, "tomatoez water").corrections == {"tomatoez": "tomatoes"}
    page = search(garden, '"tomatoez" water')
    assert page.corrections == {}


def test_a_knowledge_search_that_was_stopped_is_marked_as_partial(
    garden: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "partial" not in garden.knowledge.search("tomatoes")
    no_time(monkeypatch)
    answer = garden.knowledge.search("tomatoes", mode="text")
    assert answer["partial"] is True
    assert "was stopped" in answer["note"]


def test_hits_that_are_probably_unrelated_are_marked_as_weak(garden: recollect.Library) -> None:
    page = search(garden, "which broker did we choose for the zxqvy drone fleet to fly tomatoes?")
    assert page.hits and page.weak
    assert page.note.endswith("The results are probably unrelated.")
    everything = garden.knowledge.search(
        "which broker did we choose for the zxqvy drone fleet to fly tomatoes?"
    )
    assert everything["results"] and everything["weak"]
    assert everything["note"].endswith("The results are probably unrelated.")
    page = search(garden, "who waters the tomatoes while I am away?")
    assert page.hits and not page.weak


def test_a_name_that_no_message_mentions_makes_hits_weak(garden: recollect.Library) -> None:
    page = search(garden, "who waters the tomatoes of Zoroaster on the roof terrace?")
    assert page.hits and page.weak
    assert "“zoroaster”" in page.note
    page = search(garden, "Does the film festival start in October?")
    assert page.hits and not page.weak


def test_german_compounds_are_found_by_their_parts(library: recollect.Library) -> None:
    add(library, "map", "Welche Karte nehmen wir für den Hintergrund?", "OpenFreeMap ist frei.")
    add(library, "mail", "Die Bestätigungen kommen nicht an.", "Das Konto ist gesperrt.")
    library.index()
    page = search(library, "Woher kommen die Hintergrundkarten?", mode="text")
    assert ids(page)[0] == "map-0"
    assert page.missing == ()
    add(library, "paris", "Où est la gare ?")
    assert not search(library, "vorgestern", mode="text").hits
