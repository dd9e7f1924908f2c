"""The addresses of items, as results name them: `notes://id`, `chats://id#message`; read back, and in the console.

Of a long item a part may be meant: `?start=` says from where on.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote

from recollect.knowledge.results import KINDS, uri_of
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
        address = uri_of(KINDS[self.source], self.id, self.message)
        return f"{address}?start={self.start}" if self.start else address


def read_address(uri: str) -> Address | None:
    """None where it is no address of an item. Whether there is such an item is not looked up."""
    source, separator, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    id_, _, message = rest.partition("#")
    start = _start(query)
    if not separator or source not in KINDS or not id_ or start is None:
        return None
    return Address(
        source, identifier(unquote(id_)), identifier(unquote(message)) if message else "", start
    )


def _start(query: str) -> int | None:
    try:
        given = parse_qs(query, strict_parsing=bool(query), max_num_fields=1)
    except ValueError:
        return None
    (start,) = given.pop("start", ["0"])
    return int(start) if not given and re.fullmatch(r"[0-9]{1,9}", start) else None


def page_of(context: Context, source: str, id_: str, message: str = "") -> str:
    """The item's page in the console; empty where there is no console."""
    if not context.base_url:
        return ""
    here = context.base_url.rstrip("/")
    if source == CHATS:
        return here + conversation_url(id_, m=message)
    return f"{here}/knowledge/{source}/{quote(storable(id_), safe='')}"
