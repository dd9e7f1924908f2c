"""Routes of the Persistence API that save conversations and add messages to them.

Clients repeat requests, so each of these can be sent again: what is stored already stays as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from starlette.responses import Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import identifier, truncate
from recollect.library import Library
from recollect.model.arguments import parse_message, parse_moment
from recollect.model.documents import Passage
from recollect.model.fields import conversation_shape
from recollect.persistence import PersistenceApi
from recollect.serve.http.access import NO_CONVERSATION, AccessTo
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, WRITE
from recollect.serve.rest import schemas
from recollect.serve.rest.conversation_routes import ConversationId
from recollect.serve.rest.schemas import created_status, not_found_as

routes = Routes("conversations", CONVERSATIONS, document="conversation_id")

_TITLE_LENGTH = 50
_RENAMED = {"tool_used": "tool", "parent_id": "parent"}
"""Fields of the API that passages have under another name."""


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
    session_id = conversation.session_id or conversation.id
    unnumbered = parse_messages(conversation.messages)
    with access.write() as library:
        api = PersistenceApi(library)
        is_new = session_id is None or api.get_conversation_by_session(session_id) is None
        if is_new:
            check_parents(unnumbered)
        fields = (
            conversation.id,
            conversation.session_id,
            conversation.title,
            conversation.namespace,
            conversation.metadata,
        )
        try:
            created = api.create_conversation(*fields)
        except Conflict:  # another request may have created the same one just now
            created = api.create_conversation(*fields)
        access.check_reach(library, created["id"])
        passages = parse_messages(conversation.messages, f"{created['id']}:{{}}")
        added = add_new_messages(library, created["id"], passages)
        if added:
            created = conversation_shape(library.summary(created["id"]))
    return json_response(created, created_status(is_new or bool(added)))


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
    session_id = interaction.session_id
    ids = [message.id or str(uuid.uuid4()) for message in interaction.messages]
    passages = parse_messages(interaction.messages, ids=ids)
    with access.write() as library:
        api = PersistenceApi(library)
        conversation = api.get_conversation_by_session(session_id)
        is_new = conversation is None
        if conversation is None:
            check_parents(passages)
            title = interaction.title
            if title is None:  # the beginning of the first user message that everyone may read
                wanted = ("user", "message", "all")
                texts = (p.content for p in passages if (p.role, p.type, p.visibility) == wanted)
                title = truncate(next(texts, ""), _TITLE_LENGTH)
            conversation = api.create_conversation(
                session_id=session_id, title=title, namespace=interaction.namespace
            )
        access.check_reach(library, conversation["id"])
        added = add_new_messages(library, conversation["id"], passages)
    body = {
        "success": True,
        "conversation_id": conversation["id"],
        "session_id": session_id,
        "created": is_new,
        "message_ids": ids,
        "added": added,
    }
    return json_response(body, created_status(bool(added)))


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
    passages = parse_messages([message])
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


def parse_messages(
    messages: Sequence[schemas.NewMessage], default_id: str = "", ids: Sequence[str] = ()
) -> list[Passage]:
    """The passages of messages. Those without an id are numbered, or get a random one.

    Raises InvalidInput.
    """
    passages: list[Passage] = []
    tools: dict[str, str] = {}
    for number, message in enumerate(messages):
        fields = message.model_dump(exclude_none=True, exclude={"timestamp"})
        fields = {_RENAMED.get(name, name): value for name, value in fields.items()}
        random_id = ids[number] if ids else default_id.format(number) or str(uuid.uuid4())
        fields["id"] = message.id or random_id
        fields["created_at"] = parse_moment(message.timestamp, "timestamp")
        passages += parse_message(fields, tools)
    names = [identifier(passage.id) for passage in passages]
    if len(set(names)) != len(names):
        raise InvalidInput("Two messages have the same id. Ids must be unique in a conversation.")
    return passages


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
