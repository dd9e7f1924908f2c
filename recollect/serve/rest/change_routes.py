"""Routes that list recent changes of conversations and items, and undo them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from recollect.language.text import iso
from recollect.model.undo import Change
from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE
from recollect.serve.rest import schemas

router = APIRouter(tags=["changes"], prefix="/api/v1/changes", route_class=JsonRoute)


def change_shape(change: Change) -> dict[str, Any]:
    return {
        "number": change.number,
        "action": change.action,
        "conversation_id": change.id,
        "title": change.title,
        "changed_at": iso(change.changed_at),
        "expires_at": iso(change.expires_at),
    }


@router.get("", summary="List changes", responses={200: {"model": schemas.ChangeList}})
@route_policy(READ, CONVERSATIONS, KNOWLEDGE)
def list_changes(access: AccessTo) -> Response:
    """Returns the changes that can be undone now, newest first.

    Pins, and deletions with `trash=true`, are recorded for some time (RECOLLECT_UNDO_MINUTES).
    """
    access.require_all_toolsets()
    with access.read() as library:
        changes = library.changes()
    return json_response({"changes": [change_shape(change) for change in changes]})


@router.post("/{number}/undo", summary="Undo a change", responses={200: {"model": schemas.Change}})
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
def undo_change(
    access: AccessTo,
    number: Annotated[int, Path(ge=1, lt=1 << 31, description="The number of the change.")],
) -> Response:
    """Undoes a change and returns it. A deleted conversation comes back unchanged."""
    access.require_all_toolsets()
    with access.write() as library:
        change = library.undo(number)
    return json_response(change_shape(change))
