"""Which sentences of a conversation are worth remembering.

A sentence counts for its rare words (rare in this conversation: what is said
in every exchange tells none apart), and for what people ask for later: names,
numbers, dates, quotes, what somebody says of themselves, how something ended.
Pleasantries count against it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from recollect.memory.observe.kinds import DECISION, LEARNING, PREFERENCE, SECURITY
from recollect.memory.observe.words import Cue, word_set, words

_NAME = re.compile(
    r"(?<![.!?:\"“]\s)(?<!^)\b(?!I\b|I'|OK\b|AI\b)[A-Z][\w'’-]*[a-z0-9][\w'’-]*|\b[A-Z]{2,6}\d*\b"
)
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_COUNTS = word_set(
    "two three four five six seven eight nine ten twelve dozen twice half third hundred thousand"
)
_TIMES = word_set(
    "yesterday today tonight tomorrow ago recently monday tuesday wednesday thursday friday saturday sunday january"
    " february march april june july august september october november december birthday anniversary weekend month"
    " year week daily weekly summer winter spring heute gestern morgen hier demain ayer hoy mañana"
)
_QUOTED = re.compile(r"[\"“«「『`][^\"”»」』`]{2,80}[\"”»」』`]|(?<!\w)'[A-Z][^']{2,60}'")
_QUOTES = re.compile("[\"“«「『`']")
_OWN = Cue(
    "i my our mine we ich mein meine meinen mon ma mes mi mis mio mia",
    r"\b(?:i(?:'ve|'m| am| have| had| was| just| recently| also| already| currently| got| went| bought| started"
    r"| finished"
    r"| attended| moved| work| live| use| used| ordered| visited| watched| read| met| took| made| spent| lost| found"
    r"| signed"
    r"| received| tried| own| play| teach| lead| plan| need)|we(?:'ve|'re| are| have| had| went| got| bought| use)"
    r"|my|our|mine"
    r"|ich|mein\w*|mon|ma|mes|mi|mis|mio|mia)\b|我|私|僕|俺|나는|내|제",
)
_ASIDE = Cue(
    "way btw speaking actually realized remembered fyi context also remember know fact",
    r"\b(?:by the way|btw|speaking of|actually|i just (?:realized|remembered)|fyi|for context|also,|remember(?: that)?"
    r"|just so you know|in fact)\b",
)
_EMPTY = re.compile(
    r"(?:(?:thanks?|thank you|great|awesome|perfect|cool|wow|nice|congratulations|congrats|you'?re (?:very )?welcome"
    r"|absolutely|certainly|of course|sure(?:ly)?|good luck|enjoy|have (?:a )?(?:fun|great|wonderful|nice)|happy \w+ing"
    r"|hello|hi|hey|welcome)\b.{0,60}[!.,]?$"
    r"|good luck\b.*|(?:that|this|it)(?:'s| is| sounds?)(?: really| so| such)?(?: an?)? (?:great|fantastic|wonderful"
    r"|awesome|good"
    r"|amazing|excellent|lovely|perfect|helpful|exciting|fascinating|interesting)\b.{0,50}$"
    r"|i(?:'m| am|'d be)(?: so| really| very)? (?:glad|happy|excited|thrilled|delighted|sorry) (?:to (?:hear|help)"
    r"|that|you|i"
    r" could|for)\b.*"
    r"|(?:please )?(?:let me know|feel free|don'?t hesitate|i hope|remember,? (?:to|it'?s|the)|would you like"
    r"|do you (?:want"
    r"|have any)|if you (?:have|need|want|'d like|would like))\b.*"
    r"|(?:here(?:'s| is| are)|below (?:is|are)|these are|the following (?:is|are)|some (?:of the )?\w+ (?:options"
    r"|tips|ideas))"
    r" .{0,120}[:!.]$"
    r"|as an? (?:\w+ )?(?:ai|language model)\b.*|let me\b.*|now (?:let me|i'?ll)\b.*|i'?ll (?:now|start|check"
    r"|look)\b.{0,80})$",
    re.IGNORECASE | re.DOTALL,
)
_STEP = re.compile(
    r"(?:step \d+|\d+[.)]|now|next|first|then|let me|i'll|i will|i need to|i should|looking at)\b",
    re.IGNORECASE,
)
_OUTCOME = word_set(
    "fixed resolved works working done complete completed success successful successfully pass passed passing added"
    " created implemented updated removed changed replaced renamed moved configured installed deployed committed"
    " pushed summary conclusion overall therefore answer result solution fix issue problem best recommend recommended"
    " should"
)


class Salience:
    """Judges the sentences of one conversation."""

    def __init__(self, stretches: Iterable[Iterable[str]]) -> None:
        """`stretches` are the sentences among which a rare word tells one stretch from another."""
        times: Counter[str] = Counter()
        number = 0
        for sentences in stretches:
            number += 1
            times.update(set().union(*(words(s).distinct for s in sentences)))
        whole = math.log(1 + max(2, number))
        self._weights = {
            term: 0.3 + 0.7 * math.log(1 + number / count) / whole for term, count in times.items()
        }

    def weight(self, term: str) -> float:
        """From 0.3, of a word in every stretch of a long conversation, to 1."""
        return self._weights.get(term, 1.0)

    def of_words(self, sentence: str) -> float:
        found = words(sentence).distinct
        return sum(map(self.weight, found)) / (len(found) + 4) ** 0.5 if found else 0.0

    def of_details(self, sentence: str) -> float:
        """Names, numbers, times and quotes: what people ask for later."""
        found = words(sentence).all
        numbers = len(_NUMBER.findall(sentence)) + len(found & _COUNTS)
        quotes = len(_QUOTED.findall(sentence)) if _QUOTES.search(sentence) else 0
        return (
            0.35 * min(len(_NAME.findall(sentence)), 4)
            + 0.5 * min(numbers, 3)
            + 0.5 * min(len(found & _TIMES), 2)
            + 0.5 * min(quotes, 2)
        )

    def of_person(self, sentence: str, *, question: bool) -> float:
        """What a person says: of themselves before all, and what they ask for less."""
        if is_empty(sentence):
            return 0.0
        score = self.of_words(sentence) + self.of_details(sentence)
        score += 1.2 * bool(_OWN.search(sentence)) + 0.8 * bool(_ASIDE.search(sentence))
        score += 0.8 * bool(PREFERENCE.search(sentence)) + 0.8 * bool(DECISION.search(sentence))
        return score - 1.5 * question

    def of_answer(self, sentence: str, *, question: bool, last: bool = False) -> float:
        """What a model says: what it concludes and names before what it explains."""
        if question or is_empty(sentence):
            return 0.0
        score = self.of_words(sentence) + self.of_details(sentence)
        score += 0.9 * bool(LEARNING.search(sentence)) + 0.5 * bool(SECURITY.search(sentence))
        score += 0.7 * bool(words(sentence).all & _OUTCOME) + 0.5 * last
        return score - 1.0 * bool(_STEP.match(sentence)) - 0.8 * (len(sentence) > 320)


def is_own(sentence: str) -> bool:
    """Whether somebody speaks of themselves."""
    return _OWN.search(sentence) is not None


def is_empty(sentence: str) -> bool:
    """Whether a sentence says nothing that is worth keeping."""
    return not words(sentence).terms or _EMPTY.match(sentence) is not None
