"""Word, PowerPoint, OpenDocument, RTF and EPUB.

The XML is read directly: the usual libraries miss text boxes, content controls and tracked
insertions, and reject documents with macros.

The text is collected while it is parsed: every element is visited once, and there is no tree in
memory. The paragraphs of a text box follow the paragraph that it is anchored in. Each row of a
table is one line. Of alternatives for different versions of Word, the first is used.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recollect.importers.documents.extract import (
    Extract,
    collapse_spaces,
    join_pages,
    join_paragraphs,
    parse_date,
    read_bytes,
    require,
    split_keywords,
)
from recollect.importers.documents.html_text import HtmlText, read_html
from recollect.importers.documents.package import Package, all_texts, collect, first_text
from recollect.importers.entries import Entry, Unreadable
from recollect.settings import LIMITS

_SKIPPED = frozenset({"del", "moveFrom", "tracked-changes", "annotation", "notes-configuration"})
_ROWS = frozenset({"tr", "table-row"})
_PARAGRAPHS = frozenset({"p", "h"})
_TEXT_BOX = "txbxContent"
_ALTERNATIVES = "AlternateContent"
_CHARACTERS = {
    "tab": "\t",
    "noBreakHyphen": "-",
    "s": " ",
    **dict.fromkeys(("br", "cr", "line-break"), "\n"),
}

Attributes = Mapping[str, str]


@dataclass(slots=True)
class _Context:
    """An open element that collects text: the document, a paragraph, a text box or a row."""

    name: str
    depth: int
    blocks: list[str] = field(default_factory=list)
    """The paragraphs in it. Those in a paragraph are from its text boxes."""
    parts: list[str] = field(default_factory=list)
    """The text of a paragraph."""
    cells: list[str] = field(default_factory=list)
    prefix: str = ""
    """What to put before a paragraph: `# ` for a heading, `- ` for a list item."""

    def close_cell(self) -> None:
        cell = " ".join(self.blocks).replace("\n", " ")
        if cell:
            self.cells.append(cell)
        self.blocks = []


@dataclass(slots=True)
class _Shape:
    """A shape on a slide, its placeholder type, and which of the blocks are in it."""

    depth: int
    start: int
    end: int = 0
    placeholder: str = ""


class OfficeText:
    """The text of a part of a document, and of the shapes on a slide; see `package.collect`."""

    def __init__(self, headings: Mapping[str, int], text_element: str = "t") -> None:
        """`headings` are the levels of the styles that are headings.

        `text_element` is the element with the text. It is empty for OpenDocument, where text
        stands between elements.
        """
        self.blocks: list[str] = []
        self.is_full = False
        self._headings = headings
        self._text_element = text_element
        self._path: list[str] = []
        """The names of the open elements."""
        self._contexts = [_Context("", 0, self.blocks)]
        self._skipped_depth = 0
        """How many open elements are inside one that is skipped, including it."""
        self._finished_alternatives: set[int] = set()
        """The depths of alternatives of which one was used."""
        self._rows = 0
        self._list_items: list[int] = []
        """The depths of the open list items of OpenDocument."""
        self._shapes: list[_Shape] = []
        self._open_shapes: list[_Shape] = []
        self._characters = 0

    def shape_blocks(self, *placeholders: str) -> list[str]:
        """The paragraphs of the first shape that is one of these placeholders."""
        for shape in self._shapes:
            if shape.placeholder in placeholders:
                return self.blocks[shape.start : shape.end]
        return []

    # -- the parser's events ---

    def start(self, tag: str, attributes: Attributes) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or self._is_skipped(name, attributes):
            self._skipped_depth += 1
            return
        self._path.append(name)
        depth = len(self._path)
        if self._in_paragraph:
            self._start_in_paragraph(name, attributes)
        elif name in _PARAGRAPHS:
            prefix = "- " if self._list_items else ""
            if name == "h":
                level = attribute(attributes, "outline-level")
                number = int(level) if level.isdecimal() and len(level) < 3 else 1
                prefix = "#" * min(max(number, 1), 6) + " "
            self._contexts.append(_Context(name, depth, prefix=prefix))
        elif name in _ROWS:
            self._contexts.append(_Context(name, depth))
            self._rows += 1
        if name == "list-item":
            self._list_items.append(depth)
        elif name == "sp":
            self._open_shapes.append(_Shape(depth, len(self.blocks)))
        elif name == "ph" and self._open_shapes:
            self._open_shapes[-1].placeholder = attributes.get("type", "")

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        depth = len(self._path)
        self._path.pop()
        if self._list_items and self._list_items[-1] == depth:
            self._list_items.pop()
        if self._open_shapes and self._open_shapes[-1].depth == depth:
            shape = self._open_shapes.pop()
            shape.end = len(self.blocks)
            self._shapes.append(shape)
        if self._contexts[-1].depth == depth:
            self._close_context()
        row = self._contexts[-1]
        if row.name in _ROWS and row.depth == depth - 1:
            row.close_cell()
        self._finished_alternatives.discard(depth)
        if self._path and self._path[-1] == _ALTERNATIVES:
            self._finished_alternatives.add(depth - 1)

    def data(self, text: str) -> None:
        is_text = not self._text_element or (self._path and self._path[-1] == self._text_element)
        if is_text and self._in_paragraph and not self._skipped_depth:
            self._contexts[-1].parts.append(text)
            self._characters += len(text)
            self.is_full = self._characters > LIMITS.document_characters

    def close(self) -> None:
        while len(self._contexts) > 1:  # the document is cut off
            self._close_context()

    # -- contexts ---

    @property
    def _in_paragraph(self) -> bool:
        return self._contexts[-1].name in _PARAGRAPHS

    def _is_skipped(self, name: str, attributes: Attributes) -> bool:
        if name in _SKIPPED or len(self._path) in self._finished_alternatives:
            return True
        # Fields for the slide number or the date, and the positions of tabs.
        is_page_field = name == "fld" and attributes.get("type", "").startswith(
            ("slidenum", "datetime")
        )
        return self._in_paragraph and (name == "tabs" or is_page_field)

    def _start_in_paragraph(self, name: str, attributes: Attributes) -> None:
        paragraph = self._contexts[-1]
        if name == _TEXT_BOX:
            self._contexts.append(_Context(name, len(self._path)))
        elif name in _CHARACTERS:
            paragraph.parts.append(_CHARACTERS[name])
        elif len(self._path) != paragraph.depth + 2 or self._path[-2] != "pPr":
            return
        elif name == "pStyle":
            level = self._headings.get(attribute(attributes, "val"))
            if level:
                paragraph.prefix = "#" * min(level, 6) + " "
        elif name == "numPr" and not paragraph.prefix:
            paragraph.prefix = "- "

    def _close_context(self) -> None:
        context = self._contexts.pop()
        outer = self._contexts[-1].blocks
        if context.name in _ROWS:
            context.close_cell()
            self._rows -= 1
            outer += [" | ".join(context.cells)] if context.cells else []
            return
        text = collapse_spaces("".join(context.parts))
        if text:
            outer.append(text if self._rows else context.prefix + text)
        outer += context.blocks


def attribute(attributes: Attributes, name: str) -> str:
    """The value of an attribute, in whatever namespace."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""


