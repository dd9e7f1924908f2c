"""Short labels for the results of tools: `Read src/server.ts`, `Ran npm test`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recollect.memory.names import file_name
from recollect.memory.observe.work import parse_arguments
from recollect.model.audience import MASK
from recollect.model.documents import Passage

_VERBS = {
    "Read": "read view open cat read_file notebookread view_file open_file",
    "Ran": (
        "bash shell exec exec_command local_shell run_shell_command container.exec run_command"
        " execute_command terminal run_terminal_cmd unified_exec shell_command"
    ),
    "Edited": (
        "edit multiedit notebookedit str_replace edit_file replace replace_in_file apply_diff"
        " search_replace str_replace_editor str_replace_based_edit_tool apply_patch"
    ),
    "Wrote": "write create write_file create_file write_to_file",
    "Searched": (
        "grep glob search websearch web_search google_web_search search_web search_files"
        " search_file_content codebase_search file_search"
    ),
    "Listed": "ls list_dir list_directory list_files",
    "Fetched": "webfetch web_fetch fetch fetch_url",
}
_VERB_OF = {tool: verb for verb, tools in _VERBS.items() for tool in tools.split()}
_PATHS = ("file_path", "path", "notebook_path", "absolute_path", "target_file", "filename", "file")
_ARGUMENTS = ("command", "cmd", "pattern", "query", "q", "url", *_PATHS)
"""The arguments that tell the most, in this order."""
_MAX_ARGUMENT = 60


class ToolLabel(NamedTuple):
    text: str
    is_whole: bool
    """Whether it contains everything that the call says."""


def calls_of_results(passages: Sequence[Passage]) -> dict[str, Passage]:
    """The calls by the ids of their results: by the id of the call, or the call just before."""
    calls_by_id = {_call_id(p): p for p in passages if p.type == "tool_call" and _call_id(p)}
    calls: dict[str, Passage] = {}
    previous = None
    for passage in passages:
        if passage.type == "tool_result":
            call = calls_by_id.get(_call_id(passage))
            if call is None and previous is not None and not _call_id(previous):
                call = previous
            if call is not None and call.type == "tool_call":
                calls[passage.id] = call
        previous = passage
    return calls


def _call_id(passage: Passage) -> object:
    return passage.metadata.get("tool_use_id") or passage.metadata.get("call_id")


def tool_label(result: Passage, call: Passage | None, project: str) -> ToolLabel:
    """What a tool did. For a call that only people may read, only the name of the tool."""
    tool = result.tool or ""
    content = ""
    if call is not None:
        tool = tool or call.tool or ""
        if call.content != MASK:
            content = call.content
    name = tool.rsplit("__", 1)[-1]
    if not name:
        return ToolLabel("Tool result", False)
    verb = _VERB_OF.get(name.casefold(), f"Used {name}:")
    argument = _main_argument(parse_arguments(content), content, project)
    short = _shorten(argument)
    if short in ("", tool):
        return ToolLabel(verb.removesuffix(":"), False)
    is_whole = short == argument and "\n" not in content.strip()
    return ToolLabel(f"{verb} {short}", is_whole)


def _main_argument(arguments: Mapping[str, str], content: str, project: str) -> str:
    for name in _ARGUMENTS:
        value = arguments.get(name, "").strip()
        if value and name in _PATHS:
            return file_name(value, project)
        if value:
            return value
    if arguments:
        return next(iter(arguments.values())).strip()
    return content.strip()


def _shorten(argument: str) -> str:
    """The first line, on at most `_MAX_ARGUMENT` characters."""
    first, _, others = argument.partition("\n")
    line = " ".join(first.split())
    if len(line) <= _MAX_ARGUMENT and not others:
        return line
    return line[: _MAX_ARGUMENT - 1].rstrip() + "…"
