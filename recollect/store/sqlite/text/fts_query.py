"""Translate query trees into FTS5 query syntax."""

from __future__ import annotations

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import indexable

MAX_TERM_CHARACTERS = 128
"""The vocabulary stores longer words up to here."""


def fts_query(node: Node) -> str:
    """A query tree in FTS5 syntax. All text is quoted, so none of it is taken as syntax."""
    match node:
        case Word(text, prefix):
            if prefix:
                return quote(text) + "*"
            return quote(text)
        case Not(part):
            return fts_query(part)
        case Or(parts):
            return "(" + " OR ".join(fts_query(part) for part in parts) + ")"
        case Near(parts, distance):
            return f"NEAR({' '.join(fts_query(part) for part in parts)}, {distance})"
        case And(parts):
            required = " AND ".join(fts_query(part) for part in parts if not isinstance(part, Not))
            excluded = " OR ".join(fts_query(part) for part in parts if isinstance(part, Not))
            if excluded:
                return f"(({required}) NOT ({excluded}))"
            return f"({required})"


def quote(text: str) -> str:
    """A text as a string in FTS5 syntax."""
    return '"' + indexable(text).replace('"', '""') + '"'


def quote_term(term: str) -> str:
    """A term of the vocabulary. One of the maximum length may be the beginning of a longer word."""
    if len(term) == MAX_TERM_CHARACTERS:
        return quote(term) + "*"
    return quote(term)
