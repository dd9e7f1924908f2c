"""The tools one client sees, their names, and how a call reaches its handler."""

from __future__ import annotations

from functools import lru_cache

from recollect.serve.mcp import toolsets as registry
from recollect.serve.mcp.context import READ, WRITE, Answer, Context, ToolError
from recollect.serve.mcp.toolsets import Tool

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

NAMES = ("underscore", "dotted")
MAX_CATALOGS = 256
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
        tool_prefix: str = "",
        rename: Mapping[str, str] | None = None,
        allowed: Collection[str] | None = None,
    ) -> None:
        """`toolsets` and `tools` replace the profile. `allowed` are the toolsets an API key is for.

        Raises ValueError if a name is unknown, invalid or used twice.
        """
        self._options: dict[str, Any] = {
            "profile": profile,
            "toolsets": toolsets,
            "tools": tools,
            "read_only": read_only,
            "names": names,
            "tool_prefix": tool_prefix,
            "rename": rename,
            "allowed": allowed,
        }
        is_selection = toolsets is not None or tools is not None
        self.profile = "" if is_selection else profile
        """Empty if the tools were selected one by one."""

        def permitted(tools: Iterable[Tool]) -> list[Tool]:
            return [
                tool
                for tool in tools
                if (allowed is None or tool.toolset in allowed)
                and (tool.is_read_only or not read_only)
            ]

        unlisted = permitted(tools_of(registry.UNLISTED.get(self.profile, ())))
        listed = permitted(select_tools(profile, toolsets, tools))
        if allowed is not None and not listed:
            listed = unlisted  # the API key is for these
        renamed = {with_underscores(name) for name in rename or {}}
        listed += [tool for tool in unlisted if tool.name in renamed and tool not in listed]
        if "all" in (self.profile, *(toolsets or ())):
            first: dict[str, Tool] = {}
            for tool in listed:
                first.setdefault(tool.name, tool)
            listed = list(first.values())
        self._listed = frozenset(listed)
        offered = [*listed, *(tool for tool in unlisted if tool not in self._listed)]
        self._tools = name_tools(offered, names, tool_prefix, rename or {})
        self._by_underscore = {with_underscores(name): tool for name, tool in self._tools.items()}

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    @property
    def toolsets(self) -> frozenset[str]:
        """The toolsets of which at least one tool is listed."""
        return frozenset(tool.toolset for tool in self._listed)

    def listing(self) -> list[dict[str, Any]]:
        """The tools as `tools/list` shows them."""
        return [tool.describe(name) for name, tool in self._tools.items() if tool in self._listed]

    def name_of(self, tool_name: str) -> str | None:
        """The name this catalog lists a tool under, or None if it is not offered."""
        return next((name for name, tool in self._tools.items() if tool.name == tool_name), None)

    def call(self, name: str, context: Context, arguments: dict[str, Any]) -> str | Answer:
        """Call a tool. Raises ToolError with a message for the caller."""
        from recollect.serve.mcp.arguments import call_tool

        tool = self._find(name)
        if tool is None:
            raise KeyError(name)
        check_scope(tool, context)
        return call_tool(
            tool, context, {k: v for k, v in arguments.items() if k != _CLIENT_ARGUMENT}
        )

    def variant(
        self,
        *,
        profile: str | None = None,
        read_only: bool = False,
        allowed: frozenset[str] | None = None,
    ) -> Catalog:
        """This catalog with another profile, or restricted further.

        Raises ValueError if there is no such profile.
        """
        return make_variant(self, profile, read_only, allowed)

    def _find(self, name: str) -> Tool | None:
        """Find a tool by its listed name, spelled with dots or underscores."""
        return self._tools.get(name) or self._by_underscore.get(with_underscores(name))


@lru_cache(MAX_CATALOGS)
def make_variant(
    catalog: Catalog, profile: str | None, read_only: bool, allowed: frozenset[str] | None
) -> Catalog:
    options = catalog._options
    changes: dict[str, Any] = {"read_only": options["read_only"] or read_only}
    if profile not in (None, options["profile"]):
        changes |= {"profile": profile, "toolsets": None, "tools": None}
    if allowed is not None:
        own = options["allowed"]
        changes["allowed"] = allowed if own is None else allowed.intersection(own)
    return Catalog(**{**options, **changes})


def check_scope(tool: Tool, context: Context) -> None:
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


def select_tools(
    profile: str, toolsets: Sequence[str] | None, tools: Sequence[str] | None
) -> list[Tool]:
    if profile not in registry.PROFILES:
        profiles = ", ".join(registry.PROFILES)
        raise ValueError(f"there is no profile {profile!r}; profiles: {profiles}")
    if toolsets is None and tools is None:
        omitted = registry.OMITTED.get(profile, ())
        return [t for t in tools_of(registry.PROFILES[profile]) if t.name not in omitted]
    groups = {name: (name,) for name in registry.TOOLSETS} | {
        "default": registry.PROFILES["default"],
        "all": tuple(registry.TOOLSETS),
    }
    selected: set[str] = set()
    for name in toolsets or ():
        if name not in groups:
            raise ValueError(f"there is no toolset {name!r}; toolsets: {', '.join(groups)}")
        selected.update(groups[name])
    selection = tools_of(selected)
    requested = {with_underscores(name) for name in tools or ()}
    check_tool_names(requested)
    selection += [resolve(name, requested) for name in requested - {t.name for t in selection}]
    return [tool for tool in registry.all_tools() if tool in selection]


def tools_of(toolsets: Collection[str]) -> list[Tool]:
    return [tool for tool in registry.all_tools() if tool.toolset in toolsets]


def resolve(name: str, requested: set[str]) -> Tool:
    """The tool with this name. If two toolsets have one, prefer the toolset of which more tools are
    requested: `search` with `fetch` is the one of `research`."""
    candidates = [tool for tool in registry.all_tools() if tool.name == name]

    def neighbours(tool: Tool) -> int:
        return sum(t.name in requested for t in registry.TOOLSETS[tool.toolset].tools)

    return max(candidates, key=neighbours)


# -- names ---


def name_tools(
    tools: list[Tool], names: str, prefix: str, rename: Mapping[str, str]
) -> dict[str, Tool]:
    if names not in NAMES:
        raise ValueError(f"there are no {names!r} names; names: {', '.join(NAMES)}")
    rename = {with_underscores(tool): name for tool, name in rename.items()}
    check_tool_names(rename, " to rename")
    tools_by_name: dict[str, Tool] = {}
    spellings: set[str] = set()
    for tool in tools:
        own_name = (tool.dotted if names == "dotted" else None) or tool.name
        name = prefix + rename.get(tool.name, own_name)
        if not 0 < len(name) <= MAX_NAME_LENGTH or not _CHARACTERS[names].issuperset(name):
            raise ValueError(
                f"{name!r} is not a valid tool name: "
                f"use 1 to {MAX_NAME_LENGTH} letters, digits, '_' or '-'"
            )
        if with_underscores(name) in spellings:
            raise ValueError(f"two tools would be called {name!r}")
        spellings.add(with_underscores(name))
        tools_by_name[name] = tool
    return tools_by_name


def check_tool_names(names: Collection[str], purpose: str = "") -> None:
    tool_names = dict.fromkeys(tool.name for tool in registry.all_tools())
    for name in sorted(names):
        if name not in tool_names:
            raise ValueError(f"there is no tool {name!r}{purpose}; tools: {', '.join(tool_names)}")


def with_underscores(name: str) -> str:
    return name.replace(".", "_")
