"""OpenAI's protocol, passed on to the model's server and recorded: a client whose base URL is this server's `/v1`
gets the answers that it would get there, byte for byte, and its conversations are kept.

Headers that are for this server alone: `X-Recollect-Session` names the conversation, `X-Recollect-Namespace` where a
new one belongs. The answer's `X-Recollect-Conversation` says where it was kept.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recollect.capture.proxy.recording import Asked, Recording
from recollect.capture.proxy.tape import Tape, unpacked
from recollect.capture.proxy.upstream import SETTING, NoAnswer, Upstream, returned
from recollect.errors import InvalidInput
from recollect.model.documents import Json
from recollect.serve.http import logs
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.limits import CHAT
from recollect.serve.http.principal import READ, WRITE
from recollect.serve.http.route_policy import route_policy
from recollect.settings import LIMITS

SUPPORTED = "POST /v1/chat/completions (recorded), GET /v1/models, GET /v1/models/{model} and POST /v1/embeddings"
NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")
SESSION_LENGTH = 256
_WAIT_FOR_SAVING = 5.0  # seconds that the end of an answer is held back until it is saved

T = TypeVar("T")


router = APIRouter(tags=["openai"])


def _told(what: str) -> dict[int | str, dict[str, Any]]:
    """What may come back, in OpenAPI's words: the shapes are those of the model's server."""
    refusal = "What the model's server said, unchanged; or what went wrong here, in the shape of our errors"
    kinds: dict[str, Any] = {
        "application/json": {"schema": {}},
        "text/event-stream": {"schema": {}},
    }
    answered = {"description": what, "content": kinds}
    return {200: answered, "4XX": {"description": refusal}, "5XX": {"description": refusal}}


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.post(
    "/v1/chat/completions", responses=_told("The model's answer, unchanged"), openapi_extra=_BODY
)
@route_policy(rate_limit=CHAT, ends_streams=True)
async def complete(access: AccessTo, request: Request) -> Response:
    """Ask the model, and keep what was said: the request before it is passed on, the answer when it has been seen."""
    access.require(WRITE, "conversations")
    upstream = upstream_of(access)
    session, namespace = _named(request)
    body = await request.body()
    recording = await _begun(access, upstream, request, body, session, namespace)
    return _Relay(access, upstream, "/chat/completions", body, recording)


@router.get("/v1/models", responses=_told("The models, unchanged"))
async def list_models(access: AccessTo) -> Response:
    """The models that the model's server has."""
    return _passed(access, "/models", b"", READ)


@router.get("/v1/models/{model:path}", responses=_told("The model, unchanged"))
async def get_model(access: AccessTo, model: str) -> Response:
    """One model."""
    parts = model.split("/")
    if {"", ".", ".."} & set(parts):  # the server behind must not take it for another address
        raise Problem(404, "There is no such model.")
    return _passed(access, f"/models/{'/'.join(quote(part, safe='') for part in parts)}", b"", READ)


@router.post("/v1/embeddings", responses=_told("The vectors, unchanged"), openapi_extra=_BODY)
@route_policy(rate_limit=CHAT)
async def embed(access: AccessTo, request: Request) -> Response:
    """Vectors of the model's server. Nothing is recorded."""
    return _passed(access, "/embeddings", await request.body(), WRITE)


@router.api_route(
    "/v1/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
)
async def refuse(rest: str) -> Response:
    raise Problem(
        404, f"This part of OpenAI's protocol is not passed on, nor recorded. What is: {SUPPORTED}."
    )


def upstream_of(access: Access) -> Upstream:
    try:
        upstream = access.service.upstream
    except InvalidInput as error:
        logs.error(error, request_id=_request_id(access), what=SETTING)
        raise Problem(
            503, f"{SETTING} or {SETTING}_KEY is set to something that cannot be used."
        ) from error
    if upstream is None:
        raise Problem(
            503,
            f"No model is configured. Whoever runs this server sets {SETTING} (https://host/v1#model) and, where "
            f"it needs a key, {SETTING}_KEY.",
        )
    return upstream


def problem_with(error: NoAnswer) -> Problem:
    code, status = ("UPSTREAM_TIMEOUT", 504) if error.late else ("UPSTREAM_ERROR", 502)
    return Problem(status, str(error), code=code)


def _passed(access: Access, path: str, body: bytes, scope: str) -> Response:
    access.require(scope, "conversations")
    return _Relay(access, upstream_of(access), path, body, None)


# -- what is recorded ----------------------------------------------------------


def _named(request: Request) -> tuple[str | None, str]:
    """The session and the namespace that the headers name."""
    session = request.headers.get("x-recollect-session")
    if session is not None and not 1 <= len(session.strip()) <= SESSION_LENGTH:
        raise Problem(400, f"X-Recollect-Session must have 1 to {SESSION_LENGTH} characters.")
    namespace = request.headers.get("x-recollect-namespace", "default")
    if not NAMESPACE.fullmatch(namespace):
        raise Problem(
            400, "X-Recollect-Namespace must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -."
        )
    return session.strip() if session else None, namespace


def _asked(
    body: bytes, encoding: str, session: str | None, namespace: str, again: bool
) -> Asked | None:
    """What a request says; None where it cannot be read, of which the model's server will complain."""
    plain = unpacked(body, encoding, LIMITS.request_bytes)
    try:
        said: Json = json.loads(plain) if plain else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("messages"), list):
        return None
    metadata = said.get("metadata")
    named = metadata.get("session_id") if isinstance(metadata, dict) else None
    if session is None and isinstance(named, str) and 1 <= len(named.strip()) <= SESSION_LENGTH:
        session = named.strip()
    return Asked(said["messages"], session, namespace, again)


