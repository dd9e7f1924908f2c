"""The settings page, its sections, and what its buttons do."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from markupsafe import Markup
from starlette.responses import Response

from recollect import places
from recollect.errors import NotFound
from recollect.home_folder import EXCLUSIONS
from recollect.jobs.backing_up import BACKUP, SERVER
from recollect.jobs.runner import HOST
from recollect.jobs.secret_scan import SECRETS
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.frame import frame
from recollect.serve.console.request_params import Filters
from recollect.serve.console.settings.sections import (
    TITLES,
    home_of,
    section_values,
    visible_sections,
)
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.templating import fragment, page, render
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import ADMIN, KNOWLEDGE, READ, Forbidden
from recollect.store.audit_log import SETTING, Entry
from recollect.store.shared.exclusions import SharedExclusions
from recollect.transfer.exclusion import (
    add_pattern,
    matching_projects,
    remove_pattern,
    validate_pattern,
)

page_router = APIRouter(include_in_schema=False, route_class=PageRoute)
router = APIRouter(prefix="/console/settings", include_in_schema=False, route_class=DeferredRoute)

_MAX_PROJECTS = 50


@page_router.get("/settings")
@route_policy(READ, CONVERSATIONS)
def settings_page(access: AccessTo, filters: Filters) -> Response:
    _require_person(access)
    with access.read() as library:
        values = frame(library, CONVERSATIONS, filters)
        names = visible_sections(access)
        sections = {name: section_values(access, library, name) for name in names}
    return page(
        access.request,
        "settings/page.html",
        sections=sections,
        titles=TITLES,
        render_section=_render_section,
        **values,
    )


def _render_section(name: str, values: dict[str, Any]) -> Markup:
    return Markup(render(f"settings/_{name}.html", **values))  # noqa: S704 - it escapes


@router.get("/{section}")
@route_policy(READ, CONVERSATIONS)
def settings_section(access: AccessTo, section: str) -> Response:
    """One section, for the page's script."""
    _require_person(access)
    if section not in visible_sections(access):
        raise NotFound("There is no such section.")
    with access.read() as library:
        values = section_values(access, library, section)
    return fragment(f"settings/_{section}.html", **values)


# -- exclusions ---


@router.get("/exclusions/preview")
@route_policy(ADMIN)
def preview_exclusion(access: AccessTo, pattern: str) -> Response:
    """The projects in the person's own library that a pattern matches."""
    _require_person(access)
    with access.read(CONVERSATIONS) as library:
        counts = dict(library.facet_names("projects"))
    names = matching_projects(pattern, counts)
    rows = [(name, counts[name]) for name in names]
    return fragment(
        "settings/_exclusion_preview.html",
        rows=rows[:_MAX_PROJECTS],
        more=len(rows[_MAX_PROJECTS:]),
        project_count=len(rows),
        conversation_count=sum(count for _, count in rows),
        pattern=pattern.strip(),
    )


@router.post("/exclusions/add")
@route_policy(ADMIN)
def add_exclusion(access: AccessTo, pattern: str) -> dict[str, str]:
    _require_person(access)
    if access.service.engine == "postgresql":
        SharedExclusions(access.service.shared).add(validate_pattern(pattern))
    else:
        add_pattern(home_of(access), pattern)
    _record_change(access, "add exclusion")
    return {"message": f"“{pattern.strip()}” will not be imported."}


@router.post("/exclusions/remove")
@route_policy(ADMIN)
def remove_exclusion(access: AccessTo, pattern: str) -> dict[str, str]:
    _require_person(access)
    if access.service.engine == "postgresql":
        SharedExclusions(access.service.shared).remove(pattern.strip())
    else:
        remove_pattern(home_of(access), pattern)
    _record_change(access, "remove exclusion")
    return {"message": f"“{pattern.strip()}” is imported again."}


def _record_change(access: Access, operation: str) -> None:
    entry = Entry.of(SETTING, operation, [EXCLUSIONS])
    places.record(access.service.place, access.principal.user, entry)


# -- tasks ---


@router.post("/secrets/scan")
@route_policy(READ, CONVERSATIONS, KNOWLEDGE)
def scan_secrets(access: AccessTo) -> dict[str, Any]:
    _require_person(access)
    access.service.tasks.start(access.principal.user, SECRETS)
    return {"message": ""}


@router.post("/backup/start")
@route_policy(ADMIN)
def start_backup(access: AccessTo) -> dict[str, Any]:
    _require_person(access)
    host = ""
    if access.service.engine == "postgresql":
        host = HOST  # the folder for backups is on this machine
    access.service.tasks.start(SERVER, BACKUP, host)
    return {"message": ""}


def _require_person(access: Access) -> None:
    if access.principal.agent:
        raise Forbidden("Settings are for people. Use a key that does not belong to an agent.")
