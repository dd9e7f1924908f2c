"""The files of a volume: a manifest, and a Tantivy index for the passages of each kind.

Hidden passages have an index of their own, so a search for what it may show needs no filter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from recollect.errors import RecollectError
from recollect.store.sqlite.files.checksums import (
    file_checksum,
    is_check_due,
    mark_checked,
)

FORMAT = 4
"""Since 2, the newest passages come first. Since 3, every kind has an index. Since 4, there are
symbols."""
MANIFEST = "volume.json"


class IndexContents(NamedTuple):
    """Which passages an index contains."""

    kind: str
    """The kind of their documents."""
    hidden: bool


class UnreadableVolume(RecollectError):
    """The folder is not a volume of this version, or it is damaged. It must be written again."""


class DamagedVolume(UnreadableVolume):
    """A file of the volume has another size or checksum."""


def schema() -> tantivy.Schema:
    """The fields of a passage in an index."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    builder.add_text_field("symbols", tokenizer_name="whitespace", index_option="basic")
    builder.add_unsigned_field("key", fast=True, indexed=True)
    builder.add_unsigned_field("document", indexed=True)
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("author", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("created_at", fast=True)
    return builder.build()


def verify_checksums(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise DamagedVolume if a file differs from its checksum."""
    for name, checksum in manifest["checksums"].items():
        if file_checksum(folder / name) != checksum:
            raise DamagedVolume(
                f"The volume {folder} is damaged: {name} differs from its checksum."
            )


def checksums_of(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """The checksum of each of these files."""
    return {name: file_checksum(folder / name) for name in names}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and check that all files are complete.

    Reading past the end of a file that is mapped into memory would kill the process.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise UnreadableVolume(f"{folder} is a volume of another version of Recollect.")
        for name, size in manifest["files"].items():
            if (folder / name).stat().st_size != size:
                raise DamagedVolume(f"The volume {folder} is damaged: {name} has another size.")
        if is_check_due(folder / MANIFEST, [folder / name for name in manifest["files"]]):
            verify_checksums(folder, manifest)
            mark_checked(folder / MANIFEST)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableVolume(f"{folder} is not a volume ({error}).") from error
    assert isinstance(manifest, dict)
    return manifest
