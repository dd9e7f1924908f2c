"""Passages with what belongs to them, where a statement may read all passages of a user.

See `Connection.by_key`.
"""

from __future__ import annotations

from recollect.store.postgres.connection import Connection


def passages_and_documents(db: Connection) -> str:
    """The passages `p` and their documents `d`."""
    return f"passage p {db.by_key('document', 'd', 'p.document')}"


def passages_and_words(db: Connection) -> str:
    """The passages `p`, their entries in the text index `t` and their documents `d`."""
    entries = db.by_key("passage_text", "t", "p.key")
    return f"passage p {entries} {db.by_key('document', 'd', 'p.document')}"
