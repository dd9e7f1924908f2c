"""Routes of Recollect's own search API, with everything the library can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from recollect.language.text import iso
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, Forbidden
from recollect.serve.links import conversation_url
from recollect.serve.masking import is_masked, mask_hit
from recollect.serve.rest.schemas import PageSize, ResponseBody, Visibility, about, clamp_page

routes = Routes("search", CONVERSATIONS)

DocumentKind = Literal["conversation", "note", "media", "character", "prompt"]
Counts = list[list[str | int]]
"""Pairs of a name and a count."""


# -- requests ---


def any_of(what: str) -> Any:
    return about(f"Only {what}. Repeat the parameter to allow several.", [])


class PageParameters(BaseModel):
    """How to search, and which page to return."""

    mode: Literal["both", "text", "vector"] = about(
        "Search by words (`text`), by meaning (`vector`) or by `both`.", "both"
    )
    group: Literal["message", "conversation"] = about(
        "Return each message, or each conversation once with its best messages.", "message"
    )
    limit: PageSize = 20
    offset: int = about("Number of hits to skip.", 0)

    def options(self) -> SearchOptions:
        limit, offset = clamp_page(self.limit, self.offset)
        return SearchOptions(self.mode, self.group, limit, offset)


class SearchParameters(PageParameters):
    q: list[str] = about(
        'A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the fields '
        "`role:`, `from:`, `in:`, `tag:`, `title:`, `before:` and `after:`. Repeat the parameter "
        "two to five times to find conversations that contain all of several concepts."
    )
    role: list[str] = any_of("messages of this role")
    author: list[str] = any_of("messages of this author")
    after: str | None = about(
        "Only messages since this date or time (ISO 8601).", None, max_length=64
    )
    before: str | None = about(
        "Only messages until this date or time (ISO 8601). A date includes its day.",
        None,
        max_length=64,
    )
    project: list[str] = any_of("conversations of this project")
    source: list[str] = any_of("conversations from this source, such as `chatgpt`")
    kind: list[DocumentKind] = any_of("documents of this kind")
    tag: list[str] = any_of("conversations with this tag")
    conversation: list[str] = any_of("messages of this conversation")
    hidden: bool = about("Include messages the source hides, such as system prompts.", False)
    score: Literal["rank", "fts"] = about(
        "Use Recollect's ranking, or that of the full-text engine.", "rank"
    )
    typing: bool = about("The user is still typing: the last word also matches as a prefix.", False)
    correct: bool = about(
        "Correct words that no message contains, unless the query has quotes.", True
    )
    rerank: bool | None = about(
        "Let a small model judge the first hits. Defaults to the setting `rerank`.", None
    )


class RelatedParameters(PageParameters):
    conversation: str = about("The id of the conversation.")
    message: str = about("The id of the message in that conversation.")


# -- responses ---


class SearchHit(ResponseBody):
    """A message that matches a search."""

    conversation_id: str
    message_id: str
    title: str = about("The title of the conversation.")
    role: str | None
    author: str | None
    kind: str = about("The kind of document: `conversation`, `note`, `media` and so on.")
    source: str = about("Where the document came from, such as `chatgpt`.")
    project: str
    type: str = about("The type of message, such as `message` or `tool_call`.")
    created_at: str | None = about("ISO 8601.")
    position: int = about("The position in the conversation, starting at 0.")
    canonical: bool = about("Whether the message is on the current branch of the conversation.")
    visibility: Visibility
    score: float = about("From 0 to 1: how much of the query the hit has, in words and in meaning.")
    snippet: str = about("Plain text around the match.")
    marks: list[list[int]] = about(
        "The matches in the snippet as pairs of start and end, in characters."
    )
    arms: list[str] = about(
        "What found the message: `text`, `vector`, both, or none (fields only)."
    )
    terms: list[str] = about("The words of the query that the message contains.")
    parts: dict[str, float] = about("The components of the score.")
    copies: int = about("Number of messages with the same text, which are left out.")
    also: list[SearchHit] = about(
        "With `group=conversation`, the next best messages of the conversation."
    )
    open_url: str | None = about(
        "The message in the console. Null unless the server knows its base URL."
    )


class SearchPage(ResponseBody):
    """A page of search hits, best first."""

    hits: list[SearchHit]
    total: int = about(
        "Number of matches, with copies. Messages with the same text are one hit, so "
        "read pages until one has fewer hits than `limit`."
    )
    exact: bool = about("Whether `total` is exact. Otherwise there may be more.")
    partial: bool = about(
        "The search was stopped because it took too long: there may be better hits."
    )
    weak: bool = about("Whether the hits are probably unrelated.")
    limit: int
    offset: int
    mode: str = about("The mode that was used: `text`, `vector` or `both`.")
    matched: str = about(
        "`all`: every hit satisfies the whole query; `any`: a hit has one of the words or a "
        "similar meaning; `literal`: the query was searched as plain text."
    )
    score_type: str = about("`rank`, or `fts` for the scores of the text engine.")
    embedded: float = about(
        "The share of the library that was searched by meaning: 0 in mode `text`."
    )
    note: str = about("Remarks on how the search was carried out.")
    missing: list[str] = about("Words of the query that no message contains.")
    corrections: dict[str, str] = about(
        "Misspelled words of the query, and what was searched for instead."
    )
    nearest: list[SearchHit] = about(
        "If there are no hits: up to three messages that are the closest in meaning."
    )


def _page(access: Access, page: Page) -> Response:
    base_url, audience = access.service.config.base_url, access.principal.audience

    def hits(found: Sequence[Hit]) -> list[dict[str, Any]]:
        return [_hit(mask_hit(hit, audience), base_url) for hit in found]

    return json_response(SearchPage.of(page, hits=hits(page.hits), nearest=hits(page.nearest)))


def _hit(hit: Hit, base_url: str) -> dict[str, Any]:
    open_url = None
    if base_url:
        open_url = base_url + conversation_url(hit.conversation_id, m=hit.message_id)
    return SearchHit.of(
        hit,
        created_at=iso(hit.created_at),
        also=[_hit(other, base_url) for other in hit.also],
        open_url=open_url,
    )


# -- searching ---


@routes.add("GET /api/v1/search", READ, rate_limit=SEARCH, returns=SearchPage)
def search(access: AccessTo, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Returns messages that match a query, best first. This is the recommended search.

    It finds conversations, notes, media, characters and prompts, by words and by meaning. The
    other search routes belong to APIs that other programs speak.
    """
    query: str | list[str] = parameters.q
    if len(parameters.q) == 1:
        query = parameters.q[0]
    filter_ = Filter.of(
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
    )
    options = replace(
        parameters.options(),
        score=parameters.score,
        rerank=parameters.rerank,
        typing=parameters.typing,
        correct=parameters.correct,
    )
    with access.read() as library:
        page = library.search(query, filter_, options, audience=access.principal.audience)
    return _page(access, page)


