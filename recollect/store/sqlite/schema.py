"""Create the tables of a library (`schema.sql`), and check that a file has them."""

from __future__ import annotations

from pathlib import Path

import apsw

from recollect.errors import DamagedLibrary, NewerLibrary
from recollect.store.sqlite.encryption import is_encrypted

APPLICATION_ID = 0x5265636F  # "Reco"
VERSION = 1
_SCRIPT = Path(__file__).with_name("schema.sql")


def create(db: apsw.Connection, path: Path) -> None:
    """Create the tables of a library, unless it has them."""
    if is_created(db, path):
        return
    script = _SCRIPT.read_text(encoding="utf-8")
    if is_encrypted(path):
        script = script.replace("detail=none", "detail=full")  # see text_index.py
    db.execute("begin immediate")
    try:
        if not is_created(db, path):  # another process may have created it meanwhile
            db.execute(script)
            db.execute(f"pragma user_version = {VERSION}")
            db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute("commit")
    except BaseException:  # also Ctrl-C: a library has all tables or none
        db.execute("rollback")
        raise


def is_created(db: apsw.Connection, path: Path) -> bool:
    """Whether the file has the tables of this version. Raises NewerLibrary or DamagedLibrary."""
    # In this order: another process may create the library meanwhile, with its tables and its
    # application id in one transaction.
    has_tables = bool(db.execute("select count(*) from sqlite_schema").get)
    application: int = db.pragma("application_id")
    version: int = db.pragma("user_version")
    if has_tables and application != APPLICATION_ID:
        raise DamagedLibrary(f"{path} is a database of another program, not a Recollect library.")
    if version > VERSION:
        raise NewerLibrary(
            f"{path} was written by another version of Recollect (schema {version}; this one has "
            f"schema {VERSION}). Nothing was changed. Open it with that version, and move what it "
            "has with `recollect export` and `recollect import`."
        )
    return version == VERSION
