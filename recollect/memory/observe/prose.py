"""What people and models wrote, as plain sentences.

`plain` takes the marks of Markdown out of a text; every sentence and clause
here is a piece of that form, letter by letter, so that what is quoted can be
checked against its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.language.chunking import sentences

READ = 60_000
"""Characters of one message that are looked at: a pasted log is no prose."""
_FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"<(system-reminder|private)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_STRONG = re.compile(r"\*\*+|~~")
_EMPHASIS = re.compile(r"(?<![\w*/.])\*([^\s*/.][^*\n]{0,200})\*(?![\w*/.])")
_ITEM = re.compile(
    r"[ \t>]*(?:(?:[-*+•]|\(?\d{1,3}[.)]"
    r"|\(?[a-zA-Z][.)])[ \t]+)?(?:(?:[\u2190-\u2bff\u3030\U0001f000-\U0001fbff]\ufe0f?)+[ \t]*)?"
)
_BOLD = re.compile(r"[ \t]*\*\*[^*]{2,80}[^*.]\*\*:?[ \t]*$")
_CODE = re.compile(r"(`[^`\n]+`)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")
_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+")
_RULE = re.compile(r"[ \t]*(?:[-*_=][ \t]*){3,}$")
_TABLE = re.compile(r"[ \t]*\|")
_MACHINE = re.compile(
    r"[;{}]\s*$|^\s*(?://|#!|/\*|\$ |>>> |\+\+\+|---|@@|\d+ [│|]|(?:const|let|var|import|from|def|return|class"
    r"|if \()\s?.*[=({;:])|[│┃━┌└├╭╰]|=>|&&|\(\)\.|^\d{4}-\d\d-\d\d[T ]\d\d:\d\d|^\s*at \S+ \("
)
_SIGN = re.compile(r"[{}\[\]<>=|\\$#@~^_;*/]")
_SPACE = re.compile(r"\s+")
_SUBJECT = r"(?:I|I'm|I've|I'd|I'll|we|we're|my|it|it's|he|she|they|this|that|there|then|now|can|could|would|do)"
_CLAUSE = re.compile(
    r"(?<=[^\s,;])(?:"
    r"\s+[-–—]+\s+|—|;\s+"
    rf"|,\s+(?=(?:so|but|which|who|where|because|since|especially|considering|although|though|while|plus|given"
    rf"|whether|if"
    rf"|specifically|{_SUBJECT}|(?:and|or|just|maybe|also|not|as) {_SUBJECT}|what|how|thanks)\b)"
    rf"|\s+(?=(?:because|so that|but|since I|when I|(?:and|so|which) {_SUBJECT})\b)"
    r")",
)
_LEADS = re.compile(
    r"(?:(?:oh|well|hey|hi|hello|ok|okay|yes|yeah|no|sure|also|and|but|so|actually|anyway|btw|by the way|great|thanks"
    r"|thank you|please|now|then|alright|right|perfect|cool|wow|hmm|um|just|speaking of which|speaking of that"
    r"|on another note|that being said|i was wondering|i was wondering if|i'm wondering if|i'm wondering"
    r"|i just realized"
    r"|i just remembered|which is why|because|which|since|where|who|as|like|it's just that)"
    r"(?:\s*[,:!.…]+\s*|\s+))+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a plain text. `item` says that it opens an item of a list, `block` which paragraph it is in."""

    text: str
    block: int
    item: bool = False
    heading: bool = False
    question: bool = False


def plain(text: str) -> str:
    """A text without code blocks and the marks of Markdown, a line for a line, white space made one."""
    return "\n".join(line for line, _ in _lines(text))


def folded(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def prose(text: str) -> list[Sentence]:
    """The sentences of a text."""
    found: list[Sentence] = []
    for number, (block, mark) in enumerate(_blocks(text)):
        for place, (start, end) in enumerate(sentences(block)):
            said = block[start:end].strip()
            if said:
                found.append(
                    Sentence(
                        said,
                        number,
                        mark == "item" and not place,
                        mark == "heading",
                        said[-1] in "?？؟",
                    )
                )
    return found


def is_prose(sentence: str) -> bool:
    """Whether somebody says it, as opposed to code and what programs print."""
    bare = _CODE.sub("", sentence)
    if _MACHINE.search(bare) or len(bare) > 700:
        return False
    signs = len(_SIGN.findall(bare))
    return signs * 9 <= len(bare) or signs < 3


def clauses(sentence: str, length: int) -> list[str]:
    """A sentence in parts of about `length` characters, cut where a new thought begins; itself if it is not longer."""
    if len(sentence) <= length:
        return [sentence]
    pieces: list[str] = []
    start = at = 0
    for cut in [*_CLAUSE.finditer(sentence), None]:
        end = cut.start() if cut else len(sentence)
        if end - start > length and at > start:
            pieces.append(sentence[start:at])
            start = _after(sentence, at)
        at = end
    pieces.append(sentence[start:])
    return [piece for raw in pieces if (piece := raw.strip(" ,;-–—"))]


def without_lead(text: str) -> str:
    """A sentence without the words that only lead up to it."""
    found = _LEADS.match(text)
    rest = text[found.end() :] if found else text
    return rest if len(rest) >= 12 else text


def cut(text: str, length: int) -> str:
    """At most so many characters, cut between words; a whole text has no ellipsis."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    space = head.rfind(" ")
    return head[: space if space > length // 2 else length - 1].rstrip(" ,;:.-–—(") + "…"


def _after(text: str, at: int) -> int:
    return next((n for n in range(at, len(text)) if text[n] not in " ,;-–—"), len(text))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Line by line, without marks; and what mark it had. An empty line for what is no prose."""
    text = _FENCE.sub("\n", _TAGGED.sub(" ", text[:READ]))
    for raw in text.split("\n"):
        mark = ""
        line = _QUOTE.sub("", raw)
        if _RULE.match(line) or _TABLE.match(line):
            yield "", "break"
            continue
        if heading := _HEADING.match(line):
            line, mark = line[heading.end() :], "heading"
        elif _BOLD.match(line):
            mark = "heading"
        elif (item := _ITEM.match(line)) and item[0].strip():
            line, mark = line[item.end() :], "item"
        yield folded("".join(_unmarked(line))), mark


def _unmarked(line: str) -> Iterator[str]:
    """A line without emphasis and links; what is written as code stays as it is."""
    for number, part in enumerate(_CODE.split(line)):
        yield part if number % 2 else _EMPHASIS.sub(r"\1", _STRONG.sub("", _LINK.sub(r"\1", part)))


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs, items and headings; lines that were only wrapped are put together."""
    block, kind = "", ""
    last = 0
    for line, mark in _lines(text):
        wrapped = block and not mark and line and kind != "heading" and last > 55
        if wrapped:
            block += f" {line}"
        else:
            if block:
                yield block, kind
            block, kind = line, mark
        last = len(line)
    if block:
        yield block, kind
