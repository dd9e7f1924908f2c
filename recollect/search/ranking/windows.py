"""The best window of each text, and what it says about an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.search.queries.terms import Term
from recollect.search.ranking import answer
from recollect.search.ranking.bm25 import BM25
from recollect.search.ranking.term_finder import Matches, Texts
from recollect.search.ranking.text_columns import Column, TextColumns

_K1, _B = 0.9, 0.4
_WINDOW_WORDS = 120
_AVERAGE_WINDOW_WORDS = 50


def best_windows(
    terms: Sequence[Term], matches: Matches, columns: TextColumns
) -> tuple[Column, Column]:
    """BM25 and the number of the best window of each text.

    Terms in the title and the metadata count in every window.
    """
    size = len(columns.lengths)
    # A row for the first window of each text, and one for each later window with a match.
    texts, windows, rows = np.arange(size), np.zeros(size, np.intp), matches.texts
    later = np.flatnonzero(matches.positions >= _WINDOW_WORDS)
    if len(later):
        stride = matches.positions.max() + 1
        keys = rows[later] * stride + matches.positions[later] // _WINDOW_WORDS
        is_first = np.ones(len(keys), np.bool_)  # the first match of a window
        is_first[1:] = keys[1:] != keys[:-1]
        rows = rows.copy()
        rows[later] = size - 1 + np.cumsum(is_first)
        texts = np.concatenate([texts, keys[is_first] // stride])
        windows = np.concatenate([windows, keys[is_first] % stride])
    counts = matches._replace(texts=rows).counts(len(texts), len(terms))
    counts += (columns.is_in_metadata | columns.is_in_title)[texts]
    lengths = np.minimum(columns.lengths[texts] - windows * _WINDOW_WORDS, _WINDOW_WORDS)
    scores = BM25(terms, _K1, _B).scores(counts, lengths[:, np.newaxis] / _AVERAGE_WINDOW_WORDS)
    best = np.arange(size)
    for row, text in enumerate(texts[size:].tolist(), size):
        if scores[row] > scores[best[text]]:
            best[text] = row
    return scores[best], windows[best]


def window_traits(question: str, texts: Texts, windows: Column) -> tuple[Column, Column]:
    """The traits of the words in a window of each text, and the share of the first person.

    See `search.ranking.answer`. What the question asks for has the trait ANSWER.
    """
    starts = texts.starts[: len(windows)] + _WINDOW_WORDS * windows
    ends = np.minimum(starts + _WINDOW_WORDS, texts.ends[: len(windows)])
    bounds = np.column_stack([starts, ends]).ravel()
    traits = np.zeros(len(texts.words) + 1, np.uint8)  # `reduceat` accepts no end of the array
    traits[:-1] = texts.vocabulary.traits(texts.words)
    answer_type = answer.AnswerType(question)
    if answer_type.traits:
        numbers = texts.vocabulary.numbers(answer_type.words).values()
        is_answer = texts.codes(dict.fromkeys(numbers, 1)) > 0
        traits[:-1] |= np.uint8(answer.ANSWER) * (
            is_answer | ((traits[:-1] & answer_type.traits) > 0)
        )
    # For an empty window, `reduceat` returns the next word.
    window_traits = np.bitwise_or.reduceat(traits, bounds)[::2] * (starts < ends)
    first_person = np.add.reduceat(traits & answer.FIRST_PERSON, bounds, dtype=np.intp)[::2]
    is_in_first_person = window_traits & answer.FIRST_PERSON
    return window_traits, is_in_first_person * first_person / np.maximum(ends - starts, 1)
