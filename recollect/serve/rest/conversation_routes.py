"""Routes of the Persistence API: list, read, search, change, delete and export conversations.

See docs/contracts/persistence-api.md. An id in a path may contain any character, including slashes.
Percent-encode the whole id, as `encodeURIComponent` does. Two ids cannot be read with GET because
the contract uses their paths for something else: `search/messages`, and ids that begin with
`by-session/`. An id that ends in `/messages` can only be read if its slash is encoded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from recollect.errors import InvalidInput, NotFound
from recollect.model.documents import Passage
from recollect.model.fields import conversation_shape, message_shape
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import NO_CONVERSATION, Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE, Forbidden
from recollect.serve.masking import can_find, has_masked_messages, mask_passage, visible_document
from recollect.serve.rest import schemas
from recollect.serve.rest.schemas import (
    Limit,
    Offset,
    PageSize,
    about,
    change_shape,
    clamp_page,
    created_status,
    not_found_as,
)
from recollect.transfer import export
from recollect.transfer.restoring import parse_export

routes = Routes("conversations", CONVERSATIONS, document="conversation_id")

FORMATS = ("json", "txt", "md")

ConversationId = Annotated[
    str, Path(description="The id of the conversation, percent-encoded.", min_length=1)
]


# -- listing and reading -------------------------------------------------------


class ListParameters(BaseModel):
    """Which conversations to list, in which order, and which page."""

    limit: PageSize = 50
    offset: int = about("Number of results to skip. A cursor is more reliable.", 0)
    cursor: str | None = about(
        "`next_cursor` of the page before, or empty for the first page. Unlike pages by `offset`, "
        "these pages do not shift when conversations change.",
        None,
        max_length=200,
    )
    sort: Literal["updated", "pinned", "added"] = about(
        "`updated`: last changed first. `pinned`: the same, but pinned ones first. `added`: newest "
        "in the library first. With a cursor, every conversation is listed exactly once.",
        "updated",
    )
    namespace: str = about("Only conversations of this project.", "")
    search: str = about("Only conversations whose title or id contains this text.", "")
    tag: list[str] = about("Only conversations with one of these tags.", [])
    source: list[str] = about(
        "Only conversations from one of these sources, such as `chatgpt`.", []
    )
    pinned: bool | None = about("Only conversations that are pinned, or only the others.", None)

    def filter(self) -> Filter:
        projects = [self.namespace] if self.namespace else []
        return Filter.of(projects=projects, tags=self.tag, sources=self.source, pinned=self.pinned)


@routes.add("GET /conversations", READ, of_contract=True, returns=schemas.ConversationList)
def list_conversations(
    access: AccessTo, parameters: Annotated[ListParameters, Query()]
) -> Response:
    """Returns conversations, most recently updated first.

    To read the whole list, send `cursor=` and then follow `next_cursor` until it is null. To search
    what messages say, use `GET /api/v1/search`.
    """
    limit, offset = clamp_page(parameters.limit, parameters.offset)
    cursor = parameters.cursor or None
    if offset and (cursor or parameters.sort != "updated"):
        raise InvalidInput("offset: use either a cursor or an offset, and sort with a cursor only.")
    with access.read() as library:
        if offset:
            summaries, total = library.conversation_page(
                parameters.filter(), limit=limit, offset=offset, title=parameters.search
            )
        else:
            page = library.list_page(
                parameters.filter(),
                title=parameters.search,
                limit=limit,
                sort=parameters.sort,
                cursor=cursor,
            )
            summaries, total, cursor = page.summaries, page.total, page.cursor
    body: dict[str, Any] = {
        "conversations": [conversation_shape(summary) for summary in summaries],
        "total": total,
        "limit": limit,
        "offset": offset,
    }
    if parameters.cursor is not None:  # the Persistence API has no cursors
        body["next_cursor"] = cursor
    return json_response(body)


@routes.add(
    "GET /conversations/search/messages",
    READ,
    document="conversation_id",
    rate_limit=SEARCH,
    of_contract=True,
    returns=schemas.MessageList,
)
def search_messages(
    access: AccessTo,
    query: Annotated[str, Query(description="The text to search for. Case is ignored.")] = "",
    conversation_id: Annotated[str, Query(description="Only messages of this conversation.")] = "",
    limit: Limit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns messages that contain a text, newest first, without ranking.

    This is the search of the Persistence API. `GET /api/v1/search` is the one to use otherwise: it
    understands words and questions, and puts the best hits first.
    """
    text = query.strip()
    if not text:
        raise InvalidInput("Query parameter 'query' must not be empty")
    limit, offset = clamp_page(limit, offset)
    with access.read() as library, not_found_as(NO_CONVERSATION):
        audience = access.principal.audience
        matches = library.find_text(text, conversation_id or None, limit, offset, audience=audience)
    messages = [
        message_shape(mask_passage(passage, audience), conversation)
        for conversation, passage in matches.messages
    ]
    return json_response({"messages": messages, "total": matches.total})


