"""Filters as SQL conditions, and the columns of a document that they use.

PostgreSQL folds case by the server's locale, if at all. So text that is compared without regard to
case is folded in Python, when it is stored.

The rule for human-only messages (`model/audience.py`) needs the parsed metadata. An index has this
condition, so searches for agents read only the metadata of the passages that it selects, and the
rule decides about these. The server updates the index whichever program writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.language.text import comparable, fold, micros, storable, tokens
from recollect.model.search import Filter
from recollect.store.sql.encoding import FILTER_CHARACTERS, index_columns, tag_pattern

OWNER = ":owner"
"""Stands for the number of the user in our statements."""
LONGEST_INDEXED_NAME = 200
"""The index `passage_models` has no longer names."""
_PINNED = {True: "d.pinned is not null", False: "d.pinned is null"}


def derived_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that are derived from a document row, for filters and the text index."""
    return index_columns(row) | {
        "folded_title": comparable(row["title"]),
        "folded_id": fold(row["id"]),
        "title_words": pad(tokens(row["title"])),
    }


def pad(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def conditions(filter: Filter, alias: str, is_hidden: str) -> tuple[str, list[Any]]:
    """The part of the filter that is about passages, with its values.

    `alias` is the table with the columns, and `is_hidden` an SQL expression. The condition is
    `true` if there is nothing to check.
    """
    clauses, values = name_clauses(
        (f"{alias}.role", "= any", filter.roles),
        (f"{alias}.author", "= any", filter.authors),
        (f"coalesce({alias}.role, '')", "<> all", filter.not_roles),
        (f"coalesce({alias}.author, '')", "<> all", filter.not_authors),
    )
    if filter.senders:
        clauses.append(f"({alias}.role = any(?::text[]) or {alias}.author = any(?::text[]))")
        values += [[storable(name) for name in filter.senders]] * 2
    if not filter.hidden:
        clauses.append(f"not ({is_hidden})")
    if filter.after is not None:
        clauses.append(f"{alias}.created_at >= ?")
        values.append(micros(filter.after))
    if filter.before is not None:
        clauses.append(f"{alias}.created_at <= ?")
        values.append(micros(filter.before))
    return " and ".join(clauses) or "true", values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that is about document `d`, with its values."""
    media_types = tuple(fold(name)[:FILTER_CHARACTERS] for name in filter.media_types)
    characters = tuple(name[:FILTER_CHARACTERS] for name in filter.characters)
    clauses, values = name_clauses(
        ("d.project", "= any", filter.projects),
        ("d.project", "<> all", filter.not_projects),
        ("d.source", "= any", filter.sources),
        ("d.source", "<> all", filter.not_sources),
        ("d.kind", "= any", filter.kinds),
        ("d.id", "= any", filter.conversations),
        ("d.media_type", "= any", media_types),
        ("d.character_id", "= any", characters),
    )
    if filter.empty:
        clauses.append("d.passages = 0")
    if filter.pinned is not None:
        clauses.append(_PINNED[filter.pinned])
    if filter.models:
        models = [storable(name) for name in filter.models]
        condition = "m.model = any(?::text[])"
        if max(map(len, models)) <= LONGEST_INDEXED_NAME:
            condition += f" and length(m.model) <= {LONGEST_INDEXED_NAME}"  # the index has these
        clauses.append(
            f"exists (select from passage m where m.owner = {OWNER} and m.document = d.key "
            f"and {condition})"
        )
        values.append(models)
    if filter.tags:
        clauses.append(f"({' or '.join(['strpos(d.tags, ?) > 0'] * len(filter.tags))})")
        values += map(tag_pattern, filter.tags)
    clauses += ["strpos(d.tags, ?) = 0"] * len(filter.not_tags)
    values += map(tag_pattern, filter.not_tags)
    for titles, comparison in ((filter.titles, "> 0"), (filter.not_titles, "= 0")):
        clauses += [f"strpos(d.title_words, ?) {comparison}"] * len(titles)
        values += [title_substring(title) for title in titles]
    return " and ".join(clauses) or "true", values


def title_substring(words: str) -> str:
    """The words as they occur in the column `title_words`. A final `*` matches a prefix."""
    padded = pad(tokens(words))
    if words.endswith("*"):
        return padded[:-1]
    return padded


def name_clauses(
    *conditions: tuple[str, str, tuple[str, ...]],
) -> tuple[list[str], list[Any]]:
    """Compare columns with names. Each condition is a column, an operator and the names."""
    clauses: list[str] = []
    values: list[Any] = []
    for column, operator, names in conditions:
        if len(names) == 1:
            # With a plain comparison, an index on the column also gives the order.
            clauses.append(f"{column} {operator.split()[0]} ?::text")
            values.append(storable(names[0]))
        elif names:
            clauses.append(f"{column} {operator}(?::text[])")
            values.append([storable(name) for name in names])
    return clauses, values


def candidate_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The whole filter, on passage `p` and document `d`."""
    passage_where, passage_values = conditions(filter, "p", "p.visibility = 'hidden'")
    document_where, document_values = document_conditions(filter)
    return f"{passage_where} and {document_where}", passage_values + document_values


# -- human-only passages ---


# What may be between letters: anything but letters and digits. JSON escapes some of it.
_SEPARATORS = r'(\\u[0-9a-f]{4}|\\.|[^"a-z0-9\\])*'


def spelled(word: str) -> str:
    return "".join(_SEPARATORS + letter for letter in word) + _SEPARATORS


# Without question marks, which stand for values.
_MARK = (
    rf'"({spelled("humanonly")}"\s*:|({spelled("visibility")}|{spelled("audience")})"\s*:'
    rf'[\s\[]*"{spelled("human")})'
)


def may_be_human_only(prefix: str = "") -> str:
    """The condition on the columns of a passage. `prefix` is the alias of the table and a dot."""
    return (
        f"({prefix}visibility <> 'all' and {prefix}visibility <> 'hidden' "
        f"or {prefix}metadata ~* '{_MARK}')"
    )
