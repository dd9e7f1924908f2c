"""Changes to a conversation that can be undone, and where a row is in the list."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from recollect.errors import InvalidInput
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.undo import Change
from recollect.serve.console.request_params import Filters
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.views.rows import row_index
from recollect.serve.http.access import AccessTo
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE

router = APIRouter(prefix="/console", include_in_schema=False, route_class=DeferredRoute)

_MAX_TITLE = 60


@router.get("/row-index")
@route_policy(READ, CONVERSATIONS, document="id")
def find_row(access: AccessTo, filters: Filters, id: str) -> dict[str, int | None]:
    """The place of a conversation in the list; null if the filters exclude it."""
    with access.read() as library:
        return {"index": row_index(library, id, filters)}


@router.post("/edit")
@route_policy(WRITE, CONVERSATIONS, document="id")
def edit(access: AccessTo, id: str, action: str, text: str = "") -> dict[str, Any]:
    """Change a conversation. The number that is returned is for `undo`."""
    with access.write() as library:
        title = library.label(id, library.summary(id).title)
        change = _apply(library, id, action, text.strip())
    number = None
    if change is not None and access.principal.toolsets is None:  # others may not undo
        number = change.number
    return {"number": number, "message": _describe(action, title, text.strip(), change)}


def _apply(library: Library, id: str, action: str, text: str) -> Change | None:
    if action in ("rename", "tag", "untag") and not text:
        raise InvalidInput("Type a name first.")
    if action == "rename":
        return library.rename(id, text)
    if action == "tag":
        return library.tag(id, text)
    if action == "untag":
        return library.untag(id, text)
    if action == "pin":
        return library.pin(id)
    if action == "unpin":
        return library.pin(id, pinned=False)
    if action == "delete":
        return library.trash(id)
    raise InvalidInput(f"There is no action {truncate(action, 40)!r}.")


def _describe(action: str, title: str, text: str, change: Change | None) -> str:
    name = f"“{truncate(title, _MAX_TITLE)}”"
    if change is None:
        return f"Nothing changed in {name}."
    return {
        "rename": f"Renamed to “{truncate(text, _MAX_TITLE)}”.",
        "tag": f"Tagged {name} with “{truncate(text, _MAX_TITLE)}”.",
        "untag": f"Removed the tag “{truncate(text, _MAX_TITLE)}” from {name}.",
        "pin": f"Pinned {name}.",
        "unpin": f"Unpinned {name}.",
        "delete": f"Deleted {name}.",
    }[action]


@router.post("/undo")
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
def undo(access: AccessTo, number: int) -> dict[str, str]:
    """Undo a change."""
    access.require_all_toolsets()
    with access.write() as library:
        change = library.undo(number)
    return {"id": change.id}
