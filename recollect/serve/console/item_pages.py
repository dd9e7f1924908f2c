"""The pages of notes, media, characters and prompts: lists, items and forms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import storable, truncate
from recollect.library import Library
from recollect.serve import links
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.frame import frame
from recollect.serve.console.request_params import Filters, ListFilters
from recollect.serve.console.tabs import CONVERSATIONS, NOTES, get_tab
from recollect.serve.console.templating import fragment, page
from recollect.serve.console.views import forms
from recollect.serve.console.views.item_views import item_text, open_item
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.markup.note_links import resolve_link
from recollect.serve.console.views.portraits import portrait
from recollect.serve.console.views.text_windows import text_window
from recollect.serve.http import routing  # noqa: F401  registers the path convertor `id`
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.responses import Problem
from recollect.serve.http.route_policy import route_policy
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE
from recollect.serve.masking import mask_document
from recollect.settings import LIMITS

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_FORM_TYPE = "application/x-www-form-urlencoded"


async def _form_body(request: Request) -> bytes:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != _FORM_TYPE:
        raise Problem(415, f"Send the form as {_FORM_TYPE}.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LIMITS.request_bytes:
            raise Problem(413, "The form is too large. Import the text as a file instead.")
    return bytes(body)


FormBody = Annotated[bytes, Depends(_form_body)]
Position = Annotated[int, Query(ge=0, le=2**31)]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """A form to show, and why it is shown again."""

    kind: str
    fields: list[forms.FormField]
    id: str = ""
    title: str = ""
    version: int | None = None
    problem: str = ""
    conflict_at: datetime | None = None
    """When someone else changed the item."""
    status: int = 200


# -- reading ---


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What to show for a kind: its list, a form for a new item, or the target of a link."""

    new: Annotated[bool, Query()] = False
    link: Annotated[str, Query()] = ""
    of: Annotated[str, Query()] = ""
    """The note that has the link."""
    name: Annotated[str, Query()] = ""
    """The title of the new item."""


@router.get("/knowledge/{kind}")
@route_policy(READ, KNOWLEDGE)
def item_list(
    access: AccessTo, filters: Filters, kind: str, request: Annotated[ListRequest, Depends()]
) -> Response:
    if _is_conversations(kind):
        return RedirectResponse("/", 307)
    if request.link and kind == NOTES:
        return _follow_link(access, filters, request.link, request.of)
    with access.read() as library:
        if request.new:
            access.require(WRITE, KNOWLEDGE)
            defaults = {"name": request.name, "title": request.name}
            form = ItemForm(kind, forms.blank_form(kind, defaults))
            return _form_page(access, library, filters, form)
        values = frame(library, kind, filters)
    return page(access.request, "item_list.html", tab=get_tab(kind), **values)


@dataclass(frozen=True, slots=True)
class ItemRequest:
    """How to show an item."""

    edit: Annotated[bool, Query()] = False
    q: Annotated[str, Query()] = ""
    """Highlight the words of this query."""
    p: Position = 0
    """Start a long text at the window with this passage."""


@router.get("/knowledge/{kind}/")
@route_policy(READ, KNOWLEDGE)
def item_by_query(
    access: AccessTo,
    filters: Filters,
    kind: str,
    request: Annotated[ItemRequest, Depends()],
    id: str = "",
) -> Response:
    """An item whose id cannot be part of a path."""
    return item(access, filters, kind, id, request)


@router.get("/knowledge/{kind}/{item_id:id}")
@route_policy(READ, KNOWLEDGE)
def item(
    access: AccessTo,
    filters: Filters,
    kind: str,
    item_id: str,
    request: Annotated[ItemRequest, Depends()],
) -> Response:
    if _is_conversations(kind):
        return RedirectResponse(links.conversation_url(item_id), 307)
    with access.read() as library:
        summary = library.knowledge.find(kind, item_id)
        if request.edit:
            access.require(WRITE, KNOWLEDGE)
            document = mask_document(
                library.knowledge.document(kind, summary.id), access.principal.audience
            )
            form = ItemForm(
                kind, forms.edit_form(document), summary.id, summary.title, document.version
            )
            return _form_page(access, library, filters, form)
        values = frame(library, kind, filters, summary.id)
        view = open_item(library, access.principal, kind, summary.id, request.p)
    values["q"] = request.q
    terms = rendering.query_terms(request.q)
    return page(access.request, "item.html", item=view, terms=terms, **values)


def _is_conversations(kind: str) -> bool:
    """Conversations have their own pages. Raises NotFound for an unknown kind."""
    return kind == "chats" or get_tab(kind).name == CONVERSATIONS


