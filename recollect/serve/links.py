"""URLs: pages of the console, and the pages or programs a document came from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from recollect.language.text import storable
from recollect.model.sources import find_source

NOTE_LINK = "/knowledge/notes?link="
"""How the URLs begin that `note_link` returns."""

# An id goes into a URL or a command only if it looks like an id of the source.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{3,127}")
_LOCAL_PATH = re.compile(r"/(?![/\\])[^\x00-\x20\\\x7f]*")
_YOUTUBE = ("youtu.be", "youtube.com", "youtube-nocookie.com")
_SUBDOMAINS = ("www.", "m.", "music.", "player.")
_PLAYABLE = tuple(
    ".mp3 .m4a .m4b .ogg .oga .opus .wav .flac .aac .mp4 .m4v .webm .ogv .mov".split()
)
_RELATIVE_NAMES = ("", ".", "..")  # browsers resolve these in a path, so they go into the query


class OpenIn(NamedTuple):
    """How to continue a conversation: a URL, or a command to copy."""

    label: str
    url: str = ""
    command: str = ""


def open_in(source_name: str, source_id: str, conversation_id: str) -> OpenIn:
    """Where to continue a conversation: in its own program if possible, else in the console."""
    source = find_source(source_name)
    if source is not None and _ID.fullmatch(source_id):
        if source.open_url:
            return OpenIn(f"Open in {source.label}", url=source.open_url.format(source_id))
        if source.resume_command:
            command = source.resume_command.format(shlex.quote(source_id))
            return OpenIn(f"Open in {source.label}", command=command)
    return OpenIn("Open in Recollect", url=conversation_url(conversation_id))


def conversation_url(conversation_id: str, **parameters: str | None) -> str:
    """The console's URL of a conversation. The id may contain any character."""
    return page_url("/c/", conversation_id, parameters)


def item_url(kind: str, id: str, **parameters: str | None) -> str:
    """The console's URL of an item. `kind` is the name of its tab, such as `notes`."""
    return page_url(f"/knowledge/{kind}/", id, parameters)


def page_url(folder: str, id: str, parameters: Mapping[str, str | None]) -> str:
    used = {name: value for name, value in parameters.items() if value}
    if id in _RELATIVE_NAMES:
        return f"{folder}?" + query({"id": id, **used})
    url = folder + quote_segment(id)
    if used:
        url += "?" + query(used)
    return url


def note_link(target: str, of: str) -> str:
    """The URL for a link in the note `of` to the note called `target`, whether it exists or not."""
    url = NOTE_LINK + quote_segment(target)
    if of:
        url += f"&of={quote_segment(of)}"
    return url


def web(url: object) -> str:
    """The URL if it is an http or https URL, else an empty string."""
    if isinstance(url, str):
        scheme, _, rest = url.partition("://")
        if scheme.lower() in ("http", "https") and rest[:1].strip("/").strip():
            return url
    return ""


def host(url: str) -> str:
    """The host of a URL, without "www."."""
    try:
        name = urlsplit(url).hostname
    except ValueError:
        name = None
    return (name or url).removeprefix("www.")


def at_second(url: str, seconds: float) -> str:
    """The URL that plays a recording from this second. Empty if the player is not supported."""
    second = int(seconds)
    try:
        parts = urlsplit(web(url))
        site = (parts.hostname or "").lower()
    except ValueError:
        return ""
    for subdomain in _SUBDOMAINS:
        site = site.removeprefix(subdomain)
    if site in _YOUTUBE:
        return youtube_url(parts, second)
    if site == "twitch.tv" and parts.path.startswith("/videos/"):
        time = f"{second // 3600}h{second // 60 % 60}m{second % 60}s"
        return urlunsplit(parts._replace(query=urlencode({"t": time}), fragment=""))
    if site == "vimeo.com":
        return urlunsplit(parts._replace(fragment=f"t={second}s"))
    if parts.path.lower().endswith(_PLAYABLE):
        return urlunsplit(parts._replace(fragment=f"t={second}"))
    return ""


def youtube_url(parts: SplitResult, second: int) -> str:
    parameters = []
    for name, value in parse_qsl(parts.query):
        if name not in ("t", "start", "time_continue"):
            parameters.append((name, value))
    parameters.append(("t", f"{second}s"))
    return urlunsplit(parts._replace(query=urlencode(parameters), fragment=""))


def query(parameters: Mapping[str, Any]) -> str:
    """A query string without the question mark. Lists become repeated parameters."""
    values: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, (list, tuple)):
            values[name] = [storable(item) for item in value]
        else:
            values[name] = storable(str(value))
    return urlencode(values, doseq=True, quote_via=quote, safe="")


def local(path: str | None) -> str:
    """The path if it is one of this server, else the start page."""
    if path and _LOCAL_PATH.fullmatch(path):
        return path
    return "/"


def quote_segment(text: str) -> str:
    """Percent-encode a text as one segment of a URL."""
    return quote(storable(text), safe="")
