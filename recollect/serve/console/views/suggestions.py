"""What a person can try if a search finds nothing, and how a correction is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from recollect.language.queries.query import parse_query
from recollect.language.queries.query_fields import Fields
from recollect.language.text import storable, tokens
from recollect.language.words import as_written
from recollect.search.queries.period_questions import as_period
from recollect.serve.console.request_params import ListFilters, SearchRequest
from recollect.serve.console.tabs import ALL_KINDS

_DATE_FIELD = re.compile(r"(?<!\S)(?:before|after):\S+\s*", re.IGNORECASE)
_FIELD = re.compile(
    r'(?<!\S)-?(?:role|from|in|project|source|tag|title):(?:"[^"]*"|\S+)\s*', re.IGNORECASE
)


class Suggestion(NamedTuple):
    """A button that changes the search."""

    label: str
    query: str
    cleared_filters: str = ""
    """The filters that the button removes, separated by spaces."""
    kind: str = ""
    mode: str = ""


def suggest(request: SearchRequest, filters: ListFilters, kind: str) -> list[Suggestion]:
    query = request.query
    suggestions = []
    if '"' in query:
        suggestions.append(Suggestion("Remove the quotes", query.replace('"', " ").strip()))
    without_dates = _DATE_FIELD.sub("", query).strip()
    if without_dates and (without_dates != query or filters.after or filters.before):
        suggestions.append(Suggestion("Search all time", without_dates, "after before"))
    without_fields = _FIELD.sub("", query).strip()
    if without_fields and without_fields != query:
        suggestions.append(Suggestion("Remove the fields", without_fields))
    if filters.count:
        suggestions.append(Suggestion("Clear all filters", query, "all"))
    if request.mode != "both":
        suggestions.append(Suggestion("Search by words and meaning", query, mode="both"))
    if request.kind and kind != ALL_KINDS:
        suggestions.append(Suggestion("Search everything", query, kind=ALL_KINDS))
    return suggestions


def advice(query: str, *, is_empty: bool) -> str:
    """What to do about a query that finds nothing. `is_empty`: so is the library."""
    if is_empty:
        return "Your library is empty. Import something to search in it."
    attempt = "fewer words" if len(query.split()) > 1 else "another word"
    return f"Try {attempt}, or a prefix such as config*."


def matching_verb(query: str, now: datetime) -> str:
    """How a hit relates to the query: it mentions words, or it matches operators, fields or a time.

    Messages may mention all the words of a query with fields, only not there or then.
    """
    parsed = as_period(parse_query(storable(query)), now)
    if parsed.plain and parsed.fields == Fields():
        return "mentions"
    return "matches"


def corrected_query(query: str, corrections: Mapping[str, str], texts: Iterable[str]) -> str:
    """The query as it was searched, spelled as in these texts; empty if nothing was corrected."""
    if not corrections:
        return ""
    texts = tuple(texts)
    words = []
    for word in query.split():
        correction = corrections.get(" ".join(tokens(word)))
        words.append(as_written(correction, texts) if correction else word)
    return " ".join(words)
