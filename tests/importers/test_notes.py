"""Notes: titles, tags, links, times, encodings."""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import Any

import pytest
from builders import (
    accepted_by,
    claimed_by,
    entry,
    frontmatter,
    only,
    read_as,
    text_of,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document

MODIFIED_AT = (2024, 6, 1, 12, 30, 0)


def read(content: str | bytes, name: str = "folder/A note.md") -> Document:
    return only(read_as("notes", replace(entry(content, name), modified=MODIFIED_AT)))


def tags(content: str) -> Any:
    return read(content).metadata.get("tags", [])


# -- detection --------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a.md", "b/c.MARKDOWN", "d.mdx", "e.txt", "f.text", "g.org", "h.rst"]
)
def test_markdown_and_plain_text_are_notes(name: str) -> None:
    assert claimed_by("notes", entry("x", name))
    assert accepted_by("notes", entry("x", name))


@pytest.mark.parametrize("name", [".hidden/a.md", "b/.git/c.md", ".d.md", "e.pdf", "f.json", "g"])
def test_hidden_files_and_other_formats_are_not_notes(name: str) -> None:
    assert not claimed_by("notes", entry("x", name))


# -- documents -------------------------------------------------------------


def test_a_note_is_identified_by_its_place_and_named_after_its_file() -> None:
    note = read("Beans.\n")
    assert (note.source, note.source_id, note.kind, note.id) == (
        "notes",
        "folder/A note.md",
        "note",
        "folder/A note",
    )
    assert (note.title, text_of(note.passages), note.metadata["file"]) == (
        "A note",
        "Beans.\n",
        "A note.md",
    )


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("---\ntitle: Said\n---\n# Heading\n", "Said"),
        ("---\ntitle: 2024\n---\n", "2024"),
        ("\n# The heading ##\ntext", "The heading"),
        ("The heading\n===========\ntext", "The heading"),
        ("text\n# Not this one", "A note"),
        ("## Only the second level", "A note"),
        ("#tag", "A note"),
    ],
)
def test_the_title_comes_from_the_front_matter_the_heading_or_the_file_name(
    content: str, title: str
) -> None:
    assert read(content).title == title


# -- times -----------------------------------------------------------------


# -- tags and links --------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["[a, b c, d/e]", '["#a", "b c", d/e]', "a, b c, d/e", "\n- a\n- b c\n- '#d/e'"],
    ids=lambda s: s.strip(),
)
def test_tags_are_a_list_or_a_string(value: str) -> None:
    assert tags(f"---\ntags: {value}\n---\n") == ["a", "b c", "d/e"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#one and (#two), *#three*", ["one", "two", "three"]),
        ("#a/b-c_d #Été #日本 #1984s", ["a/b-c_d", "Été", "日本", "1984s"]),
        ("# Heading\n## Another\n#after", ["after"]),
        ("issue #123, x#y, https://a.b/#c, &#39;, ##d, # e", []),
        ("[text](#anchor) [[#part]] [[Page#part]]", []),
        ("`#code` and ``#code ` #too`` but #not", ["not"]),
        ("```python\n#comment\n```\n#tag\n~~~\n#other\n", ["tag"]),
        ("````\n```\n#inside\n````\n#outside", ["outside"]),
        ("#Same #same", ["Same"]),
    ],
)
def test_tags_in_the_text_are_found(text: str, expected: list[str]) -> None:
    assert tags(text) == expected


# -- encodings and sizes ---------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        "Zoë\r\n".encode("utf-8-sig"),
        codecs.BOM_UTF16_BE + "Zoë\n".encode("utf-16-be"),
        "Zoë\r".encode(),
        "Zoë\n".encode("utf-16"),
    ],
    ids=["utf-8 with a mark", "utf-16-be", "utf-8", "utf-16-le"],
)
def test_unicode_is_read_with_any_line_endings(data: bytes) -> None:
    note = read(data)
    assert text_of(note.passages) == "Zoë\n"
    assert "encoding" not in note.metadata


@given(st.binary() | st.text().map(str.encode), st.sampled_from([".md", ".txt", ".org", ".rst"]))
def test_no_file_raises(data: bytes, ending: str) -> None:
    accepted_by("notes", entry(data, f"a{ending}"))
    assert list(read_as("notes", entry(data, f"a{ending}")))


def test_an_exported_note_is_the_same_when_imported() -> None:
    first = read(
        "---\ntitle: A\ntags: [b]\naliases: [c]\n"
        "created: 2020-01-02\nupdated: 2021-01-02\nmood: good\n---\n"
        "\nText #d [[E]]\n"
    )
    front_matter = {
        "title": first.title,
        "tags": first.metadata["tags"],
        "aliases": first.metadata["aliases"],
        "created": str(first.created_at),
        "updated": str(first.updated_at),
        **first.metadata["front_matter"],
    }
    assert read(frontmatter.join(front_matter, text_of(first.passages))) == first
