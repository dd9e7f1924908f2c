"""Front matter is parsed, rejected and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.importers.knowledge.frontmatter import split


def test_yaml_is_split_off_with_the_empty_line_after_it() -> None:
    assert split("---\ntitle: A\ntags: [b, c]\n---\n\nText\n") == (
        {"title": "A", "tags": ["b", "c"]},
        "Text\n",
        "",
        "",
    )


def test_toml_is_read() -> None:
    values, body, *_ = split('+++\ntitle = "A"\ndate = 2024-05-01\ntags = ["b"]\n+++\nText')
    assert (values, body) == ({"title": "A", "date": "2024-05-01", "tags": ["b"]}, "Text")


@pytest.mark.parametrize(
    "bad",
    [
        "a: [",
        "a: {{date}}",
        "a: b: c",
        "\ta: b",
        "a: !!python/object/apply:os.system [ls]",
        "a: !mine x",
        "? [a]\n: b",
        "a: *b",
    ],
)
def test_invalid_yaml_is_text_and_a_problem(bad: str) -> None:
    text = f"---\n{bad}\n---\nText"
    parts = split(text)
    assert (parts.values, parts.body) == ({}, text)
    assert parts.problem == "front matter is not valid YAML"


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: &a [*a]",
        "a: " + "[" * 2_000 + "]" * 2_000,
        "- " * 2_000,
        "- " * 30_000,
        "a: b\n" * 50_000,
    ],
    ids=["aliases", "circle", "deep", "deep list", "deeper list", "long"],
)
def test_alias_bombs_are_rejected(bomb: str) -> None:
    assert split(f"---\n{bomb}\n---\nText").problem


@given(st.text("-+.:[]{}&*!|>'\"#ab1 \n\t?%@`,"))
def test_no_text_raises(text: str) -> None:
    for fence in ("---", "+++"):
        parts = split(f"{fence}\n{text}\n{fence}\nText")
        assert parts.body.endswith("Text")
