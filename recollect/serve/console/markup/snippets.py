"""Snippets without Markdown: what a message says, not how it was typed."""

from __future__ import annotations

import re
from collections.abc import Sequence

Marks = Sequence[tuple[int, int]]

# What is removed, except for the text in the groups below.
_MARKUP = re.compile(
    r"""
    # The numbers of lists stay: they may as well be those of a date, or end a sentence.
    (?:(?<=\s)|^|(?<=…))\#{1,6}\s                                # headings
    # Elsewhere these are operators: a snippet has no lines.
    | (?:(?<=[.:;!?)\]]\s)|^|(?<=…))(?:>|[-*+])\s(?:\[[ xX]\]\s)?
    | !\[(?P<image>[^\]\n]{0,300})\]\([^)\s]{0,1000}+\)                   # ![image](url)
    | \[(?P<link>[^\]\n]{1,300})\]\([^)\s]{0,1000}+\)                     # [link](url)
    | (?<!\w)\[\[(?:[^\]|\n]{1,300}\|)?(?P<note>[^\]|\n]{1,300})\]\]    # [[note]], [[note|name]]
    | ```[A-Za-z0-9_+-]*\s?                                       # a fence with its language
    | (?P<ticks>`+)(?P<code>[^`]{1,300})(?P=ticks)
    | (?P<bold>\*\*|__|~~)(?P<strong>\S(?:[^*_~\n]{0,300}\S)?)(?P=bold)
    | (?<![\w*])\*(?P<star>[^\s*](?:[^*\n]{0,300}[^\s*])?)\*(?![\w*])
    | (?<!\w)_(?P<low>[^\s_](?:[^_\n]{0,300}[^\s_])?)_(?!\w)
    | \*\*|~~|(?<!`)`(?!`)                                        # marks cut off by the snippet
    | (?:(?<=\s)|^)\|(?=\s|$)|\|?(?:\s?:?(?<!-)-{3,}+:?\s?\|)+                 # tables
    """,
    re.VERBOSE,
)
_GROUPS = ("image", "link", "note", "code", "strong", "star", "low")
_MAX_DEPTH = 3  # bold text in a link, and so on


def plain_snippet(text: str, marks: Marks) -> tuple[str, list[tuple[int, int]]]:
    """A snippet and its marks without Markdown and repeated spaces."""
    indices = without_repeated_spaces(text, without_markup(text))
    places = {index: place for place, index in enumerate(indices)}
    plain_marks = []
    for start, end in marks:
        span = [places[index] for index in range(start, end) if index in places]
        if span:
            plain_marks.append((span[0], span[-1] + 1))
    return "".join(text[index] for index in indices), plain_marks


def without_markup(text: str) -> list[int]:
    """The indices of the characters that are not Markdown."""
    indices = list(range(len(text)))
    for _ in range(_MAX_DEPTH):
        remaining = remove_once("".join(text[index] for index in indices), indices)
        if len(remaining) == len(indices):
            break
        indices = remaining
    return indices


def remove_once(text: str, indices: Sequence[int]) -> list[int]:
    remaining: list[int] = []
    last = 0
    for match in _MARKUP.finditer(text):
        remaining += indices[last : match.start()]
        for name in _GROUPS:
            if match[name] is not None:
                remaining += indices[match.start(name) : match.end(name)]
        last = match.end()
    return [*remaining, *indices[last:]]


def without_repeated_spaces(text: str, indices: Sequence[int]) -> list[int]:
    remaining: list[int] = []
    for index in indices:
        follows_space = not remaining or text[remaining[-1]].isspace()
        if not (text[index].isspace() and follows_space):
            remaining.append(index)
    return remaining
