"""Search, indexing and models on the command line: text for people, JSON for programs."""

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

CONVERSATIONS: dict[str, list[tuple[str, str]]] = {
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
def turn_off_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without observations, these tests can count the embedded passages."""
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")


@pytest.fixture
def export_file(tmp_path: Path) -> str:
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
        for id, messages in CONVERSATIONS.items()
    ]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps({"conversations": conversations}))
    return str(path)


@pytest.fixture
def imported_run(run: Any, export_file: str) -> Any:
    run("import", export_file)
    return run


def export_of(folder: Path, id: str, title: str, *texts: str) -> str:
    """The path of an export with one conversation."""
    messages = [{"role": "user", "content": text} for text in texts]
    conversation = {"id": id, "title": title, "messages": messages}
    path = folder / f"{id}.json"
    path.write_text(json.dumps({"conversations": [conversation]}))
    return str(path)


@pytest.fixture
def more(tmp_path: Path) -> str:
    return export_of(tmp_path, "more", "", *(f"line {n}" for n in range(30)))


@pytest.fixture
def many_roses(tmp_path: Path) -> str:
    return export_of(tmp_path, "types", "", *(f"Roses of type {n}" for n in range(70)))


@pytest.fixture
def indexed_run(imported_run: Any) -> Any:
    imported_run("index")
    return imported_run


# -- searching -----------------------------------------------------------------


def test_explain_shows_why_a_hit_matched_and_the_parts_of_its_score(indexed_run: Any) -> None:
    hit = json.loads(indexed_run("search", "pruned roses", "--json"))["hits"][0]
    output = indexed_run("search", "pruned roses", "--explain", "--limit", "1")
    assert "matched by words and meaning · contains pruned, roses" in output
    lines = [line.split() for line in output.splitlines() if "█" in line]
    parts = sorted(hit["parts"].items(), key=lambda part: -abs(part[1]))
    assert [name for name, *_ in lines] == [name for name, _ in parts][: len(lines)]
    assert lines[0][1] == f"{parts[0][1]:.3f}"
    assert "found by" not in indexed_run("search", "pruned roses")


def test_a_correction_says_how_to_search_for_the_word_as_typed(imported_run: Any) -> None:
    output = imported_run("search", "rosez")
    assert "Searched for “roses” instead of “rosez”." in output
    assert "Use --no-correct or quotes to search for it as typed." in " ".join(output.split())
    assert "instead of" not in imported_run("search", "rosez", "--no-correct")
    assert "instead of" not in imported_run("search", '"rosez"')


def test_every_part_of_a_score_is_in_the_documentation() -> None:
    from recollect.search.ranking import EXPLANATIONS, FEATURES

    root = Path(__file__).parents[1]
    page = (root / "docs/searching.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in EXPLANATIONS)
    table = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for each in FEATURES.values():
        weights = f"{each.question:g} | {each.dialogue:g} | {each.keywords:g}"
        assert f"| `{each.name}` | {weights} | {each.explanation} |" in table


def test_a_total_that_is_only_a_lower_bound_is_marked(indexed_run: Any, many_roses: str) -> None:
    for mode in ("both", "text"):
        assert "1 to 3 of 3 messages\n" in indexed_run("search", "roses", "--mode", mode)
    assert "No more hits: 3 messages in all." in indexed_run(
        "search", "roses", "--mode", "text", "--offset", "50"
    )
    indexed_run("import", many_roses)
    assert "1 to 10 of at least 73 messages\n" in indexed_run("search", "roses")
    assert "1 to 10 of 73 messages\n" in indexed_run("search", "roses", "--mode", "text")


def test_a_note_says_when_a_search_used_only_words(
    imported_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Searched by words only: there are no vectors yet." in imported_run("search", "roses")
    assert "words only" not in imported_run("search", "roses", "--mode", "text")
    assert "no vectors to search yet" in imported_run(
        "search", "roses", "--mode", "vector", fails=True
    )
    imported_run("index")
    assert "words only" not in imported_run("search", "roses")
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    assert "words only: embeddings are off" in imported_run("search", "roses")


def test_a_note_says_when_the_query_was_relaxed(imported_run: Any) -> None:
    assert "No message contains all of that" in imported_run("search", '"late winter" cookie')
    assert "No message contains all of that" not in imported_run("search", "late winter cookie")
    assert "plain text" in imported_run("search", '"late winter')


def test_several_concepts_find_only_conversations_that_have_all_of_them(imported_run: Any) -> None:
    result = json.loads(
        imported_run("search", "--and", "React Router", "--and", "authentication", "--json")
    )
    assert [hit["conversation_id"] for hit in result["hits"]] == ["router"]
    (hit,) = result["hits"]
    assert {hit["message_id"], *(also["message_id"] for also in hit["also"])} == {
        "router-0",
        "router-2",
    }
    output = imported_run("search", "React Router", "--and", "authentication", "--explain")
    assert output.count("matched by words") == 2
    assert "No conversations match" in imported_run("search", "roses", "--and", "authentication")
    words = imported_run("search", "React Router")
    assert imported_run("search", "--and", "React Router") == words
    assert "1 to 2 of 2 messages\n" in words
    concepts = [argument for word in "abcdef" for argument in ("--and", word)]
    assert "2 to 5 concepts" in imported_run("search", *concepts, fails=True)


def test_a_search_without_a_query_is_an_error(imported_run: Any) -> None:
    for words in ([], [""], ["  "]):
        assert "Nothing to search for" in imported_run("search", *words, fails=True)


def test_a_title_of_several_lines_is_shown_in_one(run: Any, tmp_path: Path) -> None:
    run("import", export_of(tmp_path, "c1", "First\r\nsecond\tthird", "The build fails."))
    assert " 1  First second third  user" in run("search", "build")
    assert "First second third" in run("list")
    assert run("read", "c1").startswith("First second third  recollect")


def test_the_help_lists_the_fields_and_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["search", "--help"])
    output = capsys.readouterr().out
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
        assert field in output


def test_related_finds_similar_messages_but_not_the_message_itself(indexed_run: Any) -> None:
    result = json.loads(indexed_run("related", "roses", "roses-1", "--json", "--limit", "2"))
    assert {hit["message_id"] for hit in result["hits"]} == {"roses-0", "roses-2"}
    everything = json.loads(indexed_run("related", "roses", "roses-1", "--json"))
    assert "roses-1" not in {hit["message_id"] for hit in everything["hits"]}
    assert "About roses" in indexed_run("related", "roses", "roses-1", "--limit", "1")
    assert "no message 'ghost'" in indexed_run("related", "roses", "ghost", fails=True)


# -- indexing ------------------------------------------------------------------


def test_index_embeds_messages_and_reports_it(imported_run: Any) -> None:
    size = sum(map(len, CONVERSATIONS.values()))
    assert json.loads(imported_run("stats", "--json"))["vectors"] == []
    assert f"Indexed {size} passages by meaning" in imported_run("index")
    assert "up to date" in imported_run("index")
    (space,) = json.loads(imported_run("stats", "--json"))["vectors"]
    assert (space["name"], space["dimensions"], space["share"]) == ("static", 256, 1.0)
    assert "complete" in imported_run("stats")
    for command in (["stats", "--verbose"], ["doctor"]):
        assert "static (256 dimensions): 100 %" in imported_run(*command)


@pytest.mark.full
def test_index_waits_for_another_process_and_then_indexes(imported_run: Any, place: str) -> None:
    with recollect.open(place) as library:
        with library._store.indexing_lock() as acquired:
            assert acquired
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
    result = json.loads(out)
    assert (result["waited"], result["embedded"]) == (True, sum(map(len, CONVERSATIONS.values())))


def test_import_indexes_unless_disabled(
    run: Any, export_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("import", export_file)  # the tests set RECOLLECT_INDEXING to manual
    assert json.loads(run("stats", "--json"))["vectors"] == []
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    run("import", export_file, "--no-index")
    assert json.loads(run("stats", "--json"))["vectors"] == []
    assert "Indexed 13 passages" in run("import", export_file)
    assert json.loads(run("stats", "--json"))["vectors"][0]["share"] == 1.0
    assert json.loads(run("import", export_file, "--json"))["id"] == 4


def test_an_import_is_complete_even_if_indexing_fails(
    place: str,
    export_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = ["--home", place]
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "gte-small")  # is not downloaded
    assert main(["import", export_file, *home]) == 0
    assert (
        "complete, but not all of it is indexed: The model gte-small is not downloaded yet"
        in capsys.readouterr().err
    )

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recollect.Library, "index", stop)
    assert main(["import", export_file, *home]) == 130
    out, err = capsys.readouterr()
    assert "Receipt 2" in out and "The import is complete. Indexing was interrupted." in err


# -- models --------------------------------------------------------------------


def test_only_known_models_can_be_fetched(run: Any) -> None:
    assert "recollect model fetch gte-small" in run("model", "fetch", fails=True)
    assert "There is no model 'best'" in run("model", "fetch", "best", fails=True)


def test_fetch_prints_the_folder_and_the_setting_of_the_model(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.models import download as fetching

    def download(name: str, into: Path, progress: Any) -> Path:
        progress("downloading", 1, 2)
        (into / name).mkdir(parents=True)
        return into / name

    # The real function downloads 160 MB; tests/test_onnx_model.py tests it.
    monkeypatch.setattr(fetching, "download_model", download)
    output = run("model", "fetch", "gte-small")
    assert models.model_folder("gte-small").is_relative_to(tmp_path)
    assert str(models.model_folder("gte-small")) in output
    assert "config set embeddings gte-small" in output
    assert json.loads(run("model", "--json"))["fetched"] == ["gte-small"]
