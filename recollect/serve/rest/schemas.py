"""Schemas of request and response bodies for the Persistence API, the Bus and the search API.

Request bodies are validated. Unknown fields are rejected, so that nobody believes that, say,
`user_id` has an effect. Responses are not validated at run time; the tests compare them with these
schemas.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Metadata = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Visibility = Literal["all", "hidden", "human_only"]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


# -- Persistence API -------------------------------------------------------------


class Conversation(ResponseBody):
    """A conversation without its messages."""

    id: str = Field(description="Unique identifier.")
    session_id: str = Field(description="The session the conversation belongs to.")
    title: str
    namespace: str = Field(description="The project the conversation belongs to.")
    created_at: str | None = Field(description="ISO 8601.")
    updated_at: str | None = Field(description="ISO 8601.")
    message_count: int
    metadata: Metadata


class Message(ResponseBody):
    """One message of a conversation."""

    id: str = Field(description="Unique within the conversation.")
    conversation_id: str
    role: str | None = Field(description="`user`, `assistant`, `system` or `tool`.")
    content: str
    model: str | None = Field(description="The model that wrote the message.")
    tool_used: str | None = Field(description="The tool whose output the message is.")
    attachments: list[Any]
    citations: list[Any]
    timestamp: str | None = Field(description="When the message was sent, in ISO 8601.")


class ConversationDetail(Conversation):
    """A conversation with its messages in order."""

    messages: list[Message]


class ConversationList(ResponseBody):
    """A page of conversations."""

    conversations: list[Conversation]
    total: int = Field(description="Number of matching conversations on all pages.")
    limit: int
    offset: int
    next_cursor: str | None = Field(
        None,
        description="Only if the request has a `cursor`: send it for the next page. Null on the "
        "last page.",
    )


class MessageList(ResponseBody):
    """A page of messages."""

    messages: list[Message]
    total: int = Field(description="Number of matching messages on all pages.")


class MessagePage(ResponseBody):
    """Some messages of a conversation, in order."""

    messages: list[Message]
    total: int = Field(description="Number of messages of the conversation.")
    before: str | None = Field(
        description="Send it as `before` for the page before. Null on the first page."
    )
    after: str | None = Field(
        description="Send it as `after` for the next page. Null on the last page."
    )


class ConversationResult(ResponseBody):
    """The result of an operation on a conversation."""

    success: Literal[True]
    conversation_id: str


class ExportedConversation(Conversation):
    """A complete conversation. Recollect can restore it unchanged from this."""

    model_config = ConfigDict(extra="allow")
    messages: list[dict[str, Any]]


class ExportedText(ResponseBody):
    """A conversation as text."""

    content: str
    format: Literal["txt", "md"]


PurgeState = Annotated[
    Literal["pending", "done"],
    Field(
        description="`done`: no file contains the text. `pending`: another program is reading the "
        "library; the text is removed from its files when that ends. `GET /api/v1/stats` has the "
        "reason."
    ),
]


class Change(ResponseBody):
    """A change that can be undone."""

    number: int
    action: str = Field(description="`rename`, `tag`, `untag`, `pin`, `unpin` or `delete`.")
    conversation_id: str
    title: str
    changed_at: str = Field(description="ISO 8601.")
    expires_at: str = Field(description="Until when it can be undone, in ISO 8601.")


class ChangeList(ResponseBody):
    """The changes that can be undone now, newest first."""

    changes: list[Change]


class DeletedConversation(ConversationResult):
    purge: PurgeState
    conversation: ExportedConversation | None = Field(
        None,
        description="With `undo=true`, the deleted conversation. "
        "Send it to `POST /conversations/restore` to restore it.",
    )
    change: Change | None = Field(
        None,
        description="With `trash=true`, the change that `POST /api/v1/changes/{number}/undo` "
        "undoes.",
    )


class SavedMessage(ConversationResult):
    message_id: str
    created: bool = Field(description="False if the same message already existed.")


class SavedInteraction(ConversationResult):
    session_id: str
    created: bool = Field(description="Whether the conversation is new.")
    message_ids: list[str] = Field(description="The ids of all messages in the request.")
    added: int = Field(description="Number of messages that did not exist before.")


class NewMessage(RequestBody):
    """A message to save. Messages of OpenAI's and Anthropic's SDKs can be sent as they are."""

    id: Name | None = Field(
        None,
        description="An id makes the request idempotent: a message sent twice is stored once.",
    )
    message_id: Name | None = Field(None, description="Alias of `id`.")
    role: Name = Field(description="`user`, `assistant`, `system` or `tool`.")
    content: str | list[Any] | None = Field(
        None, description="Text, or a list of parts. Required unless there are tool calls."
    )
    tool_calls: list[Any] | None = Field(
        None, description="The calls of tools, as in OpenAI's API."
    )
    tool_call_id: str | None = Field(None, description="The call whose result the message is.")
    function_call: Metadata | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    annotations: list[Any] | None = None
    audio: Metadata | None = None
    model: str | None = Field(None, description="The model that wrote the message.")
    tool_used: str | None = Field(None, description="The tool whose output the message is.")
    attachments: list[Any] | None = None
    citations: list[Any] | None = None
    timestamp: str | None = Field(
        None, description="When the message was sent, in ISO 8601. Defaults to now."
    )
    author: str | None = Field(None, description="The name of the person or agent.")
    parent_id: Name | None = Field(
        None, description="The message this one replies to. Defaults to the last message."
    )
    metadata: Metadata | None = None
    visibility: Visibility = Field(
        "all",
        description="`hidden` messages are not shown by default. "
        "`human_only` messages are masked for agents.",
    )


class NewConversation(RequestBody):
    """A conversation to create."""

    id: Name | None = Field(None, description="Defaults to a new unique id.")
    conversation_id: Name | None = Field(None, description="Alias of `id`.")
    session_id: Name | None = Field(None, description="Defaults to `id`.")
    title: str = ""
    namespace: Name = Field("default", description="The project the conversation belongs to.")
    metadata: Metadata | None = None
    messages: list[NewMessage] = Field(default_factory=list)


class ConversationChanges(RequestBody):
    """Changes of a conversation. Fields that you leave out stay the same."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Trip to Lisbon", "tags": ["travel"]}]}
    )
    title: str | None = Field(None, description="The new title.")
    namespace: Name | None = Field(None, description="The new project.")
    project: Name | None = Field(None, description="Alias of `namespace`.")
    tags: list[str] | None = Field(
        None, max_length=100, description="The new tags, which replace the old ones."
    )
    pinned: bool | None = Field(None, description="Whether lists may show it first.")
    metadata: Metadata | None = Field(
        None, description="Keys to change. The value null removes a key; other keys stay."
    )


