"""The tools that one client sees, under the names they have for it, and the way from a call to who answers it.

A tool belongs to a toolset, which is a module beside this one with a class
`Toolset`; its methods are named like the tools, take a context and the
arguments, and return a text or an Answer. The module is imported on the first
call, so that listing tools costs nothing.
"""

from __future__ import annotations

import threading

from recollect.errors import RecollectError
from recollect.serve.mcp.context import READ, WRITE, Answer, Context, ToolError
from recollect.serve.mcp.definitions import CONVERSATION_SEARCH, LEFT_OUT, PROFILES, TOOLS, TOOLSETS
from recollect.serve.mcp.tool import Tool

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    Narrowed = tuple[str, bool, frozenset[str] | None]
    """The profile, whether only what reads is offered, and the toolsets that are allowed."""

__all__ = ["CONVERSATION_SEARCH", "Catalog", "Tool", "ToolError"]

NAMES = ("underscore", "dotted")
MOST_VARIANTS = 256

LONGEST_NAME = 64
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
# Claude's and OpenAI's interfaces refuse a dot, so only whoever asks for it gets one.
_ALLOWED = {"underscore": _LETTERS, "dotted": _LETTERS | {"."}}


class Catalog:
    """The tools that one kind of client is offered. It may be shared by any number of connections and threads."""

    def __init__(
        self,
        profile: str = "default",
        toolsets: Sequence[str] | None = None,
        tools: Sequence[str] | None = None,
        read_only: bool = False,
        names: str = "underscore",
        prefix: str = "",
        rename: Mapping[str, str] | None = None,
        allowed: Collection[str] | None = None,
    ) -> None:
        """`toolsets` and `tools` take the profile's place. `allowed` are the toolsets that a key is for.

        Raises ValueError when a name is unknown, unusable or given twice.
        """
        self.profile = profile if toolsets is None and tools is None else ""
        """Which tools these are; empty where they were chosen one by one."""
        self._chosen: dict[str, Any] = {
            "toolsets": toolsets,
            "tools": tools,
            "names": names,
            "prefix": prefix,
            "rename": rename,
        }
        self._narrowed: Narrowed = (
            profile,
            read_only,
            None if allowed is None else frozenset(allowed),
        )
        chosen = [
            tool
            for tool in _chosen(profile, toolsets, tools)
            if (allowed is None or tool.toolset in allowed) and (tool.reads_only or not read_only)
        ]
        if "all" in (toolsets or ()):  # of two that have one name, the first
            firsts = {tool.name: tool for tool in reversed(chosen)}
            chosen = [tool for tool in chosen if firsts[tool.name] is tool]
        self._tools = _named(chosen, names, prefix, rename or {})
        self._spellings = {_undotted(name): tool for name, tool in self._tools.items()}
        self._shared = _Shared(self)

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    @property
    def toolsets(self) -> frozenset[str]:
        """Those of which at least one tool is offered."""
        return frozenset(tool.toolset for tool in self._tools.values())

    def listing(self) -> list[dict[str, Any]]:
        return [tool.listed(name) for name, tool in self._tools.items()]

    def name_of(self, tool: str) -> str | None:
        """What a tool is called here, if it is offered."""
        return next((name for name, offered in self._tools.items() if offered.name == tool), None)

    def call(self, name: str, context: Context, arguments: dict[str, Any]) -> str | Answer:
        """What answers a call. Raises ToolError with the text of a failure, and TooManyCalls."""
        tool = self._find(name)
        if tool is None:
            raise KeyError(name)
        scope = READ if tool.reads_only else WRITE
        if scope not in context.scopes:
            may = ", ".join(sorted(context.scopes)) or "none"
            raise ToolError(f"Error: This key may not {scope}: it has the scopes {may}.")
        context.admit(tool.name, writes=not tool.reads_only)
        try:
            answer: str | Answer = getattr(self._shared.toolset(tool.toolset), tool.name)(
                context, arguments
            )
        except RecollectError as error:
            import logging

            logging.getLogger(__name__).warning("%s failed", tool.name, exc_info=True)
            raise ToolError(f"Error: {error}") from error
        return answer

    def variant(
        self,
        *,
        profile: str | None = None,
        read_only: bool | None = None,
        allowed: Collection[str] | None = None,
    ) -> Catalog:
        """The same tools as another client sees them: those of another profile, or only some of them.

        What answers them is shared. Raises ValueError when there is no such profile.
        """
        own_profile, own_read_only, own_allowed = self._narrowed
        both = own_allowed
        if allowed is not None:
            both = frozenset(allowed) if own_allowed is None else own_allowed.intersection(allowed)
        wanted = (
            own_profile if profile is None else profile,
            own_read_only or bool(read_only),
            both,
        )
        return self if wanted == self._narrowed else self._shared.variant(wanted)

    def close(self) -> None:
        self._shared.close()

    def _find(self, name: str) -> Tool | None:
        """A tool by the name it is listed under, with dots or underscores."""
        return self._tools.get(name) or self._spellings.get(_undotted(name))

    def _made(self, narrowed: Narrowed) -> Catalog:
        profile, read_only, allowed = narrowed
        chosen = (
            self._chosen
            if profile == self._narrowed[0]
            else {**self._chosen, "toolsets": None, "tools": None}
        )
        made = Catalog(profile, read_only=read_only, allowed=allowed, **chosen)
        made._shared = self._shared
        return made


