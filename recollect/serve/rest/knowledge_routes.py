"""Routes of the Knowledge API: search, read, write and export items of every kind.

See docs/contracts/knowledge-api.md. An id in a path may contain any character, including slashes.
Percent-encode the whole id, as `encodeURIComponent` does: then an id that ends in `/export` is not
mistaken for an export. Read a document with the id `search` with POST /api/knowledge/get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Path, Query
from starlette.responses import Response

from recollect.errors import InvalidInput
from recollect.knowledge.editing import MEDIA_TYPES
from recollect.knowledge.exporting import FORMATS
from recollect.knowledge.options import KnowledgeOptions
from recollect.knowledge.results import SOURCES, list_entry
from recollect.knowledge.retrieval import parse_retrieval, preference
from recollect.library import Library
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE, Forbidden, Principal
from recollect.serve.masking import has_masked_messages
from recollect.serve.rest import knowledge_schemas as schemas
from recollect.serve.rest.schemas import RequestBody, clamp, clamp_page, created_status
from recollect.settings import LIMITS
from recollect.transfer.export import as_json
from recollect.transfer.restoring import parse_export

_MAX_PAGE_SIZE = 100
_EXPORT_FORMATS = "; ".join(
    f"{name}: {', '.join(FORMATS[kind])}" for name, kind in SOURCES.items() if kind in FORMATS
)
_EXPORT_MEDIA_TYPES = (
    "application/json",
    "application/x-subrip",
    "image/png",
    "text/markdown",
    "text/plain",
    "text/vtt",
)


routes = Routes("knowledge", KNOWLEDGE)

Source = Annotated[schemas.Source, Path(description="The kind of document.")]
WritableSource = Annotated[
    Literal["notes", "media", "characters", "prompts"], Path(description="The kind of document.")
]
ItemId = Annotated[
    str,
    Path(
        description="The id of the document, percent-encoded. "
        "For characters and prompts, the name works as well.",
        min_length=1,
    ),
]


# -- searching ---


@routes.add("GET /api/knowledge/search", READ, rate_limit=SEARCH, returns=schemas.SearchResponse)
def search_knowledge(
    access: AccessTo, parameters: Annotated[schemas.SearchParameters, Query()]
) -> Response:
    """Returns matching documents of all sources in one list.

    This is the search of the Knowledge API, for programs that speak it; otherwise use
    `GET /api/v1/search`. A filter restricts only the source it belongs to.
    """
    return search_with_parameters(access, parameters, parameters.sources)


@routes.add("POST /api/knowledge/search", READ, rate_limit=SEARCH, returns=schemas.SearchResponse)
def search_knowledge_with_body(access: AccessTo, request: schemas.SearchRequest) -> Response:
    """Returns matching documents. The body has the arguments of the tool `knowledge.search`."""
    return search(access, request.query, request.sources, request.filters or {}, request)


@routes.add("GET /api/knowledge/media-types", READ, returns=schemas.MediaTypes)
def list_media_types(access: AccessTo) -> Response:
    """Returns the types of the library's media with their numbers, and common types."""
    with access.read() as library:
        counts = library.knowledge.media_types()
    types = [{"media_type": name, "count": count} for name, count in counts]
    return json_response({"types": types, "suggested": list(MEDIA_TYPES)})


@routes.add(
    "GET /api/knowledge/{source}/search", READ, rate_limit=SEARCH, returns=schemas.SearchResponse
)
def search_knowledge_source(
    access: AccessTo, source: Source, parameters: Annotated[schemas.SourceSearchParameters, Query()]
) -> Response:
    """Returns matching documents of one source. Filters of other sources are rejected."""
    return search_with_parameters(access, parameters, [source])


