"""The one ranker: what was found goes in, the order comes out. Pure: no store, no clock, no model.

A passage is judged by a sum of parts, each between 0 and about 1 and each with
one weight. The weights were fitted on questions with known answers, checked on
halves they were not fitted on (`bench/README.md`), and rounded.

- words: BM25 of its best stretch of 120 words, so that a long answer does not
  win by its length. Author and date count as if they were written in it.
- close: pairs of the question's words that stand close together.
- meaning: the cosine of the vectors, and topic the best of the conversation.
- reply: it answers a message that asks with the question's words. Short messages
  lean on that, long ones speak for themselves.
- whole, side: what was found in the conversation altogether, and in what its
  person said.
- person: people ask for what they said themselves, unless they ask what the
  assistant said. speaker: said by the one whom the question names. What is no
  conversation (a note, a paper) is what its person chose to keep: it is neither
  held back nor put forward by these.
- recent; time: in or near a time that the question names; title: words in it.
- question: a message that asks seldom holds the answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from recollect.language.text import tokens
from recollect.language.when import Window, date_words
from recollect.model.kinds import CONVERSATION
from recollect.model.sources import ASSISTANTS
from recollect.search.terms import Finder, Term
from recollect.store.values import Candidate

WEIGHTS: Mapping[str, float] = {
    "words": 3.0,
    "close": 2.0,
    "meaning": 2.5,
    "topic": 1.5,
    "reply": 2.0,
    "whole": 1.5,
    "side": 2.0,
    "person": 3.0,
    "speaker": 3.0,
    "recent": 1.5,
    "time": 4.0,
    "title": 1.0,
    "question": -0.8,
}
_K1, _B = 0.9, 0.4
_STRETCH = 120  # words
_USUAL = 50  # words of a stretch
_CLOSE = 5  # words
_FAR = 0.2  # cosine
_SHORT = (
    40  # words; a message of this length leans on its neighbours half as much as a very short one
)
_WEEK = timedelta(days=7)
_DATE_WORDS = frozenset(
    word
    for month in range(1, 13)
    for word in tokens(date_words(datetime(2024, month, month, tzinfo=UTC)))
)  # the names of months, and of weekdays
_ASKS_ASSISTANT = re.compile(
    r"""\byou(?:'ve|r)?\b[^.?!]{0,40}\b(?:recommend|suggest|tell|told|mention|say|said|gave|give|provid|write|wrote|list|advi[cs]|creat
    |explain|describ|shar|helped|answer)|\b(?:our|your)\ (?:previous|last|earlier)\b|\bremind\ me\b
    |\bassistant\b|\b(?:"""
    + "|".join(ASSISTANTS)
    + r""")\ (?:said|told|suggest|recommend|wrote)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What the ranker must know of the query."""

    text: str
    terms: tuple[Term, ...]
    now: datetime
    windows: tuple[Window, ...] = ()
    asked: bool = True
    """Somebody asks; not so where messages like another one are looked for."""


@dataclass(slots=True)
class Found:
    """A passage that may be shown, or that only says something of its neighbours."""

    candidate: Candidate
    text: bool = False
    """Found by its words."""
    vector: bool = False
    """Found by its meaning."""
    cosine: float | None = None

    matched: tuple[int, ...] = ()
    """The numbers of the terms in it."""
    places: list[tuple[int, int]] = field(default_factory=list)
    about: AbstractSet[int] = frozenset()
    """The numbers of the terms in its author's name and its date."""
    length: int = 0
    words: float = 0.0
    copies: int = 0
    """Passages with the same text that it stands for."""


@dataclass(frozen=True, slots=True)
class Ranked:
    found: Found
    score: float
    features: Mapping[str, float]

    @property
    def parts(self) -> dict[str, float]:
        """What the score is made of."""
        return {name: WEIGHTS[name] * value for name, value in self.features.items() if value}


def rank(question: Question, pool: Sequence[Found]) -> list[Ranked]:
    """The passages that an arm found, best first. The others in the pool are their neighbours."""
    ranked = []
    for found, features in features_of(question, pool):
        ranked.append(
            Ranked(
                found,
                math.fsum(WEIGHTS[name] * value for name, value in features.items()),
                features,
            )
        )
    ranked.sort(key=lambda r: (-r.score, -r.found.candidate.key))
    return ranked


