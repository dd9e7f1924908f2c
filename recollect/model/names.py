"""Authors and projects by name. People say only a part: the first name, or the last folder."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import fold, tokens, transcribed


def authors_named(name: str, authors: Iterable[str]) -> tuple[str, ...]:
    """The authors with exactly this name, else all who have each of its words in theirs.

    Case, accents and the spelling of umlauts do not matter.
    """
    authors = tuple(authors)
    folded = fold(name)
    same = tuple(author for author in authors if fold(author) == folded)
    return same or tuple(author for author in authors if is_part(name, author))


def is_part(name: str, author: str) -> bool:
    names = spellings(author)
    return all(any(word in n for word in spellings(w) for n in names) for w in name.split())


def spellings(name: str) -> set[str]:
    """A name as it is indexed, between spaces. A word may be several tokens: O'Brien, 田中."""
    return {f" {' '.join(tokens(spelling))} " for spelling in (name, transcribed(name))}


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