class Interaction(RequestBody):
    """One exchange of a session: usually a question and its answer."""

    session_id: Name
    namespace: Name = Field(
        "default", description="The project of a new conversation. Existing ones keep theirs."
    )
    title: str | None = Field(
        None,
        description="The title of a new conversation. "
        "Defaults to the beginning of the first user message.",
    )
    messages: Annotated[list[NewMessage], Field(min_length=1)]


class RestoredConversation(BaseModel):
    """A JSON export of a conversation, unchanged."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = Field(None, max_length=100, description="Where it came from.")
    origin: str | None = Field(
        None, max_length=100, description="The name of `source` in exports of version 0.1."
    )
    messages: list[Any]


# -- Bus -------------------------------------------------------------------------


class SearchResult(ResponseBody):
    """A message that matches a search."""

    message_id: str
    thread_id: str
    thread_topic: str
    author: str | None = Field(description="The author's name, or the role if there is none.")
    seq: int = Field(description="The position of the message in its thread, starting at 1.")
    created_at: str | None
    snippet: str = Field(
        description="Up to 20 words around the match, as HTML with `<mark>` around the matches. "
        "Everything else is escaped."
    )
    metadata: Metadata | None


class SearchResults(ResponseBody):
    """The messages that match a search, best first."""

    results: list[SearchResult]
    total: int = Field(description="Number of matching messages.")
    query: str = Field(description="The query that was searched for.")
    warning: str | None = Field(
        None, description="Why the query is malformed. Malformed queries match nothing."
    )


class Thread(ResponseBody):
    """A thread without its messages."""

    id: str
    thread_id: str = Field(description="Same as `id`.")
    topic: str
    status: str
    created_at: str | None
    updated_at: str | None
    message_count: int
    last_seq: int = Field(description="The `seq` of the last message.")
    metadata: Metadata


class ThreadList(ResponseBody):
    """A page of threads."""

    threads: list[Thread]
    total: int = Field(description="Number of threads on all pages.")
    limit: int
    offset: int


class DeletedThread(ResponseBody):
    success: Literal[True]
    thread_id: str
    purge: PurgeState


class BusMessage(ResponseBody):
    """One message of a thread."""

    id: str
    thread_id: str
    author: str | None
    role: str | None
    content: str = Field(description="Masked for agents if the message is human-only.")
    seq: int = Field(description="The position of the message in its thread, starting at 1.")
    created_at: str | None
    metadata: Metadata | None
    human_only: bool


class BusMessages(ResponseBody):
    """A page of messages."""

    messages: list[BusMessage]
    current_seq: int = Field(description="The `seq` of the thread's last message.")
    has_more: bool = Field(description="Whether there are messages after these.")


class PostedMessage(ResponseBody):
    msg_id: str
    thread_id: str
    seq: int
    created_at: str | None


class NewThread(RequestBody):
    """A thread to open."""

    topic: Name = Field(description="Identifies the thread: the same topic is the same thread.")
    metadata: Metadata | None = None


class NewBusMessage(RequestBody):
    """A message to post to a thread."""

    author: Name = Field(description="The name of the agent or person who posts.")
    content: str
    role: Name = "user"
    id: Name | None = Field(
        None,
        description="An id makes the request idempotent: a message sent twice is stored once.",
    )
    metadata: Metadata | None = None
    human_only: bool = Field(False, description="Whether agents see a mask instead of the content.")
    reply_to: Name | None = Field(None, description="The id of the message this one replies to.")


# -- search API --------------------------------------------------------------------


class SearchHit(ResponseBody):
    """A message that matches a search."""

    conversation_id: str
    message_id: str
    title: str = Field(description="The title of the conversation.")
    role: str | None
    author: str | None
    kind: str = Field(
        description="The kind of document: `conversation`, `note`, `media` and so on."
    )
    source: str = Field(description="Where the document came from, such as `chatgpt`.")
    project: str
    type: str = Field(description="The type of message, such as `message` or `tool_call`.")
    created_at: str | None = Field(description="ISO 8601.")
    position: int = Field(description="The position in the conversation, starting at 0.")
    canonical: bool = Field(
        description="Whether the message is on the current branch of the conversation."
    )
    visibility: Visibility
    score: float = Field(
        description="From 0 to 1. That of the best hit is how much of the query the best hits "
        "contain, in words and in meaning; the others are relative to it."
    )
    snippet: str = Field(description="Plain text around the match.")
    marks: list[list[int]] = Field(
        description="The matches in the snippet as pairs of start and end, in characters."
    )
    arms: list[str] = Field(
        description="What found the message: `text`, `vector`, both, or none (fields only)."
    )
    terms: list[str] = Field(description="The words of the query that the message contains.")
    parts: dict[str, float] = Field(description="The components of the score.")
    copies: int = Field(description="Number of messages with the same text, which are left out.")
    also: list[SearchHit] = Field(
        description="With `group=conversation`, the next best messages of the conversation."
    )
    open_url: str | None = Field(
        description="The message in the console. Null unless the server knows its base URL."
    )


class SearchPage(ResponseBody):
    """A page of search hits, best first."""

    hits: list[SearchHit]
    total: int = Field(
        description="Number of matches, with copies. Messages with the same text are one hit, so "
        "there may be fewer hits: read pages until one has fewer than `limit`."
    )
    exact: bool = Field(description="Whether `total` is exact. Otherwise there may be more.")
    partial: bool = Field(
        description="Whether the search was stopped because it took too long. There may be more "
        "and better hits."
    )
    weak: bool = Field(
        description="Whether the hits are probably unrelated: no conversation has much of the "
        "question, and nothing is close to it in meaning."
    )
    limit: int
    offset: int
    mode: str = Field(description="The mode that was used: `text`, `vector` or `both`.")
    matched: str = Field(
        description="`all`: every hit satisfies the whole query; `any`: a hit contains one of the "
        "words or has a similar meaning; `literal`: the query was searched as plain text."
    )
    score_type: str = Field(description="`rank`, or `fts` for the scores of the text engine.")
    embedded: float = Field(
        description="The share of the library that was searched by meaning: 0 in mode `text`."
    )
    note: str = Field(description="Remarks on how the search was carried out.")
    missing: list[str] = Field(description="Words of the query that no message contains.")
    corrections: dict[str, str] = Field(
        description="Misspelled words of the query, and what was searched for instead."
    )
    nearest: list[SearchHit] = Field(
        description="If there are no hits: up to three messages that are the closest in meaning."
    )


Counts = list[list[str | int]]
"""Pairs of a name and a count."""


class LibraryStats(ResponseBody):
    """The size of the library. Stores may add fields of their own."""

    model_config = ConfigDict(extra="allow")
    conversations: int
    messages: int
    notes: int


class LibraryActivity(ResponseBody):
    """Numbers of messages that people wrote, of replies by model and of calls by tool."""

    months: Counts
    sources: Counts
    models: Counts = Field(description="Messages by each model.")
    tools: Counts = Field(description="Calls of each tool.")
    projects: Counts
    weekdays: list[int] = Field(description="Starting with Monday.")
    hours: list[int] = Field(description="Hours of the day in UTC.")


class LibraryFacets(ResponseBody):
    """Numbers of conversations."""

    projects: Counts
    sources: Counts
    tags: Counts
