"""The tools one client sees, their names, and how a call reaches its handler."""

from __future__ import annotations

import threading

from recollect.errors import RecollectError
from recollect.serve.mcp import toolsets as registry
from recollect.serve.mcp.context import READ, WRITE, Answer, Context, ToolError
from recollect.serve.mcp.tool import Tool

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    Restriction = tuple[str, bool, frozenset[str] | None]
    """The profile, whether only read-only tools are offered, and the allowed toolsets."""

NAMES = ("underscore", "dotted")
MAX_VARIANTS = 256
MAX_NAME_LENGTH = 64
# Gemini CLI adds this argument to the schema of every tool and leaves it in the calls.
_CLIENT_ARGUMENT = "wait_for_previous"
_TEXTLESS = frozenset(("msg_post", "notes_write", "recall_note"))
"""Tools that write and show nothing that was stored before."""
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
# The APIs of Anthropic and OpenAI reject a dot, so dots are opt-in.
_CHARACTERS = {"underscore": _LETTERS, "dotted": _LETTERS | {"."}}


class Catalog:
    """The tools offered to one kind of client. Connections and threads may share a catalog."""

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
        """`toolsets` and `tools` replace the profile. `allowed` are the toolsets an API key is for.

        Raises ValueError if a name is unknown, invalid or used twice.
        """
        self.profile = profile
        """Empty if the tools were selected one by one."""
        if toolsets is not None or tools is not None:
            self.profile = ""
        if allowed is not None:
            allowed = frozenset(allowed)
        self._options: dict[str, Any] = {
            "toolsets": toolsets,
            "tools": tools,
            "names": names,
            "prefix": prefix,
            "rename": rename,
        }
        self._restriction: Restriction = (profile, read_only, allowed)
        unlisted = self._restrict(_tools_of(registry.UNLISTED.get(self.profile, ())))
        selection = self._restrict(_select_tools(profile, toolsets, tools))
        if allowed is not None and not selection:
            selection = unlisted  # the API key is for these
        selection = _with_renamed(selection, unlisted, rename or {})
        if "all" in (self.profile, *(toolsets or ())):
            selection = _first_of_each_name(selection)
        self._listed = frozenset(selection)
        offered = [*selection, *(tool for tool in unlisted if tool not in self._listed)]
        self._tools = _name_tools(offered, names, prefix, rename or {})
        self._by_underscore = {_with_underscores(name): tool for name, tool in self._tools.items()}
        self._shared = _Shared(self)

    def _restrict(self, tools: list[Tool]) -> list[Tool]:
        """The tools that the restriction permits."""
        _, read_only, allowed = self._restriction
        if allowed is not None:
            tools = [tool for tool in tools if tool.toolset in allowed]
        if read_only:
            tools = [tool for tool in tools if tool.is_read_only]
        return tools

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    @property
    def toolsets(self) -> frozenset[str]:
        """The toolsets of which at least one tool is listed."""
        return frozenset(tool.toolset for tool in self._tools.values() if tool in self._listed)

    def listing(self) -> list[dict[str, Any]]:
        """The tools as `tools/list` shows them."""
        return [tool.describe(name) for name, tool in self._tools.items() if tool in self._listed]

    def name_of(self, tool_name: str) -> str | None:
        """The name this catalog lists a tool under, or None if it is not offered."""
        for name, tool in self._tools.items():
            if tool.name == tool_name:
                return name
        return None

    def call(self, name: str, context: Context, arguments: dict[str, Any]) -> str | Answer:
        """Call a tool. Raises ToolError with a message for the caller, or TooManyCalls."""
        tool = self._find(name)
        if tool is None:
            raise KeyError(name)
        _check_scope(tool, context)
        context.admit(tool.name, writes=not tool.is_read_only)
        handler = getattr(self._shared.handlers(tool.toolset), tool.name)
        if _CLIENT_ARGUMENT in arguments:
            arguments = {k: v for k, v in arguments.items() if k != _CLIENT_ARGUMENT}
        try:
            answer: str | Answer = _call_audited(handler, tool, context, arguments)
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
        """This catalog with another profile, or restricted further. The handlers are shared.

        Raises ValueError if there is no such profile.
        """
        own_profile, own_read_only, own_allowed = self._restriction
        if profile is None:
            profile = own_profile
        if allowed is None:
            allowed = own_allowed
        elif own_allowed is not None:
            allowed = own_allowed.intersection(allowed)
        if allowed is not None:
            allowed = frozenset(allowed)
        restriction = (profile, own_read_only or bool(read_only), allowed)
        if restriction == self._restriction:
            return self
        return self._shared.variant(restriction)

    def _find(self, name: str) -> Tool | None:
        """Find a tool by its listed name, spelled with dots or underscores."""
        return self._tools.get(name) or self._by_underscore.get(_with_underscores(name))

    def _build_variant(self, restriction: Restriction) -> Catalog:
        profile, read_only, allowed = restriction
        options = self._options
        if profile != self._restriction[0]:
            options = {**options, "toolsets": None, "tools": None}
        variant = Catalog(profile, read_only=read_only, allowed=allowed, **options)
        variant._shared = self._shared
        return variant


