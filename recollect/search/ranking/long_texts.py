"""The part of a very long text that the ranker reads."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.symbol_names import symbol_name
from recollect.language.terminal_codes import without_terminal_codes
from recollect.search.queries.terms import Term
from recollect.settings import LIMITS

# The first match is looked for up to here.
_MAX_CHARACTERS_SEARCHED = 250_000


def ranked_part(text: str, terms: Sequence[Term]) -> str:
    """The whole text, or if it is very long, the part around the first match."""
    text = without_terminal_codes(text)
    size = LIMITS.ranked_characters
    if len(text) <= size:
        return text
    start = max(0, _first_match(text, terms) - size // 4)
    return text[start : start + size]


def _first_match(text: str, terms: Sequence[Term]) -> int:
    """About where the rarest term is; 0 if none is near the beginning.

    Bytes are searched, because they become lower case much faster than text.
    """
    data = text[:_MAX_CHARACTERS_SEARCHED].encode("utf-8", "surrogatepass").lower()
    for term in sorted(terms, key=lambda term: -term.weight):
        first_words = {
            (symbol_name(form[0]) or form[0]).encode("utf-8", "surrogatepass")
            for form in term.forms
        }
        places = [place for place in map(data.find, first_words) if place >= 0]
        if places:
            return len(data[: min(places)].decode("utf-8", "ignore"))
    return 0
