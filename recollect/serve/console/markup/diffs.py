"""Edits of coding agents as diffs.

Importers store the arguments of a tool call as lines of `name: value`, other programs as JSON. This
module reads both. Other text is shown as it is.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_MAX_LINES = 2_000  # comparing more lines takes too long
_CONTEXT_LINES = 3
_PATCH = re.compile(r"^\*\*\* Begin Patch\n(.*?)^\*\*\* End Patch", re.DOTALL | re.MULTILINE)
_PATCH_FILE = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
_PATH = re.compile(r"^(?:file_path|filePath|notebook_path|path|file):[ \n](.+)$", re.MULTILINE)
_REPLACEMENT = re.compile(
    r"^(?:old_string|old_str):[ \n]?(?P<old>.*?)\n(?:new_string|new_str):[ \n]?(?P<new>.*?)"
    r"(?=\n(?:replace_all|expected_replacements|instruction|old_string|old_str):[ \n]|\Z)",
    re.DOTALL | re.MULTILINE,
)
_CONTENT = re.compile(r"^(?:content|file_text|new_source):[ \n](.*)\Z", re.DOTALL | re.MULTILINE)
_WRITE_TOOLS = frozenset(
    ("write", "write_file", "create", "create_file", "notebookedit", "file_write")
)
_EDIT_NAMES = (("old_string", "new_string"), ("old_str", "new_str"))
_PATH_NAMES = ("file_path", "filePath", "path", "notebook_path", "file")
_TEXT_NAMES = ("content", "file_text", "new_source")


class FileDiff(NamedTuple):
    """The changed lines of one file. Each line begins with "+", "-", " " or "@"."""

    path: str
    lines: Sequence[str]

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines)


def edit_diffs(tool: str, content: str) -> list[FileDiff]:
    """The diffs that a tool call makes; none if it is not an edit."""
    patch = _PATCH.search(content)
    if patch:
        return list(patch_diffs(patch.group(1)))
    arguments = json_arguments(content)
    if arguments is not None:
        path, replacements = read_json(tool, arguments)
    else:
        path, replacements = read_lines(tool, content)
    if not replacements:
        return []
    lines = [line for old, new in replacements for line in diff_lines(old, new)]
    return [FileDiff(path, lines)]


def changed_lines(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """The lines that a change would remove ("-") and add ("+")."""
    diff = list(difflib.unified_diff(before, after, lineterm="", n=1))
    lines = []
    for line in diff[3:]:  # after the two file names and the first "@@"
        if line.startswith("@@"):
            lines.append((" ", "…"))
        else:
            lines.append((line[:1], line[1:]))
    return lines


# -- arguments ---


def json_arguments(content: str) -> Mapping[str, object] | None:
    if not content.startswith("{"):
        return None
    try:
        arguments = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if isinstance(arguments, dict):
        return arguments
    return None


def read_json(tool: str, arguments: Mapping[str, object]) -> tuple[str, list[tuple[str, str]]]:
    """The path and the replacements in the arguments of a call."""
    path = first_text(arguments, _PATH_NAMES)
    edits = arguments.get("edits")
    if not isinstance(edits, list):
        edits = [arguments]
    replacements = []
    for edit in edits:
        for old_name, new_name in _EDIT_NAMES:
            if isinstance(edit, dict) and isinstance(edit.get(new_name), str):
                replacements.append((str(edit.get(old_name) or ""), edit[new_name]))
    if not replacements and writes_files(tool, str(arguments.get("command", ""))):
        text = first_text(arguments, _TEXT_NAMES)
        if text:
            replacements.append(("", text))
    return path, replacements


def read_lines(tool: str, content: str) -> tuple[str, list[tuple[str, str]]]:
    """The path and the replacements in lines of `name: value`."""
    path = ""
    path_line = _PATH.search(content)
    if path_line:
        path = path_line.group(1).strip()
    replacements = [
        (match.group("old"), match.group("new")) for match in _REPLACEMENT.finditer(content)
    ]
    if not replacements and writes_files(tool, ""):
        text = _CONTENT.search(content)
        if text:
            replacements.append(("", text.group(1)))
    return path, replacements


def writes_files(tool: str, command: str) -> bool:
    return tool.lower() in _WRITE_TOOLS or command == "create"


def first_text(arguments: Mapping[str, object], names: Sequence[str]) -> str:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


# -- lines ---


def diff_lines(old: str, new: str) -> Iterator[str]:
    old_lines, new_lines = old.splitlines(), new.splitlines()
    if len(old_lines) + len(new_lines) > _MAX_LINES:
        yield from (f"-{line}" for line in old_lines)
        yield from (f"+{line}" for line in new_lines)
        return
    diff = list(difflib.unified_diff(old_lines, new_lines, n=_CONTEXT_LINES, lineterm=""))
    for line in diff[2:]:  # without the names of the files
        if line.startswith("@@ "):
            yield "@"  # line numbers would count from the edited text, not from the file
        else:
            yield line


def patch_diffs(patch: str) -> Iterator[FileDiff]:
    """The files of a patch in the format of `apply_patch`."""
    path = ""
    lines: list[str] = []
    for line in patch.splitlines():
        header = _PATCH_FILE.match(line)
        if header:
            if path:
                yield FileDiff(path, lines)
            path, lines = header.group(1), []
        elif line[:1] in ("+", "-", " ", "@"):
            lines.append(line)
    if path:
        yield FileDiff(path, lines)
