"""The weights of the features of a score; see `search.rank`.

The weights of questions were fitted on questions with known answers, validated on the half of the
questions they were not fitted on, and rounded; `bench/README.md` has the figures. The weights of
keywords follow from rules: all words before some of them, adjacent words before scattered ones,
words as typed before other forms, words before meaning, and dates only between equals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION

# Comments give the change in any@5 by message (LoCoMo, LongMemEval) when a feature is left out
# and the others are fitted again. Features without a figure were kept because they helped on
# questions they were not fitted on.
QUESTION_WEIGHTS: Mapping[str, float] = {
    "exact": 20.0,
    "phrase": 20.0,  # only statements have one: what says just that comes first
    "words": 3.0,
    "close": 2.0,
    "meaning": 2.5,  # -.017, -.004
    # Chats with an assistant wander from topic to topic, dialogues between people less so.
    "topic": 0.5,
    "reply": 2.0,
    "whole": 1.5,
    "side": 2.0,
    "person": 3.0,  # +.004, -.043
    "speaker": 3.0,  # -.018, +.009
    "recent": 1.5,  # without it -.030 on LongMemEval, which asks mostly about the last weeks
    "time": 4.0,  # +.003, -.030
    "later": -3.0,  # as much as `person`
    "title": 1.0,
    "question": -0.8,
    "opening": 1.0,
    "past": 0.5,
    "answer": 0.5,
    "preference": 3.0,
    # Not fitted: half or twice as much changes any@5 of BEAM by at most .03 (`bench.public_sets`).
    "liking": 1.5,
    "instruction": 4.0,
    # The reranker's judgement, in standard deviations; only if it is asked (`search.rerank`).
    "rerank": 0.8,
}
_ONLY_IN_CHATS = ("recent", "opening", "liking", "instruction")
DIALOGUE_WEIGHTS: Mapping[str, float] = {
    **{name: w for name, w in QUESTION_WEIGHTS.items() if name not in _ONLY_IN_CHATS},
    "topic": 1.5,
    "answer": 1.0,
    "first_person": 3.0,
    "around": 1.5,
    "context": 2.0,
    "length": 1.0,
}
"""The weights of questions for the messages of dialogues between people."""
# Features that only some queries have, and a share that is never near 1.
_OPTIONAL = (
    "exact",
    "time",
    "speaker",
    "rerank",
    "first_person",
    "preference",
    "liking",
    "instruction",
)
_OPTIONAL_IN_QUESTIONS = (*_OPTIONAL, "phrase")


def _perfect_score(
    weights: Mapping[str, float], optional: Sequence[str] = _OPTIONAL_IN_QUESTIONS
) -> float:
    """The score of a perfect hit."""
    return sum(weight for name, weight in weights.items() if weight > 0 and name not in optional)


def _weights_by_meaning() -> dict[str, float]:
    """Meaning stands in for the words of a message, and topic for those of its conversation.

    The sum stays the same, so that chats and dialogues in one library remain comparable.
    """
    weights = {n: w for n, w in QUESTION_WEIGHTS.items() if n not in _WORD_FEATURES}
    before = _perfect_score(weights)
    weights["meaning"] += QUESTION_WEIGHTS["words"] + QUESTION_WEIGHTS["close"]
    weights["topic"] += QUESTION_WEIGHTS["whole"] + QUESTION_WEIGHTS["side"]
    share = before / _perfect_score(weights)
    scaled = {name: share * weight for name, weight in weights.items()}
    return {**scaled, "rerank": QUESTION_WEIGHTS["rerank"]}


_WORD_FEATURES = ("phrase", "words", "close", "reply", "whole", "side", "title")
MEANING_WEIGHTS: Mapping[str, float] = _weights_by_meaning()
"""The weights of questions by meaning alone for chats with an assistant.

With the usual weights, who wrote a message and when would outweigh its meaning.
"""
KEYWORD_WEIGHTS: Mapping[str, float] = {
    "exact": 20.0,
    "complete": 6.0,
    "covered": 6.0,
    "phrase": 6.0,
    "adjacent": 3.0,
    "typed": 2.0,
    "words": 2.0,
    "close": 1.0,
    "title": 4.0,
    "meaning": 1.0,
    "time": 4.0,
    "recent": 0.01,
    "rerank": 0.8,
}
DIALOGUE = "dialogue"
BY_MEANING = "meaning"
WEIGHTS = {
    QUESTION: QUESTION_WEIGHTS,
    DIALOGUE: DIALOGUE_WEIGHTS,
    BY_MEANING: MEANING_WEIGHTS,
    KEYWORDS: KEYWORD_WEIGHTS,
    IDENTIFIER: KEYWORD_WEIGHTS,
}
PERFECT_SCORES = {
    QUESTION: max(_perfect_score(QUESTION_WEIGHTS), _perfect_score(DIALOGUE_WEIGHTS)),
    KEYWORDS: _perfect_score(KEYWORD_WEIGHTS, _OPTIONAL),
    IDENTIFIER: _perfect_score(KEYWORD_WEIGHTS, _OPTIONAL),
}
