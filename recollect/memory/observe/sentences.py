"""Plain sentences from messages: without Markdown, code, and what was pasted.

`strip_markdown` removes Markdown from a text. Every sentence and clause is a literal substring of
the result, so that quotes can be checked against their source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from recollect.language.chunking import sentences
from recollect.language.languages import ENGLISH

MAX_LENGTH = 60_000
"""How many characters of a message are analyzed: a pasted log is not prose."""
_FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HIDDEN_TAG = re.compile(r"<(system-reminder|private)\b[^>]{0,200}+>.*?(?:</\1\s*>|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_STRONG = re.compile(r"\*\*+|~~")
_EMPHASIS = re.compile(r"(?<![\w*/.])\*([^\s*/.][^*\n]{0,200})\*(?![\w*/.])")
_ITEM = re.compile(
    r"[ \t>]*(?:(?:[-*+•]|\(?\d{1,3}[.)]"
    r"|\(?[a-zA-Z][.)])[ \t]+)?(?:(?:[\u2190-\u2bff\u3030\U0001f000-\U0001fbff]\ufe0f?)+[ \t]*)?"
)
_PLAIN_START = re.compile("[A-Za-z][^.)]")  # most lines; no mark begins like this
_BOLD = re.compile(r"[ \t]*\*\*[^*]{2,80}[^*.]\*\*:?[ \t]*$")
_CODE = re.compile(r"(`[^`\n]+`)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")
_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+")
_RULE = re.compile(r"[ \t]*(?:[-*_=][ \t]*){3,}$")
_TABLE = re.compile(r"[ \t]*\|")
_MACHINE_START = re.compile(
    r"\s*(?://|#!|/\*|\$ |>>> |\+\+\+|---|@@|\d+ [│|]|(?:const|let|var|import|from|def"
    r"|return|class"
    r"|if \()\s?.*[=({;:])|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\s*at \S+ \("
)
_MACHINE = re.compile(r"[;{}]\s*$|[│┃━┌└├╭╰]|=>|&&|\(\)\.")
_SIGN = re.compile(r"[{}\[\]<>=|\\$#@~^_;*/]")
_TAG = re.compile(r", (?:ok(?:ay)?|right|alright|please)\?$", re.IGNORECASE)


class Sentence(NamedTuple):
    """A sentence of a plain text.

    `block` is the number of its paragraph; `item` is set if it starts an item of a list.
    """

    text: str
    block: int
    item: bool = False
    heading: bool = False
    question: bool = False


def strip_markdown(text: str) -> str:
    """The text line by line without code blocks and Markdown, with single spaces."""
    return "\n".join(line for line, _ in _lines(text))


def without_fences(text: str) -> str:
    """The text without code blocks."""
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("\n", text)
    return text


def fold_spaces(text: str) -> str:
    return " ".join(text.split())


def prose_sentences(text: str) -> list[Sentence]:
    """The sentences of a text that are natural language."""
    return [sentence for sentence in split_sentences(text) if is_prose(sentence.text)]


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text."""
    result: list[Sentence] = []
    for number, (block, mark) in enumerate(blocks(text)):
        for place, (start, end) in enumerate(sentences(block)):
            sentence = block[start:end].strip()
            if sentence:
                is_item = mark == "item" and place == 0
                is_question = sentence[-1] in "?？؟" and not _TAG.search(sentence)
                result.append(Sentence(sentence, number, is_item, mark == "heading", is_question))
    return result


def is_prose(sentence: str) -> bool:
    """Whether this is natural language, as opposed to code or the output of a program."""
    text = _CODE.sub("", sentence)
    if len(text) > 700 or _MACHINE_START.match(text) or _MACHINE.search(text):
        return False
    signs = len(_SIGN.findall(text))
    return signs * 9 <= len(text) or signs < 3


def split_clauses(sentence: str, length: int) -> list[str]:
    """A sentence in clauses of about `length` characters; itself if it is not longer."""
    if len(sentence) <= length:
        return [sentence]
    ends = [match.start() for match in clause_end().finditer(sentence)]
    pieces: list[str] = []
    start = previous_end = 0
    for end in [*ends, len(sentence)]:
        if end - start > length and previous_end > start:
            pieces.append(sentence[start:previous_end])
            start = len(sentence) - len(sentence[previous_end:].lstrip(" ,;-–—"))
        previous_end = end
    pieces.append(sentence[start:])
    clauses = [piece.strip(" ,;-–—") for piece in pieces]
    return [clause for clause in clauses if clause]


