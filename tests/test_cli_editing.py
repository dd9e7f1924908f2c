"""Changing conversations on the command line, and undoing it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import recollect


@pytest.fixture
def filled_run(run: Any, place: str) -> Any:
    with recollect.open(place) as library:
        for id_, title in (("garden-notes", "Roses"), ("kitchen-talk", "Chutney")):
            messages = [{"role": "user", "content": f"Tell me about {title}."}]
            library.add_conversation(id_, title, messages=messages)
    run("list")
    return run


def ids(run: Any, *options: str) -> list[str]:
    listing = json.loads(run("list", "--json", *options))
    return sorted(conversation["id"] for conversation in listing["conversations"])


@pytest.mark.both_stores
def test_a_deleted_conversation_is_restored_by_undo(filled_run: Any) -> None:
    output = filled_run("delete", "garden-notes")
    assert "Deleted “Roses”." in output and "recollect undo (within 60 minutes)" in output
    assert ids(filled_run) == ["kitchen-talk"]
    assert "No message mentions “roses”" in filled_run("search", "roses", "--mode", "text")
    assert filled_run("undo") == "Restored “Roses”.\n"
    assert ids(filled_run) == ["garden-notes", "kitchen-talk"]
    assert "nothing to undo" in filled_run("undo", fails=True)


def test_several_conversations_are_deleted_and_restored_by_number(filled_run: Any) -> None:
    output = filled_run("delete", "1", "2")
    command = output.splitlines()[-1].split("recollect undo ")[1].split(" (")[0]
    assert ids(filled_run) == []
    assert filled_run("undo", *command.split()).count("Restored") == 2
    assert ids(filled_run) == ["garden-notes", "kitchen-talk"]


def test_a_numbered_result_is_forgotten(filled_run: Any) -> None:
    filled_run("search", "Chutney", "--mode", "text")
    assert "Forgotten: 1 message" in filled_run("forget", "1", "--yes")
    assert ids(filled_run) == ["garden-notes"]
    assert "There is no result 7" in filled_run("forget", "7", "--yes", fails=True)


def test_nothing_is_deleted_if_one_reference_is_wrong(filled_run: Any) -> None:
    filled_run("delete", "1", "3", fails=True)
    filled_run("delete", "garden-notes", "no-such-id", fails=True)
    assert ids(filled_run) == ["garden-notes", "kitchen-talk"]


def test_a_permanent_deletion_needs_consent_and_has_no_undo(filled_run: Any) -> None:
    assert "Add --yes" in filled_run("delete", "1", "--permanently", fails=True)
    assert "permanently" in filled_run("delete", "garden-notes", "--permanently", "--yes")
    assert ids(filled_run) == ["kitchen-talk"]
    assert "nothing to undo" in filled_run("undo", fails=True)


def test_tags_titles_and_pins_are_changed_and_undone(filled_run: Any) -> None:
    assert "Tagged “Roses” with idea, summer." in filled_run(
        "tag", "garden-notes", "idea", "summer"
    )
    assert ids(filled_run, "--tag", "summer") == ["garden-notes"]
    assert "“Roses” has this tag already." in filled_run("tag", "garden-notes", "idea")
    assert "Removed summer from “Roses”." in filled_run("untag", "garden-notes", "summer")
    assert "does not have this tag" in filled_run("untag", "garden-notes", "summer")
    assert "Put the tags of “Roses” back." in filled_run("undo")
    assert ids(filled_run, "--tag", "summer") == ["garden-notes"]
    assert "Renamed “Roses” to “Old roses”." in filled_run("rename", "garden-notes", "Old", "roses")
    assert "Renamed “Old roses” back to “Roses”." in filled_run("undo")
    assert "Pinned “Chutney”." in filled_run("pin", "kitchen-talk")
    assert ids(filled_run, "--pinned") == ["kitchen-talk"]
    assert "Unpinned “Chutney”." in filled_run("unpin", "kitchen-talk")
    assert "Pinned “Chutney” again." in filled_run("undo")
    listing = filled_run("undo", "--list")
    assert [line.split()[3] for line in listing.splitlines()] == ["pinned", "tagged"]


def test_changes_are_reported_as_json(filled_run: Any) -> None:
    (change,) = json.loads(filled_run("rename", "1", "New", "--json"))["changes"]
    assert (change["action"], change["title"]) == ("rename", "New")
    (reverted,) = json.loads(filled_run("undo", str(change["number"]), "--json"))["undone"]
    assert reverted["number"] == change["number"]
