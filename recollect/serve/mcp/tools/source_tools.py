"""The tools of the toolset "sources", as a model reads about them: contract 3's search and get of each source."""

from __future__ import annotations

from recollect.serve.mcp.tool import READS_ONLY, Tool
from recollect.serve.mcp.tools.knowledge_tools import (
    NUMBER,
    ORDERS,
    PAGE,
    one_of,
    takes,
    text,
    texts,
)

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any

PLACES = ("both", "title", "message")
FORMATS = ("text", "srt", "vtt", "json")
FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")
CHANGES = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}
RETRIEVAL = {"type": "object", "description": "See knowledge_get."}


def _search(source: str, description: str, **properties: dict[str, Any]) -> Tool:
    return Tool(
        name=f"{source}_search",
        dotted=f"{source}.search",
        toolset="sources",
        description=description,
        input_schema=takes(("query",), query=text(), **properties, **PAGE),
        annotations=READS_ONLY,
    )


def _get(source: str, one: str, description: str, id: str, **properties: dict[str, Any]) -> Tool:
    return Tool(
        name=f"{source}_get",
        dotted=f"{source}.get",
        toolset="sources",
        description=description,
        input_schema=takes((id,), **{id: text()}, **properties),
        annotations=READS_ONLY,
    )


NOTES_SEARCH = _search("notes", "Search the user's notes.", keywords=texts())
NOTES_GET = _get("notes", "a note", "A note, or a part of it.", "note_id", retrieval=RETRIEVAL)
NOTES_WRITE = Tool(
    name="notes_write",
    dotted="notes.write",
    toolset="sources",
    description=(
        "Make a note, or change note_id in what is given. With version it fails if the note was changed since."
    ),
    input_schema=takes(
        (),
        title=text(),
        content=text(),
        keywords=texts(),
        note_id=text(),
        version=NUMBER,
    ),
    annotations=CHANGES,
)
MEDIA_SEARCH = _search(
    "media",
    "Search the text of documents, pages, recordings and images.",
    media_types=texts(),
    date_from=text(),
    date_to=text(),
    order_by=one_of(*ORDERS),
)
MEDIA_GET = _get(
    "media",
    "a media item",
    "The text of a media item, or a part of it.",
    "media_id",
    retrieval=RETRIEVAL,
)
MEDIA_TRANSCRIPT = Tool(
    name="media_transcript",
    dotted="media.transcript",
    toolset="sources",
    description="What is said in a recording.",
    input_schema=takes(
        ("media_id",),
        media_id=text(),
        format=one_of(*FORMATS),
        include_timestamps={"type": "boolean"},
    ),
    annotations=READS_ONLY,
)
CHATS_SEARCH = _search(
    "chats",
    "Search messages and titles of chats.",
    by=one_of(*PLACES),
    character_id=text(),
    sender=text(),
)
CHATS_GET = _get(
    "chats",
    "a chat",
    "The messages of a chat, page by page.",
    "conversation_id",
    page=NUMBER,
    page_size=NUMBER,
    retrieval=RETRIEVAL,
)
CHARACTERS_SEARCH = _search("characters", "Search character cards by text or tags.")
CHARACTERS_GET = _get("characters", "a character", "The fields of a card.", "character_id")
PROMPTS_SEARCH = _search("prompts", "Search the user's saved prompts.", fields=texts(*FIELDS))
PROMPTS_GET = _get("prompts", "a prompt", "The fields of a prompt.", "prompt_id_or_name")

TOOLS = (
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
)
