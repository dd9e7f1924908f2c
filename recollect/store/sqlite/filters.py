"""Translate filters into SQL conditions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import fold, micros
from recollect.model.search import Filter
from recollect.store.sql.encoding import FILTER_CHARACTERS, tag_pattern
from recollect.store.sql.selection import (
    IS_AUTHOR,
    IS_OTHER_ROLE,
    LONGEST_INDEXED_NAME,
    MAX_LISTED_DOCUMENTS,
    MAX_LISTED_PASSAGES,
)

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
    return all_of(clauses), passage_values + document_values


def passage_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that is about passage p; 1 if there is none."""
    clauses, values = in_clauses(
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
    return all_of(clauses), values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that is about document d; 1 if there is none."""
    media_types = tuple(fold(name)[:FILTER_CHARACTERS] for name in filter.media_types)
    characters = tuple(id_[:FILTER_CHARACTERS] for id_ in filter.characters)
    clauses, values = in_clauses(
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
    return all_of(clauses), values


def all_of(clauses: list[str]) -> str:
    return " and ".join(clauses) or "1"


def in_clauses(*conditions: tuple[str, str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses: list[str] = []
    all_values: list[Any] = []
    for column, operator, values in conditions:
        if values:
            clauses.append(f"{column} {operator} ({_placeholders(values)})")
            all_values += values
    return clauses, all_values


def _placeholders(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))


# -- lists of documents: `db` is a Connection, which imports this module ---


def has_passage(
    db: Any, filter: Filter, where: str, values: Sequence[Any]
) -> tuple[str, list[Any]]:
    """The condition that document `d` has a passage that passes the filter, with its values.

    `where` and `values` are the conditions on the document itself. If they leave few documents,
    their passages are checked. Otherwise the documents are found once for all pages of a list, and
    for its total.
    """
    passage_where, passage_values = passage_conditions(filter)
    if are_few(db, where, values):
        return exists(passage_where), passage_values
    keys = db.memoize(
        ("documents with passages", passage_where, tuple(passage_values)),
        lambda: documents(db, filter, passage_where, passage_values),
    )
    return "d.key in (select value from json_each(?))", [keys]


def exists(passage_where: str) -> str:
    return f"exists (select 1 from passage p where p.document = d.key and {passage_where})"


def are_few(db: Any, where: str, values: Sequence[Any]) -> bool:
    """Whether the documents that pass these conditions are few and short."""
    rows = db.rows(
        f"select d.passages from document d where {where} limit ?",
        (*values, MAX_LISTED_DOCUMENTS + 1),
    )
    if len(rows) > MAX_LISTED_DOCUMENTS:
        return False
    passages: int = sum(count for (count,) in rows)
    return passages <= MAX_LISTED_PASSAGES


def documents(db: Any, filter: Filter, passage_where: str, passage_values: Sequence[Any]) -> str:
    """The keys of all documents that have a passage which passes the filter, as a JSON array."""
    sources = indexed_sources(filter)
    if sources:
        sql = " union ".join(
            f"select p.document from {source} and {passage_where}" for source, _ in sources
        )
        values = [value for _, names in sources for value in (*names, *passage_values)]
    else:
        sql = f"select d.key from document d where {exists(passage_where)}"
        values = list(passage_values)
    return json.dumps([key for (key,) in db.rows(sql, values)])


def indexed_sources(filter: Filter) -> list[tuple[str, tuple[str, ...]]]:
    """The indexes that list all passages which may pass the filter, with the names to look up.

    None if most passages may pass. Then a document soon has one, and need not be read to its end.
    """
    if filter.after is not None or filter.before is not None:
        return [("passage p indexed by passage_time where 1", ())]
    if are_indexed(filter.authors):
        return [by_name("author", IS_AUTHOR, filter.authors)]
    if are_indexed(filter.roles):
        return [by_name("role", IS_OTHER_ROLE, filter.roles)]
    if are_indexed(filter.senders):
        return [
            by_name("role", IS_OTHER_ROLE, filter.senders),
            by_name("author", IS_AUTHOR, filter.senders),
        ]
    return []


def are_indexed(names: Sequence[str]) -> bool:
    """Whether there are names, and an index has the passages with each of them."""
    return bool(names) and all(
        name not in ROLES and len(name) <= LONGEST_INDEXED_NAME for name in names
    )


def by_name(column: str, is_indexed: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    places = ", ".join("?" * len(names))
    source = (
        f"passage p indexed by passage_{column} where {is_indexed} and p.{column} in ({places})"
    )
    return source, names
