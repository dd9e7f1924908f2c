"""The terms of a query in the candidates."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import cached_property
from itertools import accumulate

import numpy as np

from recollect.language.detection import language_of
from recollect.language.queries.intent import QUESTION
from recollect.language.symbol_names import has_symbol_name
from recollect.language.text import tokens
from recollect.language.when import date_words
from recollect.language.words.umlauts import transcribed
from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.queries.terms import DATE_WORDS, Form, Term
from recollect.search.ranking.long_texts import ranked_part
from recollect.search.ranking.scored import ScoredCandidate
from recollect.search.ranking.term_finder import TermFinder, Texts
from recollect.search.ranking.term_pairs import Match, TermPairs
from recollect.search.ranking.text_columns import Column, TermMatrix, TextColumns
from recollect.search.ranking.vocabulary import current_vocabulary
from recollect.search.ranking.windows import best_windows, window_traits
from recollect.settings import LIMITS
from recollect.store.values import Candidate

_PUNCTUATION = ".,;:!?…\"'“”‘’"  # of sentences, not of names in code


def find_terms(query: RankingQuery, pool: Sequence[ScoredCandidate]) -> None:
    """Find the terms of the query in each candidate.

    Of candidates that no arm found, only what the scores of others depend on is found.
    """
    if not pool:
        return
    batch = _Batch(query, [scored.candidate for scored in pool])
    columns = batch.columns
    is_ranked = any(scored.by_text or scored.by_vector for scored in pool)
    if is_ranked:
        columns = batch.all_columns()
    for row, (scored, text_score) in enumerate(zip(pool, columns.scores.tolist(), strict=True)):
        scored.batch = columns
        scored.row = row
        scored.text_score = text_score
    if is_ranked:
        _set_terms(pool, columns)
        for scored, fingerprint in zip(pool, batch.texts.fingerprints().tolist(), strict=False):
            scored.fingerprint = fingerprint


def _set_terms(pool: Sequence[ScoredCandidate], columns: TextColumns) -> None:
    """Set the numbers of the terms of each candidate."""
    for scored, terms, title_terms, metadata_terms in zip(
        pool,
        _term_numbers(columns.is_in_text),
        _term_numbers(columns.is_in_title),
        _term_numbers(columns.is_in_metadata),
        strict=True,
    ):
        scored.terms = terms
        scored.title_terms = title_terms
        scored.metadata_terms = metadata_terms


def _term_numbers(matrix: TermMatrix) -> list[tuple[int, ...]]:
    """The numbers of the terms of each row, in order."""
    numbers: list[tuple[int, ...]] = [()] * len(matrix)
    size = matrix.shape[1]
    for cell in np.flatnonzero(matrix).tolist():
        numbers[cell // size] += (cell % size,)
    return numbers


class _Batch:
    """The texts of several candidates, and the matches in them."""

    def __init__(self, query: RankingQuery, candidates: Sequence[Candidate]) -> None:
        self._query = query
        self._size = len(candidates)
        contents = [candidate.content for candidate in candidates]
        if max(map(len, contents)) > LIMITS.ranked_characters:
            contents = [ranked_part(content, query.terms) for content in contents]
        self._contents = contents
        # The titles of all candidates, then their metadata. Many are the same.
        labels = [candidate.indexed_title for candidate in candidates] + _metadata(
            query, candidates
        )
        distinct_labels = _labels_to_search(query, labels)
        self.texts = Texts(current_vocabulary(), contents + distinct_labels)
        """The texts of the candidates, then the labels."""
        matches = TermFinder(self.texts, query.terms).find()
        # The last row is that of labels that are not searched.
        counts = matches.counts(len(self.texts.lengths) + 1, len(query.terms))
        rows = {label: row for row, label in enumerate(distinct_labels, self._size)}
        label_rows = [rows.get(label, -1) for label in labels]
        self._title_rows = label_rows[: self._size]
        is_in_label = counts[label_rows] > 0
        self._matches = matches.in_first(self._size)
        columns = TextColumns.zeros(self._size, len(query.terms))._replace(
            lengths=self.texts.lengths[: self._size],
            counts=counts[: self._size],
            is_in_title=is_in_label[: self._size],
            is_in_metadata=is_in_label[self._size :],
        )
        scores, self._windows = best_windows(query.terms, self._matches, columns)
        self.columns = columns._replace(scores=scores)
        """Without those that only the score of the candidate itself depends on."""

    def all_columns(self) -> TextColumns:
        query = self._query
        has_several = self.columns.is_in_text.sum(axis=1) > 1
        pairs = TermPairs(query.terms)
        columns = self.columns._replace(proximity=self._each(pairs.proximity, has_several))
        if query.intent == QUESTION:
            traits, first_person = window_traits(query.text, self.texts, self._windows)
            columns = columns._replace(traits=traits, first_person=first_person)
        else:
            columns = columns._replace(
                adjacency=self._each(pairs.adjacency, has_several), is_as_typed=self._as_typed()
            )
        if query.phrase is not None:
            columns = columns._replace(has_phrase=self._contain(query.phrase))
        return columns

    def _as_typed(self) -> TermMatrix:
        """Whether each text has each term in the form in which it was typed."""
        matrix = np.zeros((self._size, len(self._query.terms)), np.bool_)
        symbols = _words_with_symbols(self._query.text)
        for number, term in enumerate(self._query.terms):
            if term.forms[0] in symbols:
                matrix[:, number] = [symbols[term.forms[0]] in text for text in self._folded]
            else:
                typed_form = Term(term.forms[:1], term.prefix)
                matrix[:, number] = self.texts.contain(typed_form)[: self._size]
        return matrix

    @cached_property
    def _folded(self) -> list[str]:
        return [content.lower() for content in self._contents]

    def _contain(self, phrase: Term) -> Column:
        """Whether the text or the title of each candidate contains a phrase."""
        contain = np.append(self.texts.contain(phrase), False)
        return contain[: self._size] | contain[self._title_rows]

    def _each(self, measure: Callable[[Sequence[Match]], float], is_measured: Column) -> Column:
        """A measure of the matches of each candidate, or 0."""
        rows = np.flatnonzero(is_measured)
        starts = np.searchsorted(self._matches.texts, rows).tolist()
        ends = np.searchsorted(self._matches.texts, rows, "right").tolist()
        positions, terms = self._matches.positions.tolist(), self._matches.terms.tolist()
        matches = list(zip(positions, terms, strict=True))
        column = np.zeros(self._size)
        column[rows] = [
            measure(matches[start:end]) for start, end in zip(starts, ends, strict=True)
        ]
        return column


def _words_with_symbols(text: str) -> dict[Form, str]:
    """The words that were typed with symbols, such as @retry or foo(), and how."""
    words = [word.strip(_PUNCTUATION) for word in text.lower().split()]
    return {
        (tokens(word)[0],): word for word in words if len(tokens(word)) == 1 and not word.isalnum()
    }


def _labels_to_search(query: RankingQuery, labels: Iterable[str]) -> list[str]:
    """Titles, authors and dates, each once, without most of those that contain no term."""
    distinct = list(dict.fromkeys(labels))
    # Their words differ from the text in more than lower case.
    others: list[str] = []
    searched: list[str] = []
    for label in distinct:
        if label.isascii() and not has_symbol_name(label):
            searched.append(label)
        else:
            others.append(label)
    lines = "\n".join(searched).lower()
    ends = list(accumulate([len(label) + 1 for label in searched]))
    rows = set()
    for word in {form[0] for term in query.terms for form in term.forms if form[0]}:
        place = lines.find(word)
        while place >= 0:
            row = bisect(ends, place)
            rows.add(row)
            place = lines.find(word, ends[row])
    return others + [searched[row] for row in rows]


def _metadata(query: RankingQuery, candidates: Sequence[Candidate]) -> list[str]:
    """The author of each candidate, and its date if the query has words of dates.

    A message of August is not about next August.
    """
    has_date_terms = any(
        form[0].isdigit() or form[0] in DATE_WORDS for term in query.terms for form in term.forms
    )
    if not has_date_terms or language_of(query.text).asks_for_future(query.text):
        return [_author_label(candidate) for candidate in candidates]
    days: dict[date, str] = {}
    metadata = []
    for candidate in candidates:
        dates = ""
        if candidate.created_at is not None:
            day = candidate.created_at.date()
            if day not in days:
                days[day] = date_words(candidate.created_at)
            dates = days[day]
        metadata.append(f"{_author_label(candidate)} {dates}")
    return metadata


def _author_label(candidate: Candidate) -> str:
    """The name of the author, also in letters without umlauts."""
    author = candidate.author or ""
    if author.isascii():
        return author
    return f"{author} {transcribed(author)}"
