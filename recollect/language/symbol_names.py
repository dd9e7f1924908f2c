"""Names of a letter and symbols: C++, C#, F#, A+.

Text engines drop symbols, so C++ would be indexed as the letter C. These names are indexed as words
instead: `cplusplus`, `csharp`, `fsharp`, `aplus`. Longer names such as Disney+ keep their letters,
so that they are also found without the symbol.
"""

from __future__ import annotations

import re
from functools import cache

_WORDS = {"+": "plus", "++": "plusplus", "#": "sharp"}
_SYMBOLS_BY_WORD = {word: symbols for symbols, word in _WORDS.items()}


@cache
def _ending() -> re.Pattern[str]:
    """The symbols of a name. Compiled on first use, because few texts have any.

    The symbol comes first and its letter is looked up behind it, so that the regex engine can skip
    to the next symbol. After `++` may be a number: C++17.
    """
    return re.compile(
        r"""
        [+#] (?<= \b [A-Za-z] [+#] )
        (?: (?<= \+ ) \+ )?
        (?! [+#] ) (?: (?<= \+\+ ) (?= \d ) | (?! \w ) )
        """,
        re.VERBOSE,
    )


def spell_out_symbols(text: str) -> str:
    """A text with `cplusplus` for C++ and so on. What follows such a name is another word."""
    if "+" in text or "#" in text:
        return _ending().sub(lambda ending: f"{_WORDS[ending[0]]} ", text)
    return text


def without_symbol_names(text: str) -> str:
    """A text with a space for each of these names."""
    if not has_symbol_name(text):
        return text
    for ending in reversed(list(_ending().finditer(text))):
        text = f"{text[: ending.start() - 1]} {text[ending.end() :]}"
    return text


def has_symbol_name(text: str) -> bool:
    return ("+" in text or "#" in text) and _ending().search(text) is not None


def symbol_name(word: str) -> str:
    """The name that a word of the index stands for, in lower case; empty if it is none."""
    letter, symbols = word[:1], _SYMBOLS_BY_WORD.get(word[1:])
    if symbols is None or not "a" <= letter <= "z":
        return ""
    return letter + symbols
