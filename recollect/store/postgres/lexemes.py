"""Texts as tsvector, and queries as tsquery.

Recollect splits text into words itself, so the server's language settings do not matter.

A tsvector has limits: the first 255 positions of a word, no position after 16,383, and one megabyte
in total. If a text exceeds them, phrases are checked against the text itself. So is NEAR, which
PostgreSQL does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.symbols import without_terminal_codes
from recollect.language.text import fold, tokens
from recollect.settings import LIMITS

# Words are cut to this length.
LONGEST = 128
# Matches nothing, because no text contains this word.
NO_MATCH = "'\x1f'"
_LAST_POSITION = 16_383
_POSITIONS = 255
_BYTES = 900_000


# -- texts ---


class TextVector(NamedTuple):
    literal: str
    """The text as a tsvector literal."""
    length: int
    """The number of words."""
    has_all_positions: bool
    has_all_words: bool
    distinct: set[str]


def text_vector(title: str, content: str) -> TextVector:
    """The words of a passage, with the label A for words of the title."""
    title_words = tokens(title)
    content_words = tokens(content[: LIMITS.indexed_characters])
    is_complete = len(content) <= LIMITS.indexed_characters
    # One position between title and content stays free, so that no phrase spans both.
    start = len(title_words) + 2 if title_words else 1
    sections = ((title_words, 1, "A"), (content_words, start, ""))
    if len(title_words) + len(content_words) <= _POSITIONS:
        return short_text_vector(sections, is_complete)
    return long_text_vector(sections, is_complete)


def folded_content(content: str) -> str | None:
    """The form in which a content is searched literally; None if the server can make it."""
    plain = without_terminal_codes(content)
    if plain == content and content.isascii():
        return None
    return fold(plain)


_Sections = Sequence[tuple[Sequence[str], int, str]]
"""Each section has words, the position of the first word, and a label."""


def short_text_vector(sections: _Sections, is_complete: bool) -> TextVector:
    """Every position fits, as in most messages, so there are no limits to check."""
    positions: dict[str, str] = {}
    length = 0
    for words, start, label in sections:
        length += len(words)
        for position, word in enumerate(words, start):
            word = word[:LONGEST]
            earlier = positions.get(word)
            if earlier is None:
                positions[word] = f"{position}{label}"
            else:
                positions[word] = f"{earlier},{position}{label}"
    literal = " ".join([f"'{word}':{each}" for word, each in positions.items()])
    return TextVector(literal, length, is_complete, is_complete, set(positions))


def long_text_vector(sections: _Sections, is_complete: bool) -> TextVector:
    positions: dict[str, list[str]] = {}
    size = 0
    has_all_positions = has_all_words = is_complete
    for words, start, label in sections:
        for position, word in enumerate(words, start):
            word = word[:LONGEST]
            word_positions = positions.get(word)
            if word_positions is None:
                size += len(word.encode()) + 6
                if size > _BYTES:
                    has_all_positions = has_all_words = False
                    break
                word_positions = positions[word] = []
            if position > _LAST_POSITION or len(word_positions) >= _POSITIONS:
                has_all_positions = False
            else:
                size += 2
                word_positions.append(f"{position}{label}")
    literal = " ".join(
        f"'{word}':{','.join(each)}" if each else f"'{word}'" for word, each in positions.items()
    )
    length = sum(len(words) for words, _, _ in sections)
    return TextVector(literal, length, has_all_positions, has_all_words, set(positions))


# -- queries ---


@dataclass(frozen=True, slots=True)
class TextQuery:
    tsquery: str
    """Exact, or else a query that matches at least all correct passages."""
    is_exact: bool
    has_phrases: bool
    """Whether positions matter, so that passages without all positions must be read."""
    without_positions: str
    """A query that matches at least all correct passages, even those without all positions."""


@lru_cache(2_000)  # a search needs those of its words and queries many times
def text_query(node: Node) -> TextQuery:
    is_exact = _is_exact(node)
    without_positions = _tsquery(node, positions=False) or NO_MATCH
    tsquery = without_positions
    if is_exact:
        tsquery = _tsquery(node, positions=True) or NO_MATCH
    return TextQuery(tsquery, is_exact, has_phrase(node), without_positions)


def _is_exact(node: Node) -> bool:
    match node:
        case Word(text):
            return all(len(word) < LONGEST for word in tokens(text))
        case Near():
            return False
        case Not(part):
            return _is_exact(part)
        case And(parts) | Or(parts):
            return all(map(_is_exact, parts))


def has_phrase(node: Node) -> bool:
    match node:
        case Word(text):
            return len(tokens(text)) > 1
        case Not(part):
            return has_phrase(part)
        case And(parts) | Or(parts):
            return any(map(has_phrase, parts))


def _tsquery(node: Node, positions: bool) -> str | None:
    """None if the index cannot exclude any passage."""
    match node:
        case Word(text, prefix):
            return phrase(tokens(text), prefix, positions)
        case Not(part):
            return negation(part, positions)
        case And(parts):
            queries = [q for q in (_tsquery(p, positions) for p in parts) if q is not None]
            return f"({' & '.join(queries)})" if queries else None
        case Or(parts):
            alternatives = [_tsquery(part, positions) for part in parts]
            if None in alternatives:
                return None
            return f"({' | '.join(query for query in alternatives if query)})"


def negation(node: Node, positions: bool) -> str | None:
    """Only an exact query can be negated."""
    if not positions and (not _is_exact(node) or has_phrase(node)):
        return None
    query = _tsquery(node, positions)
    return None if query is None else f"!({query})"


def phrase(words: Sequence[str], prefix: bool, positions: bool) -> str:
    if not words:
        return NO_MATCH
    lexemes = [f"'{word[:LONGEST]}'" + (":*" if len(word) > LONGEST else "") for word in words]
    if prefix and not lexemes[-1].endswith("*"):
        lexemes[-1] += ":*"
    if len(lexemes) == 1:
        return lexemes[0]
    operator = " <-> " if positions else " & "
    return f"({operator.join(lexemes)})"
