"""Routes of the Persistence API that save conversations and add messages to them.

Clients repeat requests, so each of these can be sent again: what is stored already stays as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.responses import Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import bound, identifier, truncate
from recollect.library import Library
from recollect.model.audience import HUMAN_ONLY, is_marked_human_only
from recollect.model.chat_messages import message_passages
from recollect.model.documents import Json, Passage
from recollect.model.fields import conversation_shape
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import NO_CONVERSATION, AccessTo
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, WRITE
from recollect.serve.rest import schemas
from recollect.serve.rest.conversation_routes import ConversationId
from recollect.serve.rest.schemas import created_status, not_found_as, one_value

routes = Routes("conversations", CONVERSATIONS, document="conversation_id")

T = TypeVar("T")

_TITLE_LENGTH = 50
_ATTEMPTS = 5


@routes.add(
    "POST /conversations",
    WRITE,
    returns=schemas.Conversation,
    existing="The conversation already existed.",
)
def create_conversation(access: AccessTo, conversation: schemas.NewConversation) -> Response:
    """Creates a conversation, with or without messages.

    The request is idempotent if it has an `id` or a `session_id`: sending it again changes nothing.
    """
    id = one_value(conversation.id, conversation.conversation_id, "id", "conversation_id")
    session_id = conversation.session_id or id
    passages = _passages(conversation.messages)

    def save(library: Library) -> tuple[dict[str, Json], bool]:
        api = PersistenceApi(library)
        is_new = session_id is None or api.get_conversation_by_session(session_id) is None
        if is_new:
            check_parents(passages)
        created = create(api, id, conversation)
        access.check_reach(library, created["id"])
        numbered = [p.id or f"{created['id']}:{number}" for number, p in enumerate(passages)]
        parts = with_parts(passages, conversation.messages, numbered)
        added = add_new_messages(library, created["id"], parts)
        if added:
            created = conversation_shape(library.summary(created["id"]))
        return created, is_new or bool(added)

    with access.write() as library:
        created, has_changed = repeat_if_deleted(library, save)
    return json_response(created, created_status(has_changed))


def repeat_if_deleted(library: Library, save: Callable[[Library], T]) -> T:
    """Save into a conversation, and again if another request deletes it at the same time.

    It is as if the other request had come first: the conversation is created again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return save(library)
        except NotFound:
            continue
    return save(library)


def create(
    api: PersistenceApi, id: str | None, conversation: schemas.NewConversation
) -> dict[str, Json]:
    fields = (
        id,
        conversation.session_id,
        conversation.title,
        conversation.namespace,
        conversation.metadata,
    )
    try:
        return api.create_conversation(*fields)
    except Conflict:  # another request may have created the same one just now
        return api.create_conversation(*fields)


@routes.add(
    "POST /conversations/messages",
    WRITE,
    returns=schemas.SavedInteraction,
    existing="All messages already existed.",
)
def save_interaction(access: AccessTo, interaction: schemas.Interaction) -> Response:
    """Saves the messages of a session in one call, all or none.

    The conversation of the session is created if it does not exist.
    """
    messages = _passages(interaction.messages)
    ids = [message.id or str(uuid.uuid4()) for message in messages]
    passages = with_parts(messages, interaction.messages, ids)

    def save(library: Library) -> dict[str, Json]:
        api = PersistenceApi(library)
        conversation = api.get_conversation_by_session(interaction.session_id)
        is_new = conversation is None
        if conversation is None:
            check_parents(passages)
            title = interaction.title
            if title is None:
                title = default_title(passages)
            conversation = api.create_conversation(
                session_id=interaction.session_id, title=title, namespace=interaction.namespace
            )
        access.check_reach(library, conversation["id"])
        added = add_new_messages(library, conversation["id"], passages)
        return {
            "success": True,
            "conversation_id": conversation["id"],
            "session_id": interaction.session_id,
            "created": is_new,
            "message_ids": ids,
            "added": added,
        }

    with access.write() as library:
        body = repeat_if_deleted(library, save)
    return json_response(body, created_status(bool(body["added"])))


