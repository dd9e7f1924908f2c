"""Names of a letter and symbols: C++, C#, F#, A+.

Text engines drop symbols, so C++ would be indexed as the letter C. These names are indexed as words
instead: `cplusplus`, `csharp`, `fsharp`, `aplus`. Longer names such as Disney+ keep their letters,
so that they are also found without the symbol.
"""

from __future__ import annotations

import re

SYMBOLS = ("+", "#")
"""Every text with such a name contains one of these."""
# The symbol comes first and its letter is looked up behind it, so that the regex engine can skip to
# the next symbol. After `++` may be a number: C++17.
_ENDING = re.compile(
    r"""
    [+#] (?<= \b [A-Za-z] [+#] )
    (?: (?<= \+ ) \+ )?
    (?! [+#] ) (?: (?<= \+\+ ) (?= \d ) | (?! \w ) )
    """,
    re.VERBOSE,
)
_WORDS = {"+": "plus", "++": "plusplus", "#": "sharp"}
_ENDING_BY_WORD = {word: ending for ending, word in _WORDS.items()}
_SPELLED_OUT = re.compile(f"([a-z])({'|'.join(_ENDING_BY_WORD)})")


def spell_out_symbols(text: str) -> str:
    """A text with `cplusplus` for C++ and so on. What follows such a name is another word."""
    if "+" in text or "#" in text:
        return _ENDING.sub(lambda ending: f"{_WORDS[ending[0]]} ", text)
    return text


def without_symbol_names(text: str) -> str:
    """A text with a space for each of these names."""
    for ending in reversed(list(_ENDING.finditer(text))):
        text = f"{text[: ending.start() - 1]} {text[ending.end() :]}"
    return text


def has_symbol_name(text: str) -> bool:
    return _ENDING.search(text) is not None


def symbol_name(word: str) -> str:
    """The name that a word of the index stands for, in lower case; empty if it is none."""
    name = _SPELLED_OUT.fullmatch(word)
    if name is None:
        return ""
    letter, ending = name.groups()
    return letter + _ENDING_BY_WORD[ending]
