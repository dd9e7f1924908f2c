"""Whether the hits of a question have anything to do with it.

A question shares some words with many messages, also one about something that the library does not
have: "Which broker did we pick for the drone fleet?" If no conversation has a good part of its
words, and nothing is close in meaning, the hits are probably unrelated. They are returned, because
an answer may have other words, but marked as weak.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.detection import language_of
from recollect.language.intent import QUESTION
from recollect.language.languages.english import ENGLISH
from recollect.search.rank import Question, ScoredCandidate, term_shares

UNRELATED = "The results are probably unrelated."
# Of questions with an answer, one in a hundred has less; see bench/README.md. In other languages
# than English, fewer inflected forms are recognized. Without spaces, many pairs of characters span
# two words and occur nowhere.
_MIN_SHARE = 0.3
_MIN_SHARE_IN_OTHER_LANGUAGES = 0.25
_MIN_SHARE_WITHOUT_SPACES = 0.1


def is_weak(
    question: Question, ranking: Sequence[ScoredCandidate], noise_floor: float | None
) -> bool:
    """Whether the hits are probably unrelated.

    `noise_floor` is the cosine that unrelated messages rarely reach; None if the cosines of this
    query mean nothing. The model knows English best, so they count only in English.
    """
    if question.intent != QUESTION or not question.terms or not ranking:
        return False
    if any(question.terms[number].exact for scored in ranking for number in scored.terms):
        return False
    share = _best_share(question, ranking)
    language = language_of(question.text)
    if language.unspaced:
        return share < _MIN_SHARE_WITHOUT_SPACES
    if language is not ENGLISH:
        return share < _MIN_SHARE_IN_OTHER_LANGUAGES
    nearest = max(scored.cosine or 0.0 for scored in ranking)
    is_near = noise_floor is not None and nearest > noise_floor
    return share < _MIN_SHARE and not is_near


def _best_share(question: Question, ranking: Sequence[ScoredCandidate]) -> float:
    """The largest share of the question, by weight, that one conversation contains."""
    shares = term_shares(question.terms)
    numbers: dict[str, set[int]] = {}
    for scored in ranking:
        numbers.setdefault(scored.candidate.document, set()).update(scored.all_terms)
    return max(sum(shares[number] for number in each) for each in numbers.values())
