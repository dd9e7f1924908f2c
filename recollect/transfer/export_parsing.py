"""Parse the JSON export of one document, in order to restore it."""

from __future__ import annotations

import io
import json
from typing import Any

from recollect.errors import InvalidInput
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.model.documents import Document
from recollect.model.receipts import Problem


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
