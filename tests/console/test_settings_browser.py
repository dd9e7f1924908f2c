"""The settings page and the first run in a browser. Most tests share one server and one page."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from services import make_app, make_service
from sites import TIMEOUT, Site, expect
from test_first_run import prepare_computer

import recollect


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("settings")
    with pytest.MonkeyPatch.context() as patch:
        prepare_computer(folder / "me", patch)
        yield folder / "home"


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = make_service(str(home), port=port)
    server = uvicorn.Server(
        uvicorn.Config(make_app(service), log_level="error", timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{port}"
    service.draining.set()
    server.should_exit = True
    thread.join()
    listener.close()
    service.close()


@pytest.fixture(scope="module")
def page(browser: Any, url: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda entry: entry.type == "error" and problems.append(entry.text))
    yield page
    context.close()
    assert not problems


@pytest.fixture
def visit(page: Any, url: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> Any:
    monkeypatch.setenv("HOME", str(home.parent / "me"))
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")

    def open_path(path: str) -> Any:
        page.goto(url + path)
        page.wait_for_selector("html[data-ready]")
        return page

    return open_path


@pytest.mark.full
def test_the_first_run_imports_the_selection_with_progress(visit: Any, home: Path) -> None:
    with recollect.open(home, background=False) as library:
        for conversation in library.conversations():
            library.delete_conversation(conversation.id)
    page = visit("/")
    form = page.locator("[data-first-run]")
    form.get_by_label("chatgpt-export.zip in Downloads").uncheck()
    form.get_by_role("button", name="Import 1 of 2").click()
    expect(page.locator(".upload[data-state='done'] [data-name]")).to_have_text(
        "1 Claude Code session"
    )
    expect(page.get_by_role("heading", name="What are you looking for?")).to_be_visible()
    expect(page.locator(".row")).to_have_count(1)


@pytest.mark.full
def test_the_theme_is_chosen_and_remembered(visit: Any) -> None:
    page = visit("/settings")
    choice = page.locator("[data-theme-choice]")
    choice.get_by_text("Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page = visit("/settings")
    expect(page.get_by_label("Dark")).to_be_checked()
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.get_by_label("Light")).to_be_checked()
    choice.get_by_text("System").click()
    assert page.locator("html").get_attribute("data-theme") is None


@pytest.mark.full
def test_a_backup_is_made_with_one_click(visit: Any) -> None:
    page = visit("/settings")
    section = page.locator("#backup")
    section.get_by_role("button", name="Back up now").click()
    expect(section).to_contain_text("verified")


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_first_key_signs_this_browser_in_and_keys_are_rotated_and_revoked(
    open_page: Any, site: Site
) -> None:
    page = open_page("/settings")
    section = page.locator("#keys")
    section.get_by_text("Create an API key").click()
    section.get_by_label("Name").fill("laptop")
    section.get_by_role("button", name="Create key").click()
    expect(section.get_by_label("The new API key")).to_have_value(re.compile("^rk_"))
    expect(section).to_contain_text("This browser is signed in with it")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(page.get_by_label("The new API key")).to_be_hidden()
    expect(page.locator("#sessions")).to_contain_text("this browser")
    section.get_by_text("Create an API key").click()
    section.get_by_label("Name").fill("phone")
    section.get_by_role("button", name="Create key").click()
    expect(section.get_by_label("The new API key")).to_have_value(re.compile("^rk_"))
    phone = section.locator(".entry", has_text="phone")
    phone.get_by_text("Revoke", exact=True).click()
    phone.get_by_role("button", name="Revoke key").click()
    expect(section).to_contain_text("1 key that no longer works")
    laptop = section.locator(".entry", has_text="laptop")
    laptop.get_by_text("Rotate", exact=True).click()
    laptop.get_by_role("button", name="Rotate key").click()
    expect(section).to_contain_text("signed in with the new key")
    expect(section).to_contain_text("2 keys that no longer work")
    page.reload()
    expect(page.locator("#keys .entry[data-current]")).to_have_count(1)
