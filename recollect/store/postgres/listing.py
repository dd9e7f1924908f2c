"""Read passages as candidates: by key, newest first, and by a text that they contain.

To find a text, the vocabulary tells which words contain its first and last fragment. The index is
searched for those words, and what it finds is verified against the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.language.text import fold, identifier, indexable_fragment, tokens
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER, candidate_conditions, conditions
from recollect.store.postgres.lexemes import LONGEST, NO_MATCH, text_query
from recollect.store.postgres.text_search import (
    FILTER_PARAMETERS,
    filter_arguments,
    passages_and_documents,
    passages_and_words,
)
from recollect.store.postgres.words import (
    known_words,
    variants,
    words_containing,
    words_with_fragment,
)
from recollect.store.sql.encoding import CANDIDATE_COLUMNS, decode_candidates
from recollect.store.sql.selection import few_documents, literal_text, resolve_filter
from recollect.store.values import Candidate, CandidatePage

__all__ = [
    "candidates",
    "find_substring",
    "known_words",
    "newest",
    "passage_keys",
    "previous_passages",
    "recent",
    "scores",
    "variants",
    "words_containing",
]

_NEWEST_FIRST = "p.created_at desc nulls last, p.key desc"
# `offset 0` prevents the server from joining all passages: under row-level security, it expects
# far too many rows. Every search runs these statements, and planning them takes as long as reading
# thirty passages, so they are prepared.
_DOCUMENT = f"""cross join lateral (select * from document d
    where d.owner = {OWNER} and d.key = p.document offset 0) d"""
_BY_KEY = f"""select {CANDIDATE_COLUMNS} from unnest(?::bigint[]) k(key)
  cross join lateral (select * from passage p
    where p.owner = {OWNER} and p.key = k.key offset 0) p
  {_DOCUMENT}"""
_PREVIOUS = f"""select {CANDIDATE_COLUMNS} from unnest(?::bigint[]) k(key)
  cross join lateral (select a.document, a.position from passage a
    where a.owner = {OWNER} and a.key = k.key offset 0) a
  cross join lateral (select * from passage p
    where p.owner = {OWNER} and p.document = a.document and p.position = a.position - 1
    offset 0) p
  {_DOCUMENT}"""
_KEYS = f"""select p.key from unnest(?::text[], ?::text[]) k(document, passage)
  cross join lateral (select key from document d
    where d.owner = {OWNER} and d.id = k.document offset 0) d
  cross join lateral (select key from passage p
    where p.owner = {OWNER} and p.document = d.key and p.id = k.passage offset 0) p"""


# -- by key and id ---


def passage_keys(db: Connection, ids: Sequence[tuple[str, str]]) -> list[int]:
    """The keys of passages, given by the ids of their documents and their own, if they exist."""
    columns = [[identifier(pair[place]) for pair in ids] for place in (0, 1)]
    return [key for (key,) in db.rows(_KEYS, columns)]


def candidates(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    """See Store.candidates."""
    where, values = candidate_conditions(resolve_filter(db, filter))
    rows = db.rows(f"{_BY_KEY} where {where}", (list(keys), *values))
    return decode_candidates(rows)


def previous_passages(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    """The passages directly before these."""
    where, values = candidate_conditions(resolve_filter(db, filter))
    rows = db.rows(f"{_PREVIOUS} where {where}", (list(keys), *values))
    return decode_candidates(rows)


def scores(db: Connection, node: Node, keys: Sequence[int]) -> dict[int, float]:
    """See Store.text_scores."""
    rows = db.rows(
        """select t.key, ts_rank(t.words, ?::tsquery) from passage_text t
        where t.owner = ?::integer and t.key = any(?::bigint[])""",
        (text_query(node).without_positions, db.owner, list(keys)),
    )
    return {key: float(score) for key, score in rows}


# -- newest first ---


def newest(
    db: Connection, filter: Filter, limit: int, offset: int, by_document: bool = False
) -> CandidatePage:
    """See Store.newest."""
    filter = resolve_filter(db, filter)
    source, parameters = scan(db, filter)
    if by_document:
        return newest_by_document(db, source, parameters, limit, offset)
    page = newest_page(db, source, parameters, limit, offset)
    total = len(page)
    if offset or total == limit:  # there may be others
        total = db.get(f"select count(*) from {source}", parameters)
    return CandidatePage(page, total)


def newest_page(
    db: Connection, source: str, parameters: tuple[Any, ...], limit: int, offset: int
) -> list[Candidate]:
    rows = db.rows(
        f"select {CANDIDATE_COLUMNS} from {source} order by {_NEWEST_FIRST} limit ? offset ?",
        (*parameters, limit, offset),
    )
    return decode_candidates(rows)


def newest_by_document(
    db: Connection, source: str, parameters: tuple[Any, ...], limit: int, offset: int
) -> CandidatePage:
    total = db.get(f"select count(distinct p.document) from {source}", parameters)
    # Materialized, because a server that expects one match would look for all matches again for
    # each passage.
    rows = db.rows(
        f"""with n as materialized (
          select p.key, row_number() over (partition by p.document order by {_NEWEST_FIRST})
            as place
          from {source})
        select {CANDIDATE_COLUMNS}
        from n {db.by_key("passage", "p", "n.key")} {db.by_key("document", "d", "p.document")}
        where n.place = 1 order by {_NEWEST_FIRST} limit ? offset ?""",
        (*parameters, limit, offset),
    )
    return CandidatePage(decode_candidates(rows), total)


def scan(db: Connection, filter: Filter) -> tuple[str, tuple[Any, ...]]:
    """The end of a statement that selects each passage that passes a filter, with its values."""
    where, values = scan_conditions(db, filter)
    source = f"{passages_and_documents(db)} where p.owner = ?::integer and {where}"
    return source, (db.owner, *values)


def scan_conditions(db: Connection, filter: Filter) -> tuple[str, list[Any]]:
    """The filter for a scan of all passages. If its documents are few, it lists them by key."""
    documents = few_documents(db, filter)
    if documents is None:
        return candidate_conditions(filter)
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    return f"{where} and p.document = any(?::bigint[])", [*values, documents]


# -- by substring ---


def find_substring(
    db: Connection, text: str, filter: Filter, limit: int, offset: int, by_document: bool = False
) -> CandidatePage:
    """A page of the passages that contain a text. If it is frequent or no word, this is a scan."""
    text, filter = literal_text(text), resolve_filter(db, filter)
    where, values = scan_conditions(db, filter)
    is_match: str = CONTAINS
    match_value: Any = fold(text)
    keys = passages_with_text(db, text)
    if keys is not None:
        is_match, match_value = "p.key = any(?::bigint[])", keys
    source = f"{passages_and_words(db)} where p.owner = ?::integer and {is_match} and {where}"
    parameters = (db.owner, match_value, *values)
    if by_document:
        return newest_by_document(db, source, parameters, limit, offset)
    total: int = db.get(f"select count(*) from {source}", parameters)
    rows = db.rows(
        f"select {CANDIDATE_COLUMNS} from {source} order by {_NEWEST_FIRST} limit ? offset ?",
        (*parameters, limit, offset),
    )
    return CandidatePage(decode_candidates(rows), total)


def recent(
    db: Connection, text: str | None, filter: Filter, limit: int, by_words: bool = False
) -> list[Candidate]:
    """The newest passages, with `text` those whose content or title contains it.

    A few matches are collected and sorted. With many matches, a scan from the newest passage soon
    finds enough.
    """
    filter = resolve_filter(db, filter)
    if text:
        text = literal_text(text)
    if text is None:
        return newest_page(db, *scan(db, filter), limit, 0) if limit else []
    documents = documents_with_title(db, text, few_documents(db, filter), by_words)
    if by_words:
        keys = passages_with_all_words(db, text)
    else:
        keys = passages_with_text(db, text)
    if keys is None:
        return scan_recent(db, text, documents, filter, limit, by_words)
    where, values = candidate_conditions(filter)
    rows = db.rows(
        f"""select {CANDIDATE_COLUMNS} from (
          select unnest(?::bigint[]) as key union select p.key from passage p
          where p.owner = ?::integer and p.document = any(?::bigint[])) k
        {db.by_key("passage", "p", "k.key")} {db.by_key("document", "d", "p.document")}
        where {where} order by {_NEWEST_FIRST} limit ?""",
        (keys, db.owner, documents, *values, limit),
    )
    return decode_candidates(rows)


def scan_recent(
    db: Connection, text: str, documents: list[int], filter: Filter, limit: int, by_words: bool
) -> list[Candidate]:
    """The newest passages that match the text or belong to one of the documents."""
    is_match, match_values = CONTAINS, [fold(text)]
    if by_words:
        words = long_words(text)
        is_match = " and ".join(["t.words @@ ?::tsquery", *[CONTAINS] * len(words)])
        match_values = [all_words_query(text), *words]
    where, values = scan_conditions(db, filter)
    rows = db.rows(
        f"""select {CANDIDATE_COLUMNS} from {passages_and_words(db)}
        where p.owner = ?::integer and ({is_match} or p.document = any(?::bigint[])) and {where}
        order by {_NEWEST_FIRST} limit ?""",
        (db.owner, *match_values, documents, *values, limit),
    )
    return decode_candidates(rows)


# -- literal text ---


# With this many matches, scanning from the newest passage is faster than sorting them.
_MANY = 3_000
CONTAINS = 'strpos(coalesce(t.folded, lower(p.content collate "C")), ?) > 0'
"""Whether a passage contains a folded text. ASCII texts are not stored in folded form."""


def all_words_query(text: str) -> str:
    """A tsquery for passages with every word of the text in their content, or empty."""
    return " & ".join(f"'{word[:LONGEST]}':D" for word in dict.fromkeys(tokens(text)))


def long_words(text: str) -> list[str]:
    """The words of which the index only has the beginning."""
    return [word for word in tokens(text) if len(word) >= LONGEST]


def documents_with_title(
    db: Connection, text: str, documents: list[int] | None, by_words: bool
) -> list[int]:
    """The documents whose title contains the text literally, or all its words.

    None means all documents.
    """
    where = "strpos(d.folded_title, ?) > 0"
    values: list[object] = [fold(text)]
    if by_words:
        values = [f" {word} " for word in sorted(set(tokens(text)))]
        where = " and ".join(["strpos(d.title_words, ?) > 0"] * len(values)) or "false"
    if documents is not None:
        where += " and d.key = any(?::bigint[])"
        values.append(documents)
    rows = db.rows(
        f"select d.key from document d where d.owner = ?::integer and d.title <> '' and {where}",
        (db.owner, *values),
    )
    return [key for (key,) in rows]


def passages_with_all_words(db: Connection, text: str) -> list[int] | None:
    """The passages that contain all words of the text; None if there are many."""
    if long_words(text):
        return None
    words_query = all_words_query(text)
    # A GIN index does not store labels, so words in titles are excluded in a second step.
    keys = _newest(db, words_query.replace(":D", ""))
    if len(keys) == _MANY:
        return None
    in_content = "(not t.opening or t.words @@ ?::tsquery)"
    return sorted(select(db, keys, in_content, words_query))


def passages_with_text(db: Connection, text: str) -> list[int] | None:
    """The passages that contain the text literally.

    None if there are many, or if the index cannot narrow them down.
    """
    query = literal_query(db, text)
    if query is None:
        return None
    keys = _newest(db, query)
    if len(keys) == _MANY:
        return None
    rows = db.rows(
        "select key from passage_text where owner = ?::integer and not whole limit ?",
        (db.owner, _MANY),
    )
    if len(rows) == _MANY:  # too many messages are too long to be indexed as a whole
        return None
    keys += [key for (key,) in rows]
    return sorted(select(db, keys, CONTAINS, fold(text)))


def _newest(db: Connection, query: str) -> list[int]:
    rows = db.rows(
        f"select newest({OWNER}, ?::tsquery, null, ?::integer, {FILTER_PARAMETERS})",
        (query, _MANY, *filter_arguments(db, Filter(hidden=True))),
    )
    return [key for (key,) in rows]


def select(db: Connection, keys: list[int], condition: str, value: str) -> set[int]:
    rows = db.rows(
        f"""select p.key from {passages_and_words(db)}
        where p.owner = ?::integer and p.key = any(?::bigint[]) and {condition}""",
        (db.owner, keys, value),
    )
    return {key for (key,) in rows}


def literal_query(db: Connection, text: str) -> str | None:
    """A tsquery for passages whose words could contain the text, or None if it is too general."""
    folded = indexable_fragment(text)
    fragments = tokens(folded)
    parts = []
    for number, fragment in enumerate(fragments):
        open_left = number == 0 and folded.startswith(fragment)
        open_right = number == len(fragments) - 1 and folded.endswith(fragment)
        terms = words_with_fragment(db, fragment[:LONGEST], open_left, open_right)
        # With too many words, the other fragments must narrow the query down.
        if terms is not None:
            alternatives = " | ".join(f"'{term}'" for term in terms) or NO_MATCH
            parts.append(f"({alternatives})")
    return " & ".join(parts) if parts else None
