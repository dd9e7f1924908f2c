"""The shapes of bodies and answers, for checking what comes in and describing what goes out.

Answers are not validated again at run time; the tests compare them with these
shapes. Bodies are: what a shape does not name is refused, so that nobody
believes that `user_id` does anything.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Metadata = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Visibility = Literal["all", "hidden", "human_only"]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


# -- contract 1 ------------------------------------------------------------------


class Conversation(_Answer):
    id: str
    session_id: str
    title: str
    namespace: str
    created_at: str | None
    updated_at: str | None
    message_count: int
    metadata: Metadata


class Message(_Answer):
    id: str
    conversation_id: str
    role: str | None
    content: str
    model: str | None
    tool_used: str | None
    attachments: list[Any]
    citations: list[Any]
    timestamp: str | None


class ConversationDetail(Conversation):
    messages: list[Message]


class ConversationList(_Answer):
    conversations: list[Conversation]
    total: int = Field(description="How many match in all, not only on this page.")
    limit: int
    offset: int


class MessageList(_Answer):
    messages: list[Message]
    total: int = Field(description="How many match in all, not only those returned.")


class Changed(_Answer):
    success: Literal[True]
    conversation_id: str


class ExportedConversation(Conversation):
    """A whole conversation: contract 1's shape and, beside it, all that Recollect needs to take it back unchanged."""

    model_config = ConfigDict(extra="allow")
    messages: list[dict[str, Any]]


class ExportedText(_Answer):
    content: str
    format: Literal["txt", "md"]


class Deleted(Changed):
    conversation: ExportedConversation | None = Field(
        None,
        description="With undo=true: what was deleted, as POST /conversations/restore takes it.",
    )


class Saved(Changed):
    message_id: str
    created: bool = Field(description="False where the same message was there already.")


class SavedInteraction(Changed):
    session_id: str
    created: bool = Field(description="Whether the conversation is new.")
    message_ids: list[str]
    added: int = Field(description="How many of the messages are new.")


class NewMessage(_Given):
    id: Name | None = Field(
        None, description="With an id a message may be sent again: it is stored once."
    )
    message_id: Name | None = Field(None, description="The same as id.")
    role: Name = Field(description="user, assistant, system or tool.")
    content: str
    model: str | None = None
    tool_used: str | None = None
    attachments: list[Any] | None = None
    citations: list[Any] | None = None
    timestamp: str | None = Field(
        None, description="When it was said, in ISO 8601; now unless given."
    )
    author: str | None = None
    parent_id: Name | None = Field(
        None, description="The message that it answers; the last one unless given."
    )
    metadata: Metadata | None = None
    visibility: Visibility = "all"


class NewConversation(_Given):
    id: Name | None = Field(None, description="A new one is made unless given.")
    conversation_id: Name | None = Field(None, description="The same as id.")
    session_id: Name | None = None
    title: str = ""
    namespace: Name = "default"
    metadata: Metadata | None = None
    messages: list[NewMessage] = Field(default_factory=list)


class Interaction(_Given):
    """One exchange of a session: what was asked, and what was answered."""

    session_id: Name
    namespace: Name = Field(
        "default", description="Of a conversation that is new; one that exists stays where it is."
    )
    title: str | None = Field(
        None,
        description="Of a conversation that is new; otherwise the beginning of the first message of the user.",
    )
    messages: Annotated[list[NewMessage], Field(min_length=1)]