class _Shared:
    """What all variants of a catalog have in common: the toolsets, each made on first need."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._toolsets: dict[str, Any] = {}
        self._variants: dict[Narrowed, Catalog] = {}
        self._lock = threading.Lock()

    def toolset(self, name: str) -> Any:
        found = self._toolsets.get(name)
        if found is None:
            with self._lock:
                if name not in self._toolsets:
                    from importlib import import_module

                    self._toolsets[name] = import_module(
                        f"recollect.serve.mcp.tools.{name}"
                    ).Toolset()
                found = self._toolsets[name]
        return found

    def variant(self, wanted: Narrowed) -> Catalog:
        with self._lock:
            found = self._variants.get(wanted)
            if found is None:
                if len(self._variants) >= MOST_VARIANTS:
                    self._variants.clear()
                found = self._variants[wanted] = self._catalog._made(wanted)
            return found

    def close(self) -> None:
        with self._lock:
            for toolset in self._toolsets.values():
                toolset.close()
            self._toolsets.clear()


def _undotted(name: str) -> str:
    return name.replace(".", "_")


def _chosen(
    profile: str, toolsets: Sequence[str] | None, tools: Sequence[str] | None
) -> list[Tool]:
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; profiles: {', '.join(PROFILES)}")
    if toolsets is None and tools is None:
        left_out = LEFT_OUT.get(profile, ())
        return [
            tool
            for tool in TOOLS
            if tool.toolset in PROFILES[profile] and tool.name not in left_out
        ]
    wanted: set[str] = set()
    for name in toolsets or ():
        if name not in ("all", "default", *TOOLSETS):
            raise ValueError(
                f"there is no toolset {name!r}; toolsets: {', '.join(TOOLSETS)}, default, all"
            )
        wanted.update(
            TOOLSETS if name == "all" else PROFILES["default"] if name == "default" else (name,)
        )
    named = {_undotted(name) for name in tools or ()}
    if unknown := sorted(named - {tool.name for tool in TOOLS}):
        raise ValueError(f"there is no tool {unknown[0]!r}; tools: {_tool_names()}")
    of_toolsets = [tool for tool in TOOLS if tool.toolset in wanted]
    meant = [_meant(name, named) for name in named - {tool.name for tool in of_toolsets}]
    return [tool for tool in TOOLS if tool in of_toolsets or tool in meant]


def _meant(name: str, named: set[str]) -> Tool:
    """The tool of a name; where there are two, the one whose neighbours are named as well, else the first."""
    neighbours = {
        tool.toolset: sum(other.toolset == tool.toolset for other in TOOLS if other.name in named)
        for tool in TOOLS
    }
    return max(
        (tool for tool in TOOLS if tool.name == name), key=lambda tool: neighbours[tool.toolset]
    )


def _named(
    tools: list[Tool], names: str, prefix: str, rename: Mapping[str, str]
) -> dict[str, Tool]:
    if names not in NAMES:
        raise ValueError(f"there are no {names!r} names; names: {', '.join(NAMES)}")
    rename = {_undotted(tool): name for tool, name in rename.items()}
    if unknown := sorted(rename.keys() - {tool.name for tool in TOOLS}):
        raise ValueError(f"there is no tool {unknown[0]!r} to rename; tools: {_tool_names()}")
    named: dict[str, Tool] = {}
    spelled: set[str] = set()
    for tool in tools:
        own = tool.dotted if names == "dotted" and tool.dotted else tool.name
        name = prefix + rename.get(tool.name, own)
        if not 0 < len(name) <= LONGEST_NAME or not _ALLOWED[names].issuperset(name):
            raise ValueError(
                f"{name!r} cannot name a tool: use 1 to {LONGEST_NAME} letters, digits, '_' or '-'"
            )
        if _undotted(name) in spelled:
            raise ValueError(f"two tools would be called {name!r}")
        spelled.add(_undotted(name))
        named[name] = tool
    return named


def _tool_names() -> str:
    return ", ".join(dict.fromkeys(tool.name for tool in TOOLS))
