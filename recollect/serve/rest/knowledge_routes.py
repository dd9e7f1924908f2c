"""Contract 3 for other programs: notes, media, chats, characters and prompts, found, read, written and exported.

An id in a path may hold any character, a slash too. Percent-encode it whole, as
`encodeURIComponent` does: then an id that ends in `/export` is not taken for an
export. What has the id `search` is read with POST /api/knowledge/get.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from starlette.responses import Response
from starlette.routing import Match

from recollect.errors import Conflict, InvalidInput
from recollect.knowledge.editing import FORMATS, MEDIA_TYPES
from recollect.knowledge.preferences import preference
from recollect.knowledge.results import KINDS, list_entry
from recollect.knowledge.retrieval import parse_retrieval
from recollect.library import Library
from recollect.model.documents import Document
from recollect.serve.http.access import AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.principal import Forbidden, Principal
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import JsonRoute, clamp
from recollect.serve.masking import is_masked
from recollect.serve.rest import knowledge_schemas as schemas
from recollect.serve.rest.exports import parse_export
from recollect.settings import LIMITS
from recollect.transfer.export import as_json

KNOWLEDGE = "knowledge"
"""The toolset that a key needs for these routes."""
PAGE_SIZE = 20
PAGE_SIZE_OF_ONE = 10
_FILTERS = {
    "keywords": "notes",
    "media_types": "media",
    "date_from": "media",
    "date_to": "media",
    "by": "chats",
    "character_id": "chats",
    "sender": "chats",
    "fields": "prompts",
}
"""Which source each filter is for."""
_FORMATS = "; ".join(
    f"{name}: {', '.join(FORMATS[kind])}" for name, kind in KINDS.items() if kind in FORMATS
)
_FILES = {
    "application/json",
    "text/markdown",
    "text/plain",
    "text/vtt",
    "application/x-subrip",
    "image/png",
}


class _Route(JsonRoute):
    """A route that ends in a word after an id is meant only where the address ends so before it is decoded."""

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        last, raw = self.path.rpartition("/")[2], scope.get("raw_path")
        if (
            "{item_id" in self.path
            and "{" not in last
            and raw
            and not raw.endswith(b"/" + last.encode())
        ):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["knowledge"], prefix="/api/knowledge", route_class=_Route)

Source = Annotated[schemas.Source, Path(description="Which kind of document.")]
Written = Annotated[
    Literal["notes", "media", "characters", "prompts"], Path(description="Which kind of document.")
]
ItemId = Annotated[
    str,
    Path(
        description="Its id, percent-encoded; of characters and prompts also its name.",
        min_length=1,
    ),
]
Asked = Annotated[
    str,
    Query(
        description='A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses.',
        max_length=1_000,
    ),
]
Same = Annotated[str, Query(description="The same as query.", max_length=1_000)]
Limit = Annotated[int, Query(description="How many at most; values outside 1 to 100 are clamped.")]
Offset = Annotated[int, Query(description="How many to skip.")]
SnippetLength = Annotated[
    int | None, Query(description="Characters of a snippet, 10 to 1000; 300 unless given.")
]
Order = Annotated[schemas.Order, Query(description="Best first, or newest first.")]
Mode = Annotated[schemas.Mode, Query(description="By words, by meaning, or both.")]
Keywords = Annotated[
    list[str], Query(description="Of notes: with this keyword; any one is enough.")
]
MediaTypes = Annotated[list[str], Query(description="Of media: of this type; any one is enough.")]
DateFrom = Annotated[
    str, Query(description="Of media: not before this date or time (ISO 8601).", max_length=64)
]
DateTo = Annotated[
    str, Query(description="Of media: not after this date or time (ISO 8601).", max_length=64)
]
By = Annotated[schemas.Place | None, Query(description="Of chats: where to look.")]
CharacterId = Annotated[str, Query(description="Of chats: with this character.", max_length=500)]
Sender = Annotated[
    str, Query(description="Of chats: what this role or author said.", max_length=500)
]
Fields = Annotated[
    list[schemas.PromptField],
    Query(description="Of prompts: where to look; everywhere unless given."),
]


# -- finding -------------------------------------------------------------------


@router.get("/search", responses={200: {"model": schemas.SearchResponse}})
@route_policy(rate_limit=SEARCH)
def search(
    access: AccessTo,
    query: Asked = "",
    q: Same = "",
    sources: Annotated[
        list[schemas.Source], Query(description="Only these kinds; all unless given.")
    ] = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = PAGE_SIZE,
    offset: Offset = 0,
    snippet_length: SnippetLength = None,
    order_by: Order = "relevance",
    mode: Mode = "both",
    keywords: Keywords = [],  # noqa: B006
    media_types: MediaTypes = [],  # noqa: B006
    date_from: DateFrom = "",
    date_to: DateTo = "",
    by: By = None,
    character_id: CharacterId = "",
    sender: Sender = "",
    fields: Fields = [],  # noqa: B006
) -> Response:
    """Everything that matches, of every kind, in one list. A filter holds for the kind that it is of."""
    given = {
        "keywords": keywords,
        "media_types": media_types,
        "date_from": date_from,
        "date_to": date_to,
        "by": by,
        "character_id": character_id,
        "sender": sender,
        "fields": fields,
    }
    return _found(
        access,
        _either(query, q),
        sources,
        _filters(sources, given),
        limit,
        offset,
        snippet_length,
        order_by,
        mode,
    )


@router.post("/search", responses={200: {"model": schemas.SearchResponse}})
@route_policy(rate_limit=SEARCH)
def search_as_told(access: AccessTo, question: schemas.Question) -> Response:
    """The same, with what the tool knowledge.search takes as the body."""
    filters = {} if question.filters is None else question.filters.model_dump(exclude_none=True)
    return _found(
        access,
        question.query,
        question.sources,
        filters,
        question.limit,
        question.offset,
        question.snippet_length,
        question.order_by,
        question.mode,
    )


@router.get("/media-types", responses={200: {"model": schemas.MediaTypes}})
def media_types(access: AccessTo) -> Response:
    """The types of the library's media, with how many there are of each, and those that are usual."""
    with access.read(KNOWLEDGE) as library:
        types = library.knowledge.media_types()
    told = [{"media_type": name, "count": count} for name, count in types]
    return json_response({"types": told, "suggested": list(MEDIA_TYPES)})