def search_with_parameters(
    access: Access, parameters: schemas.SourceSearchParameters, sources: Sequence[str]
) -> Response:
    if not parameters.query.strip():
        raise InvalidInput("Query parameter 'query' must not be empty")
    filters: dict[str, dict[str, Any]] = {}
    for name, source in schemas.FILTER_SOURCES.items():
        value = getattr(parameters, name)
        if not value:
            continue
        if sources and source not in sources:
            raise InvalidInput(f"{name}: this filter is for {source}, which are not searched here.")
        filters.setdefault(source, {})[name] = value
    return search(access, parameters.query, sources, filters, parameters)


def search(
    access: Access,
    query: str,
    sources: Sequence[str],
    filters: Mapping[str, Mapping[str, Any]],
    options: schemas.SearchOptions,
) -> Response:
    with access.read() as library:
        knowledge_options = KnowledgeOptions(
            sources=sources,
            limit=clamp(options.limit, 1, _MAX_PAGE_SIZE),
            offset=clamp(options.offset, 0, LIMITS.page_offset),
            snippet_length=preference("snippet_length", options.snippet_length, {}),
            order_by=options.order_by,
            filters=filters,
            mode=options.mode,
            correct=options.correct,
            rerank=options.rerank,
        )
        results = library.knowledge.search(
            query, knowledge_options, audience=access.principal.audience
        )
    return json_response(results)


# -- reading ---


@routes.add("POST /api/knowledge/get", READ, returns=schemas.GetResponse)
def get_item_with_body(access: AccessTo, request: schemas.GetRequest) -> Response:
    """Returns a document or part of it. The body has the arguments of the tool `knowledge.get`."""
    return get(access, request, request.source, request.id, request.retrieval)


def get(
    access: Access,
    page: schemas.PageParameters,
    source: str,
    id: str | int,
    retrieval: dict[str, Any] | None,
) -> Response:
    with access.read() as library:
        document = library.knowledge.get(
            source,
            id,
            parse_retrieval(retrieval, {}),
            audience=access.principal.audience,
            page=page.page,
            page_size=page.page_size,
            whole_answer=True,
        )
    return json_response(document)


@routes.add("GET /api/knowledge/{source}", READ, returns=schemas.ItemList)
def list_items(
    access: AccessTo, source: Source, parameters: Annotated[schemas.ListParameters, Query()]
) -> Response:
    """Returns the documents of a source, most recently updated first."""
    limit, offset = clamp_page(parameters.limit, parameters.offset)
    with access.read() as library:
        summaries, total = library.knowledge.list(
            source,
            search=parameters.search,
            tags=parameters.tags,
            media_types=parameters.media_types,
            limit=limit,
            offset=offset,
        )
    items = [list_entry(summary) for summary in summaries]
    return json_response({"items": items, "total": total, "limit": limit, "offset": offset})


@routes.add(
    "GET /api/knowledge/{source}/{item_id:id}/export",
    READ,
    KNOWLEDGE,
    responses={200: {"content": {name: {} for name in _EXPORT_MEDIA_TYPES}}},
)
def export_item(
    access: AccessTo,
    source: WritableSource,
    item_id: ItemId,
    format: Annotated[
        str,
        Query(
            description=f"The file format ({_EXPORT_FORMATS}). Defaults to the first.",
            max_length=20,
        ),
    ] = "",
) -> Response:
    """Returns a document as a file."""
    with access.read() as library:
        require_readable(access.principal, library, source, item_id)
        file = library.knowledge.export(source, item_id, format or FORMATS[SOURCES[source]][0])
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
    return Response(file.data, headers=headers, media_type=file.media_type)


@routes.add("GET /api/knowledge/media/{item_id:id}/transcript", READ, returns=schemas.Transcript)
def get_transcript(
    access: AccessTo,
    item_id: ItemId,
    format: Annotated[
        Literal["text", "srt", "vtt", "json"],
        Query(description="The format. Transcripts without times are available as `text` only."),
    ] = "text",
    include_timestamps: Annotated[
        bool, Query(description="Include times in `text` and `json`.")
    ] = False,
) -> Response:
    """Returns the transcript of a recording."""
    with access.read() as library:
        content = library.knowledge.transcript(
            item_id, format, include_timestamps, access.principal.audience
        )
    return json_response({"content": content})


