"""The sections of the settings page: what each of them shows to the person who is signed in."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from recollect import settings
from recollect.home_folder import EXCLUSIONS
from recollect.jobs.backing_up import BACKUP, SERVER
from recollect.jobs.secret_scan import SECRETS, decode_scan
from recollect.library import Library
from recollect.models import embeddings
from recollect.serve.console.settings.secrets_found import find_links
from recollect.serve.http.access import Access
from recollect.serve.identity.accounts import BEING_REPLACED, VALID, key_state, live_sessions
from recollect.serve.identity.principal import ADMIN, KNOWLEDGE, LOCAL, WRITE
from recollect.store.api_keys import ApiKey
from recollect.store.shared.exclusions import SharedExclusions
from recollect.transfer.exclusion import FILES, MARKERS, read_patterns


class KeyRow(NamedTuple):
    key: ApiKey
    state: str
    is_current: bool
    """Whether the person is signed in with this key."""

    @property
    def works(self) -> bool:
        return self.state in (VALID, BEING_REPLACED)


def is_administrator(access: Access) -> bool:
    return ADMIN in access.principal.scopes


def home_of(access: Access) -> Path:
    """The folder with the files that belong to no single library."""
    if isinstance(access.service.place, Path):
        return access.service.place
    return settings.home()


def _keys(access: Access, library: Library) -> dict[str, Any]:
    """An administrator sees the keys of everybody, others see their own."""
    keys = access.service.keys.all_keys()
    successors = access.service.keys.replacements()
    if not is_administrator(access):
        keys = [key for key in keys if key.user == access.principal.user]
    rows = [
        KeyRow(key, key_state(key, successors.get(key.id)), key.id == access.principal.credential)
        for key in keys
    ]
    return {
        "keys": [row for row in rows if row.works],
        "old_keys": [row for row in rows if not row.works],
        "needs_first_key": access.principal.credential == LOCAL,
        "user": access.principal.user,
    }


def _sessions(access: Access, library: Library) -> dict[str, Any]:
    names = {key.id: key.name for key in access.service.keys.all_keys()}
    return {
        "sessions": live_sessions(access.service.keys, access.principal.user),
        "key_names": names,
        "current": access.principal.session,
    }


def _library(access: Access, library: Library) -> dict[str, Any]:
    """Where the library is on the server concerns only who runs the server."""
    figures = library.stats()
    location, size = "", None
    if is_administrator(access):
        location = str(figures["path"])
        if access.service.engine == "sqlite":
            size = _folder_size(Path(location).parent)
    return {
        "figures": figures,
        "location": location,
        "size": size,
        "engine": access.service.engine,
        "read_only_reason": library.read_only,
    }


def _folder_size(folder: Path) -> int:
    """The bytes of a library and its index. Files are not opened, which would drop locks."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += (Path(path) / name).stat().st_size
            except FileNotFoundError:
                continue  # a file of the index was replaced
    return size


def _index(access: Access, library: Library) -> dict[str, Any]:
    status = library.index_status()
    if status.has_work and not status.problem:
        library.wake_indexer()  # nobody may have searched since the server was started
    return {
        "index": status,
        "embeddings_off": embeddings.embedding_setting() == embeddings.OFF,
    }


def _embeddings(access: Access, library: Library) -> dict[str, Any]:
    setting = embeddings.embedding_setting()
    statuses = library.embedding_status()
    current = [status for status in statuses if status.name == setting]
    space = None
    if current:
        space = current[-1]
    older = [status for status in statuses if status is not space]
    return {
        "model": _model_name(setting, is_administrator(access)),
        "is_remote": embeddings.is_remote(setting),
        "is_off": setting == embeddings.OFF,
        "origin": settings.EMBEDDINGS.origin(),
        "space": space,
        "older_spaces": older,
        "downloadable": [
            (name, embeddings.model_folder(name).is_dir()) for name in embeddings.DOWNLOADABLE
        ],
    }


def _model_name(setting: str, is_admin: bool) -> str:
    """The name of the model. The address of a service is for administrators."""
    if embeddings.is_remote(setting) and not is_admin:
        return setting.partition("#")[2] or "a service"
    return setting


def _exclusions(access: Access, library: Library) -> dict[str, Any]:
    if access.service.engine == "postgresql" and not settings.READ_ONLY.get():
        patterns = SharedExclusions(access.service.shared).patterns()
    else:
        patterns = read_patterns(home_of(access))
    return {
        "patterns": patterns,
        "fixed_patterns": settings.EXCLUDE.get(),
        "fixed_origin": settings.EXCLUDE.origin(),
        "file_name": EXCLUSIONS,
        "markers": MARKERS[:1],
        "marker_files": FILES[:1],
    }


def _secrets(access: Access, library: Library) -> dict[str, Any]:
    task = access.service.tasks.get(access.principal.user, SECRETS)
    links = []
    if task is not None and task.result is not None:
        scan = decode_scan(task.result)
        task = replace(task, result=scan)
        links = find_links(library, scan)
    return {"task": task, "links": links, "redacts": settings.REDACT.get()}


def _backup(access: Access, library: Library) -> dict[str, Any]:
    from recollect.backup.schedule import backup_overview

    return {
        "backup": backup_overview(access.service.place),
        "task": access.service.tasks.get(SERVER, BACKUP),
        "engine": access.service.engine,
    }


Section = Callable[[Access, Library], dict[str, Any]]
SECTIONS: dict[str, Section] = {
    "library": _library,
    "index": _index,
    "embeddings": _embeddings,
    "keys": _keys,
    "sessions": _sessions,
    "exclusions": _exclusions,
    "secrets": _secrets,
    "backup": _backup,
}
TITLES = {
    "library": "Library",
    "index": "Index",
    "embeddings": "Embeddings",
    "keys": "API keys",
    "sessions": "Sessions",
    "exclusions": "Exclusions",
    "secrets": "Secrets found",
    "backup": "Backup",
}
_ADMIN_SECTIONS = ("exclusions", "backup")


def visible_sections(access: Access) -> list[str]:
    """The sections that this person may see, in the order of the page."""
    names = list(SECTIONS)
    if not is_administrator(access):
        names = [name for name in names if name not in _ADMIN_SECTIONS]
    if not access.principal.has_toolset(KNOWLEDGE):
        names.remove("secrets")
    if access.principal.credential == LOCAL:
        names.remove("sessions")
    return names


def section_values(access: Access, library: Library, name: str) -> dict[str, Any]:
    return SECTIONS[name](access, library) | {
        "section": name,
        "can_write": WRITE in access.principal.scopes,
        "is_admin": is_administrator(access),
    }
