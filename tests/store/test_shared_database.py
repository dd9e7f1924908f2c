"""The database that the servers of one installation share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from logins import login, of, own_database, superuser

from recollect import places
from recollect.backup.files import files_to_back_up
from recollect.checkup import check_server_database
from recollect.errors import DamagedLibrary, RecollectError
from recollect.store.shared.database import SharedDatabase, Tables

Open = Callable[[], SharedDatabase]

FRUIT = Tables(
    "fruit",
    (
        "create table fruit (number {identity}, name text not null unique, seed {bytes})",
        "create index fruit_seed on fruit (seed)",
    ),
)


@pytest.fixture(params=["sqlite", "postgres"])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | Path]:
    if request.param == "sqlite":
        yield tmp_path / "home"
        return
    url: str = request.getfixturevalue("database")
    yield url
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("drop schema if exists recollect_server cascade")


@pytest.fixture
def open_server(shared_place: str | Path) -> Iterator[Open]:
    """Open the database as another server would."""
    databases: list[SharedDatabase] = []

    def open_database() -> SharedDatabase:
        database = places.shared_database(shared_place)
        databases.append(database)
        return database

    yield open_database
    for database in databases:
        database.close()


def names(database: SharedDatabase) -> list[str]:
    rows = database.execute(FRUIT, "select name from fruit order by number")
    return [name for (name,) in rows]


def test_an_error_rolls_the_transaction_back(open_server: Open) -> None:
    database = open_server()
    with pytest.raises(ZeroDivisionError), database.transaction(FRUIT) as db:
        db.run("insert into fruit (name) values (?)", ("pear",))
        raise ZeroDivisionError
    with pytest.raises(RecollectError), database.transaction(FRUIT) as db:
        db.run("insert into fruit (name) values (?)", ("pear",))
        db.run("insert into fruit (name) values (?)", ("pear",))
    assert names(database) == []


def test_the_clock_is_that_of_the_database(open_server: Open) -> None:
    database = open_server()
    ((earlier,),) = database.execute(FRUIT, f"select {database.now}")
    with database.transaction(FRUIT) as db:
        later = db.get(f"select {db.now}")
    assert isinstance(earlier, int)
    assert 1_700_000_000_000_000 < earlier <= later < earlier + 60_000_000


def test_servers_that_start_together_create_the_tables_once(open_server: Open) -> None:
    databases = [open_server() for _ in range(4)]
    problems: list[Exception] = []

    def insert(number: int) -> None:
        try:
            with databases[number].transaction(FRUIT) as db:
                db.run("insert into fruit (name) values (?)", (str(number),))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sorted(names(databases[0])) == ["0", "1", "2", "3"]


def test_read_only_mode_reads_what_there_is(
    open_server: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_server()
    database.execute(FRUIT, "insert into fruit (name) values ('pear')")
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    assert names(open_server()) == ["pear"]


def test_a_file_that_cannot_be_created_reads_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with closing(places.shared_database(tmp_path / "home")) as database:
        assert names(database) == []
    assert not (tmp_path / "home").exists()


# -- the file ---


def test_the_file_is_private_and_created_with_the_first_use(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(places.shared_database(home)) as database:
        assert not home.exists()
        database.execute(FRUIT, "insert into fruit (name) values ('pear')")
        files = sorted(home.iterdir())
        assert [file.name for file in files] == ["server.db", "server.db-shm", "server.db-wal"]
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3


def test_a_deleted_file_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    with closing(places.shared_database(tmp_path)) as database:
        database.execute(FRUIT, "insert into fruit (name) values ('pear')")
        for file in tmp_path.iterdir():
            file.unlink()
        assert names(database) == []
        database.execute(FRUIT, "insert into fruit (name) values ('plum')")
        assert names(database) == ["plum"]


def test_a_damaged_file_says_that_it_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "server.db").write_bytes(b"no database" * 1_000)
    with (
        closing(places.shared_database(tmp_path)) as database,
        pytest.raises(DamagedLibrary, match="delete it"),
    ):
        names(database)
    assert check_server_database(tmp_path)


def test_a_backup_omits_the_file(tmp_path: Path) -> None:
    with closing(places.shared_database(tmp_path)) as database:
        database.execute(FRUIT, "insert into fruit (name) values ('pear')")
    assert files_to_back_up(tmp_path) == []


# -- the schema ---


@pytest.mark.full
def test_another_login_needs_the_role(database: str) -> None:
    server = superuser()
    with own_database(server) as url, login(server) as name:
        with closing(places.shared_database(url)) as database:
            database.execute(FRUIT, "insert into fruit (name) values ('pear')")
        other = places.shared_database(of(url, name))
        with closing(other), pytest.raises(RecollectError, match="grant recollect_server"):
            names(other)
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"grant recollect_server to {name}")
        with closing(places.shared_database(of(url, name))) as database:
            assert names(database) == ["pear"]


def test_the_role_of_the_application_has_no_access(database: str) -> None:
    with closing(places.shared_database(database)) as shared:
        names(shared)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("set role recollect_app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("select * from recollect_server.fruit")
        db.execute("reset role; drop schema recollect_server cascade")


def test_a_connection_that_the_server_closed_is_replaced(database: str) -> None:
    with closing(places.shared_database(database)) as shared:
        names(shared)
        with psycopg.connect(database, autocommit=True) as db:
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'recollect server' and datname = current_database()"
            )
            assert names(shared) == []
            db.execute("drop schema recollect_server cascade")
