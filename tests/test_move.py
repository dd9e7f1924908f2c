"""A move copies every value and receipt of a library, in every direction, despite interruptions."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from kills import KILLS, run_and_kill
from selection import few

import recollect
import recollect.places
from recollect import Document, Filter, Passage
from recollect.cli import main
from recollect.errors import InvalidInput, LibraryMoved, NotFound, RecollectError, StoreBusy
from recollect.language.queries.query import parse
from recollect.model.kinds import NOTE
from recollect.store.base import Store
from recollect.store.sql import transfer
from recollect.store.values import Batch
from recollect.transfer import moving

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
DIRECTIONS = [
    ("sqlite", "postgres"),
    ("postgres", "sqlite"),
    pytest.param("sqlite", "sqlite", marks=pytest.mark.full),
    pytest.param("postgres", "postgres", marks=pytest.mark.full),
]
TO_POSTGRES_AND_BACK = [
    ("sqlite", "postgres"),
    pytest.param("postgres", "sqlite", marks=pytest.mark.full),
]


class Place:
    """A user's library at a place."""

    def __init__(self, where: str, user: str) -> None:
        self.where = where
        self.user = user

    def store(self) -> Store:
        where = recollect.places.place(self.where)
        return recollect.places.open_store(where, self.user)

    def library(self) -> recollect.Library:
        return recollect.open(self.where, self.user, background=False)

    def exists(self) -> bool:
        return recollect.places.exists(recollect.places.place(self.where), self.user)


Places = Callable[[str], Place]


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """New places for libraries, by the kind of store."""

    def new(kind: str) -> Place:
        user = f"user-{uuid.uuid4()}"
        if kind == "sqlite":
            return Place(str(tmp_path / user), user)
        url = request.getfixturevalue("database")
        return Place(url, user)

    return new


def move(source: Place, target: Place, **options: Any) -> moving.MoveResult:
    return recollect.places.move(source.where, target.where, source.user, target.user, **options)


def message(id: str, content: str, minutes: int = 0, **fields: Any) -> Passage:
    return Passage(
        id,
        fields.pop("role", "user"),
        content,
        created_at=NOON + timedelta(minutes=minutes),
        **fields,
    )


def conversation(id: str, *passages: Passage, **fields: Any) -> Document:
    defaults = {"title": f"Talk {id}", "created_at": NOON, "updated_at": NOON, "source": "test"}
    return Document(source_id=id, passages=passages, **(defaults | fields))


def fill(store: Store) -> None:
    """Fill a library with one of everything that a move must copy."""
    first = store.start_import("first.zip")
    store.save(
        [
            conversation(
                "c1",
                message("a", "one"),
                message("b", "two", 1, parent="a"),
                message("c", "left", 2, parent="a"),
                head="b",
                metadata={"tags": ["garden"]},
            ),
            conversation(
                "c2",
                message("x", "nul \0 and \ud800 half"),
                title="odd \udfff \0 title",
                project="\ud83d",
            ),
            conversation("c3", message("s1", "shared"), shared_ids=True),
            conversation(
                "c4", message("s1", "shared"), message("s2", "of its own"), shared_ids=True
            ),
            conversation("c1", message("a", "of another origin"), source="other"),
            conversation("n1", message("p", "a note"), kind=NOTE),
            conversation(
                "c5",
                message("h", "hidden", visibility="hidden", role=None, type="context"),
                partial=True,
            ),
            conversation("gone", message("g", "will be deleted")),
        ],
        first.id,
    )
    first.finished_at = NOON
    store.update_receipt(first)
    second = store.start_import("second.zip")
    later = NOON + timedelta(days=1)
    store.save(
        [
            conversation(
                "c1",
                message("a", "one changed"),
                message("b", "two", 1, parent="a"),
                message("d", "more", 9),
                title="Renamed",
                updated_at=later,
            )
        ],
        second.id,
    )
    third = store.start_import("third.zip")
    store.save([conversation("c6", message("t", "taken back"))], third.id)
    store.undo_import(third.id)
    store.save([conversation("empty")])
    store.append(
        "c2",
        Passage("y", "assistant", "appended", attachments=({"name": "x.png"},), citations=("u",)),
    )
    store.delete("gone")


