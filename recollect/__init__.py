"""Recollect: every conversation with AI, kept verbatim and found again.

    import recollect

    with recollect.open() as library:
        library.import_path("chatgpt-export.zip")
        for hit in library.search("asyncio gather").hits:
            print(hit.conversation_id, hit.snippet)

Names load on first use, so that a program which needs one part (the stdio
server, above all) does not pay for the others.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from recollect.errors import RecollectError
    from recollect.library import Library
    from recollect.model.documents import Document, Passage, Summary
    from recollect.model.receipts import Receipt
    from recollect.model.search import Filter, Hit, Page, SearchOptions
    from recollect.places import open

__version__ = "0.1.0"
__all__ = [
    "Document",
    "Filter",
    "Hit",
    "Library",
    "Page",
    "Passage",
    "Receipt",
    "RecollectError",
    "SearchOptions",
    "Summary",
    "open",
]

_HOMES = {
    "RecollectError": "errors",
    "Library": "library",
    "open": "places",
    "Document": "model.documents",
    "Passage": "model.documents",
    "Summary": "model.documents",
    "Filter": "model.search",
    "Hit": "model.search",
    "Page": "model.search",
    "SearchOptions": "model.search",
    "Receipt": "model.receipts",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"recollect.{_HOMES[name]}"), name)
