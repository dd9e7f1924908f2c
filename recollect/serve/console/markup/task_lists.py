"""Task lists in Markdown: `- [ ]` and `- [x]`."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_MARK = re.compile(r"\[([ xX])\]\s")


def add_task_lists(parser: MarkdownIt) -> None:
    parser.core.ruler.push("task_lists", _mark_tasks)


def _mark_tasks(state: StateCore) -> None:
    tokens = state.tokens
    lists: list[Token] = []
    for number, token in enumerate(tokens):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            lists.append(token)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            lists.pop()
        elif lists and _is_first_in_item(tokens, number) and _mark_task(token):
            lists[-1].attrSet("class", "tasks")


def _is_first_in_item(tokens: list[Token], number: int) -> bool:
    types = [token.type for token in tokens[max(0, number - 2) : number + 1]]
    return types == ["list_item_open", "paragraph_open", "inline"]


def _mark_task(inline: Token) -> bool:
    """Replace the mark at the start of an item by a box. Returns whether there is one."""
    children = inline.children or []
    if not children or children[0].type != "text":
        return False
    mark = _MARK.match(children[0].content)
    if mark is None:
        return False
    children[0].content = children[0].content[mark.end() :]
    box, css_class = Token("text", "", 0, content="☐"), "task"
    if mark.group(1) != " ":
        box, css_class = Token("text", "", 0, content="☑"), "task complete"
    opening = Token("task_open", "span", 1, attrs={"class": css_class})
    inline.children = [opening, box, Token("task_close", "span", -1), *children]
    return True
