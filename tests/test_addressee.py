"""Whom a question is for, and what the user told the assistant before."""

from __future__ import annotations

import pytest

import recollect
from recollect import Filter, Page, SearchOptions
from recollect.language.detection import language_of
from recollect.language.languages import ALL
from recollect.language.queries.intent import (
    is_about_assistant,
    is_about_user,
    is_to_assistant,
)

STANDING_INSTRUCTIONS = {
    "en": "Always include status codes when I ask about errors.",
    "de": "Verwende immer metrische Einheiten.",
    "fr": "Utilise toujours des unités métriques.",
    "es": "Usa siempre unidades métricas.",
    "it": "Usa sempre unità metriche.",
    "pt": "Use sempre unidades métricas.",
    "nl": "Gebruik altijd metrische eenheden.",
    "zh": "以后请用公制单位。",
    "ja": "今後はメートル法を使ってください。",
    "ko": "앞으로 미터법을 사용해 주세요.",
}


def add(library: recollect.Library, name: str, *texts: str) -> None:
    messages = [
        {"id": f"{name}-{n}", "role": ("user", "assistant")[n % 2], "content": text}
        for n, text in enumerate(texts)
    ]
    library.add_conversation(name, "", messages=messages)


def search(library: recollect.Library, query: str, mode: str = "both") -> Page:
    return library.search(query, options=SearchOptions(mode=mode))


# -- whom a question is for ----------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        "Which hotel did I book?",
        "How many cameras do I have?",
        "Where did Rachel move?",
        "What is Anna's address?",
        "Can you tell me where I parked the car?",
        "Could you please list the books that I mentioned?",
    ],
)
def test_questions_about_the_users_life_are_about_the_user(question: str) -> None:
    assert is_about_user(question)
    assert not is_to_assistant(question)


@pytest.mark.parametrize(
    "question",
    [
        "How do I reset the router?",
        "Should I use butter or oil?",
        "I am going to Rome in May. Any tips?",
        "What are some good books about whales?",
        "What's the best way to clean a grill?",
        "How does yeast work?",
        "Is it safe to eat raw eggs?",
        "Can you explain how yeast works?",
        "Can you show me how to use my camera?",
        "Could you tell me how I can reset my router?",
        "What snacks do you recommend for me?",
        "What would you suggest for my garden?",
    ],
)
def test_requests_and_general_questions_are_for_the_assistant(question: str) -> None:
    assert is_to_assistant(question)
    assert not is_about_user(question)


@pytest.mark.parametrize(
    "question",
    [
        "Which hotel did you recommend?",
        "Remind me of the name of that restaurant",
        "Can you remind me of the name of that restaurant?",
        "Can you tell me which hotel you recommended?",
        "What have you told me about yeast?",
    ],
)
def test_questions_about_earlier_replies_are_about_the_assistant(question: str) -> None:
    assert is_about_assistant(question)
    assert not is_about_user(question)
    assert not is_to_assistant(question)


@pytest.mark.parametrize(
    "question",
    [
        "What did I say about Rome?",
        "What did I write about the castle in Rome?",
    ],
)
def test_the_users_messages_come_first_but_not_without_a_word_of_the_question(
    library: recollect.Library, question: str
) -> None:
    add(library, "own", "Rome was too hot for me in August.", "I see.")
    add(library, "reply", "Okay then.", "Rome has many churches, and the Forum is worth a visit.")
    add(library, "similar", "We stayed in Italy for a week, near the Vatican.", "Nice.")
    add(library, "cities", "I visited Naples and Florence on the way.", "Nice.")
    add(library, "other", "I bought a new kettle.", "Congratulations.")
    library.index()
    hits = search(library, question).hits
    first_of_others = next(hit for hit in hits if hit.conversation_id != "own")
    assert (hits[0].message_id, first_of_others.message_id) == ("own-0", "reply-1")
    assert len([hit for hit in hits if hit.role == "user"]) > 1
    assert [hit.message_id for hit in hits if "person" in hit.parts] == ["own-0"]


@pytest.mark.parametrize("mode", ["both", "vector"])
def test_the_users_messages_come_first_if_no_message_has_a_word_of_the_question(
    library: recollect.Library, mode: str
) -> None:
    add(library, "car", "My car broke down on the motorway.", "The car broke down on the motorway.")
    library.index()
    question = "Which automobile failed on the highway?"
    hits = search(library, question, mode).hits
    assert hits[0].message_id == "car-0"
    assert hits[0].parts["person"] > 0


# -- what the user told the assistant ------------------------------------------


def test_a_request_finds_what_the_user_likes(library: recollect.Library) -> None:
    add(library, "films", "I love quiet films without violence.", "Noted.")
    add(library, "loud", "Films with violence are long.", "They can be.")
    add(library, "shop", "The shop rents films.", "It does.")
    library.index()
    hit = search(library, "Can you recommend some films?").hits[0]
    assert hit.message_id == "films-0"
    assert hit.parts["preference"] > 0
    assert hit.parts["liking"] > 0


def test_a_general_question_finds_standing_instructions_about_its_topic(
    library: recollect.Library,
) -> None:
    add(library, "rule", "Always name the kind of flour when I ask about baking.", "I will.")
    add(library, "other", "Always use metric units when I ask about distances.", "I will.")
    add(library, "dough", "The dough for the bread rests overnight.", "A good plan.")
    add(library, "oven", "Our oven for bread and cake is new.", "Congratulations.")
    library.index()
    question = "How do I bake bread?"
    hits = {hit.message_id: hit for hit in search(library, question).hits}
    assert next(iter(hits)) == "rule-0"
    assert hits["rule-0"].parts["instruction"] > 0
    assert "instruction" not in hits["dough-0"].parts


@pytest.mark.both_stores
def test_preferences_are_found_among_many_messages_about_the_topic(
    library: recollect.Library,
) -> None:
    add(library, "bread", *(f"I bake bread number {number}." for number in range(400)))
    add(library, "taste", "I never buy the kind of bread that comes in slices.", "Noted.")
    question, by_words = "How do I bake bread?", SearchOptions(mode="text")
    page = library.search(question, options=by_words)
    assert "taste-0" in [hit.message_id for hit in page.hits]
    page = library.search(question, Filter.of(roles="assistant"), by_words)
    assert {hit.role for hit in page.hits} == {"assistant"}


@pytest.mark.parametrize(("code", "text"), STANDING_INSTRUCTIONS.items())
def test_a_standing_instruction_is_recognized_in_every_language(code: str, text: str) -> None:
    (language,) = (language for language in ALL if language.code == code)
    assert language.has("standing_instructions", text)
    assert language.has("standing_instructions", f"OK.\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        "Never mind, it works.",
        "Always wanted to see Rome.",
        "The bakery is always open.",
        "Das Brot ist immer noch warm.",
        "Ich habe immer Brot gekauft.",
        "J'ai toujours aimé le pain.",
    ],
)
def test_other_sentences_with_the_same_words_are_no_instructions(text: str) -> None:
    assert not language_of(text).has("standing_instructions", text)
