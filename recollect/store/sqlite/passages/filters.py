"""Translate filters into SQL conditions."""

from __future__ import annotations

from typing import Any

from recollect.language.text import fold, micros
from recollect.model.search import Filter
from recollect.store.sql.encoding import FILTER_CHARACTERS
from recollect.store.sql.tags import tag_pattern

_PINNED = {True: "d.pinned = 1", False: "d.pinned is null"}


def conditions(filter: Filter, many: bool = False) -> tuple[str, list[Any]]:
    """The filter as conditions on passage p and its document d, with their values.

    With `many`, for checking many passages, expensive conditions are evaluated once per document.
    """
    passage_clause, passage_values = passage_conditions(filter)
    document_clause, document_values = document_conditions(filter)
    if many and (filter.titles or filter.not_titles or filter.models):
        document_clause = f"p.document in (select d.key from document d where {document_clause})"
    clauses = [clause for clause in (passage_clause, document_clause) if clause != "1"]
    return _all_of(clauses), passage_values + document_values


def passage_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that is about passage p; 1 if there is none."""
    clauses, values = _in_clauses(
        ("p.role", "in", filter.roles),
        ("p.author", "in", filter.authors),
        ("coalesce(p.role, '')", "not in", filter.not_roles),
        ("coalesce(p.author, '')", "not in", filter.not_authors),
    )
    if filter.senders:
        placeholders = _placeholders(filter.senders)
        clauses.append(f"(p.role in ({placeholders}) or p.author in ({placeholders}))")
        values += filter.senders * 2
    if not filter.hidden:
        clauses.append("p.visibility <> 'hidden'")
    if filter.after is not None:
        clauses.append("p.created_at >= ?")
        values.append(micros(filter.after))
    if filter.before is not None:
        clauses.append("p.created_at <= ?")
        values.append(micros(filter.before))
    return _all_of(clauses), values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that is about document d; 1 if there is none."""
    media_types = tuple(fold(name)[:FILTER_CHARACTERS] for name in filter.media_types)
    characters = tuple(id_[:FILTER_CHARACTERS] for id_ in filter.characters)
    clauses, values = _in_clauses(
        ("d.project", "in", filter.projects),
        ("d.project", "not in", filter.not_projects),
        ("d.source", "in", filter.sources),
        ("d.source", "not in", filter.not_sources),
        ("d.kind", "in", filter.kinds),
        ("d.id", "in", filter.conversations),
        ("d.media_type", "in", media_types),
        ("d.character_id", "in", characters),
    )
    if filter.empty:
        clauses.append("d.passages = 0")
    if filter.pinned is not None:
        clauses.append(_PINNED[filter.pinned])
    if filter.models:
        clauses.append(
            "exists (select 1 from passage m where m.document = d.key "
            f"and m.model in ({_placeholders(filter.models)}))"
        )
        values += filter.models
    if filter.tags:
        clauses.append(f"({' or '.join(['instr(d.tags, ?) > 0'] * len(filter.tags))})")
        values += map(tag_pattern, filter.tags)
    clauses += ["instr(d.tags, ?) = 0"] * len(filter.not_tags)
    values += map(tag_pattern, filter.not_tags)
    for titles, operator in ((filter.titles, "titled"), (filter.not_titles, "not titled")):
        clauses += [f"{operator}(d.title, ?)"] * len(titles)
        values += titles
    return _all_of(clauses), values


def _all_of(clauses: list[str]) -> str:
    return " and ".join(clauses) or "1"


def _in_clauses(*conditions: tuple[str, str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses: list[str] = []
    all_values: list[Any] = []
    for column, operator, values in conditions:
        if values:
            clauses.append(f"{column} {operator} ({_placeholders(values)})")
            all_values += values
    return clauses, all_values


def _placeholders(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))
