"""Symbols in a text: names such as C++, and codes of terminals.

Text engines drop symbols, so C++ would be indexed as the letter C. The names of a letter and
symbols are indexed as words instead: `cplusplus`, `csharp`, `fsharp`, `aplus`. Longer names such as
Disney+ keep their letters, so that they are also found without the symbol.
"""

from __future__ import annotations

import re
from functools import cache

# -- names ---

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


# -- codes of terminals ---
# Programs write them to colour their output. Only what is certainly such a code is removed. Without
# the escape character, `[33m` may be a text. Some programs replace that character by U+FFFD. Then
# only colours are removed.

CODE_STARTS = ("\x1b", "\ufffd[", "\x9b")
"""Every text with a code contains one of these."""
_CODE = re.compile(
    r"""
    \x1b\[ [0-?]* [\ -/]* (?: (?P<move>[A-Idf]) | [@-~] )
    | \x1b\] [^\x00-\x1f\x7f]* (?: \x07 | \x1b\\ )    # titles of windows, links
    | \x1b[PX^_] [^\x00-\x1f\x7f]* \x1b\\
    | \x1b[()*+][0-2AB]                               # character sets
    | \x1b[78=>cM]                                    # save, restore, reset
    | \x9b[0-9;:]+m
    # After the character that could not be read, `[3m]` may be a length.
    | \ufffd\[ (?: [0-9;:]+ m (?!\]) | m (?![\w\]]) ) (?: \ufffd\[K )?
    """,
    re.VERBOSE,
)


def without_terminal_codes(text: str) -> str:
    """A text as a terminal shows it, without colours. Movements of the cursor separate words."""
    # Every text that is indexed or ranked comes here, and single characters are looked up fastest.
    if "\x1b" in text or (not text.isascii() and ("\ufffd" in text or "\x9b" in text)):
        return _CODE.sub(_replacement, text)
    return text


def has_terminal_codes(text: str) -> bool:
    return bool(code_spans(text))


def code_spans(text: str) -> list[tuple[int, int]]:
    """Where the codes of a text start and end."""
    if not any(start in text for start in CODE_STARTS):
        return []
    return [code.span() for code in _CODE.finditer(text)]


def position_with_codes(text: str, position: int) -> int:
    """Where a character of the text without codes is in the text itself."""
    if not has_terminal_codes(text):
        return position
    removed_characters = 0
    for code in _CODE.finditer(text):
        replacement = _replacement(code)
        if code.start() - removed_characters + len(replacement) > position:
            break
        removed_characters += code.end() - code.start() - len(replacement)
    return position + removed_characters


def _replacement(code: re.Match[str]) -> str:
    if code["move"]:
        return " "
    return ""
