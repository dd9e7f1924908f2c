"""What a person or an agent typed, as a small tree.

    word  "a phrase"  prefi*  AND  OR  NOT  ( )

Words next to each other must all match. Operators are upper case; everything
else is text, so paths, code, error numbers and any punctuation are safe. A
store compiles the tree to its engine's language; nothing typed ever reaches an
engine as syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from recollect.errors import InvalidInput
from recollect.settings import LIMITS
from recollect.text import has_token


@dataclass(frozen=True, slots=True)
class Word:
    """Text to be found as it is tokenised: one word, or a phrase."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Node


Node = Word | And | Or | Not


class MalformedQuery(InvalidInput):
    """The operators, quotes or parentheses of a query do not fit together."""


# A parenthesis that follows a word at once, as in `gather()` or `f(x,y)`, belongs to the word.
_TOKEN = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|"(?P<phrase>[^"]*)"(?P<star>\*?)
    |(?P<text>(?!(?:AND|OR|NOT)\()[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+))""",
    re.VERBOSE,
)


def parse(text: str) -> Node:
    """The tree of a query. Raises MalformedQuery, or InvalidInput when it is over a cap."""
    check_size(text)
    return _Parser(text).query()


def literal(text: str) -> Node | None:
    """Every word of the text, operators and all; None when there is no word in it."""
    check_size(text)
    words = [Word(w) for w in re.findall(r'[^\s()"]+', text) if has_token(w)]
    return _and(words) if words else None


def check_size(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LIMITS.query_bytes:
        raise InvalidInput(f"The query has {size:,} bytes; at most {LIMITS.query_bytes:,} are accepted.")


def words(node: Node) -> list[Word]:
    """What a match can show: the words of the tree that are not negated."""
    match node:
        case Word():
            return [node]
        case Not():
            return []
        case And(parts) | Or(parts):
            return [w for part in parts for w in words(part)]


def any_of(node: Node) -> Node | None:
    """The same plain words with OR between them; None when the query said more than words."""
    if isinstance(node, And) and all(isinstance(p, Word) for p in node.parts):
        return Or(node.parts)
    return None


def _and(parts: list[Word] | list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


class _Parser:
    def __init__(self, text: str) -> None:
        text = text.rstrip()
        self._tokens: list[re.Match[str]] = []
        self._at = 0
        end = 0
        while end < len(text):
            token = _TOKEN.match(text, end)
            if token is None:
                self._fail("a quotation mark is not closed")
            self._tokens.append(token)
            end = token.end()
        self._terms = 0

    def query(self) -> Node:
        node = self._either()
        if self._at < len(self._tokens):
            self._fail("a parenthesis is closed that was not opened")
        return node

    def _either(self) -> Node:
        parts = [self._all()]
        while self._operator("OR"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Node:
        parts: list[Node] = [self._one()]
        while self._at < len(self._tokens):
            joined = self._operator("AND")
            token = self._tokens[self._at] if self._at < len(self._tokens) else None
            if token is None or token["close"] or token["text"] == "OR":
                if joined:
                    self._fail("AND has nothing after it")
                break
            parts.append(self._one())
        found = [p for p in parts if not (isinstance(p, Word) and not has_token(p.text))]
        if found and all(isinstance(p, Not) for p in found):
            self._fail("NOT needs something to take away from")
        return _and(found or parts)

    def _one(self) -> Node:
        if self._operator("NOT"):
            return Not(self._one())
        if self._at >= len(self._tokens):
            self._fail("something is missing at the end")
        token = self._tokens[self._at]
        self._at += 1
        if token["open"]:
            node = self._either()
            if self._at >= len(self._tokens) or not self._tokens[self._at]["close"]:
                self._fail("a parenthesis is not closed")
            self._at += 1
            return node
        if token["close"] or token["text"] in ("AND", "OR", "NOT"):
            self._fail(f"{token[0].strip()} stands where a word should")
        self._terms += 1
        if self._terms > LIMITS.query_terms:
            self._too_many()
        if token["phrase"] is not None:
            return Word(token["phrase"], prefix=bool(token["star"]))
        text: str = token["text"]
        stem = text.rstrip("*")
        return Word(stem, prefix=True) if stem != text and has_token(stem) else Word(text)

    def _operator(self, name: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at]["text"] == name:
            self._at += 1
            return True
        return False

    def _too_many(self) -> NoReturn:
        raise InvalidInput(f"The query has more than {LIMITS.query_terms} words; use fewer.")

    def _fail(self, why: str) -> NoReturn:
        raise MalformedQuery(f"The query cannot be read: {why}.")
