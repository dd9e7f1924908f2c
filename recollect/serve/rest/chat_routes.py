"""`POST /chat` of the Persistence API: ask the configured model and save both messages."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ValidationError, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from recollect.capture.model_answers import Answer, AnswerReader
from recollect.capture.recording import answer_metadata, conversation_title, parse_answer
from recollect.capture.upstream import NoAnswer, Upstream
from recollect.language.text import printable, truncate
from recollect.library import Library
from recollect.model.audience import is_human_only
from recollect.model.documents import Json, Passage
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import CHAT
from recollect.serve.http.responses import Problem, encode_json, error_response, json_response
from recollect.serve.http.routes import Routes, content_type, parse_json
from recollect.serve.identity.principal import CONVERSATIONS, LOCAL, READ, WRITE
from recollect.serve.rest.openai_routes import (
    MAX_SESSION_LENGTH,
    PROJECT,
    no_answer,
    require_upstream,
    save_on_the_side,
)
from recollect.serve.rest.schemas import about
from recollect.serve.rest.service_routes import STREAM_HEADERS

if TYPE_CHECKING:
    import httpx

routes = Routes("chat", CONVERSATIONS)

MAX_MESSAGE_LENGTH = 10_000
MAX_HISTORY_LENGTH = 500_000
MAX_HISTORY_MESSAGES = 50
MAX_FILES = 10
MAX_FILE_TEXT = 100_000
MAX_FIELDS = 20
MAX_ANSWER_BYTES = 16_000_000
MAX_ERROR_BYTES = 100_000
MAX_COMPLAINT_LENGTH = 300
MAX_RETRY_SECONDS = 3_600
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
ROLES = ("user", "assistant", "system")
STREAM_EXAMPLE = (
    'event: start\ndata: {"session_id": "s-1", "message_ids": ["m-1"]}\n\n'
    'event: delta\ndata: {"content": "Hello."}\n\n'
    'event: done\ndata: {"answer": "Hello.", "model": "my-model", "session_id": "s-1"}\n\n'
)

ModelMessage = dict[str, str]


# -- the request ---


class HistoryMessage(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: str


HISTORY_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": HistoryMessage.model_json_schema()}, {"type": "string"}]
}


def parse_history(value: Any) -> Any:
    """Forms send the history as JSON text. Only its last messages are used."""
    if isinstance(value, str) and len(value) <= MAX_HISTORY_LENGTH:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise PydanticCustomError("history", "The history is not valid JSON") from None
    if not isinstance(value, str | list):
        raise PydanticCustomError("history", "The history must be a list of messages")
    value = value if isinstance(value, str) else value[-MAX_HISTORY_MESSAGES:]
    contents = [message.get("content") for message in value if isinstance(message, dict)]
    length = sum(len(content) for content in contents if isinstance(content, str))
    if isinstance(value, str) or length > MAX_HISTORY_LENGTH:
        limit = {"limit": MAX_HISTORY_LENGTH}
        raise PydanticCustomError(
            "history", "The history may have at most {limit} characters", limit
        )
    return value


class Question(BaseModel):
    """A message to the configured model."""

    message: str = about(
        "The message. It must not be blank.", min_length=1, max_length=MAX_MESSAGE_LENGTH
    )
    model: str = about("The model to ask. Defaults to the configured one.", "", max_length=200)
    history: Annotated[
        list[HistoryMessage], BeforeValidator(parse_history), WithJsonSchema(HISTORY_SCHEMA)
    ] = about(
        "Earlier messages, each with a `role` and a `content`, or the same as JSON text. "
        f"The last {MAX_HISTORY_MESSAGES} are used. Defaults to the messages of the session.",
        [],
    )
    namespace: str = about(
        "The project of a new conversation.", "default", pattern=f"^{PROJECT.pattern}$"
    )
    session_id: str = about(
        "Continues the conversation of this session. Defaults to a new session.",
        "",
        max_length=MAX_SESSION_LENGTH,
    )
    stream: bool = about(
        "Send the answer as server-sent events while the model writes it. So does the header "
        "`Accept: text/event-stream`.",
        False,
    )
    search_mode: Literal["auto", "web", "documents", "hybrid"] = about(
        "Accepted for compatibility. It has no effect.", "auto"
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_fields(cls, data: Any) -> Any:
        """Forms send empty fields, and some clients send null, for values they leave out."""
        if not isinstance(data, Mapping):
            return data
        if data.get("files"):
            raise PydanticCustomError("files", "Send files as multipart/form-data")
        return {
            name: value
            for name, value in data.items()
            if name == "message" or value not in (None, "")
        }

    @model_validator(mode="after")
    def _require_text(self) -> Question:
        if not self.message.strip():
            raise PydanticCustomError("message", "The message must not be blank")
        self.session_id = self.session_id.strip()
        return self


def request_body() -> dict[str, Any]:
    """The OpenAPI description of the body, as JSON and as a form."""
    json_schema = Question.model_json_schema()
    history = json_schema["properties"]["history"] | {"type": "string"}
    history.pop("anyOf")
    files = {
        "type": "array",
        "maxItems": MAX_FILES,
        "items": {"type": "string", "format": "binary"},
        "description": "Files to attach. Text files are shown to the model.",
    }
    form_schema = json_schema | {
        "properties": json_schema["properties"] | {"history": history, "files": files}
    }
    content = {"application/json": {"schema": json_schema}}
    return {
        "required": True,
        "content": content | {form: {"schema": form_schema} for form in FORMS},
    }


async def parse_question(request: Request) -> tuple[Question, list[dict[str, Json]]]:
    """The body of a request, and the files attached to it. Raises Problem."""
    fields: Any = {}
    files: list[dict[str, Json]] = []
    media_type = content_type(request)
    if media_type == "application/json":
        fields = await run_in_threadpool(parse_json, await request.body())
    elif media_type in FORMS:
        limits = {"max_files": MAX_FILES, "max_fields": MAX_FIELDS}
        async with request.form(**limits, max_part_size=MAX_HISTORY_LENGTH * 2) as parts:
            for name, part in parts.multi_items():
                if isinstance(part, str):
                    fields[name] = part
                elif name == "files" and isinstance(part, UploadFile) and part.filename:
                    files.append(attachment(part.filename, part.content_type, await part.read()))
    else:
        raise Problem(415, f"Send the message as application/json, {FORMS[0]} or {FORMS[1]}.")
    if not isinstance(fields, dict):
        raise Problem(400, "The body must be a JSON object.")
    try:
        return await run_in_threadpool(Question.model_validate, fields), files
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        for detail in details:  # errors about the whole model are named after their field
            detail["loc"] = ("body", *(detail["loc"] or (detail["type"],)))
        raise RequestValidationError(details) from None


def attachment(name: str, media_type: str | None, data: bytes) -> dict[str, Json]:
    """What is stored of a file: its text, if it is text."""
    stored: dict[str, Json] = {
        "type": "file",
        "name": truncate(name, 200),
        "media_type": (media_type or "")[:100],
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if b"\0" not in data:
        with suppress(UnicodeDecodeError):
            stored["text"] = data.decode("utf-8-sig")[:MAX_FILE_TEXT]
    return stored


def file_for_model(file: dict[str, Json]) -> str:
    """What the model reads before the message."""
    name, text = " ".join(printable(str(file["name"])).split()), file.get("text")
    if not isinstance(text, str):
        return f"[Attached file {name} ({file['bytes']} bytes): not a text file.]"
    if len(text) == MAX_FILE_TEXT:
        text += "\n[The file is longer; the rest is omitted.]"
    return f"[Attached file {name}:]\n{text}\n[End of {name}.]"


# -- the route ---


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


@routes.add(
    "POST /chat",
    WRITE,
    CONVERSATIONS,
    rate_limit=CHAT,
    ends_streams=True,
    summary="Ask the model",
    returns=ChatAnswer,
    responses={
        200: {
            "content": {
                "text/event-stream": {"schema": {"type": "string"}, "example": STREAM_EXAMPLE}
            }
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
    question, files = await parse_question(request)
    model = question.model or upstream.model
    if not model:
        problem = "no default model is configured, so the request must name one"
        raise Problem(400, f"model: {problem}.", fields=[{"name": "model", "problem": problem}])
    turn = _Turn(access, model, question.session_id or str(uuid.uuid4()))
    history = await save_on_the_side(access, lambda: turn.save_question(question, files))
    if question.history:
        history = [message.model_dump() for message in question.history]
    accepted = request.headers.get("accept", "").lower()
    wants_events = "text/event-stream" in accepted and "application/json" not in accepted
    is_stream = question.stream or wants_events

    def model_request() -> bytes:
        content = "\n\n".join([*map(file_for_model, files), question.message])
        messages = [*(history or ()), {"role": "user", "content": content}]
        body: dict[str, Any] = {"model": model, "messages": messages}
        return json.dumps(body | ({"stream": True} if is_stream else {})).encode()

    response = await open_answer(
        access, upstream, await run_in_threadpool(model_request), is_stream
    )
    if is_stream:
        events = stream_events(turn, upstream, response)
        return StreamingResponse(events, headers=STREAM_HEADERS, media_type="text/event-stream")
    return json_response(await turn.finish(await read_answer(access, upstream, response)))


# -- saving ---


class _Turn:
    """One question and its answer."""

    def __init__(self, access: Access, model: str, session_id: str) -> None:
        self.access = access
        self._model = model
        self._started_at = time.perf_counter()
        self._conversation_id = ""
        self._place: dict[str, Any] = {"session_id": session_id, "message_ids": []}

    def save_question(self, question: Question, files: list[dict[str, Json]]) -> list[ModelMessage]:
        """Save a question, and return the earlier messages of its session for the model."""
        access, history = self.access, []
        with access.write() as library:
            conversation = PersistenceApi(library).create_conversation(
                session_id=question.session_id or None,
                title=conversation_title(question.message),
                namespace=question.namespace,
            )
            id = conversation["id"]
            access.check_reach(library, id)
            # The answer of the model could repeat what it was told.
            if READ in access.principal.scopes and conversation["message_count"]:
                history = session_history(library, id)
            message_id = library.add_message(id, "user", question.message, attachments=files)
        self._conversation_id = id
        self._place = {"session_id": conversation["session_id"], "message_ids": [message_id]}
        access.service.metrics.saved_messages.labels("chat").inc()
        return history

    def start(self) -> dict[str, Any]:
        """What is known before the answer arrives."""
        if not self._conversation_id:
            return self._place
        return {**self._place, "conversation_id": self._conversation_id}

    async def finish(self, answer: Answer) -> dict[str, Any]:
        """Save the answer, and return the body of the response."""
        passages = answer_passages(answer)
        place = self._place
        if self._conversation_id:
            ids = await save_on_the_side(self.access, lambda: self._save(answer, passages))
            if ids is not None:
                place = self.start() | {"message_ids": [*place["message_ids"], *ids]}
        return {
            "answer": passages[0].content,
            "model": answer.model or self._model,
            "tool_used": passages[0].tool,
            "tool_output": None,
            "context": "",
            "summary": "",
            "execution_time": round(time.perf_counter() - self._started_at, 3),
            **place,
        }

    def _save(self, answer: Answer, passages: list[Passage]) -> list[str]:
        metadata = answer_metadata(answer, answer.choices[0])
        with self.access.write() as library:
            ids = [
                library.add_message(
                    self._conversation_id,
                    "assistant",
                    passage.content,
                    type=passage.type,
                    model=answer.model or self._model,
                    tool=passage.tool,
                    citations=passage.citations,
                    metadata={**passage.metadata, **metadata},
                )
                for passage in passages
            ]
        self.access.service.metrics.saved_messages.labels("chat").inc()
        return ids


def session_history(library: Library, conversation_id: str) -> list[ModelMessage]:
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
    return history[::-1]


def answer_passages(answer: Answer) -> list[Passage]:
    """The text of an answer, which names the tool that it calls, and the calls of tools."""
    turn = parse_answer(answer.choices[0].message)
    passages = [passage for passage in turn.passages if passage.type != "thinking"]
    return [passages[0]._replace(tool=passages[-1].tool), *passages[1:]]


# -- the model server ---


async def open_answer(
    access: Access, upstream: Upstream, body: bytes, is_stream: bool
) -> httpx.Response:
    """The beginning of a successful response. Raises Problem."""
    own = [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"text/event-stream" if is_stream else b"application/json"),
        (b"User-Agent", b"recollect"),
    ]
    keys = [header for header in access.request.headers.raw if header[0] == b"authorization"]
    is_local = access.principal.credential == LOCAL
    headers = upstream.request_headers(keys, local=is_local) + own
    response, data = None, b""
    try:
        response = await upstream.ask("POST", "/chat/completions", headers, body)
        if response.is_success:
            return response
        async for piece in upstream.pieces(response):
            data = (data + piece)[:MAX_ERROR_BYTES]
    except NoAnswer as error:
        raise no_answer(error) from error
    finally:
        if response is None or not response.is_success:
            access.service.metrics.upstream_failures.inc()
            if response is not None:
                await response.aclose()
    raise complaint(upstream, response.status_code, response.headers, data)


def _tape(response: httpx.Response) -> AnswerReader:
    headers = response.headers
    return AnswerReader(
        headers.get("content-type", ""), headers.get("content-encoding", ""), MAX_ANSWER_BYTES
    )


async def read_answer(access: Access, upstream: Upstream, response: httpx.Response) -> Answer:
    """The model's answer. Raises Problem."""
    tape, size = _tape(response), 0
    try:
        async for data in upstream.pieces(response):
            tape.feed(data)
            size += len(data)
            if size > MAX_ANSWER_BYTES:
                raise NoAnswer("The model's server answered with too much.")
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise no_answer(error) from error
    answer = await run_in_threadpool(lambda: tape.answer(complete=True))
    if answer is None:
        access.service.metrics.upstream_failures.inc()
        raise Problem(502, "The model server sent a response that could not be parsed.")
    return answer


