"""Uploading a file, following its import, and taking imports back."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from recollect.model.receipts import Receipt
from recollect.serve.http.access import AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.jobs import Job, TooManyImports, Upload
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import IMPORT
from recollect.serve.http.principal import READ, WRITE
from recollect.serve.http.route_policy import route_policy
from recollect.settings import LIMITS

router = APIRouter(tags=["imports"])

_CHUNK = 1 << 20
_SPARE_BYTES = 200_000_000  # the disk must keep room for what the import writes

Number = Annotated[int, Path(ge=1, le=2**62, description="The number of the receipt.")]


class ImportJob(BaseModel):
    """One uploaded file and how far its import is."""

    id: str
    name: str
    size: int
    state: str
    done: int
    total: int
    file: str
    receipt: dict[str, Any] | None
    error: str
    created_at: str
    finished_at: str | None


class ImportJobs(BaseModel):
    imports: list[ImportJob]


class Receipts(BaseModel):
    receipts: list[dict[str, Any]]
    total: int
    limit: int
    offset: int


@router.post(
    "/api/imports",
    status_code=202,
    summary="Import a file",
    responses={
        202: {"model": ImportJob, "description": "The file is kept and waits for its import."}
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
@route_policy(rate_limit=IMPORT, body_limit="upload_bytes")
async def start_import(
    access: AccessTo,
    name: Annotated[
        str,
        Query(
            min_length=1,
            max_length=1000,
            description="The name of the file, by which its format is known.",
        ),
    ],
    kind: Annotated[
        Literal["conversations", "notes", "media", "characters", "prompts"] | None,
        Query(alias="as", description="What the file holds, where that is not clear."),
    ] = None,
) -> Response:
    """Send the bytes of an export as they are. The answer comes when all of them are on disk; ask for the job
    to see how far the import is."""
    access.require(WRITE, "conversations")
    request = access.request
    _demand_room(access.service.jobs.folder.parent, _length(request))
    try:
        with access.service.jobs.upload(access.principal.user, name, kind) as upload:
            await _receive(request, upload)
            if not upload.job.size:
                raise Problem(400, "The file is empty.")
            job = await run_in_threadpool(upload.accept)
    except TooManyImports as error:
        raise Problem(429, str(error), retry_after=30) from error
    except ClientDisconnect as error:
        raise Problem(400, "The upload broke off.") from error
    return json_response(_shape(job), 202)


@router.get("/api/imports", summary="List imports", responses={200: {"model": ImportJobs}})
def list_imports(access: AccessTo) -> Response:
    """The uploads of this run of the server, newest first."""
    access.require(READ, "conversations")
    return json_response(
        {"imports": [_shape(job) for job in access.service.jobs.list_for(access.principal.user)]}
    )


@router.get(
    "/api/imports/{job}", summary="Follow one import", responses={200: {"model": ImportJob}}
)
def get_import(
    access: AccessTo, job: Annotated[str, Path(description="The job's id.")]
) -> Response:
    access.require(READ, "conversations")
    return json_response(_shape(access.service.jobs.get(access.principal.user, job)))


@router.get("/api/receipts", summary="List receipts", responses={200: {"model": Receipts}})
def list_receipts(
    access: AccessTo,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many receipts.")] = 100,
    offset: Annotated[int, Query(ge=0, description="How many of the newest to leave out.")] = 0,
) -> Response:
    """What every import did, newest first."""
    with access.read("conversations") as library:
        receipts = sorted(library.receipts(), key=lambda receipt: -receipt.id)
    shown = [receipt_shape(receipt) for receipt in receipts[offset : offset + limit]]
    return json_response(
        {"receipts": shown, "total": len(receipts), "limit": limit, "offset": offset}
    )


@router.post(
    "/api/receipts/{number}/undo",
    summary="Take an import back",
    responses={200: {"model": dict[str, Any]}},
)
def undo_import(access: AccessTo, number: Number) -> Response:
    """What the import added is removed again, and what it changed is as before."""
    with access.write("conversations") as library:
        return json_response(receipt_shape(library.undo_import(number)))


def receipt_shape(receipt: Receipt) -> dict[str, Any]:
    """A receipt for others: the name of what was imported, not where the server had it."""
    return asdict(receipt) | {"path": receipt.name}


async def _receive(request: Request, upload: Upload) -> None:
    waiting = bytearray()
    async for piece in request.stream():
        waiting += piece
        if upload.job.size + len(waiting) > LIMITS.upload_bytes:
            raise Problem(
                413,
                f"A file may have up to {LIMITS.upload_bytes:,} bytes; import it with `recollect import` instead.",
            )
        if len(waiting) >= _CHUNK:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    if waiting:
        await run_in_threadpool(upload.write, bytes(waiting))


def _length(request: Request) -> int:
    said = request.headers.get("content-length", "")
    return int(said) if said.isdecimal() and len(said) < 20 else 0


def _demand_room(folder: Any, needed: int) -> None:
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free < needed + _SPARE_BYTES:
        raise Problem(507, "There is not enough room on the server's disk for this file.")


def _shape(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "size": job.size,
        "state": job.state,
        "done": job.done,
        "total": job.total,
        "file": job.file,
        "receipt": receipt_shape(job.receipt) if job.receipt else None,
        "error": job.error,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
    }
