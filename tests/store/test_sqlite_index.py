"""The files beside the SQLite database: sealed volumes and vectors.

They may change how long a search takes, but never its results.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import NOON, message
from random_libraries import conversation, random_documents, random_filter, random_tree
from selection import few

from recollect import Document, Filter, Passage
from recollect.index.refresh import refresh
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word
from recollect.model.undo import Edit
from recollect.models.embeddings import STATIC
from recollect.store.sqlite import (
    SqliteStore,
    sealing,
    vector_files,
    vector_rows,
)
from recollect.store.sqlite.volume import Volume
from recollect.store.sqlite.volume_queries import VolumeFilter
from recollect.store.values import Space

EVERYTHING = Filter()
MANY = 100_000


@pytest.fixture(autouse=True)
def small_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
    monkeypatch.setattr(sealing, "MAX_VOLUME_PASSAGES", 20)
    monkeypatch.setattr(vector_files, "_MIN_ROWS_TO_COPY", 1)


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


def fill(store: SqliteStore, count: int = 45) -> None:
    """Save conversations of five messages. Each message has a unique word and a common one."""
    store.save(
        [
            conversation(
                f"c{start}",
                *(message(f"m{n}", f"walrus only{n}x", minutes=n) for n in range(start, start + 5)),
                title=f"title{start}x",
            )
            for start in range(0, count, 5)
        ]
    )


def matching_ids(store: SqliteStore, query: str, filter: Filter = EVERYTHING) -> list[str]:
    """The ids of all matches, sorted. Their number must agree with `count`."""
    keys = store.match(parse(query), filter, MANY)
    names = sorted(c.id for c in store.candidates(keys, filter))
    assert store.count(parse(query), filter) == (len(keys), True)
    assert len(names) == len(keys)
    return names


def assert_complete(store: SqliteStore, count: int = 45) -> None:
    assert len(matching_ids(store, "walrus")) == count
    for n in range(0, count, 4):
        assert matching_ids(store, f"only{n}x") == [f"m{n}"]


def volume_folders(store: SqliteStore) -> list[Path]:
    folder = store.path.parent / "index" / "volumes"
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.exists() else []


def volume_rows(store: SqliteStore) -> dict[str, tuple[int, int, int]]:
    with store._connections.read() as db:
        return {
            name: (first, last, ready)
            for name, first, last, ready in db.execute("select * from volume")
        }


# -- the same results with and without volumes ---


def make_changes(store: SqliteStore, rng: random.Random) -> None:
    """Edit, delete, retitle, append and import."""
    for document in random_documents(rng, 12)[::2]:
        store.save([document])
    for number in rng.sample(range(40), k=3):
        store.delete(f"d{number}")
    store.save(random_documents(rng, 40)[37:])
    store.edit("d38", Edit(title="Tusk over 日本"))
    store.append("d38", message("last", "walrus café over", author="Bob"))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_sealed_library_that_changed_has_the_same_results_as_an_unsealed_one(
    tmp_path: Path, seed: int
) -> None:
    stores = [SqliteStore(tmp_path / name / "library.db") for name in ("sealed", "unsealed")]
    for number, store in enumerate(stores):
        rng = random.Random(seed)
        store.save(random_documents(rng, 40))
        if number == 0:
            store.refresh()
        make_changes(store, rng)
    sealed, unsealed = stores
    assert any(ready for _, _, ready in volume_rows(sealed).values())
    assert not volume_rows(unsealed)
    rng = random.Random(seed + 100)
    searches_with_results = 0
    for _ in range(45):
        node, filter = random_tree(rng), random_filter(rng)
        if rng.random() < 0.4:
            filter = EVERYTHING
        expected = set(unsealed.match(node, filter, MANY))
        assert set(sealed.match(node, filter, MANY)) == expected, (node, filter)
        assert (
            sealed.count(node, filter) == unsealed.count(node, filter) == (len(expected), True)
        ), (
            node,
            filter,
        )
        searches_with_results += bool(expected)
    assert searches_with_results > 10
    for store in stores:
        store.close()


def test_a_changed_message_counts_once_after_its_volume_is_dropped(
    store: SqliteStore,
) -> None:
    fill(store)
    store.refresh()
    assert len(volume_rows(store)) > 1
    store.save(
        [
            conversation(
                "c0", message("m0", "walrus changed"), message("m1", "walrus only1x", minutes=1)
            )
        ]
    )
    assert matching_ids(store, "changed") == ["m0"]
    store.delete("c5")  # in the same volume, which is dropped
    assert matching_ids(store, "changed") == ["m0"]
    assert len(matching_ids(store, "walrus")) == 40


@pytest.mark.parametrize("first_of_long_messages", [0, 20, 40])
def test_the_best_matches_are_found_whichever_volumes_they_are_in(
    store: SqliteStore, first_of_long_messages: int
) -> None:
    lengths = [*range(first_of_long_messages, 60), *range(first_of_long_messages)]
    texts = [f"walrus{' ice' * length}" for length in lengths]
    messages = [message(f"m{n}", text) for n, text in enumerate(texts)]
    store.save([conversation("c", *messages)])
    store.refresh()
    assert len(volume_rows(store)) == 3
    order = store.match(parse("walrus"), EVERYTHING, 60)
    for limit in range(1, 60):
        assert store.match(parse("walrus"), EVERYTHING, limit) == order[:limit]


# -- writing volumes ---


def test_new_messages_are_sealed_and_small_volumes_are_merged(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "MAX_VOLUME_PASSAGES", 1_000)
    for start in range(0, 40, 10):
        store.save(
            [
                conversation(
                    f"c{start}",
                    *(message(f"m{n}", f"walrus only{n}x") for n in range(start, start + 10)),
                )
            ]
        )
        store.refresh()
    assert sorted(volume_rows(store).values()) == [
        (1, 10, 1),
        (11, 20, 1),
        (21, 30, 1),
        (31, 40, 1),
    ]
    store.refresh()
    assert list(volume_rows(store).values()) == [(1, 40, 1)]
    assert [v.name for v in volume_folders(store)] == list(volume_rows(store))
    assert_complete(store, 40)


# -- missing and damaged volumes ---


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)


def _truncate(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-3])


def _replace_manifest(folder: Path) -> None:
    (folder / "volume.json").write_text("[]")


def _overwrite_with_zeros(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.write_bytes(bytes(file.stat().st_size))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _remove,
        _overwrite_with_zeros("*/*.idx"),
        *(
            pytest.param(damage, marks=pytest.mark.full)
            for damage in (
                _truncate,
                _replace_manifest,
                _overwrite_with_zeros("0/meta.json"),
                _overwrite_with_zeros("1/meta.json"),
                _overwrite_with_zeros("*/*.term"),
                _overwrite_with_zeros("*/*.fast"),
            )
        ),
    ],
)
def test_missing_or_damaged_volumes_do_not_change_results(
    store: SqliteStore, path: Path, damage: Callable[[Path], None]
) -> None:
    fill(store)
    store.save(
        [
            conversation(
                "secret",
                *(message(f"h{n}", f"hidden{n}x", visibility="hidden") for n in range(4)),
                *(message(f"v{n}", f"shown{n}x") for n in range(12)),
            )
        ]
    )
    store.refresh()
    before = set(volume_rows(store))
    store.close()
    before_damage = contents(path.parent / "index/volumes")
    for folder in volume_folders(store):
        damage(folder)
    assert contents(path.parent / "index/volumes") != before_damage
    again = SqliteStore(path)
    hidden = Filter(hidden=True)
    for _ in range(2):
        assert_complete(again)
        assert matching_ids(again, '"walrus only7x"') == ["m7"]
        assert matching_ids(again, "only7*") == ["m7"]
        assert [matching_ids(again, f"hidden{n}x", hidden) for n in range(4)] == [
            ["h0"],
            ["h1"],
            ["h2"],
            ["h3"],
        ]
        assert matching_ids(again, "hidden2x") == []
        assert again.frequencies([Word("walrus"), Word("hidden1x"), Word("nothing")])[0] == [
            45,
            1,
            0,
        ]
        again.refresh()
    assert len(volume_rows(again)) >= len(before)
    assert all(isinstance(Volume(folder), Volume) for folder in volume_folders(again))
    again.close()


SEAL_AND_DIE = """
import os, signal, sys
from pathlib import Path
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite import sealing, volume_index, volume_writer
sealing.MIN_VOLUME_PASSAGES = 10
sealing.MAX_VOLUME_PASSAGES = 20
point = sys.argv[2]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
VolumeIndex = volume_index.VolumeIndex
rows, write = VolumeIndex._rows, volume_index.write_volume
flush = volume_writer.flush_folder
volumes = 0

