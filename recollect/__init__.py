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
    from recollect.asynchronous import AsyncLibrary, open_async
    from recollect.errors import AmbiguousId, Conflict, InvalidInput, NotFound, RecollectError
    from recollect.knowledge.listing import ConversationList
    from recollect.library import Library
    from recollect.model.audience import Audience
    from recollect.model.documents import Document, Passage, Summary
    from recollect.model.forgetting import Selection
    from recollect.model.receipts import Receipt
    from recollect.model.search import Filter, Hit, Page, SearchOptions
    from recollect.model.undo import Change
    from recollect.persistence import PersistenceApi
    from recollect.places import open

__version__ = "0.1.0"
__all__ = [
    "AmbiguousId",
    "AsyncLibrary",
    "Audience",
    "Change",
    "Conflict",
    "ConversationList",
    "Document",
    "Filter",
    "Hit",
    "InvalidInput",
    "Library",
    "NotFound",
    "Page",
    "Passage",
    "PersistenceApi",
    "Receipt",
    "RecollectError",
    "SearchOptions",
    "Selection",
    "Summary",
    "open",
    "open_async",
]

_HOMES = {
    "AmbiguousId": "errors",
    "Conflict": "errors",
    "InvalidInput": "errors",
    "NotFound": "errors",
    "RecollectError": "errors",
    "AsyncLibrary": "asynchronous",
    "open_async": "asynchronous",
    "ConversationList": "knowledge.listing",
    "Library": "library",
    "PersistenceApi": "persistence",
    "open": "places",
    "Audience": "model.audience",
    "Document": "model.documents",
    "Passage": "model.documents",
    "Summary": "model.documents",
    "Selection": "model.forgetting",
    "Filter": "model.search",
    "Hit": "model.search",
    "Page": "model.search",
    "SearchOptions": "model.search",
    "Receipt": "model.receipts",
    "Change": "model.undo",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"recollect.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
