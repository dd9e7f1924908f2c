"""How the texts of candidates match a query, as columns.

Features are computed for all candidates of a pool at once, by operations on whole arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# The results of most operations on arrays have no known type.
Column = Any
"""An array with a value of each candidate."""
TermMatrix = Any
"""An array with a value of each candidate (a row) and each term of the query."""


class TextColumns(NamedTuple):
    """A row for each candidate."""

    scores: Column
    """BM25 of the best window."""
    lengths: Column
    """Words in the text."""
    counts: TermMatrix
    """How often the text has the term."""
    is_in_title: TermMatrix
    is_in_metadata: TermMatrix
    """The author's name or the date has the term."""
    proximity: Column
    """See `TermPairs`."""
    adjacency: Column
    is_as_typed: TermMatrix
    """The text has the term in the form in which it was typed."""
    has_phrase: Column
    """The text or the title contains the words next to each other, exactly as typed."""
    traits: Column
    """The traits of the words in the best window; see `window_traits`."""
    first_person: Column
    """The share of words such as "I" and "our" in the best window."""

    @classmethod
    def zeros(cls, rows: int, terms: int) -> TextColumns:
        column, matrix = np.zeros(rows), np.zeros((rows, terms), np.bool_)
        return cls(
            scores=column,
            lengths=column,
            counts=matrix,
            is_in_title=matrix,
            is_in_metadata=matrix,
            proximity=column,
            adjacency=column,
            is_as_typed=matrix,
            has_phrase=column,
            traits=np.zeros(rows, np.uint8),
            first_person=column,
        )

    @property
    def is_in_text(self) -> TermMatrix:
        return self.counts > 0

    @property
    def is_anywhere(self) -> TermMatrix:
        """The text, the title, the author's name or the date has the term."""
        return self.is_in_text | self.is_in_title | self.is_in_metadata
