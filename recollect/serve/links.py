"""Addresses: of what the console shows, and where it can be opened in the program it came from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from recollect.language.text import storable
from recollect.model.sources import find_source

# An id goes into an address or a command only if it looks like an id of the source.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{3,127}")
_YOUTUBE = re.compile(r"(?:www\.|m\.|music\.)?youtube(?:-nocookie)?\.com")
_VIMEO = re.compile(r"(?:www\.|player\.)?vimeo\.com")
_TWITCH = re.compile(r"(?:www\.|m\.)?twitch\.tv")
_PLAYED = re.compile(
    r"\.(?:mp3|m4a|m4b|ogg|oga|opus|wav|flac|aac|mp4|m4v|webm|ogv|mov)", re.IGNORECASE
)


LINKED = "/knowledge/notes?link="
"""How the address of a note that another one names begins."""


@dataclass(frozen=True, slots=True)
class OpenIn:
    """One way to go on with a conversation: an address, or a command to copy."""

    label: str
    url: str = ""
    command: str = ""


def open_in(source_name: str, source_id: str, conversation_id: str) -> OpenIn:
    """Where a conversation can be opened: in its own program if possible, otherwise in the console."""
    source = find_source(source_name)
    if source is not None and _ID.fullmatch(source_id):
        if source.open_url:
            return OpenIn(f"Open in {source.label}", url=source.open_url.format(source_id))
        if source.resume_command:
            command = source.resume_command.format(shlex.quote(source_id))
            return OpenIn(f"Open in {source.label}", command=command)
    return OpenIn("Open in Recollect", url=conversation_url(conversation_id))


def conversation_url(conversation_id: str, **parameters: str | None) -> str:
    """The console's address of a conversation, whatever characters its id holds."""
    given = {name: value for name, value in parameters.items() if value}
    if conversation_id in ("", ".", ".."):  # a browser would take these for a folder
        return "/c/?" + query({"id": conversation_id, **given})
    return "/c/" + quoted(conversation_id) + ("?" + query(given) if given else "")


def item_url(source: str, id: str, **parameters: str | None) -> str:
    """The console's address of a note, a media item, a character or a prompt."""
    given = {name: value for name, value in parameters.items() if value}
    if id in ("", ".", ".."):
        return f"/knowledge/{source}/?" + query({"id": id, **given})
    return f"/knowledge/{source}/{quoted(id)}" + ("?" + query(given) if given else "")


def linked(target: str, of: str) -> str:
    """The address of the note that is called so in a link of the note `of`, whether there is one or not."""
    return LINKED + quoted(target) + (f"&of={quoted(of)}" if of else "")


def web(address: object) -> str:
    """The address if a browser may go there, else nothing."""
    return (
        address
        if isinstance(address, str) and re.match(r"https?://[^\s/]", address, re.IGNORECASE)
        else ""
    )


def host(address: str) -> str:
    """Where an address leads to, in few letters."""
    try:
        return (urlsplit(address).hostname or address).removeprefix("www.")
    except ValueError:
        return address


def at_second(address: str, seconds: float) -> str:
    """Where a recording is played from this second on; empty where nobody knows how to say that to its player."""
    second = int(seconds)
    try:
        parts = urlsplit(web(address))
        host = (parts.hostname or "").lower()
    except ValueError:
        return ""
    if host == "youtu.be" or _YOUTUBE.fullmatch(host):
        kept = [
            (name, value)
            for name, value in parse_qsl(parts.query)
            if name not in ("t", "start", "time_continue")
        ]
        return urlunsplit(
            parts._replace(query=urlencode([*kept, ("t", f"{second}s")]), fragment="")
        )
    if _TWITCH.fullmatch(host) and parts.path.startswith("/videos/"):
        said = f"{second // 3600}h{second // 60 % 60}m{second % 60}s"
        return urlunsplit(parts._replace(query=urlencode({"t": said}), fragment=""))
    if _VIMEO.fullmatch(host):
        return urlunsplit(parts._replace(fragment=f"t={second}s"))
    if _PLAYED.fullmatch(parts.path[parts.path.rfind(".") :] if "." in parts.path else ""):
        return urlunsplit(parts._replace(fragment=f"t={second}"))
    return ""


def query(parameters: Mapping[str, Any]) -> str:
    """The part of an address after the question mark; lists are repeated."""
    given = {
        n: [storable(x) for x in v] if isinstance(v, (list, tuple)) else storable(str(v))
        for n, v in parameters.items()
    }
    return urlencode(given, doseq=True, quote_via=quote, safe="")


def local(address: str | None) -> str:
    """The address if it is one of this console, else the start page."""
    given = address or "/"
    if re.fullmatch(r"/(?![/\\])[^\x00-\x20\\\x7f]*", given):
        return given
    return "/"


def quoted(text: str) -> str:
    """A text as one part of an address."""
    return quote(storable(text), safe="")
