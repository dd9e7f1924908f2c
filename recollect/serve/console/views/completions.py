"""Completions of the fields of a query, with the number of conversations or messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from recollect.language.queries.query_fields import ROLES
from recollect.language.text import fold
from recollect.library import Library
from recollect.model.sources import source_label
from recollect.serve.console.templating import plural

_MAX_OPTIONS = 8
_FIELD_HELP = {
    "role": "who wrote the message",
    "from": "the author of the message",
    "in": "the project",
    "project": "the project",
    "source": "where the conversation came from",
    "tag": "a tag",
    "title": "words in the title",
    "after": "on or after a date",
    "before": "on or before a date",
}


class Completion(NamedTuple):
    text: str
    """The whole query with the completion."""
    cursor: int
    """Where the cursor is then."""
    label: str
    details: str


def complete(library: Library, text: str, cursor: int) -> list[Completion]:
    """What the word before the cursor could become."""
    start = _field_start(text[:cursor])
    word = text[start:cursor]
    minus = ""
    if word.startswith("-"):
        minus, word = "-", word[1:]
    name, colon, value = word.partition(":")
    name = name.lower()
    if not colon:
        return _field_names(text, start, cursor, minus, name)
    if name not in _VALUES:
        return []
    prefix = fold(value.strip('"'))
    values = [value for value in _VALUES[name](library, prefix) if prefix in fold(value[0])]
    values.sort(key=lambda value: not fold(value[0]).startswith(prefix))
    return [
        _replace(text, start, cursor, f"{minus}{name}:{_quote(option)} ", details)
        for option, details in values[:_MAX_OPTIONS]
    ]


def _field_start(text: str) -> int:
    """The start of the last word. White space in quotes does not end a word."""
    start = 0
    in_quotes = False
    for index, character in enumerate(text):
        if character == '"':
            in_quotes = not in_quotes
        elif character.isspace() and not in_quotes:
            start = index + 1
    return start


def _field_names(text: str, start: int, cursor: int, minus: str, prefix: str) -> list[Completion]:
    if len(prefix) < 2:
        return []
    return [
        _replace(text, start, cursor, f"{minus}{name}:", help)
        for name, help in _FIELD_HELP.items()
        if name.startswith(prefix) and not (minus and name in ("before", "after"))
    ]


def _replace(text: str, start: int, cursor: int, word: str, details: str) -> Completion:
    rest = text[cursor:].lstrip()
    return Completion(text[:start] + word + rest, start + len(word), word.strip(), details)


def _quote(value: str) -> str:
    if re.search(r"[\s()\",]", value):
        return '"' + value.replace('"', " ") + '"'
    return value


# -- values ---

Values = Sequence[tuple[str, str]]


ValuesOf = Callable[[Library, str], Values]
"""Reads the values of a field. Those that do not contain the text may be left out."""


def _names(facet: str) -> ValuesOf:
    def values(library: Library, text: str) -> Values:
        names = library.facet_names(facet, text)
        return [(name, plural(count, "conversation")) for name, count in names]

    return values


def _sources(library: Library, text: str) -> Values:
    return [
        (name, f"{source_label(name)} · {plural(count, 'conversation')}")
        for name, count in library.facet_names("sources", text)
    ]


def _roles(library: Library, text: str) -> Values:
    stored = library.stats()["roles"]
    assert isinstance(stored, dict)
    return [(role, plural(stored.get(role, 0), "message")) for role in ROLES]


def _months(is_after: bool) -> ValuesOf:
    """Months, newest first, with the messages on that side of them."""

    def values(library: Library, text: str) -> Values:
        months = library.activity()["months"]
        options = []
        total = 0
        if is_after:
            months = list(reversed(months))
        for month, count in months:
            total += count
            options.append((month, plural(total, "message")))
        if not is_after:
            options.reverse()
        return options

    return values


_VALUES: dict[str, ValuesOf] = {
    "role": _roles,
    "in": _names("projects"),
    "project": _names("projects"),
    "source": _sources,
    "tag": _names("tags"),
    "after": _months(is_after=True),
    "before": _months(is_after=False),
}
