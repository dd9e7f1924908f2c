"""Parts of an identifier that messages may have instead of all of it.

A path from this computer is longer than the path in a message, a link has a scheme, and a commit
has 40 digits of which people write seven.
"""

from __future__ import annotations

import re

from recollect.language.text import tokens
from recollect.search.queries.terms import Form

_HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{12,64}")
_MIN_HASH = 7
_SCHEME = re.compile(r"\A[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SEPARATOR = re.compile(r"[/\\]+")
_MIN_SEGMENTS = 2  # many files have the same name
_MAX_SEGMENTS = 12


def shorter_forms(identifier: str) -> list[Form]:
    """The forms of the parts, the longest one first."""
    digits = identifier.lower()
    if _HASH.fullmatch(digits):
        return [(digits[:size],) for size in range(len(digits) - 1, _MIN_HASH - 1, -1)]
    without_scheme = _SCHEME.sub("", identifier)
    segments = [segment for segment in _SEPARATOR.split(without_scheme) if segment]
    starts = range(max(1, len(segments) - _MAX_SEGMENTS), len(segments) - _MIN_SEGMENTS + 1)
    paths = [without_scheme, *("/".join(segments[start:]) for start in starts)]
    forms = [tuple(tokens(path)) for path in paths]
    return [form for form in forms if form and form != tuple(tokens(identifier))]
