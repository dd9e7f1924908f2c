"""What tests of the console share: a service on each store, a client, a real server, and a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sites import Site
from starlette.testclient import TestClient

import recollect
from recollect.manage.accounts import new_key
from recollect.serve.app import make_app
from recollect.serve.service import Service, ServiceConfig
from recollect.settings import default_user
from recollect.settings import place as placed

PORT = 8765
SKIP = "RECOLLECT_SKIP_BROWSER"
SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "may_meet(*parts): errors in the browser's console that a test means to cause"
    )


@pytest.fixture
def service(place: str) -> Iterator[Service]:
    made = Service(placed(place), ServiceConfig(rate_per_minute=0))
    yield made
    made.drain()
    made.close()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """Somebody with a browser on this computer."""
    headers = {"Accept": "text/html"}
    address = f"http://127.0.0.1:{PORT}"
    with TestClient(make_app(service), address, headers=headers, follow_redirects=False) as made:
        yield made


@pytest.fixture
def new_user_key(service: Service) -> Callable[..., str]:
    def make(
        user: str | None = None, scopes: Sequence[str] = ("read", "write"), **more: Any
    ) -> str:
        text, _ = new_key(service.keys, user or default_user(), "a test", scopes, **more)
        service.auth.keys_changed()
        return text

    return make


# -- a real server and a real browser ---


@pytest.fixture
def site(place: str) -> Iterator[Site]:
    listening = socket.create_server(
        ("127.0.0.1", 0)
    )  # who connects before the server runs simply waits
    port = listening.getsockname()[1]
    service = Service(placed(place), ServiceConfig(port=port, rate_per_minute=0))
    server = uvicorn.Server(
        uvicorn.Config(make_app(service), log_level="error", timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with recollect.open(place, background=False) as library:
        yield Site(f"http://127.0.0.1:{port}", place, service, library)
    service.draining.set()
    server.should_exit = True
    thread.join()
    listening.close()
    service.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a module: while Playwright runs, its event loop holds the main thread."""
    if os.environ.get(SKIP) == "1":
        pytest.skip(f"{SKIP}=1")
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        pytest.fail(
            f"There is no browser to test with. Install one (apt-get install chromium), or set {SKIP}=1 to leave these "
            "tests out.",
            pytrace=False,
        )
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # a busy machine is no failure
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def open_page(
    browser: Any, site: Site, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """`open_page("/c/x", dark=True)`: a page of its own, which may meet no error. A picture is kept of each."""
    pages: list[tuple[Any, list[str]]] = []

    def opened(
        path: str = "/", *, dark: bool = False, phone: bool = False, ready: bool = True
    ) -> Any:
        context = browser.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1280, "height": 800},
            color_scheme="dark" if dark else "light",
            has_touch=phone,
            locale="en-GB",
            timezone_id="UTC",
            accept_downloads=True,
        )
        context.set_default_timeout(30_000)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda said: problems.append(said.text) if said.type == "error" else None
        )
        page.on(
            "dialog",
            lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )
        pages.append((page, problems))
        page.goto(site.url + path)
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    seen = []
    for number, (page, problems) in enumerate(pages):
        page.screenshot(path=SCREENSHOTS / f"{name[:120]}{number or ''}.png", animations="disabled")
        page.context.close()
        seen += problems
    allowed = request.node.get_closest_marker("may_meet")
    expected = allowed.args if allowed else ()
    unexpected = [problem for problem in seen if not any(part in problem for part in expected)]
    assert not unexpected
