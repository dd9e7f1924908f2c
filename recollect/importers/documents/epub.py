"""EPUB: a zip archive with a list of chapters in XHTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from recollect.importers.documents.extract import Extract, join_pages, parse_date
from recollect.importers.documents.html_text import HtmlText, read_html
from recollect.importers.documents.package import Element, Package, all_texts, first_text
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable

_TEXT_TYPES = frozenset({"application/xhtml+xml", "text/html", "application/xml", "text/xml"})
_MAX_MANIFESTS = 10


def extract(entry: Entry) -> Extract:
    package = Package(entry)
    manifest, folder = _manifest(package)
    chapters = list(_chapters(manifest, folder))
    if _is_protected(package, chapters):
        raise Unreadable("protected against copying (DRM); its text cannot be read")
    omissions: list[str] = []
    text, _, omission = join_pages(_texts(package, chapters, omissions))
    if not text.strip():
        raise Unreadable("contains no text")
    metadata = next(manifest.iter("{*}metadata"), None)
    return Extract(
        text=text,
        omission=omission or "".join(omissions[:1]),
        title=first_text(metadata, "title"),
        author=", ".join(dict.fromkeys(all_texts(metadata, "creator"))),
        language=first_text(metadata, "language"),
        created_at=parse_date(first_text(metadata, "date")),
        tags=tuple(dict.fromkeys(all_texts(metadata, "subject"))),
    )


def _manifest(package: Package) -> tuple[Element, str]:
    """The list of the book's files, and the folder that their names are relative to."""
    container = package.xml("META-INF/container.xml")
    paths = []
    if container is not None:
        paths = [root.get("full-path", "") for root in container.iter("{*}rootfile")]
    for path in list(dict.fromkeys(paths))[:_MAX_MANIFESTS]:
        manifest = package.xml(path) if path else None
        if manifest is not None:
            return manifest, posixpath.dirname(path)
    raise Unreadable("damaged, or not an EPUB")


def _chapters(manifest: Element, folder: str) -> Iterator[str]:
    """The files of the chapters in reading order, without the table of contents."""
    files = {
        item.get("id"): posixpath.join(folder, item.get("href", "").partition("#")[0])
        for item in manifest.iter("{*}item")
        if item.get("media-type", "").lower() in _TEXT_TYPES
        and "nav" not in item.get("properties", "").split()
    }
    for reference in manifest.iter("{*}itemref"):
        file = files.pop(reference.get("idref"), None)
        if file:
            yield file


def _texts(package: Package, chapters: list[str], omissions: list[str]) -> Iterator[str]:
    """The text of each chapter. Missing parts are added to `omissions`."""
    for name in package.unique_parts(chapters):
        page = HtmlText()
        read_html(package.part(name) or b"", page)
        if page.omission:
            omissions.append(page.omission)
        yield page.text


def _is_protected(package: Package, chapters: list[str]) -> bool:
    """Whether chapters are encrypted. Encrypted fonts are common and harmless."""
    root = package.xml("META-INF/encryption.xml")
    if root is None:
        return False
    encrypted = {reference.get("URI", "") for reference in root.iter("{*}CipherReference")}
    return not encrypted.isdisjoint(chapters)
