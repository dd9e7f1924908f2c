"""Links between notes: find the note that a link such as `[[Plans]]` means."""

from __future__ import annotations

from posixpath import normpath

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.documents import Summary
from recollect.serve.console.tabs import NOTES

_PAGE = 200  # notes per request
_MAX_ALIAS_SCAN = 2_000  # notes whose aliases are checked


def resolve_link(library: Library, target: str, from_id: str) -> Summary | None:
    """The note that a link in the note `from_id` points to.

    A path wins, the nearest folder first; then a title; then an alias.
    """
    name = target.partition("#")[0].strip().replace("\\", "/").strip("/")
    for suffix in (".md", ".markdown"):
        name = name.removesuffix(suffix)
    if not name:
        return _get(library, from_id)
    folders = from_id.split("/")[:-1]
    for depth in range(len(folders), -1, -1):
        note = _get(library, normpath("/".join([*folders[:depth], name])))
        if note is not None:
            return note
    name = name.casefold()
    return _by_path_or_title(library, name) or _by_alias(library, name)


def _get(library: Library, id: str) -> Summary | None:
    try:
        return library.knowledge.find(NOTES, id)
    except NotFound:
        return None


def _by_path_or_title(library: Library, name: str) -> Summary | None:
    notes, _ = library.knowledge.list(NOTES, search=name.rpartition("/")[2], limit=_PAGE)
    for note in notes:
        if f"/{note.id}".casefold().endswith(f"/{name}"):
            return note
    for note in notes:
        if note.title.casefold() == name:
            return note
    return None


def _by_alias(library: Library, name: str) -> Summary | None:
    for offset in range(0, _MAX_ALIAS_SCAN, _PAGE):
        notes, total = library.knowledge.list(NOTES, limit=_PAGE, offset=offset)
        for note in notes:
            if name in _aliases(note):
                return note
        if offset + _PAGE >= total:
            break
    return None


def _aliases(note: Summary) -> list[str]:
    aliases = note.metadata.get("aliases")
    if not isinstance(aliases, list):
        return []
    return [str(alias).casefold() for alias in aliases]
