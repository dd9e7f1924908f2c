"""Parse the JSON export of one document, in order to restore it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from recollect.errors import InvalidInput
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.language.text import truncate
from recollect.model.documents import Document
from recollect.model.receipts import Problem


def parse_item(item: Document | Mapping[str, Any]) -> Document | Problem:
    """A document that a program has made, or the reason why it cannot be used."""
    if isinstance(item, Document):
        return item
    try:
        return parse_export(dict(item))
    except (InvalidInput, TypeError, ValueError) as error:
        where = ""
        if isinstance(item, Mapping):
            where = str(item.get("id") or item.get("title") or "")
        return Problem(truncate(str(error), 200), truncate(where, 80), True, "conversations")


def parse_export(export: dict[str, Any], kind: str = "conversation") -> Document:
    """The one document in an export, read by the same code as an imported file."""
    data = json.dumps(export).encode()
    records = list(own.read(Entry("export.json", len(data), lambda: io.BytesIO(data))))
    for record in records:
        if isinstance(record, Problem) and record.failed:
            raise InvalidInput(
                f"This is not an export of a {kind}: {record.reason} ({record.where})."
            )
    documents = [record for record in records if isinstance(record, Document)]
    if len(documents) != 1:
        raise InvalidInput(
            f"Send the export of exactly one {kind}. This body contains {len(documents)}."
        )
    return documents[0]
