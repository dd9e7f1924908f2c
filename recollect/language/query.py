"""The query language: what users and agents type into a search.

Words and operators:

    word                  The word, ignoring case and accents.
    "a phrase"            These words in this order.
    prefi*                Every word that starts with `prefi`. Also `"a phra"*`.
    a b                   Both must match. `a AND b` means the same.
    a OR b                At least one must match. AND binds more tightly than OR.
    a NOT b               `a` must match and `b` must not.
    -word  -"a phrase"    Excludes a word or a phrase, like NOT.
    ( )                   Groups parts of a query, up to ten levels deep.
    NEAR(a b, 5)          Both, with at most five words between them. The default is 10.
    a NEAR b  a NEAR/5 b  The same, written between the words.

Operators are upper case. Everything else is text, so paths, code, error numbers and punctuation
are safe to search for. No input reaches a text engine as syntax: a store compiles the parsed tree
into the language of its engine.

Fields:

    role:user,assistant   The role of the message: user, assistant, system or tool.
    from:"Ada Lovelace"   The author of the message.
    in:work               The project. `project:work` means the same.
    source:chatgpt        Where the conversation came from, by name or label.
    tag:idea              A tag.
    title:"two words"     A word, phrase or prefix* in the title.
    after:2026-05         On or after a year, month, day or time.
    before:2026-05-01     On or before a year, month, day or time.
    -tag:idea             Excludes. Every field except `before:` and `after:` can be negated.

A field name is lower case and directly followed by a colon and a value. A field restricts the
whole query, wherever it is, so it cannot be inside parentheses or one side of OR. If a field has
several values, separated by commas or given by repeating the field, one of them must match;
repeated `title:` fields must all match. A field with a value that it cannot have is text
(`role:`, `role:admin`, `note:x`, `C:\\path`, `std::vector`). The exceptions are `before:` and
`after:`: without a valid date they are an error, because ignoring a misspelled date would give
wrong results.

A minus sign excludes a phrase, a field, or a word of at least three letters and nothing else. It
must be at the start of a token, so it is text in `well-known`, `-1073741819` and `-C++`. In a
query with a command-line flag (`-m`, `-O2`, `--force`) a minus before a word is text as well.

A query of plain words, with or without fields, is a question: a search ranks messages that
contain any of the words, in any inflected form, or that are similar in meaning. Operators, quotes,
prefixes and parentheses are binding: every hit satisfies them. A query whose operators do not fit
together (`AND AND`, or `NOT a` alone) is literal: every word stands for itself.

`parse` handles words and operators, and `parse_query` everything above.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from recollect.errors import InvalidInput
from recollect.language.detection import language_of
from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.text import bound, fold, has_token
from recollect.settings import LIMITS

ROLES = ("user", "assistant", "system", "tool")
"""The roles of messages, which are the values of the field `role:`."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a phrase to search for."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Near(And):
    """Words with at most `distance` other words between the first and the last.

    It is a stricter And: code that handles it as an And still finds every match.
    """

    parts: tuple[Word, ...]
    distance: int


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Node


Node = Word | And | Or | Not


