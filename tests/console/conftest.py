"""Fixtures for tests of the console: a service, a client, a real server and a real browser."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sites import TIMEOUT, Site
from starlette.testclient import TestClient

import recollect
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.settings import default_user
from recollect.settings import place as library_place

PORT = 8765
SKIP = "RECOLLECT_SKIP_BROWSER"
SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
WITH_SCREENSHOTS = os.environ.get("RECOLLECT_SCREENSHOTS") == "1"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "browser_errors(*parts): errors in the browser's console that a test causes"
    )


@pytest.fixture
def service(place: str) -> Iterator[Service]:
    service = Service(library_place(place), ServiceConfig(rate_per_minute=0))
    yield service
    service.drain()
    service.close()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """A person with a browser on this computer."""
    headers = {"Accept": "text/html"}
    address = f"http://127.0.0.1:{PORT}"
    with TestClient(make_app(service), address, headers=headers, follow_redirects=False) as client:
        yield client


@pytest.fixture
def new_user_key(service: Service) -> Callable[..., str]:
    def create(
        user: str | None = None, scopes: Sequence[str] = ("read", "write"), **more: Any
    ) -> str:
        text, _ = new_key(service.keys, user or default_user(), "a test", scopes, **more)
        service.auth.keys_changed()
        return text

    return create


# -- a real server and a real browser ---


@pytest.fixture
def site(place: str) -> Iterator[Site]:
    # Clients that connect before the server runs wait in the socket's backlog.
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = Service(library_place(place), ServiceConfig(port=port, rate_per_minute=0))
    server = uvicorn.Server(
        uvicorn.Config(make_app(service), log_level="error", timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with recollect.open(place, background=False) as library:
        yield Site(f"http://127.0.0.1:{port}", place, service, library)
    service.draining.set()
    server.should_exit = True
    thread.join()
    listener.close()
    service.close()


@pytest.fixture(scope="module")
def browser(shared_browser: tuple[Any, asyncio.AbstractEventLoop]) -> Iterator[Any]:
    """The event loop of Playwright occupies the main thread, but only in modules that use it."""
    browser, loop = shared_browser
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """One browser per process, with its event loop: starting it and its driver takes a second."""
    if os.environ.get(SKIP) == "1":
        pytest.skip(f"{SKIP}=1")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.fail(
            "There is no browser to test with. Install one (apt-get install chromium), or set "
            f"{SKIP}=1 to skip these tests.",
            pytrace=False,
        )
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=list(BROWSER_OPTIONS), timeout=4 * TIMEOUT
        )
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def open_page(
    browser: Any, site: Site, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """`open_page("/c/x", dark=True)` opens a page in its own context.

    The test fails if a page reports an error. RECOLLECT_SCREENSHOTS=1 saves a picture of each page.
    """
    pages: list[tuple[Any, list[str]]] = []

    def open_(
        path: str = "/", *, dark: bool = False, phone: bool = False, ready: bool = True
    ) -> Any:
        context = browser.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1280, "height": 800},
            color_scheme="dark" if dark else "light",
            has_touch=phone,
            locale="en-GB",
            timezone_id="UTC",
            accept_downloads=True,
            service_workers="block",  # see test_offline.py
        )
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))

        def on_console(message: Any) -> None:
            if message.type == "error":
                problems.append(message.text)

        def on_dialog(dialog: Any) -> None:
            problems.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", on_console)
        page.on("dialog", on_dialog)
        pages.append((page, problems))
        page.goto(site.url + path)
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    marker = request.node.get_closest_marker("browser_errors")
    expected = marker.args if marker else ()
    unexpected = []
    for number, (page, problems) in enumerate(pages):
        if WITH_SCREENSHOTS:
            save_screenshot(page, f"{request.node.name.removeprefix('test_')}-{number}")
        page.context.close()
        unexpected += [text for text in problems if not any(part in text for part in expected)]
    assert not unexpected


def save_screenshot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    file = "".join(c if c.isalnum() else "-" for c in name)
    page.screenshot(path=SCREENSHOTS / f"{file[:120]}.png", animations="disabled")
