"""Word, PowerPoint, OpenDocument and RTF.

The XML is read directly: the usual libraries miss text boxes, content controls and tracked
insertions, and reject documents with macros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from recollect.importers.documents.extract import (
    Extract,
    collapse_spaces,
    join_pages,
    join_paragraphs,
    parse_date,
    read_bytes,
    split_keywords,
)
from recollect.importers.documents.package import (
    Element,
    Package,
    all_texts,
    first_text,
    local_name,
)
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable

_SKIPPED = frozenset(
    {"Fallback", "del", "moveFrom", "tracked-changes", "annotation", "notes-configuration"}
)
_ROWS = frozenset({"tr", "table-row"})
_PARAGRAPHS = frozenset({"p", "h"})
_BREAKS = frozenset({"br", "cr", "line-break"})
_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_DEFAULT_TITLES = frozenset(
    {"powerpoint presentation", "word document", "presentation", "untitled"}
)
_WRONG_FORMAT = "damaged, or not the format that its name says"

Prefix = Callable[[Element], str]
"""What to put before a paragraph: `# ` for a heading, `- ` for a list item."""


# -- formats -----------------------------------------------------------------


def docx(entry: Entry) -> Extract:
    package = Package(entry)
    main = _main_part(package)
    parts = {type_: name for type_, name in package.relations(main).values()}
    headings = {}
    if "styles" in parts:
        headings = _heading_styles(package.xml(parts["styles"]))
    blocks: list[str] = []
    for name in (main, parts.get("footnotes"), parts.get("endnotes")):
        root = package.xml(name) if name else None
        if root is not None:
            blocks += _blocks(root, lambda element: _docx_prefix(element, headings))
    return _metadata(package, "docProps/core.xml")._replace(
        text=_require_text(join_paragraphs(blocks))
    )


def pptx(entry: Entry) -> Extract:
    """Each slide is a page: the text on it, then its notes."""
    package = Package(entry)
    main = _main_part(package)
    root, parts = package.xml(main), package.relations(main)
    slides = []
    if root is not None:
        ids = [_relation_id(slide) for slide in root.iter("{*}sldId")]
        slides = [parts[id_][1] for id_ in ids if id_ in parts]
    text, pages, omission = join_pages(_slide_text(package, name) for name in slides)
    extract = _metadata(package, "docProps/core.xml")
    title = extract.title
    if not title and slides:
        title = _slide_title(package.xml(slides[0]))
    return extract._replace(text=_require_text(text), pages=pages, omission=omission, title=title)


def odt(entry: Entry) -> Extract:
    package = Package(entry)
    root = package.xml("content.xml")
    if root is None:
        raise Unreadable(_WRONG_FORMAT)
    body = next(root.iter("{*}body"), root)
    text = join_paragraphs(_blocks(body, _odt_prefix, _odt_text))
    return _metadata(package, "meta.xml")._replace(text=_require_text(text))


def rtf(entry: Entry) -> Extract:
    from striprtf.striprtf import rtf_to_text

    data = read_bytes(entry)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable(_WRONG_FORMAT)
    source = data.decode("latin-1")
    text: str = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    return Extract(text=_require_text(text.strip()))


# -- shared parts ------------------------------------------------------------


def _main_part(package: Package) -> str:
    for type_, name in package.relations("").values():
        if type_ == "officeDocument" and package.part(name) is not None:
            return name
    raise Unreadable(_WRONG_FORMAT)


def _require_text(text: str) -> str:
    if not text.strip():
        raise Unreadable("contains no text")
    return text


def _metadata(package: Package, name: str) -> Extract:
    root = package.xml(name)
    title = first_text(root, "title")
    if title.lower() in _DEFAULT_TITLES:
        title = ""
    tags: list[str] = []
    for text in all_texts(root, "keywords", "keyword"):
        tags += split_keywords(text)
    return Extract(
        title=title,
        author=first_text(root, "initial-creator", "creator"),
        language=first_text(root, "language"),
        created_at=parse_date(first_text(root, "created", "creation-date")),
        tags=tuple(tags),
    )


def _runs_text(paragraph: Element) -> str:
    """The text of a paragraph of Word or PowerPoint, without its text boxes."""
    parts: list[str] = []
    for child in paragraph:
        name = local_name(child)
        if name == "t":
            parts.append(child.text or "")
        elif name == "tab":
            parts.append("\t")
        elif name in _BREAKS:
            parts.append("\n")
        elif name == "noBreakHyphen":
            parts.append("-")
        elif name in _SKIPPED or name in ("txbxContent", "tabs") or _is_page_field(child):
            continue
        else:
            parts.append(_runs_text(child))
    return "".join(parts)


def _is_page_field(element: Element) -> bool:
    """Whether an element is a field for the slide number or the date."""
    type_ = element.get("type", "")
    return local_name(element) == "fld" and type_.startswith(("slidenum", "datetime"))


def _blocks(
    element: Element, prefix: Prefix, paragraph_text: Callable[[Element], str] = _runs_text
) -> Iterator[str]:
    """The paragraphs below an element. Each row of a table is one line."""
    name = local_name(element)
    if name in _SKIPPED:
        return
    if name in _PARAGRAPHS:
        text = collapse_spaces(paragraph_text(element))
        if text:
            yield prefix(element) + text
        for box in element.iter("{*}txbxContent"):
            if not any(local_name(above) in _SKIPPED for above in box.iterancestors()):
                for child in box:
                    yield from _blocks(child, prefix, paragraph_text)
    elif name in _ROWS:
        cells = (" ".join(_blocks(child, _no_prefix, paragraph_text)) for child in element)
        row = " | ".join(cell.replace("\n", " ") for cell in cells if cell)
        if row:
            yield row
    else:
        for child in element:
            yield from _blocks(child, prefix, paragraph_text)


def _no_prefix(element: Element) -> str:
    return ""


def _attribute(element: Element, name: str) -> str:
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""


# -- Word --------------------------------------------------------------------


def _heading_styles(styles: Element | None) -> dict[str, int]:
    """The level of each style that is a heading, by the style's id.

    The ids are translated; the names are always in English.
    """
    levels: dict[str, int] = {}
    if styles is None:
        return levels
    for style in styles.iter("{*}style"):
        names = [_attribute(child, "val") for child in style if local_name(child) == "name"]
        name = names[0] if names else ""
        heading = _HEADING.match(name)
        if heading:
            levels[_attribute(style, "styleId")] = int(heading[1])
        elif name.lower() == "title":
            levels[_attribute(style, "styleId")] = 1
    return levels


def _docx_prefix(paragraph: Element, headings: dict[str, int]) -> str:
    for properties in paragraph:
        if local_name(properties) != "pPr":
            continue
        by_name = {local_name(child): child for child in properties}
        if "pStyle" in by_name:
            level = headings.get(_attribute(by_name["pStyle"], "val"))
            if level:
                return "#" * min(level, 6) + " "
        return "- " if "numPr" in by_name else ""
    return ""


# -- PowerPoint --------------------------------------------------------------


def _relation_id(slide: Element) -> str:
    for key, value in slide.attrib.items():
        if key.endswith("}id"):
            return str(value)
    return ""


def _slide_text(package: Package, name: str) -> str:
    blocks = _slide_blocks(package.xml(name))
    for type_, target in package.relations(name).values():
        notes = package.xml(target) if type_ == "notesSlide" else None
        if notes is not None:
            for shape in notes.iter("{*}sp"):
                if _placeholder(shape) == "body":
                    blocks += _blocks(shape, _no_prefix)
    return join_paragraphs(blocks)


def _slide_blocks(root: Element | None) -> list[str]:
    if root is None:
        return []
    return list(_blocks(root, _no_prefix))


def _placeholder(shape: Element) -> str:
    for placeholder in shape.iter("{*}ph"):
        return str(placeholder.get("type", ""))
    return ""


def _slide_title(root: Element | None) -> str:
    if root is None:
        return ""
    for shape in root.iter("{*}sp"):
        if _placeholder(shape) in ("title", "ctrTitle"):
            return " ".join(_slide_blocks(shape))
    return ""


# -- OpenDocument ------------------------------------------------------------


def _odt_prefix(paragraph: Element) -> str:
    if local_name(paragraph) == "h":
        level = _attribute(paragraph, "outline-level")
        depth = int(level) if level.isdigit() else 1
        return "#" * min(max(depth, 1), 6) + " "
    if any(local_name(above) == "list-item" for above in paragraph.iterancestors()):
        return "- "
    return ""


def _odt_text(paragraph: Element) -> str:
    """The text of a paragraph of OpenDocument, where text stands between elements."""
    parts = [paragraph.text or ""]
    for child in paragraph:
        name = local_name(child)
        if name == "tab":
            parts.append("\t")
        elif name in _BREAKS:
            parts.append("\n")
        elif name == "s":
            parts.append(" ")
        elif name not in _SKIPPED:
            parts.append(_odt_text(child))
        parts.append(child.tail or "")
    return "".join(parts)
