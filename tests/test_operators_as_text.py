"""Commands and SQL that look like exclusions."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect
from recollect import Filter

TEXTS = {
    "bash": "Start every script with `set -euo pipefail`.",
    "tar": "tar -xzf app.tar.gz extracts it.",
    "find": "find . -name '*.log' -mtime +7 -delete removes old logs.",
    "print": "To list what find finds, add `-print`.",
    "valve": "Watering needs a valve:\n-valve of brass\n-hose",
    "hose": "Watering needs a hose.",
    "check": "ALTER TABLE t ADD CHECK (code IS NOT NULL) NOT VALID",
    "create": "CREATE TABLE IF NOT EXISTS tenants (id bigint)",
    "tea": "I drink coffee, not tea.",
    "coffee": "Coffee is fine.",
}


@pytest.fixture
def notes(library: recollect.Library) -> recollect.Library:
    return add_texts(library, TEXTS)


def hits(library: recollect.Library, query: str, filter: Filter | None = None) -> list[str]:
    return [hit.conversation_id for hit in library.search(query, filter).hits]


def test_what_messages_contain_as_typed_is_text(notes: recollect.Library) -> None:
    queries = {
        "set -euo pipefail": "bash",
        "what does set -euo pipefail do?": "bash",
        "tar -xzf": "tar",
        "-mtime +7": "find",
        "find -delete": "find",
        "find -print": "print",
        "find . -name '*.log' -mtime +7 -delete": "find",
        "IS NOT NULL": "check",
        "NOT VALID constraint": "check",
        "CREATE TABLE IF NOT EXISTS": "create",
    }
    for query, name in queries.items():
        page = notes.search(query)
        assert page.hits[0].conversation_id == name, query
        assert page.note.startswith("Searched as text, because a message contains “"), query
        assert notes.knowledge.search(query)["results"][0]["conversation_id"] == name, query


@pytest.mark.both_stores
def test_other_exclusions_are_operators(notes: recollect.Library) -> None:
    assert hits(notes, "watering -valve") == ["hose"]
    assert hits(notes, "coffee NOT tea") == ["coffee"]
    assert hits(notes, "watering -hose") == []
    assert notes.search("watering -valve").note == ""


def test_only_what_passes_the_filter_decides(notes: recollect.Library) -> None:
    message = {"role": "user", "content": "tar is slow"}
    notes.add_conversation("slow", messages=[message], project="work")
    assert hits(notes, "tar -xzf") == ["tar", "slow"]
    assert hits(notes, "tar -xzf", Filter(projects=("work",))) == ["slow"]
    page = notes.search("tar -xzf", Filter(projects=("work",)))
    assert page.note == ""
