"""Training groups: a query, its right passage and seven wrong ones, as word pieces."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from recollect.models.pieces import Pieces
from recollect.models.reranker import AUTHOR_PIECES, QUERY_PIECES
from recollect.models.static import default_table
from tools.reranker.corpora import Corpus
from tools.reranker.words import content_words

WRONG = 7
LONGEST = 60  # pieces of a passage
_SIMILAR, _NEARBY = 4, 2  # wrong passages that share words, and from the same document
_COMMON = 800  # words in more passages than this find nothing similar
_BEST = 12
# How often groups of a kind are repeated: questions written by people are worth most.
REPEATS = {"question": 3, "statement": 1, "slot": 1, "request": 2}
# What people write to an assistant is about themselves; what it answers is not.
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|mine|we|our)\b|\bI'")
OWN_AUTHOR, ASSISTANT, NO_AUTHOR = 0, 1, 2


class WordIndex:
    """Finds passages that share rare words with a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        postings: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            for word in _words(text):
                postings[word].append(number)
        self._postings = postings
        self._count = len(texts)

    def similar(self, query: str, limit: int) -> list[int]:
        scores: Counter[int] = Counter()
        for word in sorted(_words(query)):
            numbers = self._postings.get(word, ())
            if len(numbers) <= _COMMON:
                weight = float(np.log1p(self._count / (len(numbers) + 1)))
                for number in numbers:
                    scores[number] += weight
        return [number for number, _ in scores.most_common(limit)]


def _words(text: str) -> set[str]:
    return {word.casefold()[:6] for word in content_words(text)}


def wrong_passages(corpus: Corpus, seed: int) -> list[list[int]]:
    """For every example, the numbers of seven wrong passages of the same corpus."""
    rng = random.Random(f"{seed} {corpus.name} wrong")  # noqa: S311
    index = WordIndex(corpus.texts)
    right: dict[str, set[int]] = defaultdict(set)
    for query, answer, _ in corpus.examples:
        right[query].add(answer)
    members: dict[int, list[int]] = defaultdict(list)
    for number, place in enumerate(corpus.places):
        members[place].append(number)
    result = []
    for query, answer, _ in corpus.examples:
        choice = _Choice(corpus.texts, right[query])
        similar = index.similar(query, _BEST)
        choice.add(rng.sample(similar, len(similar)), _SIMILAR)
        nearby = members[corpus.places[answer]]
        choice.add(rng.sample(nearby, min(len(nearby), 8)), _NEARBY)
        count = min(3 * WRONG, len(corpus.texts))
        choice.add(rng.sample(range(len(corpus.texts)), count), WRONG - len(choice.numbers))
        result.append(choice.numbers)
    return result


class _Choice:
    """Passages with different texts, none of them right."""

    def __init__(self, texts: Sequence[str], right: set[int]) -> None:
        self._texts = texts
        self._excluded = {texts[number] for number in right}
        self.numbers: list[int] = []

    def add(self, numbers: Sequence[int], count: int) -> None:
        for number in numbers:
            if count and self._texts[number] not in self._excluded:
                self._excluded.add(self._texts[number])
                self.numbers.append(number)
                count -= 1


class GroupWriter:
    """Collects the groups of all corpora in arrays of word pieces."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"{seed} groups")  # noqa: S311
        self._pieces = default_table()[1]
        self.queries: list[list[int]] = []
        self.authors: list[list[int]] = []
        self.passages: list[list[int]] = []
        self.passage_authors: list[int] = []
        self.groups: list[list[int]] = []
        self._author_numbers: dict[str, int] = {}

    def add(self, corpus: Corpus, wrong: list[list[int]]) -> None:
        numbers: dict[tuple[int, str], int] = {}
        for (query, answer, kind), others in zip(corpus.examples, wrong, strict=True):
            query_pieces = self._pieces.of(query)[:QUERY_PIECES]
            if len(others) < WRONG or not query_pieces:
                continue
            is_personal = corpus.authors[answer] == "user"
            members = [self._passage(corpus, answer, numbers)]
            for other in others:
                impersonal = is_personal and not _FIRST_PERSON.search(corpus.texts[other])
                by_assistant = impersonal and self._rng.random() < 0.8
                members.append(self._passage(corpus, other, numbers, by_assistant))
            group = [len(self.queries), self._prefix(corpus.authors[answer]), *members]
            self.queries.append(query_pieces)
            self.groups += [group] * REPEATS.get(kind, 1)

    def _prefix(self, author: str) -> int:
        """Which authors the group shows. Documentation may pass for an assistant's answer."""
        chance = self._rng.random()
        if not author:
            if chance < 0.15:
                return ASSISTANT
            return NO_AUTHOR
        if chance < 0.1:
            return NO_AUTHOR
        return OWN_AUTHOR

    def _passage(
        self,
        corpus: Corpus,
        number: int,
        numbers: dict[tuple[int, str], int],
        by_assistant: bool = False,
    ) -> int:
        author = corpus.authors[number]
        if by_assistant:
            author = "assistant"
        if (number, author) not in numbers:
            numbers[number, author] = len(self.passages)
            self.passages.append(self._pieces.of(corpus.texts[number])[:LONGEST])
            self.passage_authors.append(self._author(author))
        return numbers[number, author]

    def _author(self, name: str) -> int:
        if name not in self._author_numbers:
            self._author_numbers[name] = len(self.authors)
            self.authors.append(author_pieces(name, self._pieces))
        return self._author_numbers[name]

    def arrays(self) -> dict[str, np.ndarray]:
        result = {
            "groups": np.array(self.groups, np.int32),
            "passage_authors": np.array(self.passage_authors, np.int32),
            "assistant": np.array(author_pieces("assistant", self._pieces), np.uint16),
        }
        for name in ("queries", "authors", "passages"):
            lists = getattr(self, name)
            result[name] = np.array([piece for each in lists for piece in each], np.uint16)
            result[f"{name}_lengths"] = np.array([len(each) for each in lists], np.uint8)
        return result


def author_pieces(name: str, pieces: Pieces) -> list[int]:
    author = pieces.of(name[:100])[:AUTHOR_PIECES]
    if author:
        author += pieces.of(":")
    return author