def rows(store: Store, *, receipts: bool = True) -> dict[str, list[tuple[Any, ...]]]:
    parts: dict[str, list[tuple[Any, ...]]] = {}

    def receive(batch: Batch) -> None:
        parts.setdefault(batch.table, []).extend(batch.rows)

    store.export_batches(receive)
    if not receipts:
        del parts["receipt"]
    return parts


def is_same(one: Store, other: Store) -> bool:
    """Whether two libraries have the same contents, as stored and as read."""
    return (
        rows(one) == rows(other)
        and one.export_batches() == other.export_batches()
        and list(one.iter_documents(Filter())) == list(other.iter_documents(Filter()))
        and one.receipts() == other.receipts()
        and one.size() == other.size()
    )


# -- what is moved -------------------------------------------------------------


@pytest.mark.parametrize(("here", "there"), DIRECTIONS)
def test_a_moved_library_is_identical(places: Places, here: str, there: str) -> None:
    source, target = places(here), places(there)
    old = source.store()
    fill(old)
    moved = move(source, target)
    new = target.store()
    assert is_same(old, new)
    assert (moved.copied, moved.removed) == (True, False)
    counts = moved.contents
    assert (counts.conversations, counts.notes, counts.messages, counts.imports) == (7, 1, 11, 3)
    assert new.verify().healthy
    assert new.get_marker(transfer.MOVING) is None
    old.close()
    new.close()


@pytest.mark.full
@pytest.mark.parametrize(("here", "there"), DIRECTIONS)
def test_undoing_an_import_works_the_same_after_a_move(
    places: Places, here: str, there: str
) -> None:
    source, target = places(here), places(there)
    old = source.store()
    fill(old)
    move(source, target)
    new = target.store()
    for receipt in (2, 1):
        for store in (old, new):
            store.undo_import(receipt)
        assert rows(old, receipts=False) == rows(new, receipts=False)
        assert new.verify().healthy
    old.close()
    new.close()


def test_every_column_that_is_not_derived_is_copied(places: Places) -> None:
    postgres, sqlite = places("postgres").store(), places("sqlite").store()
    types = postgres._transactions.server.types  # type: ignore[attr-defined]
    of_documents = {"media_type", "character_id", "pinned", "heading"}
    of_documents |= {"folded_title", "folded_id", "tags", "tag_names"}
    for part in transfer.TABLES.values():
        both: set[str] = set()
        if part.name == "document":
            both = of_documents
        with sqlite._connections.read() as db:  # type: ignore[attr-defined]
            there = {
                name
                for (name,) in db.execute("select name from pragma_table_xinfo(?)", (part.name,))
            }
        # What `content`, `metadata`, `id` and `parent` are computed from.
        there -= {"body", "details", "packed_id", "parent_id"}
        derived = both | {"owner", "title_words"}
        assert set(part.columns) == there - both == types[part.name].keys() - derived
    postgres.close()
    sqlite.close()


# -- interruptions -------------------------------------------------------------


class Killed(BaseException):
    pass


