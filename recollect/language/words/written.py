"""Words of the index as people write them: with their accents, and not in pairs of characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recollect.language.text import is_unspaced, tokens

_WORD = re.compile(r"\w+")
_MOST_CHARACTERS = 20_000  # of a text


def as_written(name: str, texts: Iterable[str]) -> str:
    """A word as the first text that has it writes it, in lower case; itself if none has it.

    The index has no accents: ruckenschmerzen may be rückenschmerzen.
    """
    if not name.isalpha():
        return name
    for text in texts:
        if text.isascii():
            continue
        for match in _WORD.finditer(text[:_MOST_CHARACTERS]):
            if tokens(match[0]) == [name]:
                return match[0].lower()
    return name


def join_pairs(names: Sequence[str], text: str) -> list[str]:
    """The names of terms, without the overlap of those that follow each other in a text.

    Text in a script without spaces is indexed by pairs of characters: 非同 and 同期 are 非同期.
    """
    joined: list[str] = []
    for name in names:
        longer = ""
        if joined and name and is_unspaced(name) and joined[-1][-1] == name[0]:
            longer = joined[-1] + name[1:]
        if longer and longer in text:
            joined[-1] = longer
        else:
            joined.append(name)
    return joined
