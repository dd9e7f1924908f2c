"""The expressions of SQLite's FTS5 over one column, `content`, which the Bus searches.

FTS5 has more than the operators of `language.queries.query`: column filters (`content : word`,
`- {author} : word`), `+` between the parts of a phrase, `""` for a quotation mark in a phrase, and
spaces before the `*` of a prefix. These are rewritten, and `parse` parses the rest. Text that FTS5
rejects, such as paths and code, is searched for as text if it cannot mean anything else.

Each phrase is replaced by its number in quotation marks while an expression is rewritten, so that
no pattern matches inside a phrase.
"""

from __future__ import annotations

import re

from recollect.language.queries.query import MalformedQuery, check_size, parse
from recollect.language.queries.query_tokens import has_exclusion
from recollect.language.queries.query_tree import Node

_CONTENT = "content"
_COLUMNS = frozenset((_CONTENT, "author", "message_id", "thread_id"))
_PHRASE = re.compile(r'"((?:[^"]|"")*)"')
_NUMBER = re.compile(r'"([0-9]+)"')
_COLUMN_FILTER = re.compile(
    r"""(?<![^\s(])(?P<minus>-\s*)?
    (?:\{(?P<names>[^{}]*)\}|(?P<name>content|author|message_id|thread_id|"[0-9]+"))\s*:\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_INITIAL = re.compile(r'(?<![^\s(])\^\s*["\w]')
_LONE_STAR = re.compile(r"(?:^|[(+)*]|(?<![^\s(])(?:AND|OR|NOT))\s*\*++(?![^\s)])")
_SPACE_BEFORE_STAR = re.compile(r'(?<=[\w"])\s+\*(?=[\w"\s),]|$)')
_STAR_INSIDE_WORD = re.compile(r'(?<=[\w"])\*(?=[\w"])')
_PART = r'"[0-9]+"|[^\s()"+*]+'
_PART_START = r'(?<![^\s()"+*])'  # a search that begins inside a part takes quadratic time
_PLUS = re.compile(rf'{_PART_START}({_PART})(?:\s+\+\s+|(?<=")\s*\+\s*|\s*\+\s*(?="))({_PART})')
_PREFIX_BEFORE_PLUS = re.compile(r"\*\s*\+\s")


def parse_fts5(text: str) -> Node:
    """Parse an FTS5 expression. Raises MalformedQuery, or InvalidInput if it is too long."""
    check_size(text)
    phrases: list[str] = []

    def number(phrase: re.Match[str]) -> str:
        phrases.append(phrase[1].replace('""', " "))
        return f'"{len(phrases) - 1}"'

    text = _PHRASE.sub(number, text)
    text = _COLUMN_FILTER.sub(lambda match: _drop_column_filter(match, phrases), text)
    _check(text)
    text = _SPACE_BEFORE_STAR.sub("*", text)
    text = _STAR_INSIDE_WORD.sub("* ", text)
    text = _join_phrases(text, phrases)
    return parse(_NUMBER.sub(lambda match: f'"{phrases[int(match[1])]}"', text))


def _drop_column_filter(match: re.Match[str], phrases: list[str]) -> str:
    """Nothing in place of a filter that includes `content`. Other columns are not searched."""
    if match["names"] is not None:
        names = _NUMBER.sub(lambda name: phrases[int(name[1])], match["names"]).split()
    else:
        names = [_NUMBER.sub(lambda name: phrases[int(name[1])], match["name"])]
    columns = {name.lower() for name in names}
    unknown = sorted(columns - _COLUMNS)
    if unknown and match["names"] is None:  # a phrase and a colon
        return match[0]
    if unknown or not columns:
        raise MalformedQuery(
            "A column filter names an unknown column. Only `content` can be searched."
        )
    if match["minus"] and _CONTENT in columns:
        raise MalformedQuery(
            "The filter excludes `content`, and no other column can be searched. To exclude a "
            "word, write `NOT word`."
        )
    if not match["minus"] and _CONTENT not in columns:
        raise MalformedQuery("Only the column `content` can be searched.")
    return ""


def _check(text: str) -> None:
    """Raise MalformedQuery for syntax that would otherwise be taken for text."""
    if _LONE_STAR.search(text):
        raise MalformedQuery("The query cannot be parsed: `*` must follow a word or a phrase.")
    if _PREFIX_BEFORE_PLUS.search(text):
        raise MalformedQuery(
            "The query cannot be parsed: only the last part of a phrase can be a prefix."
        )
    if _INITIAL.search(text):
        raise MalformedQuery(
            "`^` is not supported. To search for the character, put it in quotation marks."
        )
    if has_exclusion(text):
        raise MalformedQuery(
            "The query cannot be parsed: `-` excludes a column. To exclude a word, write `NOT "
            "word`. To search for the character, put it in quotation marks."
        )


def _join_phrases(text: str, phrases: list[str]) -> str:
    """The text with `a + b` as one phrase."""
    plus = _PLUS.search(text)
    while plus is not None:
        parts = [_NUMBER.sub(lambda match: phrases[int(match[1])], part) for part in plus.groups()]
        phrases.append(" ".join(parts))
        text = f'{text[: plus.start()]}"{len(phrases) - 1}"{text[plus.end() :]}'
        plus = _PLUS.search(text)
    return text
