"""The parameters and the results of a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

from recollect.errors import InvalidInput
from recollect.language.text import identifier, truncate
from recollect.model.arguments import (
    Moment,
    page_offset,
    page_size,
    parse_kinds,
    parse_moment,
    parse_names,
    require_choice,
)
from recollect.model.documents import Json, shorten
from recollect.settings import LIMITS

MODES = ("both", "text", "vector")
GROUPS = ("message", "conversation")
SCORES = ("rank", "fts")


def _now() -> datetime:
    """Now, in the time zone of this computer."""
    return datetime.now(UTC).astimezone()


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search may return. Empty means no restriction; dates are inclusive.

    `Filter.of` builds one from plain values. Raises InvalidInput for other values.
    """

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    projects: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    """Words or phrases that the title must all contain. A star at the end makes it a prefix."""
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    not_projects: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_titles: tuple[str, ...] = ()
    hidden: bool = False
    senders: tuple[str, ...] = ()
    """Roles or authors, ignoring case: a passage must have one of them as its role or author."""
    media_types: tuple[str, ...] = ()
    """The types of media items, ignoring case."""
    characters: tuple[str, ...] = ()
    """The ids of characters: only conversations with one of them."""
    models: tuple[str, ...] = ()
    """Only conversations in which one of these models has written a message."""
    not_sources: tuple[str, ...] = ()
    pinned: bool | None = None
    """Only documents that are pinned, or only the others."""
    empty: bool = False
    """Only documents without passages."""

    def __post_init__(self) -> None:
        for name in _NAME_FIELDS:
            values = getattr(self, name)
            if type(values) is not tuple or not all(isinstance(each, str) for each in values):
                object.__setattr__(self, name, parse_names(values, name))
        parse_kinds(self.kinds)
        for name in ("after", "before"):
            moment = parse_moment(getattr(self, name), name, end=name == "before")
            object.__setattr__(self, name, moment)
        require_flag("hidden", self.hidden)
        if self.pinned is not None:
            require_flag("pinned", self.pinned)

    @classmethod
    def of(cls, **values: Any) -> Filter:
        """Build a filter from plain values.

        Dates may be text in ISO 8601; a bare date includes the whole day in UTC. The other fields
        take one name or several: `Filter.of(roles="user", projects=["shop"], after="2025-01-31")`.
        Raises InvalidInput.
        """
        for name in values:
            if name not in _NAME_FIELDS and name not in _OTHER_FIELDS:
                raise InvalidInput(f"There is no filter {name!r}. Use {', '.join(_NAME_FIELDS)}.")
        conversations = parse_names(values.pop("conversations", ()), "conversations")
        return cls(conversations=tuple(map(identifier, conversations)), **values)

    def with_default_kinds(self, kinds: Iterable[str]) -> Filter:
        """This filter, restricted to these kinds if it names none."""
        if self.kinds:
            return self
        return replace(self, kinds=tuple(kinds))

    @property
    def of_passages(self) -> bool:
        """Whether it restricts passages, not only their documents."""
        words = (self.roles, self.authors, self.not_roles, self.not_authors, self.senders)
        return any(words) or bool(self.after or self.before)


