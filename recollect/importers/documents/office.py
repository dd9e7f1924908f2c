"""Word, PowerPoint, OpenDocument and RTF.

The XML is read directly: the usual libraries miss text boxes, content controls and tracked
insertions, and reject documents with macros.
"""

from __future__ import annotations

import re

from recollect.importers.documents.extract import (
    Extract,
    join_pages,
    join_paragraphs,
    parse_date,
    read_bytes,
    split_keywords,
)
from recollect.importers.documents.office_text import (
    OfficeText,
    OpenDocumentText,
    attribute,
)
from recollect.importers.documents.optional import require
from recollect.importers.documents.package import (
    Element,
    Package,
    all_texts,
    collect,
    first_text,
    local_name,
)
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_DEFAULT_TITLES = frozenset(
    {"powerpoint presentation", "word document", "presentation", "untitled"}
)
_WRONG_FORMAT = "damaged, or not the format that its name says"


# -- formats -----------------------------------------------------------------


def docx(entry: Entry) -> Extract:
    package = Package(entry)
    main = _main_part(package)
    parts = {type_: name for type_, name in package.relations(main).values()}
    headings = {}
    if "styles" in parts:
        headings = _heading_styles(package.xml(parts["styles"]))
    text = OfficeText(headings)
    notes = [parts[type_] for type_ in ("footnotes", "endnotes") if type_ in parts]
    for name in package.unique_parts([main, *notes]):
        if not text.is_full:
            collect(package.chunks(name), text)
    return _metadata(package, "docProps/core.xml")._replace(
        text=_require_text(join_paragraphs(text.blocks))
    )


def pptx(entry: Entry) -> Extract:
    """Each slide is a page: the text on it, then its notes."""
    package = Package(entry)
    main = _main_part(package)
    root, parts = package.xml(main), package.relations(main)
    slides: list[str] = []
    if root is not None:
        ids = [_relation_id(slide) for slide in root.iter("{*}sldId")]
        slides = package.unique_parts(parts[id_][1] for id_ in ids if id_ in parts)
    text, pages, omission = join_pages(_slide_text(package, name) for name in slides)
    extract = _metadata(package, "docProps/core.xml")
    title = extract.title
    if not title and slides:
        title = " ".join(_part_text(package, slides[0]).shape_blocks("title", "ctrTitle"))
    return extract._replace(text=_require_text(text), pages=pages, omission=omission, title=title)


def odt(entry: Entry) -> Extract:
    package = Package(entry)
    if not package.has("content.xml"):
        raise Unreadable(_WRONG_FORMAT)
    text = OpenDocumentText()
    collect(package.chunks("content.xml"), text)
    return _metadata(package, "meta.xml")._replace(text=_require_text(join_paragraphs(text.blocks)))


def rtf(entry: Entry) -> Extract:
    require("striprtf")
    from striprtf.striprtf import rtf_to_text

    data = read_bytes(entry, LIMITS.document_part_bytes)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable(_WRONG_FORMAT)
    source = data.decode("latin-1")
    text: str = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    return Extract(text=_require_text(text.strip()))


# -- shared parts ------------------------------------------------------------


def _main_part(package: Package) -> str:
    for type_, name in package.relations("").values():
        if type_ == "officeDocument" and package.has(name):
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


# -- Word --------------------------------------------------------------------


def _heading_styles(styles: Element | None) -> dict[str, int]:
    """The level of each style that is a heading, by the style's id.

    The ids are translated; the names are always in English.
    """
    levels: dict[str, int] = {}
    if styles is None:
        return levels
    for style in styles.iter("{*}style"):
        names = [attribute(child.attrib, "val") for child in style if local_name(child) == "name"]
        name = names[0] if names else ""
        heading = _HEADING.match(name)
        if heading:
            levels[attribute(style.attrib, "styleId")] = int(heading[1])
        elif name.lower() == "title":
            levels[attribute(style.attrib, "styleId")] = 1
    return levels


# -- PowerPoint --------------------------------------------------------------


def _relation_id(slide: Element) -> str:
    for key, value in slide.attrib.items():
        if key.endswith("}id"):
            return str(value)
    return ""


def _slide_text(package: Package, name: str) -> str:
    blocks = _part_text(package, name).blocks
    for type_, target in package.relations(name).values():
        if type_ == "notesSlide":
            blocks += _part_text(package, target).shape_blocks("body")
            break
    return join_paragraphs(blocks)


def _part_text(package: Package, name: str) -> OfficeText:
    text = OfficeText({})
    collect(package.chunks(name), text)
    return text
