"""A tool as a model reads about it. The tools themselves are in `definitions`, who answers them in the toolsets."""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any

READS_ONLY = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
ADDS = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "idempotentHint": False,
    "openWorldHint": False,
}
"""What a tool does that writes, and neither changes nor removes what is there."""


class Tool:
    """A plain class: a named tuple takes much longer to make, and every session of every agent makes it."""

    def __init__(
        self,
        name: str,
        toolset: str,
        description: str,
        input_schema: dict[str, Any],
        annotations: dict[str, bool],
        output_schema: dict[str, Any] | None = None,
        dotted: str | None = None,
    ) -> None:
        self.name = name
        """As it is listed: letters, digits and underscores. The toolset's method of this name answers it."""
        self.toolset = toolset
        self.description = description
        self.input_schema = input_schema
        self.annotations = annotations
        self.output_schema = output_schema
        """What `structuredContent` looks like, where an answer has it."""
        self.dotted = dotted
        """The name that contract 3 writes with a dot: listed with `--names dotted`, accepted always."""

    @property
    def reads_only(self) -> bool:
        return self.annotations["readOnlyHint"]

    def listed(self, name: str) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        shown = {
            "name": name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self._hints(),
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        return shown

    def _hints(self) -> dict[str, bool]:
        """Of a tool that only reads, the protocol gives the hints about how it writes no meaning: they only cost."""
        return {"readOnlyHint": True} if self.reads_only else self.annotations
