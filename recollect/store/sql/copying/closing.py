"""Libraries that are closed: nobody may write to them, except whoever moves them.

The target of a move is closed until the move is complete, and the source from the moment when the
target takes over. The reason is in `last_key`, which every write reads in its transaction.
"""

from __future__ import annotations

import json
from pathlib import Path

from recollect.errors import LibraryMoved
from recollect.store.sql.database import Database
from recollect.store.values import Closure


def closure(db: Database) -> Closure | None:
    """Why nobody may write to the library, or None."""
    return parse_closure(db.get(f"select closed from {db.own_rows('last_key')}"))


def parse_closure(text: str | None) -> Closure | None:
    if text is None:
        return None
    return Closure(**json.loads(text))


def close(db: Database, reason: Closure | None) -> None:
    """Close a library, or open it again."""
    text = None
    if reason is not None:
        text = json.dumps(reason._asdict())
    db.run(f"update last_key set closed = ? where {db.own()}", (text,))


def closed_error(path: Path | str, reason: Closure) -> LibraryMoved:
    if reason.moved_to:
        return LibraryMoved(
            f"The library at {path} was moved to {reason.moved_to}. Nothing was written here; "
            "use the library at its new place."
        )
    return LibraryMoved(
        f"A library is being moved into {path}, so nothing was written. Try again when the move is "
        "complete."
    )
