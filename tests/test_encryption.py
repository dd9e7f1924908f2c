"""Encryption at rest. What needs SQLite with encryption is run by `make test-encryption`."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from faults.backup_helpers import PASSPHRASE, add_messages, back_up, messages, repository

import recollect
from recollect import Library, Selection, passphrases, places
from recollect.backup.making import verify
from recollect.backup.restoring import RestoreOptions, restore
from recollect.cli import exporting, main
from recollect.encrypting import change_passphrase, decrypt_home, encrypt_home
from recollect.errors import (
    Conflict,
    DamagedLibrary,
    InvalidInput,
    LockedLibrary,
    RecollectError,
    StoreBusy,
)
from recollect.home_folder import KEY_FILE, has_other_entries
from recollect.store.shared.database import Tables
from recollect.store.shared.uploads import UploadFolder
from recollect.store.sqlite import encryption
from recollect.store.sqlite.connection import connect
from recollect.store.sqlite.encryption import ENCRYPTED, ENCRYPTING
from recollect.transfer.archive import check_archive
from recollect.transfer.archive_files import decrypt, encrypt
from recollect.transfer.salvage import SalvageReport

needs_encryption = pytest.mark.skipif(
    not hasattr(apsw, "mc_version"),
    reason="apsw is built without encryption: run `make test-encryption`",
)
CANARIES = ("canarytitle", "canaryword", "canarynote", "canarykey", "canaryarchive", "canaryupload")
CANARIES += ("canaryquery",)
CANARY_TABLE = Tables("canaries", ("create table canary (query text)",))


@pytest.fixture(autouse=True)
def fast_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases that are stretched fast, and no keys from other tests."""
    monkeypatch.setattr(passphrases, "SCRYPT", {"n": 16, "r": 8, "p": 1})
    monkeypatch.setattr(encryption, "_unlocked_keys", {})
    monkeypatch.delenv("RECOLLECT_PASSPHRASE", raising=False)
    monkeypatch.setenv("RECOLLECT_PASSPHRASE", "")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def forget_keys() -> None:
    """As in a new process, which reads the passphrase from its settings."""
    encryption._unlocked_keys.clear()
    os.environ["RECOLLECT_PASSPHRASE"] = os.environ["RECOLLECT_PASSPHRASE"] or PASSPHRASE


def without_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(apsw, "mc_version", raising=False)


def leaks(folder: Path) -> list[str]:
    """The files that contain a canary, whatever its case."""
    names = []
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        # In another process: closing the file here would drop the locks of SQLite.
        data = subprocess.run(["cat", file], capture_output=True, check=True).stdout.lower()
        words = [word for word in CANARIES if word.encode() in data]
        names += [f"{file.relative_to(folder)}: {word}" for word in words]
    return names


def fill(home: Path, transcripts: Path) -> None:
    """Put canaries everywhere."""
    with recollect.open(home, background=False) as library:
        fill_library(library, transcripts)
    assert main(["keys", "add", "canarykey", "--home", str(home)]) == 0
    with closing(places.shared_database(home)) as database:
        database.execute(CANARY_TABLE, "insert into canary (query) values ('canaryquery')")


def fill_library(library: Library, transcripts: Path) -> None:
    library.add_conversation("c1", "Canarytitle")
    library.add_message("c1", "user", "The canaryword sings in the castle.", id="m1")
    library.add_message("c1", "assistant", "It is a small yellow bird.", id="m2")
    library.knowledge.create("notes", {"title": "canarynote", "content": "On trams."})
    transcripts.mkdir(exist_ok=True)
    transcript = transcripts / "session.jsonl"
    transcript.write_text('{"text": "canaryarchive"}\n')
    library.archive.keep(transcript, "tool/session.jsonl", [("tool", "session")])
    library.index()


def hits(home: Path, query: str) -> list[str]:
    with recollect.open(home, background=False) as library:
        return [hit.message_id for hit in library.search(query).hits]


# -- errors --------------------------------------------------------------------


