"""What people paste into their messages: logs, errors, status pages.

A program wrote it. So a title, a request or a statement never comes from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from recollect.memory.observe.prose import without_fences

_LOG_LINES = 3  # with so many lines of output, the lines between them are output as well
_MAX_STATUS_LENGTH = 200
_OUTPUT = re.compile(
    r"\s*(?:"
    # Marks and prompts of programs. People begin the items of lists with other signs.
    r"[✔✓✗✘✖×❯➜│┌└├╭╰━]"
    r"|(?:\$|%|>>>) \S|~?/\S+ .*(?:⇡|·{3})"
    # npm repeats the name of a script.
    r"|> ?[\w:.@/-]+$"
    # The duration of a step, the time of an event, the level of a message.
    r"|\d+(?:\.\d+)? ?(?:ms|s)$"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d{1,2}:\d\d:\d\d\b"
    r"|\[[A-Z][A-Z _-]+\]|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    # Errors and their places.
    r"|(?:E\s+)?(?:\w+\.)*\w*(?:Error|Exception|Warning)\b(?:\[\w+\]| \d+)?(?::|$)"
    r"|(?:error|fatal|panic|warning)(?:\[\w+\]| TS\d+)?: |npm ERR!|Traceback \(most"
    r"|at \S+ \(\S*:\d+|File \"[^\"]+\", line \d|\S+:\d+:\d+\b"
    r")"
)
# How a run ended. A question about it is not output.
_STATUS = re.compile(
    r"\s*(?:"
    r"(?:failed|passed|succeeded|cancelled|completed|started|queued) .{0,40}\bago\b"
    r"|(?:failed|passed|succeeded|built|compiled|generated|checked|done|finished|completed|ran)\b"
    r"[^?]*\b(?:in|after) \d+(?:\.\d+)? ?m?s\b"
    r"|(?:found )?\d+ (?:errors?|warnings?|problems?|failed|failures?|passed|passing)\b"
    r"|process (?:completed|exited) with\b"
    r")[^?]*$",
    re.IGNORECASE,
)
_STEP = re.compile(r"\s*Run \S+")  # the heading of a step, above what it prints
# Where output begins after the person's words: an error, or the prompt of a command.
_INLINE_OUTPUT = re.compile(
    r"(?<=[:,.] )(?:E +)?(?:\w+\.)*\w+(?:Error|Exception): |(?<=[.:])> (?=\w)"
)
_MARKS_OF_INLINE_OUTPUT = ("Error: ", "Exception: ", "> ")
_SENTENCE_END = re.compile(r"[.?!:,;。？！]\s*$")


class Parts(NamedTuple):
    """A message of a person."""

    own: str
    """What they wrote. Lines of output are empty."""
    pasted: str


def split_pasted(text: str) -> Parts:
    """Separate what a person wrote from the output of programs. Code blocks belong to neither."""
    lines = without_fences(text).split("\n")
    numbers = [number for number, line in enumerate(lines) if _is_output(line)]
    if len(numbers) >= _LOG_LINES:
        numbers = list(range(_start_of_log(lines, numbers[0]), numbers[-1] + 1))
    pasted = [lines[number] for number in numbers]
    for number in numbers:
        lines[number] = ""
    if any(mark in text for mark in _MARKS_OF_INLINE_OUTPUT):  # few messages
        for number, line in enumerate(lines):
            output = _INLINE_OUTPUT.search(line)
            if output is not None:
                pasted.append(line[output.start() :])
                lines[number] = line[: output.start()]
    if not pasted:
        return Parts(text, "")
    return Parts("\n".join(lines), "\n".join(pasted))


def _is_output(line: str) -> bool:
    if _OUTPUT.match(line):
        return True
    return len(line) <= _MAX_STATUS_LENGTH and _STATUS.match(line) is not None


def _start_of_log(lines: Sequence[str], number: int) -> int:
    """The first line of a log whose first line of output is known.

    The lines right above belong to it, unless they end like a sentence or begin the message.
    """
    if number > 1 and not lines[number - 1].strip() and _STEP.match(lines[number - 2]):
        number -= 2
    while number > 1 and lines[number - 1].strip() and not _SENTENCE_END.search(lines[number - 1]):
        number -= 1
    return number
