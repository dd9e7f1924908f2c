"""The first run: an empty library offers to import the conversations on this computer.

The names of files on the server are for the person who sits in front of it. So this is offered only
by a server for one person, on her own computer, that nobody else can reach.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import Query

from recollect.capture.discovery import Discovery, discover
from recollect.errors import InvalidInput
from recollect.home_folder import USERS
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.hosts import is_loopback
from recollect.serve.http.limits import IMPORT
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, LOCAL, WRITE, Forbidden

routes = Routes(route_class=PageRoute)

_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


class FirstRun(NamedTuple):
    discoveries: list[tuple[str, Discovery]]
    """What could be imported, each with an id."""
    is_importing: bool
    """Whether an import has been started."""

    @property
    def sentence(self) -> str:
        """`214 Claude Code sessions, 31 Codex sessions and chatgpt-export.zip in Downloads`."""
        labels = [discovery.label for _, discovery in self.discoveries]
        if len(labels) == 1:
            return labels[0]
        return f"{', '.join(labels[:-1])} and {labels[-1]}"


def prepare_first_run(access: Access) -> FirstRun | None:
    """What to offer on the start page of an empty library; None on a server for several people."""
    if not is_personal(access):
        return None
    jobs = access.service.imports.list_for(access.principal.user)
    is_importing = any(not job.is_finished for job in jobs)
    return FirstRun(find(), is_importing)


@routes.add("POST /console/import-found", WRITE, CONVERSATIONS, KNOWLEDGE, rate_limit=IMPORT)
def import_found(access: AccessTo, id: Annotated[list[str], Query()]) -> dict[str, Any]:
    """Import what was found, given the ids of some discoveries. No path can be named."""
    if not is_personal(access):
        raise Forbidden("Only a person on the server's own computer can import its files.")
    discoveries = dict(find())
    if not all(name in discoveries for name in id):
        raise InvalidInput("The files have changed. Reload the page and choose again.")
    jobs = [start(access, discoveries[name]) for name in dict.fromkeys(id)]
    return {"imports": jobs}


def start(access: Access, discovery: Discovery) -> dict[str, Any]:
    paths = [str(path) for path in discovery.paths]
    job = access.service.imports.import_local(access.principal.user, discovery.label, paths)
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "done": job.done,
        "total": job.total,
    }


def find() -> list[tuple[str, Discovery]]:
    return [(_id(discovery.paths), discovery) for discovery in discover()]


def _id(paths: Sequence[Path]) -> str:
    text = "\0".join(map(str, paths)).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def is_personal(access: Access) -> bool:
    """Whether the server has one user, and the request comes from its own computer.

    Without API keys, a server listens on this computer only. A reverse proxy would still make it
    public, so anything that hints at one counts.
    """
    service = access.service
    if access.principal.credential != LOCAL or not isinstance(service.place, Path):
        return False
    config = service.config
    if config.base_url or config.public_hosts or config.trusted_proxies:
        return False
    headers = access.request.headers
    if any(name in headers for name in _PROXY_HEADERS):
        return False
    return is_loopback(access.request.state.address) and user_count(service.place) <= 1


def user_count(place: Path) -> int:
    try:
        return len(list((place / USERS).iterdir()))
    except FileNotFoundError:
        return 0
