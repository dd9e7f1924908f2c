"""Which fields of a document a person or a program has set. Imports leave them alone.

The names are in the metadata, so they are exported, moved and backed up with the document.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from recollect.model.documents import Document, Json

EDITED_FIELDS = "edited_fields"
"""The key of the metadata with the names: a list of `title`, `project`, `tags` and others."""
PERSONAL_METADATA = ("tags", "pinned", "forgotten")
"""Metadata that belongs to the person. Imports only replace it if the source has it as well."""
_METADATA = "metadata."
"""What the names of other keys of the metadata begin with: `metadata.status`."""


def edited_fields(metadata: Mapping[str, Json]) -> frozenset[str]:
    names = metadata.get(EDITED_FIELDS)
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def edited_metadata(names: Collection[str]) -> list[str]:
    """The keys of the metadata that are among the names of edited fields."""
    return sorted(name.removeprefix(_METADATA) for name in names if name.startswith(_METADATA))


def without_edited_fields(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """The metadata as interfaces show it."""
    return {key: value for key, value in metadata.items() if key != EDITED_FIELDS}


def set_edited_fields(metadata: Mapping[str, Json], names: Collection[str]) -> dict[str, Json]:
    """The metadata with these names, and no others."""
    changed = without_edited_fields(metadata)
    if names:
        changed[EDITED_FIELDS] = sorted(names)
    return changed


def mark_edited_fields(before: Document, after: Document) -> dict[str, Json]:
    """The metadata of a document that somebody has changed, with the names of what changed."""
    names = set(edited_fields(after.metadata))
    if after.title != before.title:
        names.add("title")
    if after.project != before.project:
        names.add("project")
    if after.metadata.get("tags") != before.metadata.get("tags"):
        names.add("tags")
    for key in before.metadata.keys() | after.metadata.keys():
        is_own_field = key == EDITED_FIELDS or key in PERSONAL_METADATA
        if not is_own_field and after.metadata.get(key) != before.metadata.get(key):
            names.add(f"{_METADATA}{key}")
    return set_edited_fields(after.metadata, names)
