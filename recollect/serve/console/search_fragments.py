"""Fragments of the search: its facets, the preview of a result, completions, the palette."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from recollect.errors import InvalidInput, SearchTimeout
from recollect.library import Library
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import Filter
from recollect.serve import links
from recollect.serve.console.request_params import Filters, ListFilters, Search, SearchRequest
from recollect.serve.console.search_results import search_options, searched_kind
from recollect.serve.console.tabs import CONVERSATIONS, can_read_items, toolset_for
from recollect.serve.console.templating import fragment
from recollect.serve.console.views.completions import complete
from recollect.serve.console.views.facet_views import list_facets, month_dates
from recollect.serve.console.views.item_views import open_item
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.message_views import open_conversation
from recollect.serve.console.views.rows import first_rows
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import KNOWLEDGE, READ

router = APIRouter(prefix="/console", include_in_schema=False, route_class=DeferredRoute)

_PREVIEW_MESSAGES = 9
_PALETTE_CONVERSATIONS = 7
_PALETTE_PROJECTS = 5
_LISTED_NAMES = 50


@router.get("/facets")
@route_policy(READ, CONVERSATIONS, rate_limit=SEARCH)
def facets(access: AccessTo, request: Search, filters: Filters) -> Response:
    """The facets of a search, counted over all its matches."""
    values: dict[str, Any] = {"facets": [], "counts": None, "problem": ""}
    with access.read() as library:
        kind = searched_kind(access, library, request, filters)
        try:
            counts = _count(access, library, request, filters)
        except SearchTimeout:
            counts = None
            values["problem"] = "There are too many matches to count them all."
        except InvalidInput:
            counts = None  # the results say what is wrong with the query
    if counts is not None:
        values |= {"facets": list_facets(counts, filters, kind, request.kind), "counts": counts}
    return fragment(
        "_facets.html",
        filters=filters,
        search_kind=kind,
        month_dates=month_dates,
        **request.template_values(),
        **values,
    )


def _count(access: Access, library: Library, request: SearchRequest, filters: ListFilters) -> Any:
    filter = filters.message_filter()
    kinds: tuple[str, ...] = (CONVERSATION,)
    if can_read_items(access):
        kinds = KINDS
    return library.count_matches(
        request.query,
        Filter.of(
            kinds=kinds,
            projects=filter.projects,
            sources=filter.sources,
            tags=filter.tags,
            roles=filter.roles,
            models=filter.models,
            after=filters.after,
            before=filters.before,
        ),
        search_options(request),
        audience=access.principal.audience,
    )


# -- preview ---


@router.get("/preview")
@route_policy(READ, one_of=(CONVERSATIONS, KNOWLEDGE), document="id")
def preview(
    access: AccessTo, id: str, m: str = "", q: str = "", kind: str = CONVERSATIONS
) -> Response:
    """A result in its context: a few messages around it, or the item."""
    terms = rendering.query_terms(q)
    with access.read(toolset_for(kind)) as library:
        if kind != CONVERSATIONS:
            item = open_item(library, access.principal, kind, id)
            return fragment("_preview_item.html", item=item, q=q, terms=terms)
        window = open_conversation(
            library, access.principal, id, through=m, around=m, limit=_PREVIEW_MESSAGES
        )
    url = links.conversation_url(id, m=m, q=q)
    return fragment("_preview.html", window=window, q=q, terms=terms, url=url)


# -- completions and the palette ---


@router.get("/completions")
@route_policy(READ, CONVERSATIONS)
def completions(access: AccessTo, text: str, cursor: Annotated[int, Query(ge=0)] = 0) -> Response:
    """Values for the field that the cursor is in, with counts."""
    with access.read() as library:
        options = complete(library, text, cursor or len(text))
    return fragment("_completions.html", options=options)


@router.get("/names")
@route_policy(READ, CONVERSATIONS)
def names(access: AccessTo, facet: Literal["projects", "tags"], text: str = "") -> Response:
    """Projects or tags that contain a text, for the list of an input."""
    with access.read() as library:
        names = library.facet_names(facet, text.strip())
    return fragment("_names.html", names=names[:_LISTED_NAMES])


@router.get("/palette")
@route_policy(READ, CONVERSATIONS)
def palette(access: AccessTo, text: str = "") -> Response:
    """Conversations and projects whose names contain a text."""
    name = text.strip()
    with access.read() as library:
        rows = first_rows(library, name, _PALETTE_CONVERSATIONS)
        projects = library.facet_names("projects", name)
    return fragment("_palette_results.html", rows=rows, projects=projects[:_PALETTE_PROJECTS])
