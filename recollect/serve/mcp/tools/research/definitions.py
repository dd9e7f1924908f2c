"""The `research` toolset: `search` and `fetch` with the schemas that OpenAI's clients require."""

from __future__ import annotations

from recollect.serve.mcp.tool import READ_ONLY, UNTRUSTED, Tool, Toolset, object_schema, string

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any


def _output_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


# Clients check the input schemas: exactly one string each, or they do not offer deep research.
SEARCH = Tool(
    name="search",
    description=(
        "Search everything stored: conversations with AI assistants, threads of agents, notes, "
        "documents, recordings, characters and prompts. Takes a question or keywords; also "
        '"phrases", prefix*, AND, OR, NOT, and the fields from: in: before: after:. Returns the '
        f"best matches first, each with an id for fetch. {UNTRUSTED}"
    ),
    input_schema=object_schema(("query",), query=string("What to search for.")),
    annotations=READ_ONLY,
    output_schema=_output_schema(
        results={
            "type": "array",
            "items": _output_schema(id=string(), title=string(), url=string()),
        }
    ),
)

FETCH = Tool(
    name="fetch",
    description=(
        "The text of a search result: a note or document, or the matching message with the "
        "messages around it. An id without a message returns the conversation from its beginning. "
        + UNTRUSTED
    ),
    input_schema=object_schema(("id",), id=string("The id of a search result.")),
    annotations=READ_ONLY,
    output_schema=_output_schema(
        id=string(), title=string(), text=string(), url=string(), metadata={"type": "object"}
    ),
)

RESEARCH = Toolset("research", "recollect.serve.mcp.tools.research.handlers", (SEARCH, FETCH))
