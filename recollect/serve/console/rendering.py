"""Stored text as HTML that can do nothing.

Text is Markdown without HTML: markdown-it makes the markup, and nh3 lets
through only what is on a list. An image becomes a link, so that opening a
conversation asks no other server for anything; a link must be http, https or
mailto, so that none leads into the console itself. Work is bounded: a long
text is cut, and code is coloured only where its language is named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup

from recollect.errors import InvalidInput
from recollect.language.query import content_words, parse_query
from recollect.language.stem import stem
from recollect.language.text import storable, tokens
from recollect.serve import links

FOLD = 20_000
"""Characters of a message that are shown before "show all"."""
MARKDOWN = 50_000
"""Longer texts are shown as they are written."""
WHOLE = 2_000_000
"""What "show all" shows at most; an export has the rest."""
_COLOURED = 30_000  # characters of code; the colours of a long log help nobody and cost seconds
_NESTING = 50
_TARGET = 500  # characters of the name of a note in a link to it
_BRACKETS = 2_000  # each may begin a link, so that the parser's work grows with their square
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_FILE = re.compile(
    r"(?![A-Za-z][A-Za-z0-9+.-]*:)[^\s/\\#?][^\s\\?#]{0,500}\.(?:md|markdown|png|jpe?g|gif|webp|svg)(?:#\S*)?"
)
_GOES_ON = re.compile(r"[ \t]*(?![-*+>|#=~`]|\d+[.)]\s)\S")
_MARGINS = (55, 140)  # characters
_TAGS = {
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
}
_ATTRIBUTES = {
    "a": {"href", "title", "class"},
    "span": {"class"},
    "code": {"class"},
    "ol": {"start"},
    "th": {"class"},
    "td": {"class"},
}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


# In a note links to other notes lead on in the console; all others, as everywhere, to another window.
_OF_NOTES = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    tag_attribute_values={"a": {"target": {"_blank"}}},
    url_schemes={"http", "https", "mailto"},
    attribute_filter=lambda tag, name, value: (
        value if name != "href" or _LINK.match(value) or _ours(value) else None
    ),
    link_rel="noopener noreferrer nofollow",
)


def _ours(address: str) -> bool:
    return address.startswith(links.NOTE_LINK)


class _Renderer(RendererHTML):
    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        alt = self.renderInlineAsText(token.children or [], options, env).strip()
        source = str(token.attrs.get("src", ""))
        label = escape(f"Image: {alt}" if alt else "Image")
        if not _LINK.match(source):
            return f"<span>{label}</span>"
        return f'<a class="image" href="{escape(source)}" target="_blank">{label}</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        named = _LANGUAGE.match(token.info.strip())
        return code(token.content, named.group() if named else "")

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return code(tokens[idx].content, "")


def _aligned(self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
    """A cell of a table; how it is aligned is told by a class, since the page allows no style attribute."""
    token = tokens[idx]
    style = token.attrs.pop("style", None)
    if style:
        token.attrSet("class", "align-" + str(style).rsplit(":", 1)[-1])
    return str(self.renderToken(tokens, idx, options, env))


def _wiki_link(state: StateInline, silent: bool) -> bool:
    """[[a note]], [[a note|as it is called here]], and ![[a note]], which other programs show in place."""
    source, at = state.src, state.pos
    begins = at + (source[at] == "!")
    if not source.startswith("[[", begins):
        return False
    ends = source.find("]]", begins + 2, min(state.posMax, begins + 2 + _TARGET))
    inner = source[begins + 2 : ends] if ends > 0 else ""
    if not inner.strip() or "[" in inner or "\n" in inner:
        return False
    if not silent:
        target, _, label = inner.replace("\\|", "|").partition(
            "|"
        )  # in a table the line is escaped
        token = state.push("wiki_link", "a", 0)
        token.content = label.strip() or target.strip()
        token.meta = {"target": target.strip()}
    state.pos = ends + 2
    return True


def _show_wiki_link(
    self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    token = tokens[idx]
    address = links.note_link(token.meta["target"], env.get("of", ""))
    return f'<a class="wiki" href="{escape(address)}">{escape(token.content)}</a>'


def _show_link(self: Any, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
    token = tokens[idx]
    address = str(token.attrs.get("href", ""))
    if _LINK.match(address):
        token.attrSet("target", "_blank")
    else:
        token.attrs = {
            "class": "wiki",
            "href": links.note_link(unquote(address), env.get("of", "")),
        }
    return str(self.renderToken(tokens, idx, options, env))


def _markdown() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark",
        {"html": False, "linkify": False, "breaks": True, "maxNesting": _NESTING},
        renderer_cls=_Renderer,
    )
    parser.enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(_LINK.match(url))  # type: ignore[method-assign]
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _aligned)
    # An image may name any address, since it is only ever shown as a link or as text.
    return parser


def _markdown_of_notes(breaks: bool) -> MarkdownIt:
    parser = _markdown()
    parser.options["breaks"] = breaks
    parser.validateLink = lambda url: bool(_LINK.match(url) or _FILE.fullmatch(url))  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    parser.add_render_rule("wiki_link", _show_wiki_link)
    parser.add_render_rule("link_open", _show_link)
    return parser


_PARSER = _markdown()
_PARSER_OF_NOTES = _markdown_of_notes(breaks=True)
_PARSER_OF_WRAPPED_NOTES = _markdown_of_notes(breaks=False)


@lru_cache(maxsize=512)
def markdown(text: str) -> Markup:
    """Markdown as safe HTML; a text that is too long, or too odd for the parser, is shown as it is written."""
    return _shown(text, _PARSER, _CLEANER, {})


@lru_cache(maxsize=64)
def note(text: str, id: str) -> Markup:
    """The same of the note with this id, with links to the notes that it names. Lines end where the writer ended them,
    unless a program did so at a margin."""
    parser = _PARSER_OF_WRAPPED_NOTES if _wrapped(text) else _PARSER_OF_NOTES
    return _shown(text, parser, _OF_NOTES, {"of": id})


def _wrapped(text: str) -> bool:
    """Whether most lines that go on in the next one end at a margin."""
    lines = text[:MARKDOWN].split("\n")
    going_on = [
        len(line) for line, after in pairwise(lines) if line.strip() and _GOES_ON.match(after)
    ]
    return len(going_on) > 2 and sum(
        _MARGINS[0] <= length <= _MARGINS[1] for length in going_on
    ) > 0.7 * len(going_on)


def _shown(
    text: str, parser: MarkdownIt, cleaner: nh3.Cleaner, environment: dict[str, Any]
) -> Markup:
    clean = storable(text)
    if len(clean) > MARKDOWN or clean.count("[") > _BRACKETS:
        return plain(clean)
    try:
        parsed = parser.parse(clean, environment)
        if any(
            token.level >= _NESTING - 1 for token in parsed
        ):  # the parser drops what is nested deeper
            return plain(clean)
        made = str(parser.renderer.render(parsed, parser.options, environment))
    except (RecursionError, IndexError, ValueError):
        return plain(clean)
    return Markup(cleaner.clean(made))  # noqa: S704  the sanitiser's own answer


def plain(text: str) -> Markup:
    """Text exactly as it is written."""
    return Markup('<pre class="plain">{}</pre>').format(storable(text))


def code(text: str, language: str) -> str:
    """A block of code, in colours where the language is known."""
    inner = _coloured(text, language) if language and len(text) <= _COLOURED else escape(text)
    label = f'<span class="language">{escape(language)}</span>' if language else ""
    return f"<pre>{label}<code>{inner}</code></pre>\n"


def _coloured(text: str, language: str) -> str:
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language.lower(), stripnl=False)
    except ClassNotFound:
        return escape(text)
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def beginning(text: str, length: int = FOLD) -> str:
    """The start of a long text, cut at the end of a line where there is one near."""
    if len(text) <= length:
        return text
    end = text.rfind("\n", length * 3 // 4, length)
    return text[: end if end > 0 else length]


def marked(text: str, marks: Sequence[tuple[int, int]]) -> Markup:
    """A snippet with its matches in <mark>: every piece is escaped first, marked second."""
    parts: list[Markup] = []
    last = 0
    for start, end in marks:
        if last <= start < end <= len(text):
            parts += [
                Markup.escape(storable(text[last:start])),
                Markup("<mark>{}</mark>").format(storable(text[start:end])),
            ]
            last = end
    return Markup("").join([*parts, Markup.escape(storable(text[last:]))])


def sought(query: str) -> list[str]:
    """The words that a query looks for and their stems, by which the page lights them up in a conversation."""
    try:
        node = parse_query(storable(query)).node
    except InvalidInput:
        return []
    words = (
        {token for word in content_words(node) for token in tokens(word.text)} if node else set()
    )
    return sorted(words | {stem(word) for word in words})
