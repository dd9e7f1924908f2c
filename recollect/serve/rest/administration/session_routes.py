"""Routes for the sessions of the console: who is logged in where."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.principal import ADMIN, CONVERSATIONS, READ, WRITE, Forbidden
from recollect.serve.identity.sessions import live_sessions
from recollect.store.api_keys import Session, no_session

router = APIRouter(tags=["sessions"], route_class=JsonRoute)


class ConsoleSession(BaseModel):
    """A login to the console."""

    id: str
    user: str
    key: str | None = Field(description="The id of the API key; null for a token.")
    created_at: datetime
    used_at: datetime = Field(description="When the session was last used, to five minutes.")
    expires_at: datetime
    user_agent: str = Field(description="What the browser calls itself.")
    address: str = Field(description="The network of the browser; its last part is left out.")
    current: bool = Field(description="Whether this request belongs to the session.")


class SessionList(BaseModel):
    sessions: list[ConsoleSession]


class EndedSession(BaseModel):
    success: bool
    id: str


@router.get("/api/sessions", summary="List sessions", responses={200: {"model": SessionList}})
@route_policy(READ, CONVERSATIONS)
def list_sessions(
    access: AccessTo,
    everyone: Annotated[
        bool, Query(description="The sessions of all users. Needs the scope `admin`.")
    ] = False,
) -> Response:
    """Returns the console sessions of the key's user, most recently used first."""
    sessions = [_session_json(access, session) for session in _sessions(access, everyone)]
    return json_response({"sessions": sessions})


@router.delete(
    "/api/sessions/{id}", summary="End a session", responses={200: {"model": EndedSession}}
)
@route_policy(WRITE, CONVERSATIONS)
def end_session(
    access: AccessTo,
    id: Annotated[str, Path(max_length=100, description="The id of the session.")],
) -> Response:
    """Ends a session with immediate effect. With the scope `admin`, also another user's."""
    everyone = ADMIN in access.principal.scopes
    if id not in {session.id for session in _sessions(access, everyone)}:
        raise no_session(id)
    access.service.keys.end_session(id)
    return json_response({"success": True, "id": id})


def _sessions(access: Access, everyone: bool) -> list[Session]:
    if access.principal.agent:
        raise Forbidden("Sessions are for people. Use a key that does not belong to an agent.")
    if not everyone:
        return live_sessions(access.service.keys, access.principal.user)
    access.require(ADMIN)
    return live_sessions(access.service.keys)


def _session_json(access: Access, session: Session) -> dict[str, object]:
    names = set(ConsoleSession.model_fields) - {"current", "key"}
    return {
        **{name: getattr(session, name) for name in names},
        "key": session.key or None,
        "current": session.id == access.principal.session,
    }
