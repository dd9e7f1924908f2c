"""Routes for imports: upload a file, follow its import, list receipts and undo imports."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from recollect.model.receipts import Receipt
from recollect.serve.http import import_jobs as jobs
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import IMPORT
from recollect.serve.http.responses import Problem, json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE
from recollect.serve.rest.schemas import ResponseBody, about
from recollect.settings import LIMITS

routes = Routes("imports", CONVERSATIONS)

_CHUNK_BYTES = 1 << 20
_RETRY_SECONDS = 30


class ImportJob(ResponseBody):
    """An uploaded file and the state of its import."""

    id: str
    name: str = about("The name of the file.")
    size: int = about("The size of the file in bytes.")
    state: str = about("`queued`, `running`, `done` or `failed`.")
    done: int = about("How much was imported so far.")
    total: int = about("How much there is to import.")
    file: str = about("The file being read. For archives, a file in the archive.")
    receipt: dict[str, Any] | None = about("What was imported, once it is done.")
    error: str = about("Why the import failed.")
    created_at: str
    finished_at: str | None


class ImportJobs(ResponseBody):
    """The imports of the last seven days."""

    imports: list[ImportJob]


class Receipts(ResponseBody):
    """A page of receipts."""

    receipts: list[dict[str, Any]]
    total: int = about("Number of receipts on all pages.")
    limit: int
    offset: int


@routes.add(
    "POST /api/imports",
    WRITE,
    CONVERSATIONS,
    KNOWLEDGE,
    rate_limit=IMPORT,
    body_limit="upload_bytes",
    returns=ImportJob,
    status=202,
    responses={202: {"description": "The file was saved and its import is queued."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
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
    length = request.headers.get("content-length", "")
    imports.uploads.require_space(int(length) if length.isdecimal() and len(length) < 20 else 0)
    try:
        with ExitStack() as stack:
            beginning = imports.upload(access.principal.user, name, kind)
            upload = await run_in_threadpool(stack.enter_context, beginning)
            await receive(request, upload)
            if not upload.size:
                raise Problem(400, "The file is empty.")
            job = await run_in_threadpool(upload.accept)
    except jobs.TooManyImports as error:
        raise Problem(429, str(error), retry_after=_RETRY_SECONDS) from error
    except ClientDisconnect as error:
        raise Problem(400, "The upload was interrupted.") from error
    return json_response(job_json(job), 202)


async def receive(request: Request, upload: jobs.Upload) -> None:
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


@routes.add("GET /api/imports", READ, returns=ImportJobs)
def list_imports(access: AccessTo) -> Response:
    """Returns the imports of the last seven days, newest first."""
    found = access.service.imports.list_for(access.principal.user)
    return json_response({"imports": [job_json(job) for job in found]})


@routes.add("GET /api/imports/{job}", READ, returns=ImportJob)
def get_import(
    access: AccessTo, job: Annotated[str, Path(description="The id of the import.")]
) -> Response:
    """Returns the state of an import."""
    return json_response(job_json(access.service.imports.get(access.principal.user, job)))


@routes.add("GET /api/receipts", READ, returns=Receipts)
def list_receipts(
    access: AccessTo,
    limit: Annotated[int, Query(ge=1, le=1000, description="Page size.")] = 100,
    offset: Annotated[int, Query(ge=0, description="Number of receipts to skip.")] = 0,
) -> Response:
    """Returns what every import did, newest first."""
    with access.read() as library:
        receipts = sorted(library.receipts(), key=lambda receipt: receipt.id, reverse=True)
    page = [receipt_json(receipt) for receipt in receipts[offset : offset + limit]]
    return json_response(
        {"receipts": page, "total": len(receipts), "limit": limit, "offset": offset}
    )


@routes.add(
    "POST /api/receipts/{number}/undo", WRITE, CONVERSATIONS, KNOWLEDGE, returns=dict[str, Any]
)
def undo_import(
    access: AccessTo,
    number: Annotated[int, Path(ge=1, le=2**62, description="The id of the receipt.")],
) -> Response:
    """Removes everything the import added and reverts everything it changed."""
    with access.write() as library:
        return json_response(receipt_json(library.undo_import(number)))


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt with the name of the file instead of its path on the server."""
    return asdict(receipt) | {"path": receipt.name}


def job_json(job: jobs.ImportJob) -> dict[str, Any]:
    return ImportJob.of(job, receipt=job.receipt and receipt_json(job.receipt))