class RestoredConversation(BaseModel):
    """An export in JSON, as it was given out."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = Field(None, max_length=100)
    origin: str | None = Field(None, max_length=100, description="The source, in version 0.1.")
    messages: list[Any]


# -- contract 2 ------------------------------------------------------------------


class SearchResult(_Answer):
    message_id: str
    thread_id: str
    thread_topic: str
    author: str | None = Field(description="The author's name, else the role.")
    seq: int
    created_at: str | None
    snippet: str = Field(
        description="At most 20 words as HTML: escaped text, with <mark> around what matched."
    )
    metadata: Metadata | None


class SearchResults(_Answer):
    results: list[SearchResult]
    total: int = Field(description="How many messages match in all.")
    query: str
    warning: str | None = Field(
        None, description="Why nothing can match: the expression is malformed."
    )


class Thread(_Answer):
    id: str
    thread_id: str = Field(description="The same as id.")
    topic: str
    status: str
    created_at: str | None
    updated_at: str | None
    message_count: int
    last_seq: int
    metadata: Metadata


class ThreadList(_Answer):
    threads: list[Thread]
    total: int
    limit: int
    offset: int


class DeletedThread(_Answer):
    success: Literal[True]
    thread_id: str


class BusMessage(_Answer):
    id: str
    thread_id: str
    author: str | None
    role: str | None
    content: str
    seq: int
    created_at: str | None
    metadata: Metadata | None
    human_only: bool


class BusMessages(_Answer):
    messages: list[BusMessage]
    current_seq: int = Field(description="The seq of the thread's last message.")
    has_more: bool


class Posted(_Answer):
    msg_id: str
    thread_id: str
    seq: int
    created_at: str | None


class NewThread(_Given):
    topic: Name = Field(
        description="Threads are known by their topic: the same topic is the same thread."
    )
    metadata: Metadata | None = None


class NewBusMessage(_Given):
    author: Name = Field(description="The name of the agent or person who speaks.")
    content: str
    role: Name = "user"
    id: Name | None = Field(
        None, description="With an id a message may be sent again: it is stored once."
    )
    metadata: Metadata | None = None
    human_only: bool = Field(
        False, description="Only people see what it says; agents see that it is there."
    )
    reply_to: Name | None = Field(None, description="The id of the message that it answers.")


# -- the library's own search -------------------------------------------------------


class FoundMessage(_Answer):
    conversation_id: str
    message_id: str
    title: str
    role: str | None
    author: str | None
    kind: str
    created_at: str | None
    origin: str
    source: str
    namespace: str
    position: int = Field(description="Its place in the conversation, counted from 0.")
    canonical: bool = Field(
        description="Whether it is on the path that was last seen, or on another branch."
    )
    visibility: Visibility
    score: float
    snippet: str = Field(description="Plain text.")
    marks: list[list[int]] = Field(
        description="Where in the snippet the words are that matched: start and end, in characters."
    )
    arms: list[str] = Field(description="What found it: text, vector, or both.")
    terms: list[str]
    parts: dict[str, float] = Field(description="The parts of its score.")
    copies: int = Field(description="Messages with the same text that this one stands for.")
    also: list[FoundMessage] = Field(description="Of conversations: the next best messages.")
    open_url: str | None = Field(
        description="Where the console shows it, if the service knows its own address."
    )


class FoundMessages(_Answer):
    hits: list[FoundMessage]
    total: int
    exact: bool = Field(description="Whether total is all of them, or only at least so many.")
    limit: int
    offset: int
    mode: str = Field(description="What answered: text, vector or both.")
    matched: str = Field(description="all, any or literal: how the query was taken.")
    score_type: str
    embedded: float = Field(description="The share of the library that can be searched by meaning.")
    note: str


Counts = list[list[str | int]]
"""Names, each with its number."""


class LibraryStats(_Answer):
    """How much a library holds. What else is told depends on the store."""

    model_config = ConfigDict(extra="allow")
    conversations: int
    messages: int
    notes: int


class LibraryActivity(_Answer):
    """Numbers of messages."""

    months: Counts
    sources: Counts
    models: Counts
    tools: Counts
    projects: Counts
    weekdays: list[int] = Field(description="Monday first.")
    hours: list[int] = Field(description="Of the day, in UTC.")


class LibraryFacets(_Answer):
    """Numbers of conversations."""

    projects: Counts
    sources: Counts
    tags: Counts