def read(question: Question, pool: Iterable[Found]) -> None:
    """Find the terms in passages: what all the parts that look at words rest on."""
    finder = Finder(question.terms)
    dated = any(
        form[0].isdigit() or form[0] in _DATE_WORDS
        for term in question.terms
        for form in term.forms
    )
    about: dict[tuple[str | None, date | None], set[int]] = {}
    for found in pool:
        candidate = found.candidate
        text = tokens(candidate.content)
        found.length = len(text)
        found.places = finder.find(text)
        day = candidate.created_at.date() if dated and candidate.created_at is not None else None
        if (candidate.author, day) not in about:
            said = f"{candidate.author or ''} {date_words(candidate.created_at) if day and candidate.created_at else ''}"
            about[candidate.author, day] = {n for _, n in finder.find(tokens(said))}
        found.about = about[candidate.author, day]
        found.words = _bm25(question.terms, found)
        found.matched = tuple(sorted({number for _, number in found.places}))


def features_of(question: Question, pool: Sequence[Found]) -> list[tuple[Found, dict[str, float]]]:
    """Every part of the judgement before it is weighted. The pool must have been `read`."""
    top = max((f.words for f in pool), default=0.0) or 1.0
    nearest = max((f.cosine or 0.0 for f in pool), default=0.0)
    nearest = max(nearest, _FAR)  # where nothing is near, how near says nothing
    at = {(f.candidate.document, f.candidate.position): f for f in pool}
    conversations = _Conversations(question, pool)
    speaker = _speaker(question, pool)
    roles = {
        f.candidate.role for f in pool if (f.text or f.vector) and f.candidate.kind == CONVERSATION
    }
    person = (
        question.asked
        and "user" in roles
        and len(roles) > 1
        and not _ASKS_ASSISTANT.search(question.text)
    )
    pairs = _pairs(question.terms)
    titles = _titles(question.terms, pool)
    judged = []
    for found in pool:
        if not (found.text or found.vector):
            continue
        c = found.candidate
        short = 1 / (1 + found.length / _SHORT)
        before = at.get((c.document, c.position - 1))
        asked = before is not None and _asks(before.candidate.content)
        judged.append(
            (
                found,
                {
                    "words": found.words / top,
                    "close": _close(pairs, found),
                    "meaning": max(found.cosine or 0.0, 0.0) / nearest,
                    "topic": conversations.nearest.get(c.document, 0.0) / nearest,
                    "reply": before.words / top * short if asked and before is not None else 0.0,
                    "whole": conversations.whole(c.document),
                    "side": conversations.side(c.document)
                    if c.kind == CONVERSATION
                    else conversations.whole(c.document),
                    "person": 1.0
                    if person and (c.role == "user" or c.kind != CONVERSATION)
                    else 0.0,
                    "speaker": 1.0 if speaker is not None and c.author == speaker else 0.0,
                    "recent": _recent(question.now, c.created_at),
                    "time": _in_time(question.windows, c.created_at),
                    "title": titles[c.title],
                    "question": 1.0 if _asks(c.content) else 0.0,
                },
            )
        )
    return judged


# -- the passage itself --------------------------------------------------------


