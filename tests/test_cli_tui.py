"""`recollect tui`: the terminal application, driven by keys."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

import recollect

pytest.importorskip("textual")

from textual.worker import WorkerCancelled

from recollect import Document, Passage
from recollect.cli.tui_app import ConversationScreen, SearchApp
from recollect.model.documents import arrange


@pytest.fixture
def filled_library(library: recollect.Library) -> recollect.Library:
    for id_, title, project in (
        ("garden-notes", "Roses", "garden"),
        ("kitchen-talk", "Chutney", "kitchen"),
    ):
        library.add_conversation(
            id_,
            title,
            project=project,
            messages=[
                {"role": "user", "content": f"Tell me about {title} and vinegar."},
                {"role": "tool", "type": "tool_result", "content": "one\ntwo"},
                {"role": "assistant", "content": f"**{title}** need patience."},
            ],
        )
    return library


def drive(app: SearchApp, steps: Callable[[Any], Awaitable[None]], width: int = 100) -> None:
    """Run the application without a terminal, and press keys."""

    async def run() -> None:
        async with app.run_test(size=(width, 30)) as pilot:
            await settle(pilot)
            await steps(pilot)

    asyncio.run(run())


async def settle(pilot: Any) -> None:
    """Wait until timers and workers have finished."""
    delay = pilot.app._delay
    if delay is not None:
        delay.stop()
        pilot.app._search()
    for _ in range(3):
        with suppress(WorkerCancelled):  # a later search replaced it
            await pilot.app.workers.wait_for_complete()
        await pilot.pause()


def titles(app: SearchApp) -> list[str]:
    return [entry.title for entry in app._entries]


def text_of(app: Any, selector: str) -> str:
    widget = app.screen.query_one(selector)
    return "\n".join(strip.text for strip in widget.render_lines(widget.size.region))


def test_keys_search_preview_read_and_copy(filled_library: recollect.Library) -> None:
    app = SearchApp(filled_library)

    async def steps(pilot: Any) -> None:
        assert sorted(titles(app)) == ["Chutney", "Roses"]
        await pilot.press(*"vinegar chutney")
        await settle(pilot)
        assert titles(app)[0] == "Chutney"
        assert "Chutney" in text_of(app, "#preview-text")
        await pilot.press("ctrl+y")
        assert app.clipboard == "kitchen-talk"
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, ConversationScreen)
        assert "Chutney need patience." in text_of(app, "#messages Static")
        assert "\ntwo" not in text_of(app, "#messages Static")
        await pilot.press("t")
        await settle(pilot)
        assert "\ntwo" in text_of(app, "#messages Static")
        await pilot.press("escape", "f1")
        assert app.query("HelpPanel")
        await pilot.press("f1", "escape")
        await settle(pilot)
        assert len(titles(app)) == 2, "Esc clears the search"

    drive(app, steps)


@pytest.mark.full
def test_arrows_move_through_the_list_while_typing(filled_library: recollect.Library) -> None:
    app = SearchApp(filled_library, "vinegar")

    async def steps(pilot: Any) -> None:
        first, second = titles(app)
        await pilot.press("down")
        await settle(pilot)
        assert second in text_of(app, "#preview-text")
        await pilot.press("up")
        await settle(pilot)
        assert first in text_of(app, "#preview-text")

    drive(app, steps, width=80)


@pytest.mark.full
def test_errors_and_empty_results_are_shown_in_the_state_line(
    filled_library: recollect.Library,
) -> None:
    app = SearchApp(filled_library, "xyzzyplugh")

    async def steps(pilot: Any) -> None:
        assert titles(app) == []
        assert "Nothing matches." in text_of(app, "#state")

    drive(app, steps)


@pytest.mark.full
def test_a_long_conversation_is_loaded_while_it_is_scrolled(library: recollect.Library) -> None:
    passages = tuple(Passage(f"m{n}", "user", f"line {n}") for n in range(120))
    library._store.save([arrange(Document("recollect", "long", "Long", passages=passages))])
    app = SearchApp(library)

    async def steps(pilot: Any) -> None:
        await pilot.press("enter")
        await settle(pilot)
        assert len(app.screen.query("#messages Static")) == 1
        for _ in range(4):
            await pilot.press("end")
            await settle(pilot)
        assert len(app.screen.query("#messages Static")) == 3

    drive(app, steps)


def test_without_a_terminal_or_the_package_there_is_a_clear_message(
    run: Any, filled_library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "needs a terminal" in run("tui", fails=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "recollect.cli.tui_app")
    assert "pip install 'recollect[tui]'" in run("tui", fails=True)
