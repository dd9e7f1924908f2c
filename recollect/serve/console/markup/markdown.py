"""Markdown as safe HTML. It runs in a process of its own; see `rendering`.

Text is Markdown without HTML. markdown-it renders it, and nh3 keeps only the tags and attributes
on a list. Images become links, so opening a conversation sends no request to another server. Links
must be http, https or mailto, so none can lead into the console itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.newline import newline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from recollect.language.symbols import without_terminal_codes
from recollect.language.text import storable
from recollect.serve import links
from recollect.serve.console.markup import formulas
from recollect.serve.console.markup.formulas import Allowance, add_formulas

_MAX_NESTING = 50
_MAX_LINK_TARGET = 500
_MAX_BRACKETS = 2_000  # each may start a link, so parsing time grows with their square
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
_WEB_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_FILE_LINK = re.compile(
    r"(?![A-Za-z][A-Za-z0-9+.-]*:)[^\s/\\#?][^\s\\?#]{0,500}"
    r"\.(?:md|markdown|png|jpe?g|gif|webp|svg)(?:#\S*)?"
)
_CONTINUATION = re.compile(r"[ \t]*(?![-*+>|#=~`]|\d+[.)]\s)\S")
_BLANKS = re.compile(r"[ \t]{2,}|\t")
_MARK = re.compile(r"\[([ xX])\]\s")
_WRAP_MARGINS = (55, 140)  # characters
_TAG_NAMES = (
    "a blockquote br code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong "
    "table tbody td th thead tr ul"
)
_TAGS = set(_TAG_NAMES.split()) | formulas.TAGS
_ATTRIBUTES = {
    "a": {"href", "title", "class"},
    "span": {"class"},
    "code": {"class"},
    "div": {"class"},
    "ol": {"start", "class"},
    "ul": {"class"},
    "th": {"class"},
    "td": {"class"},
} | formulas.ATTRIBUTES
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


def filter_note_attribute(tag: str, name: str, value: str) -> str | None:
    if name != "href" or _WEB_LINK.match(value) or value.startswith(links.NOTE_LINK):
        return value
    return None


# In notes, links to other notes stay in the window. All other links open a new one.
_NOTE_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    tag_attribute_values={"a": {"target": {"_blank"}}},
    url_schemes={"http", "https", "mailto"},
    attribute_filter=filter_note_attribute,
    link_rel="noopener noreferrer nofollow",
)


# -- Markdown ---


def markdown(text: str, allowance: Allowance) -> str | None:
    """Markdown as safe HTML; None if the text is too long or too complex."""
    return render(text, _PARSER, _CLEANER, {"allowance": allowance})


def note(text: str, id: str, allowance: Allowance) -> str | None:
    """A note as safe HTML, with links to other notes.

    Line breaks are kept, unless the text was wrapped at a margin.
    """
    parser = _WRAPPED_NOTE_PARSER if is_wrapped(text) else _NOTE_PARSER
    return render(text, parser, _NOTE_CLEANER, {"note_id": id, "allowance": allowance})


def render(
    text: str, parser: MarkdownIt, cleaner: nh3.Cleaner, environment: dict[str, Any]
) -> str | None:
    text = without_terminal_codes(storable(text))
    if text.count("[") > _MAX_BRACKETS:
        return None
    try:
        parsed = parser.parse(text, environment)
        if any(token.level >= _MAX_NESTING - 1 for token in parsed):
            return None  # the parser drops text that is nested deeper
        html = str(parser.renderer.render(parsed, parser.options, environment))
    except (RecursionError, IndexError, ValueError):
        return None
    return str(cleaner.clean(html))


def is_wrapped(text: str) -> bool:
    """Whether most lines that continue on the next line end at a margin."""
    lines = text.split("\n")
    lengths = [
        len(line)
        for line, next_line in pairwise(lines)
        if line.strip() and _CONTINUATION.match(next_line)
    ]
    low, high = _WRAP_MARGINS
    at_margin = sum(low <= length <= high for length in lengths)
    return len(lengths) > 2 and at_margin > 0.7 * len(lengths)


class _Renderer(RendererHTML):
    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        alt = self.renderInlineAsText(token.children or [], options, env).strip()
        label = escape(f"Image: {alt}") if alt else "Image"
        url = str(token.attrs.get("src", ""))
        if not _WEB_LINK.match(url):
            return f"<span>{label}</span>"
        return f'<a class="image" href="{escape(url)}" target="_blank">{label}</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        match = _LANGUAGE.match(token.info.strip())
        return code(token.content, match.group() if match else "", env["allowance"])

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return f"<pre><code>{escape(tokens[idx].content)}</code></pre>\n"

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return _BLANKS.sub(r'<span class="blanks">\g<0></span>', escape(tokens[idx].content))

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return '<div class="table"><table>'  # wide tables scroll inside a box of their own

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        """Align cells with a class: the page's policy allows no style attributes."""
        style = tokens[idx].attrs.pop("style", None)
        if style:
            tokens[idx].attrSet("class", "align-" + str(style).rsplit(":", 1)[-1])
        return self.renderToken(tokens, idx, options, env)

    td_open = th_open


