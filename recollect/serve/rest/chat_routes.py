"""Contract 1's chat: one message to the configured model, both sides saved in the session's conversation."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response

from recollect.capture.proxy.recording import notes_of
from recollect.capture.proxy.tape import Answer, Tape
from recollect.capture.proxy.turns import answer_of, title_of
from recollect.capture.proxy.upstream import NoAnswer, Upstream
from recollect.language.text import printable, truncate
from recollect.library import Library
from recollect.model.documents import Json
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import CHAT
from recollect.serve.http.principal import WRITE
from recollect.serve.http.route_policy import route_policy
from recollect.serve.rest.openai_routes import (
    NAMESPACE,
    SESSION_LENGTH,
    problem_with,
    unharmed,
    upstream_of,
)

router = APIRouter(tags=["chat"])

MESSAGE_LENGTH = 10_000
MODEL_LENGTH = 200
HISTORY_BYTES = 500_000
HISTORY_USED = 50
FILES = 10
FILE_TEXT = 100_000
SEARCH_MODES = ("auto", "web", "documents", "hybrid")
_ROLES = ("user", "assistant", "system")
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_ANSWER_BYTES = 16_000_000
_COMPLAINT_LENGTH = 300


class ChatAnswer(BaseModel):
    """What the model answered, and where both sides were kept."""

    answer: str
    model: str
    tool_used: str | None = None
    tool_output: str | None = None
    context: str = ""
    summary: str = ""
    execution_time: float = Field(description="Seconds.")
    session_id: str = Field(
        description="Sent with the next message, it continues this conversation."
    )
    conversation_id: str | None = Field(None, description="Missing where nothing could be saved.")
    message_ids: list[str] = Field(description="The ids of the messages that were saved.")


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    type: str
    data: bytes

    @property
    def text(self) -> str | None:
        """What the model can read; None where that is nothing."""
        try:
            found = self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return None if "\0" in found else found

    def attachment(self) -> dict[str, Json]:
        kept: dict[str, Json] = {
            "type": "file",
            "name": self.name,
            "media_type": self.type,
            "bytes": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
        }
        if self.text is not None:
            kept["text"] = self.text[:FILE_TEXT]
        return kept

    def shown(self) -> str:
        """The file as it stands before the message."""
        name = " ".join(printable(self.name).split())
        if self.text is None:
            return f"[The file {name} ({len(self.data)} bytes) was attached; it is no text.]"
        rest = "\n[The rest was left out.]" if len(self.text) > FILE_TEXT else ""
        return f"[The file {name}:]\n{self.text[:FILE_TEXT]}{rest}\n[The end of {name}.]"


@dataclass(slots=True)
class _Wish:
    """A chat request, checked."""

    message: str
    model: str = ""
    history: list[dict[str, str]] = field(default_factory=list)
    files: list[_File] = field(default_factory=list)
    namespace: str = "default"
    session: str | None = None

    def body(self, model: str) -> bytes:
        """What the model is asked."""
        shown = "\n\n".join([*(file.shown() for file in self.files), self.message])
        messages = [*self.history, {"role": "user", "content": shown}]
        return json.dumps({"model": model, "messages": messages}).encode()


_SAID = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"type": "string", "enum": list(_ROLES)}, "content": {"type": "string"}},
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": MESSAGE_LENGTH},
        "model": {
            "type": "string",
            "maxLength": MODEL_LENGTH,
            "description": "Without it, the configured one.",
        },
        "history": {
            "type": "string",
            "description": f"JSON: what was said before, a list of role and content; the last {HISTORY_USED} count.",
        },
        "files": {
            "type": "array",
            "maxItems": FILES,
            "items": {"type": "string", "format": "binary"},
        },
        "namespace": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "default": "default"},
        "session_id": {
            "type": "string",
            "maxLength": SESSION_LENGTH,
            "description": "Continues the conversation of that session. Without it a new one begins.",
        },
        "search_mode": {"type": "string", "enum": list(SEARCH_MODES), "default": "auto"},
    },
}
_OPTIONAL = {
    name: told for name, told in _SCHEMA["properties"].items() if name not in ("message", "files")
}
_JSON_SCHEMA = _SCHEMA | {
    "properties": {
        "message": _SCHEMA["properties"]["message"],
        **{name: {"anyOf": [told, {"type": "null"}]} for name, told in _OPTIONAL.items()},
        "history": {
            "anyOf": [{"type": "array", "items": _SAID}, _OPTIONAL["history"], {"type": "null"}]
        },
    }
}


@router.post(
    "/chat",
    responses={200: {"model": ChatAnswer}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                **{kind: {"schema": _SCHEMA} for kind in _FORMS},
                "application/json": {"schema": _JSON_SCHEMA},
            },
        }
    },
)
@route_policy(rate_limit=CHAT)
async def chat(access: AccessTo, request: Request) -> Response:
    """Ask the configured model, and save the message and the answer."""
    access.require(WRITE, "conversations")
    upstream = upstream_of(access)
    wish = await _wish(request)
    model = wish.model or upstream.model
    if not model:
        _refuse("model", "say which model to ask; none is configured for those who do not")
    began = time.perf_counter()
    kept = await unharmed(access, lambda: _keep_question(access, wish))
    if kept and not wish.history:
        wish.history = kept.before
    said = await _ask(access, upstream, await run_in_threadpool(lambda: wish.body(model)))
    text = answer_of(said.choices[0].message).passages[-1].content
    seconds = time.perf_counter() - began
    found: dict[str, Json] = {
        "answer": text,
        "model": said.model or model,
        "tool_used": None,
        "tool_output": None,
        "context": "",
        "summary": "",
        "execution_time": round(seconds, 3),
        "session_id": kept.session if kept else wish.session or str(uuid.uuid4()),
        "message_ids": [kept.question] if kept else [],
    }
    saved = (
        await unharmed(access, lambda: _keep_answer(access, kept, text, said, model))
        if kept
        else None
    )
    if kept and saved:
        found["conversation_id"] = kept.conversation
        found["message_ids"].append(saved)
    return json_response(found)


# -- what is asked -------------------------------------------------------------


async def _wish(request: Request) -> _Wish:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        return await run_in_threadpool(lambda: _checked(_object(body), []))
    if kind not in _FORMS:
        raise Problem(415, f"Send the message as {', '.join(_FORMS)} or application/json.")
    async with request.form(
        max_files=FILES, max_fields=20, max_part_size=HISTORY_BYTES * 2
    ) as form:
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        files = [
            _File(
                truncate(value.filename or "file", 200),
                (value.content_type or "")[:100],
                await value.read(),
            )
            for name, value in form.multi_items()
            if name == "files" and isinstance(value, UploadFile) and value.filename
        ]
    return await run_in_threadpool(lambda: _checked(fields, files))


def _object(body: bytes) -> dict[str, Json]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Problem(400, "The body must be a JSON object.")
    if found.get("files"):
        _refuse("files", "files come as multipart/form-data")
    return found


def _checked(fields: Mapping[str, Json], files: list[_File]) -> _Wish:
    message = _text(fields, "message", MESSAGE_LENGTH)
    if not message.strip():
        _refuse("message", f"1 to {MESSAGE_LENGTH:,} characters are needed")
    namespace = _text(fields, "namespace", 64) or "default"
    if not NAMESPACE.fullmatch(namespace):
        _refuse("namespace", "1 to 64 characters of A-Z, a-z, 0-9, _ and -")
    if (mode := _text(fields, "search_mode", 20) or "auto") not in SEARCH_MODES:
        _refuse("search_mode", f"{mode!r} is none of {', '.join(SEARCH_MODES)}")
    return _Wish(
        message,
        _text(fields, "model", MODEL_LENGTH),
        _history(fields.get("history")),
        files,
        namespace,
        _text(fields, "session_id", SESSION_LENGTH).strip() or None,
    )


def _text(fields: Mapping[str, Json], name: str, most: int) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        _refuse(name, "a text is needed")
    if len(value) > most:
        _refuse(name, f"at most {most:,} characters are taken")
    return value


def _history(given: Json) -> list[dict[str, str]]:
    if isinstance(given, str):
        if len(given) > HISTORY_BYTES:
            _refuse("history", f"at most {HISTORY_BYTES:,} bytes are taken")
        try:
            given = json.loads(given) if given.strip() else []
        except (ValueError, RecursionError):
            _refuse("history", "not JSON")
    if given is None:
        return []
    if not isinstance(given, list):
        _refuse("history", "a list of messages is needed")
    found = []
    for message in given[-HISTORY_USED:]:
        role, content = (
            (message.get("role"), message.get("content"))
            if isinstance(message, dict)
            else (None, None)
        )
        if role not in _ROLES or not isinstance(content, str):
            _refuse("history", f"each message needs a role ({', '.join(_ROLES)}) and a content")
        found.append({"role": role, "content": content})
    if sum(len(m["content"]) for m in found) > HISTORY_BYTES:
        _refuse("history", f"at most {HISTORY_BYTES:,} bytes are taken")
    return found


def _refuse(name: str, problem: str) -> NoReturn:
    raise Problem(400, f"{name}: {problem}.", fields=[{"name": name, "problem": problem}])


# -- what is kept --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    conversation: str
    session: str
    question: str
    before: list[dict[str, str]]
    """What was said in the session before."""


def _keep_question(access: Access, wish: _Wish) -> _Kept:
    with access.write("conversations") as library:
        found = library.create_conversation(
            session_id=wish.session, title=title_of(wish.message), namespace=wish.namespace
        )
        before = [] if wish.history or not found["message_count"] else _before(library, found["id"])
        attachments = [file.attachment() for file in wish.files]
        question = library.add_message(found["id"], "user", wish.message, attachments=attachments)
    access.service.metrics.saved_messages.labels("chat").inc()
    return _Kept(found["id"], found["session_id"], question, before)


def _before(library: Library, conversation: str) -> list[dict[str, str]]:
    """The last messages of a conversation, as the model is told them."""
    total = library.view(conversation, limit=1).total
    shown = library.view(
        conversation, start=max(0, total - HISTORY_USED), limit=HISTORY_USED
    ).messages
    said = [s.passage for s in shown if s.passage.role in _ROLES and s.passage.type == "message"]
    room, told = HISTORY_BYTES, []
    for passage in reversed(said):
        room -= len(passage.content)
        if room < 0:
            break
        told.append({"role": passage.role or "", "content": passage.content})
    return told[::-1]


def _keep_answer(access: Access, kept: _Kept, text: str, said: Answer, model: str) -> str:
    turn = answer_of(said.choices[0].message).passages[-1]
    with access.write("conversations") as library:
        saved = library.add_message(
            kept.conversation,
            "assistant",
            text,
            model=said.model or model,
            citations=turn.citations,
            metadata={**turn.metadata, **notes_of(said, said.choices[0])},
        )
    access.service.metrics.saved_messages.labels("chat").inc()
    return saved


# -- the model -----------------------------------------------------------------


async def _ask(access: Access, upstream: Upstream, body: bytes) -> Answer:
    """The model's answer. Raises the Problem that it has."""
    own = [(name, value) for name, value in access.request.headers.raw if name == b"authorization"]
    headers = upstream.headers(own, local=access.principal.credential == "local")
    headers += [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"application/json"),
        (b"User-Agent", b"recollect"),
    ]
    try:
        response, data = await upstream.read("/chat/completions", headers, body, _ANSWER_BYTES)
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise problem_with(error) from error
    tape = Tape(
        response.headers.get("content-type", ""),
        response.headers.get("content-encoding", ""),
        _ANSWER_BYTES,
    )
    tape.feed(data)
    said = tape.answer(complete=True) if response.is_success else None
    if said is None:
        access.service.metrics.upstream_failures.inc()
        raise _complaint(upstream, response.status_code, response.headers, data)
    return said


