"""The candidates of a search, where the terms of the query are in them, and what they tell.

People ask about what happened to somebody, and the answer is usually told by that person, in the
past tense. A question for a time or a number is answered by a text that has one. The tense, the
person and preferences are recognized in English only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import chain
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import QUESTION
from recollect.language.symbols import symbol_name, without_terminal_codes
from recollect.language.text import indexable, tokens, transcribed
from recollect.language.when import date_words
from recollect.language.words import Form
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
        text = ("text",) if self.by_text or self.terms else ()
        return (*text, "vector") if self.by_vector else text

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
    def all_terms(self) -> set[int]:
        """The terms in the text, the title, the author's name and the date."""
        return {*self.terms, *self.metadata_terms, *self.title_terms}


# -- where the terms are -------------------------------------------------------------


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

    def is_at(self, words: Sequence[str], start: int) -> bool:
        """Whether the words from a place on are the rest of the form."""
        following = tuple(words[start : start + len(self.rest)])
        if not self.prefix:
            return following == self.rest
        if len(following) < len(self.rest) or following[:-1] != self.rest[:-1]:
            return False
        return following[-1].startswith(self.rest[-1])


class _Reader:
    """Reads the candidates of one query."""

    def __init__(self, query: RankingQuery) -> None:
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
        self.answers = answer_words(query.text) if self.is_question else None
        self.labels: dict[str, tuple[int, ...]] = {}
        """The terms in titles, authors and dates, of which many are the same."""
        self.days: dict[date, str] = {}
        self.phrase = ""
        if query.phrase is not None:
            self.phrase = f" {' '.join(query.phrase.forms[0])}{'' if query.phrase.prefix else ' '}"
        # The dates of messages are text, but a message of August is not about next August.
        first_words = [form[0] for term in query.terms for form in term.forms]
        self.has_dates = any(
            word.isdigit() or word in DATE_WORDS for word in first_words
        ) and not language_of(query.text).has("asks_future", query.text)
        # The terms that were typed with symbols, such as @retry or foo().
        self.symbols: dict[int, str] = {}
        for word in [] if self.is_question else query.text.lower().split():
            word = word.strip(_PUNCTUATION)
            form = tuple(tokens(word))
            if len(form) == 1 and not word.isalnum():
                numbers = (n for n, term in enumerate(query.terms) if term.forms[0] == form)
                self.symbols |= dict.fromkeys(numbers, word)

    def read(self, scored: ScoredCandidate) -> None:
        candidate = scored.candidate
        content = candidate.content
        if len(content) > LIMITS.ranked_characters:
            content = ranked_part(content, self.terms)
        words = tokens(content)
        matches = self.matches(words)
        scored.metadata_terms = self.label_terms(self.author_and_date(candidate))
        scored.title_terms = self.label_terms(candidate.indexed_title)
        scored.words = len(words)
        counts: dict[int, int] = {}
        for _, entry in matches:
            counts[entry.term] = counts.get(entry.term, 0) + 1
        scored.counts = counts
        scored.terms = tuple(sorted(counts))
        if len(counts) > 1:
            scored.close, scored.adjacent = self.closeness(matches)
        scored.text_score, window = self.best_window(scored, matches)
        if self.phrase:
            title = tokens(candidate.indexed_title)
            scored.has_phrase = any(self.phrase in f" {' '.join(w)} " for w in (words, title))
        if self.is_question:
            words = words[window * _WINDOW_WORDS :][:_WINDOW_WORDS]
            scored.traits = traits_of(set(words), self.answers)
            if scored.traits & FIRST_PERSON:
                count = sum([word in _WORDS[FIRST_PERSON] for word in words])
                scored.first_person = count / len(words)
            return
        typed = {e.term for _, e in matches if e.typed and e.term not in self.symbols}
        if self.symbols:
            folded = content.lower()
            typed |= {number for number, word in self.symbols.items() if word in folded}
        scored.typed_terms = tuple(typed)

    def matches(self, words: Sequence[str]) -> list[tuple[int, _Entry]]:
        """The terms in a text, each with its position, in order."""
        different, entries = set(words), self.entries
        found: Iterable[str] = self.first_words & different
        if self.prefixes:  # the words that begin with an unfinished word are forms of it, too
            entries = {word: list(entries[word]) for word in found}
            for word in different:
                for prefix, of_prefix in self.prefixes.items():
                    if word.startswith(prefix):
                        entries.setdefault(word, []).extend(of_prefix)
            found = entries.keys()
        if not found:
            return []
        return [
            (position, entry)
            for position, word in enumerate(words)
            if word in found
            for entry in entries[word]
            if not entry.rest or entry.is_at(words, position + 1)
        ]

    def author_and_date(self, candidate: Candidate) -> str:
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

    def label_terms(self, label: str) -> tuple[int, ...]:
        """The terms in a title, or in an author's name and a date."""
        if label not in self.labels:
            found = {entry.term for _, entry in self.matches(tokens(label))}
            self.labels[label] = tuple(sorted(found))
        return self.labels[label]

    def best_window(
        self, scored: ScoredCandidate, matches: Sequence[tuple[int, _Entry]]
    ) -> tuple[float, int]:
        """BM25 of the best window of 120 words, so that long messages gain nothing, and its number.

        Terms in the title and the metadata count in every window.
        """
        windows: dict[int, dict[int, int]] = {0: {}}
        for position, entry in matches:
            counts = windows.setdefault(position // _WINDOW_WORDS, {})
            counts[entry.term] = counts.get(entry.term, 0) + 1
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

    def closeness(self, matches: Sequence[tuple[int, _Entry]]) -> tuple[float, float]:
        """`close` and `adjacent`: how close the pairs of adjacent terms of the query are."""
        distances: dict[int, int] = {}
        """By the first term of a pair, in either order."""
        adjacent: set[int] = set()
        last: dict[int, int] = {}
        for position, entry in matches:
            number = entry.term
            for pair, partner in ((number, number + 1), (number - 1, number - 1)):
                if pair not in self.pairs or partner not in last:
                    continue
                distance = position - last[partner]
                if 0 < distance <= _CLOSE_WORDS:
                    distances[pair] = min(distance, distances.get(pair, _CLOSE_WORDS))
                # Words such as `eventLoop` are several terms in one place.
                if distance == 0 or (distance == 1 and partner < number):
                    adjacent.add(pair)
            last[number] = position
        return (
            math.fsum(self.pairs[p] / math.sqrt(distance) for p, distance in distances.items()),
            math.fsum(self.pairs[pair] for pair in adjacent),
        )


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


# -- what a text tells ---------------------------------------------------------------

# The traits of a text, which can be combined.
FIRST_PERSON = 1
PAST = 2
PREFERENCE = 4
LIKING = 8
ANSWER = 16
_WORDS = {
    FIRST_PERSON: frozenset("i me my mine myself we us our ours im ive".split()),
    PAST: frozenset(
        """
        was were went had did got made took bought saw came gave started left met told ate drove
        flew felt thought kept ran sold spent won wrote lost paid grew broke built became began
        chose heard held knew learned sent slept spoke taught wore
        """.split()
    ),
    PREFERENCE: frozenset(
        """
        prefer favorite favourite love like enjoy hate dislike avoid allergic vegetarian vegan
        always never usually interested fan want trying started recently own
        """.split()
    ),
}
_MORE_NUMBERS = "twenty thirty forty fifty hundred thousand once twice several dozen"
_MORE_TIMES = "yesterday today tomorrow tonight ago week weekend month year last next morning"
_MIN_REGULAR_PAST = 5  # letters; shorter words in -ed are rarely verbs (`bed`, `need`)


def traits_of(words: set[str], answers: frozenset[str] | None) -> int:
    """The traits of a text with these words, if one of them is in the first person, or ANSWER."""
    traits = 0
    if answers is not None and (any(map(str.isdigit, words)) or not answers.isdisjoint(words)):
        traits = ANSWER
    if _WORDS[FIRST_PERSON].isdisjoint(words):
        return traits
    traits += sum(trait for trait, of_trait in _WORDS.items() if not of_trait.isdisjoint(words))
    if not ENGLISH.statement_words.isdisjoint(words):
        traits |= LIKING
    if not traits & PAST and any(
        word.endswith("ed") and len(word) >= _MIN_REGULAR_PAST for word in words
    ):
        traits |= PAST
    return traits


def answer_words(question: str) -> frozenset[str] | None:
    """The words, besides digits, of what a question asks for: a time or a number; None if it asks
    for anything."""
    language = language_of(question)
    asks_for_time = language.has("asks_time", question)
    asks_for_number = language.has("asks_number", question)
    if not asks_for_time and not asks_for_number:
        return None
    times, numbers = times_and_numbers(language)
    return (times if asks_for_time else frozenset()) | (numbers if asks_for_number else frozenset())


@cache
def times_and_numbers(language: Language) -> tuple[frozenset[str], frozenset[str]]:
    """The words for times and for numbers, as the index has them.

    In scripts without spaces, single characters say too little. In most languages, "one" is also
    "a".
    """
    if language.unspaced:
        return frozenset(), frozenset()
    times = language.times
    names = [*chain(*times.months, *times.weekdays), *times.units]
    names += [moment for moment in times.moments if " " not in moment]
    numbers = [*chain(*times.numbers[1:])]
    if language is ENGLISH:
        names.append(_MORE_TIMES)
        numbers += [*times.numbers[0], _MORE_NUMBERS]
    indexed = [frozenset(indexable(" ".join(words)).split()) for words in (names, numbers)]
    return indexed[0], indexed[1]
