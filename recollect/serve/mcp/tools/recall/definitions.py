"""The `recall` toolset, which agents get by default: search, read, list, timeline, save a note.

Every session pays for these definitions in tokens, so they say only what an agent must know.
"""

from __future__ import annotations

from recollect.serve.mcp.tool import (
    ADDITIVE,
    READ_ONLY,
    UNTRUSTED,
    Tool,
    Toolset,
    array,
    enum,
    integer,
    object_schema,
    string,
)

SEARCH_TOKENS = 1_200
READ_TOKENS = 2_000
KIND_NAMES = ("conversations", "notes", "media", "characters", "prompts")

_PERIOD = {"after": string("A date: 2026-01-31."), "before": string()}

RECALL_SEARCH = Tool(
    name="recall_search",
    description=(
        "Search the user's past conversations with AI assistants: decisions, errors, preferences, "
        f"anything said before. Best first, with ids to read. {UNTRUSTED}"
    ),
    input_schema=object_schema(
        ("query",),
        query=string('A question, keywords, an identifier or a "phrase".'),
        kinds=array(enum(*KIND_NAMES)),
        project=string(),
        **_PERIOD,
        offset=integer(0, 0),
        max_tokens=integer(SEARCH_TOKENS, 100, 50_000),
        repeat={"type": "boolean", "description": "Show lines again that were shown before."},
    ),
    annotations=READ_ONLY,
)
RECALL_READ = Tool(
    name="recall_read",
    description=f"Read a conversation or item, around a message or from the start. {UNTRUSTED}",
    input_schema=object_schema(
        ("id",),
        id=string("From a result: 3f2a9b, 3f2a9b#14 (around message 14) or 3f2a9b#10-20."),
        tool_results={"type": "boolean", "description": "Include the output of tools."},
        max_tokens=integer(READ_TOKENS, 100, 50_000),
    ),
    annotations=READ_ONLY,
)
RECALL_RECENT = Tool(
    name="recall_recent",
    description="List conversations, last changed first, and the projects there are.",
    input_schema=object_schema(
        (),
        project=string(),
        **_PERIOD,
        offset=integer(0, 0),
        max_tokens=integer(SEARCH_TOKENS, 100, 50_000),
    ),
    annotations=READ_ONLY,
)
RECALL_TIMELINE = Tool(
    name="recall_timeline",
    description="What was decided, fixed or changed, in order of time: the latest, or from a date.",
    input_schema=object_schema(
        (),
        project=string(),
        after=string(),
        max_tokens=integer(SEARCH_TOKENS, 100, 50_000),
    ),
    annotations=READ_ONLY,
)
RECALL_NOTE = Tool(
    name="recall_note",
    description="Save a note that later searches find with kinds notes.",
    input_schema=object_schema(
        ("title", "text"), title=string(), text=string(), tags=array(string())
    ),
    annotations=ADDITIVE,
)

RECALL = Toolset(
    "recall",
    "recollect.serve.mcp.tools.recall.handlers",
    (RECALL_SEARCH, RECALL_READ, RECALL_RECENT, RECALL_TIMELINE, RECALL_NOTE),
)
