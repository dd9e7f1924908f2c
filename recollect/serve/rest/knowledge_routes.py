"""Routes of the Knowledge API: search, read, write and export items of every kind.

See docs/contracts/knowledge-api.md. An id in a path may contain any character, including slashes.
Percent-encode the whole id, as `encodeURIComponent` does: then an id that ends in `/export` is not
mistaken for an export. Read a document with the id `search` with POST /api/knowledge/get.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from starlette.responses import Response
from starlette.routing import Match

from recollect.errors import InvalidInput
from recollect.knowledge.editing import MEDIA_TYPES
from recollect.knowledge.exporting import FORMATS
from recollect.knowledge.options import KnowledgeOptions
from recollect.knowledge.preferences import preference
from recollect.knowledge.results import SOURCES, list_entry
from recollect.knowledge.retrieval import parse_retrieval
from recollect.library import Library
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.limits import SEARCH
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute, clamp, clamp_page, created_or_existing
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE, Forbidden, Principal
from recollect.serve.masking import has_masked_messages
from recollect.serve.rest import knowledge_schemas as schemas
from recollect.settings import LIMITS
from recollect.transfer.export import as_json
from recollect.transfer.export_parsing import parse_export

"""The toolset that a key needs for these routes."""
_MAX_PAGE_SIZE = 100
_FILTER_SOURCES = {
    "keywords": "notes",
    "media_types": "media",
    "date_from": "media",
    "date_to": "media",
    "by": "chats",
    "character_id": "chats",
    "sender": "chats",
    "fields": "prompts",
}
"""The source each filter applies to."""
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


class _KnowledgeRoute(JsonRoute):
    """A route such as `{item_id}/export` matches only if the undecoded path ends in `/export`."""

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        last_segment, raw_path = self.path.rpartition("/")[2], scope.get("raw_path")
        has_suffix = "{item_id" in self.path and "{" not in last_segment
        if has_suffix and raw_path and not raw_path.endswith(b"/" + last_segment.encode()):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["knowledge"], prefix="/api/knowledge", route_class=_KnowledgeRoute)

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


# -- searching -----------------------------------------------------------------


@router.get(
    "/search",
    summary="Search all sources",
    responses={200: {"model": schemas.SearchResponse}},
)
@route_policy(READ, KNOWLEDGE, rate_limit=SEARCH)
def search_knowledge(
    access: AccessTo, parameters: Annotated[schemas.SearchParameters, Query()]
) -> Response:
    """Returns matching documents of all sources in one list.

    This is the search of the Knowledge API, for programs that speak it; otherwise use
    `GET /api/v1/search`. A filter restricts only the source it belongs to.
    """
    return _search_with_parameters(access, parameters, parameters.sources)


@router.post(
    "/search",
    summary="Search all sources with a JSON body",
    responses={200: {"model": schemas.SearchResponse}},
)
@route_policy(READ, KNOWLEDGE, rate_limit=SEARCH)
def search_knowledge_with_body(access: AccessTo, request: schemas.SearchRequest) -> Response:
    """Returns matching documents. The body has the arguments of the tool `knowledge.search`."""
    filters: dict[str, Any] = {}
    if request.filters is not None:
        filters = request.filters.model_dump(exclude_none=True)
    return _search(access, request.query, request.sources, filters, request)


@router.get(
    "/media-types",
    summary="List media types",
    responses={200: {"model": schemas.MediaTypes}},
)
@route_policy(READ, KNOWLEDGE)
def list_media_types(access: AccessTo) -> Response:
    """Returns the types of the library's media with their numbers, and common types."""
    with access.read() as library:
        counts = library.knowledge.media_types()
    types = [{"media_type": name, "count": count} for name, count in counts]
    return json_response({"types": types, "suggested": list(MEDIA_TYPES)})


@router.get(
    "/{source}/search",
    summary="Search one source",
    responses={200: {"model": schemas.SearchResponse}},
)
@route_policy(READ, KNOWLEDGE, rate_limit=SEARCH)
def search_knowledge_source(
    access: AccessTo,
    source: Source,
    parameters: Annotated[schemas.SourceSearchParameters, Query()],
) -> Response:
    """Returns matching documents of one source. Filters of other sources are rejected."""
    return _search_with_parameters(access, parameters, [source])


