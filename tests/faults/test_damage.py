"""Damage at random places: doctor reports it, and every message whose bytes are intact is rescued.

`make test` tries a few places; the tests marked `full` try 200 and print what was rescued.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import apsw
import pytest
from starlette.testclient import TestClient

import recollect
from recollect import Passage
from recollect.checkup import check_libraries
from recollect.cli import main
from recollect.errors import InvalidInput, RecollectError
from recollect.places import library_file, salvage
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.rest import service_routes
from recollect.store.sqlite.compression import unpack_ids
from recollect.store.sqlite.connection import connect
from recollect.transfer.damaged_file import Pages, cell_head, local_bytes
from recollect.transfer.salvage import SalvageReport, find_table_rows, read_columns

HIT_BYTES = 64
WORDS = ("tram", "castle", "ticket", "river", "night", "garden", "summer", "café", "Straße", "東京")

Ranges = list[tuple[int, int]]
Contents = dict[str, Passage]


@dataclass(frozen=True)
class Healthy:
    """A library before it was damaged."""

    home: Path
    messages: Contents
    ranges: dict[str, Ranges]
    """The bytes of the file in which each message is."""

    @property
    def file(self) -> Path:
        return library_file(self.home, "ann")


def build(home: Path, conversations: int, messages: int, *, indexed: bool) -> Healthy:
    """A library in which some messages fill several pages."""
    rnd = random.Random(7)
    with recollect.open(home, "ann", background=False) as library:
        for c in range(conversations):
            library.add_conversation(
                f"c{c}",
                f"Conversation {c}",
                messages=[
                    {
                        "id": message_id(rnd, c, n),
                        "role": "user",
                        "content": " ".join(
                            f"{rnd.choice(WORDS)}{rnd.randrange(5000)}"
                            for _ in range(rnd.choice([3, 30, 200, 4000 if n == 5 else 10]))
                        ),
                        "metadata": {"number": n, "request": rnd.random()},
                    }
                    for n in range(messages)
                ],
            )
        if indexed:
            library.index()  # builds volumes and vectors
    messages = contents(home)
    ranges = byte_ranges(library_file(home, "ann"))
    return Healthy(home, messages, {id_: ranges[id_] for id_ in messages})


def message_id(rnd: random.Random, conversation: int, number: int) -> str:
    """The ids of every other conversation are UUIDs, which are stored as bytes."""
    if conversation % 2:
        return f"c{conversation}-m{number}"
    return str(UUID(bytes=rnd.randbytes(16)))


def contents(home: Path) -> Contents:
    with recollect.open(home, "ann", background=False) as library:
        return {passage.id: passage for doc in library.documents() for passage in doc.passages}


def byte_ranges(file: Path) -> dict[str, Ranges]:
    ranges: dict[str, Ranges] = {}
    with Pages(file) as pages:
        for cell in find_table_rows(pages)[1]:
            start = (cell.page - 1) * pages.page_size
            data = pages.read(cell.page)
            size, _, position = cell_head(data, cell.offset)
            local = local_bytes(pages.usable, size, pages.usable - 35)
            extra = 0
            if local < size:
                extra = 4
            end = position + local
            own = [(start + cell.offset, start + end + extra)]
            number = int.from_bytes(data[end : end + 4], "big")
            for _ in range(0, size - local, pages.usable - 4):
                own.append(((number - 1) * pages.page_size, number * pages.page_size))
                number = int.from_bytes(pages.read(number)[:4], "big")
            (id_,) = unpack_ids([read_columns(pages, cell, "passage")["packed_id"]])
            ranges[id_] = own
    return ranges


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    return build(tmp_path_factory.mktemp("small") / "home", 4, 15, indexed=False)


@pytest.fixture
def damaged(small: Healthy, tmp_path: Path) -> Path:
    """A copy of the home, to be damaged."""
    shutil.copytree(small.home, tmp_path / "damaged")
    return tmp_path / "damaged"


def hit(file: Path, place: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data)


def rescue(damaged: Path, target: Path) -> tuple[SalvageReport, Contents]:
    report = salvage(damaged, target, "ann")
    with recollect.open(target, "ann", background=False) as library:
        assert library.verify().healthy
    messages = contents(target)
    assert report.messages == len(messages)
    return report, messages


def same_text(one: Passage | None, other: Passage) -> bool:
    return one is not None and one._replace(position=0) == other._replace(position=0)


def readable_by_sqlite(home: Path, healthy: Healthy) -> set[str]:
    """The messages that SQLite can still read, one by one."""
    readable = set()
    columns = "id, role, content, metadata"
    expected: dict[int, tuple[object, ...]] = {}
    with closing(connect(healthy.file)) as db:
        for key, *row in db.execute(f"select key, {columns} from passage"):
            expected[key] = tuple(row)
    try:
        with closing(connect(library_file(home, "ann"))) as db:
            for key, row in expected.items():
                try:
                    rows = db.rows(f"select {columns} from passage where key = ?", (key,))
                except (apsw.Error, RecollectError, ValueError, IndexError):
                    continue
                if rows == [row]:
                    readable.add(str(row[0]))
    except apsw.Error:
        pass
    return readable & healthy.messages.keys()


# -- random places ---


@dataclass
class Tally:
    places: int = 0
    messages: int = 0
    readable: int = 0
    intact: int = 0
    rescued: int = 0
    altered: int = 0
    reported: int = 0

    def __str__(self) -> str:
        return (
            f"{self.places} places damaged: {self.messages} messages, {self.readable} readable by "
            f"SQLite, {self.intact} with intact bytes, {self.rescued} rescued unchanged, "
            f"{self.altered} rescued with changes; doctor reported {self.reported} of the damaged "
            "libraries"
        )


def damage_and_rescue(
    healthy: Healthy, folder: Path, rnd: random.Random, tally: Tally, hits: int = 1
) -> None:
    damaged = folder / "damaged"
    shutil.copytree(healthy.home, damaged)
    file = library_file(damaged, "ann")
    size = file.stat().st_size
    places = [rnd.randrange(size - HIT_BYTES) for _ in range(hits)]
    for place in places:
        hit(file, place, rnd.randbytes(HIT_BYTES))
    intact = {
        id_
        for id_, ranges in healthy.ranges.items()
        if not any(
            place < end and start < place + HIT_BYTES for place in places for start, end in ranges
        )
    }
    report, rescued = rescue(damaged, folder / "rescued")
    # The copy is opened after it was rescued, because that may change it.
    readable = readable_by_sqlite(damaged, healthy)
    unchanged = {
        id_ for id_, message in healthy.messages.items() if same_text(rescued.get(id_), message)
    }
    assert readable <= unchanged
    assert intact <= unchanged
    lost = healthy.messages.keys() - unchanged
    assert len(lost) <= report.missing_messages + len(report.altered)
    (checkup,) = check_libraries(damaged, "ann")
    assert not lost or not checkup.healthy
    tally.places += hits
    tally.messages += len(healthy.messages)
    tally.readable += len(readable)
    tally.intact += len(intact)
    tally.rescued += len(unchanged)
    tally.altered += len(rescued) - len(unchanged)
    tally.reported += not checkup.healthy
    shutil.rmtree(folder)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_everything_readable_is_rescued_after_damage(
    small: Healthy, tmp_path: Path, seed: int
) -> None:
    damage_and_rescue(small, tmp_path / "try", random.Random(seed), Tally(), hits=3)


@pytest.mark.full
@pytest.mark.parametrize("hits", [1, 20])
def test_everything_readable_is_rescued_after_damage_at_200_places(
    tmp_path: Path, hits: int, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy = build(tmp_path / "home", 30, 40, indexed=True)
    index = healthy.file.with_name("index")
    assert list((index / "volumes").iterdir()) and list((index / "vectors").iterdir())
    tally = Tally()
    for seed in range(200 // hits):
        damage_and_rescue(healthy, tmp_path / "try", random.Random(seed), tally, hits)
    with capsys.disabled():
        print(f"\n{tally}")


# -- damage of one kind ---


def zero_header(file: Path) -> None:
    hit(file, 0, bytes(100))


def zero_first_page(file: Path) -> None:
    hit(file, 0, bytes(8192))


def overwrite_pointers(file: Path) -> None:
    """Overwrite the list of cells of every page with messages."""
    with Pages(file) as pages:
        numbers = {cell.page for cell in find_table_rows(pages)[1]}
    for number in numbers:
        hit(file, (number - 1) * 8192, b"\xff" * 24)


def drop_index(file: Path) -> None:
    with closing(connect(file)) as db:
        db.execute("drop table passage_text")


@pytest.mark.parametrize(
    "damage",
    [
        zero_first_page,
        overwrite_pointers,
        pytest.param(zero_header, marks=pytest.mark.full),
        pytest.param(drop_index, marks=pytest.mark.full),
    ],
)
def test_damage_outside_of_messages_loses_none(
    small: Healthy, damaged: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(library_file(damaged, "ann"))
    _, rescued = rescue(damaged, tmp_path / "new")
    assert rescued == small.messages


def test_messages_without_their_conversation_are_rescued(
    small: Healthy, damaged: Path, tmp_path: Path
) -> None:
    with closing(connect(library_file(damaged, "ann"))) as db:
        db.execute("pragma foreign_keys = off")
        db.execute("delete from document where id = 'c2'")
        db.execute("drop trigger document_retitled")
    report, rescued = rescue(damaged, tmp_path / "new")
    assert rescued == small.messages
    (loss,) = report.losses
    assert (loss.rescued, loss.missing, loss.is_header_lost) == (15, 0, True)


def test_a_message_that_cannot_be_decompressed_is_reported_by_name(
    small: Healthy, damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(connect(library_file(damaged, "ann"))) as db, db.codec.without_decompressing():
        db.execute("update passage set body = x'01ffffff' where id = 'c3-m7'")
    target = str(tmp_path / "new")
    assert main(["salvage", str(damaged), target, "--user", "ann", "--no-index"]) == 0
    output = capsys.readouterr().out
    assert "missing: 1 message" in output and "'c3' (Conversation 3)" in output
    assert "(c3-m7)" in output
    assert contents(Path(target)).keys() == small.messages.keys() - {"c3-m7"}


def test_what_is_in_the_journal_is_rescued(tmp_path: Path) -> None:
    home = tmp_path / "home"
    copy = tmp_path / "library.db"
    with recollect.open(home, "ann", background=False) as library:
        messages = [{"id": f"m{n}", "role": "user", "content": f"hello {n}"} for n in range(50)]
        library.add_conversation("c1", "Title", messages=messages)
        library.delete_message("c1", "m49")
        library.add_conversation("c2", "Second", messages=[{"role": "user", "content": "late"}])
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{library_file(home, 'ann')}{suffix}", f"{copy}{suffix}")
    assert copy.with_name("library.db-wal").stat().st_size > 0
    before = {path: path.read_bytes() for path in (copy, copy.with_name("library.db-wal"))}
    report = salvage(copy, tmp_path / "new", "ann")
    assert (report.messages, report.is_complete) == (50, True)
    assert contents(tmp_path / "new").keys() == contents(home).keys()
    assert {path: path.read_bytes() for path in before} == before


# -- exports, moves and servers ---


@pytest.fixture
def with_bad_message(damaged: Path) -> Path:
    """A library in which the text of one message cannot be decompressed."""
    with closing(connect(library_file(damaged, "ann"))) as db, db.codec.without_decompressing():
        db.execute("update passage set body = x'01ffffff' where id = 'c3-m7'")
    return damaged


@pytest.mark.parametrize(
    "change",
    ["body = x'01ffffff'", "body = x''", "body = x'4d010101'", "author = cast(x'ff' as text)"],
)
def test_an_export_names_the_damaged_conversation_and_says_what_to_do(
    damaged: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(connect(library_file(damaged, "ann"))) as db, db.codec.without_decompressing():
        db.execute(f"update passage set {change} where id = 'c3-m7'")
    assert main(["export", "--home", str(damaged), "--user", "ann"]) == 1
    error = capsys.readouterr().err
    assert "Conversation 'c3' cannot be read" in error
    assert "--skip-damaged" in error and "recollect salvage" in error


def test_a_move_names_the_damaged_message_and_removes_nothing(
    with_bad_message: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["move", str(with_bad_message), str(tmp_path / "there"), "--user", "ann"]
    assert main([*arguments, "--remove"]) == 1
    error = capsys.readouterr().err
    assert "message 'c3-m7'" in error and "conversation 'c3'" in error
    assert "Nothing was removed" in error and "recollect salvage" in error
    assert library_file(with_bad_message, "ann").exists()


def test_an_export_can_skip_what_is_damaged(
    small: Healthy, with_bad_message: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rest.json"
    home = str(with_bad_message)
    options = ["--skip-damaged", "--output", str(output)]
    assert main(["export", "--home", home, "--user", "ann", *options]) == 0
    assert "c3-m7" in capsys.readouterr().err
    conversations = json.loads(output.read_text())["conversations"]
    ids = {message["id"] for item in conversations for message in item["messages"]}
    assert ids == small.messages.keys() - {"c3-m7"}


def test_doctor_names_a_message_that_cannot_be_read(
    with_bad_message: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--repair"]):
        assert main(["doctor", "--home", str(with_bad_message), *options]) == 1
        output = capsys.readouterr().out
        assert "'c3-m7'" in output and "recollect salvage" in output


def test_a_server_is_not_ready_if_a_library_cannot_be_read(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_routes, "_SECONDS_BETWEEN_CHECKS", 0)
    service = Service(damaged, ServiceConfig())
    client = TestClient(make_app(service), "http://127.0.0.1:8765", client=("127.0.0.1", 50_000))
    assert client.get("/readyz").status_code == 200
    zero_first_page(library_file(damaged, "ann"))
    answer = client.get("/readyz")
    service.close()
    assert answer.status_code == 503
    message = answer.json()["error"]["message"]
    assert "not a database" in message and "recollect doctor" in message
    assert "users" not in message


def test_a_server_is_ready_while_a_library_is_being_created(tmp_path: Path) -> None:
    file = library_file(tmp_path, "ann")
    file.parent.mkdir(parents=True)
    service = Service(tmp_path, ServiceConfig())
    client = TestClient(make_app(service), "http://127.0.0.1:8765", client=("127.0.0.1", 50_000))
    with closing(connect(file)):
        answer = client.get("/readyz")
    service.close()
    assert answer.status_code == 200, answer.text


def test_a_library_is_not_rescued_into_itself_or_into_another(
    small: Healthy, damaged: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="into itself"):
        salvage(damaged, damaged, "ann")
    with recollect.open(tmp_path / "other", "ann", background=False) as library:
        library.add_conversation("mine", messages=[{"role": "user", "content": "mine"}])
    with pytest.raises(InvalidInput, match="has conversations already"):
        salvage(damaged, tmp_path / "other", "ann")
    assert len(contents(tmp_path / "other")) == 1
