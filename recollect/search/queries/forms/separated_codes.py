"""Codes in which the library has separators that the query lacks.

Who types the name of a device or a licence plate from memory leaves out hyphens, or has them in
other places: `wh1000xm4` is also WH-1000XM4, and `1xyz789` is 1-XYZ-789.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from recollect.language.queries.query_tree import Word
from recollect.search.queries.terms import Form
from recollect.store.base import Store

_CODE = re.compile(r"(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,24}")
_BETWEEN_LETTER_AND_DIGIT = re.compile(r"(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])")
_MOST_PARTS = 4


def separated_forms(code: str, store: Store) -> list[Form]:
    """The ways in which the library writes a code with separators."""
    if not _CODE.fullmatch(code):
        return []
    splits = _splits(code)
    words = store.known_words(sorted({part for split in splits for part in split}))
    forms = [split for split in splits if words.issuperset(split)]
    if not forms:
        return []
    frequencies, _ = store.frequencies([Word(" ".join(form)) for form in forms])
    return [form for form, frequency in zip(forms, frequencies, strict=True) if frequency]


def _splits(code: str) -> list[Form]:
    """The code in two parts, and in more parts that begin between a letter and a digit."""
    splits = [_cut(code, [place]) for place in range(1, len(code))]
    places = [match.start() for match in _BETWEEN_LETTER_AND_DIGIT.finditer(code)]
    for count in range(2, min(len(places), _MOST_PARTS - 1) + 1):
        splits += [_cut(code, starts) for starts in combinations(places, count)]
    return splits


def _cut(text: str, starts: Sequence[int]) -> Form:
    return tuple(text[start:end] for start, end in pairwise([0, *starts, len(text)]))
