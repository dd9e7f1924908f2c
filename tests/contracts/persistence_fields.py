"""The fields of conversations and messages in the Persistence API."""

CONVERSATION = {
    "id",
    "session_id",
    "title",
    "namespace",
    "created_at",
    "updated_at",
    "message_count",
    "metadata",
}
MESSAGE = {
    "id",
    "conversation_id",
    "role",
    "content",
    "model",
    "tool_used",
    "attachments",
    "citations",
    "timestamp",
}
