"""URLs of conversations and sources, for any ID."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.text import storable
from recollect.model.sources import source_label
from recollect.serve.console.templating import project_name, short_time
from recollect.serve.links import conversation_url, local, open_in

UUID = "0c5f3b9e-6a50-4a0e-9c43-0a4f3c0f7d11"


@pytest.mark.parametrize(
    ("source", "id", "url", "command"),
    [
        ("chatgpt", UUID, f"https://chatgpt.com/c/{UUID}", ""),
        ("claude", UUID, f"https://claude.ai/chat/{UUID}", ""),
        ("claude-code", UUID, "", f"claude --resume {UUID}"),
        ("codex", UUID, "", f"codex resume {UUID}"),
        ("gemini-cli", UUID, "", f"gemini --resume {UUID}"),
        ("recollect", "mine", "/c/mine", ""),
        ("claude-code", f"{UUID}:agent", f"/c/{UUID}%3Aagent", ""),
        ("codex", "--yolo", "/c/--yolo", ""),
        ("codex", "x; rm -rf ~", "/c/x%3B%20rm%20-rf%20~", ""),
        ("chatgpt", "../../evil", "/c/..%2F..%2Fevil", ""),
        ("chatgpt", "javascript:alert(1)", "/c/javascript%3Aalert%281%29", ""),
    ],
)
def test_a_conversation_can_be_opened_in_its_source(
    source: str, id: str, url: str, command: str
) -> None:
    way = open_in(source, id, id)
    assert (way.url, way.command) == (url, command)


def test_sources_have_labels() -> None:
    assert [source_label(name) for name in ("chatgpt", "claude-code", "somewhere")] == [
        "ChatGPT",
        "Claude Code",
        "somewhere",
    ]


@given(st.text(min_size=1))
def test_every_id_has_a_url_that_leads_back_to_it(id: str) -> None:
    parts = urlsplit(conversation_url(id, q="what?"))
    assert not parts.netloc
    if id in (".", ".."):
        assert parts.path == "/c/"
    else:
        assert unquote(parts.path.removeprefix("/c/")) == storable(id)
        assert "/" not in parts.path.removeprefix("/c/")


@pytest.mark.parametrize(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:x",
        "",
        None,
        "/a\r\nb",
        "evil",
        "/a\\b",
    ],
)
def test_foreign_urls_are_not_followed_after_sign_in(address: str | None) -> None:
    assert local(address) == "/"


def test_console_urls_are_followed_after_sign_in() -> None:
    assert local("/c/a%20b?q=x&m=1") == "/c/a%20b?q=x&m=1"


def test_lists_show_the_time_of_today_and_the_date_of_other_days() -> None:
    now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    assert short_time(now - timedelta(hours=3), now) == "09:00"
    assert short_time(now - timedelta(hours=13), now) == "14 Nov 2026"
    assert short_time(now - timedelta(days=700), now) == "15 Dec 2024"
    assert short_time(now + timedelta(days=3), now) == "18 Nov 2026"
    assert short_time(None) == ""


def test_a_project_that_is_a_path_is_shown_by_its_last_folder() -> None:
    assert [project_name(n) for n in ("/home/ann/garden/", "C:\\work\\app", "default", "/")] == [
        "garden",
        "app",
        "default",
        "/",
    ]
