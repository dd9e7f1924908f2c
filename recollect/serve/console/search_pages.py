"""The start page, the results of a search, and what helps to write and narrow a search."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Query
from starlette.responses import Response

from recollect.errors import InvalidInput, SearchTimeout
from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import fold
from recollect.library import Library
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import MatchCounts
from recollect.model.sources import source_label
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.first_run import prepare_first_run
from recollect.serve.console.items import open_item
from recollect.serve.console.lists import Filters, ListFilters, first_rows, frame
from recollect.serve.console.markup.rendering import query_terms
from recollect.serve.console.messages import open_conversation
from recollect.serve.console.search_results import Search, search
from recollect.serve.console.tabs import (
    ALL_KINDS,
    CONVERSATIONS,
    TABS,
    TABS_BY_KIND,
    can_read_items,
    count_items,
    document_url,
    toolset_for,
)
from recollect.serve.console.templating import fragment, page, plural
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import KNOWLEDGE, READ

routes = Routes("", CONVERSATIONS, route_class=PageRoute)

_PREVIEW_MESSAGES = 9
_PALETTE_CONVERSATIONS = 7
_PALETTE_PROJECTS = 5
_LISTED_NAMES = 50
_MAX_FACET_VALUES = 60
_MAX_COMPLETIONS = 8


@routes.add("GET /", READ)
def start(access: AccessTo, request: Search, filters: Filters) -> Response:
    """The start page, or the results of a search."""
    with access.read() as library:
        if request.query:
            results = search(access, library, request, filters)
            kind = results["search_kind"]
            values = frame(library, CONVERSATIONS if kind == ALL_KINDS else kind, filters)
            values |= results
        else:
            values = frame(library, CONVERSATIONS, filters)
            counts = count_items(access, library)
            # Counting messages would take seconds in a large library.
            conversation_count = sum(count for _, count in values["facets"]["sources"])
            is_empty = not conversation_count and not counts
            values |= {
                "item_counts": [(TABS[kind], count) for kind, count in counts.items()],
                "conversation_count": conversation_count,
                "first_run": prepare_first_run(access) if is_empty else None,
            }
    return page(access.request, "start.html", **(values | request.template_values()))


@routes.add("GET /console/hits", READ, rate_limit=SEARCH)
def hits(access: AccessTo, request: Search, filters: Filters) -> Response:
    with access.read() as library:
        results = search(access, library, request, filters)
    return fragment("_hits.html", filters=filters, **request.template_values(), **results)


@routes.add("GET /console/preview", READ, one_of=(CONVERSATIONS, KNOWLEDGE), document="id")
def preview(
    access: AccessTo, id: str, m: str = "", q: str = "", kind: str = CONVERSATIONS
) -> Response:
    """A result in its context: a few messages around it, or the item."""
    values: dict[str, Any] = {
        "q": q,
        "terms": query_terms(q),
        "url": document_url(kind, id, m=m, q=q),
    }
    with access.read(toolset_for(kind)) as library:
        if kind != CONVERSATIONS:
            item = open_item(library, access.principal, kind, id)
            return fragment("_preview_item.html", item=item, **values)
        window = open_conversation(
            library, access.principal, id, through=m, around=m, limit=_PREVIEW_MESSAGES
        )
    return fragment("_preview.html", window=window, **values)


# -- facets: what a search can be narrowed to, with exact counts ---


class FacetValue(NamedTuple):
    name: str
    label: str
    number: int
    selected: bool


class Facet(NamedTuple):
    name: str
    """The parameter of the page's address; `month` stands for two of them."""
    values: Sequence[FacetValue]

    @property
    def label(self) -> str:
        return self.name.capitalize()

    @property
    def selection(self) -> FacetValue | None:
        return next((value for value in self.values if value.selected), None)


@routes.add("GET /console/facets", READ, rate_limit=SEARCH)
def facets(access: AccessTo, request: Search, filters: Filters) -> Response:
    """The facets of a search, counted over all its matches."""
    values: dict[str, Any] = {"facets": [], "counts": None, "problem": ""}
    kinds = KINDS if can_read_items(access) else (CONVERSATION,)
    with access.read() as library:
        kind = request.searched_kind(access, library, filters)
        try:
            counts = library.count_matches(
                request.query,
                filters.message_filter(kinds),
                request.options(),
                audience=access.principal.audience,
            )
            if counts is not None:
                values["facets"] = list_facets(counts, filters, kind, request.kind)
            values["counts"] = counts
        except SearchTimeout:
            values["problem"] = "There are too many matches to count them all."
        except InvalidInput:
            pass  # the results say what is wrong with the query
    values |= {"filters": filters, "search_kind": kind, "max_values": _MAX_FACET_VALUES}
    return fragment("_facets.html", month_dates=month_dates, **request.template_values(), **values)


def list_facets(
    counts: MatchCounts, filters: ListFilters, kind: str, selected_kind: str
) -> list[Facet]:
    """The facets that have something to choose. Only conversations have all of them.

    `kind` is what was searched, `selected_kind` what the person chose, if anything.
    """
    found = []
    if not filters.count:  # filters are about conversations
        kinds = [(TABS_BY_KIND[name].name, count) for name, count in counts.kinds]
        selection = [selected_kind] if selected_kind in TABS else []
        found.append(facet_of("kind", kinds, selection, lambda name: TABS[name].label))
    if kind in (CONVERSATIONS, ALL_KINDS):
        months = [
            FacetValue(month, month_label(month), count, is_month(month, filters))
            for month, count in reversed(counts.months)
        ]
        found += [
            facet_of("source", counts.sources, filters.source, source_label, selected_first=True),
            facet_of("project", counts.projects, filters.project, selected_first=True),
            Facet("month", months),
            facet_of("model", counts.models, filters.model, selected_first=True),
            facet_of("role", counts.roles, filters.role, str.capitalize, selected_first=True),
        ]
    return [facet for facet in found if len(facet.values) > 1 or facet.selection]


