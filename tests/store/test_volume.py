"""A volume finds exactly what FTS5 finds, and is whole or not there."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.errors import RecollectError
from recollect.language import query
from recollect.language.query import And, Node, Not, Or, Word
from recollect.store.sqlite import volume
from recollect.store.sqlite.migrations import migrate
from recollect.store.sqlite.text import compiled, indexed
from recollect.store.sqlite.volume import (
    ANYTHING,
    NotAVolume,
    Row,
    Selection,
    Stopped,
    Unsupported,
    Volume,
    write,
)

# -- both engines over the same rows -------------------------------------------


MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a disk takes its time to flush


@contextmanager
def made(rows: list[Row]) -> Iterator[Volume]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as parent:
        folder = Path(parent) / "volume"
        assert write(folder, rows) == len(rows)
        yield Volume(folder)


def fts5(rows: list[Row]) -> apsw.Connection:
    db = apsw.Connection(":memory:")
    migrate(db, Path("memory"))  # the table as a library has it
    db.executemany(
        "insert into passage_text (rowid, title, content) values (?, ?, ?)",
        [(r.key, indexed(r.title), indexed(r.content)) for r in rows],
    )
    return db


def matching(db: apsw.Connection, node: Node) -> set[int]:
    return {
        key
        for (key,) in db.execute(
            "select rowid from passage_text where passage_text match ?", (compiled(node),)
        )
    }


def found(
    volume: Volume, node: Node, wanted: Selection = ANYTHING, limit: int = 10_000
) -> list[int]:
    return [key for key, _ in volume.best(node, wanted, limit)]


def contents(*texts: str) -> list[Row]:
    return [Row(key, 1, "", text) for key, text in enumerate(texts, 1)]


# -- what is written, and what is asked for ------------------------------------


def listed(text: str) -> list[str]:
    return text.split(" ")


PIECES = [
    *listed("foo Foo foobar bar baz a an b 1 12 123 3.14 don't e-mail --force C++ f(x) x=1"),
    *listed("naïve NAIVE Ärger e\u0301tude straße STRASSE ﬁne İstanbul ı ² ½ Ⅷ ﬀ ŉ ǰ ΐ"),
    *listed("日本語 日本 本 接続がタイムアウト 设置文件 테스트 확인 สวัสดี ကို ខ្មែរ カ゛ ｶﾞ 々 ㍿"),
    *listed("привет ПРИВЕТ Ελλάδα ΟΔΟΣ مرحبا שלום हिन्दी தமிழ் ქართული 𐐀 𝔘𝔫𝔦"),
    *listed("🤔 done🤔 👩‍💻 → \ue000 \u0378 x\u0301 \u0301 \u20dd \ufffd \u200b \xad \u2028"),
    *listed("/usr/lib/x.py https://foo.example/bar?a=1 foo_bar __init__ self.foo[1] {}"),
]
JOINTS = st.sampled_from([" ", " ", " ", "", "-", "_", "/", ".", "\n", "\t", '"', "(", ")"])
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
PIECE = st.sampled_from(PIECES) | st.text(CHARACTERS, max_size=4)


def joined(most: int) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(PIECE, JOINTS), max_size=most).map(
        lambda parts: "".join(map("".join, parts))
    )


ROLES = st.sampled_from([None, "user", "assistant", ""])
AUTHORS = st.sampled_from([None, "Ada", "ada", "Ada Lovelace", "日本", ""])
TIMES = st.none() | st.integers(-3, 3) | st.sampled_from([-(10**15), 10**15])


@st.composite
def all_rows(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.integers(1, 40), unique=True, max_size=10).map(sorted))
    return [
        Row(
            key,
            draw(st.integers(1, 4)),
            draw(st.just("") | joined(3)),
            draw(joined(8)),
            draw(ROLES),
            draw(AUTHORS),
            draw(TIMES),
            draw(st.booleans()),
        )
        for key in keys
    ]


WORDS = st.builds(Word, joined(3), st.booleans()) | st.builds(
    Word, PIECE.map(lambda p: p[:2]), st.just(True)
)


def branches(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    negated = inner.map(Not) | inner.map(lambda n: Not(Not(n)))
    both = st.tuples(st.lists(inner, min_size=1, max_size=3), st.lists(negated, max_size=2))
    either = st.lists(inner, min_size=2, max_size=4).map(tuple).map(Or)
    return both.map(lambda b: And((*b[0], *b[1]))) | either


TREES: st.SearchStrategy[Node] = st.recursive(WORDS, branches, max_leaves=8)
ALL_WANTED = st.builds(
    Selection,
    roles=st.just(()) | st.lists(ROLES.filter(lambda r: r is not None), max_size=2).map(tuple),
    authors=st.just(()) | st.lists(AUTHORS.filter(lambda a: a is not None), max_size=3).map(tuple),
    senders=st.just(())
    | st.lists((ROLES | AUTHORS).filter(lambda a: a is not None), max_size=3).map(tuple),
    after=TIMES,
    before=TIMES,
    not_documents=st.just(()) | st.frozensets(st.integers(0, 6), max_size=3),
    documents=st.none()
    | st.frozensets(st.integers(0, 6), max_size=4)
    | st.lists(st.integers(0, 6), max_size=4),
    hidden=st.booleans(),
    without=st.just(()) | st.frozensets(st.integers(0, 45), max_size=6),
)


def allows(wanted: Selection, row: Row) -> bool:
    at = row.created_at
    return (
        (not wanted.roles or row.role in wanted.roles)
        and (not wanted.authors or row.author in wanted.authors)
        and (not wanted.senders or row.role in wanted.senders or row.author in wanted.senders)
        and row.document not in wanted.not_documents
        and (wanted.after is None or (at is not None and at >= wanted.after))
        and (wanted.before is None or (at is not None and at <= wanted.before))
        and (wanted.documents is None or row.document in wanted.documents)
        and (wanted.hidden or not row.hidden)
        and row.key not in wanted.without
    )


thorough = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(all_rows(), st.lists(TREES, min_size=5, max_size=15))
def test_a_volume_finds_exactly_the_passages_that_fts5_finds(
    rows: list[Row], trees: list[Node]
) -> None:
    db, everything = fts5(rows), Selection(hidden=True)
    with made(rows) as volume:
        for tree in trees:
            keys = found(volume, tree, everything)
            assert len(keys) == len(set(keys))
            assert set(keys) == matching(db, tree)
            assert volume.count(tree, everything) == len(keys)


@thorough
@given(
    all_rows(),
    st.lists(st.tuples(TREES | st.just(Word("foo")), ALL_WANTED), min_size=5, max_size=15),
)
def test_filters_leave_out_exactly_what_is_not_wanted(
    rows: list[Row], asked: list[tuple[Node, Selection]]
) -> None:
    db = fts5(rows)
    with made(rows) as volume:
        for tree, wanted in asked:
            allowed = {r.key for r in rows if allows(wanted, r)}
            keys = found(volume, tree, wanted)
            assert set(keys) == matching(db, tree) & allowed
            assert volume.count(tree, wanted) == len(keys)
            assert found(volume, tree, wanted, 2) == keys[:2]


def test_every_character_is_cut_as_fts5_cuts_it() -> None:
    every = [chr(n) for n in range(1, 0x110000, 19) if not 0xD800 <= n < 0xE000]
    rows = contents(
        *("".join(f"x{c}y {c}" for c in every[at : at + 500]) for at in range(0, len(every), 500))
    )
    db = fts5(rows)
    db.execute("create virtual table terms using fts5vocab(passage_text, row)")
    terms = dict(db.execute("select term, doc from terms"))
    with made(rows) as volume:
        assert volume.frequency(list(terms), hidden=False) == list(terms.values())


# -- words, phrases, prefixes ----------------------------------------------------


def test_a_phrase_does_not_run_from_the_title_into_the_content() -> None:
    with made([Row(1, 1, "out of", "memory again")]) as volume:
        assert (
            found(volume, Word("out of"))
            == found(volume, And((Word("out"), Word("memory"))))
            == [1]
        )
        assert found(volume, Word("of memory")) == []


def test_a_word_without_a_token_matches_nothing() -> None:
    with made(contents("foo", "---")) as volume:
        assert found(volume, Word("---")) == found(volume, Word("-", prefix=True)) == []
        assert found(volume, And((Word("foo"), Word("--")))) == []
        assert (
            found(volume, Or((Word("foo"), Word("--"))))
            == found(volume, And((Word("foo"), Not(Word("-")))))
            == [1]
        )


def test_a_prefix_finds_all_its_words_however_many_there_are() -> None:
    rows = contents(*(f"pre{n} common" for n in range(2_000)), "pre0 pre1 pre2", "other")
    db = fts5(rows)
    with made(rows) as volume:
        for prefix in ("pre", "pre1", "pre19", "pre199", "prf", "p" * 1_000):
            tree = Word(prefix, prefix=True)
            assert set(found(volume, tree)) == matching(db, tree)
            assert volume.count(tree, ANYTHING) == len(matching(db, tree))
        assert volume.count(And((Word("common"), Not(Word("pre", prefix=True)))), ANYTHING) == 0
        assert found(volume, Word("pre", prefix=True), limit=1) == [2_001]


def test_the_words_of_a_prefix_weigh_the_same_however_rare_they_are() -> None:
    with made(
        contents(*["config here"] * 20, "configuration here", "config and config here")
    ) as volume:
        assert found(volume, Word("config", prefix=True), limit=1) == [22]


def test_a_phrase_may_end_in_a_prefix_but_not_of_too_many_words() -> None:
    rows = contents(*(f"the word{n} and wo" for n in range(400)), "wo the")
    db = fts5(rows)
    with made(rows) as volume:
        for phrase in ("the word1", "word7 an", "wo t", "nothing an"):
            tree = Word(phrase, prefix=True)
            assert set(found(volume, tree)) == matching(db, tree)
        with pytest.raises(Unsupported):
            volume.best(Word("the wo", prefix=True), ANYTHING, 10)
        with pytest.raises(Unsupported):
            volume.count(Word("the wo", prefix=True), ANYTHING)


def test_a_long_prefix_of_many_words_is_left_to_fts5() -> None:
    with made(contents(*("x" * 900 + str(n) for n in range(100)))) as volume:
        assert found(volume, Word("x" * 900 + "1", prefix=True))
        with pytest.raises(Unsupported):
            volume.best(Word("x" * 900, prefix=True), ANYTHING, 10)


def test_words_longer_than_any_engine_takes_are_cut_where_fts5_cuts_them() -> None:
    rows = contents(
        "x" * 70_000 + " tail",
        "日ж" + "ж" * 40_000 + " tail",
        "short tail",
        "y" * 32_769,
        "y" * 32_768,
    )
    db = fts5(rows)
    with made(rows) as volume:
        for tree in (
            Word("tail"),
            Word("x" * 1_000, True),
            Word("ж" * 500, True),
            Word("short tail"),
        ):
            assert set(found(volume, tree)) == matching(db, tree)
        for text in (
            "x" * 70_000,
            "x" * 32_768,
            "x" * 32_767,
            "y" * 32_768,
            "x" * 40_000 + " tail",
        ):
            assert set(found(volume, Word(text))) == matching(db, Word(text))


def test_only_the_beginning_of_an_endless_text_is_indexed_as_in_fts5() -> None:
    rows = contents("a " * 600_000 + "beyond", "within " + "a " * 600_000)
    with made(rows) as volume:
        assert found(volume, Word("beyond")) == []
        assert found(volume, Word("within")) == [2]


def test_nearness_is_left_to_fts5() -> None:
    near = query.parse("NEAR(foo bar, 3)")
    with made(contents("foo bar")) as volume:
        for tree in (
            near,
            And((Word("foo"), near)),
            Or((Word("foo"), near)),
            And((Word("foo"), Not(near))),
        ):
            assert not volume_supports(tree)
            with pytest.raises(Unsupported):
                volume.best(tree, ANYTHING, 10)
    assert volume_supports(query.parse('(foo OR "a b"*) AND bar NOT (baz x*)'))


volume_supports = volume.supports


# -- order and number --------------------------------------------------------------


def test_the_best_come_first_with_falling_scores() -> None:
    rows = contents("apple pear plum and so on", "apple", "apple pear", "nothing of it")
    with made(rows) as volume:
        hits = volume.best(Or((Word("apple"), Word("pear"))), ANYTHING, 10)
        assert [key for key, _ in hits] == [3, 1, 2]
        assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)


def test_passages_that_score_the_same_come_as_they_were_written() -> None:
    with made([Row(key, 1, "", "same text", hidden=key > 5) for key in range(1, 11)]) as volume:
        assert found(volume, Word("same")) == [1, 2, 3, 4, 5]
        assert found(volume, Word("same"), Selection(hidden=True)) == list(range(1, 11))


def test_any_limit_is_taken() -> None:
    with made(contents(*["word"] * 5)) as volume:
        assert found(volume, Word("word"), limit=0) == found(volume, Word("word"), limit=-1) == []
        assert len(found(volume, Word("word"), limit=3)) == 3
        assert len(found(volume, Word("word"), limit=10**15)) == 5


def test_what_is_left_out_makes_room_for_the_next() -> None:
    rows = [Row(key, key % 7, "", "word " * (1 + key % 50)) for key in range(1, 1_001)]
    with made(rows) as volume:
        stale = frozenset(found(volume, Word("word"), limit=700))
        assert len(found(volume, Word("word"), Selection(without=stale), 300)) == 300
        assert volume.count(Word("word"), Selection(without=stale)) == 300
        everything = Selection(without=range(5_000))
        assert volume.count(Word("word"), everything) == 0
        assert found(volume, Word("word"), everything, 10) == []


def test_many_documents_are_as_good_as_few() -> None:
    rows = [Row(key, key // 2, "", "word") for key in range(2, 1_000)]
    with made(rows) as volume:
        some = range(0, 1_000, 3)
        right = [r.key for r in rows if r.document in some]
        assert found(volume, Word("word"), Selection(documents=some)) == right
        assert volume.count(Word("word"), Selection(documents=frozenset([7]))) == 2
        assert found(volume, Word("word"), Selection(documents=[-5, 10_000])) == []
        assert found(volume, Word("word"), Selection(documents=())) == []


def test_the_frequency_of_a_word_counts_passages() -> None:
    rows = [
        Row(1, 1, "Foo", "foo foo"),
        Row(2, 1, "", "foo bar"),
        Row(3, 1, "", "bar", hidden=True),
    ]
    with made(rows) as volume:
        assert volume.frequency(["foo", "bar", "baz"], hidden=False) == [2, 1, 0]
        assert volume.frequency(["foo", "bar", "baz"], hidden=True) == [2, 2, 0]
        assert volume.frequency([], hidden=True) == []


def test_a_volume_may_be_hidden_altogether_or_have_no_times_and_names() -> None:
    with made([Row(1, 1, "", "word", hidden=True)]) as volume:
        assert found(volume, Word("word")) == []
        assert found(volume, Word("word"), Selection(hidden=True)) == [1]
        assert found(volume, Word("word"), Selection(hidden=True, after=0)) == []
        assert (
            found(volume, Word("word"), Selection(hidden=True, roles=("user",), authors=("Ada",)))
            == []
        )


# -- made once, whole or not there ------------------------------------------------


def test_an_empty_volume_finds_nothing(tmp_path: Path) -> None:
    assert write(tmp_path / "empty", []) == 0
    volume = Volume(tmp_path / "empty")
    for tree in (Word("a"), Word("a", True), And((Word("a"), Not(Word("b"))))):
        assert volume.best(tree, Selection(hidden=True), 10) == []
        assert volume.count(tree, Selection(hidden=True, without=[1], documents=[1])) == 0
    assert volume.frequency(["a"], hidden=True) == [0]
    assert volume.rows == 0


def test_rows_without_a_word_count_as_rows() -> None:
    with made(contents("", "--", "word")) as volume:
        assert volume.rows == 3
        assert volume.keys == (1, 3)
        assert found(volume, Word("word")) == [3]


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("first"))
    with pytest.raises(FileExistsError):
        write(tmp_path / "volume", contents("second"))
    assert found(Volume(tmp_path / "volume"), Word("first")) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["volume"]


def test_a_write_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    looks = count()
    with pytest.raises(Stopped):
        write(tmp_path / "volume", contents(*["word"] * 2_000), lambda: next(looks) == 3)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_is_stopped_at_the_end_leaves_nothing(tmp_path: Path) -> None:
    rows = iter(contents("word"))
    with pytest.raises(Stopped):
        write(tmp_path / "volume", rows, lambda: next(rows, None) is None)
    assert list(tmp_path.iterdir()) == []


def test_a_write_whose_rows_fail_leaves_nothing(tmp_path: Path) -> None:
    def rows() -> Iterator[Row]:
        yield from contents(*["word"] * 100)
        raise OSError("the database went away")

    with pytest.raises(OSError, match="went away"):
        write(tmp_path / "volume", rows())
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_is_killed_leaves_nothing_in_its_place(tmp_path: Path) -> None:
    code = f"""if True:
        import time
        from pathlib import Path
        from recollect.store.sqlite.volume import Row, write
        def rows():
            for key in range(1, 5_000):
                yield Row(key, 1, "", "some words", hidden=key % 2 == 0)
            print("half way", flush=True)
            time.sleep(60)
        write(Path({str(tmp_path / "volume")!r}), rows())
    """
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == b"half way\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert not (tmp_path / "volume").exists()
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(NotAVolume):
        Volume(next(tmp_path.iterdir()))
    volume.clear_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert write(tmp_path / "volume", contents("word")) == 1


def test_clearing_does_not_touch_finished_volumes(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("word"))
    volume.clear_unfinished(tmp_path)
    assert found(Volume(tmp_path / "volume"), Word("word")) == [1]


# -- what is no volume --------------------------------------------------------------


def test_what_is_no_volume_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "other").mkdir()
    for number, text in enumerate(["", "[]", "{}", "null", '{"format": 1, "rows": 1}', "\x00"]):
        (tmp_path / f"other{number}").mkdir()
        (tmp_path / f"other{number}" / "volume.json").write_text(text)
    for path in [*tmp_path.iterdir(), tmp_path / "absent"]:
        with pytest.raises(NotAVolume) as raised:
            Volume(path)
        assert str(path) in str(raised.value)
        assert isinstance(raised.value, RecollectError)


def test_a_volume_of_another_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("word"))
    about = tmp_path / "volume" / "volume.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": volume.FORMAT + 1}))
    with pytest.raises(NotAVolume, match="another version"):
        Volume(tmp_path / "volume")


def test_a_volume_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("word"))
    for file in (tmp_path / "volume" / "shown").glob("[!.]*"):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        with pytest.raises(NotAVolume):
            Volume(tmp_path / "volume")
        file.unlink()
        with pytest.raises(NotAVolume):
            Volume(tmp_path / "volume")
        file.write_bytes(whole)
    assert found(Volume(tmp_path / "volume"), Word("word")) == [1]


def test_a_volume_whose_index_says_nothing_sensible_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("word"))
    meta = tmp_path / "volume" / "shown" / "meta.json"
    meta.write_bytes(b"x" * meta.stat().st_size)
    with pytest.raises(NotAVolume):
        Volume(tmp_path / "volume")


# -- in use ----------------------------------------------------------------------------


def test_an_open_volume_keeps_answering_when_its_folder_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "volume", contents("word"))
    opened = Volume(tmp_path / "volume")
    shutil.rmtree(tmp_path / "volume")
    assert found(opened, Word("word")) == [1]


def test_many_threads_may_ask_at_once() -> None:
    rows = contents(*(f"wörd{n % 7} common text" for n in range(3_000)))
    wrong = []

    def ask(volume: Volume) -> None:
        for n in range(50):
            keys = found(volume, And((Word(f"Wörd{n % 7}"), Word("common"))), limit=20)
            if any((key - 1) % 7 != n % 7 for key in keys) or len(keys) != 20:
                wrong.append(keys)

    with made(rows) as volume:
        threads = [threading.Thread(target=ask, args=(volume,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