@routes.add("GET /api/knowledge/{source}/{item_id:id}", READ, returns=schemas.GetResponse)
def get_item(
    access: AccessTo,
    source: Source,
    item_id: ItemId,
    parameters: Annotated[schemas.GetParameters, Query()],
) -> Response:
    """Returns a complete document, or the part around a location in it."""
    return get(access, parameters, source, item_id, parameters.retrieval())


def require_readable(principal: Principal, library: Library, source: str, item_id: str) -> None:
    """Agents cannot export documents that contain something they may not read."""
    if not principal.agent:
        return
    document = library.knowledge.document(source, item_id)
    if has_masked_messages(document, principal.audience):
        raise Forbidden(
            "Parts of this document are human-only, so an agent's key cannot get a copy of it. "
            "Use the key of a person."
        )


# -- writing ---


@routes.add(
    "POST /api/knowledge/restore",
    WRITE,
    returns=schemas.Item,
    existing="The document exists and is identical to the deleted one.",
)
def restore_item(access: AccessTo, document: schemas.RestoredDocument) -> Response:
    """Restores a document that was deleted with `undo=true`."""
    restored = parse_export(document.model_dump(exclude_unset=True), document.kind)
    with access.write() as library:
        item, is_new = library.restore_document(restored)
    return json_response(list_entry(item), created_status(is_new))


def add_writing(source: str, noun: str, fields: type[RequestBody], origin: str = "") -> None:
    """Add the routes that create and update the items of a source, each with its own fields."""

    def create(access: AccessTo, fields: RequestBody) -> Response:
        with access.write() as library:
            summary = library.knowledge.create(source, fields.model_dump(exclude_unset=True))
            return json_response(list_entry(summary), 201)

    def update(access: AccessTo, item_id: ItemId, change: RequestBody) -> Response:
        changes = change.model_dump(exclude_unset=True)
        version = changes.pop("version", None)
        if not changes:
            raise InvalidInput("There is nothing to change. Send at least one field.")
        with access.write() as library:
            summary = library.knowledge.edit(source, item_id, changes, version)
            return json_response(list_entry(summary))

    name = noun.replace(" item", "").capitalize()
    create.__annotations__["fields"] = fields
    update.__annotations__["change"] = schemas.change_of(fields)
    routes.add(
        f"POST /api/knowledge/{source}",
        WRITE,
        KNOWLEDGE,
        summary=f"Create a {noun}",
        description=f"Creates a {noun}{origin}.",
        operation_id=f"create{name}",
        returns=schemas.Item,
        status=201,
    )(create)
    routes.add(
        f"PATCH /api/knowledge/{source}/{{item_id:id}}",
        WRITE,
        KNOWLEDGE,
        summary=f"Update a {noun}",
        description="Changes the fields in the request. The others stay the same.",
        operation_id=f"update{name}",
        returns=schemas.Item,
    )(update)


add_writing("notes", "note", schemas.NoteFields)
add_writing(
    "media", "media item", schemas.MediaFields, " from its text or from a transcript with times"
)
add_writing("characters", "character", schemas.CharacterFields, " from its fields or from a card")
add_writing("prompts", "prompt", schemas.PromptFields)


@routes.add("DELETE /api/knowledge/{source}/{item_id:id}", WRITE, returns=schemas.DeletedItem)
def delete_item(
    access: AccessTo,
    source: WritableSource,
    item_id: ItemId,
    undo: Annotated[
        bool, Query(description="Return the deleted document, so that it can be restored.")
    ] = False,
) -> Response:
    """Deletes a document permanently, with its index entries and vectors."""
    if undo:
        access.require(READ)
    with access.write() as library:
        if undo:
            require_readable(access.principal, library, source, item_id)
        deleted = library.knowledge.delete(source, item_id)
        purge = library.purge_status().state
    body: dict[str, Any] = {"success": True, "source": source, "id": deleted.id, "purge": purge}
    if undo:
        body["document"] = as_json(deleted)
    return json_response(body)