def without_lead(text: str) -> str:
    """A sentence without introductory words such as "By the way,"."""
    match = lead().match(text)
    is_question = text.endswith("?") and text.casefold().startswith(("where ", "who ", "which "))
    if match is None or len(text) - match.end() < 12 or is_question:
        return text
    return text[match.end() :]


def shorten(text: str, length: int) -> str:
    """At most `length` characters, cut between words, with an ellipsis if something is missing."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    space = head.rfind(" ")
    if space > length // 2:
        head = head[:space]
    return head.rstrip(" ,;:.-–—(") + "…"


@cache
def clause_end() -> re.Pattern[str]:
    clauses = "|".join(ENGLISH.fields.table("observer").lines("clauses"))
    return re.compile(rf"(?<=[^\s,;])(?:\s+[-–—]+\s+|—|;\s+|{clauses})")


@cache
def lead() -> re.Pattern[str]:
    words = "|".join(ENGLISH.fields.table("observer").lines("lead"))
    return re.compile(rf"(?:(?:{words})(?:\s*[,:!.…]+\s*|\s+))+", re.IGNORECASE)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines without Markdown, each with its mark. What is not prose becomes an empty line."""
    text = text[:MAX_LENGTH]
    if "<" in text:
        text = _HIDDEN_TAG.sub(" ", text)
    for raw_line in without_fences(text).split("\n"):
        if not raw_line or _PLAIN_START.match(raw_line):
            yield fold_spaces(strip_inline(raw_line)), ""
            continue
        line = _QUOTE.sub("", raw_line)
        if _RULE.match(line) or _TABLE.match(line):
            yield "", "break"
            continue
        mark = ""
        heading = _HEADING.match(line)
        item = _ITEM.match(line)
        if heading is not None:
            line = line[heading.end() :]
            mark = "heading"
        elif _BOLD.match(line):
            mark = "heading"
        elif item is not None and item[0].strip():
            line = line[item.end() :]
            mark = "item"
        yield fold_spaces(strip_inline(line)), mark


def strip_inline(line: str) -> str:
    """The line without emphasis and links. Inline code is left unchanged."""
    if "`" not in line:
        return strip_emphasis(line)
    parts = _CODE.split(line)
    for number in range(0, len(parts), 2):  # the parts between are code
        parts[number] = strip_emphasis(parts[number])
    return "".join(parts)


def strip_emphasis(text: str) -> str:
    text = _STRONG.sub("", _LINK.sub(r"\1", text) if "](" in text else text)
    return _EMPHASIS.sub(r"\1", text) if "*" in text else text


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs, items and headings with their marks. Wrapped lines are joined."""
    block = ""
    block_mark = ""
    previous_length = 0
    for line, mark in _lines(text):
        is_continuation = line and not mark and block and block_mark != "heading"
        if is_continuation and previous_length > 55:
            block += f" {line}"
        else:
            if block:
                yield block, block_mark
            block = line
            block_mark = mark
        previous_length = len(line)
    if block:
        yield block, block_mark


# -- pasted text ---
# People paste logs, errors and status pages into their messages. A program wrote them, so a title,
# a request or a statement never comes from them.

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
_SENTENCE_END = re.compile(r"[.?!:,;。？！]\s*$")


class Parts(NamedTuple):
    """A message of a person."""

    own: str
    """What they wrote. Lines of output are empty."""
    pasted: str


def split_pasted(text: str) -> Parts:
    """Separate what a person wrote from the output of programs. Code blocks belong to neither."""
    lines = without_fences(text).split("\n")
    numbers = [number for number, line in enumerate(lines) if is_output(line)]
    if len(numbers) >= _LOG_LINES:
        numbers = list(range(start_of_log(lines, numbers[0]), numbers[-1] + 1))
    pasted = [lines[number] for number in numbers]
    for number in numbers:
        lines[number] = ""
    if not pasted:
        return Parts(text, "")
    return Parts("\n".join(lines), "\n".join(pasted))


def is_output(line: str) -> bool:
    if _OUTPUT.match(line):
        return True
    return len(line) <= _MAX_STATUS_LENGTH and _STATUS.match(line) is not None


def start_of_log(lines: Sequence[str], number: int) -> int:
    """The first line of a log whose first line of output is known.

    The lines right above belong to it, unless they end like a sentence or begin the message.
    """
    while number > 1 and lines[number - 1].strip() and not _SENTENCE_END.search(lines[number - 1]):
        number -= 1
    return number
