"""Filters as conditions in SQL, and the columns of a document that they ask.

PostgreSQL folds case as the server's locale says, if it can at all; so what is
compared without regard to case is folded here, once, when it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.language.text import fold, micros, storable, tokens
from recollect.model.search import Filter
from recollect.store.sql.encoding import FILTER_CHARACTERS, filter_columns, load

_BETWEEN = "\x1f"  # stands around every tag


def derived(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a document is found by, beside what it says."""
    return filter_columns(row) | {
        "folded_title": fold(row["title"]),
        "folded_id": fold(row["id"]),
        "title_words": _padded(tokens(row["title"])),
        "tags": _between(storable(str(tag)) for tag in _tags(load(row["metadata"]).get("tags"))),
    }


def _tags(metadata: Any) -> list[Any]:
    if isinstance(metadata, Mapping):
        return list(metadata.values())
    return metadata if isinstance(metadata, list) else [] if metadata is None else [metadata]


def _between(values: Iterable[str]) -> str:
    return "".join(f"{_BETWEEN}{fold(value).replace(_BETWEEN, ' ')}{_BETWEEN}" for value in values)


def _padded(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def conditions(filter: Filter, alias: str, hidden: str) -> tuple[str, list[Any]]:
    """The filter over the attributes of a passage, of which one expression says whether it is
    hidden; always true where it says nothing."""
    clauses, values = _clauses(
        (f"{alias}.role", "= any", filter.roles),
        (f"{alias}.author", "= any", filter.authors),
        (f"coalesce({alias}.role, '')", "<> all", filter.not_roles),
        (f"coalesce({alias}.author, '')", "<> all", filter.not_authors),
    )
    if filter.senders:
        clauses.append(f"({alias}.role = any(?::text[]) or {alias}.author = any(?::text[]))")
        values += [[storable(name) for name in filter.senders]] * 2
    if not filter.hidden:
        clauses.append(f"not ({hidden})")
    if filter.after is not None:
        clauses.append(f"{alias}.created_at >= ?")
        values.append(micros(filter.after))
    if filter.before is not None:
        clauses.append(f"{alias}.created_at <= ?")
        values.append(micros(filter.before))
    return " and ".join(clauses) or "true", values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that speaks of document d; always true where it says nothing."""
    clauses, values = _clauses(
        ("d.project", "= any", filter.projects),
        ("d.project", "<> all", filter.not_projects),
        ("d.source", "= any", filter.sources),
        ("d.kind", "= any", filter.kinds),
        ("d.id", "= any", filter.conversations),
        (
            "d.media_type",
            "= any",
            tuple(fold(name)[:FILTER_CHARACTERS] for name in filter.media_types),
        ),
        ("d.character_id", "= any", tuple(id_[:FILTER_CHARACTERS] for id_ in filter.characters)),
    )
    if filter.tags:
        clauses.append(f"({' or '.join(['strpos(d.tags, ?) > 0'] * len(filter.tags))})")
        values += [_between([tag]) for tag in filter.tags]
    clauses += ["strpos(d.tags, ?) = 0"] * len(filter.not_tags)
    values += [_between([tag]) for tag in filter.not_tags]
    for titles, has in ((filter.titles, "> 0"), (filter.not_titles, "= 0")):
        clauses += [f"strpos(d.title_words, ?) {has}"] * len(titles)
        values += [_title(title) for title in titles]
    return " and ".join(clauses) or "true", values


def _title(words: str) -> str:
    padded = _padded(tokens(words))
    return padded[:-1] if words.endswith("*") else padded


def _clauses(*conditions: tuple[str, str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses = [
        (f"{column} {how}(?::text[])", [storable(v) for v in values])
        for column, how, values in conditions
        if values
    ]
    return [clause for clause, _ in clauses], [values for _, values in clauses]
