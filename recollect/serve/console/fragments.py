"""Parts of pages, for the page's own script: rows, hits, messages, receipts. HTML is made nowhere else."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.language.text import storable
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION
from recollect.serve.console import items, rendering
from recollect.serve.console.asking import Asked, Filters, Question, Wanted
from recollect.serve.console.kinds import (
    CONVERSATIONS,
    EVERYTHING,
    KINDS,
    KNOWLEDGE,
    amounts,
    kind_of,
    toolset_of,
)
from recollect.serve.console.shapes import (
    ROWS,
    WINDOW,
    ReceiptShown,
    body_of,
    conversations_in,
    facets,
    opened,
    receipt_shown,
    rows,
    tags_of,
)
from recollect.serve.console.templating import fragment, html
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.principal import READ
from recollect.serve.http.route_policy import route_policy
from recollect.serve.masking import mask_hit, mask_passage

router = APIRouter(prefix="/console", include_in_schema=False)

_HITS = 20
_MATCHES = 200


@router.get("/rows")
def list_rows(
    access: AccessTo,
    filters: Filters,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = ROWS,
    current: str = "",
    source: str = CONVERSATIONS,
) -> Response:
    with access.read(toolset_of(source)) as library:
        shown = rows(library, filters, offset, limit, current, kind_of(source).name)
    return fragment("_rows.html", rows=shown, filters=filters)


@router.get("/sidebar")
def sidebar(access: AccessTo, filters: Filters, source: str) -> Response:
    """What stands beside the pages of another kind."""
    with access.read(toolset_of(source)) as library:
        known, shown = (
            facets(library, kind_of(source).name),
            rows(library, filters, 0, ROWS, source=source),
        )
    return fragment("_sidebar.html", rows=shown, filters=filters, facets=known, source=source)


@router.get("/filters")
def filter_form(access: AccessTo, filters: Filters, source: str = CONVERSATIONS) -> Response:
    with access.read(toolset_of(source)) as library:
        known = facets(library, kind_of(source).name)
    return fragment("_filters.html", filters=filters, facets=known, source=source)


@router.get("/hits")
@route_policy(rate_limit=SEARCH)
def hits(access: AccessTo, asked: Asked, filters: Filters) -> Response:
    with access.read() as library:
        found = searched(access, library, asked, filters)
    return fragment("_hits.html", filters=filters, **asked.values(), **found)


def searched(access: Access, library: Library, asked: Question, filters: Wanted) -> dict[str, Any]:
    """One page of hits and what a template needs around it.

    Where the person has not said what to search, filters say it, which are those of conversations; without any,
    everything is searched.
    """
    others = amounts(access, library)
    unsaid = CONVERSATIONS if filters.chosen or not others else EVERYTHING
    within = asked.within if asked.within in (*KINDS, EVERYTHING) else unsaid
    about = {
        "more": asked.offset > 0,
        "within": within,
        "kinds": [KINDS[name] for name in (CONVERSATIONS, *others)],
    }
    if within != CONVERSATIONS:
        access.require(READ, KNOWLEDGE)
        return about | {
            "page_of_hits": _of_everything(access, library, asked, filters, within),
            "searched_in": 0,
        }
    found = library.search(
        asked.q,
        mode=asked.mode,
        group=asked.group,
        limit=_HITS,
        offset=asked.offset,
        kinds=(CONVERSATION,),
        **filters.of_messages(),
    )
    following = found.offset + len(found.hits)
    shown = {
        "hits": [mask_hit(hit, access.principal.audience) for hit in found.hits],
        "total": found.total,
        "offset": found.offset,
        "exact": found.exact,
        "matched": found.matched,
        "mode": found.mode,
        "note": found.note,
        "next": following,
        "has_more": following < found.total,
    }
    searched_in = 0 if found.total else conversations_in(facets(library))
    return about | {"page_of_hits": shown, "searched_in": searched_in}


def _of_everything(
    access: Access, library: Library, asked: Question, filters: Wanted, within: str
) -> dict[str, Any]:
    chosen: dict[str, dict[str, Any]] = {}
    if within == "notes" and filters.tags:
        chosen = {"notes": {"keywords": list(filters.tags)}}
    if within == "media" and filters.types:
        chosen = {"media": {"media_types": list(filters.types)}}
    answer = library.knowledge.search(
        asked.q,
        sources=items.sources_of(within),
        limit=_HITS,
        offset=asked.offset,
        mode=asked.mode,
        filters=chosen,
        audience=access.principal.audience,
    )
    results, more = answer["results"], answer["has_more"]
    total = answer["total_estimated"] if more else asked.offset + len(results)
    return {
        "hits": [items.found(result, asked.q) for result in results],
        "total": total,
        "offset": asked.offset,
        "exact": not more,
        "matched": "all",
        "mode": asked.mode,
        "note": answer.get("note", ""),
        "next": answer["next_offset"],
        "has_more": more,
        "narrowed": bool(chosen),
    }


@router.get("/messages")
def messages(
    access: AccessTo,
    id: str,
    through: str = "",
    around: str = "",
    q: str = "",
    start: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = WINDOW,
) -> Response:
    with access.read() as library:
        window = opened(
            library,
            access.principal,
            id,
            through=through or around,
            around=around,
            start=start,
            limit=limit,
        )
    return fragment("_messages.html", q=q, **window)


@router.get("/message")
def whole_message(access: AccessTo, id: str, m: str) -> Response:
    """All of one long message."""
    body, left = body_of(_message(access, id, m), rendering.WHOLE)
    more = "" if not left else f"{left:,} more characters are in the export."
    return html(str(body + rendering.plain(more) if more else body))


@router.get("/source")
def message_as_written(access: AccessTo, id: str, m: str) -> Response:
    """A message to copy."""
    return Response(storable(_message(access, id, m).content), media_type="text/plain")


def _message(access: Access, id: str, m: str) -> Passage:
    with access.read() as library:
        view = library.view(id, through=m, around=m, limit=1)
    found = next((shown.passage for shown in view.messages if shown.passage.id == m), None)
    if found is None:
        raise NotFound("This message is not there any more.")
    return mask_passage(found, access.principal.audience)


@router.get("/tags")
def tags(access: AccessTo, id: str) -> Response:
    with access.read() as library:
        view = library.view(id, limit=1)
    return fragment("_tags.html", tags=tags_of(view.document.metadata))


@router.get("/matches")
@route_policy(rate_limit=SEARCH)
def matches(access: AccessTo, id: str, q: str, m: str = "") -> Response:
    """Where else in a conversation the words are."""
    with access.read() as library:
        found = library.search(q, mode="text", conversations=[id], limit=_MATCHES)
    places = sorted(found.hits, key=lambda hit: hit.position)
    ids = [hit.message_id for hit in places]
    at = ids.index(m) if m in ids else None
    before = ids[at - 1] if at else None
    after = (
        (ids[at + 1] if at + 1 < len(ids) else None)
        if at is not None
        else (ids[0] if ids else None)
    )
    return fragment(
        "_matches.html",
        id=id,
        q=q,
        matches=ids,
        at=None if at is None else at + 1,
        before=before,
        after=after,
        more=found.total > len(ids),
    )


@router.get("/receipts/{number}")
def receipt(access: AccessTo, number: int) -> Response:
    with access.read() as library:
        found = next((r for r in receipts_shown(library) if r.id == number), None)
    if found is None:
        raise NotFound("There is no such receipt.")
    return fragment("_receipt.html", receipt=found)


def receipts_shown(library: Library) -> list[ReceiptShown]:
    """Every receipt, newest first."""
    newest_first = sorted(library.receipts(), key=lambda receipt: -receipt.id)
    return [receipt_shown(receipt, receipt.name) for receipt in newest_first]
