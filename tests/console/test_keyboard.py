"""The console with the keyboard alone: focus is visible, returns, and the help lists every key."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sites import Site
from starlette.testclient import TestClient

OpenPage = Callable[..., Any]
SCRIPTS = Path(__file__).parents[2] / "recollect/serve/console/static/scripts"
STANDARD_KEYS = {"Home", "End", "Tab", "ContextMenu"}  # as in any menu and list
KEY_NAMES = {"Esc": "Escape", "↓": "ArrowDown", "↑": "ArrowUp", "K": "k", "F": "f", "S": "s"}
MODIFIERS = {"Ctrl", "⌘", "Shift"}
MAX_STEPS = 150
FOCUS = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const shows = (candidate) => {
    const style = getComputedStyle(candidate);
    const box = candidate.getBoundingClientRect();
    const isVisible = box.width > 2 && box.height > 2 && style.visibility === "visible" &&
      box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
    return isVisible && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  };
  const candidates = [element, element.nextElementSibling, element.closest("label, .button")];
  const isShown = candidates.some((candidate) => candidate && shows(candidate));
  window.focusOrder ??= new Map();
  const number = window.focusOrder.get(element) ?? window.focusOrder.size;
  window.focusOrder.set(element, number);
  return { number, isShown, name: element.outerHTML.slice(0, 150) };
}"""


def handled_keys() -> set[str]:
    keys: set[str] = set()
    for file in SCRIPTS.glob("*.js"):
        script = file.read_text(encoding="utf-8")
        keys |= set(re.findall(r'event\.key(?:\.toLowerCase\(\))? [!=]== "([^"]+)"', script))
        for listed in re.findall(r"\[([^\]]+)\]\.includes\(event\.key\)", script):
            keys |= set(re.findall(r'"([^"]+)"', listed))
    script = (SCRIPTS / "keyboard.js").read_text(encoding="utf-8")
    shortcuts = script.split("const SHORTCUTS = {")[1].split("\n};")[0]
    keys |= set(re.findall(r'^  "?([^" ])"?: ', shortcuts, re.MULTILINE))
    return keys - STANDARD_KEYS - {"recollect-theme"}  # the key of a stored setting


def test_the_help_lists_exactly_the_keys_that_the_scripts_handle(client: TestClient) -> None:
    page = client.get("/").text
    shortcuts = page.split('<dl class="shortcuts">')[1].split("</dl>")[0]
    names = {unescape(name) for name in re.findall(r"<kbd>([^<]+)</kbd>", shortcuts)}
    numbers = {"1", "5"}  # the tabs
    assert {KEY_NAMES.get(name, name) for name in names - MODIFIERS - numbers} == handled_keys()


def add_conversations(site: Site) -> None:
    for number in range(3):
        text = f"How do I water the garden? `code {number}`\n\n```python\nprint(1)\n```"
        messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "Daily."}]
        site.library.add_conversation(f"c{number}", f"Garden {number}", messages=messages)


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["/", "/?q=garden", "/c/c1", "/settings", "/activity", "/imports"])
def test_tab_reaches_everything_with_visible_focus(
    site: Site, open_page: OpenPage, path: str
) -> None:
    add_conversations(site)
    page = open_page(path)
    page.evaluate("document.activeElement.blur()")
    steps = []
    for _ in range(MAX_STEPS):
        page.keyboard.press("Tab")
        focus = page.evaluate(FOCUS)
        if focus is None or focus["number"] < len(steps):
            break
        steps.append(focus)
    assert 10 < len(steps) < MAX_STEPS
    assert [step["name"] for step in steps if not step["isShown"]] == []


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_what_a_key_opens_closes_with_escape_and_returns_the_focus(
    site: Site, open_page: OpenPage
) -> None:
    add_conversations(site)
    page = open_page("/c/c1")
    row = page.locator(".row[data-id='c1']")
    openers = {
        "?": "#help",
        "Control+k": "#palette",
        "m": "#row-menu",
        "Shift+F10": "#row-menu",
    }
    for key, opened in openers.items():
        row.focus()
        page.keyboard.press(key)
        page.locator(opened).wait_for()
        page.keyboard.press("Escape")
        page.locator(opened).wait_for(state="hidden")
        assert row.evaluate("row => row === document.activeElement"), key
    page.keyboard.press("m")
    page.keyboard.press("Enter")
    page.locator("#row-dialog").wait_for()
    page.keyboard.press("Escape")
    assert row.evaluate("row => row === document.activeElement")


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_results_are_previewed_and_opened_by_keyboard(site: Site, open_page: OpenPage) -> None:
    add_conversations(site)
    page = open_page("/?q=garden")
    page.set_viewport_size({"width": 1600, "height": 900})
    page.locator("#q").focus()
    page.keyboard.press("ArrowDown")
    page.locator("[data-preview-body]").get_by_text("water the").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-page='conversation']")
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-page='search']")
