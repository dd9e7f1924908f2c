"""A tool as a model reads about it. The tools themselves are in `definitions`, who answers them in the toolsets."""

from __future__ import annotations

from typing import Any, NamedTuple

READS_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
ADDS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
"""What a tool does that writes, and neither changes nor removes what is there."""


class Tool(NamedTuple):
    name: str
    """As it is listed: letters, digits and underscores. The toolset's method of this name answers it."""
    toolset: str
    title: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, bool]
    output_schema: dict[str, Any] | None = None
    """What `structuredContent` looks like, where an answer has it."""
    dotted: str | None = None
    """The name that contract 3 writes with a dot: listed with `--names dotted`, accepted always."""

    @property
    def reads_only(self) -> bool:
        return self.annotations["readOnlyHint"]

    def listed(self, name: str) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        shown = {
            "name": name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        return shown