def interrupt(
    target: type[Store], method: str, calls: int, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    """Make a call of a method raise Killed, before or after its work."""
    real = getattr(target, method)
    remaining = [calls]

    def counting(self: Store, *arguments: Any) -> Any:
        remaining[0] -= 1
        if remaining[0] == 0 and not after:
            raise Killed
        value = real(self, *arguments)
        if remaining[0] == 0:
            raise Killed
        return value

    monkeypatch.setattr(target, method, counting)


MOVER = """
import sys
from recollect import places
from recollect.store.sql import transfer
transfer.MAX_BATCH_ROWS = 40
places.move(*sys.argv[1:5], switch=True, progress=lambda *step: print(*step, flush=True))
"""


@pytest.mark.full
@pytest.mark.parametrize(("here", "there"), TO_POSTGRES_AND_BACK)
def test_a_move_survives_kills_and_finishes_when_run_again(
    places: Places, here: str, there: str
) -> None:
    rng = random.Random(here)
    source, target = places(here), places(there)
    old = source.store()
    fill(old)
    receipt = old.start_import("large.zip")
    old.save(
        [
            conversation(
                f"k{c}",
                *(message(f"k{c}m{m}", f"word{c}x{m} " + "filler " * 60) for m in range(20)),
            )
            for c in range(60)
        ],
        receipt.id,
    )
    for _ in range(max(2, KILLS // 12)):
        arguments = (source.where, target.where, source.user, target.user)
        run_and_kill(MOVER, *arguments, lines=rng.randint(0, 45))
    assert move(source, target, switch=True).closed
    new = target.store()
    assert is_same(old, new)
    assert new.count(parse("filler"), Filter())[0] == 1_200
    assert new.verify().healthy
    old.close()
    new.close()


@pytest.mark.parametrize(("here", "there"), TO_POSTGRES_AND_BACK)
@pytest.mark.parametrize("after", [False, True])
def test_a_move_that_removes_the_source_resumes_from_any_point(
    places: Places, here: str, there: str, after: bool
) -> None:
    source, target, copy = places(here), places(there), places(here)
    old = source.store()
    fill(old)
    move(source, copy)
    kind = type(old)
    old.close()
    with pytest.MonkeyPatch.context() as patch:
        interrupt(kind, "remove_library", 1, patch, after=after)
        with pytest.raises(Killed):
            move(source, target, remove=True)
    assert source.exists() is not after
    with pytest.raises(InvalidInput, match="Nothing was removed"):
        recollect.places.abort_move(target.where, target.user)
    assert move(source, target, remove=True).removed
    assert not source.exists()
    reference, new = copy.store(), target.store()
    assert is_same(reference, new)
    reference.close()
    new.close()


# -- writes during a move ------------------------------------------------------


@pytest.mark.parametrize(("here", "there"), TO_POSTGRES_AND_BACK)
@pytest.mark.parametrize("switch", [True, False])
def test_what_is_written_during_a_move_is_refused_or_stays_at_the_source(
    places: Places, here: str, there: str, switch: bool
) -> None:
    source, target = places(here), places(there)
    old = source.store()
    fill(old)
    errors: list[Exception] = []

    def write(what: str, done: int, total: int) -> None:
        if what == "Copying":
            try:
                old.append("c1", message("late", "came late", 99))
            except LibraryMoved as error:
                errors.append(error)

    assert move(source, target, switch=switch, progress=write).closed == switch
    new = target.store()
    assert bool(errors) == switch
    assert "late" not in [p.id for p in new.document("c1").passages]
    assert ("late" in [p.id for p in old.document("c1").passages]) != switch
    new.append("c1", message("after", "written at the new place", 999))
    assert new.verify().healthy
    old.close()
    new.close()
    if switch:
        with pytest.raises(LibraryMoved, match="was moved to"):
            source.library()
        with pytest.raises(InvalidInput, match="not to"):
            move(source, places("sqlite"), remove=True)
        assert move(source, target, remove=True).removed
        assert not source.exists()


def test_a_closed_library_can_be_opened_again(places: Places) -> None:
    source, target = places("sqlite"), places("sqlite")
    store = source.store()
    fill(store)
    with pytest.raises(InvalidInput, match="is not closed"):
        recollect.places.reopen(source.where, source.user)
    move(source, target, switch=True)
    recollect.places.reopen(source.where, source.user)
    store.append("c1", message("more", "here again"))
    store.close()
    with pytest.raises(InvalidInput, match="has conversations already"):
        move(source, target, remove=True)
    assert source.store().closure() is None


def test_a_library_in_use_is_not_removed(places: Places) -> None:
    source, target = places("sqlite"), places("sqlite")
    old = source.store()
    fill(old)
    with pytest.raises(StoreBusy, match="open"):
        move(source, target, remove=True)
    assert old.document("c1")
    old.close()
    assert move(source, target, remove=True).removed


def test_a_value_that_differs_in_the_copy_is_reported_and_the_source_stays(places: Places) -> None:
    source, target = places("sqlite"), places("sqlite")
    old = source.store()
    fill(old)
    old.close()
    target.store().close()
    db = apsw.Connection(str(recollect.places.library_file(Path(target.where), target.user)))
    db.execute("""create trigger lossy after insert on passage when new.id = 'y' begin
      update passage set author = 'somebody else' where key = new.key; end""")
    with pytest.raises(RecollectError, match="differs from it"):
        move(source, target, remove=True)
    with source.library() as library:
        assert library.conversation("c1")
    db.execute("drop trigger lossy")
    db.close()
    assert move(source, target, remove=True).removed


# -- other users ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_other_users_are_not_affected(places: Places, kind: str) -> None:
    source, target = places("sqlite"), places(kind)
    neighbour = Place(target.where, f"user-{uuid.uuid4()}")
    beside = Place(source.where, neighbour.user)
    for place in (source, neighbour, beside):
        store = place.store()
        fill(store)
        store.close()
    theirs = neighbour.store()
    before = rows(theirs)
    move(source, target, remove=True)
    assert rows(theirs) == before
    assert theirs.verify().healthy
    assert beside.exists()
    recollect.places.move(target.where, source.where, target.user, source.user, remove=True)
    assert rows(theirs) == before
    assert not target.exists()
    theirs.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_removing_deletes_all_of_the_library_and_nothing_else(places: Places, kind: str) -> None:
    source, target = places(kind), places("sqlite")
    with source.library() as full:
        fill(full._store)
        full.index()
    folder = recollect.places.library_file(Path(source.where), source.user).parent
    if kind == "sqlite":
        (folder / "mine.txt").write_text("not part of the library")
    move(source, target, remove=True)
    if kind == "sqlite":
        assert [f.name for f in folder.iterdir()] == ["mine.txt"]
    else:
        import psycopg

        with psycopg.connect(source.where) as db:
            ((owner,),) = db.execute(
                "select id from recollect.account where name = %s", [source.user]
            ).fetchall()
            tables = [
                t
                for (t,) in db.execute(
                    "select c.relname from pg_class c "
                    "join pg_namespace n on n.oid = c.relnamespace "
                    "join pg_attribute a on a.attrelid = c.oid and a.attname = 'owner' "
                    "where n.nspname = 'recollect' and c.relkind in ('r', 'p') "
                    "and not c.relispartition"
                )
            ]
            assert len(tables) >= 12
            for table in tables:
                assert not db.execute(
                    f"select from recollect.{table} where owner = %s", [owner]
                ).fetchone()
    with source.library() as fresh:
        assert fresh.stats()["conversations"] == 0


# -- errors --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_target_with_conversations_is_refused(places: Places, kind: str) -> None:
    source, target = places("sqlite"), places(kind)
    for place, id in ((source, "c1"), (target, "c2")):
        with place.library() as existing:
            existing.add_conversation(id, messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(InvalidInput, match="recollect import"):
        move(source, target)
    with target.library() as untouched:
        assert [c.id for c in untouched.conversation_page()[0]] == ["c2"]
    with pytest.raises(InvalidInput, match="is complete"):
        recollect.places.abort_move(target.where, target.user)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_same_library_under_two_names_is_refused(
    places: Places, tmp_path: Path, kind: str
) -> None:
    source = places(kind)
    with source.library() as full:
        fill(full._store)
    if kind == "sqlite":
        (tmp_path / "link").symlink_to(source.where)
        alias = Place(str(tmp_path / "link"), source.user)
    else:
        alias = Place(source.where + "&application_name=other", source.user)
    for target in (source, alias):
        with pytest.raises(InvalidInput, match="same library"):
            move(source, target, remove=True)
    with source.library() as original:
        assert original.conversation("c1")


def test_a_finished_move_can_be_run_again(places: Places) -> None:
    source, target = places("sqlite"), places("postgres")
    with source.library() as full:
        fill(full._store)
    first = move(source, target)
    again = move(source, target)
    assert (again.contents, again.copied, again.removed) == (first.contents, False, False)
    last = move(source, target, remove=True)
    assert (last.copied, last.removed, source.exists()) == (False, True, False)
    with pytest.raises(NotFound, match="no library"):
        move(source, target)
    with target.library() as moved:
        assert moved.conversation("c1")


# -- the command line ----------------------------------------------------------


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str, fails: bool = False) -> str:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A folder with a small library."""
    with recollect.open(tmp_path / "home") as library:
        library.add_conversation(
            "c1", messages=[{"role": "user", "content": "Where is the valve?"}]
        )
    return str(tmp_path / "home")


def test_a_move_indexes_the_target_unless_disabled(
    run: Any, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    assert "Indexed 1 passage by meaning" in run("move", home, str(tmp_path / "one"))
    assert "Indexed" not in run("move", home, str(tmp_path / "two"), "--no-index")
    page = json.loads(
        run("search", "valve", "--mode", "vector", "--json", "--home", str(tmp_path / "one"))
    )
    assert page["total"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    few(
        [
            (["move", "{home}", "{home}"], "same library"),
            (["move", "/nowhere/at/all", "{new}"], "There is no library of 'default'"),
            (["move", "{home}", "{full}"], "has conversations already"),
            (["move", "{home}", "mysql://server/x"], "not supported"),
            (["move", "{home}", "postgresql://nobody@localhost:1/none"], "cannot be reached"),
            (["move", "postgresql://nobody@localhost:1/none", "{new}"], "cannot be reached"),
            (["move", "{home}", "{new}", "--user", "ann"], "There is no library of 'ann'"),
            (["move", "{home}", "{new}", "--home", "{home}"], "FROM and TO"),
            (["move", "{home}", "{new}", "--abort"], "There is no library"),
            (["move", "{home}", "{full}", "--abort"], "is complete"),
        ],
        4,
    ),
)
def test_a_mistake_is_reported_and_nothing_is_created(
    run: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    names = {name: str(tmp_path / name) for name in ("home", "new", "full")}
    for name in ("home", "full"):
        with recollect.open(names[name]) as library:
            library.add_conversation(f"{name}-1", messages=[{"role": "user", "content": name}])
    assert message in run(*(a.format(**names) for a in arguments), fails=True)
    assert not Path(names["new"]).exists()
    for name in ("home", "full"):
        with recollect.open(names[name]) as library:
            assert library.conversation(f"{name}-1")


def test_every_command_reports_an_unfinished_move_which_can_be_aborted(
    run: Any, home: str, tmp_path: Path
) -> None:
    there = str(tmp_path / "there")
    with recollect.open(there) as target:
        kind = type(target._store._store._store)
    with pytest.MonkeyPatch.context() as patch:

        def press_ctrl_c(self: Store, batch: Batch, real: Any = kind.import_batch) -> None:
            if batch.table == "passage":
                raise KeyboardInterrupt
            real(self, batch)

        patch.setattr(kind, "import_batch", press_ctrl_c)
        assert "was interrupted" in run("move", home, there, fails=True)
    for command in (["stats"], ["list"], ["search", "x"]):
        assert "incomplete" in run(*command, "--home", there, fails=True)
    assert "was removed" in run("move", home, there, "--abort")
    assert not (tmp_path / "there" / "users" / "default").exists()
    run("move", home, there)
    assert json.loads(run("stats", "--home", there, "--json"))["messages"] == 1


def test_a_database_of_another_program_is_not_changed(run: Any, home: str, tmp_path: Path) -> None:
    there = tmp_path / "there" / "users" / "default" / "library.db"
    there.parent.mkdir(parents=True)
    db = apsw.Connection(str(there))
    db.execute("create table other (x)")
    db.close()
    assert "another program" in run("move", home, str(tmp_path / "there"), fails=True)
