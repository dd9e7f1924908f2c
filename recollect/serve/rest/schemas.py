"""Bodies of requests and responses that several modules share, and those of conversations.

Request bodies are validated. Unknown fields are rejected, so that nobody believes that, say,
`user_id` has an effect. Responses are not validated at run time; the tests compare them with these
schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from recollect.errors import NotFound
from recollect.language.text import iso
from recollect.model.undo import Change as LibraryChange
from recollect.settings import LIMITS


def about(description: str, default: Any = ..., **rules: Any) -> Any:
    """A field with what the API reference says about it."""
    return Field(default, description=description, **rules)


Metadata = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Visibility = Literal["all", "hidden", "human_only"]
Time = Annotated[str | None, about("ISO 8601.")]
PageSize = Annotated[int, about("Page size, from 1 to 200. Values outside are clamped.")]
Limit = Annotated[int, Query(description="Page size, from 1 to 200. Values outside are clamped.")]
Offset = Annotated[int, Query(description="Number of results to skip.")]
MessageId = Annotated[
    Name | None, about("An id makes the request idempotent: a message sent twice is stored once.")
]
PurgeState = Annotated[
    Literal["pending", "done"],
    about(
        "`done`: no file contains the text. `pending`: it is removed when another program has "
        "stopped reading the library. `GET /api/v1/stats` has the reason."
    ),
]


# -- parameters ---


@contextmanager
def not_found_as(message: str) -> Iterator[None]:
    """Replace the message of NotFound with the one a contract specifies."""
    try:
        yield
    except NotFound:
        raise NotFound(message) from None


def clamp(value: int, minimum: int, maximum: int) -> int:
    return max(minimum, min(value, maximum))


def clamp_page(limit: int, offset: int) -> tuple[int, int]:
    """A page within the limits: values outside are clamped."""
    return clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)


def created_status(created: bool) -> int:
    """The status of such a response."""
    return 201 if created else 200


# -- bodies ---


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, source: object, **others: Any) -> dict[str, Any]:
        """The fields of this body: `others`, and attributes of an object."""
        return {
            name: others[name] if name in others else getattr(source, name)
            for name in cls.model_fields
        }


class Conversation(ResponseBody):
    """A conversation without its messages."""

    id: str = about("Unique identifier.")
    session_id: str = about("The session the conversation belongs to.")
    title: str
    namespace: str = about("The project the conversation belongs to.")
    created_at: Time
    updated_at: Time
    message_count: int
    metadata: Metadata


class Message(ResponseBody):
    """One message of a conversation."""

    id: str = about("Unique within the conversation.")
    conversation_id: str
    role: str | None = about("`user`, `assistant`, `system` or `tool`.")
    content: str
    model: str | None = about("The model that wrote the message.")
    tool_used: str | None = about("The tool whose output the message is.")
    attachments: list[Any]
    citations: list[Any]
    timestamp: str | None = about("When the message was sent, in ISO 8601.")


class ConversationDetail(Conversation):
    """A conversation with its messages in order."""

    messages: list[Message]


class ConversationList(ResponseBody):
    """A page of conversations."""

    conversations: list[Conversation]
    total: int = about("Number of matching conversations on all pages.")
    limit: int
    offset: int
    next_cursor: str | None = about(
        "Only if the request has a `cursor`: send it for the next page. Null on the last page.",
        None,
    )


class MessageList(ResponseBody):
    """A page of messages."""

    messages: list[Message]
    total: int = about("Number of matching messages on all pages.")


class MessagePage(ResponseBody):
    """Some messages of a conversation, in order."""

    messages: list[Message]
    total: int = about("Number of messages of the conversation.")
    before: str | None = about("Send it as `before` for the page before. Null on the first page.")
    after: str | None = about("Send it as `after` for the next page. Null on the last page.")


class ConversationResult(ResponseBody):
    """The result of an operation on a conversation."""

    success: Literal[True]
    conversation_id: str


class ExportedConversation(Conversation):
    """A complete conversation. Recollect can restore it unchanged from this."""

    model_config = ConfigDict(extra="allow")
    messages: list[Metadata]


class ExportedText(ResponseBody):
    """A conversation as text."""

    content: str
    format: Literal["txt", "md"]


class Change(ResponseBody):
    """A change that can be undone."""

    number: int
    action: str = about("`rename`, `tag`, `untag`, `pin`, `unpin` or `delete`.")
    conversation_id: str
    title: str
    changed_at: str = about("ISO 8601.")
    expires_at: str = about("Until when it can be undone, in ISO 8601.")


def change_shape(change: LibraryChange) -> dict[str, Any]:
    return Change.of(
        change,
        conversation_id=change.id,
        changed_at=iso(change.changed_at),
        expires_at=iso(change.expires_at),
    )


class DeletedConversation(ConversationResult):
    purge: PurgeState
    conversation: ExportedConversation | None = about(
        "With `undo=true`, the deleted conversation, for `POST /conversations/restore`.", None
    )
    change: Change | None = about(
        "With `trash=true`, the change that `POST /api/v1/changes/{number}/undo` undoes.", None
    )


class SavedMessage(ConversationResult):
    message_id: str
    created: bool = about("False if the same message already existed.")


class SavedInteraction(ConversationResult):
    session_id: str
    created: bool = about("Whether the conversation is new.")
    message_ids: list[str] = about("The ids of all messages in the request.")
    added: int = about("Number of messages that did not exist before.")


class NewMessage(RequestBody):
    """A message to save. Messages of OpenAI's and Anthropic's SDKs can be sent as they are."""

    id: MessageId = Field(None, validation_alias=AliasChoices("id", "message_id"))
    role: Name = about("`user`, `assistant`, `system` or `tool`.")
    content: str | list[Any] | None = about(
        "Text, or a list of parts. Required unless there are tool calls.", None
    )
    tool_calls: list[Any] | None = about("The calls of tools, as in OpenAI's API.", None)
    tool_call_id: str | None = about("The call whose result the message is.", None)
    function_call: Metadata | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    annotations: list[Any] | None = None
    audio: Metadata | None = None
    model: str | None = about("The model that wrote the message.", None)
    tool_used: str | None = about("The tool whose output the message is.", None)
    attachments: list[Any] | None = None
    citations: list[Any] | None = None
    timestamp: str | None = about("When the message was sent, in ISO 8601. Defaults to now.", None)
    author: str | None = about("The name of the person or agent.", None)
    parent_id: Name | None = about(
        "The message this one replies to. Defaults to the last message.", None
    )
    metadata: Metadata | None = None
    visibility: Visibility = about(
        "`hidden` messages are not shown by default. `human_only` messages are masked for agents.",
        "all",
    )


class NewConversation(RequestBody):
    """A conversation to create."""

    id: Name | None = about(
        "Defaults to a new unique id.",
        None,
        validation_alias=AliasChoices("id", "conversation_id"),
    )
    session_id: Name | None = about("Defaults to `id`.", None)
    title: str = ""
    namespace: Name = about("The project the conversation belongs to.", "default")
    metadata: Metadata | None = None
    messages: list[NewMessage] = Field(default_factory=list)


class ConversationChanges(RequestBody):
    """Changes of a conversation. Fields that you leave out stay the same."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Trip to Lisbon", "tags": ["travel"]}]}
    )
    title: str | None = about("The new title.", None)
    namespace: Name | None = about(
        "The new project.", None, validation_alias=AliasChoices("namespace", "project")
    )
    tags: list[str] | None = about(
        "The new tags, which replace the old ones.", None, max_length=100
    )
    pinned: bool | None = about("Whether lists may show it first.", None)
    metadata: Metadata | None = about(
        "Keys to change. The value null removes a key; other keys stay.", None
    )


class Interaction(RequestBody):
    """One exchange of a session: usually a question and its answer."""

    session_id: Name
    namespace: Name = about(
        "The project of a new conversation. Existing ones keep theirs.", "default"
    )
    title: str | None = about(
        "The title of a new conversation. Defaults to the beginning of the first user message.",
        None,
    )
    messages: Annotated[list[NewMessage], Field(min_length=1)]


class RestoredConversation(BaseModel):
    """A JSON export of a conversation, unchanged."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = about("Where it came from.", None, max_length=100)
    origin: str | None = about(
        "The name of `source` in exports of version 0.1.", None, max_length=100
    )
    messages: list[Any]
