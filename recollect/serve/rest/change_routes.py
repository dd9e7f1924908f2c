"""Routes that list and undo recent changes, and forget for good."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import ConfigDict, Field, StrictBool
from starlette.responses import Response

from recollect.model.forgetting import Selection
from recollect.places import record
from recollect.serve.http.access import AccessTo
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE, Forbidden
from recollect.serve.rest.schemas import (
    Change,
    PurgeState,
    RequestBody,
    ResponseBody,
    about,
    change_shape,
)
from recollect.store.audit_log import SEARCH, Entry

routes = Routes("changes", CONVERSATIONS, KNOWLEDGE)


class ChangeList(ResponseBody):
    """The changes that can be undone now, newest first."""

    changes: list[Change]


@routes.add("GET /api/v1/changes", READ, returns=ChangeList)
def list_changes(access: AccessTo) -> Response:
    """Returns the changes that can be undone now, newest first.

    Pins, and deletions with `trash=true`, are recorded for some time (RECOLLECT_UNDO_MINUTES).
    """
    access.require_all_toolsets()
    with access.read() as library:
        return json_response({"changes": [change_shape(change) for change in library.changes()]})


@routes.add("POST /api/v1/changes/{number}/undo", WRITE, returns=Change)
def undo_change(
    access: AccessTo,
    number: Annotated[int, Path(ge=1, lt=1 << 31, description="The number of the change.")],
) -> Response:
    """Undoes a change and returns it. A deleted conversation comes back unchanged."""
    access.require_all_toolsets()
    with access.write() as library:
        return json_response(change_shape(library.undo(number)))


# -- forgetting ---

forget_routes = Routes("forgetting")


class ForgetRequest(RequestBody):
    """What to forget. All conditions must hold; at least one is needed."""

    model_config = ConfigDict(strict=False)
    conversations: list[str] = about("Ids of conversations or items.", [], max_length=1000)
    messages: list[str] = about("Ids of messages in the one conversation.", [], max_length=10000)
    first: str | None = about("The first message of a span.", None)
    last: str | None = about("The last message of a span.", None)
    projects: list[str] = Field([], max_length=1_000)
    sources: list[str] = Field([], max_length=100)
    kinds: list[str] = Field([], max_length=10)
    after: str | None = about("Only messages on or after this date or time.", None)
    before: str | None = about("Only messages on or before it.", None)
    text: str | None = about("A word or phrase in messages and titles, ignoring case.", None)
    pattern: str | None = about("A regular expression in the syntax of RE2.", None)
    confirm: StrictBool = about(
        "Forget. Without it, the response is a preview and nothing changes.", False
    )


class ForgetExample(ResponseBody):
    model_config = ConfigDict(extra="ignore")
    conversation_id: str
    title: str
    kind: str
    project: str
    source: str
    message_id: str | None
    role: str | None
    created_at: datetime | None
    excerpt: str


class ForgetResult(ResponseBody):
    """What the conditions match, and whether it was forgotten."""

    done: bool = about("False for a preview.")
    conversations: int = about("Conversations of which nothing is left.")
    changed_conversations: int = about("Conversations that lose a part.")
    messages: int
    items: int
    titles: int = about("Titles removed from conversations that stay.")
    earlier_versions: int = about("Versions, kept for undoing imports, that contain the text.")
    archived_files: int = about("Files whose archived copies were deleted.")
    purge: PurgeState | None = about("Null for a preview.")
    by_source: dict[str, int]
    by_project: dict[str, int]
    examples: list[ForgetExample]
    note: str


@forget_routes.add("POST /api/forget", WRITE, CONVERSATIONS, KNOWLEDGE, returns=ForgetResult)
def forget(access: AccessTo, request: ForgetRequest) -> Response:
    """Deletes what matches all conditions, with everything derived from it. There is no undo.

    Without `confirm`, returns exact counts and examples, and changes nothing. What was forgotten is
    not imported again. Keys of agents, and keys that are limited to some toolsets, may not use this
    route.
    """
    if access.principal.agent:
        raise Forbidden("The key of an agent may not forget. Use the key of a person.")
    if access.principal.toolsets is not None:
        raise Forbidden("A key that is limited to some toolsets may not forget.")
    values: dict[str, Any] = request.model_dump(exclude={"confirm"})
    selection = Selection.of(**values)
    if not request.confirm:
        access.require(READ)
    with access.write() as library:
        if request.confirm:
            report = library.forget(selection)
        else:
            report = library.forget(selection, dry_run=True)
            entry = Entry.of(SEARCH, "POST /api/forget", selection.conversations, report.messages)
            record(access.service.place, access.principal.user, entry)
    return json_response(ForgetResult.of(report))
