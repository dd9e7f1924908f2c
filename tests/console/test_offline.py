"""The service worker: a page that tries again while the server cannot be reached."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from sites import TIMEOUT, Server
from starlette.testclient import TestClient

import recollect

pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
CACHED_PATHS = """async () => {
  const paths = [];
  for (const name of await caches.keys())
    for (const request of await (await caches.open(name)).keys())
      paths.push(new URL(request.url).pathname.split("/").at(-1));
  return paths.sort();
}"""
CONTROLLED = """async () => {
  await navigator.serviceWorker.ready;
  if (navigator.serviceWorker.controller) return;
  await new Promise((resolve) =>
    navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
}"""
UNREGISTERED = """async () => {
  const isLeft = async () =>
    (await navigator.serviceWorker.getRegistrations()).length || (await caches.keys()).length;
  while (await isLeft()) await new Promise((resolve) => setTimeout(resolve, 50));
}"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(TIMEOUT)
    yield context.new_page()
    context.close()


def wait_for_worker(page: Any) -> None:
    page.evaluate(CONTROLLED)


def test_the_worker_is_served_at_the_root_and_needs_no_key(client: TestClient) -> None:
    response = client.get("/service-worker.js")
    assert response.headers["content-type"].startswith("text/javascript")
    assert response.headers["cache-control"] == "no-store"
    assert "worker-src 'self'" in response.headers["content-security-policy"]
    assert "The server cannot be reached" in client.get("/offline").text


@pytest.mark.full
def test_a_page_waits_for_the_server_and_shows_what_is_new(place: str, page: Any) -> None:
    with recollect.open(place, background=False) as library:
        library.add_conversation("c", "C", messages=[{"role": "user", "content": "first"}])
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = Server(place, listener)
        page.goto(f"http://127.0.0.1:{port}/c/c")
        wait_for_worker(page)
        files = ["console.css", "favicon.svg", "offline", "offline.js", "theme.js"]
        assert page.evaluate(CACHED_PATHS) == files
        server.stop()
        assert page.reload().status == 503
        assert page.locator("h1").inner_text() == "The server cannot be reached"
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius")
            == "16px"
        )
        assert "first" not in page.content()
        library.add_message("c", "assistant", "saved in the meantime")
        server = Server(place, socket.create_server(("127.0.0.1", port)))
        page.get_by_text("saved in the meantime").first.wait_for()
        assert page.url.endswith("/c/c")
        assert page.evaluate(CACHED_PATHS) == files
        server.stop()


@pytest.mark.full
def test_the_worker_leaves_if_the_server_does_not_have_it(place: str, page: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = Server(place, listener)
    page.goto(f"http://127.0.0.1:{port}/")
    wait_for_worker(page)
    server.stop()
    server = Server(place, socket.create_server(("127.0.0.1", port)), without="/service-worker.js")
    page.goto(f"http://127.0.0.1:{port}/login")  # registers nothing
    page.evaluate(UNREGISTERED)
    server.stop()


@pytest.mark.full
def test_chromium_can_install_the_console(place: str, page: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(place, listener)
    page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    wait_for_worker(page)
    devtools = page.context.new_cdp_session(page)
    assert devtools.send("Page.getAppManifest")["errors"] == []
    errors = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [error["errorId"] for error in errors if error["errorId"] != "in-incognito"] == []
    server.stop()
