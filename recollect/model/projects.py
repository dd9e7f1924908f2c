"""Projects by name. Coding agents name a project by its folder; people say only the last part."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.language.text import fold

_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:[\\/]")


def is_folder(project: str) -> bool:
    """Whether a project is named by an absolute path."""
    return _ABSOLUTE.match(project) is not None


def project_name(project: str) -> str:
    """The name of a project as people read it: the last part if the project is a folder."""
    if not is_folder(project):
        return project
    return re.split(r"[/\\]", project.rstrip("/\\"))[-1] or project


def projects_named(name: str, projects: Iterable[str]) -> tuple[str, ...]:
    """The project with exactly this name, or all with this name or folder, ignoring case."""
    projects = tuple(projects)
    if name in projects:
        return (name,)
    folded = fold(name.strip())
    return tuple(p for p in projects if folded in (fold(p), fold(project_name(p))))
