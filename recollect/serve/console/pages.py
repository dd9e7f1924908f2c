"""Smaller pages: imports, and what the server serves without a library."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.receipts import Receipt
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.lists import Filters, frame
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.templating import fragment, page
from recollect.serve.http import assets
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import STATIC
from recollect.serve.http.routes import PUBLIC, Routes
from recollect.serve.identity.principal import READ

routes = Routes(route_class=PageRoute)

_MAX_RECEIPTS = 100


@routes.add("GET /imports", READ, CONVERSATIONS)
def imports(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        receipts = newest_receipts(library)
        values = frame(library, CONVERSATIONS, filters)
    return page(
        access.request,
        "imports.html",
        receipts=receipts[:_MAX_RECEIPTS],
        older_count=len(receipts[_MAX_RECEIPTS:]),
        **values,
    )


@routes.add("GET /console/receipts/{number}", READ, CONVERSATIONS)
def receipt(access: AccessTo, number: int) -> Response:
    with access.read() as library:
        receipts = newest_receipts(library)
    for receipt in receipts:
        if receipt.id == number:
            return fragment("_receipt.html", receipt=receipt)
    raise NotFound(f"There is no import {number}.")


def newest_receipts(library: Library) -> list[Receipt]:
    return sorted(library.receipts(), key=lambda receipt: receipt.id, reverse=True)


@routes.add("GET /static/{version}/{name}", PUBLIC, rate_limit=STATIC)
def static(request: Request, version: str, name: str) -> Response:
    return assets.serve(request, version, name)


@routes.add("GET /service-worker.js", PUBLIC, rate_limit=STATIC)
def service_worker() -> Response:
    """At the root, because a service worker controls only pages below its own path."""
    return assets.serve_service_worker()


@routes.add("GET /offline", PUBLIC)
def offline() -> Response:
    """The page that the service worker shows if the server cannot be reached."""
    return fragment("offline.html")
