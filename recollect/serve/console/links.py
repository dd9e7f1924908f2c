"""Addresses: of a conversation in the console, and where it can be opened in the program it came from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from recollect.text import storable

# An id goes into an address or a command only where it looks like one of the origin's own.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{3,127}")
_WEB = {
    "chatgpt": ("ChatGPT", "https://chatgpt.com/c/{}"),
    "claude": ("Claude", "https://claude.ai/chat/{}"),
}
_TERMINAL = {
    "claude_code": ("Claude Code", "claude --resume {}"),
    "codex": ("Codex", "codex resume {}"),
}
_NAMES = {
    "chatgpt": "ChatGPT", "chatgpt_browser": "ChatGPT Browser", "claude": "Claude", "claude_code": "Claude Code",
    "codex": "Codex", "recollect": "Recollect", "bus": "Bus", "proxy": "Proxy", "chat": "Chat",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenIn:
    """One way to go on with a conversation: an address, or a command to copy."""

    label: str
    url: str = ""
    command: str = ""


def origin_name(origin: str) -> str:
    """An origin by the name that people know."""
    return _NAMES.get(_key(origin), origin)


def open_in(origin: str, origin_id: str, conversation_id: str) -> OpenIn:
    """Where a conversation can be opened: in its own program where that has an address, else here."""
    key = _key(origin)
    if _ID.fullmatch(origin_id):
        if key in _WEB:
            name, address = _WEB[key]
            return OpenIn(f"Open in {name}", url=address.format(origin_id))
        if key in _TERMINAL:
            name, command = _TERMINAL[key]
            return OpenIn(f"Open in {name}", command=command.format(shlex.quote(origin_id)))
    return OpenIn("Open in Recollect", url=conversation_url(conversation_id))


def conversation_url(conversation_id: str, **parameters: str | None) -> str:
    """The console's address of a conversation, whatever characters its id holds."""
    given = {name: value for name, value in parameters.items() if value}
    if conversation_id in ("", ".", ".."):  # a browser would take these for a folder
        return "/c/?" + query({"id": conversation_id, **given})
    return "/c/" + _quoted(conversation_id) + ("?" + query(given) if given else "")


def query(parameters: Mapping[str, Any]) -> str:
    """The part of an address after the question mark; lists are repeated."""
    given = {
        n: [storable(x) for x in v] if isinstance(v, (list, tuple)) else storable(str(v)) for n, v in parameters.items()
    }
    return urlencode(given, doseq=True, quote_via=quote, safe="")


def local(address: str | None) -> str:
    """The address if it is one of this console, else the start page."""
    given = address or "/"
    if re.fullmatch(r"/(?![/\\])[^\x00-\x20\\\x7f]*", given):
        return given
    return "/"


def _key(origin: str) -> str:
    return origin.lower().replace("-", "_").replace(" ", "_")


def _quoted(text: str) -> str:
    return quote(storable(text), safe="")
