"""After a deletion, no file of the library contains a byte of the text."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from contents import all_contents

import recollect
from recollect import Filter, Selection
from recollect.index import background
from recollect.memory.backlog import catch_up
from recollect.model.kinds import OBSERVATION
from recollect.model.receipts import FileReceipt
from recollect.places import keys, library_file
from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import new_key
from recollect.store.base import Store
from recollect.store.sqlite import sealing
from recollect.store.sqlite.connection import connect
from recollect.store.sqlite.private_files import file_lock

CANARY = "quicksilverword"
TITLE = "Zanzibar itinerary"
SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


def fill(library: recollect.Library) -> None:
    """Enough for a sealed volume and vector files, with a canary in the middle."""
    for number in range(4):
        messages = [{"role": "user", "content": f"Day {number}: {n} boats."} for n in range(100)]
        library.add_conversation(f"other-{number}", f"Harbour {number}", messages=messages)
    library.add_conversation(
        "trip",
        TITLE,
        messages=[
            {"role": "user", "content": f"We decided to use {CANARY} for the sails.", "id": "m1"},
            {"role": "assistant", "content": f"Noted: {CANARY} it is.", "id": "m2"},
        ],
        metadata={"tags": ["vermilion"]},
    )
    library.index()


def stored_bodies(path: Path, document: str) -> list[bytes]:
    """The compressed texts of a document, as they are in the file."""
    with closing(connect(path)) as db:
        rows = db.rows(
            "select p.body from passage p join document d on d.key = p.document where d.id = ?",
            (document,),
        )
    return [body if isinstance(body, bytes) else body.encode() for (body,) in rows]


def files_with(folder: Path, *texts: bytes) -> list[str]:
    """The files below a folder that contain one of the texts. Only for closed libraries."""
    hits = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes().lower()
            hits += [f"{path.name}: {text!r}" for text in texts if text.lower() in data]
    return hits


@contextmanager
def foreign_reader(path: Path) -> Iterator[apsw.Connection]:
    """Another program that reads a snapshot of the library."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db.execute("begin")
    db.execute("select count(*) from sqlite_schema").fetchall()
    try:
        yield db
    finally:
        db.close()


def forbid_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the turn of another writer is allowed: the background thread may be writing."""
    sleep = time.sleep
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if sum(pauses) > 1:
            raise AssertionError(f"waited for {sum(pauses)} s")
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", pause)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template") / "home"
    with pytest.MonkeyPatch.context() as patch, recollect.open(home, "default") as library:
        patch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
        fill(library)
    assert list((library_file(home, "default").parent / "index" / "volumes").iterdir())
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    """The folder of a library that has a sealed volume, vectors, and a canary."""
    return Path(shutil.copytree(template, tmp_path / "home"))


@pytest.fixture
def file(home: Path) -> Path:
    return library_file(home, "default")


@pytest.fixture
def trip(home: Path) -> Iterator[recollect.Library]:
    with recollect.open(home, "default") as library:
        yield library


def test_no_file_contains_a_deleted_conversation(
    trip: recollect.Library, file: Path, home: Path
) -> None:
    bodies = stored_bodies(file, "trip")
    trip.delete_conversation("trip")
    assert trip.purge_status().state == "done"
    trip.close()
    texts = (CANARY.encode(), TITLE.encode(), b"zanzibar", b"vermilion", *bodies)
    assert not files_with(home, *texts)
    assert files_with(home, b"Harbour 3")


def unique_words(number: int) -> list[str]:
    digits = hashlib.shake_128(str(number).encode()).hexdigest(120)
    letters = digits.translate(str.maketrans("0123456789", "ghijklmnop"))
    return [letters[start : start + 12] for start in range(0, len(letters), 12)]


def add_unique_words(library: recollect.Library, numbers: Iterable[int], more: str = "") -> None:
    for number in numbers:
        text = " ".join([*unique_words(number), more])
        library.add_conversation(f"c{number}", messages=[{"role": "user", "content": text}])


def words_in_files(folder: Path, count: int) -> list[str]:
    """The words of the first conversations that are in a file. An index may leave out the first
    letters of a word."""
    data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    words = [word for number in range(count) for word in unique_words(number)]
    return [word for word in [CANARY, *words] if word[-9:].encode() in data]


@pytest.mark.parametrize(
    ("forgotten", "others"),
    [(40, 10), (60, 300), pytest.param(1_500, 1_500, marks=pytest.mark.full)],
)
def test_no_byte_of_forgotten_text_stays_at_any_size(
    tmp_path: Path, forgotten: int, others: int
) -> None:
    total = forgotten + others
    with recollect.open(tmp_path, background=False) as library:
        add_unique_words(library, range(forgotten), CANARY)
        with recollect.open(tmp_path, background=False) as writer:  # has pages in memory
            add_unique_words(writer, range(forgotten, total))
            library.index()
            assert library.forget(Selection.of(text=CANARY)).purge == "done"
            add_unique_words(writer, range(total, total + 20))
    assert words_in_files(tmp_path, forgotten) == []


KILLED_WHILE_FORGETTING = """
import os, sys, recollect
from recollect.model.forgetting import Selection
from recollect.store.sqlite import transactions
clear = transactions.clear_free_space
def clear_and_die(path):
    if sys.argv[2] == "after":
        clear(path)
    os.kill(os.getpid(), 9)
