"""Authors by name. People say only a part of a name, such as the first name."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import fold, tokens


def authors_named(name: str, authors: Iterable[str]) -> tuple[str, ...]:
    """The authors with exactly this name, else all who have each of its words in theirs.

    Case and accents do not matter.
    """
    authors = tuple(authors)
    folded = fold(name)
    same = tuple(author for author in authors if fold(author) == folded)
    return same or tuple(author for author in authors if _is_part(name, author))


def _is_part(name: str, author: str) -> bool:
    """Whether a name is a part of an author's. A word may be several tokens: O'Brien, 田中."""
    author_words = f" {' '.join(tokens(author))} "
    return all(f" {' '.join(tokens(word))} " in author_words for word in name.split())