def facet_of(
    name: str,
    counts: Sequence[tuple[str, int]],
    selection: Sequence[str],
    label_of: Callable[[str], str] = str,
    *,
    selected_first: bool = False,
) -> Facet:
    missing = [(value, 0) for value in selection if value not in dict(counts)]
    values = [
        FacetValue(value, label_of(value), count, value in selection)
        for value, count in [*counts, *missing]
    ]
    if selected_first:
        values.sort(key=lambda value: not value.selected)
    return Facet(name, values)


def month_dates(month: str) -> tuple[str, str]:
    """The first and the last day of a month."""
    year, number = map(int, month.split("-"))
    return f"{month}-01", f"{month}-{calendar.monthrange(year, number)[1]:02}"


def is_month(month: str, filters: ListFilters) -> bool:
    return (filters.after, filters.before) == month_dates(month)


def month_label(month: str) -> str:
    year, number = month.split("-")
    return f"{calendar.month_abbr[int(number)]} {year}"


# -- completions of the fields of a query, with counts ---

_FIELD_HELP = {
    "role": "who wrote the message",
    "from": "the author of the message",
    "in": "the project",
    "project": "the project",
    "source": "where the conversation came from",
    "tag": "a tag",
    "title": "words in the title",
    "after": "on or after a date",
    "before": "on or before a date",
}


class Completion(NamedTuple):
    text: str
    """The whole query with the completion."""
    cursor: int
    """Where the cursor is then."""
    label: str
    details: str


@routes.add("GET /console/completions", READ)
def completions(access: AccessTo, text: str, cursor: Annotated[int, Query(ge=0)] = 0) -> Response:
    with access.read() as library:
        options = complete(library, text, cursor or len(text))
    return fragment("_completions.html", options=options)


def complete(library: Library, text: str, cursor: int) -> list[Completion]:
    """What the word before the cursor could become."""
    start, in_quotes = 0, False
    for index, character in enumerate(text[:cursor]):
        if character == '"':
            in_quotes = not in_quotes
        elif character.isspace() and not in_quotes:
            start = index + 1
    word = text[start:cursor]
    minus = "-" if word.startswith("-") else ""
    name, colon, value = word.removeprefix("-").partition(":")
    name = name.lower()

    def completion(word: str, details: str) -> Completion:
        rest = text[cursor:].lstrip()
        return Completion(text[:start] + word + rest, start + len(word), word.strip(), details)

    if not colon:
        return [
            completion(f"{minus}{field}:", help)
            for field, help in _FIELD_HELP.items()
            if len(name) > 1
            and field.startswith(name)
            and not (minus and field in ("before", "after"))
        ]
    prefix = fold(value.strip('"'))
    options = [option for option in values_of(library, name, prefix) if prefix in fold(option[0])]
    options.sort(key=lambda option: not fold(option[0]).startswith(prefix))
    return [
        completion(f"{minus}{name}:{quote(option)} ", details)
        for option, details in options[:_MAX_COMPLETIONS]
    ]


def quote(value: str) -> str:
    if re.search(r"[\s()\",]", value):
        return '"' + value.replace('"', " ") + '"'
    return value


def values_of(library: Library, field: str, text: str) -> list[tuple[str, str]]:
    """The values of a field with their counts. Those without the text may be left out."""
    match field:
        case "role":
            stored: Any = library.stats()["roles"]
            return [(role, plural(stored.get(role, 0), "message")) for role in ROLES]
        case "in" | "project" | "tag":
            names = library.facet_names("tags" if field == "tag" else "projects", text)
            return [(name, plural(count, "conversation")) for name, count in names]
        case "source":
            return [
                (name, f"{source_label(name)} · {plural(count, 'conversation')}")
                for name, count in library.facet_names("sources", text)
            ]
        case "after" | "before":  # months, newest first, with the messages on that side of them
            months = library.activity()["months"]
            if field == "after":
                months = months[::-1]
            options, total = [], 0
            for month, count in months:
                total += count
                options.append((month, plural(total, "message")))
            return options if field == "after" else options[::-1]
    return []


@routes.add("GET /console/names", READ)
def names(access: AccessTo, facet: Literal["projects", "tags"], text: str = "") -> Response:
    """Projects or tags that contain a text, for the list of an input."""
    with access.read() as library:
        found = library.facet_names(facet, text.strip())
    return fragment("_names.html", names=found[:_LISTED_NAMES])


@routes.add("GET /console/palette", READ)
def palette(access: AccessTo, text: str = "") -> Response:
    """Conversations and projects whose names contain a text."""
    name = text.strip()
    with access.read() as library:
        rows = first_rows(library, name, _PALETTE_CONVERSATIONS)
        projects = library.facet_names("projects", name)
    return fragment("_palette_results.html", rows=rows, projects=projects[:_PALETTE_PROJECTS])