def _follow_link(access: Access, filters: ListFilters, target: str, from_id: str) -> Response:
    with access.read() as library:
        note = resolve_link(library, storable(target), storable(from_id))
        if note is None:
            title = truncate(target.partition("#")[0].strip() or target, 200)
            values = frame(library, NOTES, filters)
            return page(access.request, "missing_note.html", title=title, from_id=from_id, **values)
    return item(access, filters, NOTES, note.id, ItemRequest())


# -- writing ---


@router.post("/knowledge/{kind}")
@route_policy(WRITE, KNOWLEDGE)
def create(access: AccessTo, filters: Filters, kind: str, body: FormBody) -> Response:
    _require_write(access, kind)
    submission = forms.parse_submission(kind, body)
    fields = {name: value for name, value in submission.changes(kind).items() if value}
    with access.write() as library:
        try:
            summary = library.knowledge.create(kind, fields)
        except InvalidInput as error:
            form = ItemForm(
                kind, forms.resubmit_form(kind, submission), problem=str(error), status=400
            )
            return _form_page(access, library, filters, form)
    return RedirectResponse(links.item_url(kind, summary.id), 303)


@router.post("/knowledge/{kind}/")
@route_policy(WRITE, KNOWLEDGE)
def save_by_query(
    access: AccessTo, filters: Filters, kind: str, body: FormBody, id: str = ""
) -> Response:
    return save(access, filters, kind, id, body)


@router.post("/knowledge/{kind}/{item_id:id}")
@route_policy(WRITE, KNOWLEDGE)
def save(access: AccessTo, filters: Filters, kind: str, item_id: str, body: FormBody) -> Response:
    """Save the changed fields. On a conflict, show the differences and let the person decide."""
    _require_write(access, kind)
    submission = forms.parse_submission(kind, body)
    with access.write() as library:
        try:
            summary = library.knowledge.find(kind, item_id)
        except NotFound:
            form = _deleted_form(kind, submission)
            return _form_page(access, library, filters, form)
        try:
            changes = submission.changes(kind)
            if changes:
                library.knowledge.edit(kind, summary.id, changes, submission.version)
        except Conflict:
            form = _conflict_form(access, library, kind, summary.id, submission)
            return _form_page(access, library, filters, form)
        except InvalidInput as error:
            form = ItemForm(
                kind,
                forms.resubmit_form(kind, submission),
                summary.id,
                summary.title,
                submission.version,
                problem=str(error),
                status=400,
            )
            return _form_page(access, library, filters, form)
    return RedirectResponse(links.item_url(kind, summary.id), 303)


def _deleted_form(kind: str, submission: forms.Submission) -> ItemForm:
    """Without digests every field counts as changed, so saving creates the item again."""
    fields = forms.resubmit_form(kind, submission._replace(digests={}))
    problem = f"This {get_tab(kind).singular} was deleted in the meantime. Save to create it again."
    return ItemForm(kind, fields, problem=problem, status=409)


def _conflict_form(
    access: Access, library: Library, kind: str, id: str, submission: forms.Submission
) -> ItemForm:
    document = library.knowledge.document(kind, id)
    visible = mask_document(document, access.principal.audience)
    return ItemForm(
        kind,
        forms.conflict_form(visible, submission),
        id,
        document.title,
        document.version,
        conflict_at=document.updated_at,
        status=409,
    )


def _form_page(access: Access, library: Library, filters: ListFilters, form: ItemForm) -> Response:
    values: dict[str, Any] = frame(library, form.kind, filters, form.id)
    return page(
        access.request, "item_form.html", form.status, tab=get_tab(form.kind), form=form, **values
    )


def _require_write(access: Access, kind: str) -> None:
    if get_tab(kind).name == CONVERSATIONS:
        raise NotFound(f"There is no page for {truncate(kind, 80)!r}.")
    access.require(WRITE, KNOWLEDGE)


# -- fragments ---


@router.get("/console/item-part")
@route_policy(READ, KNOWLEDGE)
def item_part(access: AccessTo, kind: str, id: str, p: Position = 0) -> Response:
    """More of a long text."""
    with access.read() as library:
        summary = library.knowledge.find(kind, id)
        window = text_window(library, access.principal, summary, p)
    return fragment("_text_window.html", window=window)


@router.get("/console/item-text")
@route_policy(READ, KNOWLEDGE)
def copy_text(access: AccessTo, kind: str, id: str, field: str = "") -> Response:
    """The source text of an item or of one of its fields, to copy."""
    with access.read() as library:
        text = item_text(library, access.principal, kind, id, field)
    return Response(storable(text), media_type="text/plain")


@router.get("/console/portrait")
@route_policy(READ, KNOWLEDGE)
def character_portrait(access: AccessTo, id: str) -> Response:
    with access.read() as library:
        media_type, data = portrait(library, access.principal, id)
    return Response(data, media_type=media_type)
