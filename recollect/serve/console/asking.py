"""What a page is asked for: the filters of the list, and a question to search for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from recollect.model.sources import source_label


@dataclass(frozen=True, slots=True)
class Wanted:
    namespaces: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    after: str | None = None
    before: str | None = None
    title: str = ""
    types: tuple[str, ...] = ()

    @property
    def chosen(self) -> int:
        """How many filters are set, without the one by title, which is always in sight."""
        given = (
            self.namespaces,
            self.origins,
            self.tags,
            self.roles,
            self.after,
            self.before,
            self.types,
        )
        return sum(bool(x) for x in given)

    @property
    def any(self) -> bool:
        return bool(self.chosen or self.title)

    def of_messages(self) -> dict[str, Any]:
        return {
            "projects": self.namespaces,
            "sources": self.origins,
            "tags": self.tags,
            "roles": self.roles,
            "after": self.after,
            "before": self.before,
        }

    @property
    def sentence(self) -> str:
        """What the filters let through, in words."""
        parts = [
            *(f"in the project {name}" for name in self.namespaces),
            *(f"from {source_label(name)}" for name in self.origins),
            *(f"with the tag {name}" for name in self.tags),
            *(f"said by {name}" for name in self.roles),
            *(f"of the type {name}" for name in self.types),
            *([f"since {self.after}"] if self.after else []),
            *([f"until {self.before}"] if self.before else []),
        ]
        return ", ".join(parts)


def _filters(
    namespace: Annotated[list[str] | None, Query()] = None,
    origin: Annotated[list[str] | None, Query()] = None,
    tag: Annotated[list[str] | None, Query()] = None,
    role: Annotated[list[str] | None, Query()] = None,
    after: str = "",
    before: str = "",
    title: str = "",
    type: Annotated[list[str] | None, Query()] = None,
) -> Wanted:
    return Wanted(
        _given(namespace),
        _given(origin),
        _given(tag),
        _given(role),
        after or None,
        before or None,
        title,
        _given(type),
    )


def _given(values: list[str] | None) -> tuple[str, ...]:
    return tuple(value for value in values or () if value)


Filters = Annotated[Wanted, Depends(_filters)]


@dataclass(frozen=True, slots=True)
class Question:
    q: str
    mode: str
    group: str
    offset: int
    within: str = ""
    """Which kind of document; empty where the person has not said."""

    def values(self) -> dict[str, Any]:
        return {"q": self.q, "mode": self.mode, "group": self.group}


def _asked(
    q: str = "",
    mode: str = "both",
    group: str = "message",
    offset: Annotated[int, Query(ge=0)] = 0,
    within: Annotated[str, Query(alias="in")] = "",
) -> Question:
    return Question(q, mode or "both", group or "message", offset, within)


Asked = Annotated[Question, Depends(_asked)]