class _Shared:
    """What all variants of a catalog share: the handlers, created on first use, and each other."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._handlers: dict[str, Any] = {}
        self._variants: dict[Restriction, Catalog] = {}
        self._lock = threading.Lock()

    def handlers(self, toolset: str) -> Any:
        handlers = self._handlers.get(toolset)
        if handlers is None:
            with self._lock:
                if toolset not in self._handlers:
                    from importlib import import_module

                    module = import_module(registry.TOOLSETS[toolset].handlers)
                    self._handlers[toolset] = module.Handlers()
                handlers = self._handlers[toolset]
        return handlers

    def variant(self, restriction: Restriction) -> Catalog:
        with self._lock:
            variant = self._variants.get(restriction)
            if variant is None:
                if len(self._variants) >= MAX_VARIANTS:
                    self._variants.clear()
                variant = self._catalog._build_variant(restriction)
                self._variants[restriction] = variant
            return variant


def _check_scope(tool: Tool, context: Context) -> None:
    needed = [READ, WRITE]
    if tool.is_read_only:
        needed = [READ]
    elif tool.name in _TEXTLESS:
        needed = [WRITE]
    for scope in needed:
        if scope not in context.scopes:
            scopes = ", ".join(sorted(context.scopes)) or "none"
            raise ToolError(f"Error: This API key may not {scope}. Its scopes: {scopes}.")


# -- selection ---


def _select_tools(
    profile: str, toolsets: Sequence[str] | None, tools: Sequence[str] | None
) -> list[Tool]:
    if profile not in registry.PROFILES:
        profiles = ", ".join(registry.PROFILES)
        raise ValueError(f"there is no profile {profile!r}; profiles: {profiles}")
    if toolsets is None and tools is None:
        omitted = registry.OMITTED.get(profile, ())
        return [t for t in _tools_of(registry.PROFILES[profile]) if t.name not in omitted]
    selection = _tools_of(_expand_toolsets(toolsets or ()))
    selection += _tools_by_name(tools or (), {tool.name for tool in selection})
    return [tool for tool in registry.all_tools() if tool in selection]


def _tools_of(toolsets: Collection[str]) -> list[Tool]:
    return [tool for tool in registry.all_tools() if tool.toolset in toolsets]


def _expand_toolsets(names: Sequence[str]) -> set[str]:
    toolsets: set[str] = set()
    for name in names:
        if name == "all":
            toolsets.update(registry.TOOLSETS)
        elif name == "default":
            toolsets.update(registry.PROFILES["default"])
        elif name in registry.TOOLSETS:
            toolsets.add(name)
        else:
            valid_names = ", ".join((*registry.TOOLSETS, "default", "all"))
            raise ValueError(f"there is no toolset {name!r}; toolsets: {valid_names}")
    return toolsets


def _tools_by_name(names: Sequence[str], present: set[str]) -> list[Tool]:
    """The named tools, without those that are present already."""
    requested = {_with_underscores(name) for name in names}
    _check_tool_names(requested)
    return [_resolve(name, requested) for name in requested - present]


def _resolve(name: str, requested: set[str]) -> Tool:
    """The tool with this name. If two toolsets have one, prefer the toolset of which more tools are
    requested: `search` with `fetch` is the one of `research`."""
    best: Tool | None = None
    most_neighbours = -1
    for toolset in registry.TOOLSETS.values():
        neighbours = sum(tool.name in requested for tool in toolset.tools)
        for tool in toolset.tools:
            if tool.name == name and neighbours > most_neighbours:
                best, most_neighbours = tool, neighbours
    assert best is not None
    return best


def _with_renamed(tools: list[Tool], unlisted: list[Tool], rename: Mapping[str, str]) -> list[Tool]:
    """The tools, and unlisted ones that were given a name: those are listed."""
    renamed = {_with_underscores(name) for name in rename}
    return [*tools, *(tool for tool in unlisted if tool.name in renamed and tool not in tools)]


def _first_of_each_name(tools: list[Tool]) -> list[Tool]:
    first: dict[str, Tool] = {}
    for tool in tools:
        first.setdefault(tool.name, tool)
    return list(first.values())


# -- names ---


def _name_tools(
    tools: list[Tool], names: str, prefix: str, rename: Mapping[str, str]
) -> dict[str, Tool]:
    if names not in NAMES:
        raise ValueError(f"there are no {names!r} names; names: {', '.join(NAMES)}")
    rename = {_with_underscores(tool): name for tool, name in rename.items()}
    _check_tool_names(rename, " to rename")
    tools_by_name: dict[str, Tool] = {}
    spellings: set[str] = set()
    for tool in tools:
        own_name = tool.name
        if names == "dotted" and tool.dotted is not None:
            own_name = tool.dotted
        name = prefix + rename.get(tool.name, own_name)
        _check_characters(name, names)
        if _with_underscores(name) in spellings:
            raise ValueError(f"two tools would be called {name!r}")
        spellings.add(_with_underscores(name))
        tools_by_name[name] = tool
    return tools_by_name


def _check_tool_names(names: Collection[str], purpose: str = "") -> None:
    tool_names = dict.fromkeys(tool.name for tool in registry.all_tools())
    for name in sorted(names):
        if name not in tool_names:
            raise ValueError(f"there is no tool {name!r}{purpose}; tools: {', '.join(tool_names)}")


def _check_characters(name: str, names: str) -> None:
    if not 0 < len(name) <= MAX_NAME_LENGTH or not _CHARACTERS[names].issuperset(name):
        raise ValueError(
            f"{name!r} is not a valid tool name: "
            f"use 1 to {MAX_NAME_LENGTH} letters, digits, '_' or '-'"
        )


def _with_underscores(name: str) -> str:
    return name.replace(".", "_")


def _call_audited(
    handler: Callable[[Context, dict[str, Any]], str | Answer],
    tool: Tool,
    context: Context,
    arguments: dict[str, Any],
) -> str | Answer:
    from recollect.serve.mcp.auditing import record_call, tool_actor
    from recollect.store.audit_log import acting

    with acting(tool_actor(context)):
        answer = handler(context, arguments)
        record_call(tool, context, arguments)
    return answer
