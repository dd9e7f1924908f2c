"""Indexing: embed and seal a library step by step, in the background, and with a new model."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import recollect
from recollect import Library, Page, SearchOptions
from recollect.index import refresh as refreshing
from recollect.index.refresh import has_work, refresh
from recollect.knowledge.api import Knowledge
from recollect.memory.api import Memory
from recollect.models import embeddings as models
from recollect.models import onnx, static
from recollect.models.static import StaticModel
from recollect.store.sqlite import sealing

sqlite_only = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
NOW = datetime(2025, 6, 18, 12, tzinfo=UTC)
TOPICS = ["dog", "invoice", "guitar", "rain", "bread", "flight", "exam", "garden"]


def message(
    id: str, content: str, role: str = "user", days: float = 0, **fields: Any
) -> dict[str, Any]:
    return {
        "id": id,
        "role": role,
        "content": content,
        "created_at": NOW - timedelta(days=days),
        **fields,
    }


def ids(page: Page) -> list[str]:
    return [hit.message_id for hit in page.hits]


def fill(library: recollect.Library, count: int = 40, start: int = 0) -> None:
    library.add_conversation(
        f"c{start}",
        messages=[
            message(f"m{n}", f"the {TOPICS[n % 8]} number {n}", days=n)
            for n in range(start, start + count)
        ],
    )


def count_embedded(library: recollect.Library) -> int:
    """How many messages have a vector in the space that is searched."""
    space = models.space_to_search(library._store.spaces())
    if space is None:
        return 0
    keys = [library._store.passage_key(d.id, p.id) for d in library.documents() for p in d.passages]
    return sum(bool(library._store.vectors(space, key)) for key in keys)


def files(library: recollect.Library) -> list[Path]:
    """The index files of a library on SQLite."""
    path = library._store.path  # type: ignore[attr-defined]
    if not isinstance(path, Path):
        return []
    return list((path.parent / "index").rglob("*"))


def record_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of the texts that the static model embeds from now on.

    Without the single words that the calibration of the vector space embeds.
    """
    texts: list[str] = []
    embed = StaticModel.embed

    def record(self: StaticModel, batch: Any, *stop: Any) -> Any:
        texts.extend(text for text in batch if " " in text)
        return embed(self, batch)

    monkeypatch.setattr(StaticModel, "embed", record)
    return texts


def stop_after(steps: int) -> Callable[[], bool]:
    """A `stop` callback that lets this many steps pass."""
    answers = iter([False] * steps)
    return lambda: next(answers, True)


# -- step by step -------------------------------------------------------------


