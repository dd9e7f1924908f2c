"""The layout in a real browser: whatever a library contains, pages can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sites import Site, expect

import recollect

OpenPage = Callable[..., Any]

# How many pixels an element is wider than what it shows.
EXCESS = "element => element.scrollWidth - element.clientWidth"


def add(library: recollect.Library, *contents: str, model: str = "", **more: Any) -> None:
    messages = [{"role": "assistant", "content": text, "model": model} for text in contents]
    library.add_conversation("c", "On tea", messages=messages, **more)


@pytest.mark.full
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_long_names_and_formulas_do_not_widen_a_conversation(
    site: Site, open_page: OpenPage, phone: bool
) -> None:
    formula = "+".join(f"x_{{{number}}}" for number in range(80))
    add(site.library, f"The sum ${formula}$", f"- a list: ${formula}$", model="m" * 300)
    page = open_page("/c/c", phone=phone)
    assert page.locator("math").count() == 2
    assert page.locator(".body[tabindex='0']").count() == 2  # the keyboard reaches what scrolls
    assert page.locator("[data-scroller]").evaluate(EXCESS) <= 0


@pytest.mark.full
def test_hundreds_of_tags_leave_room_for_the_messages(site: Site, open_page: OpenPage) -> None:
    add(site.library, "Sencha", metadata={"tags": [f"tag {number}" for number in range(300)]})
    page = open_page("/c/c", phone=True)
    assert page.locator("[data-remove-tag]").count() == 300
    assert page.locator("[data-scroller]").bounding_box()["height"] > 300


@pytest.mark.full
def test_the_api_reference_fits_a_phone(open_page: OpenPage) -> None:
    page = open_page("/docs", phone=True, ready=False)
    for details in page.locator("details").all():
        details.evaluate("element => (element.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.full
def test_collapsed_messages_show_what_they_are_about(site: Site, open_page: OpenPage) -> None:
    messages = [
        {"role": "user", "content": "Which sencha is there?"},
        {"role": "assistant", "type": "thinking", "content": "Let me look"},
        {"role": "assistant", "type": "tool_call", "tool": "bash", "content": "ls sencha"},
    ]
    site.library.add_conversation("c", "On tea", messages=messages)
    page = open_page("/c/c")
    for text in ("Let me look", "ls sencha"):
        expect(page.locator("summary").get_by_text(text)).to_be_visible()
    page = open_page("/?q=which+sencha")
    page.set_viewport_size({"width": 1680, "height": 900})
    row = page.locator("[data-preview-pane] summary", has_text="Let me look")
    expect(row).to_be_visible()
    assert row.bounding_box()["height"] < 60
