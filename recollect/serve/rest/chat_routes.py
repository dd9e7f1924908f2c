"""`POST /chat` of the Persistence API: ask the configured model and save both messages."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from recollect.capture.proxy.answers import Answer, AnswerReader
from recollect.capture.proxy.recording import answer_metadata
from recollect.capture.proxy.turns import conversation_title, parse_answer
from recollect.capture.proxy.upstream import NoAnswer, Upstream
from recollect.language.text import printable, truncate
from recollect.library import Library
from recollect.model.audience import is_human_only
from recollect.model.documents import Json, Passage
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.limits import CHAT
from recollect.serve.http.error_responses import Problem, error_response
from recollect.serve.http.json_response import encode_json, json_response
from recollect.serve.http.routes import Routes
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import CONVERSATIONS, LOCAL, READ, WRITE
from recollect.serve.rest.chat_request import (
    MAX_HISTORY_LENGTH,
    MAX_HISTORY_MESSAGES,
    ROLES,
    AttachedFile,
    ChatRequest,
    parse_chat_request,
    request_body,
)
from recollect.serve.rest.model_server import (
    require_upstream,
    save_on_the_side,
    upstream_problem,
)
from recollect.serve.rest.schemas import about

if TYPE_CHECKING:
    import httpx

routes = Routes("chat", DeferredRoute)

_MAX_ANSWER_BYTES = 16_000_000
_MAX_COMPLAINT_LENGTH = 300
_MAX_ERROR_BYTES = 100_000
_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_MAX_RETRY_SECONDS = 3_600

ModelMessage = dict[str, str]


class ChatAnswer(BaseModel):
    """The model's answer, and where it was saved."""

    answer: str
    model: str = about("The model that answered.")
    tool_used: str | None = None
    tool_output: str | None = None
    context: str = ""
    summary: str = ""
    execution_time: float = about("Duration in seconds.")
    session_id: str = about("Send it with the next message to continue.")
    conversation_id: str | None = about("Missing if nothing was saved.", None)
    message_ids: list[str] = about("The ids of the saved messages.")


_STREAM_EXAMPLE = (
    'event: start\ndata: {"session_id": "s-1", "message_ids": ["m-1"]}\n\n'
    'event: delta\ndata: {"content": "Hel"}\n\n'
    'event: delta\ndata: {"content": "lo."}\n\n'
    'event: done\ndata: {"answer": "Hello.", "model": "my-model", "session_id": "s-1"}\n\n'
)


@routes.add(
    "POST /chat",
    WRITE,
    CONVERSATIONS,
    rate_limit=CHAT,
    ends_streams=True,
    of_contract=True,
    responses={
        200: {
            "model": ChatAnswer,
            "content": {
                "text/event-stream": {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}
            },
        }
    },
    openapi_extra={"requestBody": request_body()},
)
async def chat(access: AccessTo, request: Request) -> Response:
    """Sends a message to the configured model and saves the message and the answer.

    If saving fails, you still get the answer. This is a route of the Persistence API.

    With `stream`, the response is a stream of events: `start` says where the message was saved,
    each `delta` has a piece of the answer, and `done` has what the response would be without
    `stream`. If the model fails after that, an `error` with the usual error body ends the stream,
    and what has arrived is saved.
    """
    upstream = require_upstream(access)
    chat_request, files = await parse_chat_request(request)
    model = chat_request.model or upstream.model
    if not model:
        problem = "no default model is configured, so the request must name one"
        raise Problem(400, f"model: {problem}.", fields=[{"name": "model", "problem": problem}])
    turn = _Turn(access, upstream, model, chat_request.session_id or str(uuid.uuid4()))
    saved = await save_on_the_side(access, lambda: _save_question(access, chat_request, files))
    if saved is not None:
        turn.save_to(saved)
    history = [message.model_dump() for message in chat_request.history]
    if saved and not history:
        history = saved.history
    is_stream = chat_request.stream or _wants_events(request)
    body = await run_in_threadpool(
        _model_request, model, history, chat_request.message, files, is_stream
    )
    if not is_stream:
        answer = await _ask(access, upstream, body)
        return json_response(await turn.finish(answer))
    response = await _open(access, upstream, body)
    return StreamingResponse(
        _stream_events(turn, response), headers=_STREAM_HEADERS, media_type="text/event-stream"
    )


def _wants_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower()
    return "text/event-stream" in accepted and "application/json" not in accepted


