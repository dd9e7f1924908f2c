"""Words in katakana that the library has in part or with another ending.

コーヒーメーカー (coffee maker) is about コーヒー, and サーバー (server) is also written サーバ.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.queries.query_tree import Word
from recollect.search.queries.terms import Form
from recollect.store.base import Store

_LENGTH_MARK = "ー"
_MIN_PART = 3  # characters; shorter parts are in too many other words


def other_endings(form: Form) -> list[Form]:
    """A word in katakana without the mark for a long vowel at its end."""
    if not is_katakana_word(form) or form[-1] != _LENGTH_MARK or len(form) <= _MIN_PART:
        return []
    return [form[:-1]]


def parts_in_library(form: Form, store: Store) -> list[Form]:
    """The longest beginning and the longest end of a word in katakana that the library has."""
    if not is_katakana_word(form):
        return []
    lengths = range(len(form) - 1, _MIN_PART - 1, -1)
    beginnings = [form[:length] for length in lengths]
    ends = [form[-length:] for length in lengths if form[-length] != _LENGTH_MARK]
    return [*_longest_in_library(beginnings, store), *_longest_in_library(ends, store)]


def is_katakana_word(form: Sequence[str]) -> bool:
    """Whether the characters of a form are a word in katakana."""
    return len(form) >= _MIN_PART and all("ァ" <= char <= "ヺ" or char == "ー" for char in form)


def _longest_in_library(forms: Sequence[Form], store: Store) -> list[Form]:
    if not forms:
        return []
    frequencies, _ = store.frequencies([Word(" ".join(form)) for form in forms])
    in_library = [form for form, n in zip(forms, frequencies, strict=True) if n]
    return in_library[:1]
