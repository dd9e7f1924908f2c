"""The settings page: what each section shows to the person who is signed in, and its buttons."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from recollect import places, settings
from recollect.errors import NotFound
from recollect.home_folder import EXCLUSIONS
from recollect.jobs.handlers import BACKUP, SECRETS, SERVER, decode_scan
from recollect.jobs.runner import HOST
from recollect.library import Library
from recollect.models import embeddings
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.lists import Filters, frame
from recollect.serve.console.tabs import CONVERSATIONS, TABS_BY_KIND, document_url
from recollect.serve.console.templating import fragment, page, render
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.routes import Routes
from recollect.serve.identity.accounts import BEING_REPLACED, VALID, key_state, live_sessions
from recollect.serve.identity.principal import ADMIN, KNOWLEDGE, LOCAL, READ, WRITE, Forbidden
from recollect.store.audit_log import SETTING, Entry
from recollect.store.shared.exclusions import SharedExclusions
from recollect.transfer.exclusion import (
    FILES,
    MARKERS,
    add_pattern,
    matching_projects,
    read_patterns,
    remove_pattern,
    validate_pattern,
)

routes = Routes(route_class=PageRoute)

_MAX_PROJECTS = 50
_MAX_LINKS = 20


@routes.add("GET /settings", READ, CONVERSATIONS)
def settings_page(access: AccessTo, filters: Filters) -> Response:
    require_person(access)
    with access.read() as library:
        values = frame(library, CONVERSATIONS, filters)
        sections = {
            # The template escapes.
            name: Markup(render(f"settings/_{name}.html", **_values(access, library, name)))  # noqa: S704
            for name in visible_sections(access)
        }
    titles = {name: title for name, (title, _) in SECTIONS.items()}
    return page(access.request, "settings/page.html", sections=sections, titles=titles, **values)


@routes.add("GET /console/settings/{section}", READ, CONVERSATIONS)
def settings_section(access: AccessTo, section: str) -> Response:
    """One section, for the page's script."""
    require_person(access)
    if section not in visible_sections(access):
        raise NotFound("There is no such section.")
    with access.read() as library:
        values = _values(access, library, section)
    return fragment(f"settings/_{section}.html", **values)


def _values(access: Access, library: Library, name: str) -> dict[str, Any]:
    _, values_of = SECTIONS[name]
    return values_of(access, library) | {
        "can_write": WRITE in access.principal.scopes,
        "is_admin": is_administrator(access),
    }


def visible_sections(access: Access) -> list[str]:
    """The sections that this person may see, in the order of the page."""
    hidden = set()
    if not is_administrator(access):
        hidden |= {"exclusions", "backup"}
    if not access.principal.has_toolset(KNOWLEDGE):
        hidden.add("secrets")
    if access.principal.credential == LOCAL:
        hidden.add("sessions")
    return [name for name in SECTIONS if name not in hidden]


def is_administrator(access: Access) -> bool:
    return ADMIN in access.principal.scopes


def require_person(access: Access) -> None:
    if access.principal.agent:
        raise Forbidden("Settings are for people. Use a key that does not belong to an agent.")


def home(access: Access) -> Path:
    """The folder with the files that belong to no single library."""
    if isinstance(access.service.place, Path):
        return access.service.place
    return settings.home()


# -- sections ---


def _library(access: Access, library: Library) -> dict[str, Any]:
    """Where the library is on the server concerns only who runs the server."""
    figures = library.stats()
    location, size = "", None
    if is_administrator(access):
        location = str(figures["path"])
        if access.service.engine == "sqlite":
            size = folder_size(Path(location).parent)
    return {
        "figures": figures,
        "location": location,
        "size": size,
        "engine": access.service.engine,
        "read_only_reason": library.read_only,
    }


