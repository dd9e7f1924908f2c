"""Routes for API keys. They need the scope `admin`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool
from starlette.responses import Response

from recollect import places
from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.accounts import MAX_GRACE, new_key, revoke, rotate
from recollect.serve.identity.principal import ADMIN
from recollect.store.api_keys import ApiKey
from recollect.store.audit_log import KEY, Entry

router = APIRouter(tags=["keys"], route_class=JsonRoute)


class NewKey(BaseModel):
    """An API key to create."""

    model_config = ConfigDict(extra="forbid")

    user: str = Field(
        min_length=1, max_length=500, description="The user whose library the key opens."
    )
    name: str = Field("", max_length=200, description="What the key is for.")
    scopes: list[str] = Field(
        ["read", "write"], max_length=3, description="Any of `read`, `write` and `admin`."
    )
    toolsets: list[str] | None = Field(
        None,
        max_length=20,
        description="The groups of routes and tools the key may use. Null allows all.",
    )
    agent: StrictBool = Field(
        False, description="Whether an agent uses the key. Human-only messages are masked for it."
    )
    expires_at: AwareDatetime | None = Field(
        None, description="When the key expires. Null means never."
    )


class Rotation(BaseModel):
    """How to replace an API key."""

    model_config = ConfigDict(extra="forbid")

    grace_seconds: int = Field(
        0, ge=0, le=int(MAX_GRACE.total_seconds()), description="How long the old key still works."
    )


class Key(BaseModel):
    """An API key without its secret."""

    id: str
    user: str
    name: str
    scopes: list[str]
    toolsets: list[str] | None
    agent: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None = Field(description="When the key was last used, to the hour.")
    replaced_by: str | None = Field(description="The id of the key that replaces it, if any.")


class KeyList(BaseModel):
    """All API keys of the server."""

    keys: list[Key]


class CreatedKey(Key):
    """A new API key with its secret."""

    key: str = Field(description="The complete key. This is the only time you see it.")


class RevokedKey(BaseModel):
    success: bool
    id: str


@router.get("/api/keys", summary="List API keys", responses={200: {"model": KeyList}})
@route_policy(ADMIN)
def list_keys(access: AccessTo) -> Response:
    """Returns all API keys, without their secrets."""
    keys, replacements = access.service.keys.all_keys(), access.service.keys.replacements()
    records = [_key_json(key, replacements.get(key.id)) for key in keys]
    return json_response({"keys": records})


@router.post(
    "/api/keys",
    summary="Create an API key",
    status_code=201,
    responses={201: {"model": CreatedKey}},
)
@route_policy(ADMIN)
def create_key(access: AccessTo, request: NewKey) -> Response:
    """Creates an API key. The response is the only one that contains the complete key."""
    text, key = new_key(
        access.service.keys,
        request.user,
        request.name,
        request.scopes,
        request.toolsets,
        request.agent,
        request.expires_at,
    )
    access.service.auth.keys_changed()
    places.record(access.service.place, key.user, Entry.of(KEY, "add", [key.id]))
    return json_response({**_key_json(key), "key": text}, 201)


@router.post(
    "/api/keys/{id}/rotate",
    summary="Rotate an API key",
    status_code=201,
    responses={201: {"model": CreatedKey}},
)
@route_policy(ADMIN)
def rotate_key(
    access: AccessTo,
    id: Annotated[str, Path(max_length=100, description="The id of the key, or its name.")],
    request: Rotation,
) -> Response:
    """Replaces an API key with a new one that may do the same.

    The old key and its sessions stop working at the end of the grace period. The response is the
    only one that contains the complete new key.
    """
    grace = timedelta(seconds=request.grace_seconds)
    text, key, old = rotate(access.service.keys, id, grace)
    places.record(access.service.place, key.user, Entry.of(KEY, "rotate", [old.id, key.id]))
    return json_response({**_key_json(key), "key": text}, 201)


@router.delete(
    "/api/keys/{id}", summary="Revoke an API key", responses={200: {"model": RevokedKey}}
)
@route_policy(ADMIN)
def revoke_key(
    access: AccessTo,
    id: Annotated[str, Path(max_length=100, description="The id of the key, or the complete key.")],
) -> Response:
    """Revokes an API key with immediate effect. Open streams end within seconds."""
    revoke(access.service.keys, id)
    key = next(key for key in access.service.keys.all_keys() if key.id in id)
    places.record(access.service.place, key.user, Entry.of(KEY, "revoke", [key.id]))
    return json_response({"success": True, "id": id})


def _key_json(key: ApiKey, replaced_by: str | None = None) -> dict[str, object]:
    """A key without its hash."""
    names = set(Key.model_fields) - {"replaced_by"}
    return {**{name: getattr(key, name) for name in names}, "replaced_by": replaced_by}
