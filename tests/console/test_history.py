"""Back, forward and links in a real browser: pages return as they were left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sites import Site, expect

import recollect
from recollect import Passage

OpenPage = Callable[..., Any]
SOURCES = ("chatgpt", "codex")


def add_teas(library: recollect.Library, count: int = 70) -> None:
    documents = []
    for number in range(count):
        message = Passage(f"m{number}", "user", f"Sencha, cup {number}")
        source = SOURCES[number % 2]
        documents.append(
            recollect.Document(source, f"c{number}", f"Tea {number}", passages=(message,))
        )
    library._store.save(documents)
    library.knowledge.create("notes", {"title": "Tea", "content": "Sencha is a green tea"})


def requested_options(page: Any, selector: str) -> dict[str, list[str]]:
    """The parameters of the request for results that a click sends."""
    with page.expect_request(lambda request: "/console/hits" in request.url) as request:
        page.click(selector)
    return parse_qs(urlsplit(request.value.url).query)


@pytest.mark.full
def test_going_back_to_a_search_restores_how_it_was_made(site: Site, open_page: OpenPage) -> None:
    add_teas(site.library)
    page = open_page("/?q=sencha&source=codex")
    page.click("[data-mode='text']")
    expect(page.locator("[data-mode='text']")).to_have_attribute("aria-pressed", "true")
    page.click("[data-tab='notes']")
    expect(page.locator("h1")).to_have_text("Notes")
    page.fill("#q", "cup")
    expect(page.locator("h1")).to_have_text("Results for cup")
    page.click("[data-mode='both']")
    expect(page.locator("[data-mode='both']")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Notes")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Results for sencha")
    expect(page.locator("#by-source")).to_have_value("codex")
    expect(page.locator("[data-list-total]")).to_have_text("35 conversations")
    options = requested_options(page, "[data-command='more-hits']")
    assert (options["mode"], options["source"]) == (["text"], ["codex"])


@pytest.mark.full
def test_going_back_to_results_shows_the_one_that_was_opened(
    site: Site, open_page: OpenPage
) -> None:
    add_teas(site.library)
    page = open_page("/?q=sencha&kind=conversations")
    for pages in (2, 3):
        page.click("[data-command='more-hits']")
        expect(page.locator("[data-hits]")).to_have_count(pages)
    link = page.locator(".hit-link").nth(40)
    address = link.get_attribute("href")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-page='conversation']")).to_be_visible()
    page.go_back()
    expect(page.locator(f".hit-link[href='{address}']")).to_be_focused()
    expect(page.locator(f".hit-link[href='{address}']")).to_be_in_viewport()


@pytest.mark.full
def test_going_back_to_a_conversation_shows_the_message_that_was_read(
    site: Site, open_page: OpenPage
) -> None:
    texts = [{"role": "user", "content": f"Sencha, cup {number}"} for number in range(300)]
    site.library.add_conversation("long", "On tea", messages=texts)
    site.library.add_conversation("other", "Other", messages=texts[:1])
    page = open_page("/c/long")
    page.fill("[data-position]", "200")
    message = page.locator(".message[data-index='199']")
    expect(message).to_be_in_viewport()
    page.click(".row[data-id='other']")
    expect(page.locator("h1")).to_have_text("Other")
    page.go_back()
    expect(message).to_be_in_viewport()
