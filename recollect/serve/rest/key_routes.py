"""Routes for API keys. They need the scope `admin`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool
from starlette.responses import Response

from recollect.serve.http.access import AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.accounts import new_key, revoke
from recollect.serve.identity.principal import ADMIN
from recollect.store.api_keys import ApiKey

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
    keys = access.service.keys.all_keys()
    return json_response({"keys": [_key_json(key) for key in keys]})


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
    return json_response({"success": True, "id": id})


def _key_json(key: ApiKey) -> dict[str, object]:
    """A key without its hash."""
    return {name: getattr(key, name) for name in Key.model_fields}