@router.get("/{source}/search", responses={200: {"model": schemas.SearchResponse}})
@route_policy(rate_limit=SEARCH)
def search_one_source(
    access: AccessTo,
    source: Source,
    query: Asked = "",
    q: Same = "",
    limit: Limit = PAGE_SIZE_OF_ONE,
    offset: Offset = 0,
    snippet_length: SnippetLength = None,
    order_by: Order = "relevance",
    mode: Mode = "both",
    keywords: Keywords = [],  # noqa: B006
    media_types: MediaTypes = [],  # noqa: B006
    date_from: DateFrom = "",
    date_to: DateTo = "",
    by: By = None,
    character_id: CharacterId = "",
    sender: Sender = "",
    fields: Fields = [],  # noqa: B006
) -> Response:
    """What matches of one kind. A filter of another kind is refused."""
    given = {
        "keywords": keywords,
        "media_types": media_types,
        "date_from": date_from,
        "date_to": date_to,
        "by": by,
        "character_id": character_id,
        "sender": sender,
        "fields": fields,
    }
    return _found(
        access,
        _either(query, q),
        [source],
        _filters([source], given),
        limit,
        offset,
        snippet_length,
        order_by,
        mode,
    )


def _found(
    access: AccessTo,
    query: str,
    sources: Sequence[str],
    filters: Mapping[str, Mapping[str, Any]],
    limit: int,
    offset: int,
    snippet_length: int | None,
    order_by: str,
    mode: str,
) -> Response:
    with access.read(KNOWLEDGE) as library:
        found = library.knowledge.search(
            query,
            sources=sources,
            limit=clamp(limit, 1, 100),
            offset=clamp(offset, 0, LIMITS.page_offset),
            snippet_length=preference("snippet_length", snippet_length, {}),
            order_by=order_by,
            filters=filters,
            mode=mode,
            audience=access.principal.audience,
        )
    return json_response(found)


