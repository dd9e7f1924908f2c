"""The `sources` toolset: search and read one source at a time (docs/contracts/knowledge-api.md)."""

from __future__ import annotations

from recollect.serve.mcp.tool import (
    DESTRUCTIVE,
    READ_ONLY,
    Tool,
    Toolset,
    array,
    enum,
    integer,
    object_schema,
    string,
)
from recollect.serve.mcp.tools.knowledge.definitions import (
    FILTERS,
    ID,
    MAX_PAGE_SIZE,
    MAX_TOKENS,
    RETRIEVAL,
    page,
)

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any


def _search_tool(source: str, description: str, query: dict[str, Any] | None = None) -> Tool:
    return Tool(
        name=f"{source}_search",
        dotted=f"{source}.search",
        description=description,
        input_schema=object_schema(
            ("query",), query=query or string(), **FILTERS[source], **page(10)
        ),
        annotations=READ_ONLY,
    )


def _get_tool(source: str, description: str, **properties: dict[str, Any]) -> Tool:
    """The first property is the id."""
    return Tool(
        name=f"{source}_get",
        dotted=f"{source}.get",
        description=description,
        input_schema=object_schema((next(iter(properties)),), **properties),
        annotations=READ_ONLY,
    )


NOTES_SEARCH = _search_tool("notes", "Search the user's notes.")
NOTES_GET = _get_tool("notes", "A note, or part of it.", note_id=string(), retrieval=RETRIEVAL)
NOTES_WRITE = Tool(
    name="notes_write",
    dotted="notes.write",
    description=(
        "Create a note, or change the given fields of note_id. With version it fails if the note "
        "has changed since."
    ),
    input_schema=object_schema(
        (),
        title=string(),
        content=string(),
        keywords=array(string()),
        note_id=string(),
        version=integer(None, 1),
    ),
    annotations=DESTRUCTIVE,
)
MEDIA_SEARCH = _search_tool("media", "Search documents, pages, recordings and images.")
MEDIA_GET = _get_tool(
    "media", "The text of a media item, or part of it.", media_id=ID, retrieval=RETRIEVAL
)
MEDIA_TRANSCRIPT = Tool(
    name="media_transcript",
    dotted="media.transcript",
    description="The transcript of a recording; its next_offset as offset continues it.",
    input_schema=object_schema(
        ("media_id",),
        media_id=ID,
        format=enum("text", "srt", "vtt", "json", default="text"),
        include_timestamps={"type": "boolean"},
        max_tokens=MAX_TOKENS,
        offset=integer(0, 0),
    ),
    annotations=READ_ONLY,
)
CHATS_SEARCH = _search_tool("chats", "Search messages and titles of chats.")
CHATS_GET = _get_tool(
    "chats",
    "The messages of a chat, page by page.",
    conversation_id=string(),
    page=integer(1, 1),
    page_size=integer(50, 1, MAX_PAGE_SIZE),
    retrieval=RETRIEVAL,
)
CHARACTERS_SEARCH = _search_tool(
    "characters", "Search character cards by text or tags.", {"anyOf": [string(), array(string())]}
)
CHARACTERS_GET = _get_tool("characters", "The fields of a character card.", character_id=ID)
PROMPTS_SEARCH = _search_tool("prompts", "Search the user's saved prompts.")
PROMPTS_GET = _get_tool("prompts", "The fields of a prompt.", prompt_id_or_name=string())

SOURCES = Toolset(
    "sources",
    "recollect.serve.mcp.tools.sources.handlers",
    (
        NOTES_SEARCH,
        NOTES_GET,
        NOTES_WRITE,
        MEDIA_SEARCH,
        MEDIA_GET,
        MEDIA_TRANSCRIPT,
        CHATS_SEARCH,
        CHATS_GET,
        CHARACTERS_SEARCH,
        CHARACTERS_GET,
        PROMPTS_SEARCH,
        PROMPTS_GET,
    ),
)
