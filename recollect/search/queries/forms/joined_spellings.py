"""Words that join several words of a query.

Names in code, hashtags and many compounds are written as one word: `AbortController`,
`#buildinpublic`, "workout". Whoever looks for them often types several.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import pairwise

from recollect.language.text import is_unspaced, tokens
from recollect.search.queries.forms.joined_words import linking_elements

_MOST_WORDS = 4
_MIN_PART = 4  # letters of each part of a compound
_MIN_LETTERS = 5  # shorter words are often others: "so on" is not "soon"


def joined_spellings(text: str, words: AbstractSet[str]) -> dict[str, frozenset[str]]:
    """For each of some words of a text, the words that join it with its neighbours.

    They begin with one of these words, or join two of them: "log in" is "login", and "too many
    requests error" `TooManyRequestsError`.
    """
    all_words = tokens(text)
    spellings: dict[str, set[str]] = {}
    for start, first in enumerate(all_words):
        for end in range(start + 2, min(start + _MOST_WORDS, len(all_words)) + 1):
            parts = all_words[start:end]
            own = words & set(parts)
            if (first in words or len(own) > 1) and _can_be_one_word(parts):
                for part in own:
                    spellings.setdefault(part, set()).add("".join(parts))
    return {word: frozenset(joined) for word, joined in spellings.items()}


def compounds_of(first: str, second: str) -> list[str]:
    """The compounds that two words may form: "Datum" and "Rechnung" are a "Rechnungsdatum"."""
    if min(len(first), len(second)) < _MIN_PART or not (first.isalpha() and second.isalpha()):
        return []
    if is_unspaced(first) or is_unspaced(second):
        return []
    links = ["", *linking_elements()]
    return [
        f"{modifier}{link}{head}"
        for modifier, head in ((first, second), (second, first))
        for link in links
    ]


def _can_be_one_word(parts: list[str]) -> bool:
    if sum(map(len, parts)) < _MIN_LETTERS or any(map(is_unspaced, parts)):
        return False
    return not any(one.isdigit() and other.isdigit() for one, other in pairwise(parts))
