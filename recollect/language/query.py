"""What a person or an agent typed, as a small tree and the fields beside it.

    word  "a phrase"  prefi*  AND  OR  NOT  ( )  NEAR(a b, 5)  a NEAR b  a NEAR/5 b
    -word  -"a phrase"
    role:  from:  in:  tag:  title:  before:  after:  and each with a minus

Words next to each other must all match. Operators are upper case; everything
else is text, so paths, code, error numbers and any punctuation are safe. A
store compiles the tree to its engine's language; nothing typed ever reaches an
engine as syntax.

`parse` reads the first line above, `read` all three. What `read` adds:

A field is one of these names in lower case, a colon, and at once a value:
`role:user,assistant`, `from:"Ada Lovelace"`, `in:work`, `tag:idea`,
`title:"two words"`, `before:2026-05`. It restricts the whole query wherever it
stands, so it may not stand in parentheses or be one side of an OR. What cannot
be a value makes it text (`role:`, `role:admin`, `note:x`, `C:\\path`,
`std::vector`), except after `before:` and `after:`: a date that is silently
not understood would be a wrong answer, so it is an error.

A minus takes away a phrase, a field, or a word of three letters or more with
nothing but letters in it, and only at the start of a token: never in
`well-known`, `-1073741819` or `-C++`. A text that has a flag (`-m`, `-O2`,
`--force`) is a command line: there a minus before a word is text as well. With
nothing to take away from, the query is taken literally.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from recollect.errors import InvalidInput
from recollect.language.text import bound, fold, has_token
from recollect.settings import LIMITS

ROLES = ("user", "assistant", "system", "tool")
"""The roles that messages have, and so the values that `role:` takes."""


@dataclass(frozen=True, slots=True)
class Word:
    """Text to be found as it is tokenised: one word, or a phrase."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Near(And):
    """Words with at most `distance` other words between the first and the last.

    It is an And that says more, so whoever does not know it still finds every match.
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


@dataclass(frozen=True, slots=True)
class Fields:
    """What was typed as `name:value`. Of roles, authors, projects and tags any one is enough;
    every title word must be there; dates are inclusive; nothing under `not_` may be there."""

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


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it was understood."""

    text: str
    """As typed."""
    node: Node | None
    """What to look for; None when nothing but fields was typed."""
    fields: Fields
    plain: bool
    """Only words, as in a question: a store may rank by any of them. Operators, quotes, prefixes
    and parentheses are promises."""
    literal: bool
    """The operators did not fit together, so every word stands for itself; the fields still hold."""
    rest: str
    """As typed, without the fields."""


class MalformedQuery(InvalidInput):
    """The operators, quotes or parentheses of a query do not fit together."""


_DISTANCE = 10  # of NEAR, as in FTS5
_FARTHEST = 1_000
_NESTING = 10  # parentheses in parentheses; from 14 on FTS5's own parser can run out of stack

# A parenthesis that follows a word at once, as in `gather()` or `f(x,y)`, belongs to the word.
_TOKEN = re.compile(
    r"""(?P<open>\()|(?P<close>\))|"(?P<phrase>[^"]*)"(?P<star>\*?)|(?P<loose>")
    |NEAR\((?P<near>(?:[^()"]|"[^"]*")*+)\)
    |(?P<text>(?!(?:AND|OR|NOT)\()[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+)""",
    re.VERBOSE,
)
_FIELD = re.compile(
    r"""(?<![^\s(])(?P<minus>-?)(?P<name>role|from|in|tag|title|before|after):
    (?:"(?P<quoted>[^"]*)"(?P<star>\*?)|(?P<value>[^\s()"]+))(?![^\s)])""",
    re.VERBOSE,
)
_MINUS = re.compile(
    r'(?<![^\s(])-(?=(?P<phrase>"[^"]*")|(?!(?:AND|NOT|NEAR)\b)[^\W\d_]{3,}\*?(?![^\s)]))'
)
_COLUMN = re.compile(r"(?<![^\s(])(?:content|\{\s*content\s*\})\s*:\s*", re.IGNORECASE)
_OTHER_COLUMN = re.compile(
    r"(?<![^\s(])(?:-\s*)?\{?\s*(?:author|message_id|thread_id)\s*\}?\s*:", re.IGNORECASE
)
_JOINED = re.compile(r"""("[^"]*"|[^\s()"+]+)\s+\+\s+("[^"]*"|[^\s()"+]+)""")
_FLAG = re.compile(r"(?<!\S)-(?:-[A-Za-z]|[A-Za-z]{1,2}[0-9]*(?!\S))")
_SPACE = re.compile(r"\s*")
_NEAR_OPERATOR = re.compile(r"NEAR(?:/([0-9]+))?")
_NEAR_DISTANCE = re.compile(r",\s*([0-9]+)\s*$")
_NEAR_COMMA = re.compile(r'("[^"]*")|,(?=[\s"]|$)')
_PERIOD = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")


