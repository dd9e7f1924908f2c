"""Edits of coding agents as diffs.

Importers store the arguments of a tool call as lines of `name: value`, other programs as JSON. This
module reads both. Other text is shown as it is.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_MAX_LINES = 2_000  # comparing more lines takes too long
_PATHS = ("file_path", "filePath", "notebook_path", "path", "file")
_OLD = ("old_string", "old_str")
_NEW = ("new_string", "new_str")
_CONTENTS = ("content", "file_text", "new_source")
_NAMES = (
    *_PATHS,
    *_OLD,
    *_NEW,
    *_CONTENTS,
    "edits",
    "replace_all",
    "instruction",
    "expected_replacements",
)
_ARGUMENT = re.compile(rf"^({'|'.join(_NAMES)}):(?:[ \n]|$)", re.MULTILINE)
_WRITE_TOOLS = frozenset(
    ("write", "write_file", "create", "create_file", "notebookedit", "file_write")
)


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
    _, begin, patch = content.partition("*** Begin Patch\n")
    if begin and "*** End Patch" in patch:
        return list(patch_diffs(patch))
    path = old = text = ""
    writes_files = tool.lower() in _WRITE_TOOLS
    lines: list[str] = []
    for name, value in read_arguments(content):
        if name in _PATHS:
            path = path or value.strip().partition("\n")[0]
        elif name in _OLD:
            old = value
        elif name in _NEW:
            lines += diff_lines(old, value)
            old = ""
        elif name in _CONTENTS:
            text = text or value
        elif name == "command":
            writes_files = writes_files or value == "create"
    if not lines and writes_files and text:
        lines = list(diff_lines("", text))
    return [FileDiff(path, lines)] if lines else []


def read_arguments(content: str) -> Iterator[tuple[str, str]]:
    """The names and texts of the arguments, in order. A call may make several edits."""
    if content.startswith("{"):
        try:
            arguments: dict[str, Any] = json.loads(content)
        except (ValueError, RecursionError):
            return
        edits = arguments.get("edits")
        for fields in (arguments, *(edits if isinstance(edits, list) else ())):
            if isinstance(fields, dict):
                # The old text comes first, however the fields are ordered.
                for name in (*_OLD, *fields.keys() - {*_OLD}):
                    if isinstance(fields.get(name), str):
                        yield name, fields[name]
        return
    found = list(_ARGUMENT.finditer(content))
    for match, following in zip(found, [*found[1:], None], strict=True):
        if match[1] in _CONTENTS:  # the text may look like further arguments
            yield match[1], content[match.end() :]
            return
        end = len(content) if following is None else following.start() - 1
        yield match[1], content[match.end() : end]


def patch_diffs(patch: str) -> Iterator[FileDiff]:
    """The files of a patch in the format of `apply_patch`."""
    path = ""
    lines: list[str] = []
    for line in patch.splitlines():
        words = line.split(maxsplit=3)
        if line.startswith("*** ") and words[2:3] == ["File:"]:
            if path:
                yield FileDiff(path, lines)
            path, lines = words[3], []
        elif line.startswith("*** End Patch"):
            break
        elif line[:1] in ("+", "-", " ", "@"):
            lines.append(line)
    if path:
        yield FileDiff(path, lines)


def diff_lines(old: str, new: str) -> Iterator[str]:
    old_lines, new_lines = old.splitlines(), new.splitlines()
    if len(old_lines) + len(new_lines) > _MAX_LINES:
        yield from (f"-{line}" for line in old_lines)
        yield from (f"+{line}" for line in new_lines)
        return
    diff = list(difflib.unified_diff(old_lines, new_lines, n=3, lineterm=""))
    for line in diff[2:]:  # without the names of the files
        # Line numbers would count from the edited text, not from the file.
        yield "@" if line.startswith("@@ ") else line


def changed_lines(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """The lines that a change would remove ("-") and add ("+")."""
    diff = list(difflib.unified_diff(before, after, lineterm="", n=1))
    lines = diff[3:]  # after the two file names and the first "@@"
    return [(" ", "…") if line.startswith("@@") else (line[:1], line[1:]) for line in lines]
