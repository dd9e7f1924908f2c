"""The files of a volume: a manifest, and a Tantivy index each of visible and of hidden passages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tantivy

from recollect.errors import RecollectError

FORMAT = 1
MANIFEST = "volume.json"
VISIBLE = "shown"
HIDDEN = "hidden"


class UnreadableVolume(RecollectError):
    """The folder is not a volume of this version, or it is damaged. It must be written again."""


def schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    builder.add_unsigned_field("key", fast=True, indexed=True)
    builder.add_unsigned_field("document", indexed=True)
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("author", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("created_at", fast=True)
    return builder.build()


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
                raise UnreadableVolume(f"The volume {folder} is damaged: {name} has another size.")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableVolume(f"{folder} is not a volume ({error}).") from error
    assert isinstance(manifest, dict)
    return manifest