def test_a_build_without_encryption_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_support(monkeypatch)
    home.mkdir()
    encryption.new_key_file(home, PASSPHRASE, ENCRYPTED)
    with pytest.raises(LockedLibrary, match="pip install --force-reinstall apsw-sqlite3mc"):
        recollect.open(home)
    assert not list(home.rglob("library.db-*"))


def test_encrypting_without_support_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_support(monkeypatch)
    add_messages(home, "one")
    with pytest.raises(LockedLibrary, match="apsw-sqlite3mc instead of apsw"):
        encrypt_home(home, PASSPHRASE)
    assert messages(home) == ["one"]
    assert not (home / KEY_FILE).exists()


def test_a_missing_or_wrong_passphrase_is_an_error(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    encryption.new_key_file(home, PASSPHRASE, ENCRYPTED)
    forget_keys()
    monkeypatch.setenv("RECOLLECT_PASSPHRASE", "something else")
    with pytest.raises(LockedLibrary, match="The passphrase is wrong"):
        recollect.open(home)
    monkeypatch.delenv("RECOLLECT_PASSPHRASE")
    with pytest.raises(LockedLibrary, match="set RECOLLECT_PASSPHRASE_FILE"):
        recollect.open(home)
    file = tmp_path / "passphrase"
    file.write_text(f"{PASSPHRASE}\n")
    monkeypatch.setenv("RECOLLECT_PASSPHRASE_FILE", str(file))
    assert encryption.data_key(home / "keys.db") is not None


def test_the_command_line_asks_for_the_passphrase(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    encryption.new_key_file(home, PASSPHRASE, ENCRYPTED)
    forget_keys()
    monkeypatch.delenv("RECOLLECT_PASSPHRASE")
    monkeypatch.setattr(passphrases, "prompt", lambda prompt: PASSPHRASE)
    assert encryption.data_key(home / "users" / "ann" / "library.db") is not None


def test_a_home_without_its_key_file_is_not_written_as_plain_text(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_PASSPHRASE", PASSPHRASE)
    with pytest.raises(LockedLibrary, match=r"recollect-key\.json is missing"):
        recollect.open(home)
    assert not home.exists() or not list(home.rglob("*.db"))


def test_an_interrupted_conversion_keeps_everybody_out(home: Path) -> None:
    home.mkdir()
    encryption.new_key_file(home, PASSPHRASE, ENCRYPTING)
    with pytest.raises(LockedLibrary, match=r"`recollect encrypt` of .* Run it again"):
        recollect.open(home)


def test_a_damaged_key_file_is_an_error(home: Path) -> None:
    home.mkdir()
    forget_keys()
    for content in ("", "{}", '{"format": 1, "state": "encrypted", "id": "x", "record": {}}'):
        (home / KEY_FILE).write_text(content)
        with pytest.raises(RecollectError, match="cannot be read"):
            recollect.open(home)
    (home / KEY_FILE).write_text('{"format": 2}')
    with pytest.raises(RecollectError, match="newer Recollect"):
        recollect.open(home)


def test_changing_the_passphrase_writes_only_the_key_file(home: Path) -> None:
    home.mkdir()
    key = encryption.unlock(encryption.new_key_file(home, PASSPHRASE, ENCRYPTED))
    change_passphrase(home, "another passphrase")
    forget_keys()
    with pytest.raises(LockedLibrary, match="wrong"):
        encryption.data_key(home)
    key_file = encryption.read_key_file(home / KEY_FILE)
    assert encryption.unlock(key_file, "another passphrase") == key
    assert [file.name for file in home.iterdir()] == [KEY_FILE]


def test_a_short_passphrase_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "mc_version", "for this test", raising=False)
    with pytest.raises(InvalidInput, match="at least 8 characters"):
        encrypt_home(home, "short")
    assert not home.exists()


def test_only_sqlite_can_be_encrypted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encrypt", "--home", "postgresql://localhost/x"]) == 1
    assert "encrypt the disk of the server" in capsys.readouterr().err


def test_encrypted_files_can_be_appended_to_but_not_rearranged(tmp_path: Path) -> None:
    aes = passphrases.aes(bytes(32))
    path = tmp_path / "file"
    for text in (b"one " * 100_000, b"the second part"):
        with path.open("ab") as file:
            encrypt(file, [text], aes, "a")
    assert b"the second part" not in path.read_bytes()
    assert b"".join(decrypt(path, aes, "a")) == b"one " * 100_000 + b"the second part"
    data = path.read_bytes()
    first = 4 + int.from_bytes(data[:4], "little")
    for damaged in (data[first:], data[:-1], data[:10] + b"!" + data[11:], b"\xff" * 50):
        path.write_bytes(damaged)
        with pytest.raises(DamagedLibrary):
            b"".join(decrypt(path, aes, "a"))


def test_the_key_is_never_in_an_error_message(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite quotes the address of a file that it cannot open, and the key is a part of that."""
    from recollect import encrypting

    db = encrypting.connect_with(None, _some_database(home))
    key = encryption.DataKey("id", b"k" * 32)
    with pytest.raises(RecollectError) as info:
        encrypting._copy(db, home / "missing" / "draft", key)
    db.close()
    assert key.for_databases.hex() not in str(info.value)
    assert info.value.__cause__ is None
    assert info.value.__suppress_context__


def _some_database(folder: Path) -> Path:
    folder.mkdir()
    return folder / "some.db"


# -- the proof -----------------------------------------------------------------


@needs_encryption
def test_no_file_of_an_encrypted_home_contains_plain_text(home: Path, tmp_path: Path) -> None:
    encrypt_home(home, PASSPHRASE)
    with recollect.open(home, background=False) as library:
        fill_library(library, tmp_path / "transcripts")
        library.search("canaryword castle")
        assert (home / "users/default/library.db-wal").stat().st_size > 0
        assert leaks(home) == []
    assert main(["keys", "add", "canarykey", "--home", str(home)]) == 0
    assert leaks(home) == []
    assert hits(home, "canaryword")[0] == "m1"
    assert hits(home, "yellow animal that sings")
    assert not list(home.rglob("space-*"))


@needs_encryption
def test_forgotten_text_is_in_no_page_of_an_encrypted_library(home: Path) -> None:
    home.mkdir()
    encryption.new_key_file(home, PASSPHRASE, ENCRYPTED)
    texts = [random.Random(n).randbytes(240).hex(" ", 8) for n in range(50)]
    with recollect.open(home, background=False) as library:
        for number, text in enumerate(texts):
            library.add_conversation(f"c{number}", messages=[{"role": "user", "content": text}])
        selection = Selection.of(conversations=[f"c{number}" for number in range(40)])
        assert library.forget(selection).purge == "done"
        path = library._store.path
    with closing(connect(path)) as db:
        pages = db.serialize("main")
    words = " ".join(texts[:40]).split()
    assert [word for word in words if word[-8:].encode() in pages] == []
    assert texts[45].split()[0][-8:].encode() in pages


@needs_encryption
def test_converting_a_home_encrypts_everything_in_it(home: Path, tmp_path: Path) -> None:
    fill(home, tmp_path / "transcripts")
    assert len(leaks(home)) >= 3  # the control: the same scan finds plain text
    before = hits(home, "which bird sings in the castle")
    result = encrypt_home(home, PASSPHRASE)
    assert (result.databases, result.archived_files) == (4, 1)
    assert leaks(home) == []
    forget_keys()
    with recollect.open(home, background=False) as library:
        library.index()
        assert library.verify().healthy
        assert [file.source for file in library.archive.files()]
        (restored,) = library.archive.restore(library.archive.files()[0], tmp_path / "restored")
    assert "canaryarchive" in restored.read_text()
    assert hits(home, "which bird sings in the castle") == before
    assert leaks(home) == []
    assert main(["doctor", "--home", str(home)]) == 0


@needs_encryption
@pytest.mark.parametrize("is_converted", [False, True])
def test_encrypted_files_of_the_archive_cannot_be_exchanged(
    home: Path, tmp_path: Path, is_converted: bool
) -> None:
    if not is_converted:
        home.mkdir()
        encryption.new_key_file(home, PASSPHRASE, ENCRYPTED)
    with recollect.open(home, background=False) as library:
        for name in "abc":
            (tmp_path / name).write_text(f'{{"text": "{name}"}}\n' * 3)
            library.archive.keep(tmp_path / name, f"tool/{name}.jsonl", [("tool", name)])
    if is_converted:
        encrypt_home(home, PASSPHRASE)
    with recollect.open(home, background=False) as library:
        first, second, third = library.archive.files()
        data = first.path.read_bytes()
        first.path.write_bytes(second.path.read_bytes())
        second.path.write_bytes(data)
        for file in (first, second):
            with pytest.raises(DamagedLibrary, match="another key or name"):
                library.archive.restore(file, tmp_path / "to")
        assert library.archive.restore(third, tmp_path / "to")
        assert len(check_archive(library.archive)) == 2


@needs_encryption
def test_files_of_others_in_the_home_are_not_converted(home: Path, tmp_path: Path) -> None:
    fill(home, tmp_path / "transcripts")
    assert not has_other_entries(home)
    with closing(apsw.Connection(str(home / "app.db"))) as db:
        db.execute("create table customer (name)")
    for name in ("results/run.json", "archive.zst", "src/archive/data.zst"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("somebody else's")
    names = ("app.db", "results/run.json", "archive.zst", "src/archive/data.zst")
    before = {name: (home / name).read_bytes() for name in names}
    encrypt_home(home, PASSPHRASE)
    assert {name: (home / name).read_bytes() for name in names} == before
    decrypt_home(home)
    assert {name: (home / name).read_bytes() for name in names} == before


@needs_encryption
def test_decrypting_gives_back_a_plain_home(home: Path, tmp_path: Path) -> None:
    fill(home, tmp_path / "transcripts")
    encrypt_home(home, PASSPHRASE)
    transcript = tmp_path / "transcripts" / "session.jsonl"
    with recollect.open(home, background=False) as library:
        transcript.write_text(transcript.read_text() + '{"text": "more"}\n')
        library.archive.keep(transcript, "tool/session.jsonl", [("tool", "session")])
    decrypt_home(home)
    assert not (home / KEY_FILE).exists()
    forget_keys()
    assert hits(home, "canaryword")[0] == "m1"
    assert main(["doctor", "--home", str(home)]) == 0
    with recollect.open(home, background=False) as library:
        (restored,) = library.archive.restore(library.archive.files()[0], tmp_path / "restored")
    assert restored.read_text() == transcript.read_text()


@needs_encryption
def test_a_library_in_use_is_not_converted(home: Path) -> None:
    add_messages(home, "one")
    with recollect.open(home) as library:
        library.search("one")
        with pytest.raises(StoreBusy, match="recollect serve"):
            encrypt_home(home, PASSPHRASE)
        assert not (home / KEY_FILE).exists()
    encrypt_home(home, PASSPHRASE)
    with recollect.open(home) as library:
        library.search("one")
        with pytest.raises(StoreBusy, match="recollect serve"):
            decrypt_home(home)
    assert messages(home) == ["one"]


@needs_encryption
def test_a_damaged_library_is_not_converted(home: Path) -> None:
    add_messages(home, *(f"text {n}" for n in range(50)))
    file = home / "users/default/library.db"
    data = bytearray(file.read_bytes())
    data[5 * 8192 : 5 * 8192 + 64] = os.urandom(64)
    file.write_bytes(data)
    with pytest.raises(DamagedLibrary):
        encrypt_home(home, PASSPHRASE)
    assert not (home / KEY_FILE).exists()


# -- kills ---------------------------------------------------------------------


KILL_POINTS = Path(__file__).parent / "faults" / "kill_points.py"


def run_and_kill(point: int, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(part for part in sys.path if part)
    return subprocess.run(
        [sys.executable, str(KILL_POINTS), str(point), *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )


# Together, the last ones are all points.
@needs_encryption
@pytest.mark.parametrize(
    ("first", "step"),
    [(3, 17), *(pytest.param(first, 10, marks=pytest.mark.full) for first in range(3, 13))],
)
def test_a_killed_conversion_is_resumed_or_undone(
    home: Path, tmp_path: Path, first: int, step: int
) -> None:
    fill(home, tmp_path / "transcripts")
    forget_keys()
    original = tmp_path / "original"
    subprocess.run(["cp", "-a", home, original], check=True)
    points = int(run_and_kill(0, "encrypt", "--home", str(home)).stdout.split()[-1])
    for point in range(first, points, step):
        subprocess.run(["rm", "-rf", home], check=True)
        subprocess.run(["cp", "-a", original, home], check=True)
        assert run_and_kill(point, "encrypt", "--home", str(home)).returncode == -9
        forget_keys()
        if point % 2 and (home / KEY_FILE).exists():
            decrypt_home(home)
        else:
            if not (home / KEY_FILE).exists() or not _is_complete(home):
                encrypt_home(home, PASSPHRASE)
            assert leaks(home) == []
        assert not list(home.rglob("*.converting*"))
        assert hits(home, "canaryword")[0] == "m1"
        with recollect.open(home, background=False) as library:
            (file,) = library.archive.files()
            (restored,) = library.archive.restore(file, tmp_path / f"restored-{point}")
        assert "canaryarchive" in restored.read_text()


@needs_encryption
def test_a_plain_draft_of_a_killed_decryption_is_removed(home: Path, tmp_path: Path) -> None:
    fill(home, tmp_path / "transcripts")
    encrypt_home(home, PASSPHRASE)
    key_file = encryption.read_key_file(home / KEY_FILE)
    key_file.change_state(encryption.DECRYPTING)
    for name in ("users/default/library.db", "archive/default/tool/session.jsonl.gz"):
        (home / f"{name}.converting").write_text("canaryword")
    encrypt_home(home, PASSPHRASE)
    assert leaks(home) == []


def _is_complete(home: Path) -> bool:
    return encryption.read_key_file(home / KEY_FILE).state == ENCRYPTED


# -- backups, moves, read-only media -------------------------------------------


def restore_latest(folder: Path, place: Path, **options: Any) -> None:
    with repository(folder) as backups:
        backup = backups.manifest(backups.ids()[-1])
        restore(
            backups,
            backup,
            place,
            RestoreOptions(**options),
            lambda *_: None,
            work_home=place,
        )


@needs_encryption
def test_backups_of_an_encrypted_home_are_encrypted(home: Path, tmp_path: Path) -> None:
    fill(home, tmp_path / "transcripts")
    encrypt_home(home, PASSPHRASE)
    folder = tmp_path / "backups"
    manifest = back_up(home, folder)
    assert leaks(folder) == leaks(home) == []
    forget_keys()
    work = tmp_path / "work"
    work.mkdir()
    with repository(folder) as backups:
        assert verify(backups, manifest.id, work, lambda *_: None).is_good
    restore_latest(folder, tmp_path / "new")
    assert hits(tmp_path / "new", "canaryword")[0] == "m1"
    restore_latest(folder, tmp_path / "one", user="default", to_user="ann")
    with recollect.open(tmp_path / "one", "ann", background=False) as library:
        assert library.search("canaryword").hits
    assert leaks(tmp_path / "new") == leaks(tmp_path / "one") == []


@needs_encryption
def test_a_backup_can_be_restored_after_the_passphrase_changed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt_home(home, PASSPHRASE)
    add_messages(home, "one")
    back_up(home, tmp_path / "backups")
    add_messages(home, "two")
    change_passphrase(home, "another passphrase")
    monkeypatch.setenv("RECOLLECT_PASSPHRASE", "another passphrase")
    forget_keys()
    restore_latest(tmp_path / "backups", home, replace=True)
    assert messages(home) == ["one"]


@needs_encryption
def test_a_restore_never_mixes_keys(home: Path, tmp_path: Path) -> None:
    add_messages(home, "plain")
    back_up(home, tmp_path / "plain")
    encrypt_home(home, PASSPHRASE)
    with pytest.raises(Conflict, match="same key"):
        restore_latest(tmp_path / "plain", home, replace=True)
    back_up(home, tmp_path / "encrypted")
    other = tmp_path / "other"
    add_messages(other, "other")
    with pytest.raises(Conflict, match="same key"):
        restore_latest(tmp_path / "encrypted", other, replace=True)
    encrypt_home(other, PASSPHRASE)
    with pytest.raises(Conflict, match="same key"):
        restore_latest(tmp_path / "encrypted", other, replace=True)
    assert messages(home) == ["plain"]
    assert messages(other) == ["other"]


@needs_encryption
def test_moving_and_exporting_work(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encrypt_home(home, PASSPHRASE)
    add_messages(home, "one", "two")
    places.move(home, tmp_path / "plain")
    assert messages(tmp_path / "plain") == ["one", "two"]
    assert main(["export", "c1", "--home", str(home)]) == 0
    assert "two" in capsys.readouterr().out


@needs_encryption
def test_a_damaged_encrypted_library_is_salvaged(home: Path, tmp_path: Path) -> None:
    encrypt_home(home, PASSPHRASE)
    texts = [f"text {n} " + "word " * 40 for n in range(400)]
    add_messages(home, *texts)
    file = home / "users/default/library.db"
    data = bytearray(file.read_bytes())
    for page in (1, 9):
        data[page * 8192 + 100 : page * 8192 + 164] = os.urandom(64)
    file.write_bytes(data)
    with pytest.raises(DamagedLibrary), recollect.open(home) as library:
        library.verify()
        library.conversation("c1")
    places.salvage(home, tmp_path / "rescued")
    with recollect.open(tmp_path / "rescued", background=False) as library:
        rescued = {passage.content for passage in library.conversation("c1").passages}
    assert len(rescued & set(texts)) >= 395


@needs_encryption
def test_exporting_a_damaged_library_leaves_no_plain_text_in_temporary_files(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    encrypt_home(home, PASSPHRASE)
    add_messages(home, "canaryword")
    keys: list[bool] = []

    def salvage(source: Path, target: str, user: str | None) -> SalvageReport:
        report = places.salvage(source, target, user)
        keys.append(encryption.is_encrypted(Path(target)))
        return report

    monkeypatch.setattr(exporting, "salvage", salvage)
    assert main(["export", "--skip-damaged", "--home", str(home)]) == 0
    assert "canaryword" in capsys.readouterr().out
    assert keys == [True]


@needs_encryption
def test_read_only_mode_reads_an_encrypted_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, tmp_path / "transcripts")
    encrypt_home(home, PASSPHRASE)
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    assert hits(home, "canaryword")[0] == "m1"
    back_up(home, tmp_path / "backups")
    assert leaks(tmp_path / "backups") == []


@needs_encryption
def test_a_plain_file_in_an_encrypted_home_is_not_opened(home: Path, tmp_path: Path) -> None:
    add_messages(tmp_path / "plain", "one")
    encrypt_home(home, PASSPHRASE)
    (home / "users/default").mkdir(parents=True)
    source = tmp_path / "plain/users/default/library.db"
    source.rename(home / "users/default/library.db")
    with pytest.raises(DamagedLibrary, match="not encrypted with the key"):
        recollect.open(home)


@needs_encryption
def test_uploads_to_an_encrypted_home_wait_in_memory(home: Path) -> None:
    from recollect.serve.http.service import Service, ServiceConfig

    encrypt_home(home, PASSPHRASE)
    service = Service(home, ServiceConfig())
    try:
        uploads = service.imports.uploads
        assert isinstance(uploads, UploadFolder)
        with service.imports.upload("default", "notes.md") as upload:
            upload.write(b"canaryupload")
            assert not uploads.folder.is_relative_to(home)
            assert leaks(home) == []
    finally:
        service.close()
    assert list(uploads.folder.iterdir()) == []
    uploads.folder.rmdir()