def test_index_embeds_everything_once(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = record_texts(monkeypatch)
    fill(library)
    steps: list[tuple[str, int, int]] = []
    library.index(lambda *step: steps.append(step))
    assert (len(texts), count_embedded(library)) == (40, 40)
    assert steps[-1] == ("Embedding", 40, 40)
    library.index()
    assert len(texts) == 40
    library.add_message("c0", "user", "one more", id="new")
    library.index()
    assert texts[40:] == ["one more"]
    assert count_embedded(library) == 41
    assert library.search("one more").embedded == 1.0


def test_indexing_resumes_after_a_stop_and_embeds_nothing_twice(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "_BATCH_PASSAGES", 20)
    monkeypatch.setattr(refreshing, "_TEXTS_AT_ONCE", 5)
    texts = record_texts(monkeypatch)
    fill(library, 60)
    for _ in range(30):
        refresh(library._store, models.STATIC, stop=stop_after(3))
        (space,) = library._store.spaces()
        if not space.ready:
            page = library.search("dog", options=SearchOptions(now=NOW))
            # The search embedded its query, too.
            texts[:] = [text for text in texts if text.startswith("the ")]
            assert page.mode == ("both" if texts else "text")
            assert page.embedded == pytest.approx(len(texts) / 60, abs=0.001)
    library.index()
    assert sorted(texts) == sorted(f"the {TOPICS[n % 8]} number {n}" for n in range(60))
    assert count_embedded(library) == 60
    assert library.search("dog").embedded == 1.0


INDEXER = """
import os, signal, sys, recollect
from recollect.index import refresh
refresh._BATCH_PASSAGES, refresh._TEXTS_AT_ONCE = 20, 5
library = recollect.open(sys.argv[1])
store = type(library._store._store._store)
add_vectors, batches = store.add_vectors, int(sys.argv[2])
def add_and_die(self, space, vectors):
    global batches
    if sys.argv[3] == "before" and batches == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    add_vectors(self, space, vectors)
    if sys.argv[3] == "after" and batches == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    batches -= 1
store.add_vectors = add_and_die
library.index()
"""


@pytest.mark.parametrize(
    ("batches", "when", "count"),
    [(3, "after", 20), pytest.param(6, "before", 30, marks=pytest.mark.full)],
)
def test_indexing_resumes_after_a_kill(
    library: recollect.Library,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    batches: int,
    when: str,
    count: int,
) -> None:
    fill(library, 40)
    command = [sys.executable, "-c", INDEXER, place, str(batches), when]
    assert subprocess.run(command, check=False).returncode == -9
    assert count_embedded(library) == count
    assert library.search("dog", options=SearchOptions(now=NOW)).hits
    texts = record_texts(monkeypatch)
    library.index()
    assert (len(texts), count_embedded(library)) == (40 - count, 40)


def test_with_embeddings_off_there_are_no_vectors(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    fill(library)
    library.index()
    assert library._store.spaces() == []
    monkeypatch.delenv("RECOLLECT_EMBEDDINGS")
    library.index()
    assert library.search("dog").mode == "both"
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    assert library.search("dog").mode == "text"


def test_a_fact_at_the_end_of_a_long_message_is_found_by_meaning(
    library: recollect.Library,
) -> None:
    sentence = "The committee discussed the budget and the minutes of the last meeting at length. "
    filler = sentence * 140
    library.add_conversation(
        "c1",
        messages=[
            message("long", filler + "By the way, the puppy is allergic to chicken."),
            *(message(f"m{n}", f"{filler[: 300 + n]} {n}", days=n) for n in range(12)),
        ],
    )
    library.index()
    (space,) = library._store.spaces()
    assert len(library._store.vectors(space, library._store.passage_key("c1", "long"))) > 10
    hits = library.search(
        "young dog food intolerance",
        options=SearchOptions(mode="vector", now=NOW - timedelta(days=900)),
    ).hits
    assert hits[0].message_id == "long"


def test_edited_messages_and_renamed_conversations_get_new_vectors(
    library: recollect.Library,
) -> None:
    fill(library, 16)
    library.add_conversation(
        "x", "Sailing boats", messages=[message("a", "see above"), message("b", "my cat is ill")]
    )
    library.index()
    (space,) = library._store.spaces()
    a, b = (library._store.passage_key("x", id) for id in "ab")
    before = [library._store.vectors(space, key)[0] for key in (a, b)]
    library._store.revise(
        "x",
        lambda old: replace(
            old, passages=(old.passages[0], old.passages[1]._replace(content="my car is broken"))
        ),
    )
    library.update_conversation("x", "Chess openings")
    library.index()
    after = [library._store.vectors(space, key)[0] for key in (a, b)]
    assert [float(old @ new) < 0.9 for old, new in zip(before, after, strict=True)] == [True, True]


# -- another model ------------------------------------------------------------


def test_a_library_that_has_grown_is_embedded_again_and_stays_searchable(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 10)
    library.index()
    (old,) = library._store.spaces()
    fill(library, 30, start=100)
    monkeypatch.setattr(models, "_GROWTH", 2)
    monkeypatch.setattr(refreshing, "_TEXTS_AT_ONCE", 5)
    refresh(library._store, models.STATIC, stop=stop_after(3))
    first, second = library._store.spaces()
    assert (first, second.ready) == (old, False)
    assert first.version != second.version
    page = library.search("dog", options=SearchOptions(mode="vector", now=NOW))
    assert page.hits[0].message_id in ("m0", "m8")
    page = library.search("exam", options=SearchOptions(mode="both", now=NOW))
    assert set(ids(page)) >= {"m6", "m102"}
    library.index()
    (new,) = library._store.spaces()
    assert (new.id, new.ready, count_embedded(library)) == (second.id, True, 40)
    assert not [file for file in files(library) if file.match(f"vectors/space-{old.id}.*")]
    assert library.search("dog", options=SearchOptions(mode="vector", now=NOW)).embedded == 1.0


class Server:
    """An OpenAI-compatible server whose vectors count how often a text mentions each topic."""

    def __init__(self) -> None:
        self.dimensions = len(TOPICS)
        self.texts: list[str] = []
        self.broken = False
        self.address = ""

    def answer(self, body: Any) -> tuple[int, Any]:
        if self.broken:
            return 401, {"error": {"message": "out of order"}}
        self.texts += body["input"]
        data = []
        for n, text in enumerate(body["input"]):
            counts = [float(text.count(topic)) for topic in TOPICS] + [0.1] * 99
            data.append({"index": n, "embedding": counts[: self.dimensions]})
        return 200, {"data": data, "model": body["model"]}


@pytest.fixture(autouse=True)
def no_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch observations off, so that vectors can be counted. Observing has its own tests."""
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    toy = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = toy.answer(json.loads(body))
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        toy.address = f"http://127.0.0.1:{http.server_port}/v1#toy"
        monkeypatch.setenv("RECOLLECT_EMBEDDINGS", toy.address)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield toy
        http.shutdown()
        thread.join()


def test_a_new_model_replaces_the_old_one_and_search_stays_correct(
    library: recollect.Library, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library)
    with monkeypatch.context() as patch:
        patch.delenv("RECOLLECT_EMBEDDINGS")
        library.index()
    page = library.search("guitar", options=SearchOptions(mode="vector", now=NOW))
    assert (page.hits[0].message_id, page.embedded) == ("m2", 1.0)
    # The model that made the vectors embeds the query.
    assert server.texts == []
    monkeypatch.setattr(refreshing, "_TEXTS_OF_SLOW_MODELS", 10)
    refresh(library._store, server.address, stop=stop_after(4))
    assert [(s.name, s.ready) for s in library._store.spaces()] == [
        (models.STATIC, True),
        (server.address, False),
    ]
    page = library.search("guitar", options=SearchOptions(mode="vector", now=NOW))
    assert page.hits[0].message_id == "m2"
    library.index()
    (space,) = library._store.spaces()
    assert (space.name, space.version, space.dimensions) == (server.address, "toy:8", 8)
    page = library.search("guitar", options=SearchOptions(mode="vector", now=NOW))
    assert all("the guitar number" in hit.snippet for hit in page.hits[:5])
    assert sum(text.startswith("the ") for text in server.texts) == 40


def test_if_the_model_is_down_search_uses_words_and_reports_the_reason(
    library: recollect.Library, server: Server
) -> None:
    fill(library)
    library.index()
    assert library.search("dog", options=SearchOptions(now=NOW)).mode == "both"
    server.broken = True
    page = library.search("guitar", options=SearchOptions(now=NOW))
    assert page.mode == "text"
    assert "out of order" in page.note
    assert {h.message_id for h in page.hits} == {f"m{n}" for n in range(2, 40, 8)}
    assert page.exact
    with pytest.raises(recollect.errors.RecollectError, match="out of order"):
        library.search("guitar", options=SearchOptions(mode="vector"))
    library.add_message("c0", "user", "a guitar at once", id="new")
    assert "new" in ids(library.search("guitar", options=SearchOptions(now=NOW)))
    with pytest.raises(recollect.errors.RecollectError, match="out of order"):
        library.index()
    server.broken = False
    library.index()
    assert count_embedded(library) == 41


class FolderModel:
    """A model in a folder with a file that has its version."""

    dimensions = 8

    def __init__(self, folder: Path) -> None:
        self.version = (folder / "version").read_text()

    def embed(self, texts: Sequence[str], stop: object = None) -> NDArray[np.float32]:
        rows = [[float(topic in text) for topic in TOPICS] for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.dimensions)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed([text])[0]


@pytest.fixture
def model_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the version of the model that the setting names."""
    monkeypatch.setattr(onnx, "OnnxModel", FolderModel)
    folder = tmp_path / "model"
    folder.mkdir()
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", str(folder))
    (folder / "version").write_text("1")
    return folder / "version"


@pytest.mark.both_stores
def test_vectors_of_another_version_of_the_model_are_not_used_and_made_again(
    library: recollect.Library, place: str, model_version: Path
) -> None:
    fill(library)
    library.index()
    setting = models.embedding_setting()
    assert library.search("guitar").mode == "both"
    model_version.write_text("2")
    assert library.search("guitar").mode == "both"  # the model in memory made the vectors
    with recollect.open(place) as again:
        page = again.search("guitar", options=SearchOptions(now=NOW))
        assert (page.mode, "m2" in ids(page)) == ("text", True)
        assert "recollect index" in page.note
        assert has_work(again._store, setting)
        again.index()
        (space,) = again._store.spaces()
        assert (space.version, space.ready) == ("2", True)
        assert not has_work(again._store, setting)
        page = again.search("guitar", options=SearchOptions(now=NOW))
        assert (page.mode, page.note) == ("both", "")


def test_a_new_table_of_the_built_in_model_leads_to_new_vectors(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library)
    library.index()
    assert not has_work(library._store, models.STATIC)
    table, pieces = static.default_table()
    new_table = table._replace(version="new")
    monkeypatch.setattr(static, "default_table", lambda: (new_table, pieces))
    page = library.search("guitar", options=SearchOptions(now=NOW))
    assert (page.mode, "m2" in ids(page)) == ("text", True)
    assert has_work(library._store, models.STATIC)
    library.index()
    assert library.search("guitar", options=SearchOptions(now=NOW)).mode == "both"


def test_a_missing_or_unknown_model_is_an_error_that_names_it(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library)
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "gte-small")
    with pytest.raises(recollect.errors.InvalidInput, match="recollect model fetch"):
        library.index()
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "no-such-thing")
    with pytest.raises(recollect.errors.InvalidInput, match="no-such-thing"):
        library.index()
    assert "m0" in ids(library.search("dog"))