async def _begun(
    access: Access,
    upstream: Upstream,
    request: Request,
    body: bytes,
    session: str | None,
    namespace: str,
) -> Recording | None:
    again = (
        request.headers.get("x-stainless-retry-count", "0") != "0"
    )  # so OpenAI's own clients say it
    encoding = request.headers.get("content-encoding", "")

    def begin() -> Recording | None:
        asked = _asked(body, encoding, session, namespace, again)
        if asked is None:
            return None
        with access.write("conversations") as library:
            recording = upstream.recorder.begin(library, access.principal.user, asked)
            if recording is not None:
                try:
                    new = upstream.recorder.keep(library, recording)
                    access.service.metrics.saved_messages.labels("proxy").inc(new)
                except Exception as error:  # it is tried again with the answer
                    not_saved(access, error)
        return recording

    return await unharmed(access, begin)


async def unharmed(access: Access, save: Callable[[], T]) -> T | None:
    """Save something in a thread. Where that fails it is written down and counted, and whoever asks the model gets
    their answer all the same."""
    try:
        return await run_in_threadpool(save)
    except Exception as error:
        not_saved(access, error)
        return None


def not_saved(access: Access, error: BaseException | None = None) -> None:
    access.service.metrics.not_recorded.inc()
    if error is None:
        logs.event("an answer could not be read", request_id=_request_id(access))
    else:
        logs.error(error, request_id=_request_id(access), what="recording")


def _request_id(access: Access) -> str:
    return str(access.request.scope.get("state", {}).get("request_id", ""))


# -- the way through -----------------------------------------------------------


class _Relay(Response):
    """Sends a request on and the answer back, as it comes, and keeps a copy of that."""

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
        self._content = body
        self._recording = recording
        self._saving: asyncio.Task[None] | None = None
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.create_task(self._work(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
            await asyncio.wait((work, gone))
            self._end()
        if not work.cancelled():
            work.result()

    async def _work(self, send: Send) -> None:
        request = self._access.request
        headers = self._upstream.headers(
            request.headers.raw, local=self._access.principal.credential == "local"
        )
        method, query = request.method, request.scope.get("query_string", b"").decode("latin-1")
        metrics = self._access.service.metrics
        try:
            response = await self._upstream.ask(method, self._path, headers, self._content, query)
        except NoAnswer as error:
            metrics.upstream_failures.inc()
            raise problem_with(error) from error
        if response.status_code >= 500:
            metrics.upstream_failures.inc()
        if not response.is_success:
            self._end()
        try:
            await self._answer(response, send)
        finally:
            await response.aclose()

    async def _answer(self, response: httpx.Response, send: Send) -> None:
        headers = returned(response)
        recorded = self._recording is not None and response.is_success
        if self._recording is not None:
            headers.append(
                (
                    b"x-recollect-conversation",
                    self._recording.conversation.encode("latin-1", "replace"),
                )
            )
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        said = response.headers
        tape = (
            Tape(said.get("content-type", ""), said.get("content-encoding", ""))
            if recorded
            else None
        )
        complete = False
        try:
            complete = await self._passed_on(response, tape, send)
        finally:
            if tape is not None:
                await self._save(tape, complete)
        if complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            # What broke off must look so here too: an answer that is not ended makes the server close the connection.
            self._access.service.metrics.upstream_failures.inc()
            logs.event("the model's answer broke off", request_id=_request_id(self._access))

    async def _passed_on(self, response: httpx.Response, tape: Tape | None, send: Send) -> bool:
        """Pass on the body; says whether it came to its proper end. The end of an answer that can be read comes
        after it was saved: whoever has it may rely on finding it, and may go on with it."""
        held = b""
        try:
            async for data in response.aiter_raw():
                if tape is None:
                    await _send(send, data)
                    continue
                tape.feed(data)
                if tape.streamed:
                    if tape.ended:
                        await self._save(tape, True)
                    await _send(send, data)
                else:
                    await _send(send, held)
                    held = data
        except httpx.TransportError:
            await _send(send, held)
            return False
        if tape is not None:
            await self._save(tape, True)
        await _send(send, held)
        return True

    async def _save(self, tape: Tape, complete: bool) -> None:
        if self._saving is None:
            self._saving = asyncio.create_task(self._saved(tape, complete))
            await asyncio.wait((self._saving,), timeout=_WAIT_FOR_SAVING if complete else None)
        elif not self._saving.done():
            await asyncio.wait((self._saving,))

    async def _saved(self, tape: Tape, complete: bool) -> None:
        recording = self._recording
        assert recording is not None

        def save() -> bool:
            answer = tape.answer(complete=complete)
            if answer is None:
                if complete or not tape.readable:
                    not_saved(self._access)
                return False
            with self._access.write("conversations") as library:
                ids = self._upstream.recorder.save(library, recording, answer)
            self._access.service.metrics.saved_messages.labels("proxy").inc(len(ids))
            return answer.whole

        self._end(answered=await unharmed(self._access, save) or False)

    def _end(self, *, answered: bool = False) -> None:
        """The request is over. This comes before its end is passed on: the client may send it again at once."""
        if self._recording is not None and not self._ended:
            self._ended = True
            self._upstream.recorder.end(self._recording, answered=answered)


async def _send(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Ends when the client goes away."""
    with suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
