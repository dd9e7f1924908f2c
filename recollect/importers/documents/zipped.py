"""Documents that are zips of XML: their parts, opened one at a time and bounded."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from typing import Any
from urllib.parse import unquote

from recollect.errors import UnsafeFile
from recollect.importers.documents.extract import contents
from recollect.importers.entries import Entry, refuse_bombs
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

Element = Any
"""An lxml element."""


class Zipped:
    def __init__(self, entry: Entry) -> None:
        data = contents(entry)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise Unreadable("damaged, or not what its name says") from error
        try:
            refuse_bombs(entry.basename, self._zip.infolist(), len(data))
        except UnsafeFile as error:
            raise Unreadable(str(error)) from error
        self._names = {info.filename.lower(): info for info in self._zip.infolist()}

    def part(self, name: str) -> bytes | None:
        """A part by its name, as others write it; None where there is none."""
        info = self._names.get(posixpath.normpath(name.lstrip("/")).lower())
        if info is None:
            info = self._names.get(posixpath.normpath(unquote(name).lstrip("/")).lower())
        if info is None:
            return None
        if info.flag_bits & 1:
            raise Unreadable("protected by a password; save it without one and import it again")
        if info.file_size > LIMITS.document_part_bytes:
            raise Unreadable(f"a part of it has more than {LIMITS.document_part_bytes:,} bytes")
        try:
            return self._zip.read(info)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise Unreadable(f"damaged: {info.filename} cannot be unpacked") from error

    def xml(self, name: str) -> Element | None:
        data = self.part(name)
        return None if data is None else parsed(data)

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """What a part of an Office document refers to: the kind and the name of each, by id."""
        folder, _, last = name.rpartition("/")
        root = self.xml(f"{folder}/_rels/{last}.rels" if folder else f"_rels/{last}.rels")
        found = {}
        for relation in [] if root is None else root:
            target = relation.get("Target", "")
            if relation.get("TargetMode") != "External" and target:
                where = (
                    target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                )
                kind = relation.get("Type", "").rpartition("/")[2]
                found[relation.get("Id", "")] = kind, posixpath.normpath(where)
        return found


def parsed(data: bytes) -> Element | None:
    """XML of which nothing is fetched and no entity is expanded."""
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


def named(element: Element) -> str:
    """The name of an element without its namespace: strict and transitional Office documents differ in nothing else."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def first(root: Element | None, *names: str) -> str:
    """The text of the first element of one of these names."""
    found = () if root is None else root.iter(*(f"{{*}}{name}" for name in names))
    return next((text for element in found if (text := "".join(element.itertext()).strip())), "")


def every(root: Element | None, *names: str) -> tuple[str, ...]:
    found = () if root is None else root.iter(*(f"{{*}}{name}" for name in names))
    return tuple(text for element in found if (text := "".join(element.itertext()).strip()))