_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_DEFAULT_TITLES = frozenset(
    {"powerpoint presentation", "word document", "presentation", "untitled"}
)
_TEXT_TYPES = frozenset({"application/xhtml+xml", "text/html", "application/xml", "text/xml"})
_MAX_MANIFESTS = 10
_WRONG_FORMAT = "damaged, or not the format that its name says"


def docx(entry: Entry) -> Extract:
    package = Package(entry)
    main = main_part(package)
    parts = {type_: name for type_, name in package.relations(main).values()}
    headings = heading_styles(package, parts["styles"]) if "styles" in parts else {}
    text = OfficeText(headings)
    notes = [parts[type_] for type_ in ("footnotes", "endnotes") if type_ in parts]
    for name in package.unique_parts([main, *notes]):
        if not text.is_full:
            collect(package.chunks(name), text)
    return _metadata(package, "docProps/core.xml")._replace(
        text=require_text(join_paragraphs(text.blocks))
    )


def heading_styles(package: Package, name: str) -> dict[str, int]:
    """The level of each style that is a heading, by the style's id.

    The ids are translated; the names are always in English.
    """
    levels: dict[str, int] = {}
    styles = package.xml(name)
    for style in () if styles is None else styles.iter("{*}style"):
        title = next(style.iter("{*}name"), None)
        style_name = "" if title is None else attribute(title.attrib, "val")
        heading = _HEADING.match(style_name)
        if heading or style_name.lower() == "title":
            levels[attribute(style.attrib, "styleId")] = int(heading[1]) if heading else 1
    return levels