def parse(text: str) -> Node:
    """The tree of a query, fields and minus signs as text. Raises MalformedQuery, or InvalidInput
    when it is over a cap."""
    check_size(text)
    node = _Parser(list(_tokens(text, fields=False))).query()
    assert node is not None  # there were no fields
    return node


def parse_fts5(text: str) -> Node:
    """The tree of an expression in FTS5's own language over one column, `content`: beside what `parse`
    reads, `content:` before a part and `+` between the parts of a phrase. Raises as `parse` does."""
    check_size(text)
    pieces = re.split('("[^"]*")', text)
    if any(_OTHER_COLUMN.search(piece) for piece in pieces[::2]):
        raise MalformedQuery("Only the column `content` can be searched.")
    text = "".join(piece if n % 2 else _COLUMN.sub("", piece) for n, piece in enumerate(pieces))
    while joined := _JOINED.search(text):
        both = " ".join(part.strip('"') for part in joined.groups())
        text = f'{text[: joined.start()]}"{both}"{text[joined.end() :]}'
    return parse(text)


def parse_query(text: str) -> Query:
    """Everything that was typed. Raises InvalidInput for a date that is none, a field where it
    cannot stand, or when it is over a cap; never MalformedQuery."""
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
    """Every word of the text, operators and all; None when there is no word in it."""
    check_size(text)
    words = [Word(w) for w in re.findall(r'[^\s()"]+', text) if has_token(w)]
    return _and(words) if words else None


def unparse(node: Node) -> str:
    """A text that `parse` reads as the same tree."""
    match node:
        case Word(text, prefix):
            return f'"{text}"' + ("*" if prefix else "")
        case Near(parts, distance):
            return f"NEAR({' '.join(unparse(p) for p in parts)}, {distance})"
        case Not(part):
            return "NOT " + _grouped(part, And, Or)
        case And(parts):
            return " ".join(_grouped(p, And, Or) for p in parts)
        case Or(parts):
            return " OR ".join(_grouped(p, Or) for p in parts)


def _grouped(node: Node, *kinds: type[Node]) -> str:
    return f"({unparse(node)})" if type(node) in kinds else unparse(node)