_OTHER_FIELDS = ("after", "before", "hidden", "pinned", "empty")
_NAME_FIELDS = tuple(field.name for field in fields(Filter) if field.name not in _OTHER_FIELDS)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search, and which part of the hits to return."""

    mode: str = "both"
    """"both": words and meaning (words alone while there are no vectors); "text"; "vector"."""
    group: str = "message"
    """"conversation" returns each conversation once, with its best messages."""
    limit: int = 20
    offset: int = 0
    now: datetime = field(default_factory=_now)
    """When the question is asked: "last week" refers to it, and messages written more than a day
    later rank lower. Its days are those of its time zone. Also as text in ISO 8601."""
    typing: bool = False
    """The user is still typing: the last word also matches as a prefix, and fewer messages are
    ranked, since each key is a search."""
    correct: bool = True
    """Search for the word that was probably meant if a word occurs nowhere."""
    rerank: bool | None = None
    """Let the reranker judge the best of the first sixteen hits. Better for questions; takes a
    quarter of a second on a slow core. None: as the setting `rerank` says."""
    snippet_length: int = LIMITS.snippet_length
    """About how many characters of a message a hit shows."""
    observations: bool = False
    """Rank observations as well; each raises the messages that it was made of."""
    score: str = "rank"
    """"rank": Recollect's own score and order. "fts": the score and order of the text engine
    (BM25 or `ts_rank`), as a share of the best score."""

    def __post_init__(self) -> None:
        require_choice("mode", self.mode, MODES)
        require_choice("group", self.group, GROUPS)
        require_choice("score", self.score, SCORES)
        if not isinstance(self.now, datetime) or self.now.tzinfo is None:
            object.__setattr__(self, "now", parse_moment(self.now, "now") or _now())
        object.__setattr__(self, "limit", page_size(self.limit))
        object.__setattr__(self, "offset", page_offset(self.offset))


Names = str | Iterable[str]


class FilterArguments(TypedDict, total=False):
    """The fields of a Filter as arguments of a call: one name, or several."""

    role: Names
    author: Names
    project: Names
    source: Names
    kind: Names
    conversation: Names
    tag: Names
    title: Names
    model: Names
    not_role: Names
    not_author: Names
    not_project: Names
    not_source: Names
    not_tag: Names
    not_title: Names
    after: Moment
    before: Moment
    hidden: bool
    pinned: bool | None


class SearchArguments(FilterArguments, total=False):
    """The fields of a Filter and of SearchOptions as arguments of a call."""

    mode: str
    group: str
    limit: int
    offset: int
    now: Moment
    typing: bool
    correct: bool
    rerank: bool | None
    snippet_length: int
    observations: bool
    score: str


def filter_with(filter: Filter | None, arguments: Mapping[str, Any]) -> Filter:
    """A filter with the arguments of a call. Raises InvalidInput."""
    filter = require_filter(filter)
    if not arguments:
        return filter
    for name in arguments:
        if name not in FilterArguments.__annotations__:
            names = ", ".join(SearchArguments.__annotations__)
            raise InvalidInput(f"There is no argument {truncate(name, 80)!r}. Use {names}.")
    fields = {
        name if name in _OTHER_FIELDS else f"{name}s": value for name, value in arguments.items()
    }
    other = Filter.of(**fields)
    return replace(filter, **{name: getattr(other, name) for name in fields})


def options_with(
    options: SearchOptions | None, arguments: Mapping[str, Any]
) -> tuple[SearchOptions, dict[str, Any]]:
    """Search options with the arguments of a call, and the arguments that are for its filter."""
    names = SearchArguments.__annotations__.keys() - FilterArguments.__annotations__.keys()
    own = {name: value for name, value in arguments.items() if name in names}
    others = {name: value for name, value in arguments.items() if name not in names}
    return replace(options or SearchOptions(), **own), others


def require_filter(filter: Filter | None) -> Filter:
    """The filter of a call, or one without restrictions. Raises InvalidInput."""
    if filter is None:
        return Filter()
    if not isinstance(filter, Filter):
        raise InvalidInput(
            f"filter: {truncate(repr(filter), 80)} is not a Filter. "
            'Use Filter.of, such as Filter.of(roles="user").'
        )
    return filter


def require_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is neither True nor False.")


@dataclass(frozen=True, slots=True, repr=False)
class Hit:
    """A passage that matches a search, with a snippet and the reasons why it matches."""

    message_id: str
    conversation_id: str
    title: str
    role: str | None
    author: str | None
    type: str
    created_at: datetime | None
    source: str
    kind: str
    project: str
    position: int
    canonical: bool
    score: float
    """From 0 to 1. That of the best hit is how much of the query the best hits contain, in words
    and in meaning; the others are relative to it."""
    snippet: str
    start: int = 0
    """Where the snippet begins in the message, in characters."""
    marks: tuple[tuple[int, int], ...] = ()
    """The positions of the matches in `snippet`, as (start, end)."""
    arms: tuple[str, ...] = ("text",)
    """How it was found: by words ("text"), by meaning ("vector"), or both. Empty if the query has
    nothing to find, only fields or a time."""
    terms: tuple[str, ...] = ()
    """The words of the query that it contains, in any inflected form."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The parts of the score, which add up to it."""
    copies: int = 0
    """How many other messages with the same text this hit represents."""
    also: tuple[Hit, ...] = ()
    """With `group="conversation"`: the next best messages of the conversation."""
    visibility: str = "all"
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """The metadata of the message. Only `Library.match_expression` sets it."""

    def __repr__(self) -> str:
        place = f"{self.conversation_id!r} {self.message_id!r}"
        return f"<Hit {self.score:.2f} {place}: {shorten(self.snippet)!r}>"


class MatchCounts(NamedTuple):
    """How many messages contain the words of a query, in all and by their properties.

    The counts of a property ignore what the filter says about the same property: next to the
    selected source, the other sources have the numbers that selecting them would give. Names are
    in the order of their counts, months in the order of time.
    """

    messages: int = 0
    conversations: int = 0
    exact: bool = True
    """Otherwise all counts are lower bounds."""
    kinds: tuple[tuple[str, int], ...] = ()
    """Messages of conversations, and items of the other kinds."""
    sources: tuple[tuple[str, int], ...] = ()
    projects: tuple[tuple[str, int], ...] = ()
    months: tuple[tuple[str, int], ...] = ()
    """As `2026-05`. Messages without a date are not counted."""
    models: tuple[tuple[str, int], ...] = ()
    """A message counts for every model that has written in its conversation."""
    roles: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """One page of hits, the number of all matches, and how the search was done."""

    hits: tuple[Hit, ...]
    total: int
    """How many messages match, with their copies, or with `group="conversation"`, how many
    conversations. Messages with the same text are one hit, so there may be fewer hits: read pages
    until one has fewer than `limit`."""
    offset: int
    limit: int
    matched: str = "all"
    """"all": every hit satisfies the whole query; "any": a hit contains at least one of the words,
    or has a similar meaning; "literal": the query was searched as plain text."""
    exact: bool = True
    """Whether `total` is exact; otherwise it is a lower bound."""
    partial: bool = False
    """The search took too long and was stopped, so there may be more and better hits."""
    weak: bool = False
    """The hits are probably unrelated: no conversation has much of the question, and nothing is
    close to it in meaning."""
    score_type: str = "rank"
    """"rank": Recollect's own scores; "fts": scores of the text engine, as a share of the best."""
    mode: str = "text"
    """What was searched: "text", "vector" or "both"."""
    embedded: float = 0.0
    """The share of the library that was searched by meaning: 0 in mode "text"."""
    note: str = ""
    """A message for the user, such as why vectors were not used."""
    missing: tuple[str, ...] = ()
    """The words of the query that no message contains."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Words of the query that were taken for misspellings, and what was searched for instead."""
    nearest: tuple[Hit, ...] = ()
    """If there are no hits: up to three messages that are the closest in meaning. They contain no
    word of the query and are no nearer than unrelated messages, so they are not hits."""

    def __repr__(self) -> str:
        unit = "hit" if len(self.hits) == 1 else "hits"
        about = "" if self.exact else "at least "
        return f"<Page of {len(self.hits)} {unit}, {about}{self.total} in all>"
