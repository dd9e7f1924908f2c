"""Read candidates, with one statement for all that a search has announced.

If the search compares vectors, those of the candidates are read as well. Of observations, so are
the ids of the messages that they were made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.text import identifier
from recollect.model.kinds import OBSERVATION
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.filters import OWNER, candidate_conditions
from recollect.store.sql.encoding import load
from recollect.store.sql.observations import messages_of_metadata
from recollect.store.sql.reading.candidates import COLUMNS, decode_columns
from recollect.store.sql.reading.selection import resolve_filter
from recollect.store.values import Candidate, CandidateRead, Space

_NAMES = ", ".join(Candidate._fields)
_METADATA = len(Candidate._fields)  # the place of the column after them
_NO_CANDIDATE = ", ".join(["null"] * (len(Candidate._fields) - 1))
# An observation with texts that the database cannot hold is read as a whole, when it is needed.
_COLUMNS = f"""{COLUMNS},
  case when d.kind = '{OBSERVATION}' and p.original is null then p.metadata end as metadata"""

# `offset 0` prevents the server from joining all passages: under row-level security, it expects
# far too many rows. Every search runs these statements, and planning them takes as long as reading
# thirty passages, so they are prepared.
_DOCUMENT = f"""cross join lateral (select * from document d
    where d.owner = {OWNER} and d.key = p.document offset 0) d"""
_BY_KEY = f"""select {_COLUMNS} from unnest(?::bigint[]) k(key)
  cross join lateral (select * from passage p
    where p.owner = {OWNER} and p.key = k.key offset 0) p
  {_DOCUMENT}"""
_PREVIOUS = f"""select {_COLUMNS} from unnest(?::bigint[]) k(key)
  cross join lateral (select a.document, a.position from passage a
    where a.owner = {OWNER} and a.key = k.key offset 0) a
  cross join lateral (select * from passage p
    where p.owner = {OWNER} and p.document = a.document and p.position = a.position - 1
    offset 0) p
  {_DOCUMENT}"""
_BY_ID = f"""select {_COLUMNS} from unnest(?::text[], ?::text[]) k(document, passage)
  cross join lateral (select * from document d
    where d.owner = {OWNER} and d.id = k.document offset 0) d
  cross join lateral (select * from passage p
    where p.owner = {OWNER} and p.document = d.key and p.id = k.passage offset 0) p"""


def read_candidates(db: Connection, read: CandidateRead) -> list[Candidate]:
    if not read.keys and not read.ids:
        return []
    planned = db.planned
    source = read
    if read.ids:
        announced = (each for each in planned.candidate_reads if _includes(each, read))
        source = next(announced, read)
    if source not in planned.candidates:
        reads: Sequence[CandidateRead] = [source]
        if source in planned.candidate_reads:
            reads = [each for each in planned.candidate_reads if each.keys or each.ids]
            reads = list(dict.fromkeys(reads))
        planned.candidates |= _read(db, reads)
    candidates = planned.candidates[source]
    if source is read:
        return candidates
    ids = {(identifier(document), identifier(passage)) for document, passage in read.ids}
    return [each for each in candidates if (each.document, each.id) in ids]


def _includes(read: CandidateRead, other: CandidateRead) -> bool:
    return read.filter == other.filter and set(read.ids).issuperset(other.ids)


def _read(db: Connection, reads: Sequence[CandidateRead]) -> dict[CandidateRead, list[Candidate]]:
    planned = db.planned
    space = None if planned.results is None else planned.space
    rows_of_reads: list[list[tuple[Any, ...]]] = [[] for _ in reads]
    for row in _rows(db, reads, space):
        key, number, scale, numbers = row[0], *row[-3:]
        if numbers is None:
            rows_of_reads[number].append(row)
        else:
            planned.vectors.setdefault(key, []).append((key, scale, numbers))
    candidates = {}
    for read, rows in zip(reads, rows_of_reads, strict=True):
        columns = list(zip(*rows, strict=True)) or [()] * (_METADATA + 1)
        candidates[read] = decode_columns(list(columns[:_METADATA]))
        pairs = zip(columns[0], columns[_METADATA], strict=True)
        planned.metadata |= {key: metadata for key, metadata in pairs if metadata is not None}
        if _has_vectors(read, space):
            for key in columns[0]:
                planned.vectors.setdefault(key, [])
    return candidates


def _has_vectors(read: CandidateRead, space: Space | None) -> bool:
    """Whether vectors are read. Messages that are read by id are not compared."""
    return space is not None and not read.ids


def _rows(
    db: Connection, reads: Sequence[CandidateRead], space: Space | None
) -> list[tuple[Any, ...]]:
    """The rows of candidates, and those of their vectors.

    They end with the number of the read, the scale and the numbers of the vector.
    """
    queries = [_query(db, read) for read in reads]
    values = [value for _, query_values in queries for value in query_values]
    selections = [f"select q.*, {number} from ({sql}) q" for number, (sql, _) in enumerate(queries)]
    selection = " union all ".join(selections)
    if space is None:
        statement = f"select c.*, null as scale, null as numbers from ({selection}) c"
        return db.rows(statement, values, generic_plan=True)
    numbers = [number for number, read in enumerate(reads) if _has_vectors(read, space)]
    return db.rows(
        f"""with c({_NAMES}, metadata, number) as materialized ({selection})
        select c.*, null as scale, null as numbers from c
        union all select c.key, {_NO_CANDIDATE}, null, c.number, v.scale, v.numbers
        from c cross join lateral (select v.scale, v.numbers from vector v
          where v.owner = {OWNER} and v.space = ?::integer and v.passage = c.key offset 0) v
        where c.number = any(?::integer[]) and c.key not in (select unnest(?::bigint[]))""",
        (*values, space.id, numbers, list(db.planned.vectors)),
        generic_plan=True,
    )


def _query(db: Connection, read: CandidateRead) -> tuple[str, list[Any]]:
    """The statement of a read, with its values."""
    if read.filter is None:
        return _PREVIOUS, [list(read.keys)]
    where, values = candidate_conditions(resolve_filter(db, read.filter))
    if not read.ids:
        return f"{_BY_KEY} where {where}", [list(read.keys), *values]
    documents = [identifier(document) for document, _ in read.ids]
    passages = [identifier(passage) for _, passage in read.ids]
    return f"{_BY_ID} where {where}", [documents, passages, *values]


def planned_vectors(
    db: Connection, space: Space, keys: Sequence[int]
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The rows of vectors that were read with their candidates, and the other keys."""
    planned = db.planned
    if planned.results is None or planned.space != space:
        return [], list(keys)
    rows: list[tuple[Any, ...]] = []
    others = []
    for key in keys:
        if key in planned.vectors:
            rows += planned.vectors[key]
        else:
            others.append(key)
    return rows, others


def planned_messages(
    db: Connection, keys: Sequence[int]
) -> dict[int, list[tuple[str, str]]] | None:
    """The messages of observations that were read as candidates; None if others are asked for."""
    metadata = db.planned.metadata
    if not metadata.keys() >= set(keys):
        return None
    return {key: messages_of_metadata(load(metadata[key])) for key in keys}