@routes.add(
    "GET /conversations/by-session/{session_id:id}", READ, returns=schemas.ConversationDetail
)
def get_conversation_by_session(
    access: AccessTo,
    session_id: Annotated[
        str, Path(description="The id of the session, percent-encoded.", min_length=1)
    ],
) -> Response:
    """Returns the conversation of a session with its messages in order."""
    with access.read() as library, not_found_as(NO_CONVERSATION):
        conversation = PersistenceApi(library).get_conversation_by_session(session_id)
        if conversation is None:
            raise NotFound(NO_CONVERSATION)
        access.check_reach(library, conversation["id"])
    return get_conversation(access, conversation["id"])


@routes.add("GET /conversations/{conversation_id:id}/messages", READ, returns=schemas.MessagePage)
def list_messages(
    access: AccessTo,
    conversation_id: ConversationId,
    after: Annotated[str, Query(description="Only messages after the one with this id.")] = "",
    before: Annotated[str, Query(description="Only messages before the one with this id.")] = "",
    limit: Limit = 50,
) -> Response:
    """Returns one page of a conversation, in order: its beginning, or what follows a message.

    With `before`, the page ends right before that message. Follow `after` to read everything.
    """
    if after and before:
        raise InvalidInput("before: use either `after` or `before`, not both.")
    limit, _ = clamp_page(limit, 0)
    with access.read() as library:
        with not_found_as(NO_CONVERSATION):
            conversation = library.summary(conversation_id)
        start = 0
        if after:
            start = library.message(conversation.id, after).position + 1
        if before:
            end = library.message(conversation.id, before).position
            start = max(0, end - limit)
            limit = end - start
        passages: list[Passage] = []
        total = conversation.message_count
        if limit:
            passages, total = library.messages(conversation.id, start, limit)
    audience = access.principal.audience
    is_first = not passages or passages[0].position == 0
    is_last = not passages or passages[-1].position + 1 >= total
    return json_response(
        {
            "messages": [
                message_shape(mask_passage(passage, audience), conversation.id)
                for passage in passages
                if can_find(passage, audience)
            ],
            "total": total,
            "before": None if is_first else passages[0].id,
            "after": None if is_last else passages[-1].id,
        }
    )


@routes.add("GET /conversations/{conversation_id:id}/export", READ, is_hidden=True)
def download_conversation(
    access: AccessTo, conversation_id: ConversationId, format: str = "json"
) -> Response:
    return export_conversation(access, conversation_id, format)


@routes.add(
    "GET /conversations/{conversation_id:id}",
    READ,
    of_contract=True,
    returns=schemas.ConversationDetail,
)
def get_conversation(access: AccessTo, conversation_id: ConversationId) -> Response:
    """Returns a conversation with its messages in order."""
    with access.read() as library, not_found_as(NO_CONVERSATION):
        document = library.conversation(conversation_id)
    visible = visible_document(document, access.principal.audience)
    messages = [message_shape(passage, visible.id) for passage in visible.passages]
    return json_response({**conversation_shape(visible), "messages": messages})


# -- changing ------------------------------------------------------------------


@routes.add(
    "PUT /conversations/{conversation_id:id}",
    WRITE,
    of_contract=True,
    returns=schemas.ConversationResult,
)
def update_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    title: Annotated[str | None, Query(description="The new title.")] = None,
    namespace: Annotated[
        str | None, Query(description="The new project.", min_length=1, max_length=500)
    ] = None,
    tags: Annotated[
        list[str] | None,
        Query(description="The new tags, which replace the old ones. Send `tags=` for none."),
    ] = None,
) -> Response:
    """Changes the title, the project or the tags. Anything you leave out stays the same.

    This is the route of the Persistence API. `PATCH` can change more.
    """
    changes = schemas.ConversationChanges(title=title, namespace=namespace, tags=tags)
    return json_response(
        {"success": True, "conversation_id": _change(access, conversation_id, changes)}
    )


