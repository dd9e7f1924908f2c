"""How much there is in a library, the same in every database."""

from __future__ import annotations

from recollect.model import CONVERSATION
from recollect.store.database import Database
from recollect.text import from_micros, iso


def counted(db: Database) -> dict[str, object]:
    def grouped(sql: str) -> dict[str, int]:
        return {str(name): count for name, count in db.rows(sql)}

    ((first, last),) = db.rows("select min(created_at), max(created_at) from passage")
    messages = "from passage p join document d on d.key = p.document and d.source = 'conversation'"
    return {
        "conversations": db.get("select count(*) from document where source = ?", (CONVERSATION,)),
        "messages": db.get(f"select count(*) {messages}"),
        "notes": db.get("select count(*) from document where source = 'note'"),
        "alternates": db.get("select count(*) from passage where not canonical"),
        "origins": grouped("select origin, count(*) from document group by 1 order by 2 desc"),
        "namespaces": grouped("select namespace, count(*) from document group by 1 order by 2 desc limit 100"),
        "roles": grouped(f"select coalesce(role, 'unknown'), count(*) {messages} group by 1 order by 2 desc"),
        "models": grouped(
            "select model, count(*) from passage where model is not null group by 1 order by 2 desc limit 100"
        ),
        "first": iso(from_micros(first)),
        "last": iso(from_micros(last)),
        "imports": db.get("select count(*) from receipt where undone_at is null"),
        "words": db.get("select count(*) from word"),
    }
