"""Authors by name. People say only a part of a name, such as the first name."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import fold, tokens, transcribed


def authors_named(name: str, authors: Iterable[str]) -> tuple[str, ...]:
    """The authors with exactly this name, else all who have each of its words in theirs.

    Case, accents and the spelling of umlauts do not matter.
    """
    authors = tuple(authors)
    folded = fold(name)
    same = tuple(author for author in authors if fold(author) == folded)
    return same or tuple(author for author in authors if is_part(name, author))


def is_part(name: str, author: str) -> bool:
    names = spellings(author)
    return all(any(word in n for word in spellings(w) for n in names) for w in name.split())


def spellings(name: str) -> set[str]:
    """A name as it is indexed, between spaces. A word may be several tokens: O'Brien, 田中."""
    return {f" {' '.join(tokens(spelling))} " for spelling in (name, transcribed(name))}
