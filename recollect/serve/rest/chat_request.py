"""The request body of `POST /chat`: one model for JSON and forms, and attached files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from recollect.language.text import printable, truncate
from recollect.model.documents import Json
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.routing import content_type, parse_json
from recollect.serve.rest.model_server import MAX_SESSION_LENGTH, NAMESPACE

MAX_MESSAGE_LENGTH = 10_000
MAX_HISTORY_LENGTH = 500_000
MAX_HISTORY_MESSAGES = 50
MAX_FILES = 10
MAX_FILE_TEXT = 100_000
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_MAX_FIELDS = 20
ROLES = ("user", "assistant", "system")

_HISTORY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {
                    "role": {"type": "string", "enum": list(ROLES)},
                    "content": {"type": "string"},
                },
            },
        },
        {"type": "string"},
    ],
}


class HistoryMessage(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: str


def _parse_history(value: Any) -> Any:
    """Forms send the history as JSON text. Only its last messages are used."""
    if isinstance(value, str):
        if len(value) > MAX_HISTORY_LENGTH:
            raise _too_long_history()
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise PydanticCustomError("history", "The history is not valid JSON") from None
    if not isinstance(value, list):
        raise PydanticCustomError("history", "The history must be a list of messages")
    messages = value[-MAX_HISTORY_MESSAGES:]
    if _history_length(messages) > MAX_HISTORY_LENGTH:
        raise _too_long_history()
    return messages


def _history_length(messages: list[Any]) -> int:
    length = 0
    for message in messages:
        if isinstance(message, dict) and isinstance(message.get("content"), str):
            length += len(message["content"])
    return length


def _too_long_history() -> PydanticCustomError:
    return PydanticCustomError(
        "history", "The history may have at most {limit} characters", {"limit": MAX_HISTORY_LENGTH}
    )


class ChatRequest(BaseModel):
    """A message to the configured model."""

    message: str = Field(
        min_length=1,
        max_length=MAX_MESSAGE_LENGTH,
        description="The message. It must not be blank.",
    )
    model: str = Field(
        "", max_length=200, description="The model to ask. Defaults to the configured one."
    )
    history: Annotated[
        list[HistoryMessage], BeforeValidator(_parse_history), WithJsonSchema(_HISTORY_SCHEMA)
    ] = Field(
        default_factory=list,
        description="Earlier messages, each with a `role` and a `content`, or the same as JSON "
        f"text. The last {MAX_HISTORY_MESSAGES} are used. "
        "Defaults to the messages of the session.",
    )
    namespace: str = Field(
        "default",
        pattern=f"^{NAMESPACE.pattern}$",
        description="The project of a new conversation.",
    )
    session_id: str = Field(
        "",
        max_length=MAX_SESSION_LENGTH,
        description="Continues the conversation of this session. Defaults to a new session.",
    )
    stream: bool = Field(
        False,
        description="Send the answer as server-sent events while the model writes it. So does the "
        "header `Accept: text/event-stream`.",
    )
    search_mode: Literal["auto", "web", "documents", "hybrid"] = Field(
        "auto", description="Accepted for compatibility. It has no effect."
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
    def _require_text(self) -> ChatRequest:
        if not self.message.strip():
            raise PydanticCustomError("message", "The message must not be blank")
        self.session_id = self.session_id.strip()
        return self


def request_body() -> dict[str, Any]:
    """The OpenAPI description of the body, derived from the model."""
    json_schema = ChatRequest.model_json_schema()
    history = json_schema["properties"]["history"] | {"type": "string"}
    history.pop("anyOf")
    files = {
        "type": "array",
        "maxItems": MAX_FILES,
        "items": {"type": "string", "format": "binary"},
        "description": "Files to attach. Text files are shown to the model.",
    }
    properties = json_schema["properties"] | {"history": history, "files": files}
    form_schema = json_schema | {"properties": properties}
    content = {"application/json": {"schema": json_schema}}
    for form in FORMS:
        content[form] = {"schema": form_schema}
    return {"required": True, "content": content}


@dataclass(frozen=True, slots=True)
class AttachedFile:
    name: str
    media_type: str
    data: bytes

    @property
    def text(self) -> str | None:
        """The text of the file, or None if it is not text."""
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        if "\0" in text:
            return None
        return text

    def attachment(self) -> dict[str, Json]:
        """What is stored with the message."""
        attachment: dict[str, Json] = {
            "type": "file",
            "name": self.name,
            "media_type": self.media_type,
            "bytes": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
        }
        if self.text is not None:
            attachment["text"] = self.text[:MAX_FILE_TEXT]
        return attachment

    def for_model(self) -> str:
        """What the model reads before the message."""
        name = " ".join(printable(self.name).split())
        if self.text is None:
            return f"[Attached file {name} ({len(self.data)} bytes): not a text file.]"
        text = self.text[:MAX_FILE_TEXT]
        if len(self.text) > MAX_FILE_TEXT:
            text += "\n[The file is longer; the rest is omitted.]"
        return f"[Attached file {name}:]\n{text}\n[End of {name}.]"


async def parse_chat_request(request: Request) -> tuple[ChatRequest, list[AttachedFile]]:
    """The body of a request. Raises Problem or RequestValidationError."""
    media_type = content_type(request)
    if media_type == "application/json":
        body = await request.body()
        return await run_in_threadpool(lambda: _validate(parse_json(body))), []
    if media_type not in FORMS:
        raise Problem(415, f"Send the message as application/json, {FORMS[0]} or {FORMS[1]}.")
    form = request.form(
        max_files=MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=MAX_HISTORY_LENGTH * 2
    )
    fields: dict[str, str] = {}
    files: list[AttachedFile] = []
    async with form as parts:
        for name, part in parts.multi_items():
            if isinstance(part, str):
                fields[name] = part
            elif name == "files" and isinstance(part, UploadFile) and part.filename:
                files.append(await _read_file(part, part.filename))
    return await run_in_threadpool(_validate, fields), files


async def _read_file(upload: UploadFile, name: str) -> AttachedFile:
    media_type = (upload.content_type or "")[:100]
    return AttachedFile(truncate(name, 200), media_type, await upload.read())


def _validate(fields: Any) -> ChatRequest:
    if not isinstance(fields, dict):
        raise Problem(400, "The body must be a JSON object.")
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError(
            [{**detail, "loc": ("body", *_location(detail))} for detail in details]
        ) from None


def _location(detail: Any) -> tuple[Any, ...]:
    """The field of an error. Errors about the whole model are named after their field."""
    return detail["loc"] or (detail["type"],)
