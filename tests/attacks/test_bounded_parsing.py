"""A hostile file costs a bounded amount of time and memory, and the other files are imported."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import recollect
from recollect import Document, Passage, Receipt
from recollect.errors import ImportStopped
from recollect.importers.sandbox import parsing, process, protocol
from recollect.importers.sandbox.process import ParsingProcess
from recollect.importers.sandbox.protocol import Bounds
from recollect.transfer.importing import import_files

HERE = Path(__file__).parent
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Landlock and seccomp")
SMALL = Bounds(
    cpu_seconds=0.3,
    cpu_seconds_per_megabyte=1,
    memory=60_000_000,
    output=1_000_000,
    idle_seconds=0.3,
    failure_seconds=60,
)


@pytest.fixture(autouse=True)
def hostile_format(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small bounds, and a format that does what a file says."""
    monkeypatch.setattr(process, "MODULE", "hostile_worker")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(parsing, "Bounds", lambda: SMALL)
    process.POOL.close()  # other tests use the real formats
    yield
    process.POOL.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two notes, between which a test puts a hostile file."""
    folder = tmp_path / "import"
    folder.mkdir()
    write(folder / "a.md", "walrus", 1)
    write(folder / "z.md", "penguin", 3)
    return folder


def write(path: Path, text: str, age: int) -> Path:
    path.write_text(text)
    os.utime(path, (age * 1_000_000, age * 1_000_000))
    return path


def failures(receipt: Receipt) -> dict[str, list[str]]:
    """The reasons for failures of each file that has some."""
    return {
        file.name: list(file.conversations.failed)
        for file in receipt.files
        if file.conversations.failed
    }


def texts(library: recollect.Library) -> list[str]:
    return sorted(passage.content for d in library.documents() for passage in d.passages)


REASONS = {
    "loop": "cannot be read to its end: it takes more than 0.3 s of CPU time",
    "crash": "cannot be read to its end: it crashes the parser (SIGABRT)",
    "flood": "cannot be read to its end: its content is larger than 1,000,080 bytes",
    "allocate": "cannot be read: it needs more than 60 MB of memory",
    "connect": "[Errno 13] Permission denied",
    "send_datagram": "[Errno 13] Permission denied",
    "start_program": "[Errno 13] Permission denied",
    "fork": "[Errno 13] Permission denied",
    "write_file": "[Errno 13] Permission denied",
    "kill_parent": "[Errno 13] Permission denied",
}


@linux_only
def test_hostile_files_are_problems_and_the_others_are_imported(
    library: recollect.Library, folder: Path
) -> None:
    for attack in REASONS:
        write(folder / f"{attack}.hostile", attack, 2)
    receipt = library.import_path(folder)
    reasons = {name: [r.split(": '")[0] for r in some] for name, some in failures(receipt).items()}
    assert reasons == {f"{attack}.hostile": [reason] for attack, reason in REASONS.items()}
    assert texts(library) == ["harmless"] * len(REASONS) + ["penguin", "walrus"]
    assert not (HERE / "PWNED").exists()


@linux_only
def test_a_parser_reads_only_the_folder_of_the_import(
    library: recollect.Library, folder: Path, tmp_path: Path
) -> None:
    secret = write(tmp_path / "secret.txt", "secret", 1)
    write(folder / "m.hostile", f"read {secret}", 2)
    request = parsing.Request((folder,))
    with parsing.open_files(request, [folder]) as session:
        receipt = import_files(library._store, "", session)
    assert failures(receipt) == {
        "m.hostile": [f"[Errno 13] Permission denied: '{secret}'"],
    }


@pytest.mark.full
def test_a_file_that_hangs_while_its_format_is_detected_is_left_out(
    library: recollect.Library, folder: Path
) -> None:
    write(folder / "m.hostile-claim", "x", 2)
    receipt = library.import_path(folder)
    assert receipt.left_out.failed == {
        "m.hostile-claim was not imported: it takes more than 0.3 s of CPU time": 1
    }
    assert texts(library) == ["penguin", "walrus"]


def test_a_parser_that_waits_forever_is_killed(library: recollect.Library, folder: Path) -> None:
    write(folder / "m.hostile", "sleep", 2)
    bounds = replace(SMALL, cpu_seconds=0.02)
    with parsing.open_files(parsing.Request((folder,)), bounds=bounds) as session:
        items = [item for _, item in session.read(session.files)]
    (problem,) = (item for item in items if isinstance(item, recollect.model.receipts.Problem))
    assert problem.reason == "cannot be read to its end: it takes more than 1 s"


def test_an_import_gives_up_when_too_many_files_exceed_their_limits(
    library: recollect.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "Bounds", lambda: replace(SMALL, failure_seconds=0))
    write(folder / "m.hostile", "crash", 2)
    receipt = library.import_path(folder)
    reason = "not read: too many other files of this import exceeded their limits"
    assert failures(receipt)["z.md"] == [reason]
    assert texts(library) == ["harmless", "walrus"]


# -- stopping ---


def test_a_stopped_import_ends_at_once_and_is_listed_as_interrupted(
    library: recollect.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "Bounds", lambda: replace(SMALL, cpu_seconds=600))
    write(folder / "m.hostile", "loop", 2)
    stop = threading.Event()

    def report(file: str, count: int, total: int) -> None:
        stop.set()

    with pytest.raises(ImportStopped):
        library.import_path(folder, progress=report, stop=stop)
    assert library.receipts()[0].finished_at is None


# -- what is sent ---


def test_documents_arrive_as_they_were_sent() -> None:
    passage = Passage(
        "1",
        None,
        "lone \ud800 surrogate",
        attachments=({"name": "a"},),
        metadata={"huge": 2**80, "many": {"nested": [1.5, None, True]}},
    )
    plain = Document("notes", "n", "Title", passages=(passage._replace(content="x", metadata={}),))
    exact = replace(plain, passages=(passage,), metadata={"name": "\udc80"})
    for document in (plain, exact):
        data = protocol.document_frame(document)
        size = protocol.HEADER.size
        assert protocol.decode_document(data[:1], data[size:]) == document


@pytest.mark.parametrize(
    "change",
    [
        {0: 7},
        {3: "no such kind"},
        {5: "no date"},
        {8: []},
        {12: "x"},
        {12: [["1"]]},
        {12: [["1", {}, "x", "message", *[None] * 6, "all", [], [], {}]]},
        {12: [["1", None, "x", "message", *[None] * 6, "no such visibility", [], [], {}]]},
    ],
)
def test_a_document_of_the_wrong_shape_is_rejected(change: dict[int, object]) -> None:
    data = protocol.document_frame(Document("notes", "n"))[protocol.HEADER.size :]
    fields = json.loads(data)
    for index, value in change.items():
        fields[index] = value
    with pytest.raises(protocol.MalformedReply):
        protocol.decode_document(protocol.DOCUMENT, json.dumps(fields).encode())


# -- the process ---


@linux_only
def test_every_bound_is_active_on_linux(tmp_path: Path) -> None:
    parser = ParsingProcess([tmp_path], SMALL)
    try:
        assert parser.wait_until_ready() == ["time", "memory", "files", "system calls"]
    finally:
        parser.close()
