"""Remove the names of deleted documents from receipts.

A receipt lists the places of a few problems, and a place may be the title of a conversation. It
also has the names of the files that were imported, and a note is often named after its title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from recollect.language.text import storable, truncate
from recollect.store.sql.database import Database

DELETED = "(deleted)"
# Importers shorten titles to this length.
_SAMPLE_CHARACTERS = 80
# A shorter name could be a word of a reason.
_MIN_CHARACTERS_IN_REASON = 8


def forget_document(db: Database, document: int) -> None:
    """Remove the title and the source id of a document from all receipts. Call it before deletion.

    The titles that imports replaced are in the receipts as well, as states to restore.
    """
    names: list[str] = []
    for row in db.rows(
        f"select title, source_id from document where {db.own()} and key = ?", (document,)
    ):
        names += row
    states = db.rows(
        f"select before from receipt_document where {db.own()} and document = ? "
        "and before is not null",
        (document,),
    )
    names += [title_of(json.loads(before)) for (before,) in states]
    forget_names(db, names)


def title_of(state: Mapping[str, Any] | None) -> str:
    if state is None:
        return ""
    title = state.get("document", state).get("title")
    if not isinstance(title, str):
        return ""
    return title


def forget_names(db: Database, names: Iterable[str]) -> None:
    """Remove names from all receipts."""
    for name in {name.strip() for name in names} - {""}:
        for variant in {name, truncate(name, _SAMPLE_CHARACTERS)}:
            forget_name(db, variant)


def forget_name(db: Database, name: str) -> None:
    # As JSON has it. Both databases have `replace`.
    escaped = json.dumps(name)[1:-1]
    rows = db.rows(
        "select id, path, files from receipt "
        f"where {db.own()} and (replace(files, ?, '') <> files or replace(path, ?, '') <> path)",
        (escaped, storable(name)),
    )
    for receipt, path, files in rows:
        records = [without_name(file, name) for file in json.loads(files or "[]")]
        db.run(
            f"update receipt set path = ?, files = ? where {db.own()} and id = ?",
            (path_without_name(path, name), json.dumps(records), receipt),
        )


def without_name(file: dict[str, Any], name: str) -> dict[str, Any]:
    """The record of a file in a receipt, without a name."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    samples: dict[str, list[str]] = {}
    for reason, places in file["samples"].items():
        places = [pattern.sub(DELETED, place) for place in places]
        samples.setdefault(reason_without_name(reason, pattern, name), []).extend(places)
    result = file | {"samples": samples, "name": path_without_name(file["name"], name)}
    for counts in ("conversations", "messages"):
        result[counts] = dict(file[counts])
        for outcome in ("skipped", "failed"):
            result[counts][outcome] = merge_counts(file[counts][outcome], pattern, name)
    return result


def merge_counts(counts: Mapping[str, int], pattern: re.Pattern[str], name: str) -> dict[str, int]:
    merged: dict[str, int] = {}
    for reason, count in counts.items():
        reason = reason_without_name(reason, pattern, name)
        merged[reason] = merged.get(reason, 0) + count
    return merged


def reason_without_name(reason: str, pattern: re.Pattern[str], name: str) -> str:
    if len(name) < _MIN_CHARACTERS_IN_REASON:
        return reason
    return pattern.sub(DELETED, reason)


def path_without_name(path: str, name: str) -> str:
    """A path whose last part is not named after a document, nor the whole path."""
    if path == name or path.endswith(f"/{name}"):
        return path.removesuffix(name) + DELETED
    file = PurePosixPath(path)
    if name in (file.name, file.stem):
        return path.removesuffix(file.name) + DELETED + file.suffix
    return path
