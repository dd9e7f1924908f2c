"""A backup is complete, small, private and verified, whatever happens while it is made."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backup_helpers import (
    PASSPHRASE,
    add_messages,
    back_up,
    files_in,
    messages,
    repository,
    run_json,
    small_disk,
)
from kills import KILLS, run_and_kill

from recollect import passphrases
from recollect.backup.manifest import Manifest, new_id
from recollect.backup.schedule import BackupSchedule, backup_overview, expired, prune
from recollect.errors import (
    DamagedBackup,
    DamagedLibrary,
    InvalidInput,
    NotFound,
    RecollectError,
    StoreBusy,
)

BACKUP_KILLS = max(2, KILLS // 10)

WRITER = """
import sys, recollect
library = recollect.open(sys.argv[1])
for n in range(100_000):
    library.add_message("c1", "user", f"acknowledged {n}", id=f"m{n}")
    print(n, flush=True)
"""
BACKUP = """
import sys
from pathlib import Path
from recollect.backup.making import make_backup
from recollect.backup.repository import open_repository
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
with open_repository(folder, None) as repository:
    print("opened", flush=True)
    make_backup(
        repository, home, "", lambda *step: print(*step, flush=True), work_home=home
    )
print("complete", flush=True)
"""


@pytest.fixture(autouse=True)
def cheap_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of guessing is not what these tests are about."""
    monkeypatch.setattr(passphrases, "SCRYPT", {"n": 16, "r": 8, "p": 1})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    add_messages(home, "the castle", "the tram")
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def restored(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The newest backup, restored to a new place."""
    target = tmp_path / f"restored-{random.getrandbits(32)}"
    run_json(capsys, "restore", "--folder", str(folder), "--to", str(target))
    return target


def test_a_backup_has_what_was_acknowledged_before_it_began(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    try:
        for _ in range(30):
            last = int(writer.stdout.readline())
        backup = back_up(home, folder)
        still_writes = int(writer.stdout.readline()) > last
    finally:
        writer.kill()
        writer.communicate()
    assert still_writes
    stored = messages(restored(folder, tmp_path, capsys))
    numbers = [int(text.split()[1]) for text in stored if text.startswith("acknowledged")]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > last
    assert backup.messages == len(stored)


def test_only_sqlite_opens_the_databases(home: Path, folder: Path) -> None:
    """Closing a file from a plain open() would drop the locks of a server's own connections."""
    repository(folder).close()
    code = f"""
import sys
sys.addaudithook(lambda event, a: event == "open" and print("open", a[0], a[2], flush=True))
{BACKUP}
"""
    output = subprocess.run(
        [sys.executable, "-c", code, str(home), str(folder)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "complete" in output and ".pack" in output
    assert "library.db" not in output


def test_a_second_backup_stores_only_what_changed(home: Path, folder: Path) -> None:
    (home / "archive/default").mkdir(parents=True)
    (home / "archive/default/transcript.gz").write_bytes(os.urandom(2_000_000))
    first = back_up(home, folder)
    add_messages(home, "one more")
    second = back_up(home, folder)
    third = back_up(home, folder)
    assert first.added_bytes > 2_000_000
    assert 0 < second.added_bytes < 200_000
    assert third.added_bytes == 0
    assert (second.messages, third.messages) == (3, 3)


def test_derived_files_are_not_backed_up(home: Path, folder: Path) -> None:
    for name in ("users/default/index/vectors/space-1.vectors", "models/static/model", "hook.log"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("derived")
    (home / "exclude.txt").write_text("secret-*")
    paths = {file.path for file in back_up(home, folder).files}
    assert paths == {"users/default/library.db", "exclude.txt"}


def test_backups_survive_kills_and_the_next_one_cleans_up(home: Path, folder: Path) -> None:
    rng = random.Random(7)
    backups = [back_up(home, folder).id]
    for n in range(BACKUP_KILLS):
        add_messages(home, f"before kill {n}")
        lines = run_and_kill(BACKUP, str(home), str(folder), lines=rng.randint(1, 18))
        ids = repository(folder).ids()
        assert set(backups) <= set(ids)
        assert len(ids) <= len(backups) + 1
        if "complete" in lines:
            assert len(ids) == len(backups) + 1
        backups = ids
    backups.append(back_up(home, folder).id)
    assert not list(folder.rglob("*.tmp"))
    assert {path.name for path in (home / ".backup").iterdir()} == {"lock", "last.json"}
    verify_all(folder, home, len(backups))


def test_a_backup_leaves_out_files_of_others(home: Path, folder: Path) -> None:
    (home / "src").mkdir()
    (home / "src" / "app.py").write_text("print()")
    (home / "app.db").write_bytes(b"somebody else's")
    (home / "exclude.txt").write_text("secret-*")
    names = {file.path for file in back_up(home, folder).files}
    assert "exclude.txt" in names
    assert not names & {"app.db", "src/app.py"}


def test_a_backup_deletes_unfinished_files_of_the_home_folder(home: Path, folder: Path) -> None:
    """A process that was killed while it remembered the newest backup leaves one."""
    back_up(home, folder)
    (home / ".backup" / f"{uuid.uuid4().hex}.tmp").write_bytes(b"{")
    back_up(home, folder)
    assert {path.name for path in (home / ".backup").iterdir()} == {"lock", "last.json"}


def verify_all(folder: Path, home: Path, count: int) -> None:
    from recollect.backup.making import verify

    with repository(folder) as backups:
        ids = backups.ids()
        assert len(ids) == count
        results = [verify(backups, id_, home, lambda *_: None) for id_ in ids]
    assert [result.problems for result in results] == [()] * count


def test_a_full_backup_disk_keeps_older_backups(home: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        folder = disk / "backups"
        back_up(home, folder)
        (home / "exclude.txt").write_bytes(os.urandom(2_000_000))
        with pytest.raises(RecollectError, match=r"full.*older backups are intact"):
            back_up(home, folder)
        verify_all(folder, tmp_path, 1)
        (home / "exclude.txt").unlink()
        back_up(home, folder)
        verify_all(folder, tmp_path, 2)


def test_a_home_on_a_read_only_disk_is_backed_up(tmp_path: Path, folder: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        add_messages(disk / "home", "the castle")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert back_up(disk / "home", folder).messages == 1
    verify_all(folder, tmp_path, 1)


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_damage_anywhere_in_a_pack_is_detected(
    home: Path, folder: Path, passphrase: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.backup.making import verify

    (home / "exclude.txt").write_bytes(os.urandom(100_000))
    id_ = back_up(home, folder, passphrase=passphrase).id
    (pack,) = (folder / "packs").iterdir()
    original = pack.read_bytes()
    rng = random.Random(3)
    for _ in range(12):
        damaged = bytearray(original)
        damaged[rng.randrange(8, len(damaged))] ^= 1 << rng.randrange(8)
        pack.write_bytes(damaged)
        with repository(folder, passphrase) as backups:
            assert verify(backups, id_, home, lambda *_: None).problems
    pack.write_bytes(original[:-1])
    with repository(folder, passphrase) as backups:
        assert verify(backups, id_, home, lambda *_: None).problems


def test_the_next_backup_replaces_damaged_chunks(home: Path, folder: Path) -> None:
    back_up(home, folder)
    (pack,) = (folder / "packs").iterdir()
    damaged = bytearray(pack.read_bytes())
    damaged[100] ^= 1
    pack.write_bytes(damaged)
    back_up(home, folder)
    verify_all(folder, home, 2)


def test_a_damaged_library_is_not_backed_up(home: Path, folder: Path) -> None:
    back_up(home, folder)
    library = home / "users/default/library.db"
    data = bytearray(library.read_bytes())
    for page in range(3, len(data) // 8192):
        data[page * 8192 : page * 8192 + 64] = os.urandom(64)
    library.write_bytes(data)
    with pytest.raises(DamagedLibrary, match="older backups are intact"):
        back_up(home, folder)
    verify_all(folder, home, 1)


def test_a_folder_whose_creation_was_interrupted_is_completed(home: Path, folder: Path) -> None:
    (folder / "packs").mkdir(parents=True)
    (folder / "half.tmp").write_text("half")
    back_up(home, folder)
    verify_all(folder, home, 1)


def test_a_folder_with_other_files_is_refused(home: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "photo.jpg").write_text("a photo")
    with pytest.raises(InvalidInput, match="contains other files"):
        back_up(home, folder)
    assert [path.name for path in folder.iterdir()] == ["photo.jpg"]


def test_two_backups_at_a_time_are_refused(home: Path, folder: Path) -> None:
    back_up(home, folder)
    with repository(folder) as other, other.lock(), pytest.raises(StoreBusy, match="Another"):
        back_up(home, folder)


def test_a_backup_folder_inside_the_home_folder_is_refused(home: Path) -> None:
    with pytest.raises(InvalidInput, match="inside the home folder"):
        back_up(home, home / "backups")


# -- encryption ----------------------------------------------------------------


def test_an_encrypted_folder_contains_no_plain_text(home: Path, tmp_path: Path) -> None:
    canary = os.urandom(64)
    (home / "exclude.txt").write_bytes(canary)
    plain, encrypted = tmp_path / "plain", tmp_path / "encrypted"
    back_up(home, plain)
    backup = back_up(home, encrypted, passphrase=PASSPHRASE)
    assert any(canary in path.read_bytes() for path in files_in(plain))  # the check can see it
    digest = hashlib.blake2b(canary, digest_size=32).digest()
    for path in files_in(encrypted):
        data = path.read_bytes()
        for secret in (canary, digest, b"library.db", PASSPHRASE.encode()):
            assert secret not in data
    assert backup.added_bytes


def test_a_wrong_passphrase_is_refused_with_a_reason(home: Path, folder: Path) -> None:
    back_up(home, folder, passphrase=PASSPHRASE)
    with pytest.raises(InvalidInput, match="The passphrase is wrong"):
        back_up(home, folder, passphrase="wrong horse")
    with pytest.raises(InvalidInput, match="are encrypted"):
        back_up(home, folder)


def test_encryption_cannot_be_switched_off_in_the_folder(home: Path, folder: Path) -> None:
    back_up(home, folder, passphrase=PASSPHRASE)
    (folder / "recollect-backups.json").write_text('{"format": 1, "encryption": null}')
    with pytest.raises(InvalidInput, match="are not encrypted, but a passphrase is set"):
        back_up(home, folder, passphrase=PASSPHRASE)


def test_manifests_cannot_be_exchanged(home: Path, folder: Path) -> None:
    first = back_up(home, folder, passphrase=PASSPHRASE)
    add_messages(home, "newer")
    second = back_up(home, folder, passphrase=PASSPHRASE)
    older, newer = sorted((folder / "backups").iterdir())
    newer.write_bytes(older.read_bytes())
    with repository(folder, PASSPHRASE) as backups:
        assert backups.manifest(first.id) == first
        with pytest.raises(DamagedBackup):
            backups.manifest(second.id)


def test_an_older_state_of_the_folder_is_noticed(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up(home, folder)
    last = back_up(home, folder)
    options = ["--home", str(home), "--folder", str(folder)]
    assert run_json(capsys, "backup", "list", *options)["missing"] is None
    (folder / "backups" / f"{last.id}.manifest").unlink()
    for action in ("list", "verify"):
        assert last.id in run_json(capsys, "backup", action, *options, fails=True)["missing"]
    back_up(home, folder)
    assert run_json(capsys, "backup", "verify", *options)["good"]


def test_the_passphrase_comes_from_a_file(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passphrase"
    file.write_text(PASSPHRASE + "\n")
    options = ["--home", str(home), "--folder", str(folder), "--passphrase-file", str(file)]
    run_json(capsys, "backup", *options)
    (backup,) = run_json(capsys, "backup", "list", *options)["backups"]
    assert backup["messages"] == 2
    file.write_text("short")
    error = run_json(capsys, "backup", *options[:3], str(tmp_path / "n"), *options[4:], fails=True)
    assert "at least 8 characters" in error


# -- retention and schedule ----------------------------------------------------


def backups_at(*moments: datetime) -> list[Manifest]:
    return [Manifest(new_id(moment), moment, "", "sqlite", "0", (), (), 0, 1) for moment in moments]


def test_retention_keeps_the_newest_of_each_period() -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    hourly = backups_at(*(now - timedelta(hours=6 * n) for n in range(400)))
    rules = {"last": 2, "daily": 3, "weekly": 2, "monthly": 3}
    removable = {backup.id for backup in expired(hourly, rules)}
    remaining = [backup.created_at for backup in hourly if backup.id not in removable]
    assert remaining == [
        now,
        now - timedelta(hours=6),
        datetime(2026, 11, 15, 18, tzinfo=UTC),
        datetime(2026, 11, 14, 18, tzinfo=UTC),
        datetime(2026, 10, 31, 18, tzinfo=UTC),
        datetime(2026, 9, 30, 18, tzinfo=UTC),
    ]
    assert len(expired(hourly, {})) == 399


def test_pruning_frees_what_only_removed_backups_used(home: Path, folder: Path) -> None:
    canary = os.urandom(50_000)
    (home / "exclude.txt").write_bytes(canary)
    back_up(home, folder)
    (home / "exclude.txt").unlink()
    last = back_up(home, folder)
    with repository(folder) as backups:
        result = prune(backups, {"last": 1}, compact=True)
    assert result.remaining_ids == (last.id,)
    assert result.freed_bytes > 50_000
    assert not any(canary[:1_000] in path.read_bytes() for path in files_in(folder))
    verify_all(folder, home, 1)


def test_pruning_stops_if_a_backup_cannot_be_read(home: Path, folder: Path) -> None:
    back_up(home, folder)
    back_up(home, folder)
    newest = max((folder / "backups").iterdir())
    newest.write_bytes(b"damaged")
    with repository(folder) as backups, pytest.raises(DamagedBackup):
        prune(backups, {"last": 1})
    assert len(list((folder / "backups").iterdir())) == 2


def test_a_backup_made_with_a_wrong_clock_neither_stops_the_schedule_nor_replaces_others(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_BACKUP_FOLDER", str(folder))
    monkeypatch.setenv("RECOLLECT_BACKUP_EVERY", "1d")
    future = back_up(home, folder)
    next_year = future.created_at + timedelta(days=365)
    future = replace(future, id=new_id(next_year), created_at=next_year)
    with repository(folder) as backups:
        backups.write_manifest(future)
        backups.delete_manifest(backups.ids()[0])
    assert "from the future" in backup_overview(home).problem
    assert BackupSchedule(home).run_if_due(datetime.now(UTC))
    assert not BackupSchedule(home).run_if_due(datetime.now(UTC))
    with repository(folder) as backups:
        (newest,) = prune(backups, {"last": 1}).remaining_ids
    assert newest != future.id
    verify_all(folder, home, 1)


def test_a_scheduled_backup_is_made_when_it_is_due(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_BACKUP_FOLDER", str(folder))
    schedule = BackupSchedule(home)
    now = datetime.now(UTC)
    assert not schedule.run_if_due(now)
    monkeypatch.setenv("RECOLLECT_BACKUP_EVERY", "1d")
    assert schedule.run_if_due(now)
    assert not schedule.run_if_due(now + timedelta(hours=23))
    assert schedule.run_if_due(now + timedelta(hours=25))
    verify_all(folder, home, 2)


def test_a_home_without_libraries_has_nothing_to_back_up(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="nothing to back up"):
        back_up(tmp_path / "empty", folder)
