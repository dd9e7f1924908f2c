"""A conversation without a title is shown with its first words."""

from __future__ import annotations

from typing import Any

import pytest

import recollect
from recollect import Passage
from recollect.model.labels import UNTITLED, first_words, label_of


@pytest.mark.parametrize(
    ("passages", "label"),
    [
        ([], UNTITLED),
        ([Passage("1", "user", "  \n ")], UNTITLED),
        ([Passage("1", "user", "hello\n\n  there")], "hello there"),
        ([Passage("1", "assistant", "Welcome!"), Passage("2", "user", "hello")], "hello"),
        ([Passage("1", "assistant", "Welcome!")], "Welcome!"),
        ([Passage("1", "system", "You help", visibility="hidden")], UNTITLED),
        ([Passage("1", "user", "<command>", type="context"), Passage("2", "user", "hi")], "hi"),
        ([Passage("1", "user", "Hi!"), Passage("2", "user", "Why is it slow?")], "Why is it slow?"),
        ([Passage("1", "user", "Thanks"), Passage("2", "assistant", "Welcome")], "Thanks"),
        ([Passage("1", "user", "secret", visibility="human_only")], UNTITLED),
        ([Passage("1", "user", "secret", metadata={"human_only": True})], UNTITLED),
    ],
)
def test_a_label_is_the_first_words_that_everybody_may_read(
    passages: list[Passage], label: str
) -> None:
    assert label_of(passages) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("## Why does **my** build fail with `ENOENT`?", "Why does my build fail with ENOENT?"),
        ("> quoted\n\n- *one*\n- [two](https://a.example)", "quoted one two"),
        ("```python\nprint(2 * 3 * 4)\n```", "print(2 * 3 * 4)"),
        ("```\nTraceback\n```\nWhy does _this_ ***fail***?", "Why does this fail?"),
        ("```\ncut off", "cut off"),
        ("1. one\n2. [x] two\n- [ ] three", "one two three"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        ("**", "**"),
        ("# ", "#"),
    ],
)
def test_a_label_has_no_markdown(text: str, label: str) -> None:
    assert first_words(text) == label


@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("\x1b[31mred\x1b[0m tram", "red tram"),
        ("\u200b\u2060", "Which tram?"),
        ("\x1b[31m\x1b[0m \ufeff", "Which tram?"),
        ("א\u200f", "א\u200f"),
        ("👨\u200d👩", "👨\u200d👩"),
    ],
)
def test_a_title_is_shown_without_colours_and_only_if_it_can_be_seen(
    library: recollect.Library, title: str, label: str
) -> None:
    messages = [
        {"role": "user", "content": text} for text in ("\u200b", "\x1b[1mWhich\x1b[0m tram?")
    ]
    library.add_conversation("c", title, messages=messages)
    assert library.label("c", title) == label
    assert library.summary("c").title == title


def test_lists_and_hits_show_labels_and_json_keeps_the_title(run: Any, place: str) -> None:
    with recollect.open(place) as library:
        for id_ in ("67b0f5c2-1", "67b0f5c2-2"):
            content = f"tram number {id_[-1]} goes to the castle"
            library.add_conversation(id_, messages=[{"role": "user", "content": content}])
    for command in (
        ["list"],
        ["search", "tram", "castle"],
        ["knowledge", "search", "tram", "castle"],
    ):
        output = " ".join(run(*command).split())
        for number in "12":
            assert f"tram number {number} goes to the castle" in output, command
        assert UNTITLED not in output
    assert run("read", "67b0f5c2-1").startswith("tram number 1 goes to the castle ")
    assert '"title":""' in run("list", "--json").replace(" ", "")
    assert '"title":""' in run("search", "tram", "--json").replace(" ", "")
