"""URIs of items, as results show them: `notes://id`, `chats://id#message`. Also their console URLs.

`?start=` selects a later part of a long item.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote

from recollect.knowledge.results import SOURCES, uri_of
from recollect.language.text import identifier, storable
from recollect.serve.links import conversation_url
from recollect.serve.mcp.context import Context

CHATS = "chats"


class Address(NamedTuple):
    source: str
    id: str
    message: str = ""
    start: int = 0

    @property
    def uri(self) -> str:
        uri = uri_of(SOURCES[self.source], self.id, self.message)
        if self.start:
            uri += f"?start={self.start}"
        return uri


def parse_address(uri: str) -> Address | None:
    """Parse the URI of an item; None if it is not one. Does not check that the item exists."""
    source, separator, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    id_, _, message = rest.partition("#")
    start = parse_start(query)
    if not separator or source not in SOURCES or not id_ or start is None:
        return None
    if message:
        message = identifier(unquote(message))
    return Address(source, identifier(unquote(id_)), message, start)


def parse_start(query: str) -> int | None:
    """The value of `start` in the query of a URI, 0 without one; None if the query is invalid."""
    try:
        parameters = parse_qs(query, strict_parsing=bool(query), max_num_fields=1)
    except ValueError:
        return None
    (start,) = parameters.pop("start", ["0"])
    if parameters or not re.fullmatch(r"[0-9]{1,9}", start):
        return None
    return int(start)


def console_url(context: Context, source: str, id_: str, message: str = "") -> str:
    """The item's page in the console; empty if the server has no public address."""
    if not context.base_url:
        return ""
    base_url = context.base_url.rstrip("/")
    if source == CHATS:
        return base_url + conversation_url(id_, m=message)
    return f"{base_url}/knowledge/{source}/{quote(storable(id_), safe='')}"
