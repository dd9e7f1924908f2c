"""Fragments of pages for the page's script: rows, hits, messages, receipts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.knowledge.results import tags_of
from recollect.language.text import storable
from recollect.model.documents import Passage
from recollect.model.search import Filter, SearchOptions
from recollect.serve.console.request_params import Filters, Search
from recollect.serve.console.search_results import search
from recollect.serve.console.tabs import CONVERSATIONS, toolset_for
from recollect.serve.console.templating import fragment, html
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.message_views import WINDOW, open_conversation, render_message
from recollect.serve.console.views.receipt_views import list_receipts
from recollect.serve.console.views.rows import ROWS, list_facets, list_rows
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import KNOWLEDGE, READ
from recollect.serve.masking import mask_passage

router = APIRouter(prefix="/console", include_in_schema=False, route_class=DeferredRoute)

_MAX_MATCHES = 200


@router.get("/rows")
@route_policy(READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def rows(
    access: AccessTo,
    filters: Filters,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = ROWS,
    current: str = "",
    kind: str = CONVERSATIONS,
) -> Response:
    with access.read(toolset_for(kind)) as library:
        page = list_rows(library, kind, filters, offset=offset, limit=limit, current=current)
    return fragment("_rows.html", page=page, filters=filters)


@router.get("/sidebar")
@route_policy(READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def sidebar(access: AccessTo, filters: Filters, kind: str) -> Response:
    """The filters and the first rows of a kind."""
    with access.read(toolset_for(kind)) as library:
        facets = list_facets(library, kind)
        page = list_rows(library, kind, filters)
    return fragment("_sidebar.html", page=page, filters=filters, facets=facets, kind=kind)


@router.get("/filters")
@route_policy(READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def filter_form(access: AccessTo, filters: Filters, kind: str = CONVERSATIONS) -> Response:
    with access.read(toolset_for(kind)) as library:
        facets = list_facets(library, kind)
    return fragment("_filters.html", filters=filters, facets=facets, kind=kind)


@router.get("/hits")
@route_policy(READ, CONVERSATIONS, rate_limit=SEARCH)
def hits(access: AccessTo, request: Search, filters: Filters) -> Response:
    with access.read() as library:
        results = search(access, library, request, filters)
    return fragment("_hits.html", filters=filters, **request.template_values(), **results)


# -- conversations ---


@router.get("/messages")
@route_policy(READ, CONVERSATIONS, document="id")
def messages(
    access: AccessTo,
    id: str,
    through: str = "",
    around: str = "",
    q: str = "",
    start: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = WINDOW,
) -> Response:
    with access.read() as library:
        window = open_conversation(
            library,
            access.principal,
            id,
            through=through or around,
            around=around,
            start=start,
            limit=limit,
        )
    return fragment("_messages.html", q=q, window=window)


@router.get("/message")
@route_policy(READ, CONVERSATIONS, document="id")
def whole_message(access: AccessTo, id: str, m: str) -> Response:
    """A long message without the cut."""
    message = read_message(access, id, m)
    body, hidden_chars = render_message(message, rendering.MAX_CHARS, rendering.Page())
    if hidden_chars:
        body += rendering.plain(
            f"Export the conversation for the last {hidden_chars:,} characters."
        )
    return html(str(body))


@router.get("/message-text")
@route_policy(READ, CONVERSATIONS, document="id")
def message_text(access: AccessTo, id: str, m: str) -> Response:
    """The source text of a message, to copy."""
    return Response(storable(read_message(access, id, m).content), media_type="text/plain")


def read_message(access: Access, id: str, m: str) -> Passage:
    with access.read() as library:
        view = library.view(id, through=m, around=m, limit=1)
    for step in view.messages:
        if step.passage.id == m:
            return mask_passage(step.passage, access.principal.audience)
    raise NotFound("This message no longer exists.")


@router.get("/tags")
@route_policy(READ, CONVERSATIONS, document="id")
def tags(access: AccessTo, id: str) -> Response:
    with access.read() as library:
        view = library.view(id, limit=1)
    return fragment("_tags.html", tags=tags_of(view.document.metadata))


@router.get("/matches")
@route_policy(READ, CONVERSATIONS, document="id", rate_limit=SEARCH)
def matches(access: AccessTo, id: str, q: str, m: str = "") -> Response:
    """Links to the previous and the next match in a conversation."""
    with access.read() as library:
        page = library.search(
            q,
            Filter.of(conversations=id),
            SearchOptions(mode="text", limit=_MAX_MATCHES),
            audience=access.principal.audience,
        )
    ids = [hit.message_id for hit in sorted(page.hits, key=lambda hit: hit.position)]
    number = 0
    if m in ids:
        number = ids.index(m) + 1
    previous_match = next_match = ""
    if number > 1:
        previous_match = ids[number - 2]
    if number < len(ids):
        next_match = ids[number]
    return fragment(
        "_matches.html",
        id=id,
        q=q,
        count=len(ids),
        number=number,
        previous_match=previous_match,
        next_match=next_match,
        has_more=page.total > len(ids),
    )


# -- imports ---


@router.get("/receipts/{number}")
@route_policy(READ, CONVERSATIONS)
def receipt(access: AccessTo, number: int) -> Response:
    with access.read() as library:
        views = list_receipts(library)
    for view in views:
        if view.receipt.id == number:
            return fragment("_receipt.html", view=view)
    raise NotFound(f"There is no import {number}.")
