"""Counts of what a library contains, the same for both databases."""

from __future__ import annotations

from collections import Counter

from recollect.language.text import from_micros, iso
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import load
from recollect.store.values import Activity

_MAX_NAMES = 200
_MICROSECONDS_PER_HOUR = 3_600_000_000
_MESSAGES = "from passage p join document d on d.key = p.document and d.kind = 'conversation'"


def library_counts(db: Database) -> dict[str, object]:
    """The counts of Store.stats that do not depend on the database."""

    def grouped(sql: str) -> dict[str, int]:
        return {str(name): count for name, count in db.rows(f"{sql} group by 1 order by 2 desc")}

    ((first, last),) = db.rows("select min(created_at), max(created_at) from passage")
    return {
        "conversations": _count_kind(db, CONVERSATION),
        "messages": db.get(f"select count(*) {_MESSAGES}"),
        "notes": _count_kind(db, NOTE),
        "media": _count_kind(db, MEDIA),
        "characters": _count_kind(db, CHARACTER),
        "prompts": _count_kind(db, PROMPT),
        "alternates": db.get("select count(*) from passage where not canonical"),
        "sources": grouped("select source, count(*) from document"),
        "projects": dict(_most_frequent(db, "project", "document")[:100]),
        "roles": grouped(f"select coalesce(role, 'unknown'), count(*) {_MESSAGES}"),
        "models": dict(_most_frequent(db, "model", "passage where model is not null")[:100]),
        "first": iso(from_micros(first)),
        "last": iso(from_micros(last)),
        "imports": db.get("select count(*) from receipt where undone_at is null"),
        "words": db.get("select count(*) from word"),
    }


def _count_kind(db: Database, kind: str) -> int:
    return int(db.get("select count(*) from document where kind = ?", (kind,)))


def facets(db: Database, kind: str) -> dict[str, list[tuple[str, int]]]:
    """See Store.facets."""
    return {
        "projects": _most_frequent(db, "project", "document where kind = ?", kind),
        "sources": _most_frequent(db, "source", "document where kind = ?", kind),
        "tags": _count_tags(db, kind).most_common(_MAX_NAMES),
    }


def _count_tags(db: Database, kind: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    sql = """select metadata from document where kind = ? and metadata like '%"tags"%'"""
    for (metadata,) in db.rows(sql, (kind,)):
        tags = load(metadata).get("tags")
        if not isinstance(tags, list):
            tags = [tags]
        counts.update(str(tag) for tag in tags if tag)
    return counts


def media_types(db: Database) -> list[tuple[str, int]]:
    """See Store.media_types."""
    rows = "document where media_type is not null and kind = ?"
    return _most_frequent(db, "media_type", rows, MEDIA)


def activity(db: Database) -> Activity:
    """See Store.activity."""
    hours = db.rows(
        f"select created_at / {_MICROSECONDS_PER_HOUR}, count(*) from passage "
        "where created_at is not null group by 1 order by 1"
    )
    tool_calls = "passage where tool is not null and type <> 'tool_result'"
    return Activity(
        hours=[(int(hour), count) for hour, count in hours],
        sources=_most_passages(db, "source"),
        projects=_most_passages(db, "project"),
        models=_most_frequent(db, "model", "passage where model is not null"),
        tools=_most_frequent(db, "tool", tool_calls),
    )


def _most_frequent(db: Database, column: str, rows: str, *values: str) -> list[tuple[str, int]]:
    """The most frequent values of a column with their counts."""
    counts = db.rows(
        f"select {column}, count(*) from {rows} group by 1 order by 2 desc, 1 limit {_MAX_NAMES}",
        values,
    )
    return [(str(name), count) for name, count in counts]


def _most_passages(db: Database, column: str) -> list[tuple[str, int]]:
    """The values of a document column with the most passages."""
    counts = db.rows(
        f"select {column}, sum(passages) from document "
        f"group by 1 order by 2 desc, 1 limit {_MAX_NAMES}"
    )
    return [(str(name), int(count)) for name, count in counts]