class _Turn:
    """One question and its answer."""

    def __init__(self, access: Access, upstream: Upstream, model: str, session_id: str) -> None:
        self.access = access
        self.upstream = upstream
        self._model = model
        self._started_at = time.perf_counter()
        self._saved: _SavedQuestion | None = None
        self.place: dict[str, Any] = {"session_id": session_id, "message_ids": []}
        """Where the messages are saved."""

    def save_to(self, saved: _SavedQuestion) -> None:
        self._saved = saved
        self.place = {"session_id": saved.session_id, "message_ids": [saved.question_id]}

    async def finish(self, answer: Answer) -> dict[str, Any]:
        """Save the answer, and return the body of the response."""
        saved = self._saved
        if saved is not None:
            answer_ids = await save_on_the_side(
                self.access,
                lambda: _save_answer(self.access, saved.conversation_id, answer, self._model),
            )
            if answer_ids is not None:
                self.place["conversation_id"] = saved.conversation_id
                self.place["message_ids"] += answer_ids
        passages = _answer_passages(answer)
        return {
            "answer": passages[0].content,
            "model": answer.model or self._model,
            "tool_used": passages[0].tool,
            "tool_output": None,
            "context": "",
            "summary": "",
            "execution_time": round(time.perf_counter() - self._started_at, 3),
            **self.place,
        }

    def start(self) -> dict[str, Any]:
        """What is known before the answer arrives."""
        if self._saved is None:
            return dict(self.place)
        return {**self.place, "conversation_id": self._saved.conversation_id}


def _model_request(
    model: str,
    history: list[ModelMessage],
    message: str,
    files: list[AttachedFile],
    is_stream: bool,
) -> bytes:
    """The body of the request to the model server."""
    content = "\n\n".join([*(file.for_model() for file in files), message])
    messages = [*history, {"role": "user", "content": content}]
    request: dict[str, Any] = {"model": model, "messages": messages}
    if is_stream:
        request["stream"] = True
    return json.dumps(request).encode()


# -- saving --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SavedQuestion:
    conversation_id: str
    session_id: str
    question_id: str
    history: list[ModelMessage]
    """The earlier messages of the session, as the model gets them."""


def _save_question(
    access: Access, request: ChatRequest, files: list[AttachedFile]
) -> _SavedQuestion:
    with access.write() as library:
        conversation = PersistenceApi(library).create_conversation(
            session_id=request.session_id or None,
            title=conversation_title(request.message),
            namespace=request.namespace,
        )
        access.check_reach(library, conversation["id"])
        history: list[ModelMessage] = []
        # The answer of the model could repeat what it was told.
        may_read = READ in access.principal.scopes
        if may_read and conversation["message_count"] and not request.history:
            history = _session_history(library, conversation["id"])
        attachments = [file.attachment() for file in files]
        question_id = library.add_message(
            conversation["id"], "user", request.message, attachments=attachments
        )
    access.service.metrics.saved_messages.labels("chat").inc()
    return _SavedQuestion(conversation["id"], conversation["session_id"], question_id, history)


def _session_history(library: Library, conversation_id: str) -> list[ModelMessage]:
    """The last messages of a conversation that fit, in order. A model is no person."""
    total = library.view(conversation_id, limit=1).total
    start = max(0, total - MAX_HISTORY_MESSAGES)
    view = library.view(conversation_id, start=start, limit=MAX_HISTORY_MESSAGES)
    history: list[ModelMessage] = []
    remaining = MAX_HISTORY_LENGTH
    for message in reversed(view.messages):
        passage = message.passage
        if passage.role not in ROLES or passage.type != "message" or is_human_only(passage):
            continue
        remaining -= len(passage.content)
        if remaining < 0:
            break
        history.append({"role": passage.role, "content": passage.content})
    history.reverse()
    return history


def _save_answer(access: Access, conversation_id: str, answer: Answer, model: str) -> list[str]:
    metadata = answer_metadata(answer, answer.choices[0])
    with access.write() as library:
        ids = [
            library.add_message(
                conversation_id,
                "assistant",
                passage.content,
                type=passage.type,
                model=answer.model or model,
                tool=passage.tool,
                citations=passage.citations,
                metadata={**passage.metadata, **metadata},
            )
            for passage in _answer_passages(answer)
        ]
    access.service.metrics.saved_messages.labels("chat").inc()
    return ids


def _answer_passages(answer: Answer) -> list[Passage]:
    """The text of an answer, which names the tool that it calls, and the calls of tools."""
    turn = parse_answer(answer.choices[0].message)
    passages = [passage for passage in turn.passages if passage.type != "thinking"]
    return [passages[0]._replace(tool=passages[-1].tool), *passages[1:]]


# -- the model server ----------------------------------------------------------


async def _ask(access: Access, upstream: Upstream, body: bytes) -> Answer:
    """The model's answer. Raises Problem."""
    headers = _headers(access, upstream, "application/json")
    try:
        response, data = await upstream.read("/chat/completions", headers, body, _MAX_ANSWER_BYTES)
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise upstream_problem(error) from error
    tape = _tape(response)
    tape.feed(data)
    answer = None
    if response.is_success:
        answer = await run_in_threadpool(lambda: tape.answer(complete=True))
    if answer is None:
        access.service.metrics.upstream_failures.inc()
        raise _complaint(upstream, response.status_code, response.headers, data)
    return answer


