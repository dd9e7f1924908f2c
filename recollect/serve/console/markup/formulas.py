"""Formulas in Markdown: LaTeX as MathML, which browsers draw themselves.

The converter is math-core. It escapes what it writes, and the sanitizer checks its output like
everything else. It is native code: nesting can exhaust its stack, and its time doubles with each
bracket that is not closed. The page shows the source of formulas that the converter does not know,
and of those that are nested deeply or leave many brackets open.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from recollect.language.text import storable

_TAG_NAMES = (
    "math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot "
    "mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover"
)
_ATTRIBUTE_NAMES = (
    "accent accentunder class columnalign columnspan depth display displaystyle fence form height "
    "largeop linethickness lspace mathvariant maxsize minsize movablelimits notation rowspan "
    "rspace scriptlevel separator stretchy symmetric voffset width"
)
TAGS = frozenset(_TAG_NAMES.split())
ATTRIBUTES = {tag: set(_ATTRIBUTE_NAMES.split()) for tag in TAGS}
_MAX_CHARS = 4_000
_MAX_DEPTH = 40
_MAX_BLOCK_LINES = 60
_DELIMITERS = (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False), ("$", "$", False))
# Commands that take the next one as their argument nest without braces.
_LONG_RUN = re.compile(r"(?:\\[A-Za-z]++\s*+[0-9A-Za-z]?+\s*+){100}")
_MAX_UNCLOSED = 8  # the converter takes twice as long for each
_OPENING = re.compile(r"[(\[]|\\\{|\\l(?:angle|brace|brack|ceil|floor|vert|Vert)\b")
_CLOSING = re.compile(r"[)\]]|\\\}|\\r(?:angle|brace|brack|ceil|floor|vert|Vert)\b")
_ENVIRONMENT = re.compile(r"\\(?:left|begin)\b")
# The page's policy allows no style attributes.
_CELL_STYLE = re.compile(r'<mtd style="([^"]*)"')


# -- CPU time for what a text can do without: drawn formulas, and the colours of code ---


class _Spent(BaseException):
    """The time is over. No library catches it."""


class Allowance:
    """Some seconds for one text. `re`, which lexers use, is interrupted; native code is not."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def spend(self, work: Callable[[], str]) -> str:
        """What some work returns; empty if the time does not suffice."""
        if self._seconds <= 0:
            return ""
        start = time.process_time()
        try:
            try:
                self._set_timer(self._seconds)
                return work()
            finally:
                self._set_timer(0)
        except _Spent:
            return ""
        finally:
            self._seconds -= time.process_time() - start

    @staticmethod
    def _set_timer(seconds: float) -> None:
        def interrupt(*_: object) -> None:
            raise _Spent

        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGVTALRM, interrupt)
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


# -- formulas ---


def add_formulas(parser: MarkdownIt) -> None:
    """Let a parser recognise formulas: `$x$`, `$$x$$`, `\\(x\\)` and `\\[x\\]`."""
    parser.inline.ruler.before("escape", "formula", parse_inline)
    ends = ["paragraph", "reference", "blockquote", "list"]  # blocks that a formula interrupts
    parser.block.ruler.before("fence", "formula", parse_block, {"alt": ends})
    parser.add_render_rule("formula", render)


def mathml(source: str, display: bool, allowance: Allowance) -> str:
    """A formula as MathML, or its source if it cannot be converted."""
    html = ""
    if is_harmless(source):
        html = allowance.spend(lambda: convert(storable(source), display))
    return html or f'<code class="formula">{escape(source)}</code>'


def convert(source: str, display: bool) -> str:
    """A formula as MathML; empty if that is not possible."""
    import math_core

    converter = math_core.LatexToMathML(fancy_error=False)
    try:
        html = converter.convert_with_local_state(source, displaystyle=display)
    except math_core.LatexError:
        return ""
    return _CELL_STYLE.sub(
        lambda style: f'<mtd class="math-{"right" if "align: right" in style[1] else "left"}"', html
    )


def is_harmless(source: str) -> bool:
    if len(source) > _MAX_CHARS or len(_ENVIRONMENT.findall(source)) > _MAX_DEPTH:
        return False
    if len(_OPENING.findall(source)) - len(_CLOSING.findall(source)) > _MAX_UNCLOSED:
        return False
    depth = deepest = 0
    for char in source:
        if char in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "}]":
            depth -= 1
    return deepest <= _MAX_DEPTH and not _LONG_RUN.search(source)


# -- parsing ---


def parse_inline(state: StateInline, silent: bool) -> bool:
    text, start = state.src, state.pos
    found = next((each for each in _DELIMITERS if text.startswith(each[0], start)), None)
    if found is None:
        return False
    opening, closing, display = found
    begin = start + len(opening)
    limit = min(state.posMax, begin + _MAX_CHARS + len(closing))
    end = text.find(closing, begin, limit)
    while end > begin and text[end - 1] == "\\" and closing.startswith("$"):
        end = text.find(closing, end + 1, limit)
    if end <= begin or not text[begin:end].strip():
        return False
    if opening == "$" and not is_dollar_formula(text, start, end):
        return False
    if not silent:
        add_token(state.push("formula", "math", 0), text[begin:end], display)
    state.pos = end + len(closing)
    return True


def is_dollar_formula(text: str, start: int, end: int) -> bool:
    """Whether dollars enclose a formula. They may as well be prices or names of variables."""
    before, after = text[start - 1 : start], text[end + 1 : end + 2]
    if before.isalnum() or after.isalnum() or "_" in (before, after) or "$" in (before, after):
        return False
    content = text[start + 1 : end]
    return not content[0].isspace() and not content[-1].isspace() and "\n\n" not in content


def parse_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A formula that begins and ends with its own lines."""
    if state.is_code_block(start_line):
        return False
    begin = state.bMarks[start_line] + state.tShift[start_line]
    opening = state.src[begin : begin + 2]
    closing = {"$$": "$$", "\\[": "\\]"}.get(opening)
    if closing is None:
        return False
    end = state.src.find(closing, begin + 2, begin + 2 + _MAX_CHARS)
    if end < 0:
        return False
    lines = [state.src[begin + 2 : state.eMarks[start_line]]]
    line = start_line
    while state.eMarks[line] < end:
        line += 1
        if line >= min(end_line, start_line + _MAX_BLOCK_LINES):
            return False
        lines.append(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])
    source = "\n".join(lines).rstrip()
    if not source.endswith(closing):
        return False
    source = source[:-2]
    if closing in source or not source.strip():
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.block = True
        token.map = [start_line, line + 1]
        add_token(token, source, True)
        state.line = line + 1
    return True


def add_token(token: Token, source: str, display: bool) -> None:
    token.content = source.strip()
    token.meta = {"display": display}


def render(self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
    token = tokens[idx]
    return mathml(token.content, bool(token.meta["display"]), env["allowance"])