def dying_rows(self, key_range):
    for number, row in enumerate(rows(self, key_range)):
        if point == str(number):
            die()
        yield row

def dying_flush(folder):
    flush(folder)
    if point == "flushed":
        die()

def dying_write(*arguments):
    global volumes
    write(*arguments)
    volumes += 1
    if (point, volumes) in (("renamed", 1), ("second", 2)):
        die()

VolumeIndex._rows, volume_index.write_volume = dying_rows, dying_write
volume_writer.flush_folder = dying_flush
SqliteStore(Path(sys.argv[1])).refresh()
"""


def kill_sealing(path: Path, point: str) -> None:
    """Kill a process that seals at a row, after flushing, or after the first or second volume."""
    process = subprocess.run([sys.executable, "-c", SEAL_AND_DIE, str(path), point], check=False)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "point",
    ["13", "second", *(pytest.param(p, marks=pytest.mark.full) for p in ("flushed", "renamed"))],
)
def test_killed_sealing_loses_nothing_and_is_completed_later(
    store: SqliteStore, path: Path, point: str
) -> None:
    fill(store)
    store.close()
    kill_sealing(path, point)
    again = SqliteStore(path)
    assert_complete(again)
    again.delete("c0")
    assert matching_ids(again, "only1x") == []
    fill(again)
    assert_complete(again)
    again.refresh()
    assert_complete(again)
    assert len(volume_rows(again)) >= 2
    assert all(ready for _, _, ready in volume_rows(again).values())
    assert [v.name for v in volume_folders(again)] == sorted(volume_rows(again))
    again.close()


# -- deleted text is in no file ---


def files_with(folder: Path, words: bytes) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and words in p.read_bytes()]


def volumes_with(store: SqliteStore, word: str) -> list[Path]:
    """The volumes with a word. Tantivy compresses words, so reading the files is not enough."""
    every = VolumeFilter(Filter(kinds=(), hidden=True))
    return [
        folder
        for folder in volume_folders(store)
        if "." in folder.name or Volume(folder).count_matches(Word(word), every)
    ]


def test_deleted_words_and_vectors_are_in_no_file(store: SqliteStore, path: Path) -> None:
    fill(store)
    store.save(
        [
            conversation(
                "gone",
                message("g1", "quixotic"),
                message("g2", "zugzwang", visibility="hidden"),
                title="obfuscated",
                metadata={"m": "metaword"},
            )
        ]
    )
    for n in range(45, 70):
        store.append("c0", message(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    keys = [store.passage_key("gone", "g1"), store.passage_key("gone", "g2")]
    integers = [vector_rows.pack([v])[0][4:] for key in keys for v in store.vectors(space, key)]
    words = [b"quixotic", b"zugzwang", b"obfuscated", b"metaword"]
    for secret in (*words, *integers):
        assert files_with(path.parent, secret)
    assert len(volumes_with(store, "quixotic")) == len(volumes_with(store, "zugzwang")) == 1
    store.delete("gone")
    for secret in (*words, *integers):
        assert files_with(path.parent, secret) == []
    assert volumes_with(store, "quixotic") == volumes_with(store, "zugzwang") == []
    assert store.nearest(
        space, np.ones(space.dimensions, np.float32) / 16, Filter(hidden=True), 1_000
    )
    refresh(store, STATIC)
    for secret in (*words, *integers):
        assert files_with(path.parent, secret) == []


def note(*texts: str, **fields: Any) -> Document:
    passages = tuple(
        Passage(f"n-{text}", None, text, type="chunk", created_at=NOON) for text in texts
    )
    return Document("notes", "n", kind="note", id="n", passages=passages, **fields)


def test_rewriting_a_note_removes_its_old_text_from_all_files(
    store: SqliteStore, path: Path
) -> None:
    fill(store)
    receipt = store.start_import("p")
    store.save(
        [note("quixotic", "walrus seal", title="obfuscated", metadata={"m": "metaword"})],
        receipt.id,
    )
    store.update_receipt(receipt)
    again = store.start_import("p")
    store.save(
        [note("quixotic", "zugzwang", title="obfuscated", metadata={"m": "metaword"})], again.id
    )
    store.update_receipt(again)
    for n in range(45, 70):
        store.append("c0", message(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    (vector,) = store.vectors(space, store.passage_key("n", "n-quixotic"))
    deleted_data = [
        b"quixotic",
        b"obfuscated",
        b"metaword",
        b"walrus seal",
        vector_rows.pack([vector])[0][4:],
    ]
    for secret in deleted_data:
        assert files_with(path.parent, secret)
    assert volumes_with(store, "quixotic") and volumes_with(store, "obfuscated")
    store.rewrite("n", note("zugzwang", title="plain"))
    for secret in deleted_data:
        assert files_with(path.parent, secret) == []
    assert volumes_with(store, "quixotic") == volumes_with(store, "obfuscated") == []
    assert files_with(path.parent, b"zugzwang")
    assert matching_ids(store, "zugzwang") == ["n-zugzwang"]


@pytest.mark.parametrize(
    "point",
    ["flushed", *(pytest.param(p, marks=pytest.mark.full) for p in ("19", "renamed"))],
)
def test_deleting_also_cleans_up_after_killed_sealing(
    store: SqliteStore, path: Path, point: str
) -> None:
    fill(store)
    store.close()
    kill_sealing(path, point)
    again = SqliteStore(path)
    again.delete("c0")
    assert volumes_with(again, "only0x") == []
    again.close()


# -- vectors in files ---

DIMENSIONS = 8


def unit(
    rng: np.random.Generator, count: int, dimensions: int = DIMENSIONS
) -> np.ndarray[Any, np.dtype[np.float32]]:
    vectors = rng.standard_normal((count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def embed_all(store: SqliteStore, space: Space, rng: np.random.Generator) -> None:
    batch, _ = store.unembedded(space, 100)
    while batch:
        store.add_vectors(space, {passage: list(unit(rng, 2)) for passage in batch})
        batch, _ = store.unembedded(space, 100)


@pytest.fixture
def space(store: SqliteStore) -> Space:
    fill(store)
    space = store.add_space("test", "1", DIMENSIONS, None)
    embed_all(store, space, np.random.default_rng(5))
    store.refresh()
    return space


@pytest.fixture
def copied_space(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Space:
    """A space whose vectors are in the files and still in the table.

    Older versions stored them so; now this is the state between two transactions.
    """
    with monkeypatch.context() as patch:
        patch.setattr(vector_files.VectorUpkeep, "_clear_copied", lambda self, space: None)
        fill(store)
        space = store.add_space("test", "1", DIMENSIONS, None)
        embed_all(store, space, np.random.default_rng(5))
        store.refresh()
    return space


def blobs(store: SqliteStore) -> list[bytes]:
    with store._connections.read() as db:
        rows = db.execute(
            "select coalesce(n.vector, v.vector) from vector v "
            "left join new_vector n on n.row = v.row order by v.row"
        )
        return [blob for (blob,) in rows]


def files_of(store: SqliteStore, space: Space) -> tuple[Path, Path]:
    folder = store.path.parent / "index" / "vectors"
    return folder / f"space-{space.id}.attributes", folder / f"space-{space.id}.vectors"


def nearest_to_all(
    store: SqliteStore, space: Space, filter: Filter = EVERYTHING
) -> list[list[tuple[int, float]]]:
    queries = unit(np.random.default_rng(9), 10)
    return [[(k, round(c, 5)) for k, c in store.nearest(space, v, filter, 7)] for v in queries]


SIZES = [0, 34, *(pytest.param(size, marks=pytest.mark.full) for size in (1, 32, 333, 719))]


@pytest.mark.parametrize("suffix", ["attributes", "vectors"])
@pytest.mark.parametrize("size", SIZES)
def test_truncated_vector_files_do_not_change_results(
    store: SqliteStore, copied_space: Space, path: Path, suffix: str, size: int
) -> None:
    before = nearest_to_all(store, copied_space)
    (file,) = [f for f in files_of(store, copied_space) if f.name.endswith(suffix)]
    data = file.read_bytes()
    assert len(data) > size
    store.close()
    file.write_bytes(data[:size])
    again = SqliteStore(path)
    assert nearest_to_all(again, copied_space) == before
    again.refresh()
    assert nearest_to_all(again, copied_space) == before
    assert file.read_bytes() == data
    again.close()


@pytest.mark.parametrize("suffix", ["attributes", "vectors"])
@pytest.mark.parametrize("size", few(SIZES))
def test_vectors_in_lost_files_are_embedded_again(
    store: SqliteStore, space: Space, path: Path, suffix: str, size: int
) -> None:
    (file,) = [f for f in files_of(store, space) if f.name.endswith(suffix)]
    file.write_bytes(file.read_bytes()[:size])
    nearest_to_all(store, space)
    store.cosines(space, unit(np.random.default_rng(3), 1)[0], range(1, 46))
    store.refresh()
    queued = store.unembedded(space, 100)[0]
    assert 0 < len(queued) <= 45
    embed_all(store, space, np.random.default_rng(5))
    store.refresh()
    assert {len(store.vectors(space, key)) for key in range(1, 46)} == {2}
    assert set(blobs(store)) == {b""}
    assert store.verify().healthy


def test_files_that_are_newer_than_the_database_are_cut(
    store: SqliteStore, space: Space, path: Path
) -> None:
    store.close()
    backup = path.read_bytes()
    later = SqliteStore(path)
    later.append("c0", message("later", "walrus"))
    embed_all(later, space, np.random.default_rng(6))
    later.refresh()
    later.close()
    path.write_bytes(backup)
    again = SqliteStore(path)
    before = nearest_to_all(again, space)
    again.append("c0", message("other", "walrus"))
    again.refresh()
    embed_all(again, space, np.random.default_rng(7))
    again.refresh()
    assert len(again.vectors(space, again.passage_key("c0", "other"))) == 2
    assert len(before) == len(nearest_to_all(again, space))
    _, integers_file = files_of(again, space)
    assert integers_file.stat().st_size == 46 * 2 * DIMENSIONS
    again.close()


def test_deleted_vectors_are_zeros_in_the_file(store: SqliteStore, space: Space) -> None:
    _, integers_file = files_of(store, space)
    deleted_keys = {store.passage_key("c5", f"m{n}") for n in range(5, 10)}
    store.delete("c5")
    matrix = np.frombuffer(integers_file.read_bytes(), np.int8).reshape(-1, DIMENSIONS)
    assert np.flatnonzero(~matrix.any(axis=1)).tolist() == list(range(10, 20))
    assert not deleted_keys & {key for hits in nearest_to_all(store, space) for key, _ in hits}
    with store._connections.read() as db:
        assert db.execute("select count(*) from wiped").get == 0


def test_vectors_that_are_not_in_the_files_yet_are_found(
    store: SqliteStore, copied_space: Space, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = nearest_to_all(store, copied_space)
    store.close()
    shutil.rmtree(path.parent / "index" / "vectors")
    monkeypatch.setattr(vector_files, "_ROWS_PER_COPY", 2)
    monkeypatch.setattr(vector_rows, "_ROWS_PER_READ", 2)
    again = SqliteStore(path)
    assert nearest_to_all(again, copied_space) == before
    again.refresh()
    assert nearest_to_all(again, copied_space) == before
    again.close()


def test_a_dropped_space_has_no_files_and_no_vectors(store: SqliteStore, space: Space) -> None:
    other = store.add_space("other", "1", DIMENSIONS, None)
    store.drop_space(space)
    assert not any(f.exists() for f in files_of(store, space))
    with store._connections.read() as db:
        assert db.execute("select count(*) from vector").get == 0
    assert store.spaces() == [other]
