"""The pages of notes, media, characters and prompts: lists, readers, and forms to write them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import storable, truncate
from recollect.library import Library
from recollect.serve import links
from recollect.serve.console import items, rendering, writing
from recollect.serve.console.asking import Filters, Wanted
from recollect.serve.console.kinds import CONVERSATIONS, KNOWLEDGE, OTHERS, kind_of
from recollect.serve.console.problems import PageRoute
from recollect.serve.console.shapes import ROWS, facets, rows
from recollect.serve.console.templating import fragment, page
from recollect.serve.http import routing  # noqa: F401  which makes `{…:id}` known
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.principal import WRITE
from recollect.serve.masking import mask_document
from recollect.settings import LIMITS

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_FORM = "application/x-www-form-urlencoded"


async def _sent(request: Request) -> bytes:
    """The body of a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Problem(415, f"Send the form as {_FORM}.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LIMITS.request_bytes:
            raise Problem(413, "That is too long for one form. Import it as a file instead.")
    return bytes(body)


Form = Annotated[bytes, Depends(_sent)]
Position = Annotated[int, Query(ge=0, le=2**31)]


def frame(library: Library, filters: Wanted, source: str, current: str = "") -> dict[str, Any]:
    """What stands around a page of this kind."""
    values: dict[str, Any] = {
        "q": "",
        "filters": filters,
        "facets": facets(library, source),
        "source": source,
    }
    return values | {"rows": rows(library, filters, 0, ROWS, current, source)}


# -- reading ---


@router.get("/knowledge/{source}")
def listed(
    access: AccessTo,
    filters: Filters,
    source: str,
    new: bool = False,
    link: str = "",
    of: str = "",
    name: str = "",
) -> Response:
    """What there is of a kind; with `new` a form for another one; with `link` the note that is called so."""
    if (elsewhere := _elsewhere(source)) is not None:
        return elsewhere
    if link and source == "notes":
        return _followed(access, filters, link, of)
    with access.read(KNOWLEDGE) as library:
        values = frame(library, filters, source)
    if new:
        access.require(WRITE, KNOWLEDGE)
        fields = writing.empty(source, {"name": name, "title": name})
        return page(
            access.request, "writing.html", kind=kind_of(source), fields=fields, **_form(), **values
        )
    return page(access.request, "items.html", kind=kind_of(source), **values)


@router.get("/knowledge/{source}/")
def item_by_query(
    access: AccessTo,
    filters: Filters,
    source: str,
    id: str = "",
    edit: bool = False,
    q: str = "",
    p: Position = 0,
) -> Response:
    """One whose id cannot stand in a path."""
    return item(access, filters, source, id, edit, q, p)


@router.get("/knowledge/{source}/{item_id:id}")
def item(
    access: AccessTo,
    filters: Filters,
    source: str,
    item_id: str,
    edit: bool = False,
    q: str = "",
    p: Position = 0,
) -> Response:
    """One to read: a long text from its start, or from the part that the passage `p` is in."""
    if (elsewhere := _elsewhere(source, item_id)) is not None:
        return elsewhere
    with access.read(KNOWLEDGE) as library:
        about = library.knowledge.find(source, item_id)
        values = frame(library, filters, source, about.id)
        if edit:
            access.require(WRITE, KNOWLEDGE)
            document = mask_document(library.store.document(about.id), access.principal.audience)
        else:
            shown = items.opened(library, access.principal, source, about.id, p)
    values["q"] = q
    if edit:
        fields, form = writing.filled(document), _form(about.id, about.title, document.version)
        return page(
            access.request, "writing.html", kind=kind_of(source), fields=fields, **form, **values
        )
    return page(access.request, "item.html", item=shown, words=rendering.sought(q), **values)


def _elsewhere(source: str, id: str = "") -> Response | None:
    """Conversations have pages of their own. Raises NotFound for what has none."""
    if source in (CONVERSATIONS, "chats"):
        return RedirectResponse(links.conversation_url(id) if id else "/", 307)
    if source not in OTHERS:
        raise NotFound(f"There is no page for {truncate(source, 80)!r}.")
    return None


def _followed(access: Access, filters: Wanted, target: str, of: str) -> Response:
    with access.read(KNOWLEDGE) as library:
        found = items.linked(library, storable(target), storable(of))
        if found is None:
            called = truncate(target.partition("#")[0].strip() or target, 200)
            values = frame(library, filters, "notes")
            return page(access.request, "missing.html", called=called, of=of, **values)
    return item(access, filters, "notes", found.id)


# -- writing ---


@router.post("/knowledge/{source}")
def make(access: AccessTo, filters: Filters, source: str, form: Form) -> Response:
    """A new one of what was written."""
    _demand_written(access, source)
    given = writing.sent(source, form)
    fields = {name: value for name, value in given.changes(source).items() if value}
    with access.write(KNOWLEDGE) as library:
        try:
            made = library.knowledge.create(source, fields)
        except InvalidInput as error:
            return _again(
                access,
                library,
                filters,
                source,
                writing.refilled(source, given),
                400,
                problem=str(error),
            )
    return RedirectResponse(links.item_url(source, made.id), 303)


@router.post("/knowledge/{source}/")
def save_by_query(
    access: AccessTo, filters: Filters, source: str, form: Form, id: str = ""
) -> Response:
    return save(access, filters, source, id, form)


@router.post("/knowledge/{source}/{item_id:id}")
def save(access: AccessTo, filters: Filters, source: str, item_id: str, form: Form) -> Response:
    """What the person changed. Where somebody else was quicker, they see what, and decide."""
    _demand_written(access, source)
    given = writing.sent(source, form)
    with access.write(KNOWLEDGE) as library:
        try:
            about = library.knowledge.find(source, item_id)
        except NotFound:
            problem = f"This {kind_of(source).one} was deleted meanwhile. Save it to make it anew."
            anew = writing.refilled(source, replace(given, digests={}))
            return _again(access, library, filters, source, anew, 409, problem=problem)
        changes = given.changes(source)
        try:
            if changes:
                library.knowledge.edit(source, about.id, changes, given.version)
        except Conflict:
            return _collided(access, library, filters, source, about.id, given)
        except InvalidInput as error:
            return _again(
                access,
                library,
                filters,
                source,
                writing.refilled(source, given),
                400,
                id=about.id,
                title=about.title,
                version=given.version,
                problem=str(error),
            )
    return RedirectResponse(links.item_url(source, about.id), 303)


def _collided(
    access: Access, library: Library, filters: Wanted, source: str, id: str, given: writing.Sent
) -> Response:
    document = library.store.document(id)
    fields = writing.compared(mask_document(document, access.principal.audience), given)
    return _again(
        access,
        library,
        filters,
        source,
        fields,
        409,
        id=id,
        title=document.title,
        version=document.version,
        changed_at=document.updated_at,
    )


def _again(
    access: Access,
    library: Library,
    filters: Wanted,
    source: str,
    fields: list[writing.Filled],
    status: int,
    **form: Any,
) -> Response:
    """The form once more, with what was written in it."""
    values = frame(library, filters, source, form.get("id", ""))
    return page(
        access.request,
        "writing.html",
        status,
        kind=kind_of(source),
        fields=fields,
        **_form(**form),
        **values,
    )


def _form(
    id: str = "",
    title: str = "",
    version: int | None = None,
    problem: str = "",
    changed_at: Any = None,
) -> dict[str, Any]:
    return {
        "id": id,
        "title": title,
        "version": version,
        "problem": problem,
        "changed_at": changed_at,
    }


def _demand_written(access: Access, source: str) -> None:
    if source not in OTHERS:
        raise NotFound(f"There is no page for {truncate(source, 80)!r}.")
    access.require(WRITE, KNOWLEDGE)


# -- parts of pages ---


@router.get("/console/part")
def part(access: AccessTo, source: str, id: str, p: Position = 0) -> Response:
    """More of a long text."""
    with access.read(KNOWLEDGE) as library:
        about = library.knowledge.find(source, id)
        shown = items.window(library, access.principal, about, p)
    return fragment("_part.html", window=shown)


@router.get("/console/text")
def text(access: AccessTo, source: str, id: str, field: str = "") -> Response:
    """A text or a field as it is written, to copy."""
    with access.read(KNOWLEDGE) as library:
        written = items.as_written(library, access.principal, source, id, field)
    return Response(storable(written), media_type="text/plain")


@router.get("/console/picture")
def picture(access: AccessTo, id: str) -> Response:
    """The picture of a character."""
    with access.read(KNOWLEDGE) as library:
        media_type, data = items.picture(library, access.principal, id)
    return Response(data, media_type=media_type)
