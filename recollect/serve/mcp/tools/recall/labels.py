"""How answers name conversations, projects, speakers and dates: short, on one line."""

from __future__ import annotations

from datetime import datetime

from recollect.language.text import for_model, storable
from recollect.library import Library
from recollect.memory.formats import format_date
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.projects import project_name, projects_named
from recollect.model.search import Hit
from recollect.model.sources import source_label

_TITLE_LENGTH = 80
_NAME_LENGTH = 40
_LISTED_PROJECTS = 12
_DEFAULT_PROJECT = "default"


def one_line(text: str, length: int) -> str:
    """Stored text on one line, safe for a model."""
    line = " ".join(for_model(storable(text[: 4 * length])).split())
    if len(line) <= length:
        return line
    return line[: length - 1].rstrip() + "…"


def day(time: datetime | None) -> str:
    if time is None:
        return ""
    return format_date(time)


def heading(library: Library, short_id: str, about: Hit | Summary, time: datetime | None) -> str:
    """The line above what belongs to a conversation or item."""
    if isinstance(about, Hit):
        label = library.label(about.conversation_id, about.title)
    else:
        label = library.label(about.id, about.title)
    title = one_line(label, _TITLE_LENGTH)
    kind = source_label(about.source)
    if about.kind != CONVERSATION:
        kind = about.kind
    project = ""
    if about.project != _DEFAULT_PROJECT:
        project = one_line(project_name(about.project), _NAME_LENGTH)
    return " · ".join(filter(None, [f"[{short_id}] {title}", day(time), kind, project]))


def speaker(author: str | None, role: str | None) -> str:
    return one_line(author or role or "unknown", _NAME_LENGTH)


# -- projects ---


def matching_projects(library: Library, name: str) -> tuple[str, ...]:
    """The projects with this name, or whose folder has it. Case does not matter."""
    return projects_named(name, [project for project, _ in library.facet_names("projects")])


def list_projects(library: Library) -> str:
    """The projects and how many conversations each has, most first."""
    projects = library.facet_names("projects")
    if not projects:
        return ""
    names = [
        f"{one_line(project_name(project), _NAME_LENGTH)} ({count})"
        for project, count in projects[:_LISTED_PROJECTS]
    ]
    text = f"Projects: {', '.join(names)}"
    if len(projects) > _LISTED_PROJECTS:
        text += f" and {len(projects) - _LISTED_PROJECTS} more"
    return text + "."
