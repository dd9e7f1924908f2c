"""Libraries on read-only media can be searched and read, and writes are refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from disks import small_disk
from starlette.testclient import TestClient

import recollect
from recollect.cli import main
from recollect.errors import NotFound, ReadOnlyLibrary
from recollect.places import library_file
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.store.sqlite.connection import Connection


def fill(home: Path) -> None:
    with recollect.open(home) as library:
        messages = [{"role": "user", "content": "a crane in the harbour"}]
        library.add_conversation("c1", "Harbour", messages=messages)
        library.index()


@pytest.fixture
def read_only_home(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 64) as disk:
        fill(disk.folder / "home")
        disk.remount("ro")
        yield disk.folder / "home"
        disk.remount("rw")


def test_a_library_on_a_read_only_disk_is_searched_and_read(read_only_home: Path) -> None:
    with recollect.open(read_only_home, background=True) as library:
        assert library.read_only == "library.db is not writable"
        assert library.search("crane").total == 1
        assert library.search("a lifting machine in the port").hits
        assert library.conversation("c1").title == "Harbour"
        assert library.stats()["read_only"]
        assert len(list(library.documents())) >= 1
        assert not library.verify().damaged
        with pytest.raises(ReadOnlyLibrary, match="read-only"):
            library.delete_conversation("c1")
        with pytest.raises(ReadOnlyLibrary, match="read-only"):
            library.import_path(Path(__file__).parents[2] / "examples" / "chatgpt")


def test_commands_read_from_a_read_only_disk(
    read_only_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(read_only_home)
    for command in (["search", "crane"], ["list"], ["read", "c1"], ["export", "c1"], ["stats"]):
        assert main([*command, "--home", home]) == 0
        assert "Read-only: library.db is not writable." in capsys.readouterr().err


def test_the_server_reads_from_a_read_only_disk_and_refuses_writes(read_only_home: Path) -> None:
    with closing(Service(read_only_home, ServiceConfig(rate_per_minute=0))) as service:
        app = make_app(service)
        with TestClient(app, "http://127.0.0.1:8765", client=("127.0.0.1", 50_000)) as client:
            assert client.get("/api/v1/search?q=crane").json()["total"] == 1
            response = client.delete("/conversations/c1")
            assert response.status_code == 503
            assert "read-only" in response.json()["detail"]
        service.drain()


def test_a_write_ahead_log_is_read_from_a_read_only_disk(tmp_path: Path) -> None:
    fill(tmp_path / "home")
    with small_disk(tmp_path / "disk", 64) as disk:
        with recollect.open(tmp_path / "home") as library:
            messages = [{"role": "user", "content": "the second crane"}]
            library.add_conversation("c2", messages=messages)
            shutil.copytree(tmp_path / "home", disk.folder / "home")
        file = library_file(disk.folder / "home", "default")
        file.with_name("library.db-shm").unlink()
        assert file.with_name("library.db-wal").stat().st_size
        disk.remount("ro")
        with recollect.open(disk.folder / "home") as library:
            assert library.search("crane").total == 2


def test_read_only_mode_creates_and_changes_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    fill(home)
    before = {str(path): path.stat().st_mtime_ns for path in home.rglob("*")}
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "off")
    assert main(["search", "crane", "--read-only", "--json", "--home", str(home)]) == 0
    assert len(json.loads(capsys.readouterr().out)["hits"]) == 1
    assert {str(path): path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_read_only_mode_sees_what_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    fill(home)
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    reader = recollect.open(home)
    assert reader.search("crane").total == 1
    code = (
        "import recollect, sys; library = recollect.open(sys.argv[1]); "
        "library.add_conversation('c2', messages=[{'role': 'user', 'content': 'a crane'}]); "
        "library.close()"
    )
    environment = os.environ | {"RECOLLECT_READ_ONLY": "off"}
    subprocess.run([sys.executable, "-c", code, str(home)], check=True, env=environment)
    assert reader.search("crane").total == 2
    reader.close()


def test_what_changes_while_it_is_read_without_locks_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    fill(home)
    sizes: list[int] = []

    def count(db: Connection) -> int:
        sizes.append(db.get("select count(*) from passage"))
        if len(sizes) == 1:
            monkeypatch.setenv("RECOLLECT_READ_ONLY", "off")
            with recollect.open(home, background=False) as writer:
                writer.add_conversation("c2", messages=[{"role": "user", "content": "new"}])
        return sizes[-1]

    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with recollect.open(home) as reader:
        store = reader._store._store._store  # type: ignore[attr-defined]
        assert store._read(count) == sizes[0] + 1
    assert len(sizes) == 2


def test_read_only_mode_works_on_both_stores(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with pytest.raises(NotFound):
        recollect.open(place, "nobody-yet")
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "off")
    with recollect.open(place) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "a crane"}])
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with recollect.open(place) as library:
        assert library.search("crane").total == 1
        with pytest.raises(ReadOnlyLibrary, match="read-only"):
            library.add_message("c1", "user", "more")
