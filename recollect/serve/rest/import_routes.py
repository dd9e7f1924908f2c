"""Routes for imports: upload a file, follow its import, list receipts and undo imports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from recollect.model.receipts import Receipt
from recollect.serve.http import jobs as import_jobs
from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.limits import IMPORT
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.jobs import TooManyImports, Upload
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE
from recollect.settings import LIMITS

router = APIRouter(tags=["imports"], route_class=DeferredRoute)

_CHUNK_BYTES = 1 << 20
_RETRY_SECONDS = 30

ReceiptId = Annotated[int, Path(ge=1, le=2**62, description="The id of the receipt.")]


class ImportJob(BaseModel):
    """An uploaded file and the state of its import."""

    id: str
    name: str = Field(description="The name of the file.")
    size: int = Field(description="The size of the file in bytes.")
    state: str = Field(description="`queued`, `running`, `done` or `failed`.")
    done: int = Field(description="How much was imported so far.")
    total: int = Field(description="How much there is to import.")
    file: str = Field(description="The file being read. For archives, a file in the archive.")
    receipt: dict[str, Any] | None = Field(description="What was imported, once it is done.")
    error: str = Field(description="Why the import failed.")
    created_at: str
    finished_at: str | None


class ImportJobs(BaseModel):
    """The imports of the last seven days."""

    imports: list[ImportJob]


class Receipts(BaseModel):
    """A page of receipts."""

    receipts: list[dict[str, Any]]
    total: int = Field(description="Number of receipts on all pages.")
    limit: int
    offset: int


@router.post(
    "/api/imports",
    status_code=202,
    summary="Import a file",
    responses={
        202: {"model": ImportJob, "description": "The file was saved and its import is queued."}
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
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE, rate_limit=IMPORT, body_limit="upload_bytes")
async def start_import(
    access: AccessTo,
    name: Annotated[
        str,
        Query(
            min_length=1,
            max_length=1000,
            description="The name of the file. Its suffix helps to recognize the format.",
        ),
    ],
    kind: Annotated[
        Literal["conversations", "notes", "media", "characters", "prompts"] | None,
        Query(alias="as", description="What the file contains, if that is ambiguous."),
    ] = None,
) -> Response:
    """Uploads an export and imports it in the background.

    Send the bytes of the file as the body. The response arrives when the file is stored. Poll
    `GET /api/imports/{job}` to follow the import.
    """
    request, imports = access.request, access.service.imports
    imports.uploads.require_space(_content_length(request))
    user = access.principal.user
    try:
        async with _upload(imports, user, name, kind) as upload:
            await _receive(request, upload)
            if not upload.size:
                raise Problem(400, "The file is empty.")
            job = await run_in_threadpool(upload.accept)
    except TooManyImports as error:
        raise Problem(429, str(error), retry_after=_RETRY_SECONDS) from error
    except ClientDisconnect as error:
        raise Problem(400, "The upload was interrupted.") from error
    return json_response(_job_json(job), 202)


@router.get("/api/imports", summary="List imports", responses={200: {"model": ImportJobs}})
@route_policy(READ, CONVERSATIONS)
def list_imports(access: AccessTo) -> Response:
    """Returns the imports of the last seven days, newest first."""
    jobs = access.service.imports.list_for(access.principal.user)
    return json_response({"imports": [_job_json(job) for job in jobs]})


@router.get(
    "/api/imports/{job}", summary="Retrieve an import", responses={200: {"model": ImportJob}}
)
@route_policy(READ, CONVERSATIONS)
def get_import(
    access: AccessTo, job: Annotated[str, Path(description="The id of the import.")]
) -> Response:
    """Returns the state of an import."""
    return json_response(_job_json(access.service.imports.get(access.principal.user, job)))


@router.get("/api/receipts", summary="List receipts", responses={200: {"model": Receipts}})
@route_policy(READ, CONVERSATIONS)
def list_receipts(
    access: AccessTo,
    limit: Annotated[int, Query(ge=1, le=1000, description="Page size.")] = 100,
    offset: Annotated[int, Query(ge=0, description="Number of receipts to skip.")] = 0,
) -> Response:
    """Returns what every import did, newest first."""
    with access.read() as library:
        receipts = sorted(library.receipts(), key=lambda receipt: receipt.id, reverse=True)
    page = [_receipt_json(receipt) for receipt in receipts[offset : offset + limit]]
    return json_response(
        {"receipts": page, "total": len(receipts), "limit": limit, "offset": offset}
    )


@router.post(
    "/api/receipts/{number}/undo",
    summary="Undo an import",
    responses={200: {"model": dict[str, Any]}},
)
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
def undo_import(access: AccessTo, number: ReceiptId) -> Response:
    """Removes everything the import added and reverts everything it changed."""
    with access.write() as library:
        return json_response(_receipt_json(library.undo_import(number)))


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt with the name of the file instead of its path on the server."""
    return asdict(receipt) | {"path": receipt.name}


def _job_json(job: import_jobs.ImportJob) -> dict[str, Any]:
    receipt = None
    if job.receipt is not None:
        receipt = _receipt_json(job.receipt)
    return {
        "id": job.id,
        "name": job.name,
        "size": job.size,
        "state": job.state,
        "done": job.done,
        "total": job.total,
        "file": job.file,
        "receipt": receipt,
        "error": job.error,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
    }


@asynccontextmanager
async def _upload(
    imports: import_jobs.Imports, user: str, name: str, kind: str | None
) -> AsyncIterator[Upload]:
    """`Imports.upload` in a thread, since it may wait for a database."""
    with ExitStack() as stack:
        yield await run_in_threadpool(stack.enter_context, imports.upload(user, name, kind))


async def _receive(request: Request, upload: Upload) -> None:
    buffer = bytearray()
    async for part in request.stream():
        buffer += part
        if upload.size + len(buffer) > LIMITS.upload_bytes:
            raise Problem(
                413,
                f"The file is too large. The limit is {LIMITS.upload_bytes:,} bytes. "
                "Import it on the server with: recollect import FILE",
            )
        if len(buffer) >= _CHUNK_BYTES:
            await run_in_threadpool(upload.write, bytes(buffer))
            buffer.clear()
    if buffer:
        await run_in_threadpool(upload.write, bytes(buffer))


def _content_length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20:
        return int(length)
    return 0
