"""The values for the frame of every page: the search box and the sidebar."""

from __future__ import annotations

from typing import Any

from recollect.library import Library
from recollect.serve.console.request_params import ListFilters
from recollect.serve.console.views.rows import list_facets, list_rows


def frame(library: Library, kind: str, filters: ListFilters, current: str = "") -> dict[str, Any]:
    """The sidebar lists `kind` and marks the document `current`."""
    return {
        "q": "",
        "filters": filters,
        "facets": list_facets(library, kind),
        "kind": kind,
        "page": list_rows(library, kind, filters, current=current),
    }
