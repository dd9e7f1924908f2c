"""What a query requires of messages: words, and the fields that narrow a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recollect.language.queries.query import Query
from recollect.language.queries.query_tokens import Fields
from recollect.language.queries.query_tree import And, Node, Word, words
from recollect.language.text import fold, has_token
from recollect.model.kinds import KINDS
from recollect.model.names import authors_named, projects_named
from recollect.model.search import Filter
from recollect.model.sources import SOURCES
from recollect.store.base import Store

_OPERATORS = frozenset(["AND", "OR", "NOT", "NEAR"])
NO_NAME = "\0"
"""A name that nothing has."""
_NO_FIELDS = Fields()
MOST_AUTHORS = 500
"""In a library with more authors, it would take too long to compare a query with their names."""


def has_words(query: Query) -> bool:
    """Whether a query has a word that the text engine can find."""
    return query.node is not None and any(has_token(word.text) for word in words(query.node))


def may_relax(query: Query) -> bool:
    """Whether a query would be plain without its quotes and parentheses.

    Questions may contain both, so such a query becomes plain if nothing matches it exactly.
    """
    if query.plain or not isinstance(query.node, And):
        return False
    typed = query.rest.replace("(", " ").replace(")", " ").split()
    return has_only_words(query.node) and "*" not in query.rest and _OPERATORS.isdisjoint(typed)


def narrow_filter(filter: Filter, query: Query, store: Store) -> Filter:
    """A filter that also requires the fields of a query."""
    fields = query.fields
    if fields == _NO_FIELDS:
        return filter
    changes: dict[str, Any] = {}
    for name in ("roles", "authors", "projects", "sources", "tags"):
        own, excluded = getattr(fields, name), getattr(fields, f"not_{name}")
        if name in _STORED_NAMES:
            own, excluded = (_STORED_NAMES[name](store, filter, each) for each in (own, excluded))
        changes[name] = intersection(getattr(filter, name), own)
        changes[f"not_{name}"] = getattr(filter, f"not_{name}") + excluded
    titles, not_titles = (
        tuple(word.text + "*" * word.prefix for word in words)
        for words in (fields.titles, fields.not_titles)
    )
    after = [moment for moment in (filter.after, fields.after) if moment is not None]
    before = [moment for moment in (filter.before, fields.before) if moment is not None]
    return replace(
        filter,
        **changes,
        after=max(after, default=None),
        before=min(before, default=None),
        titles=filter.titles + titles,
        not_titles=filter.not_titles + not_titles,
    )


def has_only_words(node: Node) -> bool:
    if isinstance(node, Word):
        return True
    return type(node) is And and all(map(has_only_words, node.parts))


def project_names(store: Store, filter: Filter, names: Sequence[str]) -> tuple[str, ...]:
    """Projects as they are stored. People write the name of a folder, not its path."""
    if not names:
        return ()
    kinds = filter.kinds or KINDS
    projects = [project for project, _ in store.facet_names("projects", kinds=kinds)]
    stored_names: list[str] = []
    for name in names:
        stored_names += projects_named(name, projects) or (name,)
    return tuple(stored_names)


def author_names(store: Store, filter: Filter, names: Sequence[str]) -> tuple[str, ...]:
    """Authors as they are stored. People write a part of a name, in any case.

    A name whose messages the reader may not see stays as it was typed: a note may show it.
    """
    if not names:
        return ()
    authors = store.authors(MOST_AUTHORS)
    stored_names: list[str] = []
    for name in names:
        same = authors_named(name, authors)
        if same == (name,) or not has_messages_by(same, store, filter):
            same = (name,)
        stored_names += same
    return tuple(dict.fromkeys(stored_names))


def has_messages_by(authors: tuple[str, ...], store: Store, filter: Filter) -> bool:
    """Whether the reader can find a message by one of the authors."""
    by_authors = Filter(kinds=filter.kinds or KINDS, hidden=True, authors=authors)
    return bool(authors) and bool(store.newest(by_authors, 1, counted=False).candidates)


def source_names(store: Store, filter: Filter, names: Sequence[str]) -> tuple[str, ...]:
    """Sources as they are stored. People write `Claude Code` as well as `claude-code`."""
    by_label = {fold(source.label): source.name for source in SOURCES.values()}
    by_label |= {fold(source.name): source.name for source in SOURCES.values()}
    return tuple(by_label.get(fold(name), name) for name in names)


_STORED_NAMES = {"authors": author_names, "projects": project_names, "sources": source_names}
"""What finds the names that people write as they are stored."""


def intersection(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """The names in both; NO_NAME if there are none, because an empty tuple allows every name."""
    if not first or not second:
        return first or second
    return tuple(name for name in first if name in second) or (NO_NAME,)
