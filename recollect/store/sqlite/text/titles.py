"""Find words in the titles of documents.

A title contains a word by the rule of filters (`titled` in `sql_functions.py`), which needs Python.
So one scan in SQL selects the titles that may contain one of the words, and these are checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.queries.query_tree import Word
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.connections.sql_functions import title_pattern, title_words

# SQLite limits the depth of an expression.
_WORDS_PER_SCAN = 200
_MAY_CONTAIN = "instr(lower(d.title), ?) > 0"
# SQLite cannot compare other characters as the index has them.
_IS_NOT_ASCII = "length(cast(d.title as blob)) <> length(d.title)"


def title_matches(db: Connection, words: Sequence[Word]) -> list[int]:
    """See Store.title_matches."""
    openings: dict[int, None] = {}
    patterns = [title_pattern(word.text + "*" * word.prefix) for word in dict.fromkeys(words)]
    for start in range(0, len(patterns), _WORDS_PER_SCAN):
        some_patterns = patterns[start : start + _WORDS_PER_SCAN]
        titles = [(key, title_words(title)) for key, title in _titles_to_check(db, some_patterns)]
        for pattern in some_patterns:
            openings |= {key: None for key, title in titles if pattern in title}
    return list(openings)


def _titles_to_check(db: Connection, patterns: Sequence[str]) -> list[tuple[int, str]]:
    """The opening passages and titles of documents whose title may contain a pattern."""
    longest_words = [max(pattern.split(), key=len, default="") for pattern in patterns]
    condition = "true"
    if "".join(longest_words).isascii():
        condition = " or ".join([_IS_NOT_ASCII, *[_MAY_CONTAIN] * len(patterns)])
    else:
        longest_words = []
    rows = db.rows(
        f"select d.opening, d.title from document d where d.opening is not null and ({condition})",
        longest_words,
    )
    return [(key, title) for key, title in rows]