@routes.add("PATCH /conversations/{conversation_id:id}", WRITE, returns=schemas.Conversation)
def change_conversation(
    access: AccessTo, conversation_id: ConversationId, changes: schemas.ConversationChanges
) -> Response:
    """Changes the title, project, tags, pin or metadata, and returns the conversation."""
    if changes.title and changes.model_dump(exclude_none=True).keys() == {"title"}:
        with access.write() as library, not_found_as(NO_CONVERSATION):
            library.rename(conversation_id, changes.title)  # keeps its date, unlike PUT
    else:
        conversation_id = _change(access, conversation_id, changes)
    with access.write() as library, not_found_as(NO_CONVERSATION):
        return json_response(conversation_shape(library.summary(conversation_id)))


def _change(access: Access, conversation_id: str, changes: schemas.ConversationChanges) -> str:
    """Change a conversation, and return its whole id."""
    with access.write() as library, not_found_as(NO_CONVERSATION):
        id = library.summary(conversation_id).id
        if changes.model_dump(exclude_none=True).keys() == {"pinned"}:
            library.pin(conversation_id, pinned=bool(changes.pinned))
            return id
        library.update_conversation(
            conversation_id,
            title=changes.title,
            project=changes.namespace,
            tags=changes.tags,
            metadata=changes.metadata,
            pinned=changes.pinned,
        )
    return id


@routes.add(
    "DELETE /conversations/{conversation_id:id}",
    WRITE,
    of_contract=True,
    returns=schemas.DeletedConversation,
)
def delete_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    undo: Annotated[
        bool, Query(description="Return the deleted conversation, so that it can be restored.")
    ] = False,
    trash: Annotated[
        bool,
        Query(
            description="Keep a copy on the server for a while (RECOLLECT_UNDO_MINUTES), so that "
            "the deletion can be undone. The text is purged after that."
        ),
    ] = False,
) -> Response:
    """Deletes a conversation permanently, with its messages, index entries and vectors."""
    body: dict[str, Any] = {"success": True, "conversation_id": conversation_id}
    if undo:
        access.require(READ)
    with access.write() as library, not_found_as(NO_CONVERSATION):
        audience = access.principal.audience
        if undo and has_masked_messages(library.conversation(conversation_id), audience):
            raise Forbidden(
                "This conversation has human-only messages, so an agent's key cannot get a copy of "
                "it. Delete it without undo=true, or use the key of a person."
            )
        if undo:
            deleted = library.delete_conversation(conversation_id)
            body |= {"conversation_id": deleted.id, "conversation": export.as_json(deleted)}
        elif trash:
            change = library.trash(conversation_id)
            body |= {"conversation_id": change.id, "change": change_shape(change)}
        else:
            body["conversation_id"] = library.delete_conversation(conversation_id).id
        body["purge"] = library.purge_status().state
    return json_response(body)


@routes.add(
    "POST /conversations/restore",
    WRITE,
    returns=schemas.ConversationResult,
    existing="The conversation exists and is identical to the export.",
)
def restore_conversation(access: AccessTo, conversation: schemas.RestoredConversation) -> Response:
    """Restores a deleted conversation from its JSON export."""
    document = parse_export(conversation.model_dump(exclude_unset=True))
    if document.kind != CONVERSATION:
        access.require(WRITE, KNOWLEDGE)
    with access.write() as library:
        restored, is_new = library.restore_document(document)
    body = {"success": True, "conversation_id": restored.id}
    return json_response(body, created_status(is_new))


# -- exporting -----------------------------------------------------------------


@routes.add(
    "POST /conversations/{conversation_id:id}/export",
    READ,
    of_contract=True,
    returns=schemas.ExportedConversation | schemas.ExportedText,
)
def export_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    format: Annotated[
        str, Query(description="`json`, `txt` or `md`.", json_schema_extra={"enum": [*FORMATS]})
    ] = "json",
) -> Response:
    """Returns a complete conversation: as JSON, which can be restored, as text or as Markdown."""
    if format not in FORMATS:
        raise InvalidInput("Invalid format. Supported: json, txt, md")
    with access.read() as library, not_found_as(NO_CONVERSATION):
        document = library.conversation(conversation_id)
    visible = visible_document(document, access.principal.audience)
    if format == "json":
        return json_response(export.as_json(visible))
    if format == "txt":
        content = export.as_text(visible)
    else:
        content = export.as_markdown(visible)
    return json_response({"content": content, "format": format})
