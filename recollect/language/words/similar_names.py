"""Names in the order of how similar they are to a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, names: Iterable[str]) -> list[str]:
    """All names, the most similar ones first. The others keep their order."""
    names = list(dict.fromkeys(names))
    by_casefold: dict[str, list[str]] = {}
    for each in names:
        by_casefold.setdefault(each.casefold(), []).append(each)
    matches = difflib.get_close_matches(name.casefold(), by_casefold, n=5, cutoff=0.5)
    similar = [each for match in matches for each in by_casefold[match]]
    longer = [each for each in names if name.casefold() in each.casefold()]
    return list(dict.fromkeys([*similar, *longer, *names]))
