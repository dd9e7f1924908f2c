"""Older versions that an import contained and that were not used, since the library had newer ones.

If the import with the newer version is undone, they are saved. Until then, the receipt has them in
the place of the state before: an import that changed nothing of a document has no such state.

An import may also contain copies of a document's passages only in another document (a fork of an
agent's session). It then has COPIES in that place, and the passages stay if another import is
undone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from recollect.language.text import identifier
from recollect.model.documents import Document, Passage
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import (
    PASSAGE_COLUMNS,
    decode_document,
    decode_passage,
    document_row,
    passage_row,
    upgrade_row,
)

_START = '{"unused": true, '
_ID = PASSAGE_COLUMNS.index("id")
IS_USED = f"(before is null or substr(before, 1, {len(_START)}) <> '{_START}')"
"""A condition for rows of `receipt_document`: the import contains the document as it is."""
COPIES = _START + '"copies": true}'
HAS_VERSION = f"(not {IS_USED} and before <> '{COPIES}')"
"""A condition for rows of `receipt_document`: the import has a version that was not used."""


def dump_version(document: Document, id: str, passages: Sequence[Passage]) -> str:
    """The fields of a document with this id, and those of its passages that were not used."""
    rows = [passage_row(passage) for passage in passages]
    state = {
        "unused": True,
        "document": document_row(replace(document, id=id)),
        "passages": [[digest.hex(), *rest] for digest, *rest in rows],
    }
    return json.dumps(state)


def is_unused(before: str | None) -> bool:
    """Whether a receipt has a version that was not used."""
    return before is not None and before.startswith(_START)


def load_version(before: str) -> Document:
    state = json.loads(before)
    passages = [
        decode_passage((bytes.fromhex(digest), *rest)) for digest, *rest in state["passages"]
    ]
    row = upgrade_row(state["document"]) | {"version": 0}
    return decode_document(row, tuple(passages))


def delete_passage(db: Database, document: int, id: str) -> None:
    """Delete all versions of a passage that were not used."""
    rows = db.rows(
        f"select receipt, before from receipt_document where {db.own()} and document = ? "
        f"and {HAS_VERSION}",
        (document,),
    )
    for receipt, before in rows:
        state = json.loads(before)
        state["passages"] = [row for row in state["passages"] if row[_ID] != identifier(id)]
        db.run(
            f"update receipt_document set before = ? where {db.own()} "
            "and document = ? and receipt = ?",
            (json.dumps(state), document, receipt),
        )
