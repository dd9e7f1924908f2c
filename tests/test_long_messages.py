"""Search by meaning finds what is in the middle of long messages of the assistant."""

from __future__ import annotations

import pytest

import recollect
from recollect import SearchOptions

CHAIN = (
    "To clean a bicycle chain, brush off the dirt, wipe it with a cloth and warm water, let it dry "
    "and put a drop of oil on every link. Turn the pedals backwards and wipe off the rest. "
)
TYRES = (
    "Check the tyres before every ride. Low pressure makes the wheel slow and soft, high pressure "
    "makes it slip on wet roads. Replace the rubber when the pattern is gone. "
)
TRAVEL = (
    "The night train leaves Vienna in the evening and arrives in Venice for breakfast. Reserve a "
    "seat early, bring a book, and take the boat from the station to the hotel. "
)
TAXES = (
    "Keep invoices for seven years. The tax office accepts copies, and the deadline for the annual "
    "return can be extended by a written request before the end of July. "
)
BREAD = (
    "Mix flour, salt, yeast and water, let the dough rest in the kitchen overnight, fold it twice "
    "and bake the bread in a hot oven until the crust is brown. "
)
_TEXTS = [
    "I love my bicycle.",
    "My new bicycle is red.",
    "The bicycle was a present from my sister.",
    "I paid too much for that bicycle.",
    "We put the bicycle next to the window.",
    "I want to sell the old bicycle.",
    "My brother plays the piano on Sundays.",
    "The dentist moved my appointment to March.",
    "I finished the report about the museum.",
    "Our cat sleeps on the printer.",
    "We planted roses in the garden.",
    "I forgot my umbrella in the office.",
]
REMARKS = {f"remark{number}": text for number, text in enumerate(_TEXTS)}
QUESTION = "How do I clean a bicycle chain?"


def add(library: recollect.Library, **contents: str) -> None:
    """A conversation for each message: by the user if it is short, otherwise by the assistant."""
    for name, content in contents.items():
        role = "user"
        if len(content) > 200:
            role = "assistant"
        library.add_conversation(name, messages=[{"id": name, "role": role, "content": content}])


def nearest(library: recollect.Library, question: str) -> list[str]:
    library.index()
    page = library.search(question, options=SearchOptions(mode="vector"))
    return [hit.message_id for hit in page.hits]


@pytest.mark.both_stores
def test_a_long_answer_ranks_before_short_remarks_of_the_user(library: recollect.Library) -> None:
    add(library, answer=3 * TYRES + 3 * TRAVEL + 2 * CHAIN + 3 * BREAD, **REMARKS)
    assert nearest(library, QUESTION)[0] == "answer"


@pytest.mark.both_stores
def test_a_question_about_the_user_prefers_messages_of_the_user(library: recollect.Library) -> None:
    add(library, answer=3 * TYRES + 3 * TRAVEL + 2 * CHAIN + 3 * BREAD, **REMARKS)
    assert nearest(library, "When did I clean the bicycle chain?")[0].startswith("remark")


def test_a_message_about_the_topic_ranks_before_a_longer_one_that_mentions_everything(
    library: recollect.Library,
) -> None:
    everything = 9 * (TRAVEL + TAXES + TYRES + BREAD + "Clean the bicycle chain. ")
    add(library, everything=everything, topic=TYRES + 2 * CHAIN, other=5 * TAXES, **REMARKS)
    assert nearest(library, QUESTION)[0] == "topic"
