"""Prompts in the formats of many programs, and files that are not prompts."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from builders import (
    FORMATS,
    Problem,
    claimed_by,
    documents,
    entry,
    fields_of,
    only,
    problems,
    read_as,
)
from hypothesis import given
from hypothesis import strategies as st

OWN = {
    "name": "Summary",
    "author": "Ann",
    "details": "Short ones.",
    "system_prompt": "You are terse.",
    "user_prompt": "Summarise {{text}}.",
    "keywords": ["writing", "short"],
}
FIELDS = {**OWN, "keywords": "writing, short"}


def fields(content: Any, name: str = "prompts.json") -> dict[str, str]:
    return fields_of(only(read_as("prompts", entry(content, name))).passages)


def table(*rows: list[str], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue()


# -- detection --------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (OWN, "a.json"),
        ([OWN, OWN], "a.json"),
        ([{"act": "Pirate", "prompt": "Speak like one"}], "a.json"),
        ("---\ntype: prompt\n---\nText", "a.md"),
        ("---\nsystem_prompt: Be terse\n---\nText", "a.md"),
        ('+++\nprompt = "x"\n+++\n', "a.md"),
        ("Text", "a.prompt.md"),
        ("act,prompt\nPirate,Speak", "a.csv"),
        ('"Name";"System_prompt"\nPirate;Speak', "a.csv"),
    ],
)
def test_some_files_are_certainly_prompts(content: Any, name: str) -> None:
    assert FORMATS["prompts"].is_certain(entry(content, name))
    assert claimed_by("prompts", entry(content, name))
    assert not FORMATS["prompts"].is_guess(entry(content, name))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ([{"title": "Pirate", "prompt": "Speak"}], "a.json"),
        ([{"title": "Pirate", "text": "Speak"}], "my prompts/a.json"),
        ({"prompts": [OWN]}, "prompts.json"),
        ("title,text\nPirate,Speak", "prompts.csv"),
    ],
)
def test_some_files_are_probably_prompts(content: Any, name: str) -> None:
    assert not FORMATS["prompts"].is_certain(entry(content, name))
    assert FORMATS["prompts"].is_guess(entry(content, name))


# -- JSON ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"act": "Pirate", "prompt": "Speak"}, {"name": "Pirate", "user_prompt": "Speak"}),
        (
            {"title": "P", "content": "C", "tags": "a, b"},
            {"name": "P", "user_prompt": "C", "keywords": "a, b"},
        ),
        (
            {"command": "/p", "content": "C", "timestamp": 1700000000},
            {"name": "/p", "user_prompt": "C"},
        ),
        ({"label": "Q", "message": "M", "title": ""}, {"name": "Q", "user_prompt": "M"}),
        (
            {"name": "S", "role": "system", "content": "C", "system_prompt": True},
            {"name": "S", "system_prompt": "C"},
        ),
        ({"name": "L", "prompt": ["one", "two"]}, {"name": "L", "user_prompt": "one\ntwo"}),
        (
            {"name": "D", "prompt": {"system": "S", "user": "U"}},
            {"name": "D", "system_prompt": "S", "user_prompt": "U"},
        ),
        (
            {"prompt": "First line\nsecond"},
            {"name": "First line", "user_prompt": "First line\nsecond"},
        ),
        ("Only a text", {"name": "Only a text", "user_prompt": "Only a text"}),
    ],
)
def test_the_field_names_of_many_programs_are_read(record: Any, expected: dict[str, str]) -> None:
    assert fields([record]) == expected


MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]},
]


@pytest.mark.parametrize(
    "content",
    [
        {"name": "M", "messages": MESSAGES},
        [{"name": "M", "prompt": MESSAGES}],
        {"prompts": {"M": MESSAGES}},
    ],
)
def test_messages_are_split_into_system_and_user_prompts(content: Any) -> None:
    assert fields(content) == {"name": "M", "system_prompt": "Be kind.", "user_prompt": "Hello"}


@pytest.mark.parametrize(
    "content",
    [
        {"prompts": [OWN]},
        {"prompts": {"Summary": {**OWN, "name": "Summary"}}},
        {"version": 2, "qrList": [OWN]},
    ],
)
def test_prompts_may_be_in_a_list_or_a_mapping_by_name(content: Any) -> None:
    assert fields(content) == FIELDS


def test_a_second_prompt_of_the_same_name_gets_a_number() -> None:
    items = list(
        read_as(
            "prompts",
            entry([{"name": "A", "prompt": text} for text in ("one", "two", "one", "three")]),
        )
    )
    assert [(d.source_id, d.title) for d in documents(items)] == [
        ("A", "A"),
        ("A (2)", "A (2)"),
        ("A (3)", "A (3)"),
    ]
    assert problems(items) == [Problem("repeated prompt", "A", unit="conversations")]


# -- Markdown --------------------------------------------------------------


# -- tables ----------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_tables_are_read_with_any_delimiter(delimiter: str) -> None:
    text = table(
        ["Title", "Prompt", "System_prompt", "Description", "Author", "Tags"],
        ["A, b; c", 'Say "this"\nand that', "S", "D", "Ann", "x y"],
        [],
        ["B", "C"],
        delimiter=delimiter,
    )
    first, second = documents(read_as("prompts", entry(text, "prompts.csv")))
    assert fields_of(first.passages) == {
        "name": "A, b; c",
        "user_prompt": 'Say "this"\nand that',
        "system_prompt": "S",
        "details": "D",
        "author": "Ann",
        "keywords": "x, y",
    }
    assert second.title == "B"


# -- properties -----------------------------------------------------------


@given(st.binary(), st.sampled_from(["a.csv", "a.md", "a.prompt.md", "a.txt", "prompts.jsonl"]))
def test_no_file_raises(data: bytes, name: str) -> None:
    for content in (data, b"act,prompt\n" + data, b"---\nprompt: x\n" + data):
        claimed_by("prompts", entry(content, name))
        list(read_as("prompts", entry(content, name)))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda t: t.strip() == t
)


@given(TEXT, TEXT, TEXT, TEXT, st.lists(st.text("abc", min_size=1), unique=True, max_size=3))
def test_an_exported_prompt_is_the_same_when_imported(
    name: str, details: str, system: str, user: str, tags: list[str]
) -> None:
    record = {
        "name": name,
        "details": details,
        "system_prompt": system,
        "user_prompt": user,
        "keywords": tags,
    }
    first = only(read_as("prompts", entry(record, "a.json")))
    again = fields_of(first.passages)
    assert (
        only(
            read_as(
                "prompts", entry([{**again, "keywords": first.metadata.get("tags", [])}], "a.json")
            )
        )
        == first
    )
