"""Indentation and columns in Markdown: browsers and CommonMark would reduce them to one blank.

People paste code and the output of programs without marking it as code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.newline import newline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

_BLANKS = re.compile(r"[ \t]{2,}|\t")


def add_blanks(parser: MarkdownIt) -> None:
    parser.inline.ruler.at("newline", _keep_indentation)
    parser.add_render_rule("text", _render_text)


def _keep_indentation(state: StateInline, silent: bool) -> bool:
    """A line break. The blanks after it belong to the next line."""
    start = state.pos
    if not newline(state, silent):
        return False
    if state.md.options["breaks"]:
        state.pos = start + 1
    return True


def _render_text(
    self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    return _BLANKS.sub(r'<span class="blanks">\g<0></span>', escape(tokens[idx].content))
