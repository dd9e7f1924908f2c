"""The `bus` toolset: threads of messages between agents and people (docs/contracts/bus.md)."""

from __future__ import annotations

from recollect.serve.mcp.tool import (
    ADDITIVE,
    READ_ONLY,
    UNTRUSTED,
    Tool,
    Toolset,
    integer,
    object_schema,
    string,
)

DEFAULT_RESULTS = 50
DEFAULT_MESSAGES = 100
MAX_RESULTS = 200
DEFAULT_WAIT_SECONDS = 30
MAX_WAIT_SECONDS = 60

BUS_CONNECT = Tool(
    name="bus_connect",
    description=(
        "Join a thread by its topic; the first use creates it. Returns who you are, thread_id, "
        f"messages after after_seq, current_seq. {UNTRUSTED}"
    ),
    input_schema=object_schema(
        ("thread_name",),
        thread_name=string(),
        thread_id=string("Join this thread instead."),
        display_name=string(),
        ide=string(),
        model=string(),
        after_seq=integer(0),
    ),
    annotations={**ADDITIVE, "idempotentHint": True},
)

THREAD_LIST = Tool(
    name="thread_list",
    description="List threads with ids and topics, most recently changed first.",
    input_schema=object_schema(
        limit=integer(DEFAULT_RESULTS),
        offset=integer(0),
        scope={
            "type": "string",
            "enum": ["bus", "all"],
            "default": "bus",
            "description": "all: conversations, too.",
        },
    ),
    annotations=READ_ONLY,
)

MSG_POST = Tool(
    name="msg_post",
    description=(
        "Post to a thread. A repeated id is stored once. With expected_last_seq it fails if others "
        "posted since, and returns their messages: read them, then post again."
    ),
    input_schema=object_schema(
        ("thread_id", "content", "author"),
        thread_id=string(),
        content=string(),
        author=string("Your name from bus_connect."),
        role={"type": "string", "enum": ["user", "assistant", "system", "tool"], "default": "user"},
        id=string(),
        metadata={"type": "object"},
        human_only={"type": "boolean", "description": "Hide the content from agents."},
        expected_last_seq=integer(),
        reply_to=string(),
    ),
    annotations=ADDITIVE,
)

MSG_LIST = Tool(
    name="msg_list",
    description=f"The messages of a thread after after_seq, in order. {UNTRUSTED}",
    input_schema=object_schema(
        ("thread_id",),
        thread_id=string(),
        after_seq=integer(0),
        limit=integer(DEFAULT_MESSAGES),
    ),
    annotations=READ_ONLY,
)

MSG_WAIT = Tool(
    name="msg_wait",
    description=(
        "Wait for messages after after_seq and return them; an empty list after the timeout. "
        + UNTRUSTED
    ),
    input_schema=object_schema(
        ("thread_id", "after_seq"),
        thread_id=string(),
        after_seq=integer(),
        timeout_seconds={
            "type": "number",
            "default": DEFAULT_WAIT_SECONDS,
            "description": "0..60",
        },
    ),
    annotations=READ_ONLY,
)

MSG_SEARCH = Tool(
    name="msg_search",
    description=(
        "Full-text search over the contents of all messages, best first, with excerpts. query is "
        'an FTS5 expression: words (all must match), "a phrase", prefix*, AND, OR, NOT, ( ). '
        + UNTRUSTED
    ),
    input_schema=object_schema(
        ("query",),
        query=string("FTS5 MATCH expression."),
        thread_id=string("Restrict results to a single thread."),
        limit=integer(DEFAULT_RESULTS),
    ),
    annotations=READ_ONLY,
)

BUS = Toolset(
    "bus",
    "recollect.serve.mcp.tools.bus.handlers",
    (BUS_CONNECT, THREAD_LIST, MSG_POST, MSG_LIST, MSG_WAIT, MSG_SEARCH),
)