def check_size(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LIMITS.query_bytes:
        raise InvalidInput(
            f"The query has {size:,} bytes; at most {LIMITS.query_bytes:,} are accepted."
        )


def _check_terms(count: int) -> None:
    if count > LIMITS.query_terms:
        raise InvalidInput(f"The query has more than {LIMITS.query_terms} words; use fewer.")


# -- using the tree ----------------------------------------------------------


def words(node: Node) -> list[Word]:
    """What a match can show: the words of the tree that are not negated."""
    match node:
        case Word():
            return [node]
        case Not():
            return []
        case And(parts) | Or(parts):
            return [w for part in parts for w in words(part)]


def all_words(node: Node) -> Iterator[Word]:
    """The words of the tree, negated ones too."""
    match node:
        case Word():
            yield node
        case Not(part):
            yield from all_words(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from all_words(part)


def any_of(node: Node) -> Node | None:
    """The same plain words with OR between them; None when the query said more than words."""
    if type(node) is And and all(isinstance(p, Word) for p in node.parts):
        return Or(node.parts)
    return None


def content_words(node: Node) -> tuple[Word, ...]:
    """The words of a plain query that carry its meaning; all of them when none does."""
    given = words(node)
    shouted = all(w.text.upper() == w.text for w in given)
    found = tuple(w for w in given if not _is_stopword(w.text, shouted))
    return found or tuple(given)


def _is_stopword(text: str, shouted: bool) -> bool:
    if len(text) > 1 and text.isupper() and not shouted:  # IT, US, WHO
        return False
    bare = fold(text).replace("’", "'").strip("'\"“”‘.,;:!?…¿¡()[]")
    head, _, tail = bare.partition("'")
    contracted = tail in _CONTRACTIONS and (
        head in STOPWORDS or head.removesuffix("n") in STOPWORDS
    )
    return bare in STOPWORDS or contracted


_CONTRACTIONS = frozenset(["s", "re", "ve", "ll", "d", "m", "t"])
# Not `may`, which is a month as well; nor `like`, `said`, `id` or `let`, which can be what is meant.
_FUNCTION_WORDS = """
    a an the this that these those
    i me my myself we us our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves
    someone something anyone anything everyone everything
    am is are was were be been being do does did doing done have has had having will would shall should
    can could might must won't shan't ain't
    im ive youre whats whos wheres dont doesnt didnt isnt wasnt cant couldnt wouldnt
    about above across after against along among around as at before behind below beneath beside besides
    between beyond by down during except for from in inside into near of off on onto out outside over per
    since through throughout till to toward towards under until up upon via with within without
    and or but nor so if then than because while although though whether unless
    who whom whose which what when where why how
    not no yes all any both each either every few many more most much neither none other others another
    some such own same only very too also just ever again once here there now
    please tell
"""
STOPWORDS = frozenset(_FUNCTION_WORDS.split())


# -- tokens ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    negated: bool
    values: tuple[str, ...] = ()
    word: Word | None = None
    edge: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """word, phrase, near, field, loose (a lone quotation mark), ( ) - or the name of an operator"""
    typed: str = ""
    """With the white space before it."""
    word: Word | None = None
    field: _Field | None = None
    distance: str = ""
    inner: tuple[_Token, ...] = ()


def _tokens(text: str, *, fields: bool) -> Iterator[_Token]:
    text = text.rstrip()
    flags = _FLAG.search(re.sub('"[^"]*"', '""', text)) is not None
    end = 0
    while end < len(text):
        space = _SPACE.match(text, end)
        assert space is not None
        start = space.end()
        found = _TOKEN.match(text, start)
        assert found is not None  # whatever is not a space begins one
        token = _token(found, fields)
        if fields and (minus := _MINUS.match(text, start)) and (minus["phrase"] or not flags):
            found, token = minus, _Token("-")
        elif fields and (named := _FIELD.match(text, start)) and (field := _field(named)):
            found, token = named, _Token("field", field=field)
        yield replace(token, typed=text[end : found.end()])
        end = found.end()


def _token(found: re.Match[str], fields: bool) -> _Token:
    if found["phrase"] is not None:
        return _Token("phrase", word=Word(found["phrase"], prefix=bool(found["star"])))
    if found["near"] is not None:
        distance = _NEAR_DISTANCE.search(found["near"])
        inner = found["near"][: distance.start()] if distance else found["near"]
        inner = _NEAR_COMMA.sub(lambda m: m[1] or " ", inner)
        return _Token(
            "near",
            distance=distance[1] if distance else "",
            inner=tuple(_tokens(inner, fields=fields)),
        )
    text: str | None = found["text"]
    if text is None:
        return _Token("loose" if found["loose"] else found[0])
    if text in ("AND", "OR", "NOT"):
        return _Token(text)
    if operator := _NEAR_OPERATOR.fullmatch(text):
        return _Token("NEAR", distance=operator[1] or "")
    return _Token("word", word=_word(text))


def _word(text: str) -> Word:
    stem = text.rstrip("*")
    return Word(stem, prefix=True) if stem != text and has_token(stem) else Word(text)


# -- fields ------------------------------------------------------------------


def _field(found: re.Match[str]) -> _Field | None:
    """The field that a token is, or None when its value cannot be one."""
    name, negated, quoted = found["name"], bool(found["minus"]), found["quoted"]
    value: str = found["value"] if quoted is None else quoted
    if name in ("before", "after"):
        return _Field(name, negated, edge=_edge(name, value))
    if not has_token(value):
        return None
    if name == "title":
        return _Field(
            name, negated, word=_word(value) if quoted is None else Word(value, bool(found["star"]))
        )
    values = tuple(
        v.strip() for v in (value.split(",") if quoted is None or name == "role" else [value])
    )
    if name == "role":
        values = tuple(v.lower() for v in values)
    valid = all(map(has_token, values)) and (name != "role" or set(values) <= set(ROLES))
    return _Field(name, negated, values=values) if valid and not found["star"] else None


def _edge(name: str, value: str) -> datetime:
    """The start of the day, month or year for `after`, its end for `before`."""
    end = name == "before"
    try:
        period = _PERIOD.fullmatch(value)
        if period is None:
            return bound(value, end=end)
        year, month = period[1], int(period[2] or (12 if end else 1))
        day = calendar.monthrange(int(year), month)[1] if end else 1
        return bound(f"{year}-{month:02}-{day:02}", end=end)
    except ValueError:
        raise InvalidInput(
            f"`{name}:{value}` names no date; write it as {name}:2026, {name}:2026-05, {name}:2026-05-01 or "
            f"{name}:2026-05-01T14:30, or put it in quotation marks to look for the text."
        ) from None


def _fields(tokens: Iterable[_Token]) -> Fields:
    taken: list[_Field] = []
    negated = False
    for token in tokens:
        if token.field:
            taken.append(replace(token.field, negated=token.field.negated != negated))
        negated = token.kind == "NOT" and not negated
    _check_terms(sum(len(f.values) or 1 for f in taken))
    for field in taken:
        if field.negated and field.edge:
            raise InvalidInput(
                "`before:` and `after:` cannot be taken away; write the other of the two."
            )

    def values(name: str, negated: bool = False) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                v for f in taken if (f.name, f.negated) == (name, negated) for v in f.values
            )
        )

    def titles(negated: bool) -> tuple[Word, ...]:
        return tuple(dict.fromkeys(f.word for f in taken if f.word and f.negated == negated))

    return Fields(
        roles=values("role"),
        authors=values("from"),
        projects=values("in"),
        tags=values("tag"),
        titles=titles(False),
        after=max((f.edge for f in taken if f.edge and f.name == "after"), default=None),
        before=min((f.edge for f in taken if f.edge and f.name == "before"), default=None),
        not_roles=values("role", True),
        not_authors=values("from", True),
        not_projects=values("in", True),
        not_tags=values("tag", True),
        not_titles=titles(True),
    )