def pptx(entry: Entry) -> Extract:
    """Each slide is a page: the text on it, then its notes."""
    package = Package(entry)
    main = main_part(package)
    root, parts = package.xml(main), package.relations(main)
    names = []
    for slide in () if root is None else root.iter("{*}sldId"):
        ids = (str(value) for key, value in slide.attrib.items() if key.endswith("}id"))
        names += [parts[id_][1] for id_ in ids if id_ in parts]
    slides = package.unique_parts(names)
    text, pages, omission = join_pages(slide_text(package, name) for name in slides)
    extract = _metadata(package, "docProps/core.xml")
    title = extract.title
    if not title and slides:
        title = " ".join(part_text(package, slides[0]).shape_blocks("title", "ctrTitle"))
    return extract._replace(text=require_text(text), pages=pages, omission=omission, title=title)


def slide_text(package: Package, name: str) -> str:
    blocks = part_text(package, name).blocks
    for type_, target in package.relations(name).values():
        if type_ == "notesSlide":
            blocks += part_text(package, target).shape_blocks("body")
            break
    return join_paragraphs(blocks)


def part_text(package: Package, name: str) -> OfficeText:
    text = OfficeText({})
    collect(package.chunks(name), text)
    return text


def odt(entry: Entry) -> Extract:
    package = Package(entry)
    if not package.has("content.xml"):
        raise Unreadable(_WRONG_FORMAT)
    text = OfficeText({}, text_element="")
    collect(package.chunks("content.xml"), text)
    return _metadata(package, "meta.xml")._replace(text=require_text(join_paragraphs(text.blocks)))


def rtf(entry: Entry) -> Extract:
    require("striprtf")
    from striprtf.striprtf import rtf_to_text

    data = read_bytes(entry, LIMITS.document_part_bytes)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable(_WRONG_FORMAT)
    source = data.decode("latin-1")
    text: str = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    return Extract(text=require_text(text.strip()))


def epub(entry: Entry) -> Extract:
    """A list of chapters in XHTML."""
    package = Package(entry)
    container = package.xml("META-INF/container.xml")
    roots = () if container is None else container.iter("{*}rootfile")
    paths = dict.fromkeys(root.get("full-path", "") for root in roots)
    manifest, folder = None, ""
    for path in [path for path in paths if path][:_MAX_MANIFESTS]:
        manifest, folder = package.xml(path), posixpath.dirname(path)
        if manifest is not None:
            break
    if manifest is None:
        raise Unreadable("damaged, or not an EPUB")
    files = {
        item.get("id"): posixpath.join(folder, item.get("href", "").partition("#")[0])
        for item in manifest.iter("{*}item")
        if item.get("media-type", "").lower() in _TEXT_TYPES
        and "nav" not in item.get("properties", "").split()  # the table of contents
    }
    references = (reference.get("idref") for reference in manifest.iter("{*}itemref"))
    chapters = [file for file in (files.pop(id_, None) for id_ in references) if file]
    encryption = package.xml("META-INF/encryption.xml")
    for reference in () if encryption is None else encryption.iter("{*}CipherReference"):
        if reference.get("URI", "") in chapters:  # encrypted fonts are common and harmless
            raise Unreadable("protected against copying (DRM); its text cannot be read")
    omissions: list[str] = []

    def texts() -> Iterator[str]:
        for name in package.unique_parts(chapters):
            page = HtmlText()
            read_html(package.part(name) or b"", page)
            omissions.extend(filter(None, [page.omission]))
            yield page.text

    text, _, omission = join_pages(texts())
    metadata = next(manifest.iter("{*}metadata"), None)
    return Extract(
        text=require_text(text),
        omission=omission or "".join(omissions[:1]),
        title=first_text(metadata, "title"),
        author=", ".join(dict.fromkeys(all_texts(metadata, "creator"))),
        language=first_text(metadata, "language"),
        created_at=parse_date(first_text(metadata, "date")),
        tags=tuple(dict.fromkeys(all_texts(metadata, "subject"))),
    )


def main_part(package: Package) -> str:
    for type_, name in package.relations("").values():
        if type_ == "officeDocument" and package.has(name):
            return name
    raise Unreadable(_WRONG_FORMAT)


def require_text(text: str) -> str:
    if not text.strip():
        raise Unreadable("contains no text")
    return text


def _metadata(package: Package, name: str) -> Extract:
    root = package.xml(name)
    title = first_text(root, "title")
    keywords = map(split_keywords, all_texts(root, "keywords", "keyword"))
    return Extract(
        title="" if title.lower() in _DEFAULT_TITLES else title,
        author=first_text(root, "initial-creator", "creator"),
        language=first_text(root, "language"),
        created_at=parse_date(first_text(root, "created", "creation-date")),
        tags=tuple(tag for tags in keywords for tag in tags),
    )
