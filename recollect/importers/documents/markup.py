"""The text of HTML, as plain Markdown: headings, paragraphs, lists, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from recollect.importers.documents.extract import joined, tidy

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
_SPACE = re.compile(r"\s+")
_DEEPEST = 250


def parsed_html(data: bytes | str) -> Element | None:
    from lxml import etree, html

    try:
        parser = html.HTMLParser(remove_comments=True, remove_pis=True, **_encoding(data))
        return html.document_fromstring(data, parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def text_of_html(root: Element) -> str:
    return joined(_blocks(root, 0))


def _encoding(data: bytes | str) -> dict[str, str]:
    """XHTML is UTF-8 unless it says otherwise; the parser would take it for Latin-1."""
    if isinstance(data, str):
        return {}
    head = data[:1024].lower()
    return (
        {}
        if b"charset=" in head or b"encoding=" in head or data[:2] in (b"\xff\xfe", b"\xfe\xff")
        else {"encoding": "utf-8"}
    )


def _blocks(element: Element, depth: int) -> Iterator[str]:
    """The blocks below an element; text that stands beside blocks is one as well."""
    tag = element.tag if isinstance(element.tag, str) else ""
    if tag in _SKIPPED or depth > _DEEPEST:
        return
    if tag == "pre":
        yield "".join(element.itertext()).strip("\n")
        return
    if tag == "tr":
        cells = (" ".join(_blocks(cell, depth + 1)).replace("\n", " ") for cell in element)
        if row := " | ".join(cell for cell in cells if cell):
            yield row
        return
    loose = [_flat(element.text)]
    prefix = _prefix(tag)
    for child in element:
        if _is_block(child):
            if text := tidy("".join(loose)):
                yield prefix + text
                prefix = ""
            loose = []
            for block in _blocks(child, depth + 1):
                yield prefix + block
                prefix = ""
        else:
            loose.append(_inline(child, depth + 1))
        loose.append(_flat(child.tail))
    if text := tidy("".join(loose)):
        yield prefix + text


def _prefix(tag: str) -> str:
    if found := _HEADING.match(tag):
        return "#" * int(found[1]) + " "
    return "- " if tag == "li" else ""


def _is_block(element: Element) -> bool:
    return element.tag in _BLOCKS or any(child.tag in _BLOCKS for child in element)


def _inline(element: Element, depth: int) -> str:
    if not isinstance(element.tag, str) or element.tag in _SKIPPED or depth > _DEEPEST:
        return ""
    if element.tag == "br":
        return "\n"
    if element.tag == "img":
        return str(element.get("alt") or "")
    text = _flat(element.text) + "".join(
        _inline(child, depth + 1) + _flat(child.tail) for child in element
    )
    return f"\n{text}\n" if element.tag in _BLOCKS else text


def _flat(text: str | None) -> str:
    """Lines end where a tag says so, not where they end in the file."""
    return _SPACE.sub(" ", text) if text else ""