def _without_fields(tokens: Sequence[_Token]) -> str:
    """What was typed, without the fields and the operators that tied them to the rest."""
    kept: list[_Token] = []
    after_field = False
    for token in tokens:
        if token.field:
            while kept and kept[-1].kind in ("AND", "NOT"):
                kept.pop()
        elif not (after_field and token.kind == "AND"):
            kept.append(token)
        after_field = token.field is not None
    return "".join(t.typed for t in kept).strip()


# -- the tree ----------------------------------------------------------------


def _and(parts: Sequence[Node]) -> Node:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


class _Parser:
    """None stands for a part in which there are only fields."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.plain = all(
            t.field or (t.kind == "word" and t.word and not t.word.prefix) for t in tokens
        )
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._terms = 0

    def query(self) -> Node | None:
        if any(t.kind == "loose" for t in self._tokens):
            self._fail("a quotation mark is not closed")
        node = self._either()
        if self._kind:
            self._fail("a parenthesis is closed that was not opened")
        return node

    def _either(self) -> Node | None:
        parts = [self._all()]
        while self._operator("OR"):
            parts.append(self._all())
        found = [p for p in parts if p is not None]
        if len(parts) > max(len(found), 1):
            raise InvalidInput(
                "A field restricts the whole query, so it cannot be one side of OR; write `role:user,tool` for either."
            )
        return Or(tuple(found)) if len(found) > 1 else parts[0]

    def _all(self) -> Node | None:
        parts = [self._one()]
        while self._kind:
            joined = self._operator("AND")
            if self._kind in ("", ")", "OR"):
                if joined:
                    self._fail("AND has nothing after it")
                break
            parts.append(self._one())
        given = [p for p in parts if p is not None]
        found = [p for p in given if not (isinstance(p, Word) and not has_token(p.text))]
        if found and all(isinstance(p, Not) for p in found):
            self._fail("NOT needs something to take away from")
        return _and(found or given) if given else None

    def _one(self) -> Node | None:
        negated = False
        while self._operator("NOT") or self._operator("-"):
            negated = not negated
        if self._kind == "field":
            self._at += 1
            if self._depth:
                raise InvalidInput(
                    f"`{self._tokens[self._at - 1].typed.strip()}` restricts the whole query, so it cannot stand in "
                    "parentheses; write it before or after them."
                )
            return None
        node = self._near()
        return Not(node) if negated else node

    def _near(self) -> Node:
        node = self._single()
        pairs: list[Node] = []
        while self._kind == "NEAR":
            distance = self._tokens[self._at].distance
            self._at += 1
            after = self._single()
            pairs.append(self._close([node, after], distance))
            node = after
        return _and(pairs or [node])

    def _single(self) -> Node:
        if not self._kind:
            self._fail("something is missing at the end")
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "(":
            return self._group()
        if token.kind == "near":
            if not all(t.word for t in token.inner):
                self._fail("NEAR takes words and phrases only")
            return self._close([self._count(t.word) for t in token.inner if t.word], token.distance)
        if token.word is None:
            self._fail(f"{token.typed.strip()} stands where a word should")
        return self._count(token.word)

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > _NESTING:
            self._fail(f"more than {_NESTING} parentheses lie in each other")
        node = self._either()
        if not self._operator(")"):
            self._fail("a parenthesis is not closed")
        self._depth -= 1
        assert node is not None  # a field in parentheses was refused
        return node

    def _close(self, parts: Sequence[Node], distance: str) -> Near:
        found = tuple(p for p in parts if isinstance(p, Word) and has_token(p.text))
        if len(found) < max(len(parts), 2):
            self._fail("NEAR stands between two words or phrases, or more")
        if len(distance) > 4 or int(distance or 0) > _FARTHEST:
            self._fail(f"the distance of NEAR is a number from 0 to {_FARTHEST:,}")
        return Near(found, int(distance or _DISTANCE))

    def _count(self, word: Word) -> Word:
        self._terms += 1
        _check_terms(self._terms)
        return word

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else ""

    def _operator(self, name: str) -> bool:
        if self._kind == name:
            self._at += 1
            return True
        return False

    def _fail(self, why: str) -> NoReturn:
        raise MalformedQuery(f"The query cannot be read: {why}.")
