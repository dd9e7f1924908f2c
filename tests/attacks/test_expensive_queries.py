"""Short queries and messages that took quadratic or cubic time to match.

Otherwise, each test would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from http_service import server

from recollect.language.languages import DUTCH, ENGLISH, GERMAN
from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import matches, words
from recollect.language.transcript import parse_vtt

RUN = " " * 20_000


@pytest.mark.parametrize(
    ("matching", "text"),
    [
        (GERMAN.frames_in, f"was ist zu{RUN}x"),
        (DUTCH.frames_in, f"wat is te{RUN}x"),
        (partial(ENGLISH.has, "asks_rule"), f"is{RUN}walrus a pool?"),
        (partial(GERMAN.has, "asks_rule"), f"ist es{RUN}walross?"),
    ],
)
def test_phrases_are_looked_for_in_linear_time_however_many_spaces_there_are(
    matching: Callable[[str], object], text: str
) -> None:
    assert not matching(text)


def test_spaces_do_not_change_what_a_phrase_is() -> None:
    assert ENGLISH.frames_in("do you remember the walrus") == ["do you remember"]
    assert ENGLISH.frames_in("do  you \t remember the walrus") == ["do you remember"]


def test_words_near_each_other_are_found_in_a_text_that_repeats_them() -> None:
    text = "foo " * 30_000 + "x " * 50 + "bar " * 30_000
    assert not matches(parse("NEAR(foo bar, 0)"), "", text)
    assert matches(parse("NEAR(foo bar, 50)"), "", text)


def test_an_fts5_expression_with_many_phrases_is_parsed_in_linear_time() -> None:
    node = parse_fts5("a" * 700 + " b" + " + b" * 60)
    assert [word.text for word in words(node)] == ["a" * 700, " ".join(["b"] * 61)]


def test_a_caption_with_an_unclosed_voice_is_text() -> None:
    lines = ["WEBVTT", "", "00:01.000 --> 00:02.000", f"<v{' ' * 200_000}Ann"]
    (cue,) = parse_vtt(lines)
    assert "Ann" in str(cue)


def test_a_note_whose_heading_has_thousands_of_spaces_is_shown(tmp_path: Path) -> None:
    with server(tmp_path) as service:
        client = service.client()
        note = {"title": "Plans", "content": f"# a{' ' * 30_000}x"}
        id = client.post("/api/knowledge/notes", json=note).json()["id"]
        assert "<h1>a" in client.get(f"/knowledge/notes/{id}").text


def test_a_message_whose_code_takes_a_lexer_minutes_is_shown_without_colours(
    tmp_path: Path,
) -> None:
    with server(tmp_path) as service:
        client = service.client()
        message = {"role": "user", "content": f"**See**\n```java\n{'a ' * 9_500}\n```"}
        client.post("/conversations", json={"id": "c", "messages": [message]})
        page = client.get("/c/c").text
        assert "<strong>See</strong>" in page
        assert '<span class="language">java</span><code>a a' in page
