"""A tour of Recollect on one page: import → store → search → read → serve."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect import Document, SearchOptions
from recollect.importers.entries import entries
from recollect.importers.registry import detect
from recollect.index.meaning import Meaning
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import And, Word
from recollect.search.engine import search
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import LocalLibrary
from recollect.serve.mcp.protocol import Dispatcher
from recollect.store.base import Store
from recollect.store.postgres import PostgresStore
from recollect.store.sqlite import SqliteStore

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.both_stores
def test_tour(place: str, user: str) -> None:
    # A file is an entry; a format claims it and turns it into documents.
    (entry,) = entries(EXAMPLES / "chatgpt" / "conversations.json")
    format_ = detect(entry)  # type: ignore[arg-type]
    assert format_ is not None and format_.SOURCE.name == "chatgpt"
    items = format_.read(entry)  # type: ignore[arg-type]
    documents = [item for item in items if isinstance(item, Document)]
    assert documents

    # A store saves them in a file or on a server. Saving them again changes nothing.
    store: Store
    if "://" in place:
        store = PostgresStore(place, user)
    else:
        store = SqliteStore(Path(place) / "library.db")
    assert all(saved.created for saved in store.save(documents))
    assert not any(saved.new or saved.changed for saved in store.save(documents))

    # A query is parsed into a tree; the search returns hits, best first, and a total.
    assert parse("event loop") == And((Word("event"), Word("loop")))
    page = search(store, Meaning(store), "event loop", recollect.Filter(), SearchOptions(limit=5))
    assert page.total >= 1 and "loop" in page.hits[0].snippet
    store.close()

    # A library combines all of this in one object, for one user.
    with recollect.open(place, user=f"ann-{user}") as library:
        receipt = library.import_path(*(p for p in EXAMPLES.iterdir() if p.is_dir()))
        assert {f.format for f in receipt.files} == {
            "chatgpt",
            "claude",
            "claude-code",
            "codex",
            "recollect",
            "notes",
            "media",
            "characters",
            "prompts",
        }
        assert not any(f.conversations.failed or f.messages.failed for f in receipt.files)
        hit = library.search("event loop").hits[0]
        conversation = library.conversation(hit.conversation_id)
        assert hit.message_id in [m.id for m in conversation.messages]

    # An agent searches over MCP; one dispatcher serves every transport.
    ann = LocalLibrary(place, f"ann-{user}")
    call = {"name": "conversation_search", "arguments": {"query": "event loop", "limit": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = Dispatcher(Catalog()).handle(message, ann.context())
    assert "(conv: RuntimeError: Event loop is closed)" in answer["result"]["content"][0]["text"]
    ann.close()
