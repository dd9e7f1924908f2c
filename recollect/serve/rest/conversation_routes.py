"""Contract 1: conversations, listed, read, renamed, deleted, searched and exported; and ways to save them.

An id in a path may hold any character, a slash too. Percent-encode it whole,
as `encodeURIComponent` does. Two ids cannot be read by GET because the contract
gives their paths to something else: `search/messages`, and any that begins
with `by-session/`.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.language.text import bound, identifier, truncate
from recollect.library import Library
from recollect.model.audience import HUMAN_ONLY, is_marked_human_only
from recollect.model.documents import Document, Passage
from recollect.model.fields import conversation_shape, message_shape
from recollect.model.receipts import Problem
from recollect.serve.http.access import AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.principal import Forbidden, Principal
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import JsonRoute, clamp, not_found_as
from recollect.serve.masking import is_masked, mask_document, mask_passage
from recollect.serve.rest import schemas
from recollect.serve.rest.stored_messages import stored_message
from recollect.settings import LIMITS
from recollect.transfer import export

router = APIRouter(tags=["conversations"], route_class=JsonRoute)

NO_CONVERSATION = "Conversation not found"
FORMATS = ("json", "txt", "md")
_TITLE_LENGTH = 50

ConversationId = Annotated[
    str, Path(description="The conversation's id, percent-encoded.", min_length=1)
]
Limit = Annotated[int, Query(description="How many at most; values outside 1 to 200 are clamped.")]
Offset = Annotated[int, Query(description="How many to skip.")]


# -- listing and reading -------------------------------------------------------


@router.get("/conversations", responses={200: {"model": schemas.ConversationList}})
def list_conversations(
    access: AccessTo,
    limit: Limit = 50,
    offset: Offset = 0,
    namespace: Annotated[str, Query(description="Only conversations of this namespace.")] = "",
    search: Annotated[str, Query(description="A text that the title or the id must contain.")] = "",
) -> Response:
    """Conversations, last changed first."""
    limit, offset = clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)
    with access.read() as library:
        found, total = library.conversations(
            limit=limit, offset=offset, projects=[namespace] if namespace else (), search=search
        )
    shown = [conversation_shape(summary) for summary in found]
    return json_response({"conversations": shown, "total": total, "limit": limit, "offset": offset})


@router.get("/conversations/search/messages", responses={200: {"model": schemas.MessageList}})
@route_policy(rate_limit=SEARCH)
def search_messages(
    access: AccessTo,
    query: Annotated[str, Query(description="A text that the contents must contain.")] = "",
    conversation_id: Annotated[str, Query(description="Look only in this conversation.")] = "",
    limit: Limit = 50,
    offset: Offset = 0,
) -> Response:
    """Messages that contain a text, newest first."""
    text = query.strip()
    if not text:
        raise InvalidInput("Query parameter 'query' must not be empty")
    limit, offset = clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)
    with access.read() as library, not_found_as(NO_CONVERSATION):
        found, total = library.find_text(text, conversation_id or None, limit, offset)
    shown = [
        message_shape(mask_passage(passage, access.principal.audience), document)
        for document, passage in found
    ]
    return json_response({"messages": shown, "total": total})


@router.get(
    "/conversations/by-session/{session_id:id}",
    responses={200: {"model": schemas.ConversationDetail}},
)
def get_conversation_by_session(
    access: AccessTo,
    session_id: Annotated[
        str, Path(description="The session's id, percent-encoded.", min_length=1)
    ],
) -> Response:
    """The conversation of a session, with its messages."""
    with access.read() as library, not_found_as(NO_CONVERSATION):
        found = library.get_conversation_by_session(session_id)
        if found is None:
            raise NotFound(NO_CONVERSATION)
        document = library.conversation(found["id"])
    return json_response(_detail(access.principal, document))


@router.get(
    "/conversations/{conversation_id:id}",
    responses={200: {"model": schemas.ConversationDetail}},
)
def get_conversation(access: AccessTo, conversation_id: ConversationId) -> Response:
    """One conversation, with its messages in order."""
    with access.read() as library, not_found_as(NO_CONVERSATION):
        document = library.conversation(conversation_id)
    return json_response(_detail(access.principal, document))


def _detail(principal: Principal, document: Document) -> dict[str, Any]:
    shown = mask_document(document, principal.audience)
    messages = [message_shape(passage, shown.id) for passage in shown.passages]
    return {**conversation_shape(shown), "messages": messages}


# -- changing ------------------------------------------------------------------


@router.put("/conversations/{conversation_id:id}", responses={200: {"model": schemas.Changed}})
def update_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    title: Annotated[str | None, Query(description="A new title.")] = None,
    namespace: Annotated[
        str | None, Query(description="A new namespace.", min_length=1, max_length=500)
    ] = None,
    tags: Annotated[
        list[str] | None, Query(description="New tags, instead of all it has; empty for none.")
    ] = None,
) -> Response:
    """Change a conversation's title, namespace or tags. What is not given stays as it is."""
    kept = None if tags is None else [tag for tag in tags if tag.strip()]
    with access.write() as library, not_found_as(NO_CONVERSATION):
        library.update_conversation(conversation_id, title=title, project=namespace, tags=kept)
    return json_response({"success": True, "conversation_id": conversation_id})


