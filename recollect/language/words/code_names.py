"""Names in code in other formats.

`EventLoop` is also written event_loop or "event loop", and get_user_name is also `getUserName`.
"""

from __future__ import annotations

import re

from recollect.language.text import tokens

_INNER_CAPITAL = re.compile("[a-z][A-Z]")
_PART_OF_CAMEL_CASE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_SNAKE_CASE = re.compile("[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")


def has_inner_capital(text: str) -> bool:
    """Whether a text contains a part of a name such as `PaymentService`."""
    return _INNER_CAPITAL.search(text) is not None


def other_names(text: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The names in a text: the words that the index has for each, and those of its other format.

    A name with capitals is split into its words. Those of a name with underscores are joined.
    """
    names: dict[tuple[str, ...], tuple[str, ...]] = {}
    for word in text.split():
        parts = tuple(tokens(word))
        if _SNAKE_CASE.fullmatch(word):
            names[parts] = ("".join(parts),)
        elif len(parts) == 1 and has_inner_capital(word):
            names[parts] = tuple(map(str.lower, _PART_OF_CAMEL_CASE.findall(word)))
    return names
