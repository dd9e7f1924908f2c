"""axe-core reports nothing on any page of the console."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services import make_key
from sites import TIMEOUT, Site
from test_first_run import prepare_computer
from test_imports import EXPORT

pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)

OpenPage = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
REPORT = """async () => {
  const results = await axe.run(document, { resultTypes: ["violations"] });
  return results.violations.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.failureSummary}`));
}"""
TEXT = """\
A **question** with `code`, $x^2$ and a [link](https://example.org).

| a | b |
|---|--:|
| 1 | 2 |

```python
print("hello")  # a comment
```

- [x] done
- [ ] open
"""


@pytest.fixture
def paths(site: Site, tmp_path: Path) -> list[str]:
    """The addresses of all pages of a library that has something of everything."""
    library = site.library
    library.import_path(*[path for path in EXAMPLES.iterdir() if path.is_dir()])
    broken = tmp_path / "broken.json"
    broken.write_bytes(EXPORT)
    library.import_path(broken)
    add_conversation(site)
    item_paths = []
    for kind in ("notes", "media", "characters", "prompts"):
        items, _ = library.knowledge.list(kind, limit=1)
        item_paths += [f"/knowledge/{kind}/{item.id}" for item in items]
    return [
        "/",
        "/c/c",
        "/?q=garden",
        "/?q=%22no+such+phrase%22",
        "/activity",
        "/imports",
        "/settings",
        "/knowledge/notes",
        "/knowledge/notes?new=true",
        "/knowledge/characters",
        "/knowledge/prompts",
        "/login",
        "/offline",
        "/nowhere",
        *item_paths,
    ]


def add_conversation(site: Site) -> None:
    messages = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": TEXT, "model": "model-7"},
        {"role": "assistant", "content": "ls", "type": "tool_call", "tool": "Bash"},
        {"role": "tool", "content": "a\nb", "type": "tool_result", "tool": "Bash"},
    ]
    site.library.add_conversation("c", "A talk", messages=messages, metadata={"tags": ["green"]})


def violations(page: Any) -> list[str]:
    script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js")
    page.evaluate(script.read_text())
    report: list[str] = page.evaluate(REPORT)
    return report


def test_axe_reports_nothing_on_a_conversation(site: Site, open_page: OpenPage) -> None:
    messages = [{"role": "user", "content": TEXT}]
    site.library.add_conversation("c", "A talk", messages=messages)
    assert violations(open_page("/c/c", dark=True)) == []


@pytest.mark.full
@pytest.mark.browser_errors("404")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_axe_reports_nothing_on_any_page(
    site: Site, paths: list[str], open_page: OpenPage, phone: bool, dark: bool
) -> None:
    page = open_page(dark=dark, phone=phone)
    problems = []
    for path in paths:
        page.goto(site.url + path)
        page.wait_for_load_state()
        problems += [f"{path}: {text}" for text in violations(page)]
    assert problems == []


@pytest.mark.full
@pytest.mark.parametrize("key", ["?", "Control+k", "o", "m", "Control+f", "f", "e", "r"])
def test_axe_reports_nothing_on_what_a_key_opens(site: Site, open_page: OpenPage, key: str) -> None:
    add_conversation(site)
    page = open_page("/c/c")
    page.keyboard.press(key)
    assert violations(page) == []


@pytest.mark.full
def test_axe_reports_nothing_on_a_first_run_and_its_import(
    site: Site, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_computer(tmp_path / "me", monkeypatch)
    page = open_page("/")
    assert violations(page) == []
    page.get_by_role("button", name="Import").last.click()
    page.wait_for_selector(".row", timeout=TIMEOUT)
    assert violations(page) == []


@pytest.mark.full
@pytest.mark.browser_errors("422", "400")
@pytest.mark.parametrize("text", ['{"conversations": []}', "{not JSON"], ids=["finished", "failed"])
def test_axe_reports_nothing_on_an_upload(
    site: Site, open_page: OpenPage, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "export.json"
    file.write_text(text)
    page = open_page("/imports")
    page.locator("[data-files]").first.set_input_files(file)
    page.wait_for_selector(".upload")
    assert violations(page) == []
    page.wait_for_selector(".upload:is([data-state='done'], [data-state='failed'])")
    assert violations(page) == []


@pytest.mark.full
@pytest.mark.browser_errors("401")
def test_axe_reports_nothing_when_signed_in(site: Site, open_page: OpenPage) -> None:
    add_conversation(site)
    key = make_key(site.service, ("read", "write", "admin"))
    page = open_page("/settings", ready=False)
    assert violations(page) == []
    page.get_by_label("API key or token").fill("rk_000000000000_wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert violations(page) == []
    page.get_by_label("API key or token").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("html[data-ready]")
    assert violations(page) == []
