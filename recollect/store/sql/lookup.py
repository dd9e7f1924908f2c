"""Read documents and passages, the same for both databases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from recollect.errors import NotFound
from recollect.language.queries.query_tree import Word
from recollect.language.text import from_micros, identifier
from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter
from recollect.store.errors import missing_document, missing_passage
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import (
    DOCUMENT_COLUMNS,
    PASSAGE_COLUMNS,
    decode_document,
    decode_passage,
    load,
    original_texts,
)
from recollect.store.sql.selection import resolve_senders
from recollect.store.values import LIST_START, ListPosition

_PASSAGE_COLUMNS = ", ".join(f"p.{name}" for name in PASSAGE_COLUMNS)
SUMMARY_COLUMNS = (
    "d.id, d.source, d.source_id, d.kind, d.title, d.project, d.created_at, d.updated_at, "
    "d.passages, d.metadata, d.original, d.version"
)
_CHANGED = "coalesce(d.updated_at, d.created_at)"
_SUMMARY_TEXTS = ("id", "source", "source_id", "kind", "title", "project")


# -- keys ---


def key_of(db: Database, id: str) -> int:
    """The key of a document. Raises NotFound."""
    key: int | None = db.get(
        f"select key from document where {db.own()} and id = ?", (identifier(id),)
    )
    if key is None:
        raise missing_document(id)
    return key


def id_of(db: Database, key: int) -> str | None:
    id_: str | None = db.get(f"select id from document where {db.own()} and key = ?", (key,))
    return id_


def passage_key(db: Database, document: str, passage: str) -> int:
    """See Store.passage_key."""
    has_id, values = db.has_id(identifier(passage))
    key: int | None = db.get(
        f"select key from passage where {db.own()} and document = ? and {has_id}",
        (key_of(db, document), *values),
    )
    if key is None:
        raise missing_passage(document, passage)
    return key


def passage_keys(db: Database, ids: Iterable[tuple[str, str]]) -> list[int]:
    """The keys of passages, given by the ids of their documents and their own, if they exist."""
    keys = []
    for document, passage in ids:
        with suppress(NotFound):
            keys.append(passage_key(db, document, passage))
    return keys


def keys(db: Database, filter: Filter) -> list[int]:
    """The keys of the documents that pass the filter, oldest first."""
    where, values = db.conditions(resolve_senders(db, filter))
    rows = db.rows(
        f"select d.key from document d where {db.own('d')} and {where} order by d.key", values
    )
    return [key for (key,) in rows]


def title_matches(db: Database, words: Sequence[Word]) -> list[int]:
    """See Store.title_matches."""
    openings: dict[int, None] = {}
    for word in dict.fromkeys(words):
        pattern = word.text
        if word.prefix:
            pattern += "*"
        where, values = db.conditions(Filter(titles=(pattern,)))
        rows = db.rows(
            "select d.opening from document d "
            f"where {db.own('d')} and d.opening is not null and {where}",
            values,
        )
        openings |= dict.fromkeys(key for (key,) in rows)
    return list(openings)


# -- documents ---


def read(db: Database, key: int) -> Document:
    """A document with its passages. Raises NotFound."""
    rows = db.rows(
        f"select {_PASSAGE_COLUMNS} from passage p where {db.own('p')} and p.document = ? "
        "order by p.position",
        (key,),
    )
    return replace(read_header(db, key), passages=tuple(decode_passage(row) for row in rows))


def read_document(db: Database, id: str, with_passages: bool = True) -> Document:
    """See Store.document."""
    return (read if with_passages else read_header)(db, key_of(db, id))


def read_all(db: Database, ids: Sequence[str]) -> dict[str, Document]:
    """See Store.documents."""
    if not ids:
        return {}
    members, value = db.in_list([identifier(id_) for id_ in ids])
    headers = {
        key: decode_document(dict(zip(DOCUMENT_COLUMNS, row, strict=True)))
        for key, *row in db.rows(
            f"select key, {', '.join(DOCUMENT_COLUMNS)} from document "
            f"where {db.own()} and id in ({members})",
            (value,),
        )
    }
    if not headers:
        return {}
    members, value = db.in_list(list(headers))
    passages: dict[int, list[Passage]] = {key: [] for key in headers}
    for key, *row in db.rows(
        f"select p.document, {_PASSAGE_COLUMNS} from passage p "
        f"where {db.own('p')} and p.document in ({members}) order by p.document, p.position",
        (value,),
    ):
        passages[key].append(decode_passage(tuple(row)))
    documents = (replace(headers[key], passages=tuple(passages[key])) for key in headers)
    return {identifier(document.id): document for document in documents}


def read_header(db: Database, key: int) -> Document:
    """A document without its passages. Raises NotFound."""
    rows = db.rows(
        f"select {', '.join(DOCUMENT_COLUMNS)} from document where {db.own()} and key = ?", (key,)
    )
    if not rows:
        raise NotFound("The conversation has been deleted.")
    return decode_document(dict(zip(DOCUMENT_COLUMNS, rows[0], strict=True)))


def ids_with_prefix(
    db: Database, prefix: str, limit: int, document: str | None = None
) -> list[str]:
    """See Store.ids_with_prefix."""
    if document is not None:
        return db.passage_ids_with_prefix(key_of(db, document), prefix, limit)
    condition, values = db.starts_with("id", prefix)
    rows = db.rows(
        f"select id from document where {db.own()} and {condition} and kind <> ? "
        "order by id limit ?",
        (*values, OBSERVATION, limit),
    )
    return [id_ for (id_,) in rows]


def find_id(db: Database, source: str, source_id: str) -> str | None:
    """See Store.find_id."""
    rows = db.rows(
        f"select id, original from document where {db.own()} and source = ? and source_id = ?",
        (identifier(source), identifier(source_id)),
    )
    for id_, original in rows:
        exact: str = load(original).get("id", id_)
        return exact
    return None


def documents_containing(
    db: Database, source: str, passages: Sequence[str]
) -> list[tuple[str, str]]:
    """See Store.documents_containing."""
    if not passages:
        return []
    has_id, value = db.has_id_in([identifier(passage) for passage in passages], "p")
    rows = db.rows(
        "select d.id, p.id from passage p join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and p.shared and {has_id} and d.source = ? "
        "order by d.updated_at desc, d.key desc, p.position",
        (value, source),
    )
    return [(document, passage) for document, passage in rows]


def summary(db: Database, id: str) -> Summary:
    """See Store.summary."""
    key_of(db, id)  # raises NotFound
    filter = Filter(conversations=(identifier(id),))
    ((only,), _) = summaries(db, filter, "", 1, 0)
    return only


def summaries(
    db: Database, filter: Filter, search: str, limit: int, offset: int
) -> tuple[list[Summary], int]:
    """See Store.summaries."""
    where, values = db.conditions(resolve_senders(db, filter), search)
    if filter.conversations and offset == 0 and len(filter.conversations) <= limit:
        return all_summaries(db, where, values)
    total: int = db.get(f"select count(*) from document d where {db.own('d')} and {where}", values)
    if not total:
        return [], 0
    rows = db.rows(
        f"""select d.key from document d where {db.own("d")} and {where}
        order by {_CHANGED} desc nulls last, d.key desc
        limit ? offset ?""",
        (*values, limit, offset),
    )
    return summaries_by_key(db, [key for (key,) in rows]), total


def all_summaries(db: Database, where: str, values: Sequence[Any]) -> tuple[list[Summary], int]:
    """The summaries of few documents, which need not be counted first."""
    rows = db.rows(
        f"""select {SUMMARY_COLUMNS} from document d where {db.own("d")} and {where}
        order by {_CHANGED} desc nulls last, d.key desc""",
        values,
    )
    return list(map(decode_summary, rows)), len(rows)


def summaries_by_key(db: Database, keys: Sequence[int]) -> list[Summary]:
    """The summaries of documents, in the order of the keys.

    Lists are filtered and ordered by an index, so that only the documents of a page are read.
    """
    members, value = db.in_list(list(keys))
    rows = db.rows(
        f"select d.key, {SUMMARY_COLUMNS} from document d "
        f"where {db.own('d')} and d.key in ({members})",
        (value,),
    )
    by_key = {key: decode_summary(row) for key, *row in rows}
    return [by_key[key] for key in keys]


def summaries_after(
    db: Database, filter: Filter, search: str, limit: int, order: str, after: ListPosition
) -> tuple[list[Summary], ListPosition | None]:
    """See Store.summaries_after."""
    where, filter_values = db.conditions(resolve_senders(db, filter), search)

    def read(condition: str, values: Sequence[Any], order: str, count: int) -> list[ListPosition]:
        rows = db.rows(
            f"select {_CHANGED}, d.key from document d "
            f"where {db.own('d')} and {where} and {condition} order by {order} limit ?",
            (*filter_values, *values, count),
        )
        return [ListPosition(time, key) for time, key in rows]

    time, key = after
    if order == "added":
        found = read("d.key < ?", [key], "d.key desc", limit + 1)
    else:
        found = []
        if time is not None:
            is_later = f"{_CHANGED} <= ? and ({_CHANGED} < ? or d.key < ?)"
            by_time = f"{_CHANGED} desc nulls last, d.key desc"  # as in the index
            found = read(is_later, [time, time, key], by_time, limit + 1)
            key = LIST_START.key
        if len(found) <= limit:  # documents without any date come last
            is_undated = f"{_CHANGED} is null and d.key < ?"
            found += read(is_undated, [key], "d.key desc", limit + 1 - len(found))
    summaries = summaries_by_key(db, [key for _, key in found[:limit]])
    return summaries, found[limit - 1] if len(found) > limit else None


def list_position(db: Database, id: str, filter: Filter, search: str) -> int | None:
    """See Store.list_position."""
    key = key_of(db, id)
    where, values = db.conditions(resolve_senders(db, filter), search)
    listed = db.rows(
        f"select {_CHANGED} from document d where {db.own('d')} and d.key = ? and {where}",
        (key, *values),
    )
    if not listed:
        return None
    ((time,),) = listed
    is_before = f"({_CHANGED} is not null or d.key > ?)"
    bounds = [key]
    if time is not None:
        is_before = f"({_CHANGED} > ? or ({_CHANGED} = ? and d.key > ?))"
        bounds = [time, time, key]
    count: int = db.get(
        f"select count(*) from document d where {db.own('d')} and {is_before} and {where}",
        (*bounds, *values),
    )
    return count


def decode_summary(row: Sequence[Any]) -> Summary:
    """A summary from a row of SUMMARY_COLUMNS."""
    *texts, created_at, updated_at, count, metadata, original, version = row
    fields = dict(zip(_SUMMARY_TEXTS, texts, strict=True))
    fields |= original_texts(original, _SUMMARY_TEXTS)
    return Summary(
        **fields,
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        message_count=count,
        metadata=load(metadata),
        version=version,
    )


# -- passages ---


def is_linear(db: Database, id: str) -> bool:
    """See Store.is_linear."""
    branch = db.rows(
        f"select 1 from passage where {db.own()} and document = ? and not canonical limit 1",
        (key_of(db, id),),
    )
    return not branch


def positions(db: Database, id: str) -> list[Position]:
    """See Store.positions."""
    rows = db.rows(
        "select key, id, parent, position, canonical from passage "
        f"where {db.own()} and document = ? order by position",
        (key_of(db, id),),
    )
    return [
        Position(key, id_, parent, position, bool(canonical))
        for key, id_, parent, position, canonical in rows
    ]


def passage_page(db: Database, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
    """See Store.passage_page."""
    key = key_of(db, id)
    rows = db.rows(
        f"select {_PASSAGE_COLUMNS} from passage p "
        f"where {db.own('p')} and p.document = ? and p.position >= ? "
        "order by p.position limit ?",
        (key, position, limit),
    )
    total: int = db.get(f"select passages from document where {db.own()} and key = ?", (key,))
    return [decode_passage(row) for row in rows], total


def passages_by_key(db: Database, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
    """See Store.passages_by_key."""
    members, value = db.in_list(list(keys))
    rows = db.rows(
        f"select p.key, d.id, {_PASSAGE_COLUMNS} "
        f"from passage p {db.by_key('document', 'd', 'p.document')} "
        f"where {db.own('p')} and p.key in ({members})",
        (value,),
    )
    return {key: (document, decode_passage(tuple(row))) for key, document, *row in rows}


def read_row(db: Database, key: int) -> tuple[Any, ...]:
    """The columns of a passage."""
    (row,) = db.rows(
        f"select {_PASSAGE_COLUMNS} from passage p where {db.own('p')} and p.key = ?", (key,)
    )
    return row
