"""A volume finds exactly what FTS5 finds, and is complete or does not exist."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect import Filter
from recollect.errors import RecollectError
from recollect.language.queries.query_tree import And, Node, Not, Or, Word
from recollect.language.text import from_micros, micros
from recollect.model.kinds import CONVERSATION, NOTE, OBSERVATION
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.fts import fts_query
from recollect.store.sqlite.text_index import prepare_text
from recollect.store.sqlite.volume import UnreadableVolume, Volume
from recollect.store.sqlite.volume_queries import UnsupportedQuery, VolumeFilter
from recollect.store.sqlite.volume_writer import Row, WriteStopped, clear_unfinished, write_volume

# -- both engines with the same rows ---


def selection(
    *,
    documents: Iterable[int] | None = None,
    not_documents: Iterable[int] = (),
    not_keys: Iterable[int] = (),
    after: int | None = None,
    before: int | None = None,
    kinds: tuple[str, ...] = (),
    **fields: Any,
) -> VolumeFilter:
    """A filter; dates are in microseconds."""
    filter = Filter(kinds=kinds, after=from_micros(after), before=from_micros(before), **fields)
    only = None if documents is None else sorted(set(documents))
    return VolumeFilter(filter, only, sorted(set(not_documents)), sorted(set(not_keys)))


ANYTHING = selection()
# In memory if possible, because flushing to a disk is slow.
PARENT = "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def open_volume(rows: list[Row]) -> Iterator[Volume]:
    with tempfile.TemporaryDirectory(dir=PARENT) as parent:
        folder = Path(parent) / "volume"
        assert write_volume(folder, rows) == len(rows)
        yield Volume(folder)


def fts5(rows: list[Row]) -> Connection:
    db = Connection(":memory:")
    db.execute(
        "create virtual table passage_text using fts5(content, title, content='', "
        "tokenize='unicode61 remove_diacritics 0')"
    ).fetchall()
    db.executemany(
        "insert into passage_text (rowid, title, content) values (?, ?, ?)",
        [(r.key, prepare_text(r.title), prepare_text(r.content)) for r in rows],
    )
    return db


def fts5_keys(db: Connection, node: Node) -> set[int]:
    return {
        key
        for (key,) in db.execute(
            "select rowid from passage_text where passage_text match ?", (fts_query(node),)
        )
    }


def matching_keys(
    volume: Volume, node: Node, volume_filter: VolumeFilter = ANYTHING, limit: int = 10_000
) -> list[int]:
    return [key for key, _ in volume.best_matches(node, volume_filter, limit)]


def contents(*texts: str) -> list[Row]:
    return [Row(key, 1, "", text) for key, text in enumerate(texts, 1)]


# -- strategies for rows, queries and filters ---


def split(text: str) -> list[str]:
    return text.split(" ")


PIECES = [
    *split("foo Foo foobar bar baz a an b 1 12 123 3.14 don't e-mail --force C++ f(x) x=1"),
    *split("naïve NAIVE Ärger e\u0301tude straße STRASSE ﬁne İstanbul ı ² ½ Ⅷ ﬀ ŉ ǰ ΐ"),
    *split("日本語 日本 本 接続がタイムアウト 设置文件 테스트 확인 สวัสดี ကို ខ្មែរ カ゛ ｶﾞ 々 ㍿"),
    *split("привет ПРИВЕТ Ελλάδα ΟΔΟΣ مرحبا שלום हिन्दी தமிழ் ქართული 𐐀 𝔘𝔫𝔦"),
    *split("🤔 done🤔 👩‍💻 → \ue000 \u0378 x\u0301 \u0301 \u20dd \ufffd \u200b \xad \u2028"),
    *split("/usr/lib/x.py https://foo.example/bar?a=1 foo_bar __init__ self.foo[1] {}"),
]
SEPARATORS = st.sampled_from([" ", " ", " ", "", "-", "_", "/", ".", "\n", "\t", '"', "(", ")"])
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
PIECE = st.sampled_from(PIECES) | st.text(CHARACTERS, max_size=4)


def texts(max_pieces: int) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(PIECE, SEPARATORS), max_size=max_pieces).map(
        lambda parts: "".join(map("".join, parts))
    )


ROLES = st.sampled_from([None, "user", "assistant", ""])
AUTHORS = st.sampled_from([None, "Ada", "ada", "Ada Lovelace", "日本", ""])
KINDS = st.sampled_from([CONVERSATION, NOTE, OBSERVATION])
DATES = st.none() | st.integers(-3, 3) | st.sampled_from([-(10**15), 10**15])


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.integers(1, 40), unique=True, max_size=10).map(sorted))
    return [
        Row(
            key,
            draw(st.integers(1, 4)),
            draw(st.just("") | texts(3)),
            draw(texts(8)),
            draw(ROLES),
            draw(AUTHORS),
            draw(DATES),
            draw(st.booleans()),
            draw(KINDS),
        )
        for key in keys
    ]


WORDS = st.builds(Word, texts(3), st.booleans()) | st.builds(
    Word, PIECE.map(lambda p: p[:2]), st.just(True)
)


def branches(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    negated = inner.map(Not) | inner.map(lambda n: Not(Not(n)))
    both = st.tuples(st.lists(inner, min_size=1, max_size=3), st.lists(negated, max_size=2))
    either = st.lists(inner, min_size=2, max_size=4).map(tuple).map(Or)
    return both.map(lambda b: And((*b[0], *b[1]))) | either


TREES: st.SearchStrategy[Node] = st.recursive(WORDS, branches, max_leaves=8)
SELECTIONS = st.builds(
    selection,
    roles=st.just(()) | st.lists(ROLES.filter(lambda r: r is not None), max_size=2).map(tuple),
    authors=st.just(()) | st.lists(AUTHORS.filter(lambda a: a is not None), max_size=3).map(tuple),
    senders=st.just(())
    | st.lists((ROLES | AUTHORS).filter(lambda a: a is not None), max_size=3).map(tuple),
    after=DATES,
    before=DATES,
    kinds=st.just(()) | st.lists(KINDS, max_size=2).map(tuple),
    not_documents=st.just(()) | st.frozensets(st.integers(0, 6), max_size=3),
    documents=st.none()
    | st.frozensets(st.integers(0, 6), max_size=4)
    | st.lists(st.integers(0, 6), max_size=4),
    hidden=st.booleans(),
    not_keys=st.just(()) | st.frozensets(st.integers(0, 45), max_size=6),
)


def passes(volume_filter: VolumeFilter, row: Row) -> bool:
    filter, only, without, not_keys = volume_filter
    date, after, before = row.created_at, micros(filter.after), micros(filter.before)
    return (
        (not filter.roles or row.role in filter.roles)
        and (not filter.authors or row.author in filter.authors)
        and (not filter.senders or row.role in filter.senders or row.author in filter.senders)
        and (not filter.kinds or row.kind in filter.kinds)
        and row.document not in without
        and (after is None or (date is not None and date >= after))
        and (before is None or (date is not None and date <= before))
        and (only is None or row.document in only)
        and (filter.hidden or not row.hidden)
        and row.key not in not_keys
    )


thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(row_lists(), st.lists(TREES, min_size=5, max_size=15))
def test_a_volume_finds_exactly_the_passages_that_fts5_finds(
    rows: list[Row], trees: list[Node]
) -> None:
    db, everything = fts5(rows), selection(hidden=True)
    with open_volume(rows) as volume:
        for tree in trees:
            keys = matching_keys(volume, tree, everything)
            assert len(keys) == len(set(keys))
            assert set(keys) == fts5_keys(db, tree)
            assert sorted(volume.matching_keys(tree, everything)) == sorted(keys)
            assert volume.count_matches(tree, everything) == len(keys)


@pytest.mark.full
@thorough
@given(
    row_lists(),
    st.lists(st.tuples(TREES | st.just(Word("foo")), SELECTIONS), min_size=5, max_size=15),
)
def test_filters_exclude_exactly_what_they_should(
    rows: list[Row], searches: list[tuple[Node, VolumeFilter]]
) -> None:
    db = fts5(rows)
    with open_volume(rows) as volume:
        for tree, volume_filter in searches:
            passing = {r.key for r in rows if passes(volume_filter, r)}
            keys = matching_keys(volume, tree, volume_filter)
            assert set(keys) == fts5_keys(db, tree) & passing
            assert sorted(volume.matching_keys(tree, volume_filter)) == sorted(keys)
            assert volume.count_matches(tree, volume_filter) == len(keys)
            assert matching_keys(volume, tree, volume_filter, 2) == keys[:2]


@pytest.mark.full
def test_every_character_is_tokenized_as_in_fts5() -> None:
    every = [chr(n) for n in range(1, 0x110000, 19) if not 0xD800 <= n < 0xE000]
    rows = contents(
        *(
            "".join(f"x{c}y {c}" for c in every[start : start + 500])
            for start in range(0, len(every), 500)
        )
    )
    db = fts5(rows)
    db.execute("create virtual table terms using fts5vocab(passage_text, row)")
    terms = dict(db.execute("select term, doc from terms"))
    with open_volume(rows) as volume:
        assert volume.frequencies(list(terms), hidden=False) == list(terms.values())


# -- words, phrases, prefixes ---


def test_a_phrase_does_not_run_from_the_title_into_the_content() -> None:
    with open_volume([Row(1, 1, "out of", "memory again")]) as volume:
        assert (
            matching_keys(volume, Word("out of"))
            == matching_keys(volume, And((Word("out"), Word("memory"))))
            == [1]
        )
        assert matching_keys(volume, Word("of memory")) == []


def test_a_phrase_can_end_in_a_prefix_unless_too_many_words_have_it() -> None:
    rows = contents(*(f"the word{n} and wo" for n in range(400)), "wo the")
    db = fts5(rows)
    with open_volume(rows) as volume:
        for phrase in ("the word1", "word7 an", "wo t", "nothing an"):
            tree = Word(phrase, prefix=True)
            assert set(matching_keys(volume, tree)) == fts5_keys(db, tree)
        with pytest.raises(UnsupportedQuery):
            volume.best_matches(Word("the wo", prefix=True), ANYTHING, 10)
        with pytest.raises(UnsupportedQuery):
            volume.count_matches(Word("the wo", prefix=True), ANYTHING)


# -- order and limits ---


def test_the_newest_passages_with_the_same_score_come_first() -> None:
    kinds = (CONVERSATION, NOTE)
    rows = [
        Row(key, 1, "", "same text", hidden=key % 4 < 2, kind=kinds[key % 2])
        for key in range(40, 0, -1)
    ]
    with open_volume(rows) as volume:
        visible = [row.key for row in rows if not row.hidden]
        assert matching_keys(volume, Word("same")) == visible
        assert matching_keys(volume, Word("same"), selection(hidden=True)) == list(range(40, 0, -1))
        notes = [key for key in visible if key % 2]
        assert matching_keys(volume, Word("same"), selection(kinds=(NOTE,))) == notes


# -- writing ---


def test_a_stopped_write_leaves_nothing_behind(tmp_path: Path) -> None:
    checks = count()
    with pytest.raises(WriteStopped):
        write_volume(tmp_path / "volume", contents(*["word"] * 2_000), lambda: next(checks) == 3)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_write_does_not_create_the_volume(tmp_path: Path) -> None:
    code = f"""if True:
        import time
        from pathlib import Path
        from recollect.store.sqlite.volume_writer import Row, write_volume
        def rows():
            for key in range(1, 5_000):
                yield Row(key, 1, "", "some words", hidden=key % 2 == 0)
            print("halfway", flush=True)
            time.sleep(60)
        write_volume(Path({str(tmp_path / "volume")!r}), rows())
    """
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"halfway\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert not (tmp_path / "volume").exists()
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(UnreadableVolume):
        Volume(next(tmp_path.iterdir()))
    clear_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert write_volume(tmp_path / "volume", contents("word")) == 1


# -- damaged volumes ---


def test_a_folder_that_is_not_a_volume_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "other").mkdir()
    for number, text in enumerate(["", "[]", "{}", "null", '{"format": 1, "rows": 1}', "\x00"]):
        (tmp_path / f"other{number}").mkdir()
        (tmp_path / f"other{number}" / "volume.json").write_text(text)
    for path in [*tmp_path.iterdir(), tmp_path / "absent"]:
        with pytest.raises(UnreadableVolume) as error:
            Volume(path)
        assert str(path) in str(error.value)
        assert isinstance(error.value, RecollectError)


def test_a_volume_with_a_truncated_or_missing_file_is_rejected(tmp_path: Path) -> None:
    write_volume(tmp_path / "volume", contents("word"))
    for file in (tmp_path / "volume" / "0").glob("[!.]*"):
        data = file.read_bytes()
        file.write_bytes(data[:-1])
        with pytest.raises(UnreadableVolume):
            Volume(tmp_path / "volume")
        file.unlink()
        with pytest.raises(UnreadableVolume):
            Volume(tmp_path / "volume")
        file.write_bytes(data)
    assert matching_keys(Volume(tmp_path / "volume"), Word("word")) == [1]


# -- concurrency ---


def test_many_threads_can_search_a_volume_at_once() -> None:
    rows = contents(*(f"wörd{n % 7} common text" for n in range(3_000)))
    unexpected = []

    def ask(volume: Volume) -> None:
        for n in range(50):
            keys = matching_keys(volume, And((Word(f"Wörd{n % 7}"), Word("common"))), limit=20)
            if any((key - 1) % 7 != n % 7 for key in keys) or len(keys) != 20:
                unexpected.append(keys)

    with open_volume(rows) as volume:
        threads = [threading.Thread(target=ask, args=(volume,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not unexpected
