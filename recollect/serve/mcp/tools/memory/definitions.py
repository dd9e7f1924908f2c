"""The `memory` toolset: what was done, decided and learned (docs/contracts/memory-api.md).

`search`, `get_observations` and `read` are the contract's three layers; `timeline` and `forget` are
our own.
"""

from __future__ import annotations

from recollect.serve.mcp.tool import (
    DESTRUCTIVE,
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

STRINGS = array(string())
TIME_ZONE = string("Of days and hours")

SEARCH = Tool(
    name="search",
    description=(
        "Search past work: observations with ids, exchanges with paths. Then get_observations, "
        f"rarely read. {UNTRUSTED}"
    ),
    input_schema=object_schema(
        ("query",),
        query={"anyOf": [string(), {**STRINGS, "description": "2-5, all must occur"}]},
        mode=enum("both", "vector", "text"),
        limit=integer(),
        after=string("YYYY-MM-DD"),
        before=string(),
        projects=STRINGS,
        types=STRINGS,
        concepts=STRINGS,
        files=STRINGS,
        response_format=enum("markdown", "json", "compact"),
        time_zone=TIME_ZONE,
    ),
    annotations=READ_ONLY,
)

GET_OBSERVATIONS = Tool(
    name="get_observations",
    description="Details of 1-20 observations.",
    input_schema=object_schema(("ids",), ids=STRINGS, time_zone=TIME_ZONE),
    annotations=READ_ONLY,
)

READ = Tool(
    name="read",
    description="A conversation by path, or an observation's source by id.",
    input_schema=object_schema(
        ("path",),
        path=string(),
        startLine=integer(),
        endLine=integer(),
        tool_results={"type": "boolean"},
        max_tokens=integer(),
        time_zone=TIME_ZONE,
    ),
    annotations=READ_ONLY,
)

TIMELINE = Tool(
    name="timeline",
    description="The observations before and after an observation or a date.",
    input_schema=object_schema(
        ("anchor",),
        anchor=string("An id or date"),
        before=integer(),
        after=integer(),
        projects=STRINGS,
        time_zone=TIME_ZONE,
    ),
    annotations=READ_ONLY,
)

FORGET = Tool(
    name="forget",
    description=(
        "Permanently delete observations (scope conversation: their conversations, too), the "
        "conversation at path, or everything of a project or date range. Without confirm it only "
        "reports what would be deleted."
    ),
    input_schema=object_schema(
        (),
        ids=STRINGS,
        scope=enum("observation", "conversation"),
        path=string(),
        project=string(),
        after=string(),
        before=string(),
        confirm={"type": "boolean"},
        time_zone=TIME_ZONE,
    ),
    annotations={**DESTRUCTIVE, "idempotentHint": True},
)

MEMORY = Toolset(
    "memory",
    "recollect.serve.mcp.tools.memory.handlers",
    (SEARCH, GET_OBSERVATIONS, READ, TIMELINE, FORGET),
)
