"""The text of HTML as plain Markdown: headings, paragraphs, lists and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from recollect.importers.documents.extract import collapse_spaces, join_paragraphs

Element = Any

_SKIPPED = frozenset(
    {
        "script",
        "style",
        "template",
        "noscript",
        "head",
        "svg",
        "math",
        "iframe",
        "object",
        "form",
        "select",
    }
)
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    }
)
_HEADING = re.compile(r"h([1-6])$")
_SPACES = re.compile(r"\s+")
_MAX_DEPTH = 250


def parse_html(data: bytes | str) -> Element | None:
    from lxml import etree, html

    try:
        parser = html.HTMLParser(remove_comments=True, remove_pis=True, **_encoding(data))
        return html.document_fromstring(data, parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def html_to_text(root: Element) -> str:
    return join_paragraphs(_blocks(root, 0))


def _encoding(data: bytes | str) -> dict[str, str]:
    """UTF-8 unless the document names another encoding; lxml would assume Latin-1."""
    if isinstance(data, str):
        return {}
    head = data[:1024].lower()
    if b"charset=" in head or b"encoding=" in head or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return {}
    return {"encoding": "utf-8"}


def _blocks(element: Element, depth: int) -> Iterator[str]:
    """The blocks below an element. Text between blocks is a block as well."""
    tag = element.tag if isinstance(element.tag, str) else ""
    if tag in _SKIPPED or depth > _MAX_DEPTH:
        return
    if tag == "pre":
        yield "".join(element.itertext()).strip("\n")
        return
    if tag == "tr":
        yield from _table_row(element, depth)
        return
    inline = [_one_line(element.text)]
    prefix = _prefix(tag)
    for child in element:
        if _is_block(child):
            text = collapse_spaces("".join(inline))
            inline = []
            for block in (text, *_blocks(child, depth + 1)):
                if block:
                    yield prefix + block
                    prefix = ""
        else:
            inline.append(_inline(child, depth + 1))
        inline.append(_one_line(child.tail))
    text = collapse_spaces("".join(inline))
    if text:
        yield prefix + text


def _table_row(row: Element, depth: int) -> Iterator[str]:
    cells = (" ".join(_blocks(cell, depth + 1)).replace("\n", " ") for cell in row)
    text = " | ".join(cell for cell in cells if cell)
    if text:
        yield text


def _prefix(tag: str) -> str:
    heading = _HEADING.match(tag)
    if heading:
        return "#" * int(heading[1]) + " "
    if tag == "li":
        return "- "
    return ""


def _is_block(element: Element) -> bool:
    return element.tag in _BLOCKS or any(child.tag in _BLOCKS for child in element)


def _inline(element: Element, depth: int) -> str:
    if not isinstance(element.tag, str) or element.tag in _SKIPPED or depth > _MAX_DEPTH:
        return ""
    if element.tag == "br":
        return "\n"
    if element.tag == "img":
        return str(element.get("alt") or "")
    parts = [_one_line(element.text)]
    for child in element:
        parts.append(_inline(child, depth + 1))
        parts.append(_one_line(child.tail))
    text = "".join(parts)
    if element.tag in _BLOCKS:
        return f"\n{text}\n"
    return text


def _one_line(text: str | None) -> str:
    """The text without line breaks: in HTML, lines end where a tag says so."""
    if not text:
        return ""
    return _SPACES.sub(" ", text)
