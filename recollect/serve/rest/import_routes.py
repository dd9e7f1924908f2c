"""Routes for imports and their receipts, for recent changes, and for forgetting."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from pydantic import ConfigDict, Field, StrictBool
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from recollect.model.forgetting import Selection
from recollect.model.receipts import Receipt
from recollect.places import record
from recollect.serve.http import import_jobs as jobs
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import IMPORT
from recollect.serve.http.responses import Problem, json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE, Forbidden
from recollect.serve.rest.schemas import (
    Change,
    PurgeState,
    RequestBody,
    ResponseBody,
    about,
    change_shape,
)
from recollect.settings import LIMITS
from recollect.store.audit_log import SEARCH, Entry

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


# -- changes that can be undone ---

change_routes = Routes("changes", CONVERSATIONS, KNOWLEDGE)


class ChangeList(ResponseBody):
    """The changes that can be undone now, newest first."""

    changes: list[Change]


@change_routes.add("GET /api/v1/changes", READ, returns=ChangeList)
def list_changes(access: AccessTo) -> Response:
    """Returns the changes that can be undone now, newest first.

    Pins, and deletions with `trash=true`, are recorded for some time (RECOLLECT_UNDO_MINUTES).
    """
    access.require_all_toolsets()
    with access.read() as library:
        return json_response({"changes": [change_shape(change) for change in library.changes()]})


@change_routes.add("POST /api/v1/changes/{number}/undo", WRITE, returns=Change)
def undo_change(
    access: AccessTo,
    number: Annotated[int, Path(ge=1, lt=1 << 31, description="The number of the change.")],
) -> Response:
    """Undoes a change and returns it. A deleted conversation comes back unchanged."""
    access.require_all_toolsets()
    with access.write() as library:
        return json_response(change_shape(library.undo(number)))


# -- forgetting ---

forget_routes = Routes("forgetting")


class ForgetRequest(RequestBody):
    """What to forget. All conditions must hold; at least one is needed."""

    model_config = ConfigDict(strict=False)
    conversations: list[str] = about("Ids of conversations or items.", [], max_length=1000)
    messages: list[str] = about("Ids of messages in the one conversation.", [], max_length=10000)
    first: str | None = about("The first message of a span.", None)
    last: str | None = about("The last message of a span.", None)
    projects: list[str] = Field([], max_length=1_000)
    sources: list[str] = Field([], max_length=100)
    kinds: list[str] = Field([], max_length=10)
    after: str | None = about("Only messages on or after this date or time.", None)
    before: str | None = about("Only messages on or before it.", None)
    text: str | None = about("A word or phrase in messages and titles, ignoring case.", None)
    pattern: str | None = about("A regular expression in the syntax of RE2.", None)
    confirm: StrictBool = about(
        "Forget. Without it, the response is a preview and nothing changes.", False
    )


class ForgetExample(ResponseBody):
    model_config = ConfigDict(extra="ignore")
    conversation_id: str
    title: str
    kind: str
    project: str
    source: str
    message_id: str | None
    role: str | None
    created_at: datetime | None
    excerpt: str


class ForgetResult(ResponseBody):
    """What the conditions match, and whether it was forgotten."""

    done: bool = about("False for a preview.")
    conversations: int = about("Conversations of which nothing is left.")
    changed_conversations: int = about("Conversations that lose a part.")
    messages: int
    items: int
    titles: int = about("Titles removed from conversations that stay.")
    earlier_versions: int = about("Versions, kept for undoing imports, that contain the text.")
    archived_files: int = about("Files whose archived copies were deleted.")
    purge: PurgeState | None = about("Null for a preview.")
    by_source: dict[str, int]
    by_project: dict[str, int]
    examples: list[ForgetExample]
    note: str


@forget_routes.add("POST /api/forget", WRITE, CONVERSATIONS, KNOWLEDGE, returns=ForgetResult)
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
            report = library.forget(selection, dry_run=True)
            entry = Entry.of(SEARCH, "POST /api/forget", selection.conversations, report.messages)
            record(access.service.place, access.principal.user, entry)
    return json_response(ForgetResult.of(report))
