"""Check the values of options: limits when they are parsed, names against the library."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from recollect.errors import InvalidInput
from recollect.language.queries.query_fields import ROLES
from recollect.library import Library
from recollect.model.kinds import KINDS, OBSERVATIONS
from recollect.model.projects import projects_named
from recollect.model.search import Filter
from recollect.model.sources import SOURCES


def check_filters(library: Library, arguments: argparse.Namespace) -> None:
    """Raise InvalidInput if a role, source, project or tag does not exist.

    A search with an unknown name would find nothing, as if there were no such messages. Projects
    may be named by the last part of their folder; `arguments.project` gets the names that are
    stored.
    """
    for role in getattr(arguments, "role", ()):
        _check(role, "role", ROLES, lambda: _counted_names(library, "roles"))
    for source in getattr(arguments, "source", ()):
        _check(source, "source", SOURCES, lambda: _counted_names(library, "sources"))
    for tag in getattr(arguments, "tag", ()):
        if not _exists(library, Filter.of(kinds=KINDS, tags=tag)):
            raise _unknown_name("tag", tag, facet_names(library, "tags"))
    projects = [_stored_projects(library, name) for name in getattr(arguments, "project", ())]
    arguments.project = [project for names in projects for project in names]


def _stored_projects(library: Library, name: str) -> Sequence[str]:
    if _exists(library, Filter.of(kinds=KINDS, projects=name)):
        return [name]
    projects = facet_names(library, "projects")
    matches = projects_named(name, projects)
    if not matches:
        raise _unknown_name("project", name, projects)
    return matches


def _check(
    name: str, noun: str, standard: Iterable[str], in_use: Callable[[], Iterable[str]]
) -> None:
    """A standard name is valid even if nothing in the library has it."""
    if name in standard:
        return
    names = list(in_use())
    if name not in names:
        raise _unknown_name(noun, name, [*names, *standard])


def _unknown_name(noun: str, name: str, names: list[str]) -> InvalidInput:
    from recollect.cli.suggestions import describe_unknown_name

    return InvalidInput(describe_unknown_name(noun, name, names))


def _counted_names(library: Library, field: str) -> list[str]:
    counts = library.stats()[field]
    assert isinstance(counts, dict)
    return [name for name in counts if name != OBSERVATIONS]


def _exists(library: Library, filter: Filter) -> bool:
    _, total = library.conversation_page(filter, limit=1)
    return total > 0


def facet_names(library: Library, field: str) -> list[str]:
    """All projects, sources or tags of every kind, the most frequent first."""
    return [name for name, _ in library.facet_names(field, kinds=KINDS)]


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a number within bounds."""
    range_ = f"a whole number of at least {least}"
    if most is not None:
        range_ = f"a whole number from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be {range_}, not '{text}'")
        return number

    return parse