def _either(query: str, q: str) -> str:
    if query and q and query != q:
        raise InvalidInput("query and q are the same thing, and here they differ.")
    if not (query or q).strip():
        raise InvalidInput("Query parameter 'query' must not be empty")
    return query or q


def _filters(sources: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is given, under the source that it is for. Raises InvalidInput where that source is not asked for."""
    filters: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if value:
            source = _FILTERS[name]
            if sources and source not in sources:
                raise InvalidInput(f"{name} is for {source}, which are not searched here.")
            filters.setdefault(source, {})[name] = value
    return filters


# -- reading -------------------------------------------------------------------


@router.post("/get", responses={200: {"model": schemas.GetResponse}})
def get_as_told(access: AccessTo, wanted: schemas.Wanted) -> Response:
    """A document, or the part of it that is wanted: with what the tool knowledge.get takes as the body."""
    given = None if wanted.retrieval is None else wanted.retrieval.model_dump(exclude_none=True)
    with access.read(KNOWLEDGE) as library:
        return json_response(
            library.knowledge.get(
                wanted.source,
                wanted.id,
                parse_retrieval(given, {}),
                audience=access.principal.audience,
                page=wanted.page,
                page_size=wanted.page_size,
            )
        )


@router.get("/{source}", responses={200: {"model": schemas.ItemList}})
def list_items(
    access: AccessTo,
    source: Source,
    search: Annotated[str, Query(description="A text that the title or the id must contain.")] = "",
    tags: Annotated[
        list[str], Query(description="With this tag or keyword; any one is enough.")
    ] = [],  # noqa: B006
    media_types: MediaTypes = [],  # noqa: B006
    limit: Annotated[
        int, Query(description="How many at most; values outside 1 to 200 are clamped.")
    ] = 50,
    offset: Offset = 0,
) -> Response:
    """What there is of a kind, last changed first."""
    limit, offset = clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)
    with access.read(KNOWLEDGE) as library:
        found, total = library.knowledge.list(
            source, search=search, tags=tags, media_types=media_types, limit=limit, offset=offset
        )
    return json_response(
        {
            "items": [list_entry(about) for about in found],
            "total": total,
            "limit": limit,
            "offset": offset,
        }
    )


@router.get(
    "/{source}/{item_id:id}/export",
    responses={200: {"content": {name: {} for name in sorted(_FILES)}}},
)
def export_item(
    access: AccessTo,
    source: Written,
    item_id: ItemId,
    format: Annotated[str, Query(description=f"Of {_FORMATS}.", max_length=20)] = "",
) -> Response:
    """A document as a file; in the first format of its kind unless one is given."""
    with access.read(KNOWLEDGE) as library:
        _demand_open(access.principal, library, source, item_id)
        file = library.knowledge.export(source, item_id, format or FORMATS[KINDS[source]][0])
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
    return Response(file.data, headers=headers, media_type=file.media_type)


@router.get("/media/{item_id:id}/transcript", responses={200: {"model": schemas.Transcript}})
def transcript(
    access: AccessTo,
    item_id: ItemId,
    format: Annotated[
        Literal["text", "srt", "vtt", "json"],
        Query(description="What has no times can be had as text alone."),
    ] = "text",
    include_timestamps: Annotated[
        bool, Query(description="Of text and json: whether it says when.")
    ] = False,
) -> Response:
    """What is said in a recording."""
    with access.read(KNOWLEDGE) as library:
        said = library.knowledge.transcript(
            item_id, format, include_timestamps, access.principal.audience
        )
    return json_response({"content": said})


@router.get("/{source}/{item_id:id}", responses={200: {"model": schemas.GetResponse}})
def get_item(
    access: AccessTo,
    source: Source,
    item_id: ItemId,
    mode: Annotated[schemas.RetrievalMode, Query(description="How much of it is wanted.")] = "full",
    snippet_length: SnippetLength = None,
    max_tokens: Annotated[
        int | None, Query(description="The answer is never longer; 16 to 50000.")
    ] = None,
    chars_per_token: Annotated[
        float | None, Query(description="Characters that count as a token; 4.")
    ] = None,
    chunk_size_tokens: Annotated[
        int | None, Query(description="Chunks of this size, made on the fly.")
    ] = None,
    chunk_overlap_tokens: Annotated[
        int | None, Query(description="And how much of one is in the next.")
    ] = None,
    sibling_window: Annotated[
        int | None, Query(description="Chunks or messages on each side, 0 to 20.")
    ] = None,
    prefer_prechunked: Annotated[
        bool | None, Query(description="Chunks as they are stored.")
    ] = None,
    chunk_index: Annotated[int | None, Query(description="Where to look: this chunk.")] = None,
    chunk_uuid: Annotated[
        str | None, Query(description="Where to look: the chunk of this uuid.")
    ] = None,
    approx_offset: Annotated[
        int | None, Query(description="Where to look: at this character.")
    ] = None,
    seconds: Annotated[
        float | None, Query(description="Where to look: what is said at this second.")
    ] = None,
    field: Annotated[
        str | None, Query(description="Where to look: this field of a character or prompt.")
    ] = None,
    message_id: Annotated[
        str | None, Query(description="Where to look: this message of a chat.")
    ] = None,
    message_index: Annotated[
        int | None, Query(description="Where to look: the message at this place.")
    ] = None,
    query: Annotated[
        str | None,
        Query(description="What to look for where nothing says where to look.", max_length=1_000),
    ] = None,
    offset: Annotated[
        int | None, Query(description="Of a whole text: the character to begin with.")
    ] = None,
    page: Annotated[int, Query(description="Of a whole chat: the page.")] = 1,
    page_size: Annotated[
        int, Query(description="Messages on a page; values outside 1 to 200 are clamped.")
    ] = 50,
) -> Response:
    """A document: all of it, or what stands around a place in it."""
    loc = {
        "chunk_index": chunk_index,
        "chunk_uuid": chunk_uuid,
        "approx_offset": approx_offset,
        "seconds": seconds,
        "field": field,
        "message_id": message_id,
        "message_index": message_index,
    }
    wanted = parse_retrieval(
        {
            "mode": mode,
            "snippet_length": snippet_length,
            "max_tokens": max_tokens,
            "chars_per_token": chars_per_token,
            "chunk_size_tokens": chunk_size_tokens,
            "chunk_overlap_tokens": chunk_overlap_tokens,
            "sibling_window": sibling_window,
            "prefer_prechunked": prefer_prechunked,
            "query": query,
            "offset": offset,
            "loc": {name: value for name, value in loc.items() if value is not None},
        },
        {},
    )
    with access.read(KNOWLEDGE) as library:
        return json_response(
            library.knowledge.get(
                source,
                item_id,
                wanted,
                audience=access.principal.audience,
                page=page,
                page_size=page_size,
            )
        )


def _demand_open(principal: Principal, library: Library, source: str, item_id: str) -> None:
    """An agent has no file of what it may not see all of."""
    if principal.agent:
        _demand_whole(principal, library.store.document(library.knowledge.find(source, item_id).id))


def _demand_whole(principal: Principal, document: Document) -> None:
    if any(is_masked(passage, principal.audience) for passage in document.passages):
        raise Forbidden(
            "A part of this only people may see, so an agent's key cannot take it along."
        )


# -- writing -------------------------------------------------------------------


@router.post(
    "/restore",
    status_code=201,
    responses={
        201: {"model": schemas.Item},
        200: {"model": schemas.Item, "description": "It is there, as the export says."},
    },
)
def restore_item(access: AccessTo, document: schemas.RestoredDocument) -> Response:
    """Put a deleted document back, as it was given out."""
    given = parse_export(document.model_dump(exclude_unset=True), document.kind)
    with access.write(KNOWLEDGE) as library:
        there = library.store.find_id(given.source, given.source_id)
        if there is not None and as_json(library.store.document(there)) != as_json(given):
            raise Conflict("This is in the library, and has changed since it was given out.")
        restored = there or library.restore_conversation(given).id
        return json_response(list_entry(library.store.summary(restored)), 200 if there else 201)


@router.post("/notes", status_code=201, responses={201: {"model": schemas.Item}})
def create_note(access: AccessTo, fields: schemas.NoteFields) -> Response:
    """A new note."""
    return _created(access, "notes", fields)


@router.post("/media", status_code=201, responses={201: {"model": schemas.Item}})
def create_media(access: AccessTo, fields: schemas.MediaFields) -> Response:
    """A new media item: its text, or its transcript with times."""
    return _created(access, "media", fields)


@router.post("/characters", status_code=201, responses={201: {"model": schemas.Item}})
def create_character(access: AccessTo, fields: schemas.CharacterFields) -> Response:
    """A new character: its fields, or a character card's data."""
    return _created(access, "characters", fields)


@router.post("/prompts", status_code=201, responses={201: {"model": schemas.Item}})
def create_prompt(access: AccessTo, fields: schemas.PromptFields) -> Response:
    """A new prompt."""
    return _created(access, "prompts", fields)


@router.patch("/notes/{item_id:id}", responses={200: {"model": schemas.Item}})
def change_note(access: AccessTo, item_id: ItemId, change: schemas.NoteChange) -> Response:
    """Change what is given and nothing else."""
    return _changed(access, "notes", item_id, change)


@router.patch("/media/{item_id:id}", responses={200: {"model": schemas.Item}})
def change_media(access: AccessTo, item_id: ItemId, change: schemas.MediaChange) -> Response:
    """Change what is given and nothing else."""
    return _changed(access, "media", item_id, change)


@router.patch("/characters/{item_id:id}", responses={200: {"model": schemas.Item}})
def change_character(
    access: AccessTo, item_id: ItemId, change: schemas.CharacterChange
) -> Response:
    """Change what is given and nothing else; of the card too."""
    return _changed(access, "characters", item_id, change)


@router.patch("/prompts/{item_id:id}", responses={200: {"model": schemas.Item}})
def change_prompt(access: AccessTo, item_id: ItemId, change: schemas.PromptChange) -> Response:
    """Change what is given and nothing else."""
    return _changed(access, "prompts", item_id, change)


@router.delete("/{source}/{item_id:id}", responses={200: {"model": schemas.DeletedItem}})
def delete_item(
    access: AccessTo,
    source: Written,
    item_id: ItemId,
    undo: Annotated[
        bool, Query(description="Give out what is deleted, so that it can be put back.")
    ] = False,
) -> Response:
    """Delete a document for good: its text, and everything that was made of it."""
    with access.write(KNOWLEDGE) as library:
        if undo:
            _demand_open(access.principal, library, source, item_id)
        deleted = library.knowledge.delete(source, item_id)
    done: dict[str, Any] = {"success": True, "source": source, "id": deleted.id}
    return json_response(done | {"document": as_json(deleted)} if undo else done)


def _created(access: AccessTo, source: str, fields: schemas.Fields) -> Response:
    with access.write(KNOWLEDGE) as library:
        return json_response(
            list_entry(library.knowledge.create(source, fields.model_dump(exclude_unset=True))), 201
        )


def _changed(access: AccessTo, source: str, item_id: str, change: schemas.Fields) -> Response:
    given = change.model_dump(exclude_unset=True)
    version = given.pop("version", None)
    if not given:
        raise InvalidInput("There is nothing to change: give at least one field.")
    with access.write(KNOWLEDGE) as library:
        return json_response(list_entry(library.knowledge.edit(source, item_id, given, version)))
