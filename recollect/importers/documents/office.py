"""Word, PowerPoint, OpenDocument and RTF.

Read from their XML: the usual libraries leave out text boxes, content controls
and what was inserted with changes tracked, and refuse documents with macros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from recollect.importers.documents.extract import (
    Extract,
    contents,
    day,
    joined,
    listed,
    paged,
    tidy,
)
from recollect.importers.documents.zipped import Element, Zipped, every, first, named
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable

_SKIPPED = frozenset(
    {"Fallback", "del", "moveFrom", "tracked-changes", "annotation", "notes-configuration"}
)
_ROWS = frozenset({"tr", "table-row"})
_PARAGRAPHS = frozenset({"p", "h"})
_BREAKS = frozenset({"br", "cr", "line-break"})
_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
_NO_TITLE = frozenset({"powerpoint presentation", "word document", "presentation", "untitled"})
_NUMBERS = frozenset({"slidenum", "datetime"})


# -- kinds -------------------------------------------------------------------


def docx(entry: Entry) -> Extract:
    zipped = Zipped(entry)
    main = _main(zipped)
    parts = {kind: name for kind, name in zipped.relations(main).values()}
    headings = _headings(zipped.xml(parts["styles"])) if "styles" in parts else {}
    blocks = [
        text
        for name in (main, parts.get("footnotes"), parts.get("endnotes"))
        if name and (root := zipped.xml(name)) is not None
        for text in _blocks(root, lambda element: _heading(element, headings))
    ]
    return _about(zipped, "docProps/core.xml")._replace(text=_enough(joined(blocks)))


def pptx(entry: Entry) -> Extract:
    """Each slide is a page: what stands on it, then what its notes say."""
    zipped = Zipped(entry)
    main = _main(zipped)
    root, parts = zipped.xml(main), zipped.relations(main)
    ids = [] if root is None else [_relation(slide) for slide in root.iter("{*}sldId")]
    slides = [parts[id_][1] for id_ in ids if id_ in parts]
    text, pages, lacks = paged(_slide(zipped, name) for name in slides)
    about = _about(zipped, "docProps/core.xml")
    title = about.title or next((_title(zipped.xml(name)) for name in slides[:1]), "")
    return about._replace(text=_enough(text), pages=pages, lacks=lacks, title=title)


def odt(entry: Entry) -> Extract:
    zipped = Zipped(entry)
    root = zipped.xml("content.xml")
    if root is None:
        raise Unreadable("damaged, or not what its name says")
    body = next(root.iter("{*}body"), root)
    return _about(zipped, "meta.xml")._replace(
        text=_enough(joined(_blocks(body, _odt_heading, _mixed)))
    )


def rtf(entry: Entry) -> Extract:
    from striprtf.striprtf import rtf_to_text

    data = contents(entry)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable("not what its name says")
    text: str = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    return Extract(text=_enough(text.strip()))


# -- what they share ---------------------------------------------------------


def _main(zipped: Zipped) -> str:
    found = next(
        (name for kind, name in zipped.relations("").values() if kind == "officeDocument"), None
    )
    if found is None or zipped.part(found) is None:
        raise Unreadable("damaged, or not what its name says")
    return found


def _enough(text: str) -> str:
    if not text.strip():
        raise Unreadable("no text in it")
    return text


def _about(zipped: Zipped, name: str) -> Extract:
    root = zipped.xml(name)
    title = first(root, "title")
    return Extract(
        title="" if title.lower() in _NO_TITLE else title,
        author=first(root, "initial-creator", "creator"),
        language=first(root, "language"),
        created_at=day(first(root, "created", "creation-date")),
        tags=tuple(word for text in every(root, "keywords", "keyword") for word in listed(text)),
    )


def _blocks(
    element: Element,
    heading: Callable[[Element], str],
    inline: Callable[[Element], str] | None = None,
) -> Iterator[str]:
    """The paragraphs below an element, and the rows of tables as one line each."""
    name = named(element)
    if name in _SKIPPED:
        return
    if name in _PARAGRAPHS:
        text = tidy((inline or _runs)(element))
        if text:
            yield heading(element) + text
        for box in element.iter("{*}txbxContent"):
            if not any(named(above) in _SKIPPED for above in box.iterancestors()):
                for child in box:
                    yield from _blocks(child, heading, inline)
    elif name in _ROWS:
        cells = (" ".join(_blocks(child, lambda _: "", inline)) for child in element)
        if row := " | ".join(cell.replace("\n", " ") for cell in cells if cell):
            yield row
    else:
        for child in element:
            yield from _blocks(child, heading, inline)


def _runs(element: Element) -> str:
    """The text of a paragraph of Word or PowerPoint, without that of boxes that hang on it."""
    parts: list[str] = []
    for child in element:
        name = named(child)
        if name == "t":
            parts.append(child.text or "")
        elif name == "tab":
            parts.append("\t")
        elif name in _BREAKS:
            parts.append("\n")
        elif name == "noBreakHyphen":
            parts.append("-")
        elif name not in _SKIPPED and name not in ("txbxContent", "tabs") and not _is_number(child):
            parts.append(_runs(child))
    return "".join(parts)


def _is_number(element: Element) -> bool:
    """Whether it is a field that counts slides or tells the day."""
    return named(element) == "fld" and any(
        element.get("type", "").startswith(kind) for kind in _NUMBERS
    )


# -- Word --------------------------------------------------------------------


def _attribute(element: Element, name: str) -> str:
    return next(
        (str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), ""
    )


def _headings(styles: Element | None) -> dict[str, int]:
    """How deep the headings of each style are. Styles have names in English whatever their ids are."""
    found: dict[str, int] = {}
    for style in [] if styles is None else styles.iter("{*}style"):
        name = next((_attribute(child, "val") for child in style if named(child) == "name"), "")
        if match := _HEADING.match(name):
            found[_attribute(style, "styleId")] = int(match[1])
        elif name.lower() == "title":
            found[_attribute(style, "styleId")] = 1
    return found


def _heading(paragraph: Element, headings: dict[str, int]) -> str:
    for properties in paragraph:
        if named(properties) == "pPr":
            inside = {named(child): child for child in properties}
            if "pStyle" in inside and (depth := headings.get(_attribute(inside["pStyle"], "val"))):
                return "#" * min(depth, 6) + " "
            return "- " if "numPr" in inside else ""
    return ""


# -- PowerPoint --------------------------------------------------------------


def _relation(slide: Element) -> str:
    return next((str(value) for key, value in slide.attrib.items() if key.endswith("}id")), "")


def _slide(zipped: Zipped, name: str) -> str:
    blocks = _of_slide(zipped.xml(name))
    for kind, notes in zipped.relations(name).values():
        if kind == "notesSlide" and (root := zipped.xml(notes)) is not None:
            for shape in root.iter("{*}sp"):
                if _placeholder(shape) == "body":
                    blocks += _blocks(shape, lambda _: "")
    return joined(blocks)


def _of_slide(root: Element | None) -> list[str]:
    return [] if root is None else list(_blocks(root, lambda _: ""))


def _placeholder(shape: Element) -> str:
    return next((str(found.get("type", "")) for found in shape.iter("{*}ph")), "")


def _title(root: Element | None) -> str:
    shapes = [] if root is None else root.iter("{*}sp")
    return next(
        (
            " ".join(_of_slide(shape))
            for shape in shapes
            if _placeholder(shape) in ("title", "ctrTitle")
        ),
        "",
    )


# -- OpenDocument ------------------------------------------------------------


def _odt_heading(paragraph: Element) -> str:
    if named(paragraph) != "h":
        return (
            "- " if any(named(above) == "list-item" for above in paragraph.iterancestors()) else ""
        )
    depth = _attribute(paragraph, "outline-level")
    return "#" * (min(int(depth), 6) if depth.isdigit() and int(depth) else 1) + " "


def _mixed(element: Element) -> str:
    """The text of a paragraph of an OpenDocument, where text stands between elements."""
    parts = [element.text or ""]
    for child in element:
        name = named(child)
        if name == "tab":
            parts.append("\t")
        elif name in _BREAKS:
            parts.append("\n")
        elif name == "s":
            parts.append(" ")
        elif name not in _SKIPPED:
            parts.append(_mixed(child))
        parts.append(child.tail or "")
    return "".join(parts)