@routes.add(
    "POST /conversations/{conversation_id:id}/messages",
    WRITE,
    returns=schemas.SavedMessage,
    existing="The message already existed.",
)
def add_message(
    access: AccessTo, conversation_id: ConversationId, message: schemas.NewMessage
) -> Response:
    """Adds a message to a conversation.

    The request is idempotent if the message has an `id`: a message sent twice is stored once.
    """
    (base,) = _passages([message])
    passages = with_parts([base], [message], [base.id or str(uuid.uuid4())])
    with access.write() as library, not_found_as(NO_CONVERSATION):
        conversation_id = library.summary(conversation_id).id
        added = add_new_messages(library, conversation_id, passages)
    body = {
        "success": True,
        "message_id": passages[-1].id,
        "conversation_id": conversation_id,
        "created": bool(added),
    }
    return json_response(body, created_status(bool(added)))


def _passages(messages: Sequence[schemas.NewMessage]) -> list[Passage]:
    """The messages as passages. Those without an id get an empty one. Raises InvalidInput."""
    passages = [_passage(message) for message in messages]
    for passage, message in zip(passages, messages, strict=True):
        if not message_passages(passage, message.model_dump(), {}):
            raise InvalidInput("A message needs content or calls of tools.")
    ids = [identifier(passage.id) for passage in passages if passage.id]
    if len(set(ids)) != len(ids):
        raise InvalidInput("Two messages have the same id. Ids must be unique in a conversation.")
    return passages


def _passage(message: schemas.NewMessage) -> Passage:
    metadata, time = message.metadata or {}, message.timestamp
    try:
        created_at = None if time is None else bound(time, end=False)
    except ValueError:
        raise InvalidInput(
            f"timestamp: {str(time)[:100]!r} is not a time. Use ISO 8601, such as "
            "2025-01-31T12:00:00Z."
        ) from None
    return Passage(
        one_value(message.id, message.message_id, "id", "message_id") or "",
        message.role,
        "",
        author=message.author,
        model=message.model,
        tool=message.tool_used,
        parent=message.parent_id,
        created_at=created_at,
        visibility=HUMAN_ONLY if is_marked_human_only(metadata) else message.visibility,
        attachments=tuple(message.attachments or ()),
        citations=tuple(message.citations or ()),
        metadata=metadata,
    )


def with_parts(
    passages: Sequence[Passage], messages: Sequence[schemas.NewMessage], ids: Sequence[str]
) -> list[Passage]:
    """The passages with these ids and the contents of the messages."""
    tools: dict[str, str] = {}
    completed: list[Passage] = []
    for passage, message, id_ in zip(passages, messages, ids, strict=True):
        completed += message_passages(passage._replace(id=id_), message.model_dump(), tools)
    return completed


def check_parents(passages: Sequence[Passage]) -> None:
    """In a new conversation, a message can only reply to an earlier one of the same request."""
    earlier_ids: set[str] = set()
    for passage in passages:
        if passage.parent is not None and identifier(passage.parent) not in earlier_ids:
            raise unknown_parent()
        earlier_ids.add(identifier(passage.id))


def unknown_parent() -> InvalidInput:
    return InvalidInput("parent_id: there is no such message in this conversation.")


def add_new_messages(library: Library, conversation_id: str, passages: Sequence[Passage]) -> int:
    """Add the messages that do not exist yet, all or none, and return their number.

    Raises Conflict if an id is used for another message, InvalidInput if a parent is unknown, and
    NotFound if the conversation has been deleted.
    """
    if not passages:
        return 0
    try:
        return library.add_messages(conversation_id, passages, require_same=True)
    except NotFound:
        library.summary(conversation_id)  # raises NotFound if that is what is missing
        raise unknown_parent() from None


def default_title(passages: Sequence[Passage]) -> str:
    """The beginning of the first user message that everyone may read."""
    wanted = ("user", "message", "all")
    texts = (p.content for p in passages if (p.role, p.type, p.visibility) == wanted)
    return truncate(next(texts, ""), _TITLE_LENGTH)
