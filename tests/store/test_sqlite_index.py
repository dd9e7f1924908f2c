"""What lies beside the SQLite file: sealed volumes and copies of vectors. They may change how long an answer takes,
never the answer."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.index.refresh import refresh
from recollect.language.query import (
    And,
    Near,
    Node,
    Not,
    Or,
    Word,
    parse,
)
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.models.embeddings import STATIC
from recollect.store.sql import editing, reading, spaces
from recollect.store.sqlite import SqliteStore, sealed, text, vectors, volume
from recollect.store.sqlite import store as store_module
from recollect.store.sqlite.volume import Volume
from recollect.store.values import Space

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter()
MANY = 100_000


@pytest.fixture(autouse=True)
def volumes_of_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "SMALLEST", 10)
    monkeypatch.setattr(store_module, "SMALLEST", 10)
    monkeypatch.setattr(sealed, "LARGEST", 20)
    monkeypatch.setattr(vectors, "_TAIL", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "library.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def said(id: str, content: str, role: str = "user", minutes: int = 0, **fields: Any) -> Passage:
    return Passage(id, role, content, created_at=NOON + timedelta(minutes=minutes), **fields)


def conversation(id: str, *passages: Passage, **fields: Any) -> Document:
    return Document("test", id, passages=passages, created_at=NOON, updated_at=NOON, **fields)


def fill(store: SqliteStore, count: int = 45) -> None:
    """Conversations of five messages; each message has a word of its own, and one that all have."""
    store.save(
        [
            conversation(
                f"c{start}",
                *(said(f"m{n}", f"walrus only{n}x", minutes=n) for n in range(start, start + 5)),
                title=f"title{start}x",
            )
            for start in range(0, count, 5)
        ]
    )


def found(store: SqliteStore, query: str, filter: Filter = EVERYTHING) -> list[str]:
    """The ids of all matches, which are as many as are counted."""
    keys = store.match(parse(query), filter, MANY)
    names = sorted(c.id for c in store.candidates(keys, filter))
    assert store.count(parse(query), filter) == (len(keys), True)
    assert len(names) == len(keys)
    return names


def everything_is_found(store: SqliteStore, count: int = 45) -> None:
    assert len(found(store, "walrus")) == count
    for n in range(0, count, 4):
        assert found(store, f"only{n}x") == [f"m{n}"]


def volumes(store: SqliteStore) -> list[Path]:
    folder = store.path.parent / "index" / "volumes"
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.exists() else []


def listed(store: SqliteStore) -> dict[str, tuple[int, int, int]]:
    with store._connections.read() as db:
        return {
            name: (first, last, ready)
            for name, first, last, ready in db.execute("select * from volume")
        }


# -- sealed as unsealed ------------------------------------------------------------

WORDS = [
    "walrus",
    "Tusk",
    "tusks",
    "café",
    "cafe",
    "naïve",
    "日本",
    "本日",
    "a.b",
    "x_y",
    "0x80",
    "ภาษา",
    "over",
]


def random_documents(rng: random.Random, count: int) -> list[Document]:
    made = []
    for d in range(count):
        passages = [
            said(
                f"p{d}-{n}",
                " ".join(rng.choices(WORDS, k=rng.randrange(9))),
                rng.choice(["user", "assistant", "tool"]),
                rng.randrange(1_000),
                author=rng.choice([None, "Ann", "Bob"]),
                visibility=rng.choice(["all", "all", "all", "hidden"]),
            )._replace(
                created_at=rng.choice([NOON + timedelta(minutes=rng.randrange(1_000))] * 5 + [None])
            )
            for n in range(rng.randrange(1, 7))
        ]
        made.append(
            conversation(
                f"d{d}",
                *passages,
                title=" ".join(rng.choices(WORDS, k=2)),
                project=rng.choice(["work", "home"]),
                metadata={
                    "tags": rng.sample(["idea", "todo"], k=rng.randrange(3)),
                    "character_id": rng.randrange(3),
                    "media_type": rng.choice(["pdf", "Video"]),
                },
                kind=rng.choice(["conversation"] * 3 + ["note"]),
            )
        )
    return made


def random_tree(rng: random.Random, depth: int = 0) -> Node:
    kind = rng.choice(
        ["word", "word", "phrase", "prefix", "near", *(["and", "or", "not"] if depth < 2 else [])]
    )
    match kind:
        case "phrase":
            return Word(" ".join(rng.choices(WORDS, k=2)))
        case "prefix":
            return Word(rng.choice(WORDS)[: rng.randrange(1, 4)], prefix=True)
        case "near":
            return Near(tuple(Word(w) for w in rng.choices(WORDS, k=2)), rng.randrange(4))
        case "and":
            return And((random_tree(rng, depth + 1), random_tree(rng, depth + 1)))
        case "or":
            return Or((random_tree(rng, depth + 1), random_tree(rng, depth + 1)))
        case "not":
            return And((random_tree(rng, depth + 1), Not(random_tree(rng, depth + 1))))
    return Word(rng.choice(WORDS))


def random_filter(rng: random.Random) -> Filter:
    def some(*values: str) -> tuple[str, ...]:
        return tuple(rng.sample(values, k=rng.choice([0, 0, 0, 1, 2])))

    return Filter(
        roles=some("user", "assistant", "tool"),
        authors=some("Ann", "Bob", "Eve"),
        not_roles=some("tool", "user"),
        not_authors=some("Ann", "Eve"),
        projects=some("work", "play"),
        not_projects=some("home", "play"),
        tags=some("idea", "todo"),
        not_tags=some("idea", "none"),
        titles=some("walrus", "tusk")[:1],
        not_titles=some("cafe", "over")[:1],
        conversations=tuple(f"d{rng.randrange(40)}" for _ in range(9))
        if rng.random() < 0.2
        else (),
        senders=some("USER", "ann", "tool"),
        media_types=some("PDF", "video"),
        characters=some("1", "2"),
        sources=some("test", "other"),
        kinds=some("conversation", "note"),
        after=rng.choice([None, None, NOON + timedelta(minutes=rng.randrange(600))]),
        before=rng.choice([None, None, NOON + timedelta(minutes=rng.randrange(400, 1_000))]),
        hidden=rng.random() < 0.4,
    )


def change_much(store: SqliteStore, rng: random.Random) -> None:
    """Edit, delete, retitle, append and import."""
    for document in random_documents(rng, 12)[::2]:
        store.save([document])
    for number in rng.sample(range(40), k=3):
        store.delete(f"d{number}")
    store.save(random_documents(rng, 40)[37:])
    store.update("d38", title="Tusk over 日本")
    store.append("d38", said("last", "walrus café over", author="Bob"))


@pytest.mark.parametrize("seed", range(2))
def test_sealed_and_changed_since_it_finds_and_counts_what_it_would_unsealed(
    tmp_path: Path, seed: int
) -> None:
    stores = [SqliteStore(tmp_path / name / "library.db") for name in ("sealed", "open")]
    for number, store in enumerate(stores):
        rng = random.Random(seed)
        store.save(random_documents(rng, 40))
        if number == 0:
            store.refresh()
        change_much(store, rng)
    first, second = stores
    assert any(ready for _, _, ready in listed(first).values())
    assert not listed(second)
    rng = random.Random(seed + 100)
    some = 0
    for _ in range(45):
        node, filter = random_tree(rng), random_filter(rng)
        if rng.random() < 0.4:
            filter = EVERYTHING
        expected = set(second.match(node, filter, MANY))
        assert set(first.match(node, filter, MANY)) == expected, (node, filter)
        assert first.count(node, filter) == second.count(node, filter) == (len(expected), True), (
            node,
            filter,
        )
        some += bool(expected)
    assert some > 10
    for store in stores:
        store.close()


def test_what_changed_in_a_volume_is_counted_once_after_the_volume_is_dropped(
    store: SqliteStore,
) -> None:
    fill(store)
    store.refresh()
    assert len(listed(store)) > 1
    store.save(
        [conversation("c0", said("m0", "walrus changed"), said("m1", "walrus only1x", minutes=1))]
    )
    assert found(store, "changed") == ["m0"]
    store.delete("c5")  # of the same volume, which is dropped with it
    assert found(store, "changed") == ["m0"]
    assert len(found(store, "walrus")) == 40


def test_what_changed_in_a_volume_is_counted_once_while_the_volume_cannot_be_read(
    store: SqliteStore,
) -> None:
    fill(store)
    store.refresh()
    store.save([conversation("c0", said("m0", "walrus changed"))])
    store.close()
    (first,) = [name for name, (first, _, _) in listed_after(store).items() if first == 1]
    shutil.rmtree(store.path.parent / "index/volumes" / first)
    again = SqliteStore(store.path)
    assert found(again, "changed") == ["m0"]
    assert len(found(again, "walrus")) == 45
    again.close()


def listed_after(store: SqliteStore) -> dict[str, tuple[int, int, int]]:
    again = SqliteStore(store.path)
    try:
        return listed(again)
    finally:
        again.close()


def test_what_changed_in_a_volume_is_counted_once_where_the_volume_must_ask_fts5(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "_PHRASES_OF_A_PREFIX", 2)
    fill(store)
    store.refresh()
    store.save([conversation("c0", said("m0", "walrus onlychanged"))])
    assert len(found(store, '"walrus only"*')) == 45


def test_a_filter_holds_inside_also_where_very_many_match(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_LOOKED_AT", 20)
    fill(store)
    old = Filter(before=NOON + timedelta(minutes=3))
    assert found(store, "walrus", old) == ["m0", "m1", "m2", "m3"]
    assert found(store, "NEAR(walrus walrus) OR walrus", old) == ["m0", "m1", "m2", "m3"]


# -- making volumes ------------------------------------------------------------------


def test_what_comes_together_is_sealed_and_small_volumes_become_one(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "LARGEST", 1_000)
    for start in range(0, 40, 10):
        store.save(
            [
                conversation(
                    f"c{start}",
                    *(said(f"m{n}", f"walrus only{n}x") for n in range(start, start + 10)),
                )
            ]
        )
        store.refresh()
    assert sorted(listed(store).values()) == [(1, 10, 1), (11, 20, 1), (21, 30, 1), (31, 40, 1)]
    store.refresh()
    assert list(listed(store).values()) == [(1, 40, 1)]
    assert [v.name for v in volumes(store)] == list(listed(store))
    everything_is_found(store, 40)


def test_a_volume_with_many_changes_is_made_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_STALE", 2)
    fill(store, 20)
    store.refresh()
    before = set(listed(store))
    for n in range(3):
        store.save([conversation("c0", said(f"m{n}", f"walrus changed{n}x"))])
    store.refresh()
    assert not before & set(listed(store))
    with store._connections.read() as db:
        assert db.execute("select count(*) from stale").get == 0
    assert [found(store, f"changed{n}x") for n in range(3)] == [["m0"], ["m1"], ["m2"]]
    assert found(store, "only0x OR only1x OR only2x") == []


def test_asking_again_makes_no_volume_again(store: SqliteStore) -> None:
    fill(store)
    store.refresh()
    before = listed(store)
    store.refresh()
    assert listed(store) == before


def test_another_process_that_has_it_open_sees_what_was_sealed_dropped_and_made_again(
    store: SqliteStore, path: Path
) -> None:
    other = SqliteStore(path)
    fill(store)
    everything_is_found(other)
    store.refresh()
    everything_is_found(other)
    store.delete("c0")
    assert found(other, "only1x") == []
    assert len(found(other, "walrus")) == 40
    store.refresh()
    assert len(found(other, "walrus")) == 40
    other.close()


def test_sealing_that_is_told_to_stop_stops_quietly_and_loses_nothing(store: SqliteStore) -> None:
    fill(store)
    asked = iter([False, False, True])
    store.refresh(stop=lambda: next(asked, True))
    everything_is_found(store)
    assert all(ready for _, _, ready in listed(store).values())
    store.refresh()
    assert len(listed(store)) == 2
    everything_is_found(store)


def test_progress_tells_how_much_is_sealed(store: SqliteStore) -> None:
    fill(store, 40)
    told: list[tuple[int, int]] = []
    store.refresh(lambda done, total: told.append((done, total)))
    assert told == [(20, 40), (40, 40)]


def test_what_happens_while_a_volume_is_written_is_so_afterwards(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 40)
    rows = sealed.Sealed._rows

    def interrupted(self: sealed.Sealed, span: text.Span) -> Iterator[volume.Row]:
        given = list(rows(self, span))
        yield from given[:10]
        if span[0] == 1:
            store.save([conversation("c0", said("m1", "walrus changed", minutes=1))])
            store.save([conversation("c15", said("m16", "walrus altered", minutes=1))])
            store.update("c10", title="renamed")
            store.append("c0", said("new", "walrus arrived"))
        else:
            store.delete("c20")
        yield from given[10:]

    monkeypatch.setattr(sealed.Sealed, "_rows", interrupted)
    store.refresh()
    monkeypatch.setattr(sealed.Sealed, "_rows", rows)
    for _ in range(2):
        assert found(store, "changed") == ["m1"]
        assert found(store, "altered") == ["m16"]
        assert found(store, "only1x OR only16x OR title10x") == []
        assert found(store, "renamed") == ["m10"]
        assert found(store, "arrived") == ["new"]
        assert found(store, "title20x OR only20x OR only24x") == []
        assert len(found(store, "walrus")) == 36
        assert [v.name for v in volumes(store)] == sorted(listed(store))
        store.refresh()
    assert len(listed(store)) == 2


def test_writers_lose_nothing_while_volumes_are_made(store: SqliteStore, path: Path) -> None:
    fill(store)
    done = threading.Event()
    errors: list[BaseException] = []

    def seal_again_and_again() -> None:
        other = SqliteStore(path)
        try:
            while not done.is_set():
                other.refresh()
        except BaseException as error:
            errors.append(error)
        finally:
            other.close()

    sealing = threading.Thread(target=seal_again_and_again)
    sealing.start()
    try:
        for n in range(45, 105):
            store.append(f"c{n % 9 * 5}", said(f"m{n}", f"walrus only{n}x"))
            if n % 20 == 0:
                store.save([conversation(f"x{n}", said(f"y{n}", "short lived"))])
                store.delete(f"x{n}")
    finally:
        done.set()
        sealing.join()
    assert errors == []
    everything_is_found(store, 105)
    assert found(store, "short OR lived") == []
    assert store.verify().healthy


# -- what may happen to volumes ----------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _without(folder: Path) -> None:
    shutil.rmtree(folder)


def _cut_short(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-3])


def _no_description(folder: Path) -> None:
    (folder / "volume.json").write_text("[]")


def _zeros(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.write_bytes(bytes(file.stat().st_size))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _without,
        _cut_short,
        _no_description,
        _zeros("shown/meta.json"),
        _zeros("hidden/meta.json"),
        _zeros("*/*.term"),
        _zeros("*/*.idx"),
        _zeros("*/*.fast"),
    ],
)
def test_a_volume_that_is_gone_or_damaged_costs_no_answer(
    store: SqliteStore, path: Path, damage: Callable[[Path], None]
) -> None:
    fill(store)
    store.save(
        [
            conversation(
                "secret",
                *(said(f"h{n}", f"hidden{n}x", visibility="hidden") for n in range(4)),
                *(said(f"v{n}", f"shown{n}x") for n in range(12)),
            )
        ]
    )
    store.refresh()
    before = set(listed(store))
    store.close()
    before_damage = contents(path.parent / "index/volumes")
    for folder in volumes(store):
        damage(folder)
    assert contents(path.parent / "index/volumes") != before_damage
    again = SqliteStore(path)
    hidden = Filter(hidden=True)
    for _ in range(2):
        everything_is_found(again)
        assert found(again, '"walrus only7x"') == ["m7"]
        assert found(again, "only7*") == ["m7"]
        assert [found(again, f"hidden{n}x", hidden) for n in range(4)] == [
            ["h0"],
            ["h1"],
            ["h2"],
            ["h3"],
        ]
        assert found(again, "hidden2x") == []
        assert again.frequencies([Word("walrus"), Word("hidden1x"), Word("nothing")])[0] == [
            45,
            1,
            0,
        ]
        again.refresh()
    assert len(listed(again)) >= len(before)
    assert all(isinstance(Volume(folder), Volume) for folder in volumes(again))
    again.close()


def test_the_whole_folder_of_the_index_may_be_removed(store: SqliteStore, path: Path) -> None:
    fill(store)
    refresh(store, STATIC)
    store.close()
    shutil.rmtree(path.parent / "index")
    again = SqliteStore(path)
    (space,) = again.spaces()
    for _ in range(2):
        everything_is_found(again)
        (vector,) = again.vectors(space, again.passage_key("c0", "m3"))
        assert again.nearest(space, vector, EVERYTHING, 1)[0][0] == again.passage_key("c0", "m3")
        again.delete("c40") if len(found(again, "walrus")) == 45 else None
        fill(again)
        refresh(again, STATIC)
    again.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from recollect.store.sqlite import SqliteStore, sealed, store, volume
sealed.SMALLEST = store.SMALLEST = 10
sealed.LARGEST = 20
point = sys.argv[2]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
rows, write, flush = sealed.Sealed._rows, sealed.write, volume._flush
written = 0

def dying_rows(self, span):
    for number, row in enumerate(rows(self, span)):
        if point == str(number):
            die()
        yield row

def dying_flush(folder):
    flush(folder)
    if point == "flushed":
        die()

def dying_write(*given):
    global written
    write(*given)
    written += 1
    if point in ("renamed", "second") and written == (1 if point == "renamed" else 2):
        die()

sealed.Sealed._rows, sealed.write, volume._flush = dying_rows, dying_write, dying_flush
SqliteStore(Path(sys.argv[1])).refresh()
"""


