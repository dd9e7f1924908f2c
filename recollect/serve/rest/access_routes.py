"""Routes for API keys and the audit log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Path, Query
from pydantic import AwareDatetime, ConfigDict, StrictBool
from starlette.responses import Response

from recollect import places
from recollect.model.arguments import parse_moment
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.accounts import MAX_GRACE, new_key, revoke, rotate
from recollect.serve.identity.principal import (
    ADMIN,
    CONVERSATIONS,
    KNOWLEDGE,
    READ,
    Forbidden,
)
from recollect.serve.rest.schemas import RequestBody, ResponseBody, about, clamp
from recollect.store.audit_log import KEY, Entry, RecordFilter, newest_records

key_routes = Routes("keys")
audit_routes = Routes("audit", CONVERSATIONS, KNOWLEDGE)  # it names every document

_MAX_RECORDS = 1_000


# -- API keys ---


class NewKey(RequestBody):
    """An API key to create."""

    model_config = ConfigDict(strict=False)
    user: str = about("The user whose library the key opens.", min_length=1, max_length=500)
    name: str = about("What the key is for.", "", max_length=200)
    scopes: list[str] = about(
        "Any of `read`, `write` and `admin`.", ["read", "write"], max_length=3
    )
    toolsets: list[str] | None = about(
        "The groups of routes and tools the key may use. Null allows all.", None, max_length=20
    )
    agent: StrictBool = about(
        "Whether an agent uses the key. Human-only messages are masked for it.", False
    )
    expires_at: AwareDatetime | None = about("When the key expires. Null means never.", None)


class Rotation(RequestBody):
    """How to replace an API key."""

    model_config = ConfigDict(strict=False)
    grace_seconds: int = about(
        "How long the old key still works.", 0, ge=0, le=int(MAX_GRACE.total_seconds())
    )


class Key(ResponseBody):
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
    used_at: datetime | None = about("When the key was last used, to the hour.")
    replaced_by: str | None = about("The id of the key that replaces it, if any.")


class KeyList(ResponseBody):
    """All API keys of the server."""

    keys: list[Key]


class CreatedKey(Key):
    """A new API key with its secret."""

    key: str = about("The complete key. This is the only time you see it.")


class Ended(ResponseBody):
    """The id of the key that no longer works."""

    success: bool
    id: str


@key_routes.add("GET /api/keys", ADMIN, returns=KeyList)
def list_keys(access: AccessTo) -> Response:
    """Returns all API keys, without their secrets."""
    keys, replacements = access.service.keys.all_keys(), access.service.keys.replacements()
    records = [Key.of(key, replaced_by=replacements.get(key.id)) for key in keys]
    return json_response({"keys": records})


@key_routes.add("POST /api/keys", ADMIN, returns=CreatedKey, status=201)
def create_key(access: AccessTo, request: NewKey) -> Response:
    """Creates an API key. The response is the only one that contains the complete key."""
    text, key = new_key(access.service.keys, **dict(request))
    access.service.auth.keys_changed()
    places.record(access.service.place, key.user, Entry.of(KEY, "add", [key.id]))
    return json_response(CreatedKey.of(key, key=text, replaced_by=None), 201)


@key_routes.add("POST /api/keys/{id}/rotate", ADMIN, returns=CreatedKey, status=201)
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
    return json_response(CreatedKey.of(key, key=text, replaced_by=None), 201)


@key_routes.add("DELETE /api/keys/{id}", ADMIN, returns=Ended)
def revoke_key(
    access: AccessTo,
    id: Annotated[str, Path(max_length=100, description="The id of the key, or the complete key.")],
) -> Response:
    """Revokes an API key with immediate effect. Open streams end within seconds."""
    revoke(access.service.keys, id)
    key = next(key for key in access.service.keys.all_keys() if key.id in id)
    places.record(access.service.place, key.user, Entry.of(KEY, "revoke", [key.id]))
    return json_response({"success": True, "id": id})


# -- the audit log: users see their own; that of another user needs the scope admin ---

User = Annotated[str, Query(description="Another user; needs the scope `admin`.")]


class AuditRecord(ResponseBody):
    """One record. It has ids and counts, but no content."""

    number: int
    at: datetime
    action: str
    operation: str | None = None
    ids: list[str] | None = None
    count: int | None = None
    by: str | None = about("The user of the credential.", None)
    key: str | None = about("The id of the API key.", None)
    interface: str | None = None
    address: str | None = None
    previous: str = about("The hash of the record before.")


class AuditList(ResponseBody):
    records: list[AuditRecord]


class AuditVerification(ResponseBody):
    records: int
    first: int
    head: str = about("The number and hash of the last record.")
    problems: list[str] = about("Where the chain breaks; empty if it is unbroken.")


@audit_routes.add("GET /api/audit", READ, returns=AuditList)
def list_audit_records(
    access: AccessTo,
    action: Annotated[list[str] | None, Query(description="Only these actions.")] = None,
    by: Annotated[str, Query(description="Only by this user or the key with this id.")] = "",
    after: Annotated[str | None, Query(description="Only on or after this date.")] = None,
    before: Annotated[str | None, Query(description="Only on or before this date.")] = None,
    limit: Annotated[int, Query(description="From 1 to 1000.")] = 100,
    user: User = "",
) -> Response:
    """Returns who did what to your library, newest first."""
    name = log_name(access, user)
    conditions = RecordFilter(
        tuple(action or ()),
        by,
        parse_moment(after, "after"),
        parse_moment(before, "before", end=True),
    )
    logs = places.audit_logs(access.service.place)
    records = newest_records(logs, name, conditions, clamp(limit, 1, _MAX_RECORDS))
    return json_response({"records": records})


@audit_routes.add("GET /api/audit/verification", READ, returns=AuditVerification)
def verify_audit_records(access: AccessTo, user: User = "") -> Response:
    """Checks every link of the hash chain."""
    result = places.audit_logs(access.service.place).verify(log_name(access, user))
    return json_response(AuditVerification.of(result, head=str(result.head)))


def log_name(access: Access, user: str) -> str:
    if access.principal.agent:
        raise Forbidden("The key of an agent may not read the audit log.")
    if user and user != access.principal.user:
        access.require(ADMIN)
    return places.audit_name(access.service.place, user or access.principal.user)