@router.delete("/conversations/{conversation_id:id}", responses={200: {"model": schemas.Deleted}})
def delete_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    undo: Annotated[
        bool, Query(description="Give out what is deleted, so that it can be put back.")
    ] = False,
) -> Response:
    """Delete a conversation for good: its messages, and everything that was made of them."""
    done: dict[str, Any] = {"success": True, "conversation_id": conversation_id}
    with access.write() as library, not_found_as(NO_CONVERSATION):
        if undo and access.principal.agent:
            _demand_whole(access.principal, library.conversation(conversation_id))
        deleted = library.delete_conversation(conversation_id)
    if undo:
        done["conversation"] = export.as_json(deleted)
    return json_response(done)


def _demand_whole(principal: Principal, document: Document) -> None:
    if any(is_masked(passage, principal.audience) for passage in document.passages):
        raise Forbidden(
            "This conversation has messages that only people may see, so an agent's key cannot take it along."
        )


@router.post(
    "/conversations/restore",
    status_code=201,
    responses={
        201: {"model": schemas.Changed},
        200: {"model": schemas.Changed, "description": "It is there, as the export says."},
    },
)
def restore_conversation(access: AccessTo, conversation: schemas.RestoredConversation) -> Response:
    """Put a deleted conversation back, from its export in JSON."""
    document = exported(conversation.model_dump(exclude_unset=True))
    with access.write() as library:
        there = library.store.find_id(document.source, document.source_id)
        if there is not None and export.as_json(library.conversation(there)) != export.as_json(
            document
        ):
            raise Conflict("This conversation is in the library, and has changed since the export.")
        restored = there or library.restore_conversation(document).id
    return json_response({"success": True, "conversation_id": restored}, 200 if there else 201)


def exported(conversation: dict[str, Any], what: str = "conversation") -> Document:
    """The conversation (or other document) that an export holds, read as the importer reads a file."""
    written = json.dumps(conversation).encode()
    found = [*own.read(Entry("export.json", len(written), lambda: io.BytesIO(written)))]
    for problem in found:
        if isinstance(problem, Problem) and problem.failed:
            raise InvalidInput(
                f"This is no export of a {what}: {problem.reason} ({problem.where})."
            )
    documents = [document for document in found if isinstance(document, Document)]
    if len(documents) != 1:
        raise InvalidInput(f"This is no export of one {what}.")
    return documents[0]


# -- exporting -----------------------------------------------------------------


@router.post(
    "/conversations/{conversation_id:id}/export",
    responses={200: {"model": schemas.ExportedConversation | schemas.ExportedText}},
)
def export_conversation(
    access: AccessTo,
    conversation_id: ConversationId,
    format: Annotated[
        str, Query(description="json, txt or md.", json_schema_extra={"enum": [*FORMATS]})
    ] = "json",
) -> Response:
    """A whole conversation: as JSON from which it can be restored, as plain text, or as Markdown."""
    if format not in FORMATS:
        raise InvalidInput("Invalid format. Supported: json, txt, md")
    with access.read() as library, not_found_as(NO_CONVERSATION):
        document = library.conversation(conversation_id)
    shown = mask_document(document, access.principal.audience)
    if format == "json":
        return json_response(export.as_json(shown))
    text = export.as_text(shown) if format == "txt" else export.as_markdown(shown)
    return json_response({"content": text, "format": format})


# -- writing -------------------------------------------------------------------


@router.post(
    "/conversations",
    status_code=201,
    responses={
        201: {"model": schemas.Conversation},
        200: {"model": schemas.Conversation, "description": "It was there already."},
    },
)
def create_conversation(access: AccessTo, conversation: schemas.NewConversation) -> Response:
    """Make a conversation, with messages or without. The same call again changes nothing."""
    identity = _either(conversation.id, conversation.conversation_id, "id", "conversation_id")
    known_by = conversation.session_id or identity
    given = _passages(conversation.messages)
    with access.write() as library:
        there = known_by is not None and library.get_conversation_by_session(known_by) is not None
        if not there:
            _demand_parents(given)
        wanted = (
            identity,
            conversation.session_id,
            conversation.title,
            conversation.namespace,
            conversation.metadata,
        )
        try:
            made = library.create_conversation(*wanted)
        except Conflict:  # or somebody made the very same one at this moment: then it is there now
            made = library.create_conversation(*wanted)
        # Ids that follow from the place make the same call again the same messages.
        passages = [p if p.id else p._replace(id=f"{made['id']}:{n}") for n, p in enumerate(given)]
        added = _add(library, made["id"], passages)
        if added:
            made = conversation_shape(library.store.summary(made["id"]))
    return json_response(made, 200 if there and not added else 201)