def _complaint(upstream: Upstream, status: int, headers: Mapping[str, str], data: bytes) -> Problem:
    """What the model's server says is wrong, in our shape. Its 401 is not the client's: that one was let in."""
    if 200 <= status < 300:
        return Problem(502, "The model's server gave no answer that can be read.")
    try:
        found: Any = json.loads(data)
        while isinstance(found, dict):
            found = next(
                (found[key] for key in ("error", "message", "detail") if found.get(key)), None
            )
    except (ValueError, RecursionError):
        found = None
    told = upstream.hidden(" ".join(printable(found).split())) if isinstance(found, str) else ""
    said = f": {truncate(told, _COMPLAINT_LENGTH)}" if told else "."
    if status == 429:
        return Problem(
            429,
            f"The model's server has had too many requests{said}",
            retry_after=_seconds(headers),
        )
    if status in (408, 504):
        return Problem(
            504, f"The model's server did not answer in time{said}", code="UPSTREAM_TIMEOUT"
        )
    return Problem(502, f"The model's server refused ({status}){said}")


def _seconds(headers: Mapping[str, str]) -> int:
    said = headers.get("retry-after", "")
    return min(3_600, math.ceil(float(said))) if re.fullmatch(r"\d{1,9}(\.\d+)?", said) else 1
