"""Suggestions for a command, an option or a value that does not exist."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence

from recollect.language.text import printable
from recollect.language.words import closest

SYNONYMS = {
    "add": "import",
    "cat": "read",
    "find": "search",
    "grep": "search",
    "help": "--help",
    "history": "list",
    "imports": "import --list",
    "load": "import",
    "ls": "list",
    "query": "search",
    "recent": "list",
    "remove": "delete",
    "rm": "delete",
    "settings": "config",
    "show": "read",
    "start": "serve",
    "status": "stats",
    "sync": "watch",
    "view": "read",
    "web": "serve",
}
"""What other programs call a command, and its name here."""
_MOST = 20
"""How many valid values an error lists."""


def describe_unknown(noun: str, value: str, names: Sequence[str], program: str = "") -> str:
    """There is no command 'serch'. Did you mean `recollect search`?"""
    text = f"There is no {noun} {quote(value)}."
    guesses = difflib.get_close_matches(value, names)
    if noun == "command" and value in SYNONYMS:
        guesses = [SYNONYMS[value]]
    if guesses:
        choices = " or ".join(f"`{f'{program} {guess}'.strip()}`" for guess in guesses)
        text += f" Did you mean {choices}?"
    elif noun != "command":
        text += f" Use one of: {', '.join(names)}."
    if noun == "command":
        text += "\nAll commands: recollect --help"
    return text


def describe_unknown_name(noun: str, value: str, names: Sequence[str]) -> str:
    """An unknown project, tag, source or role, with the values that exist, closest first."""
    if not names:
        return f"There is no {noun} {quote(value)}; the library has none."
    ordered = [printable(name) for name in closest(value, names)]
    listing = ", ".join(ordered[:_MOST])
    if len(ordered) > _MOST:
        listing += f" and {len(ordered) - _MOST:,} more"
    return f"There is no {noun} {quote(value)}. The {noun}s are: {listing}."


def describe_unknown_words(
    parser: argparse.ArgumentParser, words: Sequence[str], unknown: Sequence[str]
) -> str:
    """The first option that does not exist, and what it was probably meant to be."""
    for word in words:  # down to the parser of the command or action
        for action in parser._actions:
            if isinstance(action.choices, dict) and word in action.choices:
                parser = action.choices[word]
                break
    option = next((word for word in unknown if word.startswith("-") and word != "-"), None)
    hint = f"\nAll options: {parser.prog} --help"
    if option is None:
        listing = ", ".join(quote(word) for word in unknown)
        return f"`{parser.prog}` does not take {listing}.{hint}"
    name, equals, _ = option.partition("=")
    text = f"`{parser.prog}` has no option {printable(name)}."
    takes_query = any(action.dest == "query" for action in parser._actions)
    if takes_query and not equals and not option.startswith("--"):  # -role:tool, -staging
        return f"{text} Put a query with a minus in quotes: 'words {printable(option)}'{hint}"
    guesses = difflib.get_close_matches(name, parser._option_string_actions)
    if guesses:
        text += f" Did you mean {' or '.join(guesses)}?"
    return text + hint


def quote(value: str) -> str:
    return f"'{printable(value)}'"
