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

SOURCE_NAMES = ("notes", "media", "chats", "characters", "prompts")
ORDERS = ("relevance", "recent")
PAGE = {
    "limit": integer(),
    "offset": integer(),
    "snippet_length": integer(),
    "max_tokens": integer(),
}
"""What every search takes besides its query."""

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
        order_by=enum(*ORDERS),
        filters={
            "type": "object",
            "description": (
                "notes {keywords}, media {media_types, date_from, date_to, order_by}, "
                "chats {by, character_id, sender}, prompts {fields}"
            ),
        },
        shape=enum("full", "compact"),
        rerank={"type": "boolean"},
        correct={"type": "boolean"},
        repeat={"type": "boolean"},
        **PAGE,
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
        id=string(),
        retrieval={
            "type": "object",
            "description": (
                "mode: snippet, chunk, chunk_with_siblings, full, auto; loc of a result, or query; "
                "max_tokens, sibling_window, snippet_length, offset (in full), chunk_size_tokens, "
                "chunk_overlap_tokens, chars_per_token, prefer_prechunked"
            ),
        },
    ),
    annotations=READ_ONLY,
)

KNOWLEDGE = Toolset(
    "knowledge",
    "recollect.serve.mcp.tools.knowledge.handlers",
    (KNOWLEDGE_SEARCH, KNOWLEDGE_GET),
)