def folder_size(folder: Path) -> int:
    """The bytes of a library and its index. Files are not opened, which would drop locks."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += (Path(path) / name).stat().st_size
            except FileNotFoundError:
                continue  # a file of the index was replaced
    return size


def index(access: Access, library: Library) -> dict[str, Any]:
    status = library.index_status()
    if status.has_work and not status.problem:
        library.wake_indexer()  # nobody may have searched since the server was started
    return {
        "index": status,
        "embeddings_off": embeddings.embedding_setting() == embeddings.OFF,
    }


def _embeddings(access: Access, library: Library) -> dict[str, Any]:
    setting = model = embeddings.embedding_setting()
    is_remote = embeddings.is_remote(setting)
    if is_remote and not is_administrator(access):  # its address is for administrators
        model = setting.partition("#")[2] or "a service"
    statuses = library.index_status().models
    current = [status for status in statuses if status.name == setting][-1:]
    return {
        "model": model,
        "is_remote": is_remote,
        "is_off": setting == embeddings.OFF,
        "origin": settings.EMBEDDINGS.origin(),
        "space": current[0] if current else None,
        "older_spaces": [status for status in statuses if status not in current],
        "downloadable": [
            (name, embeddings.model_folder(name).is_dir()) for name in embeddings.DOWNLOADABLE
        ],
    }


def _keys(access: Access, library: Library) -> dict[str, Any]:
    """An administrator sees the keys of everybody, others see their own."""
    keys, successors = access.service.keys.all_keys(), access.service.keys.replacements()
    if not is_administrator(access):
        keys = [key for key in keys if key.user == access.principal.user]
    rows = [(key, key_state(key, successors.get(key.id))) for key in keys]
    works = (VALID, BEING_REPLACED)
    return {
        "keys": [(key, state) for key, state in rows if state in works],
        "old_keys": [(key, state) for key, state in rows if state not in works],
        "current": access.principal.credential,
        "needs_first_key": access.principal.credential == LOCAL,
        "user": access.principal.user,
    }


def sessions(access: Access, library: Library) -> dict[str, Any]:
    return {
        "sessions": live_sessions(access.service.keys, access.principal.user),
        "key_names": {key.id: key.name for key in access.service.keys.all_keys()},
        "current": access.principal.session,
    }


def exclusions(access: Access, library: Library) -> dict[str, Any]:
    if access.service.engine == "postgresql" and not settings.READ_ONLY.get():
        patterns = SharedExclusions(access.service.shared).patterns()
    else:
        patterns = read_patterns(home(access))
    return {
        "patterns": patterns,
        "fixed_patterns": settings.EXCLUDE.get(),
        "fixed_origin": settings.EXCLUDE.origin(),
        "marker": MARKERS[0],
        "marker_file": FILES[0],
    }


def secrets(access: Access, library: Library) -> dict[str, Any]:
    task = access.service.tasks.get(access.principal.user, SECRETS)
    kinds = []
    if task is not None and task.result is not None:
        scan = decode_scan(task.result)
        task = replace(task, result=scan)
        kinds = [(kind, _links(library, kind.places)) for kind in scan.kinds]
    return {"task": task, "kinds": kinds, "redacts": settings.REDACT.get()}


def _links(library: Library, found: dict[str, str | None]) -> list[tuple[str, str]]:
    """The titles and pages of documents in which a scan found a secret, if they still exist."""
    links: list[tuple[str, str]] = []
    for id, message in found.items():
        try:
            summary = library.summary(id)
        except NotFound:
            continue
        tab = TABS_BY_KIND[summary.kind].name
        parameters = {"m": message} if tab == CONVERSATIONS else {}
        url = document_url(tab, id, **parameters)
        links.append((library.label(id, summary.title), url))
        if len(links) == _MAX_LINKS:
            break
    return links


def backup(access: Access, library: Library) -> dict[str, Any]:
    from recollect.backup.schedule import backup_overview

    return {
        "backup": backup_overview(access.service.place),
        "task": access.service.tasks.get(SERVER, BACKUP),
        "engine": access.service.engine,
    }


SECTIONS: dict[str, tuple[str, Callable[[Access, Library], dict[str, Any]]]] = {
    "library": ("Library", _library),
    "index": ("Index", index),
    "embeddings": ("Embeddings", _embeddings),
    "keys": ("API keys", _keys),
    "sessions": ("Sessions", sessions),
    "exclusions": ("Exclusions", exclusions),
    "secrets": ("Secrets found", secrets),
    "backup": ("Backup", backup),
}


# -- what the buttons do ---


@routes.add("GET /console/settings/exclusions/preview", ADMIN)
def preview_exclusion(access: AccessTo, pattern: str) -> Response:
    """The projects in the person's own library that a pattern matches."""
    require_person(access)
    with access.read(CONVERSATIONS) as library:
        counts = dict(library.facet_names("projects"))
    rows = [(name, counts[name]) for name in matching_projects(pattern, counts)]
    return fragment(
        "settings/_exclusion_preview.html",
        rows=rows,
        max_rows=_MAX_PROJECTS,
        pattern=pattern.strip(),
    )


@routes.add("POST /console/settings/exclusions/add", ADMIN)
def add_exclusion(access: AccessTo, pattern: str) -> dict[str, str]:
    require_person(access)
    if access.service.engine == "postgresql":
        SharedExclusions(access.service.shared).add(validate_pattern(pattern))
    else:
        add_pattern(home(access), pattern)
    record_change(access, "add exclusion")
    return {"message": f"“{pattern.strip()}” will not be imported."}


@routes.add("POST /console/settings/exclusions/remove", ADMIN)
def remove_exclusion(access: AccessTo, pattern: str) -> dict[str, str]:
    require_person(access)
    if access.service.engine == "postgresql":
        SharedExclusions(access.service.shared).remove(pattern.strip())
    else:
        remove_pattern(home(access), pattern)
    record_change(access, "remove exclusion")
    return {"message": f"“{pattern.strip()}” is imported again."}


def record_change(access: Access, operation: str) -> None:
    entry = Entry.of(SETTING, operation, [EXCLUSIONS])
    places.record(access.service.place, access.principal.user, entry)


@routes.add("POST /console/settings/secrets/scan", READ, CONVERSATIONS, KNOWLEDGE)
def scan_secrets(access: AccessTo) -> dict[str, str]:
    require_person(access)
    access.service.tasks.start(access.principal.user, SECRETS)
    return {"message": ""}


@routes.add("POST /console/settings/backup/start", ADMIN)
def start_backup(access: AccessTo) -> dict[str, str]:
    require_person(access)
    # The folder for backups is on this machine.
    host = HOST if access.service.engine == "postgresql" else ""
    access.service.tasks.start(SERVER, BACKUP, host)
    return {"message": ""}
