"""Routes for the audit log. Users see their own; the log of another user needs the scope admin."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from recollect.model.arguments import parse_moment
from recollect.places import audit_logs, audit_name
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute, clamp
from recollect.serve.identity.principal import ADMIN, READ, Forbidden
from recollect.store.audit_reading import RecordFilter, newest_records

router = APIRouter(tags=["audit"], route_class=JsonRoute)

_MAX_RECORDS = 1_000

User = Annotated[str, Query(description="Another user; needs the scope `admin`.")]


class AuditRecord(BaseModel):
    """One record. It has ids and counts, but no content."""

    number: int
    at: datetime
    action: str
    operation: str | None = None
    ids: list[str] | None = None
    count: int | None = None
    by: str | None = Field(None, description="The user of the credential.")
    key: str | None = Field(None, description="The id of the API key.")
    interface: str | None = None
    address: str | None = None
    previous: str = Field(description="The hash of the record before.")


class AuditList(BaseModel):
    records: list[AuditRecord]


class AuditVerification(BaseModel):
    records: int
    first: int
    head: str = Field(description="The number and hash of the last record.")
    problems: list[str] = Field(description="Where the chain breaks; empty if it is unbroken.")


@router.get("/api/audit", summary="List the audit log", responses={200: {"model": AuditList}})
@route_policy(READ)
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
    name = _log_name(access, user)
    conditions = RecordFilter(
        tuple(action or ()),
        by,
        parse_moment(after, "after"),
        parse_moment(before, "before", end=True),
    )
    logs = audit_logs(access.service.place)
    records = newest_records(logs, name, conditions, clamp(limit, 1, _MAX_RECORDS))
    return json_response({"records": records})


@router.get(
    "/api/audit/verification",
    summary="Verify the audit log",
    responses={200: {"model": AuditVerification}},
)
@route_policy(READ)
def verify_audit_records(access: AccessTo, user: User = "") -> Response:
    """Checks every link of the hash chain."""
    result = audit_logs(access.service.place).verify(_log_name(access, user))
    body: dict[str, Any] = {
        "records": result.records,
        "first": result.first,
        "head": str(result.head),
        "problems": result.problems,
    }
    return json_response(body)


def _log_name(access: Access, user: str) -> str:
    if access.principal.agent:
        raise Forbidden("The key of an agent may not read the audit log.")
    if user and user != access.principal.user:
        access.require(ADMIN)
    return audit_name(access.service.place, user or access.principal.user)
