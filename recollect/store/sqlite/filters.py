"""Filters as conditions in SQL."""

from __future__ import annotations

from typing import Any

from recollect.language.text import fold, micros
from recollect.model.search import Filter
from recollect.store.sql.encoding import FILTER_CHARACTERS


def conditions(filter: Filter, many: bool = False) -> tuple[str, list[Any]]:
    """The filter as SQL over passage p and its document d; always at least one condition. Where it will be
    asked of many passages, what is dear to ask is asked of each document once."""
    of_passage, values = passage_conditions(filter)
    of_document, more = document_conditions(filter)
    if many and (filter.tags or filter.not_tags or filter.titles or filter.not_titles):
        of_document = f"p.document in (select d.key from document d where {of_document})"
    clauses = [clause for clause in (of_passage, of_document) if clause != "1"]
    return " and ".join(clauses) or "1", values + more


def passage_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that speaks of passage p; 1 when it says nothing."""
    clauses, values = _clauses(
        ("p.role", "in", filter.roles),
        ("p.author", "in", filter.authors),
        ("coalesce(p.role, '')", "not in", filter.not_roles),
        ("coalesce(p.author, '')", "not in", filter.not_authors),
    )
    if filter.senders:
        listed = ", ".join("?" * len(filter.senders))
        clauses.append(f"(p.role in ({listed}) or p.author in ({listed}))")
        values += filter.senders * 2
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
        ("d.project", "in", filter.projects),
        ("d.project", "not in", filter.not_projects),
        ("d.source", "in", filter.sources),
        ("d.kind", "in", filter.kinds),
        ("d.id", "in", filter.conversations),
        (
            "d.media_type",
            "in",
            tuple(fold(name)[:FILTER_CHARACTERS] for name in filter.media_types),
        ),
        ("d.character_id", "in", tuple(id_[:FILTER_CHARACTERS] for id_ in filter.characters)),
    )
    for tags, has in ((filter.tags, "exists"), (filter.not_tags, "not exists")):
        if tags:
            clauses.append(
                f"{has} (select 1 from json_each(d.metadata, '$.tags') t "
                f"where folded(cast(t.value as blob)) in ({', '.join('?' * len(tags))}))"
            )
            values += map(fold, tags)
    for titles, has in ((filter.titles, "titled"), (filter.not_titles, "not titled")):
        clauses += [f"{has}(d.title, ?)"] * len(titles)
        values += titles
    return " and ".join(clauses) or "1", values


def _clauses(*conditions: tuple[str, str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses = [
        f"{column} {how} ({', '.join('?' * len(values))})"
        for column, how, values in conditions
        if values
    ]
    return clauses, [v for _, _, values in conditions for v in values]
