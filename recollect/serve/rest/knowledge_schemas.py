"""The shapes of contract 3, for checking what comes in and describing what goes out; as in `schemas`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from recollect.serve.rest.schemas import Metadata

Source = Literal["notes", "media", "chats", "characters", "prompts"]
Order = Literal["relevance", "recent"]
Mode = Literal["both", "text", "vector"]
Place = Literal["both", "title", "message"]
PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]
RetrievalMode = Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"]
Title = Annotated[str, Field(max_length=500)]
Words = Annotated[list[str], Field(max_length=100)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


# -- what is found ---------------------------------------------------------------


class ResultItem(_Answer):
    """A document that was found, or of chats a message."""

    id: str
    source: Source
    title: str | None
    snippet: str | None = Field(
        description="Plain text around what was found, at most snippet_length characters."
    )
    uri: str
    score: float = Field(ge=0, le=1, description="Comparable between sources.")
    score_type: str
    created_at: str | None
    last_modified: str | None
    version: int | None
    tags: list[str] | None
    media_type: str | None
    url: str | None
    conversation_id: str | None
    message_id: str | None
    sender: str | None
    loc: Metadata | None = Field(
        description="Where it was found: what `get` takes to show more of it."
    )


class SearchResponse(_Answer):
    results: list[ResultItem]
    has_more: bool
    next_offset: int | None = Field(description="The offset of the next page.")
    total_estimated: int | None
    note: str | None = Field(None, description="What one should know of how the answer came about.")


class GetResponse(_Answer):
    meta: ResultItem
    content: str | dict[str, str] = Field(
        description="The text; of a whole character or prompt, its fields."
    )
    attachments: list[Metadata] | None = Field(
        description="Of which chunks, fields or messages the content is made, and where in it each lies."
    )
    page: Metadata | None = Field(
        None, description="Of a whole document: where this part lies, and what follows."
    )


class Item(_Answer):
    """A document as lists show it."""

    id: str
    source: Source
    title: str | None
    uri: str
    created_at: str | None
    last_modified: str | None
    version: int = Field(description="Counts up with every change.")
    tags: list[str] | None
    media_type: str | None
    url: str | None
    metadata: Metadata


class ItemList(_Answer):
    items: list[Item]
    total: int = Field(description="How many there are in all, not only on this page.")
    limit: int
    offset: int


class Transcript(_Answer):
    content: str | Metadata = Field(
        description="Text, SRT or VTT; with format=json an object with `segments`."
    )


class MediaType(_Answer):
    media_type: str
    count: int


class MediaTypes(_Answer):
    types: list[MediaType] = Field(
        description="The types that the library has, most frequent first."
    )
    suggested: list[str] = Field(description="Types to offer; any other word may be used too.")


class ExportedDocument(BaseModel):
    """A whole document, as POST /api/knowledge/restore takes it."""

    model_config = ConfigDict(extra="allow")
    id: str
    messages: list[Metadata]


class DeletedItem(_Answer):
    success: Literal[True]
    source: Source
    id: str
    document: ExportedDocument | None = Field(
        None,
        description="With undo=true: what was deleted, as POST /api/knowledge/restore takes it.",
    )


# -- what is asked ---------------------------------------------------------------


class MediaFilter(_Given):
    media_types: Words | None = None
    date_from: str | None = Field(None, max_length=64, description="ISO 8601.")
    date_to: str | None = Field(
        None, max_length=64, description="ISO 8601; a bare date includes its whole day."
    )
    order_by: Order | None = None


class NotesFilter(_Given):
    keywords: Words | None = None


class ChatsFilter(_Given):
    by: Place | None = None
    character_id: int | str | None = None
    sender: str | None = Field(None, description="A role or an author's name.")


class PromptsFilter(_Given):
    fields: Annotated[list[PromptField], Field(max_length=6)] | None = None


class CharactersFilter(_Given):
    """Reserved."""


class Filters(_Given):
    notes: NotesFilter | None = None
    media: MediaFilter | None = None
    chats: ChatsFilter | None = None
    characters: CharactersFilter | None = None
    prompts: PromptsFilter | None = None


class Question(_Given):
    """What the tool knowledge.search takes."""

    query: str = Field(min_length=1, max_length=1_000)
    limit: int = Field(20, description="How many at most; values outside 1 to 100 are clamped.")
    offset: int = 0
    snippet_length: int | None = None
    sources: Annotated[list[Source], Field(max_length=5)] = Field(
        default_factory=list, description="All unless given."
    )
    order_by: Order = "relevance"
    mode: Mode = Field("both", description="By words, by meaning, or both.")
    filters: Filters | None = None


class Retrieval(_Given):
    """How much of a document is wanted. Numbers out of bounds are clamped."""

    mode: RetrievalMode = "snippet"
    snippet_length: int | None = None
    max_tokens: int | None = Field(None, description="The answer is never longer.")
    chars_per_token: float | None = None
    chunk_size_tokens: int | None = None
    chunk_overlap_tokens: int | None = None
    sibling_window: int | None = None
    prefer_prechunked: bool | None = None
    loc: Metadata | None = Field(None, description="Where to look: as a result says it.")
    query: str | None = Field(
        None, max_length=1_000, description="What to look for where loc says nothing."
    )
    offset: int | None = Field(None, description="Of a whole text: the character to begin with.")


class Wanted(_Given):
    """What the tool knowledge.get takes."""

    source: Source
    id: str | int
    retrieval: Retrieval | None = None
    page: int = Field(1, description="Of a whole conversation: the page.")
    page_size: int = Field(
        50, description="Messages on a page; values outside 1 to 200 are clamped."
    )


# -- what is written ---------------------------------------------------------------


class NoteFields(_Given):
    title: Title = Field("", description="The first line of the content unless given.")
    content: str = ""
    keywords: Words = Field(default_factory=list)


class MediaFields(_Given):
    title: Title = ""
    media_type: Annotated[str, Field(max_length=100)] = Field(
        "txt", description="As GET /api/knowledge/media-types suggests, or any other word."
    )
    content: str = ""
    transcript: str | list[Any] | Metadata = Field(
        "",
        description="Instead of a content, what is said and when: SRT, VTT, SBV, or JSON with segments.",
    )
    url: Annotated[str, Field(max_length=10_000)] = ""
    author: Title = ""
    language: Annotated[str, Field(max_length=100)] = ""
    created_at: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        "", description="ISO 8601; now unless given."
    )
    keywords: Words = Field(default_factory=list)


class CharacterFields(_Given):
    name: Title = Field("", description="It needs one, here or in the card.")
    description: str = ""
    personality: str = ""
    scenario: str = ""
    system_prompt: str = ""
    first_message: str = ""
    message_example: str = ""
    post_history_instructions: str = ""
    creator_notes: str = ""
    alternate_greetings: Words = Field(default_factory=list)
    character_book: Metadata = Field(default_factory=dict)
    creator: Title = ""
    tags: Words = Field(default_factory=list)
    card: Metadata = Field(
        default_factory=dict, description="A character card, whole or its `data`."
    )


class PromptFields(_Given):
    name: Title = Field("", description="It needs one.")
    author: Title = ""
    details: str = ""
    system_prompt: str = ""
    user_prompt: str = ""
    keywords: Words = Field(default_factory=list)


Fields = NoteFields | MediaFields | CharacterFields | PromptFields


class _Change(BaseModel):
    """What is given takes the place of what was there; what is not given stays."""

    version: int | None = Field(
        None, ge=1, description="The version that is changed; 409 where it is another one now."
    )


class NoteChange(_Change, NoteFields):
    pass


class MediaChange(_Change, MediaFields):
    pass


class CharacterChange(_Change, CharacterFields):
    pass


class PromptChange(_Change, PromptFields):
    pass


class RestoredDocument(BaseModel):
    """A document in JSON, as it was given out when it was deleted."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = Field(None, max_length=100)
    kind: Literal["note", "media", "character", "prompt"]
    messages: list[Any]
