"""Which sentences of a conversation are worth remembering.

A sentence scores for words that are rare in this conversation, and for what people ask for later:
names, numbers, dates, quotes, statements about themselves, outcomes. Pleasantries score nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from recollect.memory.observe.cues import DECISION, LEARNING, PREFERENCE, SECURITY
from recollect.memory.observe.sentence_words import Cue, word_set, words

# A word with a capital inside a sentence, or an abbreviation. The conditions on what stands before
# the capital follow it, because searching for a capital is much faster.
_NAME = re.compile(
    r"[A-Z](?<!\w.)(?:(?<![.!?:\"“]\s.)(?<!^.)(?!(?<=I)(?:\b|')|(?<=O)K\b|(?<=A)I\b)"
    r"[\w'’-]{0,60}[a-z0-9][\w'’-]*+|[A-Z]{1,5}\d*\b)"
)
_NUMBER = re.compile(r"\d\d*(?:[.,:/-]\d+)*")  # a single digit is searched for faster than \d+
_COUNTS = word_set(
    "two three four five six seven eight nine ten twelve dozen twice half third hundred thousand"
)
_TIMES = word_set(
    "yesterday today tonight tomorrow ago recently monday tuesday wednesday thursday friday"
    " saturday sunday january"
    " february march april june july august september october november december birthday"
    " anniversary weekend month"
    " year week daily weekly summer winter spring heute gestern morgen hier demain ayer hoy mañana"
)
_QUOTED = re.compile(r"[\"“«「『`][^\"”»」』`]{2,80}[\"”»」』`]|(?<!\w)'[A-Z][^']{2,60}'")
# Where a quoted text may begin. All signs are in one set, because that is searched for faster.
_QUOTES = re.compile(r"[\"“«「『`'](?:(?<!')|(?<!\w')[A-Z])")
_OWN = Cue(
    (
        "i my our mine we ich mein meine meinen mon ma mes mi mis mio mia",
        r"\b(?:i(?:'ve|'m| am| have| had| was| just| recently| also| already| currently| got| went|"
        r" bought| started"
        r"| finished"
        r"| attended| moved| work| live| use| used| ordered| visited| watched| read|"
        r" met| took| made|"
        r" spent| lost| found"
        r"| signed"
        r"| received| tried| own| play| teach| lead| plan| need)|we(?:'ve|'re| are|"
        r" have| had| went|"
        r" got| bought| use)"
        r"|my|our|mine"
        r"|ich|mein\w*|mon|ma|mes|mi|mis|mio|mia)\b|我|私|僕|俺|나는|내|제",
    ),
    stems="mein",
)
_ASIDE = Cue(
    (
        "way btw speaking actually realized remembered fyi context also remember know fact",
        r"\b(?:by the way|btw|speaking of|actually|i just (?:realized|remembered)|fyi"
        r"|for context|also,"
        r"|remember(?: that)?"
        r"|just so you know|in fact)\b",
    ),
)
_EMPTY = re.compile(
    r"(?:(?:thanks?|thank you|great|awesome|perfect|cool|wow|nice|congratulations|congrats|you'?re"
    r" (?:very )?welcome"
    r"|absolutely|certainly|of course|sure(?:ly)?|good luck|enjoy|have (?:a )?(?:fun|great"
    r"|wonderful|nice)|happy \w+ing"
    r"|hello|hi|hey|welcome)\b.{0,60}[!.,]?$"
    r"|good luck\b.*|(?:that|this|it)(?:'s| is| sounds?)(?: really| so| such)?(?: an?)? (?:great"
    r"|fantastic|wonderful"
    r"|awesome|good"
    r"|amazing|excellent|lovely|perfect|helpful|exciting|fascinating|interesting)\b.{0,50}$"
    r"|i(?:'m| am|'d be)(?: so| really| very)? (?:glad|happy|excited|thrilled|delighted|sorry)"
    r" (?:to (?:hear|help)"
    r"|that|you|i"
    r" could|for)\b.*"
    r"|(?:please )?(?:let me know|feel free|don'?t hesitate|i hope|remember,? (?:to|it'?s|the)"
    r"|would you like"
    r"|do you (?:want"
    r"|have any)|if you (?:have|need|want|'d like|would like))\b.*"
    r"|(?:here(?:'s| is| are)|below (?:is|are)|these are|the following (?:is|are)|some (?:of the"
    r" )?\w+ (?:options"
    r"|tips|ideas))"
    r" .{0,120}[:!.]$"
    r"|as an? (?:\w+ )?(?:ai|language model)\b.*|let me\b.*|now (?:let me|i'?ll)\b.*|i'?ll (?:now"
    r"|start|check"
    r"|look)\b.{0,80})$",
    re.IGNORECASE | re.DOTALL,
)
_STEP = re.compile(
    r"(?:step \d+|\d+[.)]|now|next|first|then|let me|i'll|i will|i need to|i should|looking at)\b",
    re.IGNORECASE,
)
_OUTCOME = word_set(
    "fixed resolved works working done complete completed success successful successfully pass"
    " passed passing added"
    " created implemented updated removed changed replaced renamed moved configured installed"
    " deployed committed"
    " pushed summary conclusion overall therefore answer result solution fix issue problem best"
    " recommend recommended"
    " should"
)


class _Weights(dict[str, float]):
    def __missing__(self, term: str) -> float:
        return 1.0


class Salience:
    """Scores the sentences of one conversation."""

    def __init__(self, parts: Iterable[Iterable[str]]) -> None:
        """`parts` are the sentences of each part of the conversation.

        A word that occurs in few parts is significant.
        """
        parts_terms = [_distinct_terms(sentences) for sentences in parts]
        part_count = len(parts_terms)
        counts = Counter(chain.from_iterable(parts_terms))
        maximum = math.log(1 + max(2, part_count))
        weights = {
            count: 0.3 + 0.7 * math.log(1 + part_count / count) / maximum
            for count in set(counts.values())
        }
        self._weights = _Weights(
            zip(counts, map(weights.__getitem__, counts.values()), strict=True)
        )
        self._person_scores: dict[str, float] = {}

    def total(self, terms: Iterable[str]) -> float:
        """The sum of the weights: from 0.3 for a word in every part of a conversation to 1."""
        return math.fsum(map(self._weights.__getitem__, terms))

    def of_words(self, sentence: str) -> float:
        distinct = words(sentence).distinct
        if not distinct:
            return 0.0
        norm: float = (len(distinct) + 4) ** 0.5
        return self.total(distinct) / norm

    def of_person(self, sentence: str, *, question: bool) -> float:
        """The score of a person's sentence: highest for statements about themselves."""
        if is_empty(sentence):
            return 0.0
        score = self._person_scores.get(sentence)
        if score is None:
            score = self.of_words(sentence) + score_details(sentence)
            score += 1.2 * bool(_OWN.search(sentence)) + 0.8 * bool(_ASIDE.search(sentence))
            for cue in (PREFERENCE, DECISION, SECURITY):
                score += 0.8 * bool(cue.search(sentence))
            self._person_scores[sentence] = score
        return score - 1.5 * question

    def of_answer(self, sentence: str, *, question: bool, last: bool = False) -> float:
        """The score of a model's sentence: conclusions and names before explanations."""
        if question or is_empty(sentence):
            return 0.0
        score = self.of_words(sentence) + score_details(sentence)
        score += 0.9 * bool(LEARNING.search(sentence)) + 0.5 * bool(SECURITY.search(sentence))
        score += 0.7 * bool(words(sentence).all & _OUTCOME) + 0.5 * last
        return score - 1.0 * bool(_STEP.match(sentence)) - 0.8 * (len(sentence) > 320)


def _distinct_terms(sentences: Iterable[str]) -> frozenset[str]:
    terms = [words(sentence).distinct for sentence in sentences]
    if len(terms) == 1:
        return terms[0]
    return frozenset().union(*terms)


@lru_cache(maxsize=4_096)
def score_details(sentence: str) -> float:
    """Names, numbers, times and quotes: what people ask for later."""
    all_words = words(sentence).all
    numbers = len(_NUMBER.findall(sentence)) + len(all_words & _COUNTS)
    quotes = 0
    if _QUOTES.search(sentence):
        quotes = len(_QUOTED.findall(sentence))
    return (
        0.35 * min(len(_NAME.findall(sentence)), 4)
        + 0.5 * min(numbers, 3)
        + 0.5 * min(len(all_words & _TIMES), 2)
        + 0.5 * min(quotes, 2)
    )


def is_about_self(sentence: str) -> bool:
    """Whether people speak about themselves."""
    return _OWN.search(sentence) is not None


@lru_cache(maxsize=4_096)
def is_empty(sentence: str) -> bool:
    """Whether a sentence says nothing worth remembering."""
    return not words(sentence).terms or _EMPTY.match(sentence) is not None
