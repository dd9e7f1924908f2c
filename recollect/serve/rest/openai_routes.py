"""A proxy for OpenAI's API that records conversations.

A client whose base URL is this server's `/v1` gets the responses of the model server, byte for
byte, and its conversations are saved. Two request headers are for this server only:
`X-Recollect-Session` names the conversation, and `X-Recollect-Namespace` the project of a new one.
The response header `X-Recollect-Conversation` says where the conversation was saved. Every other
part of the API is passed on; the response header `X-Recollect-Recorded: no` says that nothing was
saved.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recollect.capture.model_answers import AnswerReader, decompress
from recollect.capture.recording import ChatRequest, Recording
from recollect.capture.upstream import SETTING, NoAnswer, Upstream, response_headers
from recollect.errors import InvalidInput
from recollect.model.chat_messages import as_mapping, as_text, chat_messages
from recollect.model.documents import Json
from recollect.serve.http import logs
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import CHAT
from recollect.serve.http.responses import Problem
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, LOCAL, READ, WRITE
from recollect.settings import LIMITS

if TYPE_CHECKING:
    import httpx

MAX_SESSION_LENGTH = 256
PROJECT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SAVE_SECONDS = 5.0  # how long the end of a response is held back until it is saved

T = TypeVar("T")

routes = Routes("openai", CONVERSATIONS)

_ERROR = {"description": "An error of the model server, unchanged, or of this server."}
_UNCHANGED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The response of the model server, unchanged.",
        "content": {"application/json": {"schema": {}}, "text/event-stream": {"schema": {}}},
    },
    "4XX": _ERROR,
    "5XX": _ERROR,
}
_BODY = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
_RECORDED: dict[str, Any] = {
    "rate_limit": CHAT,
    "ends_streams": True,
    "responses": _UNCHANGED,
    "openapi_extra": {"requestBody": _BODY},
}


@routes.add("POST /v1/chat/completions", WRITE, **_RECORDED)
async def create_completion(access: AccessTo, request: Request) -> Response:
    """Passes the request on to the model server and records the conversation.

    The question is saved before it is passed on, and the answer before its end reaches you.
    """
    return await record(access, request, "/chat/completions")


@routes.add("POST /v1/responses", WRITE, **_RECORDED)
async def create_response(access: AccessTo, request: Request) -> Response:
    """Passes the request on to the model server and records the conversation, as for chats.

    A `conversation` names the session, and a `previous_response_id` continues that response.
    """
    return await record(access, request, "/responses")


@routes.add("GET /v1/models", READ, responses=_UNCHANGED)
async def list_models(access: AccessTo) -> Response:
    """Returns the models of the model server."""
    return _pass_on(access, "/models", b"")


@routes.add("GET /v1/models/{model:path}", READ, responses=_UNCHANGED)
async def get_model(access: AccessTo, model: str) -> Response:
    """Returns one model of the model server."""
    return _pass_on(access, f"/models/{model}", b"")


@routes.add("POST /v1/embeddings", WRITE, **{**_RECORDED, "ends_streams": False})
async def create_embeddings(access: AccessTo, request: Request) -> Response:
    """Passes the request on to the model server. Nothing is recorded."""
    return _pass_on(access, "/embeddings", await request.body())


@routes.add(
    "GET|HEAD|POST|PUT|PATCH|DELETE /v1/{path:path}",
    WRITE,
    rate_limit=CHAT,
    ends_streams=True,
    is_hidden=True,
)
async def pass_on(access: AccessTo, request: Request, path: str) -> Response:
    """Passes everything else on. Nothing is recorded, and a header says so."""
    return _pass_on(access, f"/{path}", await request.body())


def _pass_on(access: Access, path: str, body: bytes) -> Response:
    segments = path.removeprefix("/").split("/")
    if {"", ".", ".."} & set(segments):  # the model server must not resolve these
        raise Problem(404, "There is no such path.")
    path = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    return _Relay(access, require_upstream(access), path, body, None)


def require_upstream(access: Access) -> Upstream:
    """The model server. Raises Problem 503 unless one is configured."""
    try:
        upstream = access.service.upstream
    except InvalidInput as error:
        logs.error(error, request_id=access.request_id, what=SETTING)
        raise Problem(
            503,
            f"The setting {SETTING} or {SETTING}_KEY is invalid. "
            "The server log has the details under this request id.",
        ) from error
    if upstream is None:
        raise Problem(
            503,
            f"No model is configured. Set {SETTING} on the server (https://host/v1#model) and, "
            f"if the model server needs a key, {SETTING}_KEY.",
        )
    return upstream


def no_answer(error: NoAnswer) -> Problem:
    status, code = (504, "TIMEOUT") if error.is_timeout else (502, "ERROR")
    return Problem(status, str(error), code=f"UPSTREAM_{code}")


# -- recording ---


async def record(access: Access, request: Request, path: str) -> Response:
    """Save the question, pass it on, and save the answer."""
    upstream = require_upstream(access)
    session = request.headers.get("x-recollect-session")
    if session is not None:
        session = session.strip()
        if not 1 <= len(session) <= MAX_SESSION_LENGTH:
            raise Problem(
                400, f"X-Recollect-Session must have 1 to {MAX_SESSION_LENGTH} characters."
            )
    project = request.headers.get("x-recollect-namespace", "default")
    if not PROJECT.fullmatch(project):
        raise Problem(
            400, "X-Recollect-Namespace must have 1 to 64 characters: letters, digits, _ and -."
        )
    body = await request.body()
    recording = await save_on_the_side(
        access, lambda: begin_recording(access, upstream, body, session, project)
    )
    return _Relay(access, upstream, path, body, recording)


def begin_recording(
    access: Access, upstream: Upstream, body: bytes, session: str | None, project: str
) -> Recording | None:
    """Save the question. None if the request cannot be parsed: the model server will say why."""
    headers = access.request.headers
    plain = decompress(body, headers.get("content-encoding", ""), LIMITS.request_bytes)
    try:
        request: Json = json.loads(plain or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    if session is None:  # in the request's own metadata, or its conversation at the model server
        conversation = request.get("conversation")
        named = as_mapping(request.get("metadata")).get("session_id") or conversation
        named = as_mapping(named).get("id") or named
        if isinstance(named, str) and 1 <= len(named.strip()) <= MAX_SESSION_LENGTH:
            session = named.strip()
    chat_request = ChatRequest(
        messages_in(request),
        session,
        project,
        headers.get("x-stainless-retry-count", "0") != "0",  # sent by OpenAI's clients
        as_text(request.get("previous_response_id")) or None,
    )
    with access.write() as library:
        recording = upstream.recorder.begin(library, access.principal.user, chat_request)
        if recording is not None:
            try:
                count = upstream.recorder.save_request(library, recording)
            except Exception as error:  # it is saved later, together with the answer
                report_unsaved(access, error)
            else:
                access.service.metrics.saved_messages.labels("proxy").inc(count)
    return recording


def messages_in(request: dict[str, Json]) -> list[Json]:
    """The messages of a chat, or the instructions and the input of a response."""
    if isinstance(request.get("messages"), list):
        return list(request["messages"])
    value = request.get("input")
    items = value if isinstance(value, list) else [{"role": "user", "content": value}]
    if request.get("instructions"):
        items = [{"role": "system", "content": request["instructions"]}, *items]
    return chat_messages(items) if value else []


async def save_on_the_side(access: Access, save: Callable[[], T]) -> T | None:
    """Save in a thread. A failure is logged and counted, but does not affect the response."""
    try:
        return await run_in_threadpool(save)
    except Exception as error:  # the reply of the model is worth more than its record
        report_unsaved(access, error)
        return None


def report_unsaved(access: Access, error: BaseException | None = None) -> None:
    """Log and count something that was not saved. Without an error, a response was unreadable."""
    access.service.metrics.not_recorded.inc()
    if error is None:
        logs.event("a response could not be parsed", request_id=access.request_id)
    else:
        logs.error(error, request_id=access.request_id, what="recording")


# -- relaying ---


class _Relay(Response):
    """Passes a request on and the response back as it arrives, and records a copy of it."""

    def __init__(
        self,
        access: Access,
        upstream: Upstream,
        path: str,
        body: bytes,
        recording: Recording | None,
    ) -> None:
        super().__init__()
        self._access = access
        self._upstream = upstream
        self._path = path
        self._request_body = body
        self._recording = recording
        self._save_task: asyncio.Task[None] | None = None
        self._is_recorded = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        relay = asyncio.create_task(self._relay(send))
        disconnect = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((relay, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            if not relay.done():
                relay.cancel()
            await asyncio.wait((relay, disconnect))
            self._end_recording()
        if not relay.cancelled():
            relay.result()

    async def _relay(self, send: Send) -> None:
        request, metrics = self._access.request, self._access.service.metrics
        is_local = self._access.principal.credential == LOCAL
        query = request.scope.get("query_string", b"").decode("latin-1")
        headers = self._upstream.request_headers(request.headers.raw, local=is_local)
        try:
            response = await self._upstream.ask(
                request.method, self._path, headers, self._request_body, query
            )
        except NoAnswer as error:
            metrics.upstream_failures.inc()
            raise no_answer(error) from error
        if response.status_code >= 500:
            metrics.upstream_failures.inc()
        if not response.is_success:
            self._end_recording()
        try:
            await self._send_response(response, send)
        finally:
            await response.aclose()

    async def _send_response(self, response: httpx.Response, send: Send) -> None:
        headers = response_headers(response)
        headers.append((b"content-security-policy", b"default-src 'none'; sandbox"))
        tape = None
        if self._recording is None:
            headers.append((b"x-recollect-recorded", b"no"))
        else:
            conversation_id = self._recording.conversation.encode("latin-1", "replace")
            headers.append((b"x-recollect-conversation", conversation_id))
            if response.is_success:
                tape = AnswerReader(
                    response.headers.get("content-type", ""),
                    response.headers.get("content-encoding", ""),
                )
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        is_complete = False
        try:
            is_complete = await self._send_body(response, tape, send)
        finally:
            if tape is not None:
                await self._save(tape, is_complete)
        if is_complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            # We send no end, so the server closes the connection and the client notices as well.
            self._access.service.metrics.upstream_failures.inc()
            logs.event("the model's response broke off", request_id=self._access.request_id)

    async def _send_body(
        self, response: httpx.Response, tape: AnswerReader | None, send: Send
    ) -> bool:
        """Pass on the body. Returns whether it was complete.

        The end of a readable response is sent after it was saved, so that a client that has the
        whole response can find it and continue the conversation.
        """
        pending = b""
        try:
            async for data in self._upstream.pieces(response):
                if tape is None:
                    await send_part(send, data)
                    continue
                tape.feed(data)
                if tape.is_stream:
                    if tape.has_ended:
                        await self._save(tape, True)
                    await send_part(send, data)
                else:
                    await send_part(send, pending)
                    pending = data
        except NoAnswer:
            await send_part(send, pending)
            return False
        if tape is not None:
            await self._save(tape, True)
        await send_part(send, pending)
        return True

    async def _save(self, tape: AnswerReader, is_complete: bool) -> None:
        """Save the answer once. Wait for it, but not too long if the client waits as well."""
        if self._save_task is None:
            self._save_task = asyncio.create_task(self._save_answer(tape, is_complete))
            timeout = _SAVE_SECONDS if is_complete else None
            await asyncio.wait((self._save_task,), timeout=timeout)
        elif not self._save_task.done():
            await asyncio.wait((self._save_task,))

    async def _save_answer(self, tape: AnswerReader, is_complete: bool) -> None:
        recording = self._recording
        assert recording is not None

        def save() -> bool:
            answer = tape.answer(complete=is_complete)
            if answer is None:
                if is_complete or not tape.is_readable:
                    report_unsaved(self._access)
                return False
            with self._access.write() as library:
                ids = self._upstream.recorder.save_answer(library, recording, answer)
            self._access.service.metrics.saved_messages.labels("proxy").inc(len(ids))
            return answer.is_complete

        answered = await save_on_the_side(self._access, save)
        self._end_recording(answered=bool(answered))

    def _end_recording(self, *, answered: bool = False) -> None:
        """Tell the recorder before the response ends: the client may retry right after that."""
        if self._recording is not None and not self._is_recorded:
            self._is_recorded = True
            self._upstream.recorder.end(self._recording, has_answer=answered)


async def send_part(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def wait_for_disconnect(receive: Receive) -> None:
    with suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
