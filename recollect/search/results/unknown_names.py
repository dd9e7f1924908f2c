"""Names in a filter that nothing has, such as the project of `in:nope`.

A name exists if the reader can find a message with it. So agents learn neither the names in
messages that only people may see, nor those of kinds that are not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.queries.query_fields import ROLES
from recollect.language.text import printable_line, truncate
from recollect.language.words import closest
from recollect.model.kinds import KINDS
from recollect.model.projects import project_name
from recollect.model.search import Filter
from recollect.search.queries.query_filter import MOST_AUTHORS, NO_NAME
from recollect.search.results.subjects import subject_of
from recollect.store.base import Store

_MOST_SHOWN = 3
_MOST_CHECKED = 10
"""The most names that are looked up in order to show some of them."""
_LONGEST_NAME = 80


def _facet_names(facet: str, store: Store, kinds: Sequence[str]) -> list[str]:
    return [name for name, _ in store.facet_names(facet, kinds=kinds)]


def _authors(store: Store, kinds: Sequence[str]) -> list[str]:
    return store.authors(MOST_AUTHORS)


def _roles(store: Store, kinds: Sequence[str]) -> list[str]:
    return list(ROLES)


def _no_names(store: Store, kinds: Sequence[str]) -> list[str]:
    """There are too many conversations to list some."""
    return []


def _models(store: Store, kinds: Sequence[str]) -> list[str]:
    return [name for name, _ in store.activity().models]


class _NameField(NamedTuple):
    """A field of a filter that has names."""

    field: str
    relation: str
    """What is between a message and the name in a sentence."""
    heading: str
    names: Callable[[Store, Sequence[str]], list[str]]
    """The names in the library, the most frequent first."""


_FIELDS = (
    _NameField("projects", "is in a project named", "Projects", partial(_facet_names, "projects")),
    _NameField("sources", "is from a source named", "Sources", partial(_facet_names, "sources")),
    _NameField("tags", "has the tag", "Tags", partial(_facet_names, "tags")),
    _NameField("authors", "is by an author named", "Authors", _authors),
    _NameField("senders", "is by an author named", "Authors", _authors),
    _NameField("roles", "has the role", "Roles", _roles),
    _NameField("conversations", "is in a conversation with the id", "", _no_names),
    _NameField("models", "is in a conversation with a model named", "Models", _models),
)


def note_unknown_names(
    note: str, store: Store, *filters: Filter, subject: str = "No message"
) -> str:
    """The note of a search without hits, with the names that nothing has and some that exist.

    If there are several filters, a field must be the same in all of them. Otherwise, it is not why
    there are no hits. `subject` is that of a search in all kinds.
    """
    kinds = tuple(dict.fromkeys(kind for filter in filters for kind in filter.kinds or KINDS))
    name_remarks = _NameRemarks(store, kinds, subject_of(kinds, subject))
    try:
        remarks = [name_remarks.remark(field, _names_in_all(field, filters)) for field in _FIELDS]
        remarks += dict.fromkeys(map(_remark_on_dates, filters))
    except SearchTimeout:  # the search itself is complete
        return note
    return " ".join(filter(None, [note, *remarks]))


def _remark_on_dates(filter: Filter) -> str:
    if filter.after is None or filter.before is None or filter.after <= filter.before:
        return ""
    return f"Nothing is both after {filter.after.date()} and before {filter.before.date()}."


def _names_in_all(field: _NameField, filters: Sequence[Filter]) -> tuple[str, ...]:
    """The names of a field; none unless all filters have the same."""
    all_names = {getattr(filter, field.field) for filter in filters}
    if len(all_names) != 1:
        return ()
    (names,) = all_names
    return tuple(name for name in names if name != NO_NAME)


class _NameRemarks(NamedTuple):
    """Remarks on the names in a filter, for one search."""

    store: Store
    kinds: tuple[str, ...]
    """The kinds that were searched."""
    subject: str
    """The subject of the remarks, such as "No message"."""

    def remark(self, field: _NameField, names: tuple[str, ...]) -> str:
        """The remark on the names of a field; empty if anything has one of them."""
        if not names or self._exists(field, names):
            return ""
        quoted_names = [f"“{_label(name)}”" for name in names[:_MOST_SHOWN]]
        remark = f"{self.subject} {field.relation} {' or '.join(quoted_names)}."
        existing = [_label(name) for name in islice(self._existing(field, names[0]), _MOST_SHOWN)]
        if existing:
            remark += f" {field.heading}: {', '.join(existing)}."
        return remark

    def _existing(self, field: _NameField, name: str) -> Iterator[str]:
        """The names that exist, similar ones first."""
        by_label: dict[str, list[str]] = {}
        for each in field.names(self.store, self.kinds):
            by_label.setdefault(project_name(each), []).append(each)
        similar_first = [each for label in closest(name, by_label) for each in by_label[label]]
        for each in similar_first[:_MOST_CHECKED]:
            if self._exists(field, (each,)):
                yield each

    def _exists(self, field: _NameField, names: tuple[str, ...]) -> bool:
        restriction: dict[str, Any] = {field.field: names}
        filter = Filter(kinds=self.kinds, hidden=True, **restriction)
        return bool(self.store.recent(None, filter, 1))


def _label(name: str) -> str:
    return truncate(printable_line(name), _LONGEST_NAME)
