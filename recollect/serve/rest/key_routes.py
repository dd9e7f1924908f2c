"""API keys over HTTP, for whoever may administer the server. A key is shown when it is made, and never again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool
from starlette.responses import Response

from recollect.serve.accounts import new_key, revoke
from recollect.serve.http.access import AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.principal import ADMIN
from recollect.serve.http.routing import JsonRoute
from recollect.store.api_keys import ApiKey

router = APIRouter(tags=["keys"], route_class=JsonRoute)


class NewKey(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: str = Field(min_length=1, max_length=500, description="Whose library the key opens.")
    name: str = Field("", max_length=200, description="What the key is for.")
    scopes: list[str] = Field(
        ["read", "write"], max_length=3, description="Of read, write and admin."
    )
    toolsets: list[str] | None = Field(
        None, max_length=20, description="The groups of routes it is for; all if null."
    )
    agent: StrictBool = Field(
        False, description="Whether an agent uses it, which does not see what only people may see."
    )
    expires_at: AwareDatetime | None = Field(None, description="When it ends.")


class KeyShape(BaseModel):
    id: str
    user: str
    name: str
    scopes: list[str]
    toolsets: list[str] | None
    agent: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


class KeyList(BaseModel):
    keys: list[KeyShape]


class MadeKey(KeyShape):
    key: str = Field(description="The whole key. It is not shown again.")


class Revoked(BaseModel):
    success: bool
    id: str


def shape(key: ApiKey) -> dict[str, object]:
    """A key as it may be shown: without its hash."""
    return {name: getattr(key, name) for name in KeyShape.model_fields}


@router.get("/api/keys", summary="List the keys", responses={200: {"model": KeyList}})
def list_keys(access: AccessTo) -> Response:
    access.require(ADMIN)
    return json_response({"keys": [shape(key) for key in access.service.keys.all_keys()]})


@router.post(
    "/api/keys", summary="Make a key", status_code=201, responses={201: {"model": MadeKey}}
)
def add_key(access: AccessTo, wish: NewKey) -> Response:
    access.require(ADMIN)
    text, key = new_key(
        access.service.keys,
        wish.user,
        wish.name,
        wish.scopes,
        wish.toolsets,
        wish.agent,
        wish.expires_at,
    )
    access.service.auth.keys_changed()
    return json_response({**shape(key), "key": text}, 201)


@router.delete("/api/keys/{id}", summary="Revoke a key", responses={200: {"model": Revoked}})
def revoke_key(access: AccessTo, id: Annotated[str, Path(max_length=100)]) -> Response:
    access.require(ADMIN)
    revoke(access.service.keys, id)
    return json_response({"success": True, "id": id})
