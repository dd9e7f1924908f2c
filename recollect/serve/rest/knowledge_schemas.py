"""Schemas of the Knowledge API (docs/contracts/knowledge-api.md): queries, bodies and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from recollect.serve.rest.schemas import Metadata, PurgeState, RequestBody, ResponseBody, about
from recollect.settings import LIMITS

Source = Literal["notes", "media", "chats", "characters", "prompts"]
Order = Literal["relevance", "recent"]
SearchIn = Literal["both", "title", "message"]
PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]
Title = Annotated[str, Field(max_length=500)]
Words = Annotated[list[str], Field(max_length=100)]
Date = Annotated[str, Field(max_length=64)]
PageSize = Annotated[int, about("Page size, from 1 to 100. Values outside are clamped.")]

_ANY = "Repeat the parameter to allow several."
_RESTORE = "Send it to `POST /api/knowledge/restore` to restore it."
MAX_QUERY_LENGTH = LIMITS.long_query_bytes  # of a text of several lines


# -- responses ---


class ResultItem(ResponseBody):
    """A document that matches. For conversations, a message."""

    id: str
    source: Source = about("The kind of document. Conversations are `chats`.")
    title: str | None
    snippet: str | None = about("Plain text around the match, at most `snippet_length` characters.")
    uri: str = about("Identifies the document or message across sources.")
    score: float = about(
        "How much of the query it has. Scores of different sources can be compared.", ge=0, le=1
    )
    score_type: str
    created_at: str | None
    last_modified: str | None
    version: int | None
    tags: list[str] | None
    media_type: str | None
    url: str | None = about("The web page the document came from.")
    conversation_id: str | None
    message_id: str | None
    sender: str | None = about("For conversations, the author or role of the message.")
    loc: Metadata | None = about(
        "Where the match is. Pass it as `retrieval.loc` to read the text around it."
    )


class SearchResponse(ResponseBody):
    """A page of results, best or newest first."""

    results: list[ResultItem]
    has_more: bool
    next_offset: int | None = about("The `offset` of the next page.")
    total_estimated: int | None
    partial: bool = about(
        "The search was stopped because it took too long: there may be better results.", False
    )
    weak: bool = about("Whether the results are probably unrelated.", False)
    note: str | None = about("Remarks on how the search was carried out.", None)
    corrections: dict[str, str] = about(
        "Misspelled words of the query, and what was searched for instead.", {}
    )
    nearest: list[ResultItem] = about(
        "If there are no results: up to three that are the closest in meaning.", []
    )


class GetResponse(ResponseBody):
    """A document or part of it."""

    meta: ResultItem
    content: str | dict[str, str] = about(
        "The text. For a complete character or prompt, its fields."
    )
    attachments: list[Metadata] | None = about(
        "The chunks, fields or messages the content consists of, with their positions."
    )
    page: Metadata | None = about(
        "For a complete document, which part this is and how to get the next.", None
    )
    note: str | None = about(
        "If the location is no longer in the document: what is returned instead.", None
    )


class Item(ResponseBody):
    """A document as it appears in lists."""

    id: str
    source: Source
    title: str | None
    uri: str
    created_at: str | None
    last_modified: str | None
    version: int = about("Increases with every change.")
    tags: list[str] | None
    media_type: str | None
    url: str | None
    metadata: Metadata


class ItemList(ResponseBody):
    """A page of documents."""

    items: list[Item]
    total: int = about("Number of documents on all pages.")
    limit: int
    offset: int


class Transcript(ResponseBody):
    """The transcript of a recording."""

    content: str | Metadata = about(
        "Text, SRT or VTT. With `format=json`, an object with `segments`."
    )


class MediaType(ResponseBody):
    media_type: str
    count: int


class MediaTypes(ResponseBody):
    """Types of media items."""

    types: list[MediaType] = about("The types in the library, most frequent first.")
    suggested: list[str] = about("Common types. Any other word is allowed as well.")


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
    document: ExportedDocument | None = about(f"With `undo=true`. {_RESTORE}", None)


# -- searching ---


class SearchOptions(BaseModel):
    """How to search, and which page to return."""

    limit: PageSize = 20
    offset: int = about("Number of results to skip.", 0)
    snippet_length: int | None = about(
        "Length of snippets, from 10 to 1000 characters. Defaults to 300.", None
    )
    order_by: Order = about("Best first, or newest first.", "relevance")
    mode: Literal["both", "text", "vector"] = about(
        "Search by words (`text`), by meaning (`vector`) or by `both`.", "both"
    )
    correct: bool = about("Correct words that occur nowhere, unless the query has quotes.", True)
    rerank: bool | None = about(
        "Let a small model judge the first results. Defaults to the setting `rerank`.", None
    )


class SourceSearchParameters(SearchOptions):
    """A search as query parameters. Each filter applies to one source."""

    keywords: list[str] = about(f"Only notes with this keyword. {_ANY}", [])
    media_types: list[str] = about(f"Only media of this type. {_ANY}", [])
    date_from: Date = about("Only media since this date or time (ISO 8601).", "")
    date_to: Date = about(
        "Only media until this date or time (ISO 8601). A date includes its day.", ""
    )
    by: SearchIn | None = about("Where to search in conversations.", None)
    character_id: Title = about("Only conversations with this character.", "")
    sender: Title = about("Only messages of this role or author.", "")
    fields: list[PromptField] = about("The fields of prompts to search in. Defaults to all.", [])
    query: str = about(
        'A question, words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses.',
        "",
        max_length=MAX_QUERY_LENGTH,
    )
    limit: PageSize = 10


FILTER_SOURCES = {
    "keywords": "notes",
    "media_types": "media",
    "date_from": "media",
    "date_to": "media",
    "by": "chats",
    "character_id": "chats",
    "sender": "chats",
    "fields": "prompts",
}
"""The source that each filter applies to."""


class SearchParameters(SourceSearchParameters):
    sources: list[Source] = about(f"Search only these sources. Defaults to all. {_ANY}", [])
    limit: PageSize = 20


class SearchRequest(SearchOptions, RequestBody):
    """The arguments of the tool `knowledge.search`."""

    query: str = Field(min_length=1, max_length=MAX_QUERY_LENGTH)
    sources: Annotated[list[Source], Field(max_length=5)] = about(
        "Search only these sources. Defaults to all.", default_factory=list
    )
    filters: dict[str, Metadata] | None = about(
        "Filters by source, named as the query parameters: "
        '`{"notes": {"keywords": ["garden"]}, "media": {"order_by": "recent"}}`.',
        None,
    )


# -- reading ---


class ListParameters(BaseModel):
    search: str = about("Only documents whose title or id contains this text.", "")
    tags: list[str] = about(f"Only documents with this tag or keyword. {_ANY}", [])
    media_types: list[str] = about(f"Only media of this type. {_ANY}", [])
    limit: int = about("Page size, from 1 to 200. Values outside are clamped.", 50)
    offset: int = about("Number of documents to skip.", 0)


class RetrievalOptions(BaseModel):
    """How much of a document to return. Numbers out of range are clamped."""

    mode: Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"] = about(
        "How much of the document to return.", "full"
    )
    snippet_length: int | None = about(
        "Length of a snippet, from 10 to 1000 characters. Defaults to 300.", None
    )
    max_tokens: int | None = about(
        "Maximum length of the whole response, up to 50000 tokens.", None
    )
    chars_per_token: float | None = about(
        "Number of characters that count as one token. Defaults to 4.", None
    )
    chunk_size_tokens: int | None = about("Split the text into chunks of this size.", None)
    chunk_overlap_tokens: int | None = about("How much consecutive chunks overlap.", None)
    sibling_window: int | None = about(
        "Number of chunks or messages on each side, from 0 to 20.", None
    )
    prefer_prechunked: bool | None = about("Use the stored chunks.", None)
    query: str | None = about(
        "What to look for if no location is given.", None, max_length=MAX_QUERY_LENGTH
    )
    offset: int | None = about(
        "Complete texts start with this character, complete conversations with this message.", None
    )


class Location(BaseModel):
    """A location in a document as query parameters."""

    chunk_index: int | None = about("Location: the number of a chunk.", None)
    chunk_uuid: str | None = about("Location: the UUID of a chunk.", None)
    approx_offset: int | None = about("Location: a character position.", None)
    seconds: float | None = about("Location: a time in a recording.", None)
    field: str | None = about("Location: a field of a character or prompt.", None)
    message_id: str | None = about("Location: a message of a conversation.", None)
    message_index: int | None = about("Location: the position of a message.", None)


class PageParameters(BaseModel):
    page: int = about("For a complete conversation, the page.", 1)
    page_size: int = about("Messages per page, from 1 to 200. Values outside are clamped.", 50)


class GetParameters(PageParameters, RetrievalOptions, Location):
    """What to read of a document, as query parameters."""

    def retrieval(self) -> dict[str, Any]:
        """The same as a body of `POST /api/knowledge/get` has it."""
        location = set(Location.model_fields)
        options = self.model_dump(include=set(RetrievalOptions.model_fields), exclude_none=True)
        return options | {"loc": self.model_dump(include=location, exclude_none=True)}


class GetRequest(PageParameters, RequestBody):
    """The arguments of the tool `knowledge.get`."""

    source: Source
    id: str | int
    retrieval: Metadata | None = about(
        "`mode` (by default `snippet`), `loc` of a search result, and the options of "
        "`GET /api/knowledge/{source}/{item_id}`.",
        None,
    )


# -- writing ---


class NoteFields(RequestBody):
    """The fields of a note."""

    title: Title = about("Defaults to the first line of the content.", "")
    content: str = ""
    keywords: Words = Field(default_factory=list)


class MediaFields(RequestBody):
    """The fields of a media item."""

    title: Title = ""
    media_type: Annotated[str, Field(max_length=100)] = about(
        "One of `GET /api/knowledge/media-types`, or any other word.", "txt"
    )
    content: str = ""
    transcript: str | list[Any] | Metadata = about(
        "A transcript with times instead of `content`: SRT, VTT, SBV, or JSON with `segments`.", ""
    )
    url: Annotated[str, Field(max_length=10_000)] = ""
    author: Title = ""
    language: Annotated[str, Field(max_length=100)] = ""
    created_at: Annotated[str, Field(min_length=1, max_length=64)] = about(
        "ISO 8601. Defaults to now.", ""
    )
    keywords: Words = Field(default_factory=list)


class CharacterFields(RequestBody):
    """The fields of a character."""

    name: Title = about("Required here or in the card.", "")
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
    card: Metadata = about("A character card, or only its `data`.", default_factory=dict)


class PromptFields(RequestBody):
    """The fields of a prompt."""

    name: Title = about("Required.", "")
    author: Title = ""
    details: str = ""
    system_prompt: str = ""
    user_prompt: str = ""
    keywords: Words = Field(default_factory=list)


class Versioned(RequestBody):
    """A change: fields in the request replace the stored ones, and the others stay."""

    version: int | None = about(
        "The version you want to change. With another one, the answer is 409.", None, ge=1
    )


def change_of(fields: type[RequestBody]) -> type[RequestBody]:
    """The body of a request that changes some of these fields."""
    name = fields.__name__.removesuffix("Fields") + "Change"
    bases = (Versioned, fields)
    model: type[RequestBody] = create_model(name, __base__=bases, __doc__=Versioned.__doc__)
    return model


class RestoredDocument(BaseModel):
    """The `document` that a deletion with `undo=true` returned, unchanged."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str = Field(min_length=1)
    source: str | None = Field(None, max_length=100)
    kind: Literal["note", "media", "character", "prompt"]
    messages: list[Any]