def _bm25(terms: Sequence[Term], found: Found) -> float:
    """BM25 of the best stretch."""
    about = found.about
    stretches: dict[int, dict[int, int]] = {}
    for place, number in found.places:
        counts = stretches.setdefault(place // _STRETCH, {})
        counts[number] = counts.get(number, 0) + 1
    if about and not stretches:
        stretches[0] = {}
    best = 0.0
    for stretch, counts in stretches.items():
        length = min(found.length - stretch * _STRETCH, _STRETCH)
        norm = _K1 * (1 - _B + _B * length / _USUAL)
        best = max(
            best,
            math.fsum(
                terms[n].weight * f * (_K1 + 1) / (f + norm)
                for n in counts.keys() | about
                if (f := counts.get(n, 0) + (n in about))
            ),
        )
    return best


def _pairs(terms: Sequence[Term]) -> dict[tuple[int, int], float]:
    """Terms beside each other in the question, and how much each pair says."""
    pairs = {(n, n + 1): min(terms[n].weight, terms[n + 1].weight) for n in range(len(terms) - 1)}
    total = sum(pairs.values())
    return {pair: weight / total for pair, weight in pairs.items()} if total else {}


def _close(pairs: Mapping[tuple[int, int], float], found: Found) -> float:
    """How many of the question's pairs stand close together, the closer the more."""
    if len(found.matched) < 2:
        return 0.0
    nearest: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}
    for place, number in found.places:
        for pair in ((number - 1, number), (number, number + 1)):
            if pair in pairs:
                other = last.get(pair[0] if pair[1] == number else pair[1])
                if other is not None and 0 < place - other <= _CLOSE:
                    nearest[pair] = min(place - other, nearest.get(pair, _CLOSE))
        last[number] = place
    return math.fsum(pairs[pair] / math.sqrt(distance) for pair, distance in nearest.items())


def _asks(content: str) -> bool:
    return content.rstrip().endswith(("?", "？", "؟"))


def _titles(terms: Sequence[Term], pool: Iterable[Found]) -> dict[str, float]:
    """The share of the question, by weight, that each title has."""
    total = sum(t.weight for t in terms) or 1.0
    finder = Finder(terms)
    return {
        title: math.fsum(terms[n].weight for n in {n for _, n in finder.find(tokens(title))})
        / total
        for title in {f.candidate.title for f in pool}
    }


# -- its conversation ------------------------------------------------------------


class _Conversations:
    """What was found in each conversation, all of it together."""

    def __init__(self, question: Question, pool: Sequence[Found]) -> None:
        self._terms = question.terms
        self.nearest: dict[str, float] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._side: dict[str, dict[int, int]] = {}
        self._sizes: dict[str, int] = {}
        for found in pool:
            c = found.candidate
            self.nearest[c.document] = max(found.cosine or 0.0, self.nearest.get(c.document, 0.0))
            self._sizes[c.document] = c.passages
            for counts in (self._counts, self._side) if c.role == "user" else (self._counts,):
                mine = counts.setdefault(c.document, {})
                for _, number in found.places:
                    mine[number] = mine.get(number, 0) + 1
                for number in found.about:
                    mine.setdefault(number, 1)
        self._usual = sum(self._sizes.values()) / max(len(self._sizes), 1)
        self._whole = self._scaled(self._counts)
        self._sides = self._scaled(self._side)

    def whole(self, document: str) -> float:
        return self._whole.get(document, 0.0)

    def side(self, document: str) -> float:
        return self._sides.get(document, 0.0)

    def _scaled(self, counts: Mapping[str, Mapping[int, int]]) -> dict[str, float]:
        scores = {document: self._bm25(document, c) for document, c in counts.items()}
        top = max(scores.values(), default=0.0)
        return {document: score / top for document, score in scores.items()} if top else {}

    def _bm25(self, document: str, counts: Mapping[int, int]) -> float:
        norm = 1.2 * (0.25 + 0.75 * self._sizes[document] / self._usual)
        return math.fsum(self._terms[n].weight * f * 2.2 / (f + norm) for n, f in counts.items())


# -- who and when ------------------------------------------------------------------


def _speaker(question: Question, pool: Sequence[Found]) -> str | None:
    """The author whom the question names, if it names one and only one."""
    asked = set(tokens(question.text))
    named = {
        author
        for f in pool
        if (author := f.candidate.author) is not None and asked.intersection(tokens(author))
    }
    return named.pop() if len(named) == 1 else None


def _recent(now: datetime, at: datetime | None) -> float:
    return 0.0 if at is None else 1 / (1 + abs(now - at) / _WEEK)


def _in_time(windows: Sequence[Window], at: datetime | None) -> float:
    """One inside a time that the question names, less and less outside."""
    if at is None or not windows:
        return 0.0
    best = 0.0
    for window in windows:
        width = max(window.end - window.start, timedelta(days=1))
        outside = max(window.start - at, at - window.end, timedelta(0))
        best = max(best, 1 - outside / width)
    return best