async def stream_events(
    turn: _Turn, upstream: Upstream, response: httpx.Response
) -> AsyncIterator[bytes]:
    """The events of an answer. What arrives is saved, even if the client disconnects."""
    tape, count, is_over = _tape(response), 0, False
    try:
        yield event("start", turn.start())
        try:
            async for data in upstream.pieces(response):
                tape.feed(data)
                text = "".join(tape.text_pieces[count:])
                count = len(tape.text_pieces)
                if text:
                    yield event("delta", {"content": text})
        except NoAnswer:
            pass  # what has arrived is saved, and the end says that it broke off
        is_over = True
    finally:
        if not is_over:
            # The client has disconnected, so nothing can be awaited here.
            run_alone(save_part(turn, tape, response))
    answer = await run_in_threadpool(lambda: tape.answer(complete=True))
    if answer is None or not answer.is_complete:
        turn.access.service.metrics.upstream_failures.inc()
        await save_part(turn, tape, response)
        problem = Problem(502, "The model's response broke off. What has arrived was saved.")
        error = error_response(problem, turn.access.request.scope)
        yield event("error", json.loads(bytes(error.body)))
        return
    body = await turn.finish(answer)
    if not tape.is_stream:
        yield event("delta", {"content": body["answer"]})
    yield event("done", body)


