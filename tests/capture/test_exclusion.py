"""Exclusion of conversations by markers, files and patterns, and removal of private text."""

import json
from pathlib import Path

import pytest

import recollect
from recollect import Document, Passage
from recollect.model.receipts import Problem
from recollect.transfer.exclusion import (
    Exclusion,
    configured_exclusion,
    without_private_json,
    without_private_text,
)


def conversation(*passages: Passage, project: str = "/home/me/loom") -> Document:
    return Document("codex", "s1", "A loom", project=project, passages=passages)


def message(words: str, role: str = "user", **more: object) -> Passage:
    return Passage("m1", role, words, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        "DO NOT INDEX THIS CHAT",
        "please: DO NOT INDEX THIS CONVERSATION.",
        "<INSTRUCTIONS-TO-EPISODIC-MEMORY>DO NOT INDEX THIS CHAT</INSTRUCTIONS-TO-EPISODIC-MEMORY>",
    ],
)
@pytest.mark.parametrize("role", ["user", "system"])
def test_a_marker_in_a_user_or_system_message_excludes_the_conversation(
    words: str, role: str
) -> None:
    assert "marker" in Exclusion().reason(conversation(message("hello"), message(words, role)))


@pytest.mark.parametrize("name", [".no-recollect", ".no-conversation-memory"])
def test_a_file_in_the_project_or_a_parent_folder_excludes_the_conversation(
    tmp_path: Path, name: str
) -> None:
    project = tmp_path / "clients" / "loom"
    project.mkdir(parents=True)
    document = conversation(message("hello"), project=str(project))
    assert Exclusion().reason(document) == ""
    (tmp_path / "clients" / name).touch()
    assert Exclusion().reason(document).endswith(name)
    missing = str(tmp_path / "gone" / "loom")
    assert Exclusion().reason(conversation(message("hello"), project=missing)) == ""
    assert Exclusion().reason(conversation(message("hello"), project="loom")) == ""


@pytest.mark.parametrize(
    ("pattern", "project", "excluded"),
    [
        ("loom", "/home/me/loom", True),
        ("lo*", "/home/me/loom", True),
        ("/home/me/*", "/home/me/loom", True),
        ("/home/me", "/home/me/loom/deep", True),
        ("/home/you/*", "/home/me/loom", False),
        ("loo", "/home/me/loom", False),
        ("~/loom", "/home/me/loom", True),
        ("loom", r"C:\work\loom", True),
        ("secret-*", "secret-plans", True),
    ],
)
def test_patterns_exclude_projects(
    monkeypatch: pytest.MonkeyPatch, pattern: str, project: str, excluded: bool
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("RECOLLECT_EXCLUDE", f"other, {pattern},")
    reason = configured_exclusion().reason(conversation(message("hello"), project=project))
    assert bool(reason) is excluded


def test_sub_agents_are_excluded_with_their_session() -> None:
    exclusion = Exclusion()
    agent = Document(
        "codex", "a1", passages=(message("look"),), metadata={"parent_thread_id": "s1"}
    )
    assert exclusion.reason(agent) == ""
    assert isinstance(exclusion.admit(conversation(message("DO NOT INDEX THIS CHAT"))), Problem)
    assert exclusion.reason(agent)
    fresh = Exclusion()
    fresh.remember([("codex", "s1")])
    assert fresh.reason(agent)


# -- private spans ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>b</private> c", "a [private] c"),
        ("<private>\nmany\nlines\n</private>", "[private]"),
        ("<private>a</private> b <private>c</private>", "[private] b [private]"),
        ("<private>a <private>b</private> c</private> d", "[private] d"),
        ("a <private> without an end", "a <private> without an end"),
        ("</private> a <private>b</private>", "</private> a [private]"),
    ],
)
def test_private_spans_are_replaced(text: str, expected: str) -> None:
    assert without_private_text(text) == expected
    line = json.dumps({"said": text, "then": [text, 7]}).encode()
    assert json.loads(without_private_json(line)) == {"said": expected, "then": [expected, 7]}


# -- importing -------------------------------------------------------------------


def write(file: Path, *words: str, project: str = "/nowhere/loom") -> Path:
    messages = [{"id": f"m{n}", "role": "user", "content": text} for n, text in enumerate(words)]
    conversation_ = {"id": "c1", "title": "A loom", "namespace": project, "messages": messages}
    file.write_text(json.dumps({"conversations": [conversation_]}))
    return file


def test_imports_skip_excluded_conversations_and_report_it(
    tmp_path: Path, library: recollect.Library
) -> None:
    receipt = library.import_path(write(tmp_path / "c.json", "walrus", "DO NOT INDEX THIS CHAT"))
    assert receipt.files[0].conversations.skipped == {
        "excluded by the marker DO NOT INDEX THIS CHAT": 1
    }
    assert library.search("walrus").total == 0
