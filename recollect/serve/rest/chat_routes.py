"""`POST /chat` of the Persistence API: ask the configured model and save both messages."""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from recollect.capture.proxy.answers import Answer, AnswerReader
from recollect.capture.proxy.recording import answer_metadata
from recollect.capture.proxy.turns import conversation_title, parse_answer
from recollect.capture.proxy.upstream import NoAnswer, Upstream
from recollect.language.text import printable, truncate
from recollect.library import Library
from recollect.model.documents import Json
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import CHAT
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import CONVERSATIONS, LOCAL, WRITE
from recollect.serve.rest.chat_request import (
    MAX_HISTORY_LENGTH,
    MAX_HISTORY_MESSAGES,
    ROLES,
    AttachedFile,
    ChatRequest,
    parse_chat_request,
    request_body,
)
from recollect.serve.rest.model_server import require_upstream, save_on_the_side, upstream_problem

router = APIRouter(tags=["chat"], route_class=DeferredRoute)

_MAX_ANSWER_BYTES = 16_000_000
_MAX_COMPLAINT_LENGTH = 300
_MAX_RETRY_SECONDS = 3_600

ModelMessage = dict[str, str]


class ChatAnswer(BaseModel):
    """The model's answer, and where it was saved."""

    answer: str
    model: str = Field(description="The model that answered.")
    tool_used: str | None = None
    tool_output: str | None = None
    context: str = ""
    summary: str = ""
    execution_time: float = Field(description="Duration in seconds.")
    session_id: str = Field(description="Send it with the next message to continue.")
    conversation_id: str | None = Field(None, description="Missing if nothing was saved.")
    message_ids: list[str] = Field(description="The ids of the saved messages.")


@router.post(
    "/chat",
    summary="Ask the model",
    responses={200: {"model": ChatAnswer}},
    openapi_extra={"requestBody": request_body()},
)
@route_policy(WRITE, CONVERSATIONS, rate_limit=CHAT)
async def chat(access: AccessTo, request: Request) -> Response:
    """Sends a message to the configured model and saves the message and the answer.

    If saving fails, you still get the answer.
    """
    upstream = require_upstream(access)
    chat_request, files = await parse_chat_request(request)
    model = chat_request.model or upstream.model
    if not model:
        problem = "no default model is configured, so the request must name one"
        raise Problem(400, f"model: {problem}.", fields=[{"name": "model", "problem": problem}])
    started_at = time.perf_counter()
    saved = await save_on_the_side(access, lambda: _save_question(access, chat_request, files))
    history = [message.model_dump() for message in chat_request.history]
    if saved and not history:
        history = saved.history
    body = await run_in_threadpool(_model_request, model, history, chat_request.message, files)
    answer = await _ask(access, upstream, body)
    seconds = round(time.perf_counter() - started_at, 3)
    result: dict[str, Any] = {
        "answer": _answer_passage(answer).content,
        "model": answer.model or model,
        "tool_used": None,
        "tool_output": None,
        "context": "",
        "summary": "",
        "execution_time": seconds,
    }
    if saved is None:
        session_id = chat_request.session_id or str(uuid.uuid4())
        return json_response(result | {"session_id": session_id, "message_ids": []})
    result |= {"session_id": saved.session_id, "message_ids": [saved.question_id]}
    answer_id = await save_on_the_side(
        access, lambda: _save_answer(access, saved.conversation_id, answer, model)
    )
    if answer_id is not None:
        result["conversation_id"] = saved.conversation_id
        result["message_ids"].append(answer_id)
    return json_response(result)


def _model_request(
    model: str, history: list[ModelMessage], message: str, files: list[AttachedFile]
) -> bytes:
    """The body of the request to the model server."""
    content = "\n\n".join([*(file.for_model() for file in files), message])
    messages = [*history, {"role": "user", "content": content}]
    return json.dumps({"model": model, "messages": messages}).encode()


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
        if conversation["message_count"] and not request.history:
            history = _session_history(library, conversation["id"])
        attachments = [file.attachment() for file in files]
        question_id = library.add_message(
            conversation["id"], "user", request.message, attachments=attachments
        )
    access.service.metrics.saved_messages.labels("chat").inc()
    return _SavedQuestion(conversation["id"], conversation["session_id"], question_id, history)


def _session_history(library: Library, conversation_id: str) -> list[ModelMessage]:
    """The last messages of a conversation that fit, in order."""
    total = library.view(conversation_id, limit=1).total
    start = max(0, total - MAX_HISTORY_MESSAGES)
    view = library.view(conversation_id, start=start, limit=MAX_HISTORY_MESSAGES)
    history: list[ModelMessage] = []
    remaining = MAX_HISTORY_LENGTH
    for message in reversed(view.messages):
        passage = message.passage
        if passage.role not in ROLES or passage.type != "message":
            continue
        remaining -= len(passage.content)
        if remaining < 0:
            break
        history.append({"role": passage.role, "content": passage.content})
    history.reverse()
    return history


def _save_answer(access: Access, conversation_id: str, answer: Answer, model: str) -> str:
    passage = _answer_passage(answer)
    with access.write() as library:
        message_id = library.add_message(
            conversation_id,
            "assistant",
            passage.content,
            model=answer.model or model,
            citations=passage.citations,
            metadata={**passage.metadata, **answer_metadata(answer, answer.choices[0])},
        )
    access.service.metrics.saved_messages.labels("chat").inc()
    return message_id


def _answer_passage(answer: Answer) -> Any:
    return parse_answer(answer.choices[0].message).passages[-1]


# -- the model server ----------------------------------------------------------


async def _ask(access: Access, upstream: Upstream, body: bytes) -> Answer:
    """The model's answer. Raises Problem."""
    client_key = [
        (name, value) for name, value in access.request.headers.raw if name == b"authorization"
    ]
    headers = upstream.request_headers(client_key, local=access.principal.credential == LOCAL)
    headers += [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"application/json"),
        (b"User-Agent", b"recollect"),
    ]
    try:
        response, data = await upstream.read("/chat/completions", headers, body, _MAX_ANSWER_BYTES)
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise upstream_problem(error) from error
    tape = AnswerReader(
        response.headers.get("content-type", ""),
        response.headers.get("content-encoding", ""),
        _MAX_ANSWER_BYTES,
    )
    tape.feed(data)
    answer = None
    if response.is_success:
        answer = tape.answer(complete=True)
    if answer is None:
        access.service.metrics.upstream_failures.inc()
        raise _complaint(upstream, response.status_code, response.headers, data)
    return answer


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
    """What the model server says is wrong, as the end of a sentence."""
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
