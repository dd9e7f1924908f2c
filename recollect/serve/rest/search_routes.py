"""Routes of Recollect's own search API, with everything the library can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from recollect.language.text import iso
from recollect.library import Library
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.limits import SEARCH
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import DeferredRoute, clamp_page
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, Forbidden
from recollect.serve.links import conversation_url
from recollect.serve.masking import is_masked, mask_hit
from recollect.serve.rest import schemas

router = APIRouter(tags=["search"], prefix="/api/v1", route_class=DeferredRoute)

DocumentKind = Literal["conversation", "note", "media", "character", "prompt"]

_QUERY = """\
A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the fields `role:`,
`from:`, `in:`, `tag:`, `title:`, `before:` and `after:`. Repeat the parameter two to five times to
find conversations that contain all of several concepts."""


def _any_of(what: str) -> str:
    return f"Only {what}. Repeat the parameter to allow several."


class PageParameters(BaseModel):
    """How to search, and which page to return."""

    mode: Literal["both", "text", "vector"] = Field(
        "both", description="Search by words (`text`), by meaning (`vector`) or by `both`."
    )
    group: Literal["message", "conversation"] = Field(
        "message",
        description="Return each message, or each conversation once with its best messages.",
    )
    limit: int = Field(20, description="Page size, from 1 to 200. Values outside are clamped.")
    offset: int = Field(0, description="Number of hits to skip.")

    def options(self) -> SearchOptions:
        limit, offset = clamp_page(self.limit, self.offset)
        return SearchOptions(self.mode, self.group, limit, offset)


class SearchParameters(PageParameters):
    q: list[str] = Field(description=_QUERY)
    role: list[str] = Field([], description=_any_of("messages of this role"))
    author: list[str] = Field([], description=_any_of("messages of this author"))
    after: str | None = Field(
        None, max_length=64, description="Only messages since this date or time (ISO 8601)."
    )
    before: str | None = Field(
        None,
        max_length=64,
        description="Only messages until this date or time (ISO 8601). A date includes its day.",
    )
    project: list[str] = Field([], description=_any_of("conversations of this project"))
    source: list[str] = Field(
        [], description=_any_of("conversations from this source, such as `chatgpt`")
    )
    kind: list[DocumentKind] = Field([], description=_any_of("documents of this kind"))
    tag: list[str] = Field([], description=_any_of("conversations with this tag"))
    conversation: list[str] = Field([], description=_any_of("messages of this conversation"))
    hidden: bool = Field(
        False, description="Include messages the source hides, such as system prompts."
    )
    score: Literal["rank", "fts"] = Field(
        "rank", description="Use Recollect's ranking, or that of the full-text engine."
    )
    typing: bool = Field(
        False, description="The user is still typing: the last word also matches as a prefix."
    )
    correct: bool = Field(
        True,
        description="Correct a word that no message contains, if a frequent word is similar. "
        "A query with quotes is not corrected.",
    )
    rerank: bool | None = Field(
        None,
        description="Let a small model judge the first hits: better for questions, slower. "
        "The default is what the setting `rerank` says.",
    )


class RelatedParameters(PageParameters):
    conversation: str = Field(description="The id of the conversation.")
    message: str = Field(description="The id of the message in that conversation.")


@router.get("/search", summary="Search", responses={200: {"model": schemas.SearchPage}})
@route_policy(READ, CONVERSATIONS, rate_limit=SEARCH)
def search(access: AccessTo, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Returns messages that match a query, best first. This is the recommended search.

    It finds conversations, notes, media, characters and prompts, by words and by meaning. The
    other search routes belong to APIs that other programs speak.
    """
    query: str | list[str] = parameters.q
    if len(parameters.q) == 1:
        query = parameters.q[0]
    with access.read() as library:
        page = library.search(
            query,
            Filter.of(
                roles=parameters.role,
                authors=parameters.author,
                after=parameters.after or None,
                before=parameters.before or None,
                projects=parameters.project,
                sources=parameters.source,
                kinds=_kinds(access, parameters.kind),
                tags=parameters.tag,
                conversations=parameters.conversation,
                hidden=parameters.hidden,
            ),
            replace(
                parameters.options(),
                score=parameters.score,
                rerank=parameters.rerank,
                typing=parameters.typing,
                correct=parameters.correct,
            ),
            audience=access.principal.audience,
        )
    return json_response(_page(access, page))


