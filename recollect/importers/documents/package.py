"""Documents that are zip archives of XML files: Office documents, OpenDocument and EPUB."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from recollect.errors import UnsafeFile
from recollect.importers.documents.extract import read_bytes, require
from recollect.importers.entries import Entry, Unreadable, reject_zip_bomb, unreadable_member
from recollect.settings import LIMITS

Element = Any
"""An lxml element."""

_CHUNK_BYTES = 65_536
_TREE_BYTES = 16_777_216
"""The largest part that is parsed into a tree, which takes several times as much memory."""
_MAX_VALUES = 1_000
_VALUE_CHARACTERS = 10_000
_SAFE_OPTIONS = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "recover": True,
}
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

    def has(self, name: str) -> bool:
        """Whether there is a part of this name, as other parts write it."""
        return self._member(name) is not None

    def unique_parts(self, names: Iterable[str]) -> list[str]:
        """The names of existing parts, once each, however they are spelled."""
        members = (self._member(name) for name in names)
        return list(dict.fromkeys(member.filename for member in members if member is not None))

    def part(self, name: str, limit: int = LIMITS.document_part_bytes) -> bytes | None:
        """A part by its name, as other parts write it; None if it does not exist."""
        if not self.has(name):
            return None
        return b"".join(self.chunks(name, limit))

    def chunks(self, name: str, limit: int = LIMITS.document_part_bytes) -> Iterator[bytes]:
        """The bytes of a part, a few at a time."""
        member = self._member(name)
        if member is None:
            return
        if member.flag_bits & 1:
            raise Unreadable("protected by a password; save it without one and import it again")
        if unreadable_member(member):
            raise Unreadable(unreadable_member(member))
        if member.file_size > limit:
            raise Unreadable(f"a part of it has more than {limit:,} bytes")
        try:
            with self._zip.open(member) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
        except _DAMAGED as error:
            raise Unreadable(f"damaged: {member.filename} cannot be unpacked") from error

    def _member(self, name: str) -> zipfile.ZipInfo | None:
        for spelling in (name, unquote(name)):
            member = self._members.get(posixpath.normpath(spelling.lstrip("/")).lower())
            if member is not None:
                return member
        return None

    def xml(self, name: str) -> Element | None:
        """A small part, such as metadata, as a tree."""
        data = self.part(name, _TREE_BYTES)
        return None if data is None else parse_xml(data)

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """The parts that a part of an Office document refers to: type and name, by id."""
        folder, _, basename = name.rpartition("/")
        root = self.xml(posixpath.join(folder, "_rels", f"{basename}.rels"))
        relations: dict[str, tuple[str, str]] = {}
        for relation in () if root is None else root:
            target = relation.get("Target", "")
            if relation.get("TargetMode") == "External" or not target:
                continue
            path = posixpath.join("" if target.startswith("/") else folder, target.lstrip("/"))
            type_ = relation.get("Type", "").rpartition("/")[2]
            relations[relation.get("Id", "")] = type_, posixpath.normpath(path)
        return relations


Collector = Any
"""What receives the elements of a part, such as an `HtmlText`; it is full if no more is needed."""


def collect(chunks: Iterable[bytes], collector: Collector) -> None:
    """Parse XML of any size without a tree in memory. After an error the rest is not parsed."""
    require("lxml")
    from lxml import etree

    feed_parser(etree.XMLParser(target=collector, **_SAFE_OPTIONS), chunks, collector)


def feed_parser(parser: Any, chunks: Iterable[bytes], collector: Collector) -> None:
    from lxml import etree

    try:
        for chunk in chunks:
            parser.feed(chunk)
            if collector.is_full:
                break
        parser.close()
    except etree.LxmlError:  # what is before the error was collected
        collector.close()


def parse_xml(data: bytes) -> Element | None:
    """Parse XML without fetching anything or expanding entities."""
    require("lxml")
    from lxml import etree

    parser = etree.XMLParser(remove_comments=True, remove_pis=True, **_SAFE_OPTIONS)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def first_text(root: Element | None, *names: str) -> str:
    """The first text of an element with one of these names."""
    return next(all_texts(root, *names), "")


def all_texts(root: Element | None, *names: str) -> Iterator[str]:
    """The texts of elements with these names, in any namespace.

    Strict and transitional Office documents differ only in their namespaces. Elements may be
    nested, so the text of each is limited.
    """
    elements = () if root is None else root.iter(*(f"{{*}}{name}" for name in names))
    for element in islice(elements, _MAX_VALUES):
        text = ""
        for part in element.itertext():
            text += part[:_VALUE_CHARACTERS]
            if len(text) > _VALUE_CHARACTERS:
                break
        if text.strip():
            yield text[:_VALUE_CHARACTERS].strip()
