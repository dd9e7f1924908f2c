"""EPUB: a zip with a list of chapters in XHTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from recollect.importers.documents.extract import Extract, day, paged
from recollect.importers.documents.markup import parsed_html, text_of_html
from recollect.importers.documents.zipped import Element, Zipped, every, first
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable

_TEXTS = frozenset({"application/xhtml+xml", "text/html", "application/xml", "text/xml"})


def extract(entry: Entry) -> Extract:
    zipped = Zipped(entry)
    container = zipped.xml("META-INF/container.xml")
    roots = (
        []
        if container is None
        else [found.get("full-path", "") for found in container.iter("{*}rootfile")]
    )
    package = next(
        (root for path in roots if path and (root := zipped.xml(path)) is not None), None
    )
    if package is None:
        raise Unreadable("damaged, or not an EPUB")
    chapters = list(_chapters(package, posixpath.dirname(roots[0])))
    if _protected(zipped, chapters):
        raise Unreadable("protected against copying (DRM); its text cannot be read")
    text, _, lacks = paged(_texts(zipped, chapters))
    if not text.strip():
        raise Unreadable("no text in it")
    about = next(package.iter("{*}metadata"), None)
    return Extract(
        text=text,
        lacks=lacks,
        title=first(about, "title"),
        author=", ".join(dict.fromkeys(every(about, "creator"))),
        language=first(about, "language"),
        created_at=day(first(about, "date")),
        tags=tuple(dict.fromkeys(every(about, "subject"))),
    )


def _chapters(package: Element, folder: str) -> Iterator[str]:
    """The files of the chapters in the order in which they are read, without the table of contents."""
    items = {
        item.get("id"): posixpath.join(folder, item.get("href", "").partition("#")[0])
        for item in package.iter("{*}item")
        if item.get("media-type", "").lower() in _TEXTS
        and "nav" not in item.get("properties", "").split()
    }
    for place in package.iter("{*}itemref"):
        if found := items.pop(place.get("idref"), None):
            yield found


def _texts(zipped: Zipped, chapters: list[str]) -> Iterator[str]:
    for name in chapters:
        data = zipped.part(name)
        root = parsed_html(data) if data else None
        if root is not None:
            yield text_of_html(root)


def _protected(zipped: Zipped, chapters: list[str]) -> bool:
    """Whether chapters are encrypted; that fonts are is common and does no harm."""
    root = zipped.xml("META-INF/encryption.xml")
    hidden = (
        set()
        if root is None
        else {found.get("URI", "") for found in root.iter("{*}CipherReference")}
    )
    return not hidden.isdisjoint(chapters)