def kill_sealing(path: Path, point: str) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), point], check=False).returncode
    assert ended == -signal.SIGKILL


@pytest.mark.parametrize("point", ["13", "flushed", "renamed", "second"])
def test_sealing_that_is_killed_loses_nothing_and_the_next_finishes(
    store: SqliteStore, path: Path, point: str
) -> None:
    fill(store)
    store.close()
    kill_sealing(path, point)
    again = SqliteStore(path)
    everything_is_found(again)
    again.delete("c0")
    assert found(again, "only1x") == []
    fill(again)
    everything_is_found(again)
    again.refresh()
    everything_is_found(again)
    assert len(listed(again)) >= 2
    assert all(ready for _, _, ready in listed(again).values())
    assert [v.name for v in volumes(again)] == sorted(listed(again))
    again.close()


@pytest.mark.parametrize("row", [0, 7, 23])
def test_sealing_that_fails_loses_nothing_and_the_next_finishes(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    fill(store)
    rows = sealed.Sealed._rows
    left = row

    def failing(self: sealed.Sealed, span: text.Span) -> Iterator[volume.Row]:
        nonlocal left
        for one in rows(self, span):
            if left == 0:
                raise OSError("No space left on device")
            left -= 1
            yield one

    monkeypatch.setattr(sealed.Sealed, "_rows", failing)
    with pytest.raises(OSError, match="No space"):
        store.refresh()
    monkeypatch.setattr(sealed.Sealed, "_rows", rows)
    everything_is_found(store)
    assert [v.name for v in volumes(store)] == sorted(listed(store))
    store.refresh()
    assert len(listed(store)) == 2
    everything_is_found(store)


# -- nothing is left of what was deleted -----------------------------------------------------


def files_with(folder: Path, words: bytes) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and words in p.read_bytes()]


