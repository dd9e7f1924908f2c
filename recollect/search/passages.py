"""The candidates of a search, and where the terms of the query are in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.queries.intent import QUESTION
from recollect.language.spellings import Form
from recollect.language.symbols import symbol_name, without_terminal_codes
from recollect.language.text import tokens, transcribed
from recollect.language.when import date_words
from recollect.model.kinds import OBSERVATION, PREFERENCE
from recollect.search.answers import (
    FIRST_PERSON,
    FIRST_PERSON_WORDS,
    AnswerType,
    traits_of,
)
from recollect.search.queries.terms import DATE_WORDS, RankingQuery, Term
from recollect.settings import LIMITS
from recollect.store.values import Candidate

# BM25 of a window: `K1` says how much repetitions count, `B` how much long windows lose.
_K1, _B = 0.9, 0.4
_WINDOW_WORDS = 120
_AVERAGE_WINDOW_WORDS = 50
_CLOSE_WORDS = 5  # two terms further apart than this are not close
_PUNCTUATION = ".,;:!?…\"'“”‘’"  # of sentences, not of names in code
# In a very long text, the first match is looked for up to here.
_MAX_CHARACTERS_SEARCHED = 250_000


@dataclass(slots=True)
class ScoredCandidate:
    """A candidate, what matched in it, and its score.

    Candidates that neither arm found serve as context: they affect the scores of their neighbours
    but are not ranked themselves.
    """

    candidate: Candidate
    by_text: bool = False
    """Found by the text arm."""
    by_vector: bool = False
    """Found by the vector arm."""
    cosine: float | None = None

    # Set by `find_terms`. Terms are named by their numbers in the query.
    terms: tuple[int, ...] = ()
    """The terms in the text, in order."""
    title_terms: tuple[int, ...] = ()
    metadata_terms: tuple[int, ...] = ()
    """The terms in the author's name and the date."""
    typed_terms: tuple[int, ...] = ()
    """The terms that the text has in the form in which they were typed."""
    counts: Mapping[int, int] = field(default_factory=dict)
    """How often the text has each term."""
    words: int = 0
    """The length of the text."""
    text_score: float = 0.0
    """BM25 of the best window of the text."""
    close: float = 0.0
    """How many pairs of adjacent terms of the query are close together; closer ones count more."""
    adjacent: float = 0.0
    """How many of them are next to each other, in the order of the query, or in one word."""
    has_phrase: bool = False
    """The text or the title has the words next to each other, exactly as typed."""
    traits: int = 0
    """The traits of the words in the best window, if one is in the first person, or ANSWER."""
    first_person: float = 0.0
    """The share of words such as "I" and "our" in the best window."""

    is_between_people: bool = False
    """The conversation is a dialogue between people, not with an assistant."""
    score: float = 0.0
    part_names: tuple[str, ...] = ()
    part_values: Sequence[float] = field(default=(), compare=False)
    """The weighted features, which add up to the score."""
    copies: int = 0
    """Other candidates with the same text, which this one represents."""

    @property
    def arms(self) -> tuple[str, ...]:
        """How it was found: by words ("text"), by meaning ("vector"), or both."""
        arms = []
        if self.by_text or self.terms:
            arms.append("text")
        if self.by_vector:
            arms.append("vector")
        return tuple(arms)

    @property
    def is_observed_preference(self) -> bool:
        """Whether it is an observation of what the user allows, requires or prefers."""
        return self.candidate.kind == OBSERVATION and self.candidate.role == PREFERENCE

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the score that are not 0."""
        pairs = zip(self.part_names, self.part_values, strict=True)
        return {name: float(value) for name, value in pairs if value}

    def part(self, name: str) -> float:
        """One part of the score."""
        if name not in self.part_names:
            return 0.0
        return float(self.part_values[self.part_names.index(name)])

    @property
    def has_terms(self) -> bool:
        return bool(self.terms or self.title_terms or self.metadata_terms)

    @property
    def all_terms(self) -> set[int]:
        """The terms in the text, the title, the author's name and the date."""
        return {*self.terms, *self.metadata_terms, *self.title_terms}


def find_terms(query: RankingQuery, candidates: Iterable[ScoredCandidate]) -> None:
    """Find the terms of the query in each candidate, and set what follows from them."""
    reader = _Reader(query)
    for scored in candidates:
        reader.read(scored)


class _Entry(NamedTuple):
    """A form of a term that begins with a certain word."""

    term: int
    rest: Form
    """The words that follow."""
    prefix: bool
    """The last word is a prefix."""
    typed: bool
    """The form in which the term was typed."""


