"""Handlers of the tools for single sources: notes, media, conversations, characters, prompts.

Search and reading are those of `knowledge`, except that results seen before are not skipped.
"""

from __future__ import annotations

from typing import Any

from recollect.knowledge.results import tags_of, uri_of
from recollect.knowledge.retrieval import parse_retrieval
from recollect.language.text import iso
from recollect.model.documents import Summary
from recollect.serve.mcp.arguments import json_answer, sanitize
from recollect.serve.mcp.context import READ, Answer, Context
from recollect.serve.mcp.tool import Tool
from recollect.serve.mcp.tools.knowledge.definitions import MAX_PAGE_SIZE
from recollect.serve.mcp.tools.knowledge.handlers import (
    DEFAULT_PAGE_SIZE,
    KnowledgeArguments,
    Search,
    get_item,
    item_address,
)
from recollect.serve.mcp.tools.sources.definitions import (
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

DEFAULT_RESULTS = 10
MAX_PAGE = 1_000_000
MAX_VERSION = 1_000_000


class Handlers:
    """One object serves every user."""

    # -- notes ---

    def notes_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _search_source(context, NOTES_SEARCH, arguments, "notes", ("keywords",))

    def notes_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(NOTES_GET, arguments)
        return json_answer(get_item(context, args, item_address("notes", args.id("note_id"))))

    def notes_write(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(NOTES_WRITE, arguments)
        fields = _note_fields(args)
        note_id = ""
        if "note_id" in args:
            note_id = item_address("notes", args.id("note_id")).id
        version = args.number("version", 1, MAX_VERSION, default=0) or None
        if version is not None and not note_id:
            raise args.error("version needs note_id.")
        with args.library_errors(), context.library(create=True) as library:
            if note_id:
                note = library.knowledge.edit("notes", note_id, fields, version)
            else:
                note = library.knowledge.create("notes", fields)
        answer = _describe_note(note)
        if READ not in context.scopes:
            answer = {name: answer[name] for name in ("id", "source", "uri", "version")}
        return json_answer(sanitize(answer))

    # -- media ---

    def media_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        filters = ("media_types", "date_from", "date_to")
        return _search_source(context, MEDIA_SEARCH, arguments, "media", filters)

    def media_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(MEDIA_GET, arguments)
        return json_answer(get_item(context, args, item_address("media", args.id("media_id"))))

    def media_transcript(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(MEDIA_TRANSCRIPT, arguments)
        media_id = item_address("media", args.id("media_id")).id
        format_ = args.choice("format", "text")
        timestamps = args.flag("include_timestamps", default=format_ == "json")
        with args.library_errors(), context.library() as library:
            options = {name: arguments[name] for name in ("max_tokens", "offset") if name in args}
            retrieval = parse_retrieval(options, context.config, "full")
            page = library.knowledge.transcript_page(
                media_id, retrieval, format_, timestamps, context.audience
            )
        return json_answer(sanitize(page))

    # -- chats ---

    def chats_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        filters = ("by", "character_id", "sender")
        return _search_source(context, CHATS_SEARCH, arguments, "chats", filters)

    def chats_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(CHATS_GET, arguments)
        page = args.number("page", 1, MAX_PAGE, default=1)
        page_size = args.number("page_size", 1, MAX_PAGE_SIZE, default=DEFAULT_PAGE_SIZE)
        default_mode = "full"
        if "retrieval" in args:
            default_mode = "snippet"
        chat = get_item(
            context,
            args,
            item_address("chats", args.id("conversation_id")),
            default_mode=default_mode,
            page=page,
            page_size=page_size,
        )
        return json_answer(chat)

    # -- characters and prompts ---

    def characters_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(CHARACTERS_SEARCH, arguments)
        query = " ".join(args.texts("query"))  # text, or a list of tags
        return json_answer(Search(["characters"], {}, DEFAULT_RESULTS).run(context, args, query))

    def characters_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(CHARACTERS_GET, arguments)
        address = item_address("characters", args.id("character_id"))
        return json_answer(get_item(context, args, address, default_mode="full"))

    def prompts_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _search_source(context, PROMPTS_SEARCH, arguments, "prompts", ("fields",))

    def prompts_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(PROMPTS_GET, arguments)
        address = item_address("prompts", args.id("prompt_id_or_name"))
        return json_answer(get_item(context, args, address, default_mode="full"))


def _search_source(
    context: Context,
    tool: Tool,
    arguments: dict[str, Any],
    source: str,
    filter_names: tuple[str, ...],
) -> Answer:
    args = KnowledgeArguments(tool, arguments)
    order_by = ""
    if "order_by" in tool.input_schema["properties"]:
        order_by = args.choice("order_by", "")
    filters = {name: arguments[name] for name in filter_names if name in args}
    search = Search([source], {source: filters}, DEFAULT_RESULTS, order_by=order_by)
    return json_answer(search.run(context, args))


def _note_fields(args: KnowledgeArguments) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in ("title", "content"):
        if name in args:
            fields[name] = args.text(name)
    if "keywords" in args:
        fields["keywords"] = args.texts("keywords")
    if not fields:
        raise args.error("give at least one of title, content, keywords.")
    return fields


def _describe_note(note: Summary) -> dict[str, Any]:
    return {
        "id": note.id,
        "source": "notes",
        "title": note.title,
        "uri": uri_of(note.kind, note.id),
        "version": note.version,
        "created_at": iso(note.created_at),
        "last_modified": iso(note.updated_at),
        "tags": tags_of(note.metadata) or None,
    }