@router.get(
    "/related", summary="Find related messages", responses={200: {"model": schemas.SearchPage}}
)
@route_policy(READ, CONVERSATIONS, document="conversation", rate_limit=SEARCH)
def find_related(access: AccessTo, parameters: Annotated[RelatedParameters, Query()]) -> Response:
    """Returns messages that are similar to a given one, in words or in meaning."""
    with access.read() as library:
        _require_readable(access, library, parameters)
        page = library.related(
            parameters.conversation,
            parameters.message,
            parameters.options(),
            kinds=_kinds(access),
            audience=access.principal.audience,
        )
    return json_response(_page(access, page))


def _kinds(access: Access, kinds: Sequence[str] = ()) -> Sequence[str]:
    """The kinds of documents to search; none means all. Some keys are for conversations only."""
    if set(kinds) - {CONVERSATION}:
        access.require(READ, KNOWLEDGE)
    if access.principal.has_toolset(KNOWLEDGE):
        return kinds
    return (CONVERSATION,)


def _require_readable(access: Access, library: Library, parameters: RelatedParameters) -> None:
    """Related messages reveal what a masked message says, so agents cannot ask for them.

    The search itself does not find a hidden message.
    """
    if access.principal.audience is not Audience.AGENT_MASKED:
        return
    message = library.message(parameters.conversation, parameters.message)
    if is_masked(message, access.principal.audience):
        raise Forbidden(
            "This message is human-only, so an agent's key cannot search for related messages."
        )


@router.get(
    "/stats", summary="Retrieve statistics", responses={200: {"model": schemas.LibraryStats}}
)
@route_policy(READ, CONVERSATIONS)
def get_stats(access: AccessTo) -> Response:
    """Returns the size of the library."""
    with access.read() as library:
        statistics = library.stats()
    statistics.pop("path", None)
    return json_response(statistics)


@router.get(
    "/activity", summary="Retrieve activity", responses={200: {"model": schemas.LibraryActivity}}
)
@route_policy(READ, CONVERSATIONS)
def get_activity(access: AccessTo) -> Response:
    """Returns the messages that people wrote, by month, weekday, hour, source and project, and
    replies by model and calls by tool."""
    with access.read() as library:
        counts = library.activity()
    return json_response(counts)


@router.get("/facets", summary="List facets", responses={200: {"model": schemas.LibraryFacets}})
@route_policy(READ, CONVERSATIONS)
def list_facets(
    access: AccessTo,
    text: Annotated[str, Query(description="Only names that contain this text.")] = "",
) -> Response:
    """Returns projects, sources and tags with their numbers of conversations.

    Without a text, these are the 200 most frequent ones of each; with a text, all that contain it.
    """
    with access.read() as library:
        counts = library.facets()
        if text:
            counts = {facet: library.facet_names(facet, text) for facet in counts}
    return json_response(counts)


def _page(access: Access, page: Page) -> dict[str, Any]:
    base_url, audience = access.service.config.base_url, access.principal.audience
    return {
        "hits": [_hit(mask_hit(hit, audience), base_url) for hit in page.hits],
        "total": page.total,
        "exact": page.exact,
        "partial": page.partial,
        "weak": page.weak,
        "limit": page.limit,
        "offset": page.offset,
        "mode": page.mode,
        "matched": page.matched,
        "score_type": page.score_type,
        "embedded": page.embedded,
        "note": page.note,
        "missing": list(page.missing),
        "corrections": dict(page.corrections),
        "nearest": [_hit(mask_hit(hit, audience), base_url) for hit in page.nearest],
    }


def _hit(hit: Hit, base_url: str) -> dict[str, Any]:
    open_url = None
    if base_url:
        open_url = base_url + conversation_url(hit.conversation_id, m=hit.message_id)
    return {
        "conversation_id": hit.conversation_id,
        "message_id": hit.message_id,
        "title": hit.title,
        "role": hit.role,
        "author": hit.author,
        "kind": hit.kind,
        "source": hit.source,
        "project": hit.project,
        "type": hit.type,
        "created_at": iso(hit.created_at),
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
        "also": [_hit(other, base_url) for other in hit.also],
        "open_url": open_url,
    }
