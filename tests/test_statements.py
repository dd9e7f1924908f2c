"""Whoever types a sentence of a message, or a part of it, finds that message first."""

from __future__ import annotations

import pytest

import recollect
from recollect import SearchOptions

SENTENCE = "I have been trying to keep the lemon tree alive over the winter."
# They have more of the words, are by the user, and are newer.
RIVALS = (
    "I keep trying: the winter is long for a lemon. My lemon tree is alive! Trying winter cover.",
    "Over the winter the tree has been alive. I keep a lemon tree, I have been trying.",
    "Keep trying. A lemon tree alive over winter is what I have been trying to have.",
)


@pytest.fixture(params=["text", "both"])
def mode(request: pytest.FixtureRequest, library: recollect.Library) -> str:
    add(library, "answer", f"Sure! You said: {SENTENCE} Here is what helps. " + "Water it. " * 80)
    for number, text in enumerate(RIVALS):
        library.add_conversation(
            f"rival {number}", messages=[{"id": f"r{number}", "role": "user", "content": text}]
        )
    if request.param == "both":
        library.index()
    return str(request.param)


def add(library: recollect.Library, name: str, text: str, title: str = "") -> None:
    messages = [
        {"id": f"{name} 0", "role": "user", "content": "Hello."},
        {"id": f"{name} 1", "role": "assistant", "content": text},
    ]
    library.add_conversation(name, title, messages=messages)


def first(library: recollect.Library, query: str, **options: object) -> str:
    page = library.search(query, options=SearchOptions(**options))  # type: ignore[arg-type]
    return page.hits[0].message_id


@pytest.mark.both_stores
def test_the_message_that_says_it_comes_first(library: recollect.Library, mode: str) -> None:
    parts = (
        SENTENCE,
        "I have been trying to keep the lemon tree",
        "been trying to keep the",
        "the lemon tree alive over",
        "TRYING TO KEEP, the lemon tree",
    )
    for query in parts:
        assert first(library, query, mode=mode) == "answer 1", query
        assert first(library, query, mode=mode, group="conversation") == "answer 1", query


@pytest.mark.parametrize("copies", [4, 60])
def test_a_pasted_message_finds_itself_although_it_ends_with_a_question(
    library: recollect.Library, copies: int
) -> None:
    """Whether all of its words are searched for, or it is too long for that."""
    body = " ".join(
        f"Prune branch {number} of the lemon tree in spring." for number in range(copies)
    )
    texts = [f"{start} {body} Shall I go on?" for start in ("You are welcome!", "I see.", "Fine.")]
    for number, text in enumerate(texts):
        add(library, f"copy {number}", text)
    for number, text in enumerate(texts):
        assert first(library, text) == f"copy {number} 1"


def test_a_question_finds_its_answer_before_the_same_question(library: recollect.Library) -> None:
    add(library, "asked", "What is the name of my dog?")
    library.add_conversation(
        "told", messages=[{"id": "told", "role": "user", "content": "My dog's name is Biscuit."}]
    )
    assert first(library, "What is the name of my dog?") == "told"


def test_by_meaning_alone_the_words_do_not_count(library: recollect.Library, mode: str) -> None:
    library.index()
    hits = library.search(SENTENCE, options=SearchOptions(mode="vector")).hits
    assert not any("phrase" in hit.parts for hit in hits)
