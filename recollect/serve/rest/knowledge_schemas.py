"""Schemas of the Knowledge API (docs/contracts/knowledge-api.md): queries, bodies and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from recollect.serve.rest.schemas import Metadata, PurgeState, RequestBody, ResponseBody
from recollect.settings import LIMITS

Source = Literal["notes", "media", "chats", "characters", "prompts"]
Order = Literal["relevance", "recent"]
Mode = Literal["both", "text", "vector"]
SearchIn = Literal["both", "title", "message"]
PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]
RetrievalMode = Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"]
Title = Annotated[str, Field(max_length=500)]
Words = Annotated[list[str], Field(max_length=100)]

_ANY = "Repeat the parameter to allow several."
MAX_QUERY_LENGTH = LIMITS.long_query_bytes  # of a text of several lines


# -- responses -------------------------------------------------------------------


class ResultItem(ResponseBody):
    """A document that matches. For conversations, a message."""

    id: str
    source: Source = Field(description="The kind of document. Conversations are `chats`.")
    title: str | None
    snippet: str | None = Field(
        description="Plain text around the match, at most `snippet_length` characters."
    )
    uri: str = Field(description="Identifies the document or message across sources.")
    score: float = Field(
        ge=0,
        le=1,
        description="That of the best result is how much of the query the best results contain, "
        "in words and in meaning; the others are relative to it. Scores of different sources can "
        "be compared.",
    )
    score_type: str
    created_at: str | None
    last_modified: str | None
    version: int | None
    tags: list[str] | None
    media_type: str | None
    url: str | None = Field(description="The web page the document came from.")
    conversation_id: str | None
    message_id: str | None
    sender: str | None = Field(description="For conversations, the author or role of the message.")
    loc: Metadata | None = Field(
        description="Where the match is. Pass it as `retrieval.loc` to read the text around it."
    )


class SearchResponse(ResponseBody):
    """A page of results, best or newest first."""

    results: list[ResultItem]
    has_more: bool
    next_offset: int | None = Field(description="The `offset` of the next page.")
    total_estimated: int | None
    partial: bool = Field(
        False,
        description="Whether the search was stopped because it took too long. There may be more "
        "and better results.",
    )
    weak: bool = Field(False, description="Whether the results are probably unrelated.")
    note: str | None = Field(None, description="Remarks on how the search was carried out.")
    corrections: dict[str, str] = Field(
        {}, description="Misspelled words of the query, and what was searched for instead."
    )
    nearest: list[ResultItem] = Field(
        [], description="If there are no results: up to three that are the closest in meaning."
    )


class GetResponse(ResponseBody):
    """A document or part of it."""

    meta: ResultItem
    content: str | dict[str, str] = Field(
        description="The text. For a complete character or prompt, its fields."
    )
    attachments: list[Metadata] | None = Field(
        description="The chunks, fields or messages the content consists of, with their positions."
    )
    page: Metadata | None = Field(
        None, description="For a complete document, which part this is and how to get the next."
    )
    note: str | None = Field(
        None, description="If the location is no longer in the document: what is returned instead."
    )


class Item(ResponseBody):
    """A document as it appears in lists."""

    id: str
    source: Source
    title: str | None
    uri: str
    created_at: str | None
    last_modified: str | None
    version: int = Field(description="Increases with every change.")
    tags: list[str] | None
    media_type: str | None
    url: str | None
    metadata: Metadata


class ItemList(ResponseBody):
    """A page of documents."""

    items: list[Item]
    total: int = Field(description="Number of documents on all pages.")
    limit: int
    offset: int


class Transcript(ResponseBody):
    """The transcript of a recording."""

    content: str | Metadata = Field(
        description="Text, SRT or VTT. With `format=json`, an object with `segments`."
    )


class MediaType(ResponseBody):
    media_type: str
    count: int


class MediaTypes(ResponseBody):
    """Types of media items."""

    types: list[MediaType] = Field(description="The types in the library, most frequent first.")
    suggested: list[str] = Field(description="Common types. Any other word is allowed as well.")


class ExportedDocument(BaseModel):
    """A complete document. Send it to `POST /api/knowledge/restore` to restore it."""

    model_config = ConfigDict(extra="allow")
    id: str
    messages: list[Metadata]


class DeletedItem(ResponseBody):
    """A deleted document."""

    success: Literal[True]
    source: Source
    id: str
    purge: PurgeState
    document: ExportedDocument | None = Field(
        None,
        description="With `undo=true`, the deleted document. "
        "Send it to `POST /api/knowledge/restore` to restore it.",
    )


# -- searching -------------------------------------------------------------------


class SearchOptions(BaseModel):
    """How to search, and which page to return."""

    limit: int = Field(20, description="Page size, from 1 to 100. Values outside are clamped.")
    offset: int = Field(0, description="Number of results to skip.")
    snippet_length: int | None = Field(
        None, description="Length of snippets, from 10 to 1000 characters. Defaults to 300."
    )
    order_by: Order = Field("relevance", description="Best first, or newest first.")
    mode: Mode = Field(
        "both", description="Search by words (`text`), by meaning (`vector`) or by `both`."
    )
    correct: bool = Field(
        True,
        description="Correct a word that occurs nowhere, if a frequent word is similar. "
        "A query with quotes is not corrected.",
    )
    rerank: bool | None = Field(
        None,
        description="Let a small model judge the first results: better for questions, slower. "
        "The default is what the setting `rerank` says.",
    )


class FilterParameters(BaseModel):
    """Filters as query parameters. Each applies to one source."""

    keywords: list[str] = Field([], description=f"Only notes with this keyword. {_ANY}")
    media_types: list[str] = Field([], description=f"Only media of this type. {_ANY}")
    date_from: str = Field(
        "", max_length=64, description="Only media since this date or time (ISO 8601)."
    )
    date_to: str = Field(
        "",
        max_length=64,
        description="Only media until this date or time (ISO 8601). A date includes its day.",
    )
    by: SearchIn | None = Field(None, description="Where to search in conversations.")
    character_id: str = Field(
        "", max_length=500, description="Only conversations with this character."
    )
    sender: str = Field("", max_length=500, description="Only messages of this role or author.")
    fields: list[PromptField] = Field(
        [], description="The fields of prompts to search in. Defaults to all."
    )


class SourceSearchParameters(SearchOptions, FilterParameters):
    query: str = Field(
        "",
        max_length=MAX_QUERY_LENGTH,
        description='A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses.',
    )
    q: str = Field("", max_length=MAX_QUERY_LENGTH, description="Alias of `query`.")
    limit: int = Field(10, description="Page size, from 1 to 100. Values outside are clamped.")


class SearchParameters(SourceSearchParameters):
    sources: list[Source] = Field(
        [], description="Search only these sources. Defaults to all. " + _ANY
    )
    limit: int = Field(20, description="Page size, from 1 to 100. Values outside are clamped.")


class MediaFilter(RequestBody):
    media_types: Words | None = None
    date_from: str | None = Field(None, max_length=64, description="ISO 8601.")
    date_to: str | None = Field(
        None, max_length=64, description="ISO 8601. A date includes its day."
    )
    order_by: Order | None = None


class NotesFilter(RequestBody):
    keywords: Words | None = None


class ChatsFilter(RequestBody):
    by: SearchIn | None = None
    character_id: int | str | None = None
    sender: str | None = Field(None, description="A role or the name of an author.")


class PromptsFilter(RequestBody):
    fields: Annotated[list[PromptField], Field(max_length=6)] | None = None


class CharactersFilter(RequestBody):
    """Reserved for future filters."""


class Filters(RequestBody):
    """Filters by source."""

    notes: NotesFilter | None = None
    media: MediaFilter | None = None
    chats: ChatsFilter | None = None
    characters: CharactersFilter | None = None
    prompts: PromptsFilter | None = None


class SearchRequest(SearchOptions, RequestBody):
    """The arguments of the tool `knowledge.search`."""

    query: str = Field(min_length=1, max_length=MAX_QUERY_LENGTH)
    sources: Annotated[list[Source], Field(max_length=5)] = Field(
        default_factory=list, description="Search only these sources. Defaults to all."
    )
    filters: Filters | None = None


# -- reading ---------------------------------------------------------------------


class ListParameters(BaseModel):
    search: str = Field("", description="Only documents whose title or id contains this text.")
    tags: list[str] = Field([], description=f"Only documents with this tag or keyword. {_ANY}")
    media_types: list[str] = Field([], description=f"Only media of this type. {_ANY}")
    limit: int = Field(50, description="Page size, from 1 to 200. Values outside are clamped.")
    offset: int = Field(0, description="Number of documents to skip.")


class RetrievalOptions(BaseModel):
    """How much of a document to return. Numbers out of range are clamped."""

    snippet_length: int | None = Field(
        None, description="Length of a snippet, from 10 to 1000 characters. Defaults to 300."
    )
    max_tokens: int | None = Field(
        None,
        description="Maximum length of the whole response, up to 50000 tokens. The response "
        "has some text even if that is too little for the rest of it.",
    )
    chars_per_token: float | None = Field(
        None, description="Number of characters that count as one token. Defaults to 4."
    )
    chunk_size_tokens: int | None = Field(
        None, description="Split the text into chunks of this size."
    )
    chunk_overlap_tokens: int | None = Field(
        None, description="How much consecutive chunks overlap."
    )
    sibling_window: int | None = Field(
        None, description="Number of chunks or messages on each side, from 0 to 20."
    )
    prefer_prechunked: bool | None = Field(None, description="Use the stored chunks.")
    query: str | None = Field(
        None,
        max_length=MAX_QUERY_LENGTH,
        description="What to look for if no location is given.",
    )
    offset: int | None = Field(
        None,
        description="For a complete text, the character to start with; for a complete "
        "conversation, the number of messages to skip, instead of `page`.",
    )


class Retrieval(RetrievalOptions, RequestBody):
    """How much of a document to return, and from where."""

    mode: RetrievalMode = "snippet"
    loc: Metadata | None = Field(None, description="The `loc` of a search result.")


class Location(BaseModel):
    """A location in a document as query parameters."""

    chunk_index: int | None = Field(None, description="Location: the number of a chunk.")
    chunk_uuid: str | None = Field(None, description="Location: the UUID of a chunk.")
    approx_offset: int | None = Field(None, description="Location: a character position.")
    seconds: float | None = Field(None, description="Location: a time in a recording.")
    field: str | None = Field(None, description="Location: a field of a character or prompt.")
    message_id: str | None = Field(None, description="Location: a message of a conversation.")
    message_index: int | None = Field(None, description="Location: the position of a message.")


class GetParameters(RetrievalOptions, Location):
    mode: RetrievalMode = Field("full", description="How much of the document to return.")
    page: int = Field(1, description="For a complete conversation, the page.")
    page_size: int = Field(
        50,
        description="Messages per page, from 1 to 200. Values outside are clamped.",
    )

    def retrieval(self) -> dict[str, Any]:
        """The same as a body of `POST /api/knowledge/get` has it."""
        location_fields = set(Location.model_fields)
        other_fields = {"mode", *RetrievalOptions.model_fields}
        options = self.model_dump(include=other_fields, exclude_none=True)
        options["loc"] = self.model_dump(include=location_fields, exclude_none=True)
        return options


class GetRequest(RequestBody):
    """The arguments of the tool `knowledge.get`."""

    source: Source
    id: str | int
    retrieval: Retrieval | None = None
    page: int = Field(1, description="For a complete conversation, the page.")
    page_size: int = Field(
        50,
        description="Messages per page, from 1 to 200. Values outside are clamped.",
    )


# -- writing -----------------------------------------------------------------------


class NoteFields(RequestBody):
    """The fields of a note."""

    title: Title = Field("", description="Defaults to the first line of the content.")
    content: str = ""
    keywords: Words = Field(default_factory=list)


class MediaFields(RequestBody):
    """The fields of a media item."""

    title: Title = ""
    media_type: Annotated[str, Field(max_length=100)] = Field(
        "txt", description="One of `GET /api/knowledge/media-types`, or any other word."
    )
    content: str = ""
    transcript: str | list[Any] | Metadata = Field(
        "",
        description="A transcript with times instead of `content`: SRT, VTT, SBV, or JSON with "
        "`segments`.",
    )
    url: Annotated[str, Field(max_length=10_000)] = ""
    author: Title = ""
    language: Annotated[str, Field(max_length=100)] = ""
    created_at: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        "", description="ISO 8601. Defaults to now."
    )
    keywords: Words = Field(default_factory=list)


class CharacterFields(RequestBody):
    """The fields of a character."""

    name: Title = Field("", description="Required here or in the card.")
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
        default_factory=dict, description="A character card, or only its `data`."
    )


class PromptFields(RequestBody):
    """The fields of a prompt."""

    name: Title = Field("", description="Required.")
    author: Title = ""
    details: str = ""
    system_prompt: str = ""
    user_prompt: str = ""
    keywords: Words = Field(default_factory=list)


ItemFields = NoteFields | MediaFields | CharacterFields | PromptFields


class _Change(BaseModel):
    """A change: fields in the request replace the stored ones, and the others stay."""

    version: int | None = Field(
        None,
        ge=1,
        description="The version you want to change. "
        "The request fails with 409 if the document has changed since.",
    )


class NoteChange(_Change, NoteFields):
    """Changes to a note."""


class MediaChange(_Change, MediaFields):
    """Changes to a media item."""


class CharacterChange(_Change, CharacterFields):
    """Changes to a character."""


class PromptChange(_Change, PromptFields):
    """Changes to a prompt."""


class RestoredDocument(BaseModel):
    """The `document` that a deletion with `undo=true` returned, unchanged."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = Field(None, max_length=100)
    kind: Literal["note", "media", "character", "prompt"]
    messages: list[Any]
