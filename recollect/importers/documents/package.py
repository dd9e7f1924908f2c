"""Documents that are zip archives of XML files: Office documents, OpenDocument and EPUB."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from recollect.errors import UnsafeFile
from recollect.importers.documents.extract import read_bytes
from recollect.importers.entries import Entry, reject_zip_bomb
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

Element = Any
"""An lxml element."""

_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


class Package:
    """The parts of a document. Each is read when it is needed, and its size is limited."""

    def __init__(self, entry: Entry) -> None:
        data = read_bytes(entry)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise Unreadable("damaged, or not the format that its name says") from error
        try:
            reject_zip_bomb(entry.basename, self._zip.infolist(), len(data))
        except UnsafeFile as error:
            raise Unreadable(str(error)) from error
        self._members = {member.filename.lower(): member for member in self._zip.infolist()}

    def part(self, name: str) -> bytes | None:
        """A part by its name, as other parts write it; None if it does not exist."""
        member = self._member(name) or self._member(unquote(name))
        if member is None:
            return None
        if member.flag_bits & 1:
            raise Unreadable("protected by a password; save it without one and import it again")
        if member.file_size > LIMITS.document_part_bytes:
            raise Unreadable(f"a part of it has more than {LIMITS.document_part_bytes:,} bytes")
        try:
            return self._zip.read(member)
        except _DAMAGED as error:
            raise Unreadable(f"damaged: {member.filename} cannot be unpacked") from error

    def _member(self, name: str) -> zipfile.ZipInfo | None:
        return self._members.get(posixpath.normpath(name.lstrip("/")).lower())

    def xml(self, name: str) -> Element | None:
        data = self.part(name)
        if data is None:
            return None
        return parse_xml(data)

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """The parts that a part of an Office document refers to: type and name, by id."""
        folder, _, basename = name.rpartition("/")
        root = self.xml(posixpath.join(folder, "_rels", f"{basename}.rels"))
        relations: dict[str, tuple[str, str]] = {}
        if root is None:
            return relations
        for relation in root:
            target = relation.get("Target", "")
            if relation.get("TargetMode") == "External" or not target:
                continue
            if target.startswith("/"):
                path = target.lstrip("/")
            else:
                path = posixpath.join(folder, target)
            type_ = relation.get("Type", "").rpartition("/")[2]
            relations[relation.get("Id", "")] = type_, posixpath.normpath(path)
        return relations


def parse_xml(data: bytes) -> Element | None:
    """Parse XML without fetching anything or expanding entities."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        recover=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def local_name(element: Element) -> str:
    """The name of an element without its namespace.

    Strict and transitional Office documents differ only in their namespaces.
    """
    tag = element.tag
    if not isinstance(tag, str):
        return ""
    return tag.rpartition("}")[2]


def first_text(root: Element | None, *names: str) -> str:
    """The first text of an element with one of these names."""
    return next(_texts(root, names), "")


def all_texts(root: Element | None, *names: str) -> tuple[str, ...]:
    return tuple(_texts(root, names))


def _texts(root: Element | None, names: tuple[str, ...]) -> Iterator[str]:
    if root is None:
        return
    for element in root.iter(*(f"{{*}}{name}" for name in names)):
        text = "".join(element.itertext()).strip()
        if text:
            yield text
