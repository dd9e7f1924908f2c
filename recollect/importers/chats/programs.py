"""Programs whose files are read by a table: SQLite databases, and logs of messages.

To add a program, add its table; `session_databases` and `chat_logs` say what is in it.
"""

from __future__ import annotations

from recollect.importers.chat_logs import ChatLog
from recollect.importers.chats.chatgpt import decode_parts
from recollect.importers.records import as_list
from recollect.importers.session_databases import MESSAGE, Row, SessionDatabase, Table
from recollect.model.chat_messages import parse_json
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT
from recollect.model.sources import BUS, CHATGPT, CODEX, RECOLLECT, TLDW

_TLDW = "updated_at=last_modified deleted"
_BUS_MESSAGE = (
    "id role content metadata session=thread_id author=author_name sender=author"
    " timestamp=created_at updated_at=edited_at"
)
_BUS_EXTRAS = "author_id priority reply_to_msg_id"


def browser_message(row: Row) -> None:
    """ChatGPT Browser stores the parts of a message as JSON, and citations in two columns."""
    row["content"], row["attachments"] = decode_parts(row.get("content"))
    lists = (parse_json(str(row.pop(n, ""))) for n in ("citations", "content_references"))
    row["citations"] = [citation for values in lists for citation in as_list(values)]
    if row.get("role") == "system":
        row["visibility"] = "hidden"


DATABASES = (
    SessionDatabase(
        RECOLLECT,
        "AgentKit's conversations.db",
        Table(
            "conversations",
            # As the source id, the session id stays valid in the Persistence API.
            "id source_id=session_id title namespace created_at updated_at metadata",
            required="id session_id title",
        ),
        Table(
            "messages",
            "id role content session=conversation_id order=timestamp suborder=rowid model"
            " tool_used attachments citations timestamp",
            MESSAGE,
            required="id conversation_id role content timestamp",
        ),
    ),
    SessionDatabase(
        BUS,
        "AgentChatBus' bus.db",
        Table(
            "threads",
            "id source_id=topic title=topic created_at updated_at metadata",
            required="id topic status",
            extras="status summary system_prompt closed_at",
        ),
        Table(
            "messages",
            f"{_BUS_MESSAGE} order=seq",
            MESSAGE,
            required="id thread_id author content seq",
            extras=_BUS_EXTRAS,
        ),
        Table(
            "human_only_messages",
            f"{_BUS_MESSAGE} order=anchor_seq suborder=anchor_order",
            MESSAGE,
            extras=_BUS_EXTRAS,
            human_only=True,
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's ChaChaNotes database",
        Table(
            "conversations",
            f"id title created_at {_TLDW}",
            required="id root_id title",
            extras="character_id rating root_id parent_conversation_id",
            keywords="conversation_keywords conversation_id keywords",
        ),
        Table(
            "messages",
            "id content sender session=conversation_id order=timestamp suborder=rowid"
            " parent_id=parent_message_id image=image_data media_type=image_mime_type"
            " timestamp deleted",
            MESSAGE,
            required="id conversation_id sender content",
        ),
        Table(
            "notes",
            f"id title content created_at {_TLDW}",
            NOTE,
            keywords="note_keywords note_id keywords",
        ),
        Table(
            "character_cards",
            "id name description personality scenario system_prompt image creator_notes creator"
            " post_history_instructions first_mes=first_message mes_example=message_example"
            f" alternate_greetings tags character_version extensions created_at {_TLDW}",
            CHARACTER,
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's media database",
        Table(
            "Media",
            "id=uuid key=id title content media_type=type created_at=ingestion_date"
            f" {_TLDW} trash=is_trash",
            MEDIA,
            required="uuid title type content ingestion_date",
            extras="url author",
            keywords="MediaKeywords media_id Keywords",
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's prompts database",
        Table(
            "Prompts",
            f"id=uuid key=id title=name name author details system_prompt user_prompt {_TLDW}",
            PROMPT,
            required="uuid name system_prompt user_prompt",
            extras="author",
            keywords="PromptKeywordLinks prompt_id PromptKeywordsTable",
        ),
    ),
    *(
        SessionDatabase(
            CHATGPT,
            "ChatGPT Browser database (working or canonical)",
            Table(
                "conversations",
                "id title created_at=create_time updated_at=update_time",
                required="id title",
            ),
            Table(
                "messages",
                f"id role content session=conversation_id timestamp=create_time {place}"
                " updated_at=update_time",
                MESSAGE,
                required=f"id conversation_id role content create_time {place.partition('=')[2]}",
                details="message_metadata message_id model=model_slug citations content_references"
                " message_type finish_details is_complete request_id timestamp_ message_source"
                " serialization_metadata",
                convert=browser_message,
            ),
            is_copy=True,
        )
        for place in ("parent_id=parent_id", "order=position")
    ),
)

LOGS = (
    ChatLog(
        CODEX,
        "Codex CLI's prompts (history.jsonl)",
        required="session_id ts text",
        session="session_id",
        fields="content=text timestamp=ts",
        about="thread_id=session_id",
        role="user",
        prefix="history:",
        is_copy=True,  # Codex truncates the file at its start, and answers are in the rollouts
    ),
)
