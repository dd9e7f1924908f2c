"""Searching, indexing and models from the command line, as a person and as a program use them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.cli import main
from recollect.models import embeddings as models
from recollect.search.rank import WEIGHTS
from recollect.store.postgres import PostgresStore
from recollect.store.sqlite import SqliteStore

TALKS: dict[str, list[tuple[str, str]]] = {
    "router": [
        ("user", "Where do I put the login check in React Router?"),
        ("assistant", "In a loader of the parent route; it runs before anything is shown."),
        ("user", "And authentication by token?"),
        ("assistant", "Keep the token in a cookie that scripts cannot read."),
    ],
    "tokens": [
        ("user", "How long should a token for authentication be good?"),
        ("assistant", "Fifteen minutes, with a second one that renews it."),
    ],
    "routes": [
        ("user", "React Router shows a blank page after a reload."),
        ("assistant", "The server must answer every path with the same page."),
    ],
    "roses": [
        ("user", "When are roses pruned?"),
        ("assistant", "Roses are pruned in late winter, before the buds open."),
        ("assistant", "Prune the roses above a bud that looks outward."),
    ],
    "again": [("user", "Thank you, that was all."), ("user", "thank you, that was all.")],
}


@pytest.fixture(autouse=True)
def nothing_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is embedded can be counted; observing has tests of its own."""
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")


@pytest.fixture
def run(place: str, capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str, fails: bool = False) -> str:
        code = main([*arguments, "--home", place])
        out, err = capsys.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


@pytest.fixture
def talks(tmp_path: Path) -> str:
    conversations = [
        {
            "id": id,
            "title": f"About {id}",
            "metadata": {"tags": ["work"] if id == "router" else []},
            "messages": [
                {
                    "id": f"{id}-{n}",
                    "role": role,
                    "content": text,
                    "created_at": f"2025-03-{n + 1:02}T10:00:00Z",
                }
                for n, (role, text) in enumerate(messages)
            ],
        }
        for id, messages in TALKS.items()
    ]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps({"conversations": conversations}))
    return str(path)


@pytest.fixture
def filled(run: Any, talks: str) -> Any:
    run("import", talks)
    return run


@pytest.fixture
def more(tmp_path: Path) -> str:
    messages = [{"role": "user", "content": f"line {n}"} for n in range(30)]
    path = tmp_path / "more.json"
    path.write_text(
        json.dumps({"conversations": [{"id": "more", "title": "", "messages": messages}]})
    )
    return str(path)


@pytest.fixture
def indexed(filled: Any) -> Any:
    filled("index")
    return filled


# -- searching -----------------------------------------------------------------


def test_explain_shows_what_found_a_hit_and_the_parts_of_its_score(indexed: Any) -> None:
    hit = json.loads(indexed("search", "pruned roses", "--json"))["hits"][0]
    shown = indexed("search", "pruned roses", "--explain", "--limit", "1")
    assert "matched by words and meaning · contains pruned, roses" in shown
    lines = [line.split() for line in shown.splitlines() if "█" in line]
    parts = sorted(hit["parts"].items(), key=lambda part: -abs(part[1]))
    assert [name for name, *_ in lines] == [name for name, _ in parts][: len(lines)]
    assert lines[0][1] == f"{parts[0][1]:.3f}"
    assert "found by" not in indexed("search", "pruned roses")