transactions.clear_free_space = clear_and_die
recollect.open(sys.argv[1], background=False).forget(
    Selection.of(conversations=[f"c{n}" for n in range(40)])
)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_purge_is_completed_later(tmp_path: Path, moment: str) -> None:
    with recollect.open(tmp_path, background=False) as library:
        add_unique_words(library, range(40), CANARY)
        add_unique_words(library, range(40, 290))
    command = [sys.executable, "-c", KILLED_WHILE_FORGETTING, tmp_path, moment]
    assert subprocess.run(command, check=False).returncode == -9
    with recollect.open(tmp_path, background=False) as library:
        assert library.purge_status().state == "done"
    assert words_in_files(tmp_path, 40) == []


@SQLITE
def test_no_file_contains_an_import_that_was_undone(
    library: recollect.Library, tmp_path: Path
) -> None:
    note = tmp_path / f"{TITLE}.md"
    note.write_text(f"The sails are {CANARY}.")
    receipt = library.import_path(note)
    library.index()
    library.undo_import(receipt.id)
    library.close()
    assert not files_with(tmp_path / "home", CANARY.encode(), b"zanzibar")


# -- observations, sessions and uploads ---


Observed = tuple[recollect.Library, str, list[bytes]]


@pytest.fixture
def observed(home: Path) -> Iterator[Observed]:
    """A library, the id of an observation about the canary, and the texts of its document."""
    with recollect.open(home, "default") as library:
        catch_up(library._store)
        library.index()
        observations = Filter(hidden=True, kinds=(OBSERVATION,))
        for document in library._store.iter_documents(observations):
            for passage in document.passages:
                if CANARY in passage.content:
                    bodies = stored_bodies(library_file(home, "default"), document.id)
                    yield library, passage.id, bodies
                    return
    raise AssertionError("nothing was observed")


def test_no_file_contains_observations_of_a_deleted_conversation(
    observed: Observed, home: Path
) -> None:
    library, _, bodies = observed
    assert bodies
    library.delete_conversation("trip")
    assert library.purge_status().state == "done"
    library.close()
    assert not files_with(home, CANARY.encode(), *bodies)


def test_the_secret_of_an_api_key_is_in_no_file(tmp_path: Path) -> None:
    with closing(keys(tmp_path)) as store:
        text, _ = new_key(store, "ann", "laptop")
    secret = text.split("_", 2)[2].encode()
    assert not files_with(tmp_path, secret, secret[:20])


def test_no_file_contains_an_upload_that_was_deleted(tmp_path: Path) -> None:
    service = Service(tmp_path)
    with service.imports.upload("default", "sails.md", "notes") as upload:
        upload.write(f"# {TITLE}\n\n{CANARY}".encode())
        id = upload.accept().id
    while not service.imports.get("default", id).is_finished:
        threading.Event().wait(0.01)
    assert service.imports.get("default", id).state == "done"
    with service.libraries.borrow("default") as library:
        assert library.forget(Selection.of(kinds="note")).items == 1
    service.close()
    assert not files_with(tmp_path, CANARY.encode(), b"zanzibar")
    assert list((tmp_path / "uploads").iterdir()) == []


# -- other programs ---


def test_a_deletion_does_not_wait_for_another_reader(
    trip: recollect.Library, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with foreign_reader(file):
        forbid_waiting(monkeypatch)
        trip.delete_conversation("trip")
        purge = trip.purge_status()
        assert purge.state == "pending"
        assert "another program has library.db open for reading" in purge.reason
        assert trip.stats()["purge"] == "pending"
        trip.add_conversation("next", messages=[{"role": "user", "content": "still writable"}])


def test_the_background_thread_finishes_a_purge_when_the_reader_is_gone(
    trip: recollect.Library, file: Path
) -> None:
    with foreign_reader(file):
        trip.delete_conversation("trip")
    job = background.purge_job(trip._store)
    assert job.has_work_left()
    job.run(lambda: False)
    assert not job.has_work_left()
    assert trip.purge_status().state == "done"
    # The library is still open here, so another process must read its files.
    for text in (CANARY, "zanzibar"):
        command = ["grep", "-rail", text, str(file.parent)]
        assert not subprocess.run(command, check=False, capture_output=True).stdout


def test_a_purge_is_pending_while_another_process_writes_vectors(
    trip: recollect.Library, file: Path
) -> None:
    with file_lock(file.parent / "index" / "vectors" / "lock"):
        trip.delete_conversation("trip")
        assert "index files" in trip.purge_status().reason
    assert trip._store.purge().state == "done"


@SQLITE
def test_commands_say_that_a_purge_is_pending(run: Any, place: str) -> None:
    with recollect.open(place) as library:
        note = library.knowledge.create("notes", {"title": TITLE, "content": CANARY})
    with foreign_reader(library_file(Path(place), "default")):
        result = json.loads(run("knowledge", "delete", "notes", note.id, "--yes", "--json"))
        assert result["purge"] == "pending"
        assert "pending: another program" in run("doctor")
        assert json.loads(run("stats", "--json"))["purge"] == "pending"
    assert json.loads(run("stats", "--json"))["purge"] == "done"


# -- receipts ---


def receipt_with_titles(store: Store) -> int:
    receipt = store.start_import(f"/home/me/{TITLE}.md")
    file = FileReceipt(f"{TITLE}.md", "notes", samples={"unknown message": [TITLE, "record 2"]})
    file.messages.failed[f"cannot read '{TITLE}'"] = 1
    receipt.files = [file]
    store.update_receipt(receipt)
    return receipt.id


def test_receipts_do_not_contain_titles_of_deleted_conversations(
    library: recollect.Library,
) -> None:
    library.add_conversation("trip", TITLE, messages=[{"role": "user", "content": "hello"}])
    receipt_with_titles(library._store)
    library.delete_conversation("trip")
    (receipt,) = library.receipts()
    assert TITLE not in all_contents(receipt)
    assert receipt.files[0].samples == {"unknown message": ["(deleted)", "record 2"]}
