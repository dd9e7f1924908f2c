"""The query language: what users and agents type into a search. See docs/searching.md.

Operators are upper case. Everything else is text, so paths, code, error numbers and punctuation
are safe to search for. No input reaches a text engine as syntax: a store compiles the parsed tree
into the language of its engine. OR binds less tightly than AND, which may be omitted, and that less
than NOT, a minus sign and NEAR.

A field name, in any case, is directly followed by a colon and a value. A field restricts the whole
query, wherever it is, so it cannot be inside parentheses or one side of OR. A field with a value
that it cannot have is text (`role:`, `role:admin`, `note:x`, `C:\\path`, `std::vector`). The
exceptions are `before:` and `after:`: without a valid date they are an error, because ignoring a
misspelled date would give wrong results.

A minus sign excludes a phrase, a field, or a word of at least three letters and nothing else. It
must be at the start of a token, so it is text in `well-known`, `-1073741819` and `-C++`. In a
query with a command-line flag (`-m`, `-O2`, `--force`) a minus before a word is text as well. A
search also takes an exclusion for text if a message contains it.

A query of plain words, with or without fields, is a question: a search ranks messages that
contain any of the words, in any inflected form, or that are similar in meaning. Operators, quotes,
prefixes and parentheses are binding: every hit satisfies them. A query whose operators do not fit
together (`AND AND`, or `NOT a` alone) is literal: every word stands for itself.

`parse` handles words and operators, and `parse_query` fields, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple, NoReturn

from recollect.errors import InvalidInput
from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tokens import (
    Fields,
    Token,
    combine_fields,
    query_tokens,
    text_without_fields,
)
from recollect.language.queries.query_tree import (
    Near,
    Node,
    Not,
    Or,
    Word,
    all_of,
    words,
)
from recollect.language.text import has_token
from recollect.settings import LIMITS

DEFAULT_DISTANCE = 10  # of NEAR, as in FTS5
_LONGEST_DISTANCE = 1_000
DEEPEST_NESTING = 10  # of parentheses; at 14, the parser of FTS5 can run out of stack


class MalformedQuery(InvalidInput):
    """The operators, quotes or parentheses of a query do not form a valid query."""


class ParseError(MalformedQuery):
    """A query that the parser cannot read, and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The query cannot be parsed: {reason}.")
        self.reason = reason


class LoneExclusion(ParseError):
    """A query that excludes words, but has none to search for."""


class QueryTooLong(InvalidInput):
    """A query with too many bytes or words."""


class Query(NamedTuple):
    """A parsed query."""

    text: str
    """As typed."""
    node: Node | None
    """What to search for; None if the query has nothing but fields."""
    fields: Fields
    plain: bool
    """Plain words only: any of them may match. Otherwise every hit satisfies the query."""
    literal: bool
    """The operators did not fit together, so every word stands for itself. Fields still apply."""
    rest: str
    """The text as typed, without the fields."""
    note: str = ""
    """What the user should know about how the text was understood."""
    pasted: str = ""
    """The whole text as typed, if it is too long to search for. Then `rest` has its most
    distinctive words."""
    mention: Mention | None = None
    """If this is a query for messages of some time: how messages mention that time."""

    @property
    def language(self) -> Language:
        """The language of a plain query. Other queries match exactly as typed."""
        if not self.plain:
            return ENGLISH
        return language_of(self.rest)


class Mention(NamedTuple):
    """A time that messages may mention."""

    query: Query
    """A query for the messages that mention the time."""
    node: Node
    """What these messages match."""
    is_identifier: bool = False
    """Whether the query is a date in digits. Messages that contain it come first."""
    day: date | None = None
    """The day that keywords name. Messages that mention it come first."""


def parse(text: str) -> Node:
    """Parse words and operators; fields and minus signs are text.

    Raises MalformedQuery, or InvalidInput if the query is too long.
    """
    check_size(text)
    node = _parse(list(query_tokens(text, fields=False)))
    assert node is not None  # only a field can be None
    return node


def parse_query(text: str) -> Query:
    """Parse a query with its fields.

    Raises InvalidInput if a date is invalid, a field is where it cannot be, fields come with
    nothing but exclusions, or the query is too long. Never raises MalformedQuery: queries that are
    not valid are taken literally.
    """
    check_size(text)
    tokens = list(query_tokens(text, fields=True))
    has_fields = any(token.field for token in tokens)
    fields = combine_fields(tokens) if has_fields else Fields()
    rest = text_without_fields(tokens) if has_fields else text.strip()
    if not rest:
        return Query(text, None, fields, plain=False, literal=False, rest="")
    try:
        node = _parse(tokens)
        return Query(text, node, fields, plain=is_plain(tokens), literal=False, rest=rest)
    except ParseError as error:
        if isinstance(error, LoneExclusion) and fields != Fields():
            raise InvalidInput(
                f"`{rest}` excludes something, but there is no word to search for. Add one."
            ) from error
        node = literal_words(rest) or Word(rest)
        check_terms(len(words(node)))
        note = f"Searched as plain text, because {error.reason}."
        return Query(text, node, fields, plain=True, literal=True, rest=rest, note=note)


def _parse(tokens: Sequence[Token]) -> Node | None:
    if not tokens or not is_plain(tokens):
        return _QueryParser(tokens, LIMITS.query_terms).query()
    plain_words = [token.word for token in tokens if token.word is not None]
    check_terms(len(plain_words))
    searchable = [word for word in plain_words if has_token(word.text)]
    return all_of(searchable or plain_words) if plain_words else None


def is_plain(tokens: Sequence[Token]) -> bool:
    """Whether a query has only words and fields."""
    return all(
        token.field or (token.kind == "word" and token.word and not token.word.prefix)
        for token in tokens
    )