def test_every_part_of_a_score_is_explained() -> None:
    from recollect.cli.searching import PARTS

    assert set(PARTS) == set(WEIGHTS)
    page = (Path(__file__).parents[1] / "docs/searching.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in WEIGHTS)


def test_json_says_how_the_answer_came_about(indexed: Any) -> None:
    found = json.loads(indexed("search", "pruned roses", "--json"))
    assert (found["exact"], found["mode"], found["embedded"], found["note"]) == (
        False,
        "both",
        1.0,
        "",
    )
    hit = found["hits"][0]
    assert (hit["arms"], hit["terms"]) == (["text", "vector"], ["pruned", "roses"])
    assert sum(hit["parts"].values()) == pytest.approx(hit["score"], abs=0.01)
    words = json.loads(indexed("search", "pruned roses", "--json", "--mode", "text"))
    assert (words["exact"], words["mode"], words["hits"][0]["arms"]) == (True, "text", ["text"])
    meant = json.loads(indexed("search", "pruned roses", "--json", "--mode", "vector"))
    assert (meant["exact"], meant["mode"], meant["hits"][0]["arms"]) == (
        False,
        "vector",
        ["vector"],
    )


def test_a_total_that_is_only_a_lower_bound_is_marked(indexed: Any) -> None:
    assert " of at least " in indexed("search", "roses")
    assert "1 to 3 of 3 messages\n" in indexed("search", "roses", "--mode", "text")
    assert "No more hits; there are 3." in indexed(
        "search", "roses", "--mode", "text", "--offset", "50"
    )


def test_it_is_said_when_only_words_were_looked_for(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Searched by words only: there are no vectors yet." in filled("search", "roses")
    assert "words only" not in filled("search", "roses", "--mode", "text")
    assert "no vectors to search yet" in filled("search", "roses", "--mode", "vector", fails=True)
    filled("index")
    assert "words only" not in filled("search", "roses")
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    assert "words only: embeddings are off" in filled("search", "roses")


def test_it_is_said_when_a_promise_could_not_be_kept(filled: Any) -> None:
    assert "No message contains all of that" in filled("search", '"late winter" cookie')
    assert "No message contains all of that" not in filled("search", "late winter cookie")
    assert "plain text" in filled("search", '"late winter')


def test_by_conversation_gives_each_conversation_once_with_its_best_messages(filled: Any) -> None:
    found = json.loads(filled("search", "roses pruned token", "--by", "conversation", "--json"))
    ids = [hit["conversation_id"] for hit in found["hits"]]
    assert sorted(ids) == ["roses", "router", "tokens"]
    assert found["total"] == 3
    roses = next(hit for hit in found["hits"] if hit["conversation_id"] == "roses")
    assert {also["message_id"] for also in roses["also"]} | {roses["message_id"]} == {
        "roses-0",
        "roses-1",
        "roses-2",
    }
    shown = filled("search", "roses pruned", "--by", "conversation")
    assert (shown.count("About roses"), shown.count("recollect read")) == (1, 1)
    assert "late winter" in shown and "looks outward" in shown
    assert "1 to 1 of 1 conversations" in shown


def test_several_concepts_find_only_conversations_that_have_all_of_them(filled: Any) -> None:
    found = json.loads(
        filled("search", "--and", "React Router", "--and", "authentication", "--json")
    )
    assert [hit["conversation_id"] for hit in found["hits"]] == ["router"]
    (hit,) = found["hits"]
    assert {hit["message_id"], *(also["message_id"] for also in hit["also"])} == {
        "router-0",
        "router-2",
    }
    shown = filled("search", "React Router", "--and", "authentication", "--explain")
    assert shown.count("matched by words") == 2
    assert "No conversations match" in filled("search", "roses", "--and", "authentication")
    assert "2 to 5 concepts" in filled("search", "--and", "roses", fails=True)


def test_a_search_for_nothing_says_what_to_give(filled: Any) -> None:
    assert "Nothing to search for" in filled("search", fails=True)


def test_copies_are_told_with_the_one_that_stands_for_them(filled: Any) -> None:
    assert "1 copy" in filled("search", "thank you all")


def test_fields_and_tags_narrow_a_search(filled: Any) -> None:
    def ids(*arguments: str) -> set[str]:
        return {
            hit["conversation_id"]
            for hit in json.loads(filled("search", *arguments, "--json"))["hits"]
        }

    assert ids("authentication") == {"router", "tokens"}
    assert ids("authentication", "--tag", "work") == ids("authentication tag:work") == {"router"}
    assert ids("authentication -tag:work") == {"tokens"}
    assert ids("roses role:assistant before:2025-03-02") == {"roses"}


def test_the_time_that_a_question_names_is_seen_from_now(filled: Any) -> None:
    def parts(now: str) -> Any:
        return json.loads(filled("search", "roses last week", "--now", now, "--json"))["hits"][0][
            "parts"
        ]

    assert "time" in parts("2025-03-10")
    assert "time" not in parts("2025-09-01")
    assert "'soon' is not a date" in filled("search", "roses", "--now", "soon", fails=True)


def test_the_help_lists_the_fields_and_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["search", "--help"])
    shown = capsys.readouterr().out
    for field in (
        "role:",
        "from:",
        "in:",
        "before:",
        "after:",
        "tag:",
        "title:",
        "NEAR(",
        " -b",
        "NOT",
    ):
        assert field in shown


def test_related_finds_the_alike_and_not_the_message_itself(indexed: Any) -> None:
    found = json.loads(indexed("related", "roses", "roses-1", "--json", "--limit", "2"))
    assert {hit["message_id"] for hit in found["hits"]} == {"roses-0", "roses-2"}
    everything = json.loads(indexed("related", "roses", "roses-1", "--json"))
    assert "roses-1" not in {hit["message_id"] for hit in everything["hits"]}
    assert "About roses" in indexed("related", "roses", "roses-1", "--limit", "1")
    assert "no message 'ghost'" in indexed("related", "roses", "ghost", fails=True)


# -- indexing ------------------------------------------------------------------


def test_index_makes_vectors_and_says_so(filled: Any) -> None:
    size = sum(map(len, TALKS.values()))
    assert json.loads(filled("stats", "--json"))["vectors"] == []
    assert f"embedded {size} passages with static (256 dimensions)" in filled("index")
    assert "up to date" in filled("index")
    (space,) = json.loads(filled("stats", "--json"))["vectors"]
    assert (space["name"], space["dimensions"], space["share"]) == ("static", 256, 1.0)
    for command in ("stats", "doctor"):
        assert "static (256 dimensions): 100 %" in filled(command)


def test_what_was_taken_back_does_not_wait_for_vectors(indexed: Any, more: str) -> None:
    indexed("import", more)
    assert json.loads(indexed("model", "--json"))["vectors"][0]["share"] < 0.5
    indexed("import", "--undo", "2")
    assert json.loads(indexed("model", "--json"))["vectors"][0]["share"] == 1.0


def test_doctor_reports_and_repairs_what_would_never_be_embedded(
    indexed: Any, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with recollect.open(place) as library:
        library._store._connections.write(  # type: ignore[attr-defined]
            lambda db: (
                db.run("delete from vector where passage = 1"),
                db.run("insert into unembedded (passage, space) select 999999, id from space"),
            )
        )
    assert main(["doctor", "--home", place]) == 1
    shown = capsys.readouterr().out
    assert "queue entries without a message: 1" in shown
    assert "messages without a vector that are not queued for one: 1" in shown
    assert "No problems found" in indexed("doctor", "--repair")
    assert "embedded 1 passage " in indexed("index")


def test_index_says_for_programs_what_it_did(filled: Any) -> None:
    size = sum(map(len, TALKS.values()))
    done = json.loads(filled("index", "--json"))
    assert (done["waited"], done["embedded"], done["messages"]) == (False, size, size)
    assert done["vectors"][0]["searched"]


def test_index_says_that_it_waits_for_another_process_and_then_indexes(
    filled: Any, place: str
) -> None:
    with recollect.open(place) as library:
        with library._store.indexing_lock() as alone:
            assert alone
            command = subprocess.Popen(
                [sys.executable, "-m", "recollect", "index", "--json", "--home", place],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert command.stderr is not None
            assert "Another process is indexing this library" in command.stderr.readline()
        out, err = command.communicate()
    assert (command.returncode, err.strip()) == (0, "")
    done = json.loads(out)
    assert (done["waited"], done["embedded"]) == (True, sum(map(len, TALKS.values())))


def test_indexing_that_is_stopped_goes_on_next_time(
    filled: Any, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for store in (SqliteStore, PostgresStore):
            patched.setattr(store, "mark_space_ready", stop)
        assert "to resume it" in filled("index", fails=True)
    filled("import", more)
    assert "Only 30 % of the library has vectors yet." in filled("search", "roses")
    assert "embedded 30 passages" in filled("index")
    assert json.loads(filled("search", "roses", "--json"))["embedded"] == 1.0


def test_import_indexes_unless_it_is_told_not_to(
    run: Any, talks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("import", talks)  # RECOLLECT_INDEXING is manual here
    assert json.loads(run("stats", "--json"))["vectors"] == []
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    run("import", talks, "--no-index")
    assert json.loads(run("stats", "--json"))["vectors"] == []
    assert "embedded 13 passages" in run("import", talks)
    assert json.loads(run("stats", "--json"))["vectors"][0]["share"] == 1.0
    assert json.loads(run("import", talks, "--json"))["id"] == 4


def test_an_import_stands_even_if_indexing_fails_or_is_stopped(
    place: str, talks: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", place]
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "gte-small")  # which is not here
    assert main(["import", talks, *home]) == 0
    assert (
        "complete, but not all of it is indexed: The model gte-small is not downloaded yet"
        in capsys.readouterr().err
    )

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recollect.Library, "index", stop)
    assert main(["import", talks, *home]) == 130
    out, err = capsys.readouterr()
    assert "Receipt 2" in out and "The import is complete. Indexing was interrupted." in err


# -- models --------------------------------------------------------------------


def test_model_shows_the_setting_and_how_far_its_vectors_are(run: Any, talks: str) -> None:
    assert "There are no vectors yet" in run("model")
    run("import", talks)
    run("index")
    assert "100 %" in run("model")
    shown = json.loads(run("model", "--json"))
    assert (shown["setting"], shown["fetched"], shown["vectors"][0]["name"]) == (
        "static",
        [],
        "static",
    )


def test_model_says_when_the_setting_names_another_model(
    indexed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "gte-small")
    assert "The setting names another model" in indexed("model")
    assert "recollect model fetch gte-small" in indexed("index", fails=True)


def test_only_a_model_that_is_known_can_be_fetched(run: Any) -> None:
    assert "recollect model fetch gte-small" in run("model", "fetch", fails=True)
    assert "There is no model 'best'" in run("model", "fetch", "best", fails=True)


def test_fetching_says_where_the_model_is_and_how_to_use_it(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.models import download as fetching

    def fetched(name: str, into: Path, progress: Any) -> Path:
        progress("downloading", 1, 2)
        (into / name).mkdir(parents=True)
        return into / name

    monkeypatch.setattr(
        fetching, "download_model", fetched
    )  # the real one downloads 160 MB; tests/test_onnx_model.py does
    shown = run("model", "fetch", "gte-small")
    assert models.model_folder("gte-small").is_relative_to(tmp_path)
    assert str(models.model_folder("gte-small")) in shown
    assert "config set embeddings gte-small" in shown
    assert json.loads(run("model", "--json"))["fetched"] == ["gte-small"]
