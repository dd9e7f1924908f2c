"""The `knowledge` toolset: search and read everything at once (docs/contracts/knowledge-api.md).

Descriptions are short: filters are described once per source, and limits are enforced without being
announced.
"""

from __future__ import annotations

from recollect.serve.mcp.tool import (
    READ_ONLY,
    UNTRUSTED,
    Tool,
    Toolset,
    array,
    enum,
    integer,
    object_schema,
    string,
)

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any

SOURCE_NAMES = ("notes", "media", "chats", "characters", "prompts")
ORDERS = ("relevance", "recent")
PROMPT_FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")
MAX_RESULTS = 100
MAX_PAGE_SIZE = 200
ID = {"anyOf": [string(), integer()]}
SNIPPET_LENGTH = integer(300, 10, 1_000)
MAX_TOKENS = integer(None, 1, 50_000)


def page(limit: int) -> dict[str, Any]:
    """What every search takes besides its query, with the default of `limit`."""
    return {
        "limit": integer(limit, 1, MAX_RESULTS),
        "offset": integer(0, 0),
        "snippet_length": SNIPPET_LENGTH,
        "max_tokens": MAX_TOKENS,
    }


FILTERS: dict[str, dict[str, Any]] = {
    "notes": {"keywords": array(string())},
    "media": {
        "media_types": array(string()),
        "date_from": string(),
        "date_to": string(),
        "order_by": enum(*ORDERS, default="relevance"),
    },
    "chats": {
        "by": enum("both", "title", "message", default="both"),
        "character_id": ID,
        "sender": string(),
    },
    "prompts": {"fields": array(enum(*PROMPT_FIELDS))},
    "characters": {},
}
RETRIEVAL = {
    "type": "object",
    "properties": {
        "mode": enum("snippet", "chunk", "chunk_with_siblings", "full", "auto", default="snippet"),
        "loc": {"type": "object", "description": "The loc of a result."},
        "query": string(),
        "max_tokens": MAX_TOKENS,
        "sibling_window": integer(None, 0, 20),
        "snippet_length": SNIPPET_LENGTH,
        "offset": integer(0, 0),
        "chunk_size_tokens": integer(None, 1, 8_000),
        "chunk_overlap_tokens": integer(None, 0, 8_000),
        "chars_per_token": {"type": "number", "default": 4, "minimum": 1, "maximum": 16},
        "prefer_prechunked": {"type": "boolean"},
    },
}

KNOWLEDGE_SEARCH = Tool(
    name="knowledge_search",
    dotted="knowledge.search",
    description=(
        "Search notes, media, chats, characters and prompts at once; skips what it returned "
        f"before, unless repeat. Read a result with knowledge_get (source, id, loc). {UNTRUSTED}"
    ),
    input_schema=object_schema(
        ("query",),
        query=string(),
        sources=array(enum(*SOURCE_NAMES)),
        order_by=enum(*ORDERS, default="relevance"),
        filters={
            "type": "object",
            "properties": {
                source: {"type": "object", "properties": filters}
                for source, filters in FILTERS.items()
            },
        },
        shape=enum("full", "compact", default="full"),
        rerank={"type": "boolean"},
        correct={"type": "boolean", "default": True},
        repeat={"type": "boolean", "default": False},
        **page(20),
    ),
    annotations=READ_ONLY,
)

KNOWLEDGE_GET = Tool(
    name="knowledge_get",
    dotted="knowledge.get",
    description="Read a result: a snippet, or as much as retrieval asks for.",
    input_schema=object_schema(
        ("source", "id"),
        source=enum(*SOURCE_NAMES),
        id=ID,
        retrieval=RETRIEVAL,
    ),
    annotations=READ_ONLY,
)

KNOWLEDGE = Toolset(
    "knowledge",
    "recollect.serve.mcp.tools.knowledge.handlers",
    (KNOWLEDGE_SEARCH, KNOWLEDGE_GET),
)
