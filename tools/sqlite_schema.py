"""Write `recollect/store/sqlite/schema/schema.sql`, from which new libraries are created.

python -m tools.sqlite_schema

It has what all migrations together, and then opening the library, make of an empty file. Creating
that takes a tenth of the time. Migrations that are added later run after it, so it need not be
written again for each of them.
`tests/store/test_sqlite_schema.py` compares both ways.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import apsw

from recollect.store.sqlite.connections.connection import connect
from recollect.store.sqlite.schema.migrations import MIGRATIONS, SCHEMA, run_migrations
from recollect.store.sqlite.store import SqliteStore

# FTS5 creates these tables, and stores its settings in one of them.
_INDEX = "passage_text"
_SETTINGS = f"{_INDEX}_config"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.db"
        db = connect(path)
        run_migrations(db, path)
        db.close()
        SqliteStore(path).close()
        db = connect(path)
        SCHEMA.write_text(f"-- {MIGRATIONS[-1][0]}\n{schema_script(db)}")
        db.close()


def schema_script(db: apsw.Connection) -> str:
    """Statements that make an empty file like this one."""
    objects = db.execute(
        "select name, sql from sqlite_schema where sql is not null and name not glob ? "
        "and name not glob 'sqlite_*' order by rowid",
        (f"{_INDEX}_*",),
    ).fetchall()
    statements = [sql for _, sql in objects]
    for name, sql in objects:
        if sql.startswith("CREATE TABLE"):
            statements += _insertions(db, name)
    for name, value in db.execute(f"select k, v from {_SETTINGS} where k <> 'version'"):
        statements.append(f"insert into {_INDEX} ({_INDEX}, rank) values ('{name}', {value!r})")
    return "".join(f"{statement};\n" for statement in statements)


def _insertions(db: apsw.Connection, table: str) -> list[str]:
    rows = db.execute(f"select * from {table}").fetchall()
    return [
        f"insert into {table} values ({', '.join(map(apsw.format_sql_value, row))})" for row in rows
    ]


if __name__ == "__main__":
    main()
