"""What a search of the Knowledge API asks for, and its validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from recollect.errors import InvalidInput
from recollect.knowledge.results import SOURCES
from recollect.knowledge.retrieval import DEFAULTS
from recollect.language.text import storable, truncate
from recollect.model.arguments import parse_moment, require_choice
from recollect.model.search import Filter
from recollect.search.everything import MATCH_IN, ORDERS, KindQuery
from recollect.settings import LIMITS

LONGEST_QUERY = 1_000
MOST_VALUES = 100
PROMPT_FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")
_FILTERS: Mapping[str, frozenset[str]] = {
    "notes": frozenset(("keywords",)),
    "media": frozenset(("media_types", "date_from", "date_to", "order_by")),
    "chats": frozenset(("by", "character_id", "sender")),
    "characters": frozenset(),
    "prompts": frozenset(("fields",)),
}
"""The filters of each source."""


@dataclass(frozen=True, slots=True)
class KnowledgeOptions:
    """Options of a search."""

    sources: Sequence[str] = ()
    """The sources to search; all of them if empty."""
    filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Filters by source, such as `{"notes": {"keywords": ["garden"]}}`."""
    mode: str = "both"
    """"both" (words and meaning), "text" or "vector"."""
    order_by: str = "relevance"
    """"relevance" or "recent". `filters["media"]["order_by"]` is the order of media."""
    limit: int = 20
    offset: int = 0
    snippet_length: int = int(DEFAULTS["snippet_length"])
    max_tokens: int | None = None
    """The budget of the answer as JSON. It always has one result, if there is any."""
    chars_per_token: float = float(DEFAULTS["chars_per_token"])
    typing: bool = False
    """The user is still typing: the last word also matches as a prefix."""
    correct: bool = True
    """Search for the word that was probably meant if a word occurs nowhere."""
    fold: bool = False
    """Return messages with the same text once, with the number of `copies`. The tools of the
    Knowledge API do not: they list every message, and results have no such field. Neither does the
    order "recent"."""
    rerank: bool | None = None
    """Let the reranker judge the first results. None: as the setting `rerank` says."""
    recent_queries: Sequence[str] = ()
    """Earlier queries, oldest first. If a text has none of the words of the query, its snippet
    shows their words."""

    def kind_queries(self) -> list[KindQuery]:
        """What to search for in each kind. Raises InvalidInput."""
        for source in self.sources:
            kind_of(source)
        check_filters(self.filters)
        sources = list(dict.fromkeys(self.sources)) or list(SOURCES)
        return [kind_query(source, self.filters.get(source, {})) for source in sources]

    @property
    def room(self) -> float:
        """How many characters the answer may have."""
        return inf if self.max_tokens is None else self.max_tokens * self.chars_per_token

    @property
    def media_order(self) -> str:
        """How media are sorted among themselves. Raises InvalidInput."""
        order = self.filters.get("media", {}).get("order_by")
        if not order:
            return self.order_by
        require_choice("filters.media.order_by", order, ORDERS)
        return str(order)


def kind_of(source: str) -> str:
    """The kind of a source. Raises InvalidInput if there is no such source."""
    require_choice("source", source, SOURCES)
    return SOURCES[source]


def validate_query(query: str) -> str:
    """The query as it is searched for. Raises InvalidInput if it is empty or too long.

    A text of several lines, such as a stack trace, may be longer than other queries.
    """
    query = storable(query)
    is_pasted = "\n" in query.strip() and len(query) <= LIMITS.long_query_bytes
    if not query.strip() or (len(query) > LONGEST_QUERY and not is_pasted):
        raise InvalidInput(f"query: give 1 to {LONGEST_QUERY} characters, or lines of a text.")
    return query


def check_filters(filters: Mapping[str, Mapping[str, Any]]) -> None:
    for source, values in filters.items():
        require_choice("filters", source, SOURCES)
        if not isinstance(values, Mapping):
            raise InvalidInput(f"filters.{source} must be an object.")
        unknown = sorted(values.keys() - _FILTERS[source])
        if unknown:
            raise InvalidInput(f"filters.{source}: there is no {truncate(unknown[0], 80)!r}.")


def kind_query(source: str, values: Mapping[str, Any]) -> KindQuery:
    match_in = values.get("by") or "both"
    require_choice("by", match_in, MATCH_IN)
    fields = parse_texts("fields", values.get("fields"))
    for name in fields:
        require_choice("fields", name, PROMPT_FIELDS)
    filter_ = Filter(
        kinds=(SOURCES[source],),
        tags=parse_texts("keywords", values.get("keywords")),
        media_types=parse_texts("media_types", values.get("media_types")),
        after=parse_moment(values.get("date_from") or None, "date_from"),
        before=parse_moment(values.get("date_to") or None, "date_to", end=True),
        characters=parse_texts("character_id", values.get("character_id")),
        senders=parse_texts("sender", values.get("sender")),
        roles=fields,
    )
    return KindQuery(filter_, match_in)


def parse_texts(name: str, value: Any) -> tuple[str, ...]:
    """One text or number, or a list of them. Raises InvalidInput."""
    if value is None or value == "":
        return ()
    values = value if isinstance(value, (list, tuple)) else [value]
    are_texts = all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values)
    if len(values) > MOST_VALUES or not are_texts:
        raise InvalidInput(f"{name}: give up to {MOST_VALUES} texts.")
    return tuple(storable(str(v)) for v in values)
