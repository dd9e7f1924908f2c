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
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from recollect.language.text import printable, truncate
from recollect.model.documents import Json
from recollect.serve.http.responses import Problem
from recollect.serve.http.routing import content_type, parse_json
from recollect.serve.rest.model_server import MAX_SESSION_LENGTH, NAMESPACE
from recollect.serve.rest.schemas import about

MAX_MESSAGE_LENGTH = 10_000
MAX_HISTORY_LENGTH = 500_000
MAX_HISTORY_MESSAGES = 50
MAX_FILES = 10
MAX_FILE_TEXT = 100_000
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_MAX_FIELDS = 20
ROLES = ("user", "assistant", "system")


class HistoryMessage(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: str


_HISTORY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": HistoryMessage.model_json_schema()},
        {"type": "string"},
    ]
}


def parse_history(value: Any) -> Any:
    """Forms send the history as JSON text. Only its last messages are used."""
    if isinstance(value, str) and len(value) <= MAX_HISTORY_LENGTH:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise PydanticCustomError("history", "The history is not valid JSON") from None
    is_too_long = isinstance(value, str)
    if isinstance(value, list):
        value = value[-MAX_HISTORY_MESSAGES:]
        contents = [message.get("content") for message in value if isinstance(message, dict)]
        length = sum(len(content) for content in contents if isinstance(content, str))
        is_too_long = length > MAX_HISTORY_LENGTH
    elif not is_too_long:
        raise PydanticCustomError("history", "The history must be a list of messages")
    if is_too_long:
        raise PydanticCustomError(
            "history",
            "The history may have at most {limit} characters",
            {"limit": MAX_HISTORY_LENGTH},
        )
    return value


class ChatRequest(BaseModel):
    """A message to the configured model."""

    message: str = about(
        "The message. It must not be blank.", min_length=1, max_length=MAX_MESSAGE_LENGTH
    )
    model: str = about("The model to ask. Defaults to the configured one.", "", max_length=200)
    history: Annotated[
        list[HistoryMessage], BeforeValidator(parse_history), WithJsonSchema(_HISTORY_SCHEMA)
    ] = about(
        "Earlier messages, each with a `role` and a `content`, or the same as JSON text. "
        f"The last {MAX_HISTORY_MESSAGES} are used. Defaults to the messages of the session.",
        [],
    )
    namespace: str = about(
        "The project of a new conversation.", "default", pattern=f"^{NAMESPACE.pattern}$"
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
        return None if "\0" in text else text

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
        return await run_in_threadpool(lambda: validate(parse_json(body))), []
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
                media_type = (part.content_type or "")[:100]
                name = truncate(part.filename, 200)
                files.append(AttachedFile(name, media_type, await part.read()))
    return await run_in_threadpool(validate, fields), files


def validate(fields: Any) -> ChatRequest:
    if not isinstance(fields, dict):
        raise Problem(400, "The body must be a JSON object.")
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError(  # errors about the whole model are named after their field
            [
                {**detail, "loc": ("body", *(detail["loc"] or (detail["type"],)))}
                for detail in details
            ]
        ) from None
