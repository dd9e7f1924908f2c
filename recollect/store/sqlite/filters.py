"""Filters as conditions in SQL."""

from __future__ import annotations

from typing import Any

from recollect.model import Filter
from recollect.text import fold, micros


def conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The filter as SQL over passage p; always at least one condition."""
    of_passage, values = passage_conditions(filter)
    of_document, more = document_conditions(filter)
    if of_document == "1":
        return of_passage, values
    within = f"p.document in (select d.key from document d where {of_document})"
    return (within if of_passage == "1" else f"{of_passage} and {within}"), values + more


def passage_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that speaks of passage p; 1 when it says nothing."""
    clauses, values = _clauses(
        ("p.role", "in", filter.roles),
        ("p.author", "in", filter.authors),
        ("coalesce(p.role, '')", "not in", filter.not_roles),
        ("coalesce(p.author, '')", "not in", filter.not_authors),
    )
    if not filter.hidden:
        clauses.append("p.visibility <> 'hidden'")
    if filter.after is not None:
        clauses.append("p.created_at >= ?")
        values.append(micros(filter.after))
    if filter.before is not None:
        clauses.append("p.created_at <= ?")
        values.append(micros(filter.before))
    return " and ".join(clauses) or "1", values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that speaks of document d; 1 when it says nothing."""
    clauses, values = _clauses(
        ("d.namespace", "in", filter.namespaces),
        ("d.namespace", "not in", filter.not_namespaces),
        ("d.origin", "in", filter.origins),
        ("d.source", "in", filter.sources),
        ("d.id", "in", filter.conversations),
    )
    for tags, has in ((filter.tags, "exists"), (filter.not_tags, "not exists")):
        if tags:
            clauses.append(f"{has} (select 1 from json_each(d.metadata, '$.tags') t "
                           f"where folded(cast(t.value as blob)) in ({', '.join('?' * len(tags))}))")  # fmt: skip
            values += map(fold, tags)
    for titles, has in ((filter.titles, "titled"), (filter.not_titles, "not titled")):
        clauses += [f"{has}(d.title, ?)"] * len(titles)
        values += titles
    return " and ".join(clauses) or "1", values


def _clauses(*wanted: tuple[str, str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses = [f"{column} {how} ({', '.join('?' * len(values))})" for column, how, values in wanted if values]
    return clauses, [v for _, _, values in wanted for v in values]
