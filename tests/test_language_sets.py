"""Questions in nine languages find the right message, with vectors."""

from __future__ import annotations

from pathlib import Path

import pytest
from selection import few

import recollect
from bench.languages import FOLDER, TestSet, share_first, share_in_five
from recollect.language.detection import language_of
from recollect.language.queries.intent import QUESTION, classify

PATHS = sorted(FOLDER.glob("*.json"))
QUICK = ("de", "fr", "ja", "zh")
"""Languages of each kind, which `make test` searches in."""


@pytest.mark.parametrize(
    "path", few([path for path in PATHS if path.stem in QUICK]), ids=lambda path: path.stem
)
def test_the_right_message_is_among_the_first_hits(library: recollect.Library, path: Path) -> None:
    check_ranks(library, path)


@pytest.mark.full
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_right_message_is_among_the_first_hits_on_both_stores(
    library: recollect.Library, path: Path
) -> None:
    check_ranks(library, path)


def check_ranks(library: recollect.Library, path: Path) -> None:
    # When this was written, every answer was in the first five, and at least 81 percent were first.
    questions = TestSet(path)
    questions.fill(library)
    ranks = questions.ranks(library)
    assert len(ranks) >= 10
    assert share_in_five(ranks) >= 0.9, ranks
    assert share_first(ranks) >= 0.75, ranks


def test_most_hits_have_a_word_of_the_question(library: recollect.Library) -> None:
    questions = TestSet(FOLDER / "de.json")
    questions.fill(library)
    hits = [hit for text in questions.questions for hit in library.search(text).hits]
    without_words = [hit for hit in hits if not hit.terms]
    assert len(without_words) < len(hits) / 3  # the built-in model knows no German


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_language_of_every_question_is_recognized(path: Path) -> None:
    texts = TestSet(path).questions
    assert {language_of(text).code for text in texts} == {path.stem}
    without_marks = [text.strip("¿?？ ") for text in texts]
    assert {classify(text) for text in without_marks} == {QUESTION}
