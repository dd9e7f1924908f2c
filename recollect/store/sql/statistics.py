"""How much there is in a library, the same in every database."""

from __future__ import annotations

from collections import Counter

from recollect.language.text import from_micros, iso
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import load
from recollect.store.values import Activity


def counted(db: Database) -> dict[str, object]:
    def grouped(sql: str) -> dict[str, int]:
        return {str(name): count for name, count in db.rows(sql)}

    ((first, last),) = db.rows("select min(created_at), max(created_at) from passage")
    messages = "from passage p join document d on d.key = p.document and d.kind = 'conversation'"
    return {
        "conversations": _of_kind(db, CONVERSATION),
        "messages": db.get(f"select count(*) {messages}"),
        "notes": _of_kind(db, NOTE),
        "media": _of_kind(db, MEDIA),
        "characters": _of_kind(db, CHARACTER),
        "prompts": _of_kind(db, PROMPT),
        "alternates": db.get("select count(*) from passage where not canonical"),
        "sources": grouped("select source, count(*) from document group by 1 order by 2 desc"),
        "projects": grouped(
            "select project, count(*) from document group by 1 order by 2 desc limit 100"
        ),
        "roles": grouped(
            f"select coalesce(role, 'unknown'), count(*) {messages} group by 1 order by 2 desc"
        ),
        "models": grouped(
            "select model, count(*) from passage where model is not null group by 1 order by 2 desc limit 100"
        ),
        "first": iso(from_micros(first)),
        "last": iso(from_micros(last)),
        "imports": db.get("select count(*) from receipt where undone_at is null"),
        "words": db.get("select count(*) from word"),
    }


def _of_kind(db: Database, kind: str) -> int:
    return int(db.get("select count(*) from document where kind = ?", (kind,)))


def facets(db: Database, kind: str) -> dict[str, list[tuple[str, int]]]:
    """See Store.facets."""
    tags: Counter[str] = Counter()
    tagged = """select metadata from document where kind = ? and metadata like '%"tags"%'"""
    for (metadata,) in db.rows(tagged, (kind,)):
        given = load(metadata).get("tags")
        tags.update(str(tag) for tag in (given if isinstance(given, list) else [given]) if tag)
    return {
        "projects": _most(db, "project", "document where kind = ?", kind),
        "sources": _most(db, "source", "document where kind = ?", kind),
        "tags": tags.most_common(_LISTED),
    }


def media_types(db: Database) -> list[tuple[str, int]]:
    """See Store.media_types."""
    return _most(db, "media_type", "document where media_type is not null and kind = ?", MEDIA)


def activity(db: Database) -> Activity:
    """See Store.activity."""
    hours = db.rows(
        f"select created_at / {_HOUR}, count(*) from passage where created_at is not null group by 1 order by 1"
    )
    return Activity(
        hours=[(int(hour), count) for hour, count in hours],
        sources=_summed(db, "source"),
        projects=_summed(db, "project"),
        models=_most(db, "model", "passage where model is not null"),
        tools=_most(db, "tool", "passage where tool is not null and type <> 'tool_result'"),
    )


_LISTED = 200
_HOUR = 3_600_000_000  # microseconds


def _most(db: Database, column: str, rows: str, *values: str) -> list[tuple[str, int]]:
    return [
        (str(name), count)
        for name, count in db.rows(
            f"select {column}, count(*) from {rows} group by 1 order by 2 desc, 1 limit {_LISTED}",
            values,
        )
    ]


def _summed(db: Database, column: str) -> list[tuple[str, int]]:
    return [
        (str(name), int(count))
        for name, count in db.rows(
            f"select {column}, sum(passages) from document group by 1 order by 2 desc, 1 limit {_LISTED}"
        )
    ]
