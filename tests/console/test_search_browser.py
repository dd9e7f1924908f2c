"""The search in a real browser: results, facets, preview, palette, completions, rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sites import Site, expect

import recollect

OpenPage = Callable[..., Any]
WIDE = {"width": 1440, "height": 900}


def fill(library: recollect.Library, count: int = 12) -> None:
    for n in range(count):
        day = f"2026-0{1 + n % 3}-05"
        library.add_conversation(
            f"c{n}",
            f"Tomatoes {n}",
            project=("garden", "kitchen")[n % 4 == 0],
            created_at=day,
            messages=[
                {"role": "user", "content": f"How do I water **tomatoes** {n}?", "created_at": day},
                {
                    "role": "assistant",
                    "model": "gpt-4o",
                    "content": f"Water `tomatoes` {n} early.",
                    "created_at": day,
                },
                {"role": "user", "content": "And the beans?", "created_at": day},
            ],
        )


def test_a_search_is_narrowed_by_facets_with_exact_counts(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    page = open_page("/?q=tomatoes")
    expect(page.locator("[data-match-count]")).to_have_text("24 messages in 12 conversations")
    expect(page.locator(".hit").first.locator(".hit-link, .line-link")).to_have_count(2)
    expect(page.locator(".hit").first.locator("mark").first).to_have_text("tomatoes")
    assert "**" not in page.locator(".hits").inner_text()
    page.locator("[data-facet='project'] summary").click()
    page.get_by_role("button", name="kitchen 6").click()
    expect(page.locator("[data-match-count]")).to_have_text("6 messages in 3 conversations")
    expect(page.locator(".hit")).to_have_count(3)
    expect(page.locator("[data-facet='project'] summary")).to_be_focused()
    page.locator("[data-facet='month'] summary").press("Enter")
    page.get_by_role("button", name="Jan 2026").press("Enter")
    expect(page.locator(".hit")).to_have_count(1)
    expect(page).to_have_url(re.compile("after=2026-01-01&before=2026-01-31"))
    page.get_by_role("button", name="Remove the filter Project: kitchen").click()
    expect(page.locator(".hit")).to_have_count(4)
    page.get_by_role("button", name="Remove the filter Month: Jan 2026").click()
    expect(page.locator("[data-match-count]")).to_have_text("24 messages in 12 conversations")


@pytest.mark.full
def test_a_wide_page_previews_the_selected_result_in_context(
    site: Site, open_page: OpenPage
) -> None:
    fill(site.library, 3)
    page = open_page("/?q=tomatoes")
    expect(page.locator("[data-preview-pane]")).to_be_hidden()
    page.set_viewport_size(WIDE)
    page.reload()
    pane = page.locator("[data-preview-pane]")
    expect(pane.locator("[data-target]")).to_contain_text("tomatoes")
    expect(pane).to_contain_text("And the beans?")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator(".hit").nth(1)
    expect(second).to_have_attribute("data-selected", "")
    title = second.locator(".title").inner_text()
    expect(pane.locator("h2")).to_have_text(title)
    page.locator(".hit").first.locator(".hit-link").click()
    expect(pane.locator("h2")).to_have_text(page.locator(".hit .title").first.inner_text())
    expect(page).to_have_url(re.compile(r"\?q=tomatoes"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/c/c"))
    expect(page.locator(".row[aria-current]")).to_have_count(1)


def test_the_palette_searches_jumps_completes_and_runs_commands(
    site: Site, open_page: OpenPage
) -> None:
    fill(site.library, 4)
    page = open_page()
    page.keyboard.press("Control+k")
    page.keyboard.type("beans")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("Results for beans")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_contain_text("Recent searches")
    page.keyboard.type("water in:kit")
    expect(page.locator("#palette [data-completion]")).to_have_text("in:kitchen1 conversation")
    page.keyboard.press("Tab")
    expect(page.locator("#palette-input")).to_have_value("water in:kitchen ")
    page.keyboard.press("Enter")
    expect(page.locator(".hit")).to_have_count(1)
    page.keyboard.press("Control+k")
    page.keyboard.type("Tomatoes 2")
    expect(page.locator("#palette [data-go]")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Tomatoes 2")
    page.keyboard.press("Control+k")
    page.keyboard.type("sidebar")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#sidebar")).to_be_hidden()
    page.reload()
    expect(page.locator("#sidebar")).to_be_hidden()
    page.keyboard.press("[")
    expect(page.locator("#sidebar")).to_be_visible()


@pytest.mark.full
def test_fields_are_completed_in_the_search_box(site: Site, open_page: OpenPage) -> None:
    fill(site.library, 4)
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("tomatoes role:")
    expect(page.locator("#completions [role='option']")).to_have_count(4)
    expect(page.locator("#completions")).to_contain_text("8 messages")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#q")).to_have_value("tomatoes role:assistant ")
    expect(page.locator("#completions")).to_be_hidden()
    expect(page.locator("[data-match-count]")).to_have_text("4 messages in 4 conversations")


@pytest.mark.full
def test_the_menu_of_a_row_changes_the_conversation_and_can_be_undone(
    site: Site, open_page: OpenPage
) -> None:
    fill(site.library, 3)
    page = open_page()
    page.locator(".row").first.focus()
    page.keyboard.press("m")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("Renamed")
    page.keyboard.press("Enter")
    expect(page.locator(".row").first).to_contain_text("Renamed")
    page.locator(".row").last.hover()
    page.locator("[data-row-menu]").last.click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(page.locator(".row").first).to_contain_text("Pinned")
    page.locator(".row").last.hover()
    page.locator("[data-row-menu]").last.click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as plain text").click()
    assert re.fullmatch(r"conversation-.+\.txt", download.value.suggested_filename)
    page.locator(".row").nth(1).hover()
    page.locator("[data-row-menu]").nth(1).click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("u")
    expect(page.locator(".row")).to_have_count(3)


@pytest.mark.full
def test_changes_in_an_open_conversation_can_be_undone(site: Site, open_page: OpenPage) -> None:
    messages = [{"role": "user", "content": "How do I water tomatoes?"}]
    tags = {"tags": ["one", "two", "three"]}
    site.library.add_conversation("c", "Tomatoes", messages=messages, metadata=tags)
    page = open_page("/c/c")
    page.keyboard.press("r")
    page.get_by_label("New title").fill("Beans")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_have_count(1)
    page.keyboard.press("u")
    expect(page.locator("h1")).to_have_text("Tomatoes")
    page.locator("[data-remove-tag='two']").press("Enter")
    expect(page.locator("[data-remove-tag='three']")).to_be_focused()
    expect(page.locator("[data-remove-tag]")).to_have_count(2)
    page.keyboard.press("u")
    expect(page.locator("[data-remove-tag]")).to_have_count(3)
    page.locator("[data-menu='project'] summary").click()
    page.locator("[data-project] input").fill("garden")
    page.keyboard.press("Enter")
    expect(page.locator("[data-menu='project'] summary")).to_have_text("garden")
    page.keyboard.press("u")
    expect(page.locator("[data-menu='project'] summary")).to_have_text("default")
    assert site.library.summary("c").title == "Tomatoes"
