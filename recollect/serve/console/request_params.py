"""Query parameters that several pages share: the filters of a list, and a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.model.sources import source_label

Values = Annotated[list[str] | None, Query()]


@dataclass(frozen=True, slots=True)
class ListFilters:
    """The filters above a list."""

    projects: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    title: str = ""
    media_types: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many filters are set, without the title, which is always visible."""
        filters = (
            self.projects,
            self.sources,
            self.tags,
            self.roles,
            self.after,
            self.before,
            self.media_types,
            self.models,
        )
        return sum(bool(values) for values in filters)

    @property
    def is_active(self) -> bool:
        return self.count > 0 or bool(self.title)

    def message_filter(self) -> Filter:
        return Filter.of(
            kinds=CONVERSATION,
            projects=self.projects,
            sources=self.sources,
            tags=self.tags,
            roles=self.roles,
            models=self.models,
            after=self.after,
            before=self.before,
        )

    @property
    def description(self) -> str:
        """The filters in words: `in project web, from ChatGPT`."""
        parts = [f"in project {name}" for name in self.projects]
        parts += [f"from {source_label(name)}" for name in self.sources]
        parts += [f"tagged {name}" for name in self.tags]
        parts += [f"with role {name}" for name in self.roles]
        parts += [f"with a message by {name}" for name in self.models]
        parts += [f"of type {name}" for name in self.media_types]
        if self.after:
            parts.append(f"since {self.after}")
        if self.before:
            parts.append(f"until {self.before}")
        return ", ".join(parts)


def _name_filters(
    project: Values = None,
    source: Values = None,
    tag: Values = None,
    role: Values = None,
    type: Values = None,
    model: Values = None,
) -> dict[str, tuple[str, ...]]:
    return {
        "projects": _without_blanks(project),
        "sources": _without_blanks(source),
        "tags": _without_blanks(tag),
        "roles": _without_blanks(role),
        "media_types": _without_blanks(type),
        "models": _without_blanks(model),
    }


def _list_filters(
    names: Annotated[dict[str, tuple[str, ...]], Depends(_name_filters)],
    after: str = "",
    before: str = "",
    title: str = "",
) -> ListFilters:
    return ListFilters(after=after or None, before=before or None, title=title, **names)


def _without_blanks(values: list[str] | None) -> tuple[str, ...]:
    """A form sends an empty value for "Any"."""
    return tuple(value for value in values or () if value)


Filters = Annotated[ListFilters, Depends(_list_filters)]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search, as the address of the results page describes it."""

    query: str
    mode: str
    offset: int
    kind: str = ""
    """What to search: a kind, `all`, or empty to let the console choose."""
    typing: bool = False
    """The person is still typing, so the last word may be unfinished."""
    correct: bool = True
    """Correct misspelled words."""

    def template_values(self) -> dict[str, Any]:
        return {
            "q": self.query,
            "mode": self.mode,
            "typing": self.typing,
            "correct": self.correct,
        }


def _search_request(
    q: str = "",
    mode: str = "both",
    offset: Annotated[int, Query(ge=0)] = 0,
    kind: str = "",
    typing: bool = False,
    correct: bool = True,
) -> SearchRequest:
    return SearchRequest(query_text(q), mode or "both", offset, kind, typing, correct)


def query_text(query: str) -> str:
    """The text of the search box; nothing if it consists of blanks."""
    if query.isspace():
        return ""
    return query


Search = Annotated[SearchRequest, Depends(_search_request)]