# -- in the background --------------------------------------------------------


@pytest.fixture
def background(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> Iterator[Callable[[], recollect.Library]]:
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    libraries: list[recollect.Library] = []

    def open_library() -> recollect.Library:
        libraries.append(recollect.open(place))
        return libraries[-1]

    yield open_library
    for library in libraries:
        library.close()


def wait_until_idle(library: recollect.Library) -> None:
    """Wait until the background indexer has nothing to do."""
    assert library._background is not None
    thread = library._background._thread
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive()


def test_messages_are_embedded_in_the_background_after_a_search(
    background: Callable[[], recollect.Library],
) -> None:
    library = background()
    fill(library)
    assert "m0" in ids(library.search("dog"))
    wait_until_idle(library)
    assert count_embedded(library) == 40
    assert library.search("dog").mode == "both"
    library.add_message("c0", "user", "a new dog", id="new")
    library.search("dog")
    wait_until_idle(library)
    assert count_embedded(library) == 41


def test_a_message_deleted_before_it_was_embedded_does_not_count_as_missing(
    background: Callable[[], recollect.Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = background()
    fill(library, 6)
    wait_until_idle(library)
    with monkeypatch.context() as paused:
        paused.setattr(refreshing, "refresh", lambda *_, **__: True)
        fill(library, 2, start=100)
        wait_until_idle(library)
        assert library.search("dog").embedded == 0.75
    library.delete_conversation("c100")
    wait_until_idle(library)
    assert library.search("dog").embedded == 1.0


def test_messages_that_lost_their_vectors_are_reported_and_repaired(
    library: recollect.Library,
) -> None:
    fill(library, 6)
    library.add_conversation(
        "x", messages=[message("blank", " "), message("unknown", "\U0001f9ff")]
    )
    library.index()
    # A text that cannot be embedded is not a problem.
    assert library.verify().healthy
    keys = [library._store.passage_key("c0", id) for id in ("m1", "m4")]
    library._store._store._store._write(  # type: ignore[attr-defined]
        lambda db: db.run_many("delete from vector where passage = ?", [(key,) for key in keys])
    )
    findings = library.verify()
    assert (findings.never_embedded, findings.healthy) == (2, False)
    library.repair()
    assert library.verify().healthy
    library.index()
    assert count_embedded(library) == 6


@sqlite_only
def test_volumes_are_sealed_in_the_background_with_embeddings_off(
    background: Callable[[], recollect.Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
    library = background()
    fill(library)
    library.search("dog")
    wait_until_idle(library)
    assert [file for file in files(library) if file.match("volumes/*/volume.json")]


def close_while_indexing(
    library: recollect.Library, started: threading.Event, resume: threading.Event
) -> None:
    """Close the library after `started` is set. Indexing continues once the library is closing."""
    library.search("dog", options=SearchOptions(mode="text"))
    assert started.wait(30)
    closing = threading.Thread(target=library.close)
    closing.start()
    assert library._background is not None
    assert library._background._closing.wait(30)
    resume.set()
    closing.join(30)
    assert not closing.is_alive()


def test_closing_stops_the_background_indexer_between_two_batches(
    background: Callable[[], recollect.Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "_TEXTS_AT_ONCE", 5)
    started, resume = threading.Event(), threading.Event()
    embed = StaticModel.embed
    batches = 0

    def slow(self: StaticModel, texts: Any, *stop: Any) -> Any:
        nonlocal batches
        batches += 1
        started.set()
        assert resume.wait(30)
        return embed(self, texts)

    monkeypatch.setattr(StaticModel, "embed", slow)
    library = background()
    fill(library, 200)
    close_while_indexing(library, started, resume)
    assert batches == 1
    monkeypatch.setattr(StaticModel, "embed", embed)
    again = background()
    assert count_embedded(again) == 5
    again.index()
    assert count_embedded(again) == 200


@pytest.mark.full
def test_a_model_that_fails_in_the_background_does_not_affect_searches(
    background: Callable[[], recollect.Library], server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.broken = True
    library = background()
    fill(library)
    assert "m0" in ids(library.search("dog"))
    wait_until_idle(library)
    assert "out of order" in caplog.text
    server.broken = False
    library.search("dog")
    wait_until_idle(library)
    assert count_embedded(library) == 40


HOLDER = """
import sys, recollect
with recollect.open(sys.argv[1]) as library, library._store.indexing_lock() as has_lock:
    print(has_lock, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_indexing(place: str) -> Iterator[None]:
    """Let another process hold the indexing lock until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        try:
            yield
        finally:
            holder.stdin.close()


@pytest.mark.full
def test_index_waits_while_another_process_indexes(library: recollect.Library, place: str) -> None:
    fill(library)
    waits = threading.Event()
    indexing = threading.Thread(target=library.index, kwargs={"on_wait": waits.set})
    with another_process_indexing(place):
        indexing.start()
        assert waits.wait(30)
        assert indexing.is_alive()
        assert count_embedded(library) == 0
    indexing.join(30)
    assert not indexing.is_alive()
    assert count_embedded(library) == 40


READERS = {
    Library: """activity admission archive audit changes close conversation conversation_page
      conversations count_matches export list_page running_imports
      conversations_with count_matches documents empty_trash
      exclusion facet_names facets find_id find_session
      find_text
      resolve_id index knowledge label match_expression memory message messages
      index_status pause_indexing
      purge_status read_only receipts recent related search short_id size stats summary verify
      version view wake_indexer read_path
      running_imports run_background_jobs""",
    Knowledge: "document export find get list media_types search transcript transcript_page",
    Memory: "digest get read search timeline",
}


TOGETHER = """
import os, sys, recollect
os.environ["RECOLLECT_INDEXING"] = "background"
from recollect.index import refresh
from recollect.store.sqlite import vector_files
from recollect.store.sqlite import sealing
sealing.MIN_VOLUME_PASSAGES = 10
vector_files._MIN_ROWS_TO_COPY = 1
refresh._TEXTS_AT_ONCE = 4
name = sys.argv[2]
with recollect.open(sys.argv[1]) as library:
    library.add_conversation(name)
    for n in range(40):
        library.add_message(name, "user", f"walrus {name} only{name}{n}x", id=f"{name}{n}")
        if n % 4 == 0:
            library.search(f"walrus only{name}{n}x")
"""


@pytest.mark.full
def test_two_processes_can_index_one_library_at_once(
    library: recollect.Library, place: str
) -> None:
    fill(library, 8)
    others = [subprocess.Popen([sys.executable, "-c", TOGETHER, place, name]) for name in "ab"]
    assert [other.wait() for other in others] == [0, 0]
    library.index()
    assert library.search("walrus", options=SearchOptions(mode="text")).total == 80
    assert ids(library.search('"onlya7x"')) == ["a7"]
    assert count_embedded(library) == 88
    assert library.verify().healthy
