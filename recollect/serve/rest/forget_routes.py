"""The route that forgets messages, conversations and items: a preview first, then for good."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from starlette.responses import Response

from recollect.model.forgetting import Selection
from recollect.places import record
from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE, Forbidden
from recollect.serve.rest.schemas import PurgeState
from recollect.store.audit_log import SEARCH, Entry

router = APIRouter(tags=["forgetting"], route_class=JsonRoute)


class ForgetRequest(BaseModel):
    """What to forget. All conditions must hold; at least one is needed."""

    model_config = ConfigDict(extra="forbid")

    conversations: list[str] = Field(
        [], max_length=1_000, description="Ids of conversations or items."
    )
    messages: list[str] = Field(
        [], max_length=10_000, description="Ids of messages in the one conversation."
    )
    first: str | None = Field(None, description="The first message of a span.")
    last: str | None = Field(None, description="The last message of a span.")
    projects: list[str] = Field([], max_length=1_000)
    sources: list[str] = Field([], max_length=100)
    kinds: list[str] = Field([], max_length=10)
    after: str | None = Field(None, description="Only messages on or after this date or time.")
    before: str | None = Field(None, description="Only messages on or before it.")
    text: str | None = Field(
        None, description="A word or phrase in messages and titles, ignoring case."
    )
    pattern: str | None = Field(None, description="A regular expression in the syntax of RE2.")
    confirm: StrictBool = Field(
        False, description="Forget. Without it, the response is a preview and nothing changes."
    )


class ForgetExample(BaseModel):
    conversation_id: str
    title: str
    kind: str
    project: str
    source: str
    message_id: str | None
    role: str | None
    created_at: datetime | None
    excerpt: str


class ForgetResult(BaseModel):
    """What the conditions match, and whether it was forgotten."""

    done: bool = Field(description="False for a preview.")
    conversations: int = Field(description="Conversations of which nothing is left.")
    changed_conversations: int = Field(description="Conversations that lose a part.")
    messages: int
    items: int
    titles: int = Field(description="Titles removed from conversations that stay.")
    earlier_versions: int = Field(
        description="Versions, kept for undoing imports, that contain the text."
    )
    archived_files: int = Field(description="Files whose archived copies were deleted.")
    purge: PurgeState | None = Field(description="Null for a preview.")
    by_source: dict[str, int]
    by_project: dict[str, int]
    examples: list[ForgetExample]
    note: str


@router.post(
    "/api/forget",
    summary="Forget messages, conversations and items",
    responses={200: {"model": ForgetResult}},
)
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
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
            report = library.preview_forget(selection)
            entry = Entry.of(SEARCH, "POST /api/forget", selection.conversations, report.messages)
            record(access.service.place, access.principal.user, entry)
    return json_response({name: getattr(report, name) for name in ForgetResult.model_fields})
