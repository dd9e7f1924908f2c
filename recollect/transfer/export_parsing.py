"""Parse the JSON export of one document, in order to restore it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.errors import InvalidInput
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.language.text import truncate
from recollect.model.chat_messages import plain
from recollect.model.documents import Document
from recollect.model.receipts import Problem


def parse_item(item: Document | Mapping[str, Any]) -> Iterator[Document | Problem]:
    """A document that a program has made, or the reasons why it cannot be used, or in part."""
    if isinstance(item, Document):
        yield item
        return
    try:
        yield from _read(dict(item))
    except (TypeError, ValueError, RecursionError) as error:
        where = ""
        if isinstance(item, Mapping):
            where = str(item.get("id") or item.get("title") or "")
        yield Problem(truncate(str(error), 200), truncate(where, 80), True, "conversations")


def _read(item: dict[str, Any]) -> list[Document | Problem]:
    data = json.dumps(plain(item)).encode()
    return list(own.read(Entry("export.json", len(data), lambda: io.BytesIO(data))))


def parse_export(export: dict[str, Any], kind: str = "conversation") -> Document:
    """The one document in an export, read by the same code as an imported file."""
    records = _read(export)
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