_TASKS: set[asyncio.Task[None]] = set()


def run_alone(work: Coroutine[Any, Any, None]) -> None:
    """Run something that nobody waits for."""
    task = asyncio.get_running_loop().create_task(work)
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


async def save_part(turn: _Turn, tape: AnswerReader, response: httpx.Response) -> None:
    """Save the part of an answer that has arrived."""
    await response.aclose()
    answer = await run_in_threadpool(lambda: tape.answer(complete=False))
    if answer is not None:
        await turn.finish(answer)


def event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_json(data))


def complaint(upstream: Upstream, status: int, headers: Mapping[str, str], data: bytes) -> Problem:
    """The model server's error in our format.

    Its 401 becomes a 502: the client's own credential was accepted.
    """
    try:
        value: Json = json.loads(data)
    except (ValueError, RecursionError):
        value = ""
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail")
    reason = ""
    if isinstance(value, str):
        reason = upstream.hide_key(" ".join(printable(value).split()))
    reason = f": {truncate(reason, MAX_COMPLAINT_LENGTH)}" if reason else "."
    if status == 429:
        wait = headers.get("retry-after", "")
        seconds = math.ceil(float(wait)) if re.fullmatch(r"\d{1,9}(\.\d+)?", wait) else 1
        return Problem(
            429,
            f"The model server has received too many requests{reason}",
            retry_after=min(MAX_RETRY_SECONDS, seconds),
        )
    if status in (408, 504):
        detail = f"The model server did not answer in time{reason}"
        return Problem(504, detail, code="UPSTREAM_TIMEOUT")
    return Problem(502, f"The model server returned an error ({status}){reason}")
