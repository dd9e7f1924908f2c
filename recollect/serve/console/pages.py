"""The console's pages: start and search, conversations, activity, imports."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from recollect.knowledge.results import tags_of
from recollect.model.sources import source_label
from recollect.serve import links
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.first_run import prepare_first_run
from recollect.serve.console.frame import frame
from recollect.serve.console.request_params import Filters, Search, query_text
from recollect.serve.console.search_results import search
from recollect.serve.console.tabs import ALL_KINDS, CONVERSATIONS, TABS, count_items
from recollect.serve.console.templating import html, page, render
from recollect.serve.console.views import charts
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.message_views import open_conversation
from recollect.serve.console.views.receipt_views import list_receipts
from recollect.serve.console.views.rows import count_conversations
from recollect.serve.http import (
    assets,
    routing,  # noqa: F401  registers the path convertor `id`
)
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import STATIC
from recollect.serve.http.route_policy import PUBLIC, route_policy
from recollect.serve.identity.principal import READ

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MAX_RECEIPTS = 100


# -- pages ---


@router.get("/")
@route_policy(READ, CONVERSATIONS)
def start(access: AccessTo, request: Search, filters: Filters) -> Response:
    """The start page, or the results of a search."""
    with access.read() as library:
        if request.query:
            results = search(access, library, request, filters)
            kind = results["search_kind"]
            if kind == ALL_KINDS:
                kind = CONVERSATIONS
            values = frame(library, kind, filters) | results
        else:
            values = frame(library, CONVERSATIONS, filters)
            counts = count_items(access, library)
            values["item_counts"] = [(TABS[kind], count) for kind, count in counts.items()]
            values["conversation_count"] = count_conversations(values["facets"])
            values["first_run"] = None
            if not values["conversation_count"] and not counts:
                values["first_run"] = prepare_first_run(access)
    return page(access.request, "start.html", **(values | request.template_values()))


@router.get("/c/")
@route_policy(READ, CONVERSATIONS, document="id")
def conversation_by_query(
    access: AccessTo, filters: Filters, id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation whose id cannot be part of a path."""
    return conversation(access, filters, id, m, q)


@router.get("/c/{conversation_id:id}")
@route_policy(READ, CONVERSATIONS, document="conversation_id")
def conversation(
    access: AccessTo, filters: Filters, conversation_id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation from its start, or around the message `m`."""
    with access.read() as library:
        window = open_conversation(library, access.principal, conversation_id, through=m, around=m)
        values = frame(library, CONVERSATIONS, filters, conversation_id)
    values |= {
        "window": window,
        "tags": tags_of(window.document.metadata),
        "q": query_text(q),
        "terms": rendering.query_terms(q),
    }
    return page(access.request, "conversation.html", **values)


@router.get("/activity")
@route_policy(READ, CONVERSATIONS)
def activity(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        numbers = library.activity()
        values = frame(library, CONVERSATIONS, filters)
    months = charts.fill_months(numbers["months"])
    first_month = ""
    if months:
        first_month = charts.month_label(months[0][0])
    return page(
        access.request,
        "activity.html",
        charts=_activity_charts(numbers, months),
        total=sum(number for _, number in numbers["sources"]),
        first_month=first_month,
        **values,
    )


def _activity_charts(numbers: dict[str, Any], months: charts.Pairs) -> list[charts.Chart]:
    """The charts that have something to show."""
    source_names = {source_label(name): name for name, _ in numbers["sources"]}
    sources = [(source_label(name), number) for name, number in numbers["sources"]]
    weekdays = list(zip(charts.WEEKDAYS, numbers["weekdays"], strict=True))
    hours = [(f"{hour:02}", number) for hour, number in enumerate(numbers["hours"])]
    all_charts = [
        charts.column_chart("Messages per month", months, "Month", wide=True, link=_month_url),
        charts.bar_chart(
            "By source",
            sources,
            "Source",
            link=lambda label: _messages_url(source=source_names.get(label, label)),
        ),
        charts.bar_chart(
            "Busiest projects",
            numbers["projects"],
            "Project",
            link=lambda name: _messages_url(project=name),
        ),
        charts.bar_chart("Replies by model", numbers["models"], "Model", "Replies", _replies_url),
        charts.bar_chart("Tool calls", numbers["tools"], "Tool", "Calls"),
        charts.column_chart("By weekday", weekdays, "Weekday"),
        charts.column_chart("By hour (UTC)", hours, "Hour"),
    ]
    return [chart for chart in all_charts if any(number for _, number in chart.rows)]


def _month_url(month: str) -> str:
    """The messages that people wrote in a month."""
    return "/?" + links.query({"q": f"role:user after:{month} before:{month}"})


def _messages_url(**filters: str) -> str:
    """The messages that people wrote in a project or source."""
    return "/?" + links.query({"q": "role:user"} | filters)


def _replies_url(model: str) -> str:
    return "/?" + links.query({"q": "role:assistant", "model": model})


@router.get("/imports")
@route_policy(READ, CONVERSATIONS)
def imports(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        receipts = list_receipts(library)
        values = frame(library, CONVERSATIONS, filters)
    return page(
        access.request,
        "imports.html",
        receipts=receipts[:_MAX_RECEIPTS],
        older_count=len(receipts[_MAX_RECEIPTS:]),
        **values,
    )


# -- static files ---


@router.get("/static/{version}/{name}")
@route_policy(PUBLIC, rate_limit=STATIC)
def static(request: Request, version: str, name: str) -> Response:
    return assets.serve(request, version, name)


# -- the server cannot be reached ---


@router.get("/service-worker.js")
@route_policy(PUBLIC, rate_limit=STATIC)
def service_worker() -> Response:
    """At the root, because a service worker controls only pages below its own path."""
    return assets.serve_service_worker()


@router.get("/offline")
@route_policy(PUBLIC)
def offline() -> Response:
    return html(render("offline.html"))
