"""The parts of the conversation page: find, questions, tool rows, diffs, attachments."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import count
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect

START = datetime(2026, 1, 1, tzinfo=UTC)
EVIL = "</code><script>alert(1)</script>"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

Message = dict[str, Any]


def call(id: str, content: str = "x", tool: str = "Bash", **metadata: Any) -> Message:
    return {
        "id": id,
        "role": "assistant",
        "content": content,
        "type": "tool_call",
        "tool": tool,
        "created_at": START.isoformat(),
        "metadata": metadata,
    }


def result(id: str, seconds: float = 1, tool: str = "Bash", **metadata: Any) -> Message:
    when = START + timedelta(seconds=seconds)
    return call(id, "y", tool, **metadata) | {
        "role": "tool",
        "type": "tool_result",
        "created_at": when.isoformat(),
    }


@pytest.fixture
def show(client: TestClient, library: recollect.Library) -> Callable[..., str]:
    """`show(call("1"), result("2"))` returns the messages of a new conversation as HTML."""
    numbers = count()

    def add(*messages: Message) -> str:
        id = f"shown-{next(numbers)}"
        library.add_conversation(id, messages=messages)
        return client.get("/console/messages", params={"id": id}).text

    return add


# -- find and questions ---


def add_branches(library: recollect.Library) -> None:
    messages = [
        {"id": "q", "role": "user", "content": "Which **red** tram?"},
        {"id": "a", "role": "assistant", "content": "The red\ntram 1.", "parent": "q"},
        {"id": "b", "role": "assistant", "content": "A blue one.", "parent": "q"},
        {"id": "c", "role": "user", "content": "Thanks, RED tram.", "parent": "b"},
    ]
    library.add_conversation("trams", "Trams", messages=messages)


@pytest.mark.both_stores
def test_find_returns_the_messages_of_the_branch_that_contain_the_text(
    client: TestClient, library: recollect.Library
) -> None:
    add_branches(library)

    def find(text: str, through: str = "") -> Any:
        parameters = {"id": "trams", "text": text, "through": through}
        return client.get("/console/find", params=parameters).json()

    assert find("red tram") == {"entries": [0, 2], "next": None}
    assert find("red tram", through="a")["entries"] == [0, 1]
    assert find("  ")["entries"] == []
    assert find("tr.m")["entries"] == []
    assert client.get("/console/find", params={"id": "no", "text": "x"}).status_code == 404


def test_questions_are_the_messages_of_people(
    client: TestClient, library: recollect.Library
) -> None:
    add_branches(library)
    library.add_message("trams", "user", "added by a program", type="context")
    questions = client.get("/console/questions", params={"id": "trams"}).json()
    assert questions["entries"] == [[0, "Which red tram?"], [2, "Thanks, RED tram."]]


def test_agents_find_nothing_in_human_only_messages(
    client: TestClient, library: recollect.Library, new_user_key: Callable[..., str]
) -> None:
    library.add_conversation(
        "mixed", messages=[{"role": "user", "content": "a secret", "visibility": "human_only"}]
    )
    for key, entries in ((new_user_key(), [0]), (new_user_key(agent=True), [])):
        headers = {"Authorization": f"Bearer {key}"}
        parameters = {"id": "mixed", "text": "secret"}
        matches = client.get("/console/find", params=parameters, headers=headers).json()
        assert matches["entries"] == entries
        questions = client.get("/console/questions", params={"id": "mixed"}, headers=headers)
        assert len(questions.json()["entries"]) == len(entries)


# -- tool rows ---


@pytest.mark.parametrize(
    ("messages", "pairs"),
    [
        (
            [
                call("1", call_id="a"),
                call("2", call_id="b"),
                result("3", call_id="b"),
                result("4", call_id="a"),
            ],
            [("2", "1"), ("3", "0")],
        ),
        ([call("1"), result("2")], [("1", "0")]),
        ([call("1"), result("2", tool="Read")], []),
        ([call("1", call_id="a"), result("2", call_id="z")], []),
        (
            [
                call("1", call_id="a"),
                *({"role": "user", "content": f"{n}"} for n in range(30)),
                result("2", call_id="a"),
            ],
            [],
        ),
    ],
)
def test_results_belong_to_the_call_with_their_id_or_to_the_message_before(
    show: Callable[..., str], messages: list[Message], pairs: list[tuple[str, str]]
) -> None:
    assert re.findall(
        r'data-index="(\d+)" data-message="[^"]*" data-call="(\d+)"', show(*messages)
    ) == (pairs)


@pytest.mark.parametrize(
    ("messages", "status", "duration"),
    [
        ([call("1"), result("2", 2.5)], "done", "2.5 s"),
        ([call("1"), result("2", 0)], "done", ""),
        ([call("1"), result("2", is_error=True)], "failed", "1.0 s"),
        ([call("1"), result("2", metadata={"exit_code": 1})], "failed", "1.0 s"),
        ([call("1"), result("2", duration_seconds=0.01)], "done", "0.1 s"),
        ([call("1"), result("2", duration_seconds=12)], "done", "12 s"),
        ([call("1"), result("2", duration_seconds=75)], "done", "1 min 15 s"),
        ([call("1"), result("2", duration_seconds=3_700)], "done", "1 h 1 min"),
        ([call("1") | {"created_at": datetime.now(UTC).isoformat()}], "running", "running"),
        ([call("1")], "no result", "no result"),
    ],
)
def test_a_call_has_a_status_and_a_duration(
    show: Callable[..., str], messages: list[Message], status: str, duration: str
) -> None:
    html = show(*messages)
    assert f'data-status="{status}"' in html
    assert f'<span class="duration">{duration}</span>' in html


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        ("command: make test\ndescription: Run", "make test"),
        ('{"query": "red tram", "limit": 3}', "red tram"),
        ("just\n  text", "just text"),
    ],
)
def test_a_call_is_summarized_by_what_it_works_on(
    show: Callable[..., str], content: str, summary: str
) -> None:
    assert f'<span class="preview" dir="auto">{summary}</span>' in show(call("1", content))


def test_a_call_and_its_result_are_one_row_across_windows(
    client: TestClient, library: recollect.Library
) -> None:
    messages = [
        {"id": "q", "role": "user", "content": "Please run it"},
        call("c", "command: make", call_id="1"),
        {"id": "t", "role": "assistant", "content": "Running", "type": "thinking"},
        result("r", 3, call_id="1"),
    ]
    library.add_conversation("row", "Row", messages=messages)
    for start, limit in ((0, 4), (1, 1)):
        parameters = {"id": "row", "start": start, "limit": limit}
        html = client.get("/console/messages", params=parameters).text
        assert html.count('class="collapsed tool-row"') == 1
        assert html.count('class="tool-result"') == 1
        assert '<span class="duration">3.0 s</span>' in html
    later = client.get("/console/messages", params={"id": "row", "start": 2, "limit": 2}).text
    assert 'data-index="3" data-message="r" data-call="1" hidden' in later
    assert "tool-result" not in later
    around = client.get("/c/row", params={"m": "r"}).text
    assert "data-target" in around
    assert '<details class="collapsed tool-row" open>' in around


# -- diffs ---


@pytest.mark.parametrize(
    ("tool", "content", "path", "lines"),
    [
        (
            "Edit",
            "file_path: /a.py\nold_string:\none\ntwo\nnew_string:\none\nthree\nreplace_all: false",
            "/a.py",
            ["@", " one", "-two", "+three"],
        ),
        ("Edit", "file_path: /a.py\nold_string: x\nnew_string: y", "/a.py", ["@", "-x", "+y"]),
        ("Edit", "file_path: /a.py\nold_string: \nnew_string:\na\nb", "/a.py", ["@", "+a", "+b"]),
        (
            "MultiEdit",
            "file_path: /a.py\nedits:\nold_string: a\nnew_string: b\nold_string: c\nnew_string: d",
            "/a.py",
            ["@", "-a", "+b", "@", "-c", "+d"],
        ),
        ("Write", "file_path: /b.py\ncontent:\nx = 1\n", "/b.py", ["@", "+x = 1"]),
        ("write_file", '{"file_path": "c", "content": "z"}', "c", ["@", "+z"]),
        (
            "str_replace_based_edit_tool",
            '{"command": "str_replace", "path": "d", "old_str": "1", "new_str": "2"}',
            "d",
            ["@", "-1", "+2"],
        ),
        (
            "apply_patch",
            "input:\n*** Begin Patch\n*** Update File: e.py\n@@ def f\n-a\n+b\n c\n*** End Patch",
            "e.py",
            ["@@ def f", "-a", "+b", " c"],
        ),
    ],
)
def test_edits_become_diffs(
    show: Callable[..., str], tool: str, content: str, path: str, lines: list[str]
) -> None:
    path_shown, shown = shown_diff(show(call("1", content, tool)))
    assert path_shown == path
    assert shown == lines[lines[0] == "@" :]


def shown_diff(html: str) -> tuple[str, list[str]]:
    """The path and the lines of the diff in a call."""
    path = re.search(r'<div class="diff-head"><code>(.*?)</code>', html)
    lines = re.search(r'<pre class="diff-lines"><code>(.*?)</code>', html, re.DOTALL)
    assert path and lines
    text = re.sub(r"<span[^>]*>|</span>", "", lines[1])
    return unescape(path[1]), unescape(text).removesuffix("\n").split("\n")


@pytest.mark.parametrize("content", ["command: ls", "{broken", "[1]", "content: x"])
def test_other_calls_are_not_diffs(show: Callable[..., str], content: str) -> None:
    assert 'class="diff"' not in show(call("1", content))


def test_diffs_are_escaped(show: Callable[..., str]) -> None:
    html = show(call("1", f"file_path: {EVIL}\nold_string: {EVIL}\nnew_string: {EVIL}2", "Edit"))
    assert "<script>" not in html
    assert shown_diff(html) == (EVIL, [f"-{EVIL}", f"+{EVIL}2"])


def test_large_edits_are_not_compared_line_by_line(show: Callable[..., str]) -> None:
    old = "\n".join(f"a{n}" for n in range(3_000))
    html = show(call("1", f"file_path: a\nold_string:\n{old}\nnew_string: b", "Edit"))
    assert '<span class="added">+1</span> <span class="removed">−3000</span>' in html


# -- attachments ---


def test_attachments_are_described_as_the_source_named_them(show: Callable[..., str]) -> None:
    attachments = [
        {"name": "a.png", "media_type": "image/png", "data": PNG},
        {"id": "f1", "name": "b.jpg", "size": 2_500},
        {"content_type": "image_asset_pointer", "asset_pointer": "x://f1", "width": 3, "height": 2},
        {"type": "image", "width": 5, "height": 4},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "url": "https://a.example/c.png"},
        {"name": "notes.txt"},
        "plain",
    ]
    html = show({"role": "user", "content": "look", "attachments": attachments})
    pictures = re.findall(r"<figcaption><bdi>(.*?)</bdi>", html)
    missing = re.findall(
        r'class="file missing">.*?<bdi>(.*?)</bdi>(?: · (.*?))?</span>', html, re.DOTALL
    )
    files = re.findall(r'class="file">.*?<bdi>(.*?)</bdi>', html, re.DOTALL)
    assert pictures == ["a.png", "Image"]
    assert missing == [("b.jpg", "2.5 kB"), ("Image", "5 × 4"), ("https://a.example/c.png", "")]
    assert files == ["notes.txt", "plain"]


def test_stored_pictures_are_served_and_others_are_not(
    client: TestClient, library: recollect.Library
) -> None:
    svg = base64.b64encode(b"<svg onload=alert(1)>").decode()
    attachments = [
        {"name": "a.png", "media_type": "image/png", "data": PNG},
        {"name": "b.svg", "media_type": "image/svg+xml", "data": svg},
        {"name": "c.html", "media_type": "text/html", "data": svg},
        {"name": "broken.png", "media_type": "image/png", "data": "*"},
        {"name": '"><script>alert(1)</script>.png'},
    ]
    message = {"id": "m", "role": "user", "content": "look", "attachments": attachments}
    library.add_conversation("pictures", messages=[message])

    def picture(number: int) -> Any:
        return client.get("/console/picture", params={"id": "pictures", "m": "m", "n": number})

    assert picture(0).headers["content-type"] == "image/png"
    assert picture(0).content.startswith(b"\x89PNG")
    assert [picture(number).status_code for number in (1, 2, 3, 4, 99, -1)] == [404] * 6
    html = client.get("/c/pictures").text
    assert "The picture is not in the library." in html
    assert "<script>alert" not in html
