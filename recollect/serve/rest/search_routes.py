"""The library's own search for other programs: everything it can do, and what it found with all it knows of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from recollect.language.text import iso
from recollect.library import Library
from recollect.model.search import Hit, Page
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.principal import Forbidden
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import clamp
from recollect.serve.links import conversation_url
from recollect.serve.masking import is_masked, mask_hit
from recollect.serve.rest import schemas
from recollect.serve.rest.stored_messages import stored_message
from recollect.settings import LIMITS

router = APIRouter(tags=["search"], prefix="/api/v1")

Mode = Annotated[
    Literal["both", "text", "vector"], Query(description="By words, by meaning, or both.")
]
Group = Annotated[
    Literal["message", "conversation"],
    Query(description="Each message, or each conversation once with its best."),
]
Limit = Annotated[int, Query(description="How many at most; values outside 1 to 200 are clamped.")]
Offset = Annotated[int, Query(description="How many to skip.")]


def _any_of(what: str) -> Any:
    return Query(description=f"Only {what}; may be given several times, and any one is enough.")


@router.get("/search", responses={200: {"model": schemas.FoundMessages}})
@route_policy(rate_limit=SEARCH)
def search(
    access: AccessTo,
    q: Annotated[
        list[str],
        Query(
            description='A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the fields role: '
            "from: in: tag: title: before: after:. Given two to five times: concepts that a conversation must all have."
        ),
    ],
    mode: Mode = "both",
    group: Group = "message",
    limit: Limit = 20,
    offset: Offset = 0,
    role: Annotated[list[str], _any_of("messages of this role")] = [],  # noqa: B006 - FastAPI copies it
    author: Annotated[list[str], _any_of("messages of this author")] = [],  # noqa: B006
    after: Annotated[
        str | None, Query(description="Not before this date or time (ISO 8601).", max_length=64)
    ] = None,
    before: Annotated[
        str | None, Query(description="Not after this date or time (ISO 8601).", max_length=64)
    ] = None,
    namespace: Annotated[list[str], _any_of("conversations of this namespace")] = [],  # noqa: B006
    origin: Annotated[list[str], _any_of("conversations of this origin")] = [],  # noqa: B006
    tag: Annotated[list[str], _any_of("conversations with this tag")] = [],  # noqa: B006
    conversation: Annotated[list[str], _any_of("this conversation")] = [],  # noqa: B006
    hidden: Annotated[
        bool, Query(description="Also what the origin hides, such as system prompts.")
    ] = False,
    score: Annotated[
        Literal["rank", "fts"],
        Query(description="Recollect's own score, or that of the text engine."),
    ] = "rank",
) -> Response:
    """Messages that match, best first."""
    with access.read() as library:
        page = library.search(
            q[0] if len(q) == 1 else q,
            mode=mode,
            group=group,
            limit=clamp(limit, 1, LIMITS.page_size),
            offset=clamp(offset, 0, LIMITS.page_offset),
            roles=role,
            authors=author,
            after=after or None,
            before=before or None,
            projects=namespace,
            sources=origin,
            tags=tag,
            conversations=conversation,
            hidden=hidden,
            score=score,
        )
    return json_response(_page(access, page))


@router.get("/related", responses={200: {"model": schemas.FoundMessages}})
@route_policy(rate_limit=SEARCH)
def related(
    access: AccessTo,
    conversation: Annotated[str, Query(description="The id of the conversation.")],
    message: Annotated[str, Query(description="The id of the message.")],
    mode: Mode = "both",
    group: Group = "message",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Messages like a given one, in words and in meaning."""
    with access.read() as library:
        if access.principal.agent:
            _demand_seen(access, library, conversation, message)
        page = library.related(
            conversation,
            message,
            mode=mode,
            group=group,
            limit=clamp(limit, 1, LIMITS.page_size),
            offset=clamp(offset, 0, LIMITS.page_offset),
        )
    return json_response(_page(access, page))


@router.get("/stats", responses={200: {"model": schemas.LibraryStats}})
def stats(access: AccessTo) -> Response:
    """How much the library holds."""
    with access.read() as library:
        told = library.stats()
    return json_response({name: value for name, value in told.items() if name != "path"})


@router.get("/activity", responses={200: {"model": schemas.LibraryActivity}})
def activity(access: AccessTo) -> Response:
    """Numbers of messages: by month, weekday and hour, by origin, model, tool and namespace."""
    with access.read() as library:
        told = library.activity()
    return json_response(told)


@router.get("/facets", responses={200: {"model": schemas.LibraryFacets}})
def facets(access: AccessTo) -> Response:
    """The namespaces, origins and tags there are, with the number of their conversations."""
    with access.read() as library:
        told = library.facets()
    return json_response(told)


def _demand_seen(access: Access, library: Library, conversation: str, message: str) -> None:
    """What is like a message tells what it says; so an agent may ask only for those that it may see."""
    if is_masked(stored_message(library, conversation, message), access.principal.audience):
        raise Forbidden("Only people may see this message, and so what is like it.")


def _page(access: Access, page: Page) -> dict[str, Any]:
    base = access.service.config.base_url
    return {
        "hits": [_hit(mask_hit(hit, access.principal.audience), base) for hit in page.hits],
        "total": page.total,
        "exact": page.exact,
        "limit": page.limit,
        "offset": page.offset,
        "mode": page.mode,
        "matched": page.matched,
        "score_type": page.score_type,
        "embedded": page.embedded,
        "note": page.note,
    }


def _hit(hit: Hit, base: str) -> dict[str, Any]:
    return {
        "conversation_id": hit.conversation_id,
        "message_id": hit.message_id,
        "title": hit.title,
        "role": hit.role,
        "author": hit.author,
        "kind": hit.type,
        "created_at": iso(hit.created_at),
        "origin": hit.source,
        "source": hit.kind,
        "namespace": hit.project,
        "position": hit.position,
        "canonical": hit.canonical,
        "visibility": hit.visibility,
        "score": hit.score,
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "arms": list(hit.arms),
        "terms": list(hit.terms),
        "parts": dict(hit.parts),
        "copies": hit.copies,
        "also": [_hit(other, base) for other in hit.also],
        "open_url": base + conversation_url(hit.conversation_id, m=hit.message_id)
        if base
        else None,
    }
