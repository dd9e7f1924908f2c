"""Projects by name. Coding agents name a project by its folder; people say only the last part."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import fold


def is_folder(project: str) -> bool:
    """Whether a project is named by an absolute path."""
    return project.startswith(("/", "~")) or project[1:3] in (":\\", ":/")


def project_name(project: str) -> str:
    """The name of a project as people read it: the last part if the project is a folder."""
    if not is_folder(project):
        return project
    return project.replace("\\", "/").rstrip("/").rpartition("/")[2] or project


def projects_named(name: str, projects: Iterable[str]) -> tuple[str, ...]:
    """The project with exactly this name, or all with this name or folder, ignoring case."""
    projects = tuple(projects)
    if name in projects:
        return (name,)
    folded = fold(name.strip())
    return tuple(p for p in projects if folded in (fold(p), fold(project_name(p))))
