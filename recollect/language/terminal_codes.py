"""Remove the codes in the output of programs that a terminal interprets, such as colours.

Only what is certainly such a code is removed. Without the escape character, `[33m` may be a text.
Some programs replace that character by U+FFFD. Then only colours are removed.
"""

from __future__ import annotations

import re

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