class _Reader:
    """Reads the candidates of one query."""

    def __init__(self, query: RankingQuery) -> None:
        self.query = query
        self.terms = query.terms
        self.entries: dict[str, list[_Entry]] = {}
        """The forms by their first words."""
        self.prefixes: dict[str, list[_Entry]] = {}
        """Those of a single unfinished word."""
        for number, term in enumerate(query.terms):
            for form in term.forms:
                entry = _Entry(number, form[1:], term.prefix, form == term.forms[0])
                is_unfinished = term.prefix and len(form) == 1
                entries = self.prefixes if is_unfinished else self.entries
                entries.setdefault(form[0], []).append(entry)
        self.first_words = frozenset(self.entries)
        self.pairs = pair_weights(query.terms)
        self.is_question = query.intent == QUESTION
        self.answer = AnswerType(query.text) if self.is_question else None
        self.symbols = {} if self.is_question else words_with_symbols(query)
        self.labels: dict[str, tuple[int, ...]] = {}
        """The terms in titles, authors and dates, of which many are the same."""
        self.days: dict[date, str] = {}
        self.has_dates = has_date_terms(query)
        self.phrase = ""
        if query.phrase is not None:
            self.phrase = f" {' '.join(query.phrase.forms[0])}{'' if query.phrase.prefix else ' '}"

    def read(self, scored: ScoredCandidate) -> None:
        candidate = scored.candidate
        content = candidate.content
        if len(content) > LIMITS.ranked_characters:
            content = ranked_part(content, self.terms)
        words = tokens(content)
        different = set(words)
        matches = self._matches(words, different)
        scored.title_terms = self._label_terms(candidate.indexed_title)
        scored.metadata_terms = self._label_terms(self._metadata(candidate))
        scored.words = len(words)
        positions = [(position, entry.term) for position, entry in matches]
        counts: dict[int, int] = {}
        for _, term in positions:
            counts[term] = counts.get(term, 0) + 1
        scored.counts = counts
        scored.terms = tuple(sorted(counts))
        if len(counts) > 1:
            scored.close = self._closeness(positions)
        scored.text_score, window = self._best_window(scored, positions)
        if self.phrase:
            scored.has_phrase = _has_phrase(self.phrase, words) or _has_phrase(
                self.phrase, tokens(candidate.indexed_title)
            )
        if self.answer is not None:
            if len(words) > _WINDOW_WORDS:
                words = words[window * _WINDOW_WORDS :][:_WINDOW_WORDS]
                different = set(words)
            scored.traits = traits_of(different) | self.answer.trait(different)
            if scored.traits & FIRST_PERSON:
                count = sum([word in FIRST_PERSON_WORDS for word in words])
                scored.first_person = count / len(words)
            return
        if len(counts) > 1:
            scored.adjacent = self._adjacency(positions)
        typed = {
            entry.term for _, entry in matches if entry.typed and entry.term not in self.symbols
        }
        if self.symbols:
            folded = content.lower()
            typed |= {number for number, word in self.symbols.items() if word in folded}
        scored.typed_terms = tuple(typed)

    def _matches(self, words: Sequence[str], different: set[str]) -> list[tuple[int, _Entry]]:
        """The terms in a text, each with its position, in order."""
        entries = self.entries
        found = self.first_words & different
        if self.prefixes:
            found, entries = self._with_unfinished(different, found)
        if not found:
            return []
        return [
            (position, entry)
            for position, word in enumerate(words)
            if word in found
            for entry in entries[word]
            if not entry.rest or follows(entry, words, position + 1)
        ]

    def _with_unfinished(
        self, different: set[str], found: frozenset[str]
    ) -> tuple[frozenset[str], dict[str, list[_Entry]]]:
        """The words that begin with an unfinished word are forms of it, too."""
        entries = {word: list(self.entries[word]) for word in found}
        for word in different:
            for prefix, of_prefix in self.prefixes.items():
                if word.startswith(prefix):
                    entries.setdefault(word, []).extend(of_prefix)
        return frozenset(entries), entries

    def _label_terms(self, label: str) -> tuple[int, ...]:
        """The terms in a title, or in an author's name and a date."""
        if label not in self.labels:
            words = tokens(label)
            matches = self._matches(words, set(words))
            self.labels[label] = tuple(sorted({entry.term for _, entry in matches}))
        return self.labels[label]

    def _metadata(self, candidate: Candidate) -> str:
        """The author, also in letters without umlauts, and the date if the query has one."""
        author = candidate.author or ""
        if not author.isascii():
            author = f"{author} {transcribed(author)}"
        if not self.has_dates or candidate.created_at is None:
            return author
        day = candidate.created_at.date()
        if day not in self.days:
            self.days[day] = date_words(candidate.created_at)
        return f"{author} {self.days[day]}"

    def _best_window(
        self, scored: ScoredCandidate, positions: Sequence[tuple[int, int]]
    ) -> tuple[float, int]:
        """BM25 of the best window of 120 words, so that long messages gain nothing, and its number.

        Terms in the title and the metadata count in every window.
        """
        windows: dict[int, dict[int, int]] = {0: {}}
        for position, term in positions:
            counts = windows.setdefault(position // _WINDOW_WORDS, {})
            counts[term] = counts.get(term, 0) + 1
        labels = {*scored.title_terms, *scored.metadata_terms}
        best, best_window = -1.0, 0
        for window, counts in windows.items():
            for term in labels:
                counts[term] = counts.get(term, 0) + 1
            words = min(scored.words - window * _WINDOW_WORDS, _WINDOW_WORDS)
            norm = _K1 * (1 - _B + _B * words / _AVERAGE_WINDOW_WORDS)
            score = 0.0
            for term, count in counts.items():
                score += self.terms[term].weight * (_K1 + 1) * count / (count + norm)
            if score > best:
                best, best_window = score, window
        return best, best_window

    # -- pairs of adjacent terms of the query ---

    def _closeness(self, positions: Sequence[tuple[int, int]]) -> float:
        distances: dict[int, int] = {}
        """By the first term of a pair."""
        last: dict[int, int] = {}
        for position, number in positions:
            for pair, partner in ((number, number + 1), (number - 1, number - 1)):
                distance = position - last.get(partner, position)
                if pair in self.pairs and 0 < distance <= _CLOSE_WORDS:
                    distances[pair] = min(distance, distances.get(pair, _CLOSE_WORDS))
            last[number] = position
        return math.fsum(self.pairs[p] / math.sqrt(distance) for p, distance in distances.items())

    def _adjacency(self, positions: Sequence[tuple[int, int]]) -> float:
        places: dict[int, set[int]] = {}
        for position, number in positions:
            places.setdefault(number, set()).add(position)
        return math.fsum(
            weight
            for first, weight in self.pairs.items()
            if any(
                place in places.get(first + 1, ()) or place + 1 in places.get(first + 1, ())
                for place in places.get(first, ())
            )
        )


def follows(entry: _Entry, words: Sequence[str], start: int) -> bool:
    """Whether the words from a place on are the rest of a form."""
    following = tuple(words[start : start + len(entry.rest)])
    if not entry.prefix:
        return following == entry.rest
    if len(following) < len(entry.rest) or following[:-1] != entry.rest[:-1]:
        return False
    return following[-1].startswith(entry.rest[-1])


def _has_phrase(phrase: str, words: Sequence[str]) -> bool:
    return phrase in f" {' '.join(words)} "


def pair_weights(terms: Sequence[Term]) -> dict[int, float]:
    """The weight of each pair of terms, by the number of its first one. They add up to 1."""
    weights = {}
    for number in range(len(terms) - 1):
        if terms[number + 1].weak:
            break  # synonyms follow the words of the query
        if terms[number].is_phrase or terms[number + 1].is_phrase:
            continue  # the words of an identifier are adjacent to themselves
        weights[number] = min(terms[number].weight, terms[number + 1].weight)
    total = sum(weights.values())
    return {number: weight / total for number, weight in weights.items() if total}


def words_with_symbols(query: RankingQuery) -> dict[int, str]:
    """The terms that were typed with symbols, such as @retry or foo(), and how."""
    symbols: dict[Form, str] = {}
    for word in query.text.lower().split():
        word = word.strip(_PUNCTUATION)
        if not word.isalnum() and len(tokens(word)) == 1:
            symbols[tokens(word)[0],] = word
    return {n: symbols[t.forms[0]] for n, t in enumerate(query.terms) if t.forms[0] in symbols}


def has_date_terms(query: RankingQuery) -> bool:
    """Whether the dates of messages are text. A message of August is not about next August."""
    words = [form[0] for term in query.terms for form in term.forms]
    has_date = any(word.isdigit() or word in DATE_WORDS for word in words)
    return has_date and not language_of(query.text).has("asks_future", query.text)


def ranked_part(text: str, terms: Sequence[Term]) -> str:
    """The whole text, or if it is very long, the part around the rarest term."""
    text = without_terminal_codes(text)
    size = LIMITS.ranked_characters
    if len(text) <= size:
        return text
    # Bytes become lower case much faster than text.
    data = text[:_MAX_CHARACTERS_SEARCHED].encode("utf-8", "surrogatepass").lower()
    for term in sorted(terms, key=lambda term: -term.weight):
        first_words = {symbol_name(form[0]) or form[0] for form in term.forms}
        places = [data.find(word.encode("utf-8", "surrogatepass")) for word in first_words]
        places = [place for place in places if place >= 0]
        if places:
            start = len(data[: min(places)].decode("utf-8", "ignore")) - size // 4
            return text[max(0, start) :][:size]
    return text[:size]
