"""Short names for files, and the paths by which conversations are read."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from recollect.language.text import storable
from recollect.model.projects import is_folder, project_name

_PATH = re.compile(r"/([^/]+)/([^/]+)\.jsonl")
_OBSERVATION_ID = re.compile(r"obs-\S{1,100}")
_FURTHER_OBSERVATION = re.compile(r"(obs-[a-z2-7]{10})-\d{1,3}")
_NOT_IN_PATHS = re.compile(r"[\s%/\\`?#\u2028\u2029]")


def conversation_path(project: str, conversation: str) -> str:
    """The path of a conversation, as `Memory.read` accepts it.

    It is a name inside the library and never the path of a file.
    """
    folder = _encode(project_name(project)) or "-"
    return f"/{folder}/{_encode(conversation)}.jsonl"


def conversation_id(path: str) -> str | None:
    """The id of the conversation that a path names.

    The project in a path is only for people, because a conversation may move to another project.
    """
    match = _PATH.fullmatch(storable(path).strip())
    if match is None:
        return None
    return unquote(match[2])


def is_observation_id(name: str) -> bool:
    return _OBSERVATION_ID.fullmatch(name) is not None


def successor_id(id_: str) -> str:
    """The id of the observation that covers the same messages once this one is no longer made."""
    return _FURTHER_OBSERVATION.sub(r"\1", id_)


def _encode(name: str) -> str:
    """A name as part of a path: separators and invisible characters are percent-encoded."""
    return "".join(map(_encode_character, storable(name)))


def _encode_character(char: str) -> str:
    if _NOT_IN_PATHS.match(char) or not char.isprintable():
        return quote(char, safe="")
    return char


def file_name(path: str, project: str) -> str:
    """The path of a file as people read it: relative to the folder of its project."""
    relative = path.removeprefix(project.rstrip("/\\"))
    is_inside = relative != path and is_folder(project) and relative[:1] in "/\\"
    if not is_inside:
        return path
    return relative.lstrip("/\\")