def excludes_words(node: Node) -> bool:
    """Whether a query says what messages must not contain."""
    match node:
        case Not():
            return True
        case And() | Or():
            return any(map(excludes_words, node.parts))
    return False


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a query.

    One of the roles, authors, projects, sources and tags must match, and all titles. Dates are
    inclusive. Nothing under `not_` may match.
    """

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[Word, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    not_projects: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_titles: tuple[Word, ...] = ()
    sources: tuple[str, ...] = ()
    not_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
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

    @property
    def language(self) -> Language:
        """The language of a plain query. Other queries match exactly as typed."""
        if not self.plain:
            return ENGLISH
        return language_of(self.rest)


class MalformedQuery(InvalidInput):
    """The operators, quotes or parentheses of a query do not form a valid query."""


class QueryTooLong(InvalidInput):
    """A query has too many bytes or words."""


_DEFAULT_DISTANCE = 10  # of NEAR, as in FTS5
_LONGEST_DISTANCE = 1_000
_DEEPEST_NESTING = 10  # at 14, the parser of FTS5 can run out of stack

# A parenthesis directly after a word, as in `gather()` or `f(x,y)`, belongs to the word.
_TOKEN = re.compile(
    r"""(?P<open>\()|(?P<close>\))|"(?P<phrase>[^"]*)"(?P<star>\*?)|(?P<lone_quote>")
    |NEAR\((?P<near>(?:[^()"]|"[^"]*")*+)\)
    |(?P<text>(?!(?:AND|OR|NOT)\()[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+)""",
    re.VERBOSE,
)
_FIELD = re.compile(
    r"""(?<![^\s(])(?P<minus>-?)(?P<name>role|from|in|project|source|tag|title|before|after):
    (?:"(?P<quoted>[^"]*)"(?P<star>\*?)|(?P<value>[^\s()"]+))(?![^\s)])""",
    re.VERBOSE,
)
_FIELD_ALIASES = {"project": "in"}
_MINUS = re.compile(
    r'(?<![^\s(])-(?=(?P<phrase>"[^"]*")|(?!(?:AND|NOT|NEAR)\b)[^\W\d_]{3,}\*?(?![^\s)]))'
)
_FLAG = re.compile(r"(?<!\S)-(?:-[A-Za-z]|[A-Za-z]{1,2}[0-9]*(?!\S))")
_PHRASE = re.compile('"[^"]*"')
_SPACE = re.compile(r"\s*")
_NEAR_OPERATOR = re.compile(r"NEAR(?:/([0-9]+))?")
_NEAR_DISTANCE = re.compile(r",\s*([0-9]+)\s*$")
_NEAR_COMMA = re.compile(r'("[^"]*")|,(?=[\s"]|$)')
_YEAR_OR_MONTH = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")


def parse(text: str) -> Node:
    """Parse words and operators; fields and minus signs are text.

    Raises MalformedQuery, or InvalidInput if the query is too long.
    """
    check_size(text)
    node = _Parser(list(_tokens(text, fields=False))).query()
    assert node is not None  # only a field can be None
    return node


def parse_query(text: str) -> Query:
    """Parse a query with its fields.

    Raises InvalidInput if a date is invalid, a field is where it cannot be, or the query is too
    long. Never raises MalformedQuery: queries that are not valid are taken literally.
    """
    check_size(text)
    tokens = list(_tokens(text, fields=True))
    fields = _fields(tokens)
    rest = _without_fields(tokens)
    if not rest:
        return Query(text, None, fields, plain=False, literal=False, rest="")
    parser = _Parser(tokens)
    try:
        return Query(text, parser.query(), fields, plain=parser.plain, literal=False, rest=rest)
    except MalformedQuery:
        node = literal_words(rest) or Word(rest)
        _check_terms(len(words(node)))
        return Query(text, node, fields, plain=True, literal=True, rest=rest)


def literal_words(text: str) -> Node | None:
    """A query for every word of the text, including operators; None if there are no words."""
    check_size(text)
    parts = [Word(word) for word in re.findall(r'[^\s()"]+', text) if has_token(word)]
    if not parts:
        return None
    return _and(parts)


def has_exclusion(text: str) -> bool:
    """Whether a minus sign excludes a word or a phrase, rather than being text."""
    has_flag = _has_flag(text)
    return any(minus["phrase"] or not has_flag for minus in _MINUS.finditer(text))


def _has_flag(text: str) -> bool:
    return _FLAG.search(_PHRASE.sub('""', text)) is not None


def unparse(node: Node) -> str:
    """A text that `parse` parses into the same tree."""
    match node:
        case Word(text, prefix):
            star = "*" * prefix
            return f'"{text}"{star}'
        case Near(parts, distance):
            return f"NEAR({' '.join(unparse(p) for p in parts)}, {distance})"
        case Not(part):
            return "NOT " + _parenthesize(part, And, Or)
        case And(parts):
            return " ".join(_parenthesize(p, And, Or) for p in parts)
        case Or(parts):
            return " OR ".join(_parenthesize(p, Or) for p in parts)


def _parenthesize(node: Node, *types: type[Node]) -> str:
    """The text of a node, in parentheses if it is of one of these types."""
    if type(node) in types:
        return f"({unparse(node)})"
    return unparse(node)


def check_size(text: str, limit: int = LIMITS.query_bytes) -> None:
    """Raises QueryTooLong if a query has more bytes than the limit."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise QueryTooLong(f"The query has {size:,} bytes. The maximum is {limit:,} bytes.")


def _check_terms(count: int) -> None:
    if count > LIMITS.query_terms:
        raise QueryTooLong(f"The query has more than {LIMITS.query_terms} words. Use fewer words.")


# -- using the tree ----------------------------------------------------------