def query_words(text: str) -> list[Word]:
    """The words of a query, without operators and fields."""
    if not text.strip():
        return []
    node = parse_query(text).node
    if node is None:
        return []
    return words(node)


def literal_words(text: str) -> Node | None:
    """A query for every word of the text, including operators; None if there are no words."""
    check_size(text)
    parts = [Word(word) for word in re.findall(r'[^\s()"]+', text) if has_token(word)]
    if not parts:
        return None
    return all_of(parts)


def check_size(text: str, limit: int = LIMITS.query_bytes) -> None:
    """Raises QueryTooLong if a query has more bytes than the limit."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise QueryTooLong(f"The query has {size:,} bytes. The maximum is {limit:,} bytes.")


def check_terms(count: int, limit: int = LIMITS.query_terms) -> None:
    """Raises QueryTooLong if a query has more words than the limit."""
    if count > limit:
        raise QueryTooLong(f"The query has more than {limit:,} words. Use fewer words.")


class Parser:
    """What the parsers of both query languages share: operators by recursive descent.

    A part is None if it restricts nothing that can be searched, such as a field.
    """

    def __init__(self, tokens: Sequence[Token], most_terms: int) -> None:
        self._tokens = tokens
        self._most_terms = most_terms
        self._position = 0
        self._depth = 0
        self._terms = 0

    def query(self) -> Node | None:
        node = self._or()
        if self._kind:
            self._fail("a closing parenthesis has no opening one")
        return node

    def _or(self) -> Node | None:
        parts = [self._and()]
        while self._accept("OR"):
            parts.append(self._and())
        nodes = tuple(part for part in parts if part is not None)
        if len(nodes) < len(parts) > 1:
            self._check_alternatives()
        return Or(nodes) if len(nodes) > 1 else next(iter(nodes), None)

    def _and(self) -> Node | None:
        raise NotImplementedError

    def _check_alternatives(self) -> None:
        """Called if one side of OR is None."""

    def _group(self) -> Node | None:
        """What follows an opening parenthesis."""
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            self._fail(f"parentheses are nested more than {DEEPEST_NESTING} levels deep")
        node = self._or()
        if not self._accept(")"):
            self._fail("a parenthesis is not closed")
        self._depth -= 1
        return node

    def _count(self, word: Word) -> Word:
        self._terms += 1
        check_terms(self._terms, self._most_terms)
        return word

    @property
    def _kind(self) -> str:
        """The kind of the next token; empty at the end."""
        if self._position == len(self._tokens):
            return ""
        return self._tokens[self._position].kind

    def _advance(self) -> Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def _accept(self, kind: str) -> bool:
        """Skip the next token if it is of this kind."""
        is_next = self._kind == kind
        self._position += is_next
        return is_next

    def _fail(self, reason: str) -> NoReturn:
        raise ParseError(reason)


class _QueryParser(Parser):
    def query(self) -> Node | None:
        if any(token.kind == "lone quote" for token in self._tokens):
            self._fail("a quotation mark is not closed")
        return super().query()

    def _check_alternatives(self) -> None:
        raise InvalidInput(
            "A field restricts the whole query, so it cannot be one side of OR. To allow several "
            "values, separate them with commas: `role:user,tool`."
        )

    def _and(self) -> Node | None:
        parts = [self._not()]
        while self._kind:
            has_and = self._accept("AND")
            if self._kind in ("", ")", "OR"):
                if has_and:
                    self._fail("AND has nothing after it")
                break
            parts.append(self._not())
        nodes = [part for part in parts if part is not None]
        if not nodes:
            return None
        searchable = [n for n in nodes if not isinstance(n, Word) or has_token(n.text)]
        if searchable and all(isinstance(node, Not) for node in searchable):
            raise LoneExclusion("it excludes something, but has no word to search for")
        return all_of(searchable or nodes)

    def _not(self) -> Node | None:
        negated = False
        while self._accept("NOT") or self._accept("-"):
            negated = not negated
        if self._kind == "field":
            token = self._advance()
            if self._depth:
                raise InvalidInput(
                    f"`{token.text.strip()}` restricts the whole query, so it cannot be inside "
                    "parentheses. Move it before or after them."
                )
            return None
        node = self._operand()
        pairs: list[Node] = []
        while self._kind == "NEAR":
            distance = self._advance().distance
            following = self._operand()
            pairs.append(self._near([node, following], distance))
            node = following
        node = all_of(pairs or [node])
        return Not(node) if negated else node

    def _operand(self) -> Node:
        if not self._kind:
            self._fail("something is missing at the end")
        token = self._advance()
        if token.kind == "(":
            node = self._group()
            assert node is not None  # fields inside parentheses have been rejected
            return node
        if token.kind == "near":
            inner = [t.word for t in token.inner if t.word]
            if len(inner) < len(token.inner):
                self._fail("NEAR takes only words and phrases")
            return self._near([self._count(word) for word in inner], token.distance)
        if token.word is None:
            self._fail(f"there should be a word instead of {token.text.strip()}")
        return self._count(token.word)

    def _near(self, parts: Sequence[Node], distance: str) -> Near:
        near_words = tuple(p for p in parts if isinstance(p, Word) and has_token(p.text))
        if len(near_words) < max(len(parts), 2):
            self._fail("NEAR needs two or more words or phrases")
        if len(distance) > 4 or int(distance or 0) > _LONGEST_DISTANCE:
            self._fail(f"the distance of NEAR must be a number from 0 to {_LONGEST_DISTANCE:,}")
        return Near(near_words, int(distance or DEFAULT_DISTANCE))