def parse_wiki_link(state: StateInline, silent: bool) -> bool:
    """`[[note]]`, `[[note|label]]`, and `![[note]]`, which other programs embed."""
    text, start = state.src, state.pos
    if text[start] == "!":
        start += 1
    if not text.startswith("[[", start):
        return False
    end = text.find("]]", start + 2, min(state.posMax, start + 2 + _MAX_LINK_TARGET))
    if end < 0:
        return False
    content = text[start + 2 : end]
    if not content.strip() or "[" in content or "\n" in content:
        return False
    if not silent:
        # In a table the separator is escaped.
        target, _, label = content.replace("\\|", "|").partition("|")
        token = state.push("wiki_link", "a", 0)
        token.content = label.strip() or target.strip()
        token.meta = {"target": target.strip()}
    state.pos = end + 2
    return True


def render_wiki_link(
    self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    token = tokens[idx]
    url = links.note_link(token.meta["target"], env.get("note_id", ""))
    return f'<a class="wiki" href="{escape(url)}">{escape(token.content)}</a>'


def render_note_link(
    self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    token = tokens[idx]
    url = str(token.attrs.get("href", ""))
    if _WEB_LINK.match(url):
        token.attrSet("target", "_blank")
    else:
        url = links.note_link(unquote(url), env.get("note_id", ""))
        token.attrs = {"class": "wiki", "href": url}
    return str(self.renderToken(tokens, idx, options, env))


# -- indentation and columns: people paste code and output without marking it as code ---


def keep_indentation(state: StateInline, silent: bool) -> bool:
    """A line break. The blanks after it belong to the next line."""
    start = state.pos
    if not newline(state, silent):
        return False
    if state.md.options["breaks"]:
        state.pos = start + 1
    return True


# -- task lists: `- [ ]` and `- [x]` ---


def mark_tasks(state: StateCore) -> None:
    tokens = state.tokens
    lists: list[Token] = []
    for number, token in enumerate(tokens):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            lists.append(token)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            lists.pop()
        types = [each.type for each in tokens[max(0, number - 2) : number + 1]]
        children = token.children or []
        is_first = types == ["list_item_open", "paragraph_open", "inline"]
        if not is_first or not lists or not children or children[0].type != "text":
            continue
        mark = _MARK.match(children[0].content)
        if mark is None:
            continue
        # A box replaces the mark at the start of the item.
        children[0].content = children[0].content[mark.end() :]
        box, css_class = ("☐", "task") if mark[1] == " " else ("☑", "task complete")
        opening = Token("task_open", "span", 1, attrs={"class": css_class})
        closing = Token("task_close", "span", -1)
        token.children = [opening, Token("text", "", 0, content=box), closing, *children]
        lists[-1].attrSet("class", "tasks")


# -- parsers ---


def _parser() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark",
        {"html": False, "linkify": False, "breaks": True, "maxNesting": _MAX_NESTING},
        renderer_cls=_Renderer,
    )
    parser.enable(["table", "strikethrough"])
    # Images may have any address: they are shown as links or as text.
    parser.validateLink = lambda url: bool(_WEB_LINK.match(url))  # type: ignore[method-assign]
    parser.inline.ruler.at("newline", keep_indentation)
    add_formulas(parser)
    parser.core.ruler.push("task_lists", mark_tasks)
    return parser


def note_parser(breaks: bool) -> MarkdownIt:
    parser = _parser()
    parser.options["breaks"] = breaks
    parser.validateLink = is_note_link  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wiki_link", parse_wiki_link)
    parser.add_render_rule("wiki_link", render_wiki_link)
    parser.add_render_rule("link_open", render_note_link)
    return parser


def is_note_link(url: str) -> bool:
    return bool(_WEB_LINK.match(url) or _FILE_LINK.fullmatch(url))


_PARSER = _parser()
_NOTE_PARSER = note_parser(breaks=True)
_WRAPPED_NOTE_PARSER = note_parser(breaks=False)


# -- code ---


def code(text: str, language: str, allowance: Allowance) -> str:
    """A block of code, highlighted if the language is known and the allowance suffices."""
    if not language:
        return f"<pre><code>{escape(text)}</code></pre>\n"
    label = f'<span class="language">{escape(language)}</span>'
    content = allowance.spend(lambda: highlight_code(text, language)) or escape(text)
    return f"<pre>{label}<code>{content}</code></pre>\n"


def highlight_code(text: str, language: str) -> str:
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language.lower(), stripnl=False)
    except ClassNotFound:
        return ""
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))