def _headers(access: Access, upstream: Upstream, accept: str) -> list[tuple[bytes, bytes]]:
    client_key = [
        (name, value) for name, value in access.request.headers.raw if name == b"authorization"
    ]
    headers = upstream.request_headers(client_key, local=access.principal.credential == LOCAL)
    return [
        *headers,
        (b"Content-Type", b"application/json"),
        (b"Accept", accept.encode()),
        (b"User-Agent", b"recollect"),
    ]


def _tape(response: httpx.Response) -> AnswerReader:
    return AnswerReader(
        response.headers.get("content-type", ""),
        response.headers.get("content-encoding", ""),
        _MAX_ANSWER_BYTES,
    )


# -- streams -------------------------------------------------------------------


async def _open(access: Access, upstream: Upstream, body: bytes) -> httpx.Response:
    """The beginning of a successful response. Raises Problem: errors need no stream."""
    headers = _headers(access, upstream, "text/event-stream")
    try:
        response = await upstream.ask("POST", "/chat/completions", headers, body)
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise upstream_problem(error) from error
    if response.is_success:
        return response
    access.service.metrics.upstream_failures.inc()
    data = b""
    try:
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > _MAX_ERROR_BYTES:
                break
    finally:
        await response.aclose()
    raise _complaint(upstream, response.status_code, response.headers, data)


async def _stream_events(turn: _Turn, response: httpx.Response) -> AsyncIterator[bytes]:
    """The events of an answer. What arrives is saved, even if the client disconnects."""
    from httpx import TransportError

    tape = _tape(response)
    count, is_over = 0, False
    try:
        yield _event("start", turn.start())
        async for data in response.aiter_raw():
            tape.feed(data)
            text = "".join(tape.text_pieces[count:])
            count = len(tape.text_pieces)
            if text:
                yield _event("delta", {"content": text})
        is_over = True
    except TransportError:
        is_over = True
    finally:
        if not is_over:
            # The client has disconnected, so nothing can be awaited here.
            _run_alone(_close(turn, tape, response))
    answer = await run_in_threadpool(lambda: tape.answer(complete=True))
    if answer is None or not answer.is_complete:
        turn.access.service.metrics.upstream_failures.inc()
        await _close(turn, tape, response)
        yield _event("error", _stream_error(turn))
        return
    await response.aclose()
    body = await turn.finish(answer)
    if not tape.is_stream:
        yield _event("delta", {"content": body["answer"]})
    yield _event("done", body)


_TASKS: set[asyncio.Task[None]] = set()


def _run_alone(work: Coroutine[Any, Any, None]) -> None:
    """Run something that nobody waits for."""
    task = asyncio.get_running_loop().create_task(work)
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


async def _close(turn: _Turn, tape: AnswerReader, response: httpx.Response) -> None:
    """Save the part of an answer that has arrived."""
    await response.aclose()
    answer = await run_in_threadpool(lambda: tape.answer(complete=False))
    if answer is not None:
        await turn.finish(answer)


def _stream_error(turn: _Turn) -> dict[str, Any]:
    problem = Problem(502, "The model's response broke off. What has arrived was saved.")
    response = error_response(problem, turn.access.request.scope)
    body: dict[str, Any] = json.loads(bytes(response.body))
    return body


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_json(data))


def _complaint(upstream: Upstream, status: int, headers: Mapping[str, str], data: bytes) -> Problem:
    """The model server's error in our format.

    Its 401 becomes a 502: the client's own credential was accepted.
    """
    if 200 <= status < 300:
        return Problem(502, "The model server sent a response that could not be parsed.")
    reason = _reason(upstream, data)
    if status == 429:
        return Problem(
            429,
            f"The model server has received too many requests{reason}",
            retry_after=_retry_after(headers),
        )
    if status in (408, 504):
        return Problem(
            504, f"The model server did not answer in time{reason}", code="UPSTREAM_TIMEOUT"
        )
    return Problem(502, f"The model server returned an error ({status}){reason}")


def _reason(upstream: Upstream, data: bytes) -> str:
    """The error message of the model server, as the end of a sentence."""
    try:
        value: Json = json.loads(data)
    except (ValueError, RecursionError):
        return "."
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail")
    if not isinstance(value, str):
        return "."
    text = upstream.hide_key(" ".join(printable(value).split()))
    if not text:
        return "."
    return f": {truncate(text, _MAX_COMPLAINT_LENGTH)}"


def _retry_after(headers: Mapping[str, str]) -> int:
    text = headers.get("retry-after", "")
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return 1
    return min(_MAX_RETRY_SECONDS, math.ceil(float(text)))
