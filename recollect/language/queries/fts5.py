"""The expressions of SQLite's FTS5 over one column, `content`, which the Bus searches.

    a b            Both. This binds tighter than any operator: `a NOT b c` excludes what has both.
    a NOT b        `a` without `b`. NOT binds tighter than AND, and AND tighter than OR.
    a + b          The phrase "a b". In a phrase, `""` is a quotation mark.
    a*  "a b" *    A prefix. There may be spaces before the star.
    NEAR(a b, 5)   Both, with at most five words between them. Without parentheses NEAR is a word.
    content : a    Searches a column, as `- {author} : a` does. Only `content` is indexed.

Text that FTS5 rejects, such as paths and code, is searched for as text if it cannot mean anything
else. `a AND NOT b`, and parentheses next to words, mean what they seem to mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.language.queries.query import (
    DEFAULT_DISTANCE,
    MalformedQuery,
    ParseError,
    Parser,
    check_size,
)
from recollect.language.queries.query_tokens import MINUS, Token, has_flag, near_distance
from recollect.language.queries.query_tree import Near, Node, Not, Word, all_of, typed_word
from recollect.language.text import has_token
from recollect.settings import LIMITS

_CONTENT = "content"
_COLUMNS = (_CONTENT, "author", "message_id", "thread_id")
_STRING = r'"(?:[^"]|"")*+"'
_LETTER = r"[^\x00-/:-@\[-^`{-\x7f\s]"  # of a word that FTS5 accepts without quotation marks
_STAR = rf'\s*\*(?=["\s()+]|{_LETTER}|$)'
_PLUS = rf'\+(?=\s*(?:"|{_LETTER}))'
_TOKEN = re.compile(
    rf"""\s*(?P<token>(?P<column>-?\s*
        (?:\{{(?P<names>[^{{}}]*)\}}|(?P<name>(?i:{"|".join(_COLUMNS)})|{_STRING}))\s*:)
    |NEAR\s*\((?P<near>(?:[^()"]|{_STRING})*+)\)
    |(?P<operator>(?:AND|OR|NOT)(?![^\s()"])|[()]|{_PLUS})
    |(?P<error>"(?!{_STRING[1:]})|NEAR\s*\(|NEAR/[0-9]|\^\s*["\w]|\*(?![^\s)]))
    |(?:(?P<phrase>{_STRING})|(?P<word>{_LETTER}++(?=["\s)]|\s*{_PLUS}|{_STAR}|$)))(?P<star>{_STAR})?
    |(?P<text>[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+))""",
    re.VERBOSE,
)
_ERRORS = {
    '"': "a quotation mark is not closed",
    "N": "NEAR takes words and phrases in parentheses, as in `NEAR(a b, 5)`",
    "*": "`*` must follow a word or a phrase",
    "^": "`^` is not supported. To search for the character, put it in quotation marks",
}


def parse_fts5(text: str) -> Node:
    """Parse an FTS5 expression. Raises MalformedQuery, or InvalidInput if it is too long."""
    check_size(text, LIMITS.long_query_bytes)
    node = _Parser(list(_tokens(text)), LIMITS.expression_terms).query()
    if node is None:
        raise MalformedQuery(
            "The query contains no word to search for in messages. Only the column `content` can "
            "be searched. To exclude a word, write `NOT word`."
        )
    return node


# -- tokens ---


def _tokens(text: str) -> Iterator[Token]:
    text = text.rstrip()
    flagged = has_flag(text)
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        assert match is not None  # every character except white space starts a token
        minus = MINUS.match(text, match.start("token"))
        if minus and not match["column"] and (minus["phrase"] or not flagged):
            raise ParseError(
                "`-` excludes a column. To exclude a word, write `NOT word`. To search for the "
                "character, put it in quotation marks"
            )
        if match["error"]:
            raise ParseError(_ERRORS[match["error"][0]])
        yield _token(match)
        end = match.end()


def _token(match: re.Match[str]) -> Token:
    if match["operator"]:
        return Token(match["operator"])
    if match["column"]:
        return column_filter(match)
    if match["near"] is not None:
        inner, distance = near_distance(match["near"])
        distance = distance or str(DEFAULT_DISTANCE)
        return Token("near", distance=distance, inner=tuple(_tokens(inner)))
    if match["text"]:
        return Token("word", word=typed_word(match["text"]))
    text = unquote(match["phrase"] or match["word"])
    return Token("word", word=Word(text, prefix=bool(match["star"])))


def column_filter(match: re.Match[str]) -> Token:
    """A token whose text says whether the filter leaves out `content`."""
    names = [match["name"]] if match["name"] else re.findall(rf"{_STRING}|\S+", match["names"])
    columns = {unquote(name).lower() for name in names}
    if not columns or not columns.issubset(_COLUMNS):
        raise MalformedQuery(
            "A column filter names an unknown column. Only `content` can be searched."
        )
    leaves_out = (_CONTENT in columns) == match["column"].startswith("-")
    return Token("column", text="-" * leaves_out)


def unquote(text: str) -> str:
    if text.startswith('"'):
        return text[1:-1].replace('""', " ")
    return text


# -- the tree ---


class _Parser(Parser):
    """What can match nothing is None."""

    def _and(self) -> Node | None:
        parts = [self._not()]
        while self._accept("AND"):
            if self._accept("NOT"):
                parts += exclusion(self._not())
            else:
                parts.append(self._not())
        return _all_of(parts)

    def _not(self) -> Node | None:
        parts = [self._words()]
        while self._accept("NOT"):
            parts += exclusion(self._words())
        return _all_of(parts)

    def _words(self) -> Node | None:
        parts = [self._part()]
        while self._kind in ("word", "near", "column", "(", "+"):
            parts.append(self._part())
        return _all_of([part for part in parts if not is_blank(part)] or [None])

    def _part(self) -> Node | None:
        """A word, phrase, NEAR or group, and the column filters before it."""
        is_searched = True
        while self._kind in ("column", "+"):
            is_searched = self._advance().text != "-" and is_searched
        node: Node | None
        if self._kind == "near":
            node = self._near(self._advance())
        elif self._accept("("):
            node = self._group()
        else:
            node = self._phrase()
        return node if is_searched or is_blank(node) else None

    def _near(self, token: Token) -> Node:
        inner = _Parser(token.inner, self._most_terms - self._terms)
        phrases = []
        while inner._kind:
            phrases.append(inner._phrase())
        self._terms += inner._terms
        words = tuple(phrase for phrase in phrases if has_token(phrase.text))
        if len(words) < 2:
            return words[0] if words else Word("")
        return Near(words, min(int(token.distance[:9]), LIMITS.indexed_characters))

    def _phrase(self) -> Word:
        """A word or phrase, and what `+` joins to it."""
        word = self._word()
        while self._accept("+"):
            if word.prefix:
                self._fail("only the last part of a phrase can be a prefix")
            part = self._word()
            word = Word(f"{word.text} {part.text}", part.prefix)
        return word

    def _word(self) -> Word:
        word = self._advance().word if self._kind == "word" else None
        if word is None:
            self._fail(f"there should be a word instead of {self._kind or 'the end'}")
        return self._count(word)


def is_blank(node: Node | None) -> bool:
    return isinstance(node, Word) and not has_token(node.text)


def exclusion(node: Node | None) -> list[Node | None]:
    return [] if node is None else [Not(node)]


def _all_of(parts: Sequence[Node | None]) -> Node | None:
    nodes = [part for part in parts if part is not None]
    return all_of(nodes) if len(nodes) == len(parts) else None