@router.post(
    "/conversations/messages",
    status_code=201,
    responses={
        201: {"model": schemas.SavedInteraction},
        200: {"model": schemas.SavedInteraction, "description": "All of it was there already."},
    },
)
def save_interaction(access: AccessTo, interaction: schemas.Interaction) -> Response:
    """Save an exchange in one call: the conversation of the session is made if there is none, and these
    messages are added to it, all or none."""
    title = _title(interaction.messages) if interaction.title is None else interaction.title
    passages = [
        p if p.id else p._replace(id=str(uuid.uuid4())) for p in _passages(interaction.messages)
    ]
    with access.write() as library:
        there = library.get_conversation_by_session(interaction.session_id)
        if there is None:
            _demand_parents(passages)
        found = there or library.create_conversation(
            session_id=interaction.session_id, title=title, namespace=interaction.namespace
        )
        added = _add(library, found["id"], passages)
    done = {
        "success": True,
        "conversation_id": found["id"],
        "session_id": interaction.session_id,
        "created": there is None,
        "message_ids": [passage.id for passage in passages],
        "added": added,
    }
    return json_response(done, 201 if added else 200)


@router.post(
    "/conversations/{conversation_id:id}/messages",
    status_code=201,
    responses={
        201: {"model": schemas.Saved},
        200: {"model": schemas.Saved, "description": "It was there already."},
    },
)
def add_message(
    access: AccessTo, conversation_id: ConversationId, message: schemas.NewMessage
) -> Response:
    """Add a message to a conversation. With an id this may be repeated: the same message is stored once."""
    (passage,) = _passages([message])
    passage = passage if passage.id else passage._replace(id=str(uuid.uuid4()))
    with access.write() as library:
        with not_found_as(NO_CONVERSATION):
            library.store.header(conversation_id)
        added = _add(library, conversation_id, [passage])
    done = {
        "success": True,
        "message_id": passage.id,
        "conversation_id": conversation_id,
        "created": bool(added),
    }
    return json_response(done, 201 if added else 200)


def _passages(messages: Sequence[schemas.NewMessage]) -> list[Passage]:
    """Messages as they are kept, without an id where none was given. Raises InvalidInput."""
    passages = [_passage(message) for message in messages]
    ids = [identifier(passage.id) for passage in passages if passage.id]
    if len(set(ids)) != len(ids):
        raise InvalidInput("Two of these messages have the same id.")
    return passages


def _demand_parents(passages: Sequence[Passage]) -> None:
    """In a conversation that is new a message can only answer one that comes before it here."""
    earlier: set[str] = set()
    for passage in passages:
        if passage.parent is not None and identifier(passage.parent) not in earlier:
            raise _no_parent()
        earlier.add(identifier(passage.id))


def _no_parent() -> InvalidInput:
    return InvalidInput("parent_id: there is no such message in this conversation.")


def _passage(message: schemas.NewMessage) -> Passage:
    metadata = message.metadata or {}
    return Passage(
        _either(message.id, message.message_id, "id", "message_id") or "",
        message.role,
        message.content,
        author=message.author,
        model=message.model,
        tool=message.tool_used,
        parent=message.parent_id,
        created_at=_time(message.timestamp),
        visibility=HUMAN_ONLY if is_marked_human_only(metadata) else message.visibility,
        attachments=tuple(message.attachments or ()),
        citations=tuple(message.citations or ()),
        metadata=metadata,
    )


def _time(said: str | None) -> datetime | None:
    if said is None:
        return None
    try:
        return bound(said, end=False)
    except ValueError:
        raise InvalidInput(f"timestamp: {said[:100]!r} is not a time in ISO 8601.") from None


def _add(library: Library, conversation_id: str, passages: Sequence[Passage]) -> int:
    """Add those messages that are new, all or none; says how many. Raises Conflict where an id stands for
    another message."""
    new = [passage for passage in passages if not _is_there(library, conversation_id, passage)]
    if not new:
        return 0
    try:
        added = library.record(conversation_id, new)
    except NotFound:
        raise _no_parent() from None
    if added != len(
        new
    ):  # somebody else was faster with one of these ids: then it must be the same message
        for passage in new:
            _is_there(library, conversation_id, passage)
    return added


def _is_there(library: Library, conversation_id: str, passage: Passage) -> bool:
    """Whether the same message is there; what was left out counts as equal. Raises Conflict where the id
    stands for another one."""
    try:
        stored = stored_message(library, conversation_id, passage.id)
    except NotFound:
        return False
    again = passage._replace(
        parent=passage.parent or stored.parent,
        created_at=passage.created_at or stored.created_at,
        position=stored.position,
        canonical=stored.canonical,
    )
    if again != stored:
        raise Conflict(
            f"Message id {passage.id[:80]!r} is already used in this conversation for another one."
        )
    return True


def _title(messages: Sequence[schemas.NewMessage]) -> str:
    """The beginning of what the user said first. What not everybody may see does not show in a title."""
    open_to_all = (
        m for m in messages if m.visibility == "all" and not is_marked_human_only(m.metadata or {})
    )
    return next((truncate(m.content, _TITLE_LENGTH) for m in open_to_all if m.role == "user"), "")


def _either(one: str | None, other: str | None, name: str, other_name: str) -> str | None:
    if one is not None and other is not None and one != other:
        raise InvalidInput(f"{name} and {other_name} are the same thing, and here they differ.")
    return one if one is not None else other
