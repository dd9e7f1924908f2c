"""The symbols of a text, to find it where an index of words cannot: `->`, `.com`, U.S.

Every symbol counts by itself and together with each of its neighbours, unless that is a space. A
text contains another one only if it has all of its symbols. Letters with accents count as well,
because the index of words has them without.
"""

from __future__ import annotations

import re

# What precedes a symbol is looked up behind it, so that the regex engine can skip to the next one.
_NEIGHBOURS = r"(?<=(..))(?=(.?))"
_ASCII_SYMBOL = re.compile(r"[!-/:-@\[-`{-~]" + _NEIGHBOURS, re.DOTALL)
_SYMBOL = re.compile(r"(?:[^\w\s]|[_\xaa-\u024f])" + _NEIGHBOURS, re.DOTALL)


def symbol_pairs(text: str) -> set[str]:
    """The symbols of a text in its `comparable` form, alone and with their neighbours."""
    pattern = _ASCII_SYMBOL if text.isascii() else _SYMBOL
    pairs: set[str] = set()
    for before, after in set(pattern.findall(f" {text}")):
        symbol = before[1]
        pairs.update((symbol, before.lstrip(), (symbol + after).rstrip()))
    return pairs
