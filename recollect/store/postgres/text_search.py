"""Find, count and rank the passages that match a query.

The index answers most queries alone. Passages whose positions did not all fit into the index, and
queries that PostgreSQL cannot express, are checked against the text.

If the words of a query have many matches, the best are selected by its rarest words and by pairs of
words, those with the largest weights first, until they are enough. A word that very many passages
contain costs more than all the others, and says little alone. The ranker then scores them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import Node, Or, matches, words
from recollect.language.text import micros, storable
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER, candidate_conditions, conditions
from recollect.store.postgres.lexemes import TextQuery, text_query
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import (
    MAX_LISTED_DOCUMENTS,
    MAX_LISTED_PASSAGES,
    document_filter,
    matching_documents,
    resolve_filter,
)

FILTER_PARAMETERS = """?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint,
  ?::bigint, ?::bigint[], ?::bigint[], ?::boolean"""
_TEXTS_AT_ONCE = 500
_NO_LIMIT = 1 << 30


def filter_arguments(db: Connection, filter: Filter) -> tuple[Any, ...]:
    """The filter as arguments of the search functions (see FILTER_PARAMETERS)."""
    documents = matching_documents(db, filter)
    return (
        names_or_null(filter.roles),
        names_or_null(filter.authors),
        names_or_null(filter.senders),
        names_or_null(filter.not_roles),
        names_or_null(filter.not_authors),
        micros(filter.after),
        micros(filter.before),
        documents.only,
        documents.without or None,
        filter.hidden,
    )


def names_or_null(names: Sequence[str]) -> list[str] | None:
    return [storable(name) for name in names] or None


def keys_of_few(db: Connection, filter: Filter) -> list[int] | None:
    """The passages that pass the filter if their documents are few and short, otherwise None.

    Also None if the filter is not about documents.
    """
    documents = document_filter(filter)
    if documents == Filter(hidden=True):
        return None
    document_where, document_values = db.conditions(documents)
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    ((is_few, keys),) = db.rows_once(
        f"""with few as materialized (
          select d.key, d.passages from document d
          where {db.own("d")} and {document_where} limit {MAX_LISTED_DOCUMENTS + 1}),
        size as materialized (
          select count(*) <= {MAX_LISTED_DOCUMENTS}
            and coalesce(sum(f.passages), 0) <= {MAX_LISTED_PASSAGES} as is_few
          from few f)
        select s.is_few, array(
          select p.key from few f join passage p on p.document = f.key
          where {db.own("p")} and s.is_few and {where}) as keys from size s""",
        (*document_values, *values),
    )
    return list(keys) if is_few else None


def matches_among(
    db: Connection, queries: Sequence[tuple[Node, TextQuery]], keys: Sequence[int]
) -> list[dict[int, int]]:
    """For each query, the passages with these keys that match, with their lengths."""
    rows = db.rows(
        f"""select u.number - 1 as number, t.key, t.length, t.words @@ u.query as is_match, t.sure
        from passage_text t, unnest(?::tsquery[], ?::tsquery[])
          with ordinality u(query, without_positions, number)
        where {db.own("t")} and t.key = any(?::bigint[]) and t.words @@ u.without_positions""",
        (
            [query.tsquery for _, query in queries],
            [query.without_positions for _, query in queries],
            list(keys),
        ),
    )
    matches: list[dict[int, int]] = [{} for _ in queries]
    undecided: list[list[int]] = [[] for _ in queries]
    for number, key, length, is_match, has_all_positions in rows:
        query = queries[number][1]
        if not query.is_exact or (query.has_phrases and not has_all_positions):
            undecided[number].append(key)
        elif is_match:
            matches[number][key] = length
    for number, (node, _) in enumerate(queries):
        matches[number] |= matches_by_text(db, node, undecided[number])
    return matches


def matches_outside_index(
    db: Connection,
    node: Node,
    query: TextQuery,
    arguments: tuple[Any, ...],
    any_phrases: bool = False,
) -> dict[int, int]:
    """The matching passages that the index cannot decide, with their lengths.

    These are all matches if the query is not exact. Otherwise they are the matches among passages
    without all positions. With `any_phrases`, these are checked even if the query has no phrase.
    """
    has_all_positions = None
    if query.is_exact:
        needs_positions = query.has_phrases or any_phrases
        if not needs_positions or not has_incomplete_positions(db):
            return {}
        has_all_positions = False
    rows = db.rows(
        f"select newest({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
        (query.without_positions, has_all_positions, _NO_LIMIT, *arguments),
    )
    return matches_by_text(db, node, [key for (key,) in rows])


def has_incomplete_positions(db: Connection) -> bool:
    """Whether the library has passages without all positions."""
    sql = f"select 1 from passage_text t where {db.own('t')} and not t.sure limit 1"
    return bool(db.rows_once(sql))


def matches_by_text(db: Connection, node: Node, keys: Sequence[int]) -> dict[int, int]:
    """Read the texts of passages. Returns those that match, with their lengths."""
    lengths: dict[int, int] = {}
    for start in range(0, len(keys), _TEXTS_AT_ONCE):
        texts = db.rows(
            f"""select p.key, {INDEXED_TITLE}, p.content,
              t.length
            from passage p join document d on d.owner = p.owner and d.key = p.document
              join passage_text t on t.owner = p.owner and t.key = p.key
            where p.owner = ?::integer and p.key = any(?::bigint[])""",
            (db.owner, list(keys[start : start + _TEXTS_AT_ONCE])),
        )
        lengths |= {
            key: length for key, title, content, length in texts if matches(node, title, content)
        }
    return lengths


# -- counting ---


MAX_COUNTED = 20_000
"""Counting stops at this number of matches."""
# If one alternative of a query has this many matches, its count is returned as a lower bound:
# counting all alternatives would take longer than the search itself.
_LOWER_BOUND_FROM = 4_000


def size(db: Connection) -> int:
    """See Store.size."""
    return db.library_state()[0]


def _counts(db: Connection, queries: Sequence[str]) -> list[tuple[int, int]]:
    """For each tsquery, how many passages match, and how many of these are not hidden."""
    missing = list({query for query in queries if query not in db.counts})
    if missing:
        rows = db.rows(
            f"select * from frequencies({OWNER}, ?::tsquery[], ?::integer)",
            (missing, MAX_COUNTED),
        )
        db.counts.update(zip(missing, rows, strict=True))
    return [db.counts[query] for query in queries]


def frequencies(db: Connection, nodes: Sequence[Node]) -> tuple[list[int], int]:
    """See Store.frequencies."""
    queries = [text_query(node) for node in nodes]
    totals = [passages for passages, _ in _counts(db, [query.tsquery for query in queries])]
    for number, (node, query) in enumerate(zip(nodes, queries, strict=True)):
        if not query.is_exact or (query.has_phrases and has_incomplete_positions(db)):
            arguments = filter_arguments(db, Filter(hidden=True))
            totals[number] = _count(db, node, query, arguments)
    return totals, size(db)


def count(db: Connection, node: Node, filter: Filter) -> tuple[int, bool]:
    """See Store.count."""
    filter = resolve_filter(db, filter)
    if isinstance(node, Or) and filter in (Filter(), Filter(hidden=True)):
        lower_bound = largest_alternative(db, node, filter.hidden)
        if lower_bound >= _LOWER_BOUND_FROM:
            return lower_bound, False
    query = text_query(node)
    keys = keys_of_few(db, filter)
    if keys is not None:
        return len(matches_among(db, [(node, query)], keys)[0]), True
    total = _count(db, node, query, filter_arguments(db, filter))
    return total, total < MAX_COUNTED


def largest_alternative(db: Connection, node: Or, hidden: bool) -> int:
    """The number of matches of the most frequent alternative that the index can count."""
    queries = [text_query(part) for part in node.parts]
    counts = _counts(
        db, [query.tsquery for query in queries if query.is_exact and not query.has_phrases]
    )
    return max((passages if hidden else visible for passages, visible in counts), default=0)


def _count(db: Connection, node: Node, query: TextQuery, arguments: tuple[Any, ...]) -> int:
    total = 0
    if query.is_exact:
        # With phrases, the index only counts passages with all positions.
        total = db.get(
            f"select counted({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
            (query.tsquery, query.has_phrases or None, MAX_COUNTED, *arguments),
        )
    return int(total) + len(matches_outside_index(db, node, query, arguments))


# -- the best matches ---


# If all words of a query have more matches than this together, not all of them are read.
_MANY_MATCHES = 4_000
# For a larger number of results, all words select candidates.
_SELECTED_LIMIT = 200
# Rare words and pairs of words select this many candidates for each result.
_SELECTED_PER_RESULT = 1.5
_MAX_SELECTIONS = 8
# Candidates are sorted by score in groups of this size (see `sort`).
_GROUP = 600

_MATCHES = f"""select * from matches({OWNER}, ?::tsquery[], ?::float8[], ?::tsquery[], ?::float8[],
  ?::integer, ?::boolean, {FILTER_PARAMETERS})"""


class _Part(NamedTuple):
    """An alternative of the query. A match has at least one of them."""

    node: Node
    query: TextQuery
    frequency: int
    weight: float

    @property
    def is_plain(self) -> bool:
        """Whether it is neither a phrase nor a prefix, and the index can decide it."""
        return (
            self.query.is_exact
            and not self.query.has_phrases
            and not any(word.prefix for word in words(self.node))
        )


class _Match(NamedTuple):
    weight: float
    """The sum of the weights of all parts that the passage has."""
    length: int


_Matches = dict[int, _Match]


def best(db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
    """The keys of matching passages, best first: rare words and short passages count most."""
    filter = resolve_filter(db, filter)
    keys = keys_of_few(db, filter)
    parts, size = _parts(db, node)
    if keys is not None:
        matches = _matches_among(db, parts, keys)
    elif can_index_decide(db, parts):
        arguments = filter_arguments(db, filter)
        matches = {}
        selections = _selections(parts, size, limit)
        if selections:
            matches = weighted_matches(
                db, selections, parts, selected_count(limit), None, arguments
            )
        if len(matches) < limit:
            choices = [(part,) for part in parts]
            matches = weighted_matches(db, choices, (), whole_groups(limit), None, arguments)
    else:
        matches = matches_of_any_word(db, parts, limit, filter_arguments(db, filter))
    return sort(matches)[:limit]


def _parts(db: Connection, node: Node) -> tuple[list[_Part], int]:
    """The parts of a query, rarest first, and the number of all passages."""
    if not isinstance(node, Or):
        # All matches have the same weight, whatever it is.
        return [_Part(node, text_query(node), 0, 1.0)], 0
    totals, size = frequencies(db, node.parts)
    parts = []
    for part, total in zip(node.parts, totals, strict=True):
        weight = math.log(1 + (size - total + 0.5) / (total + 0.5))
        parts.append(_Part(part, text_query(part), total, weight))
    return sorted(parts, key=lambda part: part.frequency), size


def can_index_decide(db: Connection, parts: Sequence[_Part]) -> bool:
    if not all(part.query.is_exact for part in parts):
        return False
    return not (any(part.query.has_phrases for part in parts) and has_incomplete_positions(db))


def whole_groups(limit: int) -> int:
    """As many matches as needed for a limit. With part of a group, its order would be another."""
    return max(math.ceil(limit / _GROUP), 1) * _GROUP


def selected_count(limit: int) -> int:
    return round(_SELECTED_PER_RESULT * limit)


def _selections(parts: Sequence[_Part], size: int, limit: int) -> list[tuple[_Part, ...]]:
    """The single parts and pairs with the largest weights that select enough matches together.

    Empty if that is no help, or if some parts are not plain: then their weights are not known.
    """
    if limit > _SELECTED_LIMIT or sum(part.frequency for part in parts) <= _MANY_MATCHES:
        return []
    if len(parts) < 2 or not all(part.is_plain for part in parts):
        return []
    count = selected_count(limit)
    choices: list[tuple[_Part, ...]] = [*((part,) for part in parts), *combinations(parts, 2)]
    choices.sort(key=lambda choice: -_weight(choice))
    selections: list[tuple[_Part, ...]] = []
    expected_matches = 0.0
    for choice in choices:
        if expected_matches > count:
            return selections
        # A single part selects its pairs as well.
        selections = [pair for pair in selections if choice[0] not in pair or len(choice) > 1]
        selections.append(choice)
        if len(selections) > _MAX_SELECTIONS:
            break
        expected_matches += math.prod(part.frequency for part in choice) / size ** (len(choice) - 1)
    return []


def _weight(parts: Iterable[_Part]) -> float:
    return sum(part.weight for part in parts)


def weighted_matches(
    db: Connection,
    choices: Sequence[Sequence[_Part]],
    order: Sequence[_Part],
    at_most: int,
    has_all_positions: bool | None,
    arguments: tuple[Any, ...],
) -> _Matches:
    """The passages that have all parts of one of the choices, those with the largest weights.

    With `order`, these parts give the passages their weights.
    """
    weights = {
        " & ".join(f"({part.query.tsquery})" for part in choice): _weight(choice)
        for choice in choices
    }
    values = (
        *(list(weights), list(weights.values())),
        *([part.query.tsquery for part in order], [part.weight for part in order]),
        *(at_most, has_all_positions, *arguments),
    )
    rows = db.rows(_MATCHES, values)
    return {key: _Match(weight, length) for key, weight, length in rows}


def _matches_among(db: Connection, parts: Sequence[_Part], keys: Sequence[int]) -> _Matches:
    matches: _Matches = {}
    lengths_of_parts = matches_among(db, [(part.node, part.query) for part in parts], keys)
    for part, lengths in zip(parts, lengths_of_parts, strict=True):
        for key, length in lengths.items():
            add_match(matches, key, part.weight, length)
    return matches


def sort(matches: _Matches) -> list[int]:
    """Best first, and newest first among equals.

    The score only sorts within groups of a fixed size, so that a longer list starts with the
    shorter one.
    """
    by_weight = [
        (-round(weight, 9), -key, weight, length) for key, (weight, length) in matches.items()
    ]
    if len(by_weight) > _GROUP:
        by_weight.sort()
    keys: list[int] = []
    for start in range(0, len(by_weight), _GROUP):
        scores = sorted(
            (-round(2.2 * weight / (1.3 + 0.015 * length), 9), negative_key)
            for _, negative_key, weight, length in by_weight[start : start + _GROUP]
        )
        keys += [-negative_key for _, negative_key in scores]
    return keys


def add_match(matches: _Matches, key: int, weight: float, length: int) -> None:
    if key in matches:
        weight += matches[key].weight
    matches[key] = _Match(weight, length)


def matches_of_any_word(
    db: Connection, parts: Sequence[_Part], limit: int, arguments: tuple[Any, ...]
) -> _Matches:
    """The passages with the largest weights."""
    any_phrases = any(part.query.has_phrases for part in parts)
    choices = [(part,) for part in parts if part.query.is_exact]
    size = whole_groups(limit)
    matches = weighted_matches(db, choices, (), size, any_phrases or None, arguments)
    for part in parts:
        others = matches_outside_index(db, part.node, part.query, arguments, any_phrases)
        for key, length in others.items():
            add_match(matches, key, part.weight, length)
    return matches


# -- all matches ---


def match_source(db: Connection, node: Node | None, filter: Filter) -> tuple[str, Sequence[Any]]:
    """The end of a statement that selects each passage `p` that matches, with its values."""
    if node is None:
        where, values = candidate_conditions(filter)
        return f"{passages_and_documents(db)} where {db.own('p')} and {where}", values
    keys = matching_keys(db, node, filter)
    return f"passage p where {db.own('p')} and p.key = any(?::bigint[])", (keys,)


def matching_keys(db: Connection, node: Node, filter: Filter) -> list[int]:
    query = text_query(node)
    few_keys = keys_of_few(db, filter)
    if few_keys is not None:
        return list(matches_among(db, [(node, query)], few_keys)[0])
    arguments = filter_arguments(db, filter)
    keys = list(matches_outside_index(db, node, query, arguments))
    if query.is_exact:
        # With phrases, the index decides only about passages with all positions.
        rows = db.rows(
            f"select newest({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
            (query.tsquery, query.has_phrases or None, _NO_LIMIT, *arguments),
        )
        keys += [key for (key,) in rows]
    return keys


def passages_and_documents(db: Connection) -> str:
    """The passages `p` and their documents `d`. See `Connection.by_key`."""
    return f"passage p {db.by_key('document', 'd', 'p.document')}"


def passages_and_words(db: Connection) -> str:
    """The passages `p`, their entries in the text index `t` and their documents `d`."""
    entries = db.by_key("passage_text", "t", "p.key")
    return f"passage p {entries} {db.by_key('document', 'd', 'p.document')}"