def _search_with_parameters(
    access: Access, parameters: schemas.SourceSearchParameters, sources: Sequence[str]
) -> Response:
    query = _query(parameters)
    filters = _filters(parameters, sources)
    return _search(access, query, sources, filters, parameters)


def _search(
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


def _query(parameters: schemas.SourceSearchParameters) -> str:
    query, alias = parameters.query, parameters.q
    if query and alias and query != alias:
        raise InvalidInput("query and q mean the same, but have different values.")
    if not (query or alias).strip():
        raise InvalidInput("Query parameter 'query' must not be empty")
    return query or alias


def _filters(
    parameters: schemas.FilterParameters, sources: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The filters by source. Raises InvalidInput for filters of a source that is not searched."""
    filters: dict[str, dict[str, Any]] = {}
    for name, source in _FILTER_SOURCES.items():
        value = getattr(parameters, name)
        if not value:
            continue
        if sources and source not in sources:
            raise InvalidInput(f"{name}: this filter is for {source}, which are not searched here.")
        filters.setdefault(source, {})[name] = value
    return filters


# -- reading -------------------------------------------------------------------


@router.post(
    "/get",
    summary="Retrieve a document with a JSON body",
    responses={200: {"model": schemas.GetResponse}},
)
@route_policy(READ, KNOWLEDGE)
def get_item_with_body(access: AccessTo, request: schemas.GetRequest) -> Response:
    """Returns a document or part of it. The body has the arguments of the tool `knowledge.get`."""
    options = None
    if request.retrieval is not None:
        options = request.retrieval.model_dump(exclude_none=True)
    with access.read() as library:
        document = library.knowledge.get(
            request.source,
            request.id,
            parse_retrieval(options, {}),
            audience=access.principal.audience,
            page=request.page,
            page_size=request.page_size,
            whole_answer=True,
        )
    return json_response(document)


@router.get("/{source}", summary="List documents", responses={200: {"model": schemas.ItemList}})
@route_policy(READ, KNOWLEDGE)
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


@router.get(
    "/{source}/{item_id:id}/export",
    summary="Export a document",
    responses={200: {"content": {name: {} for name in _EXPORT_MEDIA_TYPES}}},
)
@route_policy(READ, KNOWLEDGE)
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
        _require_readable(access.principal, library, source, item_id)
        file = library.knowledge.export(source, item_id, format or FORMATS[SOURCES[source]][0])
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
    return Response(file.data, headers=headers, media_type=file.media_type)


@router.get(
    "/media/{item_id:id}/transcript",
    summary="Retrieve a transcript",
    responses={200: {"model": schemas.Transcript}},
)
@route_policy(READ, KNOWLEDGE)
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


@router.get(
    "/{source}/{item_id:id}",
    summary="Retrieve a document",
    responses={200: {"model": schemas.GetResponse}},
)
@route_policy(READ, KNOWLEDGE)
def get_item(
    access: AccessTo,
    source: Source,
    item_id: ItemId,
    parameters: Annotated[schemas.GetParameters, Query()],
) -> Response:
    """Returns a complete document, or the part around a location in it."""
    with access.read() as library:
        document = library.knowledge.get(
            source,
            item_id,
            parse_retrieval(parameters.retrieval(), {}),
            audience=access.principal.audience,
            page=parameters.page,
            page_size=parameters.page_size,
            whole_answer=True,
        )
    return json_response(document)


def _require_readable(principal: Principal, library: Library, source: str, item_id: str) -> None:
    """Agents cannot export documents that contain something they may not read."""
    if not principal.agent:
        return
    document = library.knowledge.document(source, item_id)
    if has_masked_messages(document, principal.audience):
        raise Forbidden(
            "Parts of this document are human-only, so an agent's key cannot get a copy of it. "
            "Use the key of a person."
        )


# -- writing -------------------------------------------------------------------


@router.post(
    "/restore",
    summary="Restore a document",
    status_code=201,
    responses=created_or_existing(
        schemas.Item, "The document exists and is identical to the deleted one."
    ),
)
@route_policy(WRITE, KNOWLEDGE)
def restore_item(access: AccessTo, document: schemas.RestoredDocument) -> Response:
    """Restores a document that was deleted with `undo=true`."""
    restored = parse_export(document.model_dump(exclude_unset=True), document.kind)
    with access.write() as library:
        item, is_new = library.restore_document(restored)
    status = 201 if is_new else 200
    return json_response(list_entry(item), status)


@router.post(
    "/notes",
    summary="Create a note",
    status_code=201,
    responses={201: {"model": schemas.Item}},
)
@route_policy(WRITE, KNOWLEDGE)
def create_note(access: AccessTo, fields: schemas.NoteFields) -> Response:
    """Creates a note."""
    return _create(access, "notes", fields)


@router.post(
    "/media",
    summary="Create a media item",
    status_code=201,
    responses={201: {"model": schemas.Item}},
)
@route_policy(WRITE, KNOWLEDGE)
def create_media(access: AccessTo, fields: schemas.MediaFields) -> Response:
    """Creates a media item from its text or from a transcript with times."""
    return _create(access, "media", fields)


@router.post(
    "/characters",
    summary="Create a character",
    status_code=201,
    responses={201: {"model": schemas.Item}},
)
@route_policy(WRITE, KNOWLEDGE)
def create_character(access: AccessTo, fields: schemas.CharacterFields) -> Response:
    """Creates a character from its fields or from a character card."""
    return _create(access, "characters", fields)


@router.post(
    "/prompts",
    summary="Create a prompt",
    status_code=201,
    responses={201: {"model": schemas.Item}},
)
@route_policy(WRITE, KNOWLEDGE)
def create_prompt(access: AccessTo, fields: schemas.PromptFields) -> Response:
    """Creates a prompt."""
    return _create(access, "prompts", fields)


@router.patch(
    "/notes/{item_id:id}", summary="Update a note", responses={200: {"model": schemas.Item}}
)
@route_policy(WRITE, KNOWLEDGE)
def update_note(access: AccessTo, item_id: ItemId, change: schemas.NoteChange) -> Response:
    """Changes the fields in the request. The others stay the same."""
    return _update(access, "notes", item_id, change)


@router.patch(
    "/media/{item_id:id}", summary="Update a media item", responses={200: {"model": schemas.Item}}
)
@route_policy(WRITE, KNOWLEDGE)
def update_media(access: AccessTo, item_id: ItemId, change: schemas.MediaChange) -> Response:
    """Changes the fields in the request. The others stay the same."""
    return _update(access, "media", item_id, change)


@router.patch(
    "/characters/{item_id:id}",
    summary="Update a character",
    responses={200: {"model": schemas.Item}},
)
@route_policy(WRITE, KNOWLEDGE)
def update_character(
    access: AccessTo, item_id: ItemId, change: schemas.CharacterChange
) -> Response:
    """Changes the fields in the request, also in the card. The others stay the same."""
    return _update(access, "characters", item_id, change)


@router.patch(
    "/prompts/{item_id:id}", summary="Update a prompt", responses={200: {"model": schemas.Item}}
)
@route_policy(WRITE, KNOWLEDGE)
def update_prompt(access: AccessTo, item_id: ItemId, change: schemas.PromptChange) -> Response:
    """Changes the fields in the request. The others stay the same."""
    return _update(access, "prompts", item_id, change)


@router.delete(
    "/{source}/{item_id:id}",
    summary="Delete a document",
    responses={200: {"model": schemas.DeletedItem}},
)
@route_policy(WRITE, KNOWLEDGE)
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
            _require_readable(access.principal, library, source, item_id)
        deleted = library.knowledge.delete(source, item_id)
        purge = library.purge_status().state
    body: dict[str, Any] = {"success": True, "source": source, "id": deleted.id, "purge": purge}
    if undo:
        body["document"] = as_json(deleted)
    return json_response(body)


def _create(access: Access, source: str, fields: schemas.ItemFields) -> Response:
    with access.write() as library:
        summary = library.knowledge.create(source, fields.model_dump(exclude_unset=True))
        return json_response(list_entry(summary), 201)


def _update(access: Access, source: str, item_id: str, change: schemas.ItemFields) -> Response:
    fields = change.model_dump(exclude_unset=True)
    version = fields.pop("version", None)
    if not fields:
        raise InvalidInput("There is nothing to change. Send at least one field.")
    with access.write() as library:
        summary = library.knowledge.edit(source, item_id, fields, version)
        return json_response(list_entry(summary))