def volumes_with(store: SqliteStore, word: str) -> list[Path]:
    """Tantivy folds words into a graph, so that a volume must be asked."""
    every = volume.Selection(hidden=True)
    return [
        folder
        for folder in volumes(store)
        if "." in folder.name or Volume(folder).count(Word(word), every)
    ]


def test_deleted_words_and_vectors_are_in_no_file(store: SqliteStore, path: Path) -> None:
    fill(store)
    store.save(
        [
            conversation(
                "gone",
                said("g1", "quixotic"),
                said("g2", "zugzwang", visibility="hidden"),
                title="obfuscated",
                metadata={"m": "metaword"},
            )
        ]
    )
    for n in range(45, 70):
        store.append("c0", said(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    keys = [store.passage_key("gone", "g1"), store.passage_key("gone", "g2")]
    packed = [vectors.packed([v])[0][4:] for key in keys for v in store.vectors(space, key)]
    words = [b"quixotic", b"zugzwang", b"obfuscated", b"metaword"]
    for known in (*words, *packed):
        assert files_with(path.parent, known)
    assert len(volumes_with(store, "quixotic")) == len(volumes_with(store, "zugzwang")) == 1
    store.delete("gone")
    for known in (*words, *packed):
        assert files_with(path.parent, known) == []
    assert volumes_with(store, "quixotic") == volumes_with(store, "zugzwang") == []
    assert store.nearest(
        space, np.ones(space.dimensions, np.float32) / 16, Filter(hidden=True), 1_000
    )
    refresh(store, STATIC)
    for known in (*words, *packed):
        assert files_with(path.parent, known) == []


def test_an_import_that_is_taken_back_leaves_no_word_or_vector_in_a_file(
    store: SqliteStore, path: Path
) -> None:
    fill(store)
    receipt = store.start_import("p")
    store.save([conversation("gone", said("g1", "quixotic zugzwang"))], receipt.id)
    store.finish_import(receipt)
    store.append("c0", said("m45", "walrus only45x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    (vector,) = store.vectors(space, store.passage_key("gone", "g1"))
    store.undo_import(receipt.id)
    assert files_with(path.parent, b"quixotic") == files_with(path.parent, b"zugzwang") == []
    assert files_with(path.parent, vectors.packed([vector])[0][4:]) == []
    assert volumes_with(store, "quixotic") == []


def note(*texts: str, **fields: Any) -> Document:
    passages = tuple(
        Passage(f"n-{text}", None, text, type="chunk", created_at=NOON) for text in texts
    )
    return Document("notes", "n", kind="note", id="n", passages=passages, **fields)


def test_what_a_person_takes_out_of_a_note_is_in_no_file(store: SqliteStore, path: Path) -> None:
    fill(store)
    receipt = store.start_import("p")
    store.save(
        [note("quixotic", "walrus seal", title="obfuscated", metadata={"m": "metaword"})],
        receipt.id,
    )
    store.finish_import(receipt)
    again = store.start_import("p")
    store.save(
        [note("quixotic", "zugzwang", title="obfuscated", metadata={"m": "metaword"})], again.id
    )
    store.finish_import(again)
    for n in range(45, 70):
        store.append("c0", said(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    (vector,) = store.vectors(space, store.passage_key("n", "n-quixotic"))
    gone = [
        b"quixotic",
        b"obfuscated",
        b"metaword",
        b"walrus seal",
        vectors.packed([vector])[0][4:],
    ]
    for known in gone:
        assert files_with(path.parent, known)
    assert volumes_with(store, "quixotic") and volumes_with(store, "obfuscated")
    store.rewrite("n", note("zugzwang", title="plain"))
    for known in gone:
        assert files_with(path.parent, known) == []
    assert volumes_with(store, "quixotic") == volumes_with(store, "obfuscated") == []
    assert files_with(path.parent, b"zugzwang")
    assert found(store, "zugzwang") == ["n-zugzwang"]


def test_what_an_import_takes_out_of_a_note_stays_as_long_as_the_import_can_be_undone(
    store: SqliteStore, path: Path
) -> None:
    fill(store)
    store.save([note("quixotic")])
    receipt = store.start_import("p")
    store.save([note("zugzwang")], receipt.id)
    store.finish_import(receipt)
    assert files_with(path.parent, b"quixotic")
    store.undo_import(receipt.id)
    assert (found(store, "quixotic"), files_with(path.parent, b"zugzwang")) == (["n-quixotic"], [])
    store.undo_import(changed(store, note("zugzwang")))
    changed(store, note("zugzwang"))
    store.delete("n")
    assert files_with(path.parent, b"quixotic") == files_with(path.parent, b"zugzwang") == []


def changed(store: SqliteStore, document: Document) -> int:
    receipt = store.start_import("p")
    store.save([document], receipt.id)
    store.finish_import(receipt)
    return receipt.id


@pytest.mark.parametrize("point", ["19", "flushed", "renamed"])
def test_what_a_killed_sealing_left_is_gone_with_what_is_deleted(
    store: SqliteStore, path: Path, point: str
) -> None:
    fill(store)
    store.close()
    kill_sealing(path, point)
    again = SqliteStore(path)
    again.delete("c0")
    assert volumes_with(again, "only0x") == []
    again.close()


# -- vectors in files ---------------------------------------------------------------------

DIMENSIONS = 8


def unit(
    rng: np.random.Generator, count: int, dimensions: int = DIMENSIONS
) -> np.ndarray[Any, np.dtype[np.float32]]:
    made = rng.standard_normal((count, dimensions)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def embed_all(store: SqliteStore, space: Space, rng: np.random.Generator) -> None:
    while batch := store.unembedded(space, 100)[0]:
        store.add_vectors(space, {p: list(unit(rng, 2)) for p in batch})


@pytest.fixture
def space(store: SqliteStore) -> Space:
    fill(store)
    space = store.add_space("test", "1", DIMENSIONS, None)
    embed_all(store, space, np.random.default_rng(5))
    store.refresh()
    return space


def files_of(store: SqliteStore, space: Space) -> tuple[Path, Path]:
    folder = store.path.parent / "index" / "vectors"
    return folder / f"space-{space.id}.rows", folder / f"space-{space.id}.vectors"


def nearest_to_all(
    store: SqliteStore, space: Space, filter: Filter = EVERYTHING
) -> list[list[tuple[int, float]]]:
    asked = unit(np.random.default_rng(9), 10)
    return [[(k, round(c, 5)) for k, c in store.nearest(space, v, filter, 7)] for v in asked]


@pytest.mark.parametrize("suffix", ["rows", "vectors"])
@pytest.mark.parametrize("left", [0, 1, 47, 49, 333, 719])
def test_a_copy_that_was_cut_short_costs_no_answer(
    store: SqliteStore, space: Space, path: Path, suffix: str, left: int
) -> None:
    before = nearest_to_all(store, space)
    (file,) = [f for f in files_of(store, space) if f.name.endswith(suffix)]
    whole = file.read_bytes()
    assert len(whole) > left
    store.close()
    file.write_bytes(whole[:left])
    again = SqliteStore(path)
    assert nearest_to_all(again, space) == before
    again.refresh()
    assert nearest_to_all(again, space) == before
    assert file.read_bytes() == whole
    again.close()


def test_a_copy_that_was_cut_while_numbers_were_written_goes_on_right(
    store: SqliteStore, space: Space, path: Path
) -> None:
    rows, numbers = files_of(store, space)
    store.close()
    numbers.write_bytes(
        numbers.read_bytes() + b"\x7f" * 21
    )  # what a kill left before the rows that count them
    again = SqliteStore(path)
    before = nearest_to_all(again, space)
    again.append("c0", said("new", "walrus"))
    embed_all(again, space, np.random.default_rng(6))
    with_new = nearest_to_all(again, space)
    again.refresh()
    assert nearest_to_all(again, space) == with_new
    assert before != with_new or len(with_new) == len(before)
    assert numbers.stat().st_size == 46 * 2 * DIMENSIONS
    assert rows.stat().st_size % (46 * 2) == 0
    again.close()


def test_the_copy_grows_by_what_is_new_only(store: SqliteStore, space: Space) -> None:
    rows, numbers = files_of(store, space)
    before = rows.read_bytes(), numbers.read_bytes()
    store.append("c0", said("new", "walrus"))
    embed_all(store, space, np.random.default_rng(6))
    store.refresh()
    assert len(numbers.read_bytes()) == 46 * 2 * DIMENSIONS
    assert rows.read_bytes().startswith(before[0])
    assert numbers.read_bytes().startswith(before[1])


def test_vectors_of_what_was_deleted_are_zeros_in_the_file(
    store: SqliteStore, space: Space
) -> None:
    _, numbers = files_of(store, space)
    gone = {store.passage_key("c5", f"m{n}") for n in range(5, 10)}
    store.delete("c5")
    matrix = np.frombuffer(numbers.read_bytes(), np.int8).reshape(-1, DIMENSIONS)
    assert np.flatnonzero(~matrix.any(axis=1)).tolist() == list(range(10, 20))
    assert not gone & {key for hits in nearest_to_all(store, space) for key, _ in hits}
    with store._connections.read() as db:
        assert db.execute("select count(*) from wiped").get == 0


def test_what_was_deleted_before_a_kill_is_wiped_later_and_never_found(
    store: SqliteStore, space: Space
) -> None:
    gone = {store.passage_key("c5", f"m{n}") for n in range(5, 10)}
    # The process was killed before it purged the index files.
    store._write_text(lambda db, index: editing.delete(db, reading.key_of(db, "c5"), index))
    assert not gone & {key for hits in nearest_to_all(store, space) for key, _ in hits}
    store.refresh()
    _, numbers = files_of(store, space)
    matrix = np.frombuffer(numbers.read_bytes(), np.int8).reshape(-1, DIMENSIONS)
    assert (~matrix.any(axis=1)).sum() == 10


def test_a_changed_message_is_not_found_by_the_vector_of_what_it_said(
    store: SqliteStore, space: Space
) -> None:
    key = store.passage_key("c5", "m7")
    old = store.vectors(space, key)[0]
    assert store.nearest(space, old, EVERYTHING, 1)[0][0] == key
    store.save([conversation("c5", said("m7", "something else", minutes=7))])
    assert key not in [k for k, _ in store.nearest(space, old, EVERYTHING, 45)]
    embed_all(store, space, np.random.default_rng(8))
    (hit,) = [c for k, c in store.nearest(space, old, EVERYTHING, 45) if k == key]
    assert hit < 0.98
    store.refresh()
    (hit,) = [c for k, c in store.nearest(space, old, EVERYTHING, 45) if k == key]
    assert hit < 0.98


def test_vectors_are_found_however_many_are_not_copied_yet(
    store: SqliteStore, space: Space, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = nearest_to_all(store, space)
    store.close()
    shutil.rmtree(path.parent / "index" / "vectors")
    monkeypatch.setattr(vectors, "_COPIED", 2)
    again = SqliteStore(path)
    assert nearest_to_all(again, space) == before
    again.refresh()
    assert nearest_to_all(again, space) == before
    again.close()


def test_rows_are_scanned_in_parts_without_a_difference(
    store: SqliteStore, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = nearest_to_all(store, space)
    monkeypatch.setattr(vectors, "_CHUNK", 7)
    assert nearest_to_all(store, space) == before


def test_a_space_that_was_dropped_has_no_file_and_no_vector(
    store: SqliteStore, space: Space
) -> None:
    other = store.add_space("other", "1", DIMENSIONS, None)
    store.drop_space(space)
    assert not any(f.exists() for f in files_of(store, space))
    with store._connections.read() as db:
        assert db.execute("select count(*) from vector").get == 0
    assert store.spaces() == [other]


def test_dropping_that_was_killed_is_finished_later(
    store: SqliteStore, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spaces, "_CLEARED", 10)
    store._connections.write(lambda db: spaces.drop(db, space))  # and no more
    store.refresh()
    refresh(store, STATIC)
    with store._connections.read() as db:
        assert db.execute("select count(*) from vector where space = ?", (space.id,)).get == 0
    assert not any(f.exists() for f in files_of(store, space))


def test_two_stores_that_copy_at_once_make_one_copy(
    store: SqliteStore, space: Space, path: Path
) -> None:
    others = [SqliteStore(path) for _ in range(3)]
    store.append("c0", said("new", "walrus"))
    embed_all(store, space, np.random.default_rng(6))
    expected = nearest_to_all(store, space)
    threads = [threading.Thread(target=other.refresh) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in (store, *others):
        assert nearest_to_all(other, space) == expected
    _, numbers = files_of(store, space)
    assert numbers.stat().st_size == 46 * 2 * DIMENSIONS
    for other in others:
        other.close()


def test_what_a_revision_takes_out_of_a_conversation_is_in_no_file(
    store: SqliteStore, path: Path
) -> None:
    fill(store)
    receipt = store.start_import("p")
    store.save(
        [conversation("gone", said("g1", "quixotic"), said("g2", "zugzwang"), title="obfuscated")],
        receipt.id,
    )
    store.finish_import(receipt)
    changed(
        store,
        conversation("gone", said("g1", "quixotic"), said("g2", "walrus"), title="obfuscated"),
    )
    for n in range(45, 70):
        store.append("c0", said(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    (space,) = store.spaces()
    (vector,) = store.vectors(space, store.passage_key("gone", "g1"))
    gone = [b"quixotic", b"zugzwang", b"obfuscated", vectors.packed([vector])[0][4:]]
    for known in gone:
        assert files_with(path.parent, known)
    assert volumes_with(store, "quixotic") and volumes_with(store, "obfuscated")
    store.revise("gone", lambda document: replace(document, title="plain"))
    assert volumes_with(store, "obfuscated") == [] and files_with(path.parent, b"obfuscated") == []
    refresh(store, STATIC)
    store.revise(
        "gone",
        lambda document: replace(
            document, passages=tuple(p._replace(content="plain") for p in document.passages)
        ),
    )
    assert volumes_with(store, "quixotic") == []
    for known in gone:
        assert files_with(path.parent, known) == []
    assert found(store, "plain") and found(store, "quixotic") == []


def test_a_passage_that_is_cut_off_is_in_no_file(store: SqliteStore, path: Path) -> None:
    fill(store)
    store.save([conversation("gone", said("g1", "seal"), said("g2", "quixotic", parent="g1"))])
    for n in range(45, 70):
        store.append("c0", said(f"m{n}", f"walrus only{n}x"))
    refresh(store, STATIC)
    assert volumes_with(store, "quixotic")
    store.delete_passage("gone", "g2")
    assert volumes_with(store, "quixotic") == [] and files_with(path.parent, b"quixotic") == []


@pytest.mark.parametrize("part", ["volumes", "vectors"])
def test_refreshing_waits_for_whoever_is_removing_what_was_deleted(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    fill(store, 20)
    space = store.add_space("test", "1", 8, None)
    store.add_vectors(space, {p: [np.ones(8, np.float32)] for p in store.unembedded(space, 100)[0]})
    lock = path.with_name("index") / part / "lock"
    tried = threading.Event()
    take = sealed._lock

    def noting(file: int, wait: bool) -> None:
        if not os.path.samestat(os.fstat(file), lock.stat()):
            take(file, wait)
        elif wait:
            tried.set()
            take(file, wait)
        else:
            try:
                take(file, wait)
            finally:
                tried.set()

    refreshing = threading.Thread(target=store.refresh)
    with sealed.locked(lock) as alone:
        assert alone
        monkeypatch.setattr(sealed, "_lock", noting)
        refreshing.start()
        assert tried.wait(30)
    refreshing.join(30)
    assert not refreshing.is_alive()
    assert not store.needs_refresh()
    assert (lock.parents[1] / "vectors" / f"space-{space.id}.rows").exists()