def words(node: Node) -> list[Word]:
    """The words that a match can contain: all words that are not negated."""
    match node:
        case Word():
            return [node]
        case Not():
            return []
        case And(parts) | Or(parts):
            return [word for part in parts for word in words(part)]


def all_words(node: Node) -> Iterator[Word]:
    """All words, including negated ones."""
    match node:
        case Word():
            yield node
        case Not(part):
            yield from all_words(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from all_words(part)


def any_of(node: Node) -> Node | None:
    """The same words joined by OR; None if the query has anything but plain words."""
    if type(node) is And and all(isinstance(part, Word) for part in node.parts):
        return Or(node.parts)
    return None


def content_words(node: Node, language: Language = ENGLISH) -> tuple[Word, ...]:
    """The words of a plain query without stop words; all words if only stop words are left.

    Function words that are joined to another word are cut off: `l'avion` is `avion`.
    """
    all_of_them = words(node)
    is_upper_case = all(word.text.upper() == word.text for word in all_of_them)
    content = [
        _without_joined_words(word, language)
        for word in all_of_them
        if not _is_stop_word(word.text, is_upper_case, language)
    ]
    return tuple(content or all_of_them)


def _is_stop_word(text: str, query_is_upper_case: bool, language: Language) -> bool:
    if text in _OPERATOR_WORDS:  # of a query that was not valid
        return True
    if len(text) > 1 and text.isupper() and not query_is_upper_case:  # IT, US, WHO
        return False
    bare = _bare(text)
    if bare in language.stop_words:
        return True
    parts = language.joined_parts(bare)
    if len(parts) > 1:
        return all(part in language.stop_words for part in parts)
    head, _, tail = bare.partition("'")
    if tail not in _CONTRACTIONS:
        return False
    return head in language.stop_words or head.removesuffix("n") in language.stop_words


def _without_joined_words(word: Word, language: Language) -> Word:
    """The word without the function words at its beginning and end."""
    parts = language.joined_parts(_bare(word.text))
    if len(parts) == 1:
        return word
    while parts and parts[0] in language.stop_words:
        parts.pop(0)
    while parts and parts[-1] in language.stop_words:
        parts.pop()
    text = "-".join(parts)
    if not has_token(text):
        return word
    return Word(text, word.prefix)


def _bare(text: str) -> str:
    return fold(text).replace("\u2019", "'").strip("'\"“”‘.,;:!?…¿¡()[]«»")


_OPERATOR_WORDS = ("AND", "OR", "NOT", "NEAR")
_CONTRACTIONS = frozenset(["s", "re", "ve", "ll", "d", "m", "t"])


# -- tokens ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    negated: bool
    values: tuple[str, ...] = ()
    word: Word | None = None
    """Of `title:`."""
    date: datetime | None = None
    """Of `before:` and `after:`."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """word, phrase, near, field, lone quote, a parenthesis, "-", or the name of an operator."""
    text: str = ""
    """As typed, with the white space before it."""
    word: Word | None = None
    field: _Field | None = None
    distance: str = ""
    """Of NEAR."""
    inner: tuple[_Token, ...] = ()
    """The tokens inside NEAR( )."""


def _tokens(text: str, *, fields: bool) -> Iterator[_Token]:
    """The tokens of a query; fields and minus signs only with `fields`."""
    text = text.rstrip()
    has_flag = _has_flag(text)
    end = 0
    while end < len(text):
        space = _SPACE.match(text, end)
        assert space is not None  # it matches the empty string
        start = space.end()
        match, token = _token_at(text, start, fields, has_flag)
        yield replace(token, text=text[end : match.end()])
        end = match.end()


def _token_at(text: str, start: int, fields: bool, has_flag: bool) -> tuple[re.Match[str], _Token]:
    match = _TOKEN.match(text, start)
    assert match is not None  # every character except white space starts a token
    token = _token(match, fields)
    if not fields:
        return match, token
    minus = _MINUS.match(text, start)
    if minus and (minus["phrase"] or not has_flag):
        return minus, _Token("-")
    field_match = _FIELD.match(text, start)
    if field_match:
        field = _field(field_match)
        if field:
            return field_match, _Token("field", field=field)
    return match, token


def _token(match: re.Match[str], fields: bool) -> _Token:
    if match["phrase"] is not None:
        return _Token("phrase", word=Word(match["phrase"], prefix=bool(match["star"])))
    if match["near"] is not None:
        return _near_token(match["near"], fields)
    text: str | None = match["text"]
    if text is None:
        if match["lone_quote"]:
            return _Token("lone quote")
        return _Token(match[0])
    if text in ("AND", "OR", "NOT"):
        return _Token(text)
    operator = _NEAR_OPERATOR.fullmatch(text)
    if operator:
        return _Token("NEAR", distance=operator[1] or "")
    return _Token("word", word=_word(text))


def _near_token(inner: str, fields: bool) -> _Token:
    """The token of NEAR(...), given what is in its parentheses."""
    distance = ""
    match = _NEAR_DISTANCE.search(inner)
    if match:
        distance = match[1]
        inner = inner[: match.start()]
    inner = _NEAR_COMMA.sub(lambda comma: comma[1] or " ", inner)
    return _Token("near", distance=distance, inner=tuple(_tokens(inner, fields=fields)))


def _word(text: str) -> Word:
    stem = text.rstrip("*")
    if stem != text and has_token(stem):
        return Word(stem, prefix=True)
    return Word(text)


# -- fields ------------------------------------------------------------------


def _field(match: re.Match[str]) -> _Field | None:
    """The field of a match; None if its value is not valid, which makes it text."""
    negated, quoted = bool(match["minus"]), match["quoted"]
    name = _FIELD_ALIASES.get(match["name"], match["name"])
    value: str = quoted if quoted is not None else match["value"]
    if name in ("before", "after"):
        return _Field(name, negated, date=_parse_date(name, value))
    if not has_token(value):
        return None
    if name == "title":
        if quoted is None:
            return _Field(name, negated, word=_word(value))
        return _Field(name, negated, word=Word(value, bool(match["star"])))
    if match["star"]:
        return None
    values = [value]
    if quoted is None or name == "role":
        values = value.split(",")
    values = [v.strip() for v in values]
    if name == "role":
        values = [v.lower() for v in values]
        if not set(values) <= set(ROLES):
            return None
    if not all(map(has_token, values)):
        return None
    return _Field(name, negated, values=tuple(values))


def _parse_date(name: str, value: str) -> datetime:
    """The start of the year, month or day for `after`, its end for `before`."""
    end = name == "before"
    try:
        period = _YEAR_OR_MONTH.fullmatch(value)
        if period is None:
            return bound(value, end=end)
        year, month, day = int(period[1]), 1, 1
        if period[2]:
            month = int(period[2])
        elif end:
            month = 12
        if end:
            day = calendar.monthrange(year, month)[1]
        return bound(f"{year:04}-{month:02}-{day:02}", end=end)
    except ValueError:
        raise InvalidInput(
            f"`{name}:{value}` is not a valid date. Use {name}:2026, {name}:2026-05, "
            f"{name}:2026-05-01 or {name}:2026-05-01T14:30. To search for the text, put it in "
            "quotation marks."
        ) from None


def _fields(tokens: Iterable[_Token]) -> Fields:
    fields = _field_list(tokens)
    if sum(len(field.values) or 1 for field in fields) > LIMITS.query_terms:
        raise InvalidInput(
            f"The fields have more than {LIMITS.query_terms} words. Use fewer words."
        )
    if any(field.negated and field.date for field in fields):
        raise InvalidInput(
            "`before:` and `after:` cannot be negated. Use `after:` instead of `-before:`, and "
            "`before:` instead of `-after:`."
        )

    def values(name: str, negated: bool = False) -> tuple[str, ...]:
        chosen = [field for field in fields if (field.name, field.negated) == (name, negated)]
        return tuple(dict.fromkeys(value for field in chosen for value in field.values))

    def titles(negated: bool = False) -> tuple[Word, ...]:
        return tuple(dict.fromkeys(f.word for f in fields if f.word and f.negated == negated))

    def dates(name: str) -> list[datetime]:
        return [field.date for field in fields if field.date and field.name == name]

    return Fields(
        roles=values("role"),
        authors=values("from"),
        projects=values("in"),
        tags=values("tag"),
        titles=titles(),
        after=max(dates("after"), default=None),
        before=min(dates("before"), default=None),
        not_roles=values("role", negated=True),
        not_authors=values("from", negated=True),
        not_projects=values("in", negated=True),
        not_tags=values("tag", negated=True),
        not_titles=titles(negated=True),
        sources=values("source"),
        not_sources=values("source", negated=True),
    )


def _field_list(tokens: Iterable[_Token]) -> list[_Field]:
    """The fields in order. NOT before a field negates it, like a minus sign."""
    fields: list[_Field] = []
    negated = False
    for token in tokens:
        if token.field:
            fields.append(replace(token.field, negated=token.field.negated != negated))
        negated = token.kind == "NOT" and not negated
    return fields


def _without_fields(tokens: Sequence[_Token]) -> str:
    """The text without the fields and the operators that connect them to the rest."""
    remaining: list[_Token] = []
    follows_field = False
    for token in tokens:
        if token.field:
            while remaining and remaining[-1].kind in ("AND", "NOT"):
                remaining.pop()
        elif not (follows_field and token.kind == "AND"):
            remaining.append(token)
        follows_field = token.field is not None
    return "".join(token.text for token in remaining).strip()


# -- the tree ----------------------------------------------------------------


def _and(parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    return And(tuple(parts))


class _Parser:
    """A recursive-descent parser. Parts that consist of fields only are None."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.plain = all(
            token.field or (token.kind == "word" and token.word and not token.word.prefix)
            for token in tokens
        )
        self._tokens = tokens
        self._position = 0
        self._depth = 0
        self._terms = 0

    def query(self) -> Node | None:
        if any(token.kind == "lone quote" for token in self._tokens):
            self._fail("a quotation mark is not closed")
        node = self._or()
        if self._kind:
            self._fail("a closing parenthesis has no opening one")
        return node

    def _or(self) -> Node | None:
        parts = [self._and()]
        while self._accept("OR"):
            parts.append(self._and())
        if len(parts) == 1:
            return parts[0]
        nodes = [part for part in parts if part is not None]
        if len(nodes) < len(parts):
            raise InvalidInput(
                "A field restricts the whole query, so it cannot be one side of OR. To allow "
                "several values, separate them with commas: `role:user,tool`."
            )
        return Or(tuple(nodes))

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
            self._fail("NOT needs something to exclude from")
        return _and(searchable or nodes)

    def _not(self) -> Node | None:
        negated = False
        while self._accept("NOT") or self._accept("-"):
            negated = not negated
        if self._kind == "field":
            self._skip_field()
            return None
        node = self._near()
        if negated:
            return Not(node)
        return node

    def _skip_field(self) -> None:
        token = self._advance()
        if self._depth:
            raise InvalidInput(
                f"`{token.text.strip()}` restricts the whole query, so it cannot be inside "
                "parentheses. Move it before or after them."
            )

    def _near(self) -> Node:
        node = self._operand()
        pairs: list[Node] = []
        while self._kind == "NEAR":
            distance = self._advance().distance
            following = self._operand()
            pairs.append(self._near_node([node, following], distance))
            node = following
        return _and(pairs or [node])

    def _operand(self) -> Node:
        if not self._kind:
            self._fail("something is missing at the end")
        token = self._advance()
        if token.kind == "(":
            return self._group()
        if token.kind == "near":
            inner = [t.word for t in token.inner if t.word]
            if len(inner) < len(token.inner):
                self._fail("NEAR takes only words and phrases")
            return self._near_node([self._count(word) for word in inner], token.distance)
        if token.word is None:
            self._fail(f"there should be a word instead of {token.text.strip()}")
        return self._count(token.word)

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            self._fail(f"parentheses are nested more than {_DEEPEST_NESTING} levels deep")
        node = self._or()
        if not self._accept(")"):
            self._fail("a parenthesis is not closed")
        self._depth -= 1
        assert node is not None  # fields inside parentheses have been rejected
        return node

    def _near_node(self, parts: Sequence[Node], distance: str) -> Near:
        near_words = tuple(p for p in parts if isinstance(p, Word) and has_token(p.text))
        if len(near_words) < max(len(parts), 2):
            self._fail("NEAR needs two or more words or phrases")
        if len(distance) > 4 or int(distance or 0) > _LONGEST_DISTANCE:
            self._fail(f"the distance of NEAR must be a number from 0 to {_LONGEST_DISTANCE:,}")
        return Near(near_words, int(distance or _DEFAULT_DISTANCE))

    def _count(self, word: Word) -> Word:
        self._terms += 1
        _check_terms(self._terms)
        return word

    @property
    def _kind(self) -> str:
        """The kind of the next token; empty at the end."""
        if self._position == len(self._tokens):
            return ""
        return self._tokens[self._position].kind

    def _advance(self) -> _Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, kind: str) -> bool:
        """Skip the next token if it is of this kind."""
        if self._kind == kind:
            self._position += 1
            return True
        return False

    def _fail(self, reason: str) -> NoReturn:
        raise MalformedQuery(f"The query cannot be parsed: {reason}.")
