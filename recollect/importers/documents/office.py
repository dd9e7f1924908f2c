"""Word, PowerPoint, OpenDocument, RTF and EPUB.

The XML is read directly: the usual libraries miss text boxes, content controls and tracked
insertions, and reject documents with macros.

The text is collected while it is parsed, as that of HTML. Of alternatives for different versions of
Word, the first is used.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from recollect.importers.documents.extract import (
    Extract,
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
_ALTERNATIVES = "AlternateContent"
_HTML_NAMES = {
    **dict.fromkeys(("p", "h"), "p"),
    **dict.fromkeys(("tr", "table-row"), "tr"),
    **dict.fromkeys(("tc", "table-cell"), "td"),
    **dict.fromkeys(("br", "cr", "line-break"), "br"),
    "txbxContent": "div",
}
"""What elements of Office documents are in HTML. All others are like `span`."""
_CHARACTERS = {"tab": "\t", "noBreakHyphen": "-", "s": " "}

Attributes = Mapping[str, str]


class OfficeText(HtmlText):
    """The text of a part of a document, and of the shapes on a slide; see `package.collect`."""

    def __init__(self, headings: Mapping[str, int], text_element: str = "t") -> None:
        """`headings` are the levels of the styles that are headings.

        `text_element` is the element with the text. It is empty for OpenDocument, where text
        stands between elements.
        """
        super().__init__()
        self._headings = headings
        self._text_element = text_element
        self._path: list[str] = []
        """The names of the open elements."""
        self._paragraphs = 0
        """How many paragraphs are open: one in a text box is inside another."""
        self._finished_alternatives: set[int] = set()
        """The depths of alternatives of which one was used."""
        self._shapes: list[tuple[str, int, int]] = []
        """The shapes on a slide: placeholder type, and which of the blocks are in it."""
        self._open_shapes: list[tuple[str, int]] = []

    def shape_blocks(self, *placeholders: str) -> list[str]:
        """The paragraphs of the first shape that is one of these placeholders."""
        for placeholder, start, end in self._shapes:
            if placeholder in placeholders:
                return self.blocks[start:end]
        return []

    # -- the parser's events ---

    def start(self, tag: str, attributes: Attributes) -> None:
        name = tag.rpartition("}")[2]
        html_name = _HTML_NAMES.get(name, "span")
        if self._is_skipped(name, attributes):
            html_name = "script"
        super().start(html_name, {})
        self._path.append(name)
        if self.is_skipping:
            return
        if name in _CHARACTERS and self._paragraphs:
            super().data(_CHARACTERS[name])
        elif html_name == "p":
            self._paragraphs += 1
            level = attribute(attributes, "outline-level") if name == "h" else "0"
            number = int(level) if level.isdecimal() and len(level) < 3 else 1
            bullet = "- " if "list-item" in self._path else ""
            self.set_prefix("#" * min(number, 6) + " " if number else bullet)
        elif self._path[-2:-1] == ["pPr"] and name in ("pStyle", "numPr"):
            number = self._headings.get(attribute(attributes, "val"), 0)
            if name == "pStyle" and number:
                self.set_prefix("#" * min(number, 6) + " ")
            elif name == "numPr" and not self.has_prefix:
                self.set_prefix("- ")
        elif name == "sp":
            self._open_shapes.append(("", len(self.blocks)))
        elif name == "ph" and self._open_shapes:
            self._open_shapes[-1] = (attributes.get("type", ""), self._open_shapes[-1][1])

    def end(self, tag: str) -> None:
        name, was_skipping = self._path[-1], self.is_skipping
        super().end(_HTML_NAMES.get(name, "span"))
        self._finished_alternatives.discard(len(self._path))
        self._path.pop()
        if self._path and self._path[-1] == _ALTERNATIVES:
            self._finished_alternatives.add(len(self._path))
        if was_skipping:
            return
        if name in ("p", "h"):
            self._paragraphs -= 1
        elif name == "sp" and self._open_shapes:
            self._shapes.append((*self._open_shapes.pop(), len(self.blocks)))

    def data(self, text: str) -> None:
        if self._paragraphs and self._text_element in ("", self._path[-1]):
            super().data(text)

    def _is_skipped(self, name: str, attributes: Attributes) -> bool:
        if name in _SKIPPED or len(self._path) in self._finished_alternatives:
            return True
        # Fields for the slide number or the date, and the positions of tabs.
        is_page_field = name == "fld" and attributes.get("type", "").startswith(
            ("slidenum", "datetime")
        )
        return self._paragraphs > 0 and (name == "tabs" or is_page_field)


def attribute(attributes: Attributes, name: str) -> str:
    """The value of an attribute, in whatever namespace."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""


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
    return _metadata(package, "docProps/core.xml")._replace(text=require_text(text.text))


def heading_styles(package: Package, name: str) -> dict[str, int]:
    """The level of each style that is a heading, by the style's id.

    The ids are translated; the names are always in English.
    """
    levels: dict[str, int] = {}
    styles = package.xml(name)
    for style in () if styles is None else styles.iter("{*}style"):
        title = next(style.iter("{*}name"), None)
        style_name = "" if title is None else attribute(title.attrib, "val").lower()
        number = style_name.removeprefix("heading ").replace("title", "1")
        if number in "123456789" and len(number) == 1 < len(style_name):
            levels[attribute(style.attrib, "styleId")] = int(number)
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
    return _metadata(package, "meta.xml")._replace(text=require_text(text.text))


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
