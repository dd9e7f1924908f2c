"""The knowledge tools: everything at once, or notes, media, chats, characters and prompts alone.

In a session, `knowledge_search` skips results it has returned before, until nothing else is left.
Reading an item without saying where shows the part that matches the latest query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect.knowledge.options import KnowledgeOptions
from recollect.knowledge.results import tags_of, uri_of
from recollect.knowledge.retrieval import Retrieval, parse_retrieval, preference
from recollect.language.text import iso
from recollect.library import Library
from recollect.serve.mcp.arguments import BadArgument
from recollect.serve.mcp.context import READ, Context
from recollect.serve.mcp.resources import Address, console_url, parse_address
from recollect.serve.mcp.toolsets import SOURCE_NAMES, filters_of

Json = dict[str, Any]

_COMPACT_METADATA = (
    "source",
    "score",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "sender",
    "loc",
)


# -- search ---


def search_items(
    context: Context,
    sources: Sequence[str],
    filters: Mapping[str, Any],
    query: str,
    *,
    snippet_length: int | None,
    max_tokens: int | None,
    order_by: str = "",
    skip_seen: bool = False,
    correct: bool | None = True,
    **options: Any,
) -> Json:
    """A search over some sources, or over all."""
    session, config = context.session, context.config
    if max_tokens is not None or "max_tokens" in config:
        max_tokens = preference("max_tokens", max_tokens, config)
    with context.library() as library:
        answer = library.knowledge.search(
            query,
            KnowledgeOptions(
                sources=sources,
                snippet_length=preference("snippet_length", snippet_length, config),
                max_tokens=max_tokens,
                chars_per_token=preference("chars_per_token", None, config),
                order_by=preference("order_by", order_by, config),
                filters=filters,
                correct=correct is not False,
                recent_queries=session.recent_queries if session is not None else (),
                **options,
            ),
            audience=context.audience,
            history=session if skip_seen else None,
        )
    if session is not None:
        session.add_query(query)
    return answer


def knowledge_search(
    context: Context, filters: Json | None, shape: str, repeat: bool, **options: Any
) -> Json:
    sources, query = options.pop("sources"), options.pop("query")
    answer = search_items(context, sources, filters or {}, query, skip_seen=not repeat, **options)
    if shape == "compact":
        with context.library() as library:
            answer["results"] = [compact_result(context, library, r) for r in answer["results"]]
    return answer


def compact_result(context: Context, library: Library, result: Json) -> Json:
    """A result in the shape of deep research. Its id works with `fetch`, too."""
    metadata = {name: result[name] for name in _COMPACT_METADATA if result[name] is not None}
    url = console_url(context, result["source"], result["id"], result["message_id"] or "")
    return {
        "id": result["uri"],
        "title": library.label(result["id"], result["title"] or ""),
        "text": result["snippet"] or "",
        "url": url or result["url"] or "",
        "metadata": metadata,
    }


def search_source(
    context: Context, source: str, query: str | list[str] | None, **options: Any
) -> Json:
    """`notes_search`, `media_search` and so on."""
    text = query if isinstance(query, str) else " ".join(query or ())  # tags of characters
    if not text.strip():
        raise BadArgument("", "query must not be empty")
    names = filters_of(source).keys() - {"order_by"}
    values = {name: options.pop(name) for name in names}
    filters = {name: value for name, value in values.items() if value}
    return search_items(context, [source], {source: filters}, text, **options)


# -- reading ---


def item_address(source: str, item_id: str) -> Address:
    """The address of an item. Its id may be the URI of a result."""
    address = parse_address(item_id)
    if address is not None and address.source == source:
        return address
    return Address(source, item_id)


def get_item(
    context: Context,
    address: Address,
    retrieval: Json | None = None,
    default_mode: str = "snippet",
    **page: int,
) -> Json:
    """As much of an item as the call asks for."""
    with context.library() as library:
        options = parse_retrieval(retrieval, context.config, default_mode)
        if address.message and not options.loc:
            options = replace(options, loc={"message_id": address.message})
        return library.knowledge.get(
            address.source,
            address.id,
            at_latest_query(context, options),
            audience=context.audience,
            whole_answer=True,
            **page,
        )


def at_latest_query(context: Context, retrieval: Retrieval) -> Retrieval:
    """If only a part is requested without a query, use the session's latest one.

    It also finds the match in a location that names a whole chunk, or a passage that has changed.
    """
    if context.session is None or retrieval.mode == "full":
        return retrieval
    queries = context.session.recent_queries
    is_whole_item = bool(retrieval.loc) and not retrieval.has_place
    if not queries or is_whole_item or retrieval.query.strip():
        return retrieval
    return replace(retrieval, query=queries[-1])


def knowledge_get(context: Context, source: str | None, id: str, retrieval: Json | None) -> Json:
    if source:
        return get_item(context, item_address(source, id), retrieval)
    address = parse_address(id)  # the URI of a result names its source
    if address is None:
        raise BadArgument("source", "''", SOURCE_NAMES)
    return get_item(context, address, retrieval)


def get_source(context: Context, source: str, retrieval: Json | None = None, **others: Any) -> Json:
    """`notes_get`, `media_get` and so on, which name the id as their contract does."""
    page = {name: others.pop(name) for name in ("page", "page_size") if name in others}
    (id,) = others.values()
    is_whole = source in ("characters", "prompts") or (source == "chats" and retrieval is None)
    mode = "full" if is_whole else "snippet"
    return get_item(context, item_address(source, id), retrieval, mode, **page)


def media_transcript(
    context: Context,
    media_id: str,
    format: str,
    include_timestamps: bool | None,
    max_tokens: int | None,
    offset: int,
) -> Json:
    timestamps = format == "json" if include_timestamps is None else include_timestamps
    options: Json = {"offset": offset}
    if max_tokens is not None:
        options["max_tokens"] = max_tokens
    with context.library() as library:
        return library.knowledge.transcript_page(
            item_address("media", media_id).id,
            parse_retrieval(options, context.config, "full"),
            format,
            timestamps,
            context.audience,
        )


# -- writing ---


def notes_write(
    context: Context,
    title: str | None,
    content: str | None,
    keywords: list[str] | None,
    note_id: str,
    version: int | None,
) -> Json:
    given = {"title": title, "content": content, "keywords": keywords}
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise BadArgument("", "give at least one of title, content, keywords.")
    if version is not None and not note_id:
        raise BadArgument("", "version needs note_id.")
    with context.library(create=True) as library:
        if note_id:
            id = item_address("notes", note_id).id
            note = library.knowledge.edit("notes", id, fields, version)
        else:
            note = library.knowledge.create("notes", fields)
    answer = {
        "id": note.id,
        "source": "notes",
        "title": note.title,
        "uri": uri_of(note.kind, note.id),
        "version": note.version,
        "created_at": iso(note.created_at),
        "last_modified": iso(note.updated_at),
        "tags": tags_of(note.metadata) or None,
    }
    if READ not in context.scopes:
        answer = {name: answer[name] for name in ("id", "source", "uri", "version")}
    return answer