@routes.add(
    "GET /api/v1/related", READ, document="conversation", rate_limit=SEARCH, returns=SearchPage
)
def find_related(access: AccessTo, parameters: Annotated[RelatedParameters, Query()]) -> Response:
    """Returns messages that are similar to a given one, in words or in meaning."""
    conversation, message = parameters.conversation, parameters.message
    audience = access.principal.audience
    with access.read() as library:
        # Related messages reveal what a masked message says. A hidden one is not found anyway.
        if audience is Audience.AGENT_MASKED and is_masked(
            library.message(conversation, message), audience
        ):
            raise Forbidden(
                "This message is human-only, so an agent's key cannot search for related messages."
            )
        page = library.related(
            conversation, message, parameters.options(), kinds=_kinds(access), audience=audience
        )
    return _page(access, page)


def _kinds(access: Access, kinds: Sequence[str] = ()) -> Sequence[str]:
    """The kinds of documents to search; none means all. Some keys are for conversations only."""
    if set(kinds) - {CONVERSATION}:
        access.require(READ, KNOWLEDGE)
    if access.principal.has_toolset(KNOWLEDGE):
        return kinds
    return (CONVERSATION,)


# -- the library in numbers ---


class LibraryStats(ResponseBody):
    """The size of the library. Stores may add fields of their own."""

    model_config = ConfigDict(extra="allow")
    conversations: int
    messages: int
    notes: int


class LibraryActivity(ResponseBody):
    """Numbers of messages that people wrote, of replies by model and of calls by tool."""

    months: Counts
    sources: Counts
    models: Counts = about("Messages by each model.")
    tools: Counts = about("Calls of each tool.")
    projects: Counts
    weekdays: list[int] = about("Starting with Monday.")
    hours: list[int] = about("Hours of the day in UTC.")


class LibraryFacets(ResponseBody):
    """Numbers of conversations."""

    projects: Counts
    sources: Counts
    tags: Counts


@routes.add("GET /api/v1/stats", READ, returns=LibraryStats)
def get_stats(access: AccessTo) -> Response:
    """Returns the size of the library."""
    with access.read() as library:
        statistics = library.stats()
    statistics.pop("path", None)
    return json_response(statistics)


@routes.add("GET /api/v1/activity", READ, returns=LibraryActivity)
def get_activity(access: AccessTo) -> Response:
    """Returns the messages that people wrote, by month, weekday, hour, source and project, and
    replies by model and calls by tool."""
    with access.read() as library:
        return json_response(library.activity())


@routes.add("GET /api/v1/facets", READ, returns=LibraryFacets)
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
