"""The toolset "sources": searching and reading notes, media, chats, characters and prompts each by itself.

The same search and the same reading as in `knowledge`; only that here nothing
is left out because it was found before.
"""

from __future__ import annotations

from typing import Any

from recollect.knowledge.results import tags_of, uri_of
from recollect.language.text import iso
from recollect.model.documents import Summary
from recollect.serve.mcp.arguments import answered, harmless
from recollect.serve.mcp.context import Answer, Context
from recollect.serve.mcp.tool import Tool
from recollect.serve.mcp.tools.knowledge import Given, get, named, search
from recollect.serve.mcp.tools.source_tools import (
    CHARACTERS_GET,
    CHARACTERS_SEARCH,
    CHATS_GET,
    CHATS_SEARCH,
    MEDIA_GET,
    MEDIA_SEARCH,
    MEDIA_TRANSCRIPT,
    NOTES_GET,
    NOTES_SEARCH,
    NOTES_WRITE,
    PROMPTS_GET,
    PROMPTS_SEARCH,
)

RESULTS = 10
PAGE_SIZE = 50
LARGEST_PAGE = 200
LAST_PAGE = 1_000_000
TRANSCRIPT_LENGTH = 400_000
MOST_CUES = 4_000
_WRITTEN = ("title", "content", "keywords")


class Toolset:
    """See `definitions`. One object serves every user."""

    def close(self) -> None:
        """Nothing is kept open between calls."""

    # -- notes ---

    def notes_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _found(context, NOTES_SEARCH, arguments, "notes", "keywords")

    def notes_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(NOTES_GET, arguments)
        return get(context, given, "notes", given.id("note_id"))

    def notes_write(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(NOTES_WRITE, arguments)
        fields: dict[str, Any] = {
            name: given.text(name) for name in ("title", "content") if name in given
        }
        if "keywords" in given:
            fields["keywords"] = given.texts("keywords")
        id_ = given.id("note_id") if "note_id" in given else ""
        version = given.within("version", 0, 1, LAST_PAGE) or None
        if not fields:
            raise given.wrong(f"give at least one of {', '.join(_WRITTEN)}.")
        if version is not None and not id_:
            raise given.wrong("version needs note_id.")
        with given.told(), context.library(create=True) as library:
            if id_:
                return _written(
                    library.knowledge.edit("notes", named("notes", id_).id, fields, version)
                )
            return _written(library.knowledge.create("notes", fields))

    # -- media ---

    def media_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _found(
            context, MEDIA_SEARCH, arguments, "media", "media_types", "date_from", "date_to"
        )

    def media_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(MEDIA_GET, arguments)
        return get(context, given, "media", given.id("media_id"))

    def media_transcript(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(MEDIA_TRANSCRIPT, arguments)
        id_, format_ = given.id("media_id"), given.choice("format", "text")
        timed = (
            given.flag("include_timestamps") if "include_timestamps" in given else format_ == "json"
        )
        with given.told(), context.library() as library:
            content = library.knowledge.transcript(named("media", id_).id, format_, timed)
        shown = _cut(content)
        told = {"content": harmless(shown)}
        if shown != content:
            told["truncated"] = "The rest is in media_get: retrieval {mode: full, offset}."
        return answered(told)

    # -- chats ---

    def chats_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _found(context, CHATS_SEARCH, arguments, "chats", "by", "character_id", "sender")

    def chats_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(CHATS_GET, arguments)
        page = given.within("page", 1, 1, LAST_PAGE)
        size = given.within("page_size", PAGE_SIZE, 1, LARGEST_PAGE)
        default = "snippet" if "retrieval" in given else "full"
        id_ = given.id("conversation_id")
        return get(context, given, "chats", id_, default=default, page=page, page_size=size)

    # -- characters and prompts ---

    def characters_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(CHARACTERS_SEARCH, arguments)
        query = " ".join(given.texts("query"))  # text, or a list of tags
        return answered(search(context, given, ["characters"], {}, results=RESULTS, query=query))

    def characters_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(CHARACTERS_GET, arguments)
        return get(context, given, "characters", given.id("character_id"), default="full")

    def prompts_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _found(context, PROMPTS_SEARCH, arguments, "prompts", "fields")

    def prompts_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(PROMPTS_GET, arguments)
        return get(context, given, "prompts", given.id("prompt_id_or_name"), default="full")


def _found(
    context: Context, tool: Tool, arguments: dict[str, Any], source: str, *filters: str
) -> Answer:
    given = Given(tool, arguments)
    order = given.choice("order_by", "") if "order_by" in tool.input_schema["properties"] else ""
    narrowed = {source: {name: arguments[name] for name in filters if name in given}}
    return answered(search(context, given, [source], narrowed, results=RESULTS, order=order))


def _cut(content: Any) -> Any:
    """As much of a transcript as an answer may hold."""
    if isinstance(content, str):
        return content[:TRANSCRIPT_LENGTH]
    return {**content, "segments": content["segments"][:MOST_CUES]}


def _written(note: Summary) -> Answer:
    about = {
        "id": note.id,
        "source": "notes",
        "title": note.title,
        "uri": uri_of(note.kind, note.id),
        "version": note.version,
        "created_at": iso(note.created_at),
        "last_modified": iso(note.updated_at),
        "tags": tags_of(note.metadata) or None,
    }
    return answered(harmless(about))
