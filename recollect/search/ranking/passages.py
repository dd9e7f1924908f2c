"""The terms of a query in the candidates, and the best window of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date

import numpy as np

from recollect.language.intent import QUESTION
from recollect.language.when import date_words
from recollect.search.ranking import answer
from recollect.search.ranking.long_texts import ranked_part
from recollect.search.ranking.scored import Question, ScoredCandidate
from recollect.search.ranking.term_finder import Match, TermFinder, Texts
from recollect.search.ranking.vocabulary import current_vocabulary
from recollect.search.terms import DATE_WORDS, Term
from recollect.settings import LIMITS

_K1, _B = 0.9, 0.4  # BM25 of a window
_WINDOW_WORDS = 120
_AVERAGE_WINDOW_WORDS = 50
_NO_TERMS: frozenset[int] = frozenset()


def find_terms(question: Question, pool: Sequence[ScoredCandidate]) -> None:
    """Find the terms of the query in each candidate."""
    contents = [scored.candidate.content for scored in pool]
    if max(map(len, contents), default=0) > LIMITS.ranked_characters:
        contents = [ranked_part(content, question.terms) for content in contents]
    metadata = _metadata(question, pool)
    labels = _labels_to_search(question, [*metadata, *(s.candidate.title for s in pool)])
    texts = Texts(current_vocabulary(), [*contents, *labels])
    matches = TermFinder(texts, question.terms).find()
    label_terms = {
        label: _numbers(matches[number])
        for number, label in enumerate(labels, len(pool))
        if number in matches
    }
    lengths = (texts.ends - texts.starts).tolist()
    fingerprints = texts.sums().tolist()
    for scored, label, length, fingerprint in zip(
        pool, metadata, lengths, fingerprints, strict=False
    ):
        scored.length = length
        scored.fingerprint = fingerprint
        scored.metadata_terms = label_terms.get(label, _NO_TERMS)
        scored.title_terms = label_terms.get(scored.candidate.title, _NO_TERMS)
    windows = [0] * len(pool)
    weights = [term.weight for term in question.terms]
    for number, scored in enumerate(pool):
        if number in matches:
            scored.matches = matches[number]
            scored.terms = _sorted_numbers(scored.matches)
        if scored.matches or scored.metadata_terms:
            scored.text_score, windows[number] = _best_window(weights, scored)
    if question.phrase is not None:
        _find_phrase(question.phrase, pool, texts)
    if question.intent == QUESTION:
        _set_traits(question, pool, texts, windows)


def _labels_to_search(question: Question, labels: Iterable[str]) -> list[str]:
    """Authors, dates and titles, each once, without most of those that contain no term."""
    first_words = {form[0] for term in question.terms for form in term.forms}
    remaining = []
    for label in dict.fromkeys(labels):
        folded = label.lower()
        # Other texts than ASCII have more changes than to lower case.
        if not label.isascii() or any(word in folded for word in first_words):
            remaining.append(label)
    return remaining


def _numbers(matches: Sequence[Match]) -> frozenset[int]:
    """The numbers of the terms."""
    return frozenset([number for _, number in matches])


def _sorted_numbers(matches: Sequence[Match]) -> tuple[int, ...]:
    if len(matches) == 1:  # as in most candidates
        return (matches[0][1],)
    return tuple(sorted(_numbers(matches)))


def _find_phrase(phrase: Term, pool: Sequence[ScoredCandidate], texts: Texts) -> None:
    """Set which candidates contain the words of the query next to each other, as typed."""
    numbers = TermFinder(texts, [phrase]).find().keys()
    for number, scored in enumerate(pool):
        scored.has_phrase = number in numbers and len(scored.terms) > 1


def _metadata(question: Question, pool: Sequence[ScoredCandidate]) -> list[str]:
    """The author of each candidate, and its date if the query has words of dates."""
    has_date_terms = any(
        form[0].isdigit() or form[0] in DATE_WORDS for term in question.terms for form in term.forms
    )
    if not has_date_terms:
        return [scored.candidate.author or "" for scored in pool]
    days: dict[date, str] = {}
    metadata = []
    for scored in pool:
        dates = ""
        created_at = scored.candidate.created_at
        if created_at is not None:
            day = created_at.date()
            if day not in days:
                days[day] = date_words(created_at)
            dates = days[day]
        metadata.append(f"{scored.candidate.author or ''} {dates}")
    return metadata


def _best_window(weights: Sequence[float], scored: ScoredCandidate) -> tuple[float, int]:
    """BM25 and the number of the best window. Terms in the metadata count in every window."""
    if len(scored.matches) == 1 and not scored.metadata_terms:  # as in most candidates
        ((position, number),) = scored.matches
        window = position // _WINDOW_WORDS
        score = weights[number] * (_K1 + 1) / (1 + _norm(scored, window))
        if score > 0:
            return score, window
        return 0.0, 0
    windows: dict[int, dict[int, int]] = {}
    for position, number in scored.matches:
        counts = windows.setdefault(position // _WINDOW_WORDS, {})
        counts[number] = counts.get(number, 0) + 1
    if not windows:
        windows[0] = {}
    best, best_window = 0.0, 0
    for window, counts in windows.items():
        for number in scored.metadata_terms:
            counts[number] = counts.get(number, 0) + 1
        norm = _norm(scored, window)
        score = math.fsum(
            [
                weights[number] * count * (_K1 + 1) / (count + norm)
                for number, count in counts.items()
            ]
        )
        if score > best:
            best, best_window = score, window
    return best, best_window


def _norm(scored: ScoredCandidate, window: int) -> float:
    length = min(scored.length - window * _WINDOW_WORDS, _WINDOW_WORDS)
    return _K1 * (1 - _B + _B * length / _AVERAGE_WINDOW_WORDS)


def _set_traits(
    question: Question, pool: Sequence[ScoredCandidate], texts: Texts, windows: Sequence[int]
) -> None:
    """Set what the best window of each candidate says about an answer."""
    answer_type = answer.AnswerType(question.text)
    traits = texts.traits()
    if answer_type.words:
        traits |= np.uint8(answer.ANSWER) * texts.are_among(answer_type.words)
    traits = np.append(traits, np.uint8(0))  # `reduceat` accepts no end of the array
    starts = texts.starts[: len(pool)] + _WINDOW_WORDS * np.array(windows, np.intp)
    ends = np.minimum(starts + _WINDOW_WORDS, texts.ends[: len(pool)])
    bounds = np.column_stack([starts, ends]).ravel()
    window_traits = np.bitwise_or.reduceat(traits, bounds)[::2]
    first_person = np.add.reduceat(traits & answer.FIRST_PERSON, bounds, dtype=np.intp)[::2]
    for scored, flags, count, length in zip(
        pool, window_traits.tolist(), first_person.tolist(), (ends - starts).tolist(), strict=True
    ):
        if not flags or not length:
            continue
        scored.has_answer = bool(flags & answer_type.traits)
        if flags & answer.FIRST_PERSON:
            scored.first_person = count / length
            scored.tells_past = bool(flags & answer.PAST)
            scored.states_preference = bool(flags & answer.PREFERENCE)
