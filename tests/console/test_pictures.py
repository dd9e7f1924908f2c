"""The pictures of the console in the docs. `make pictures` takes them for `docs/pictures`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from sites import Site

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
OpenPage = Callable[..., Any]
QUESTION = "/?q=watering+tomatoes"

pytestmark = [
    pytest.mark.full,
    pytest.mark.parametrize("place", ["sqlite"], indirect=True),
]


@pytest.fixture
def take(tmp_path: Path) -> Iterator[Callable[[Any, str], None]]:
    """`take(page, "search")` takes a picture, in a palette of 256 colours to save space."""

    def save(page: Any, name: str) -> None:
        folder = PICTURES if os.environ.get("RECOLLECT_PICTURES") == "1" else tmp_path
        folder.mkdir(exist_ok=True)
        picture = Image.open(BytesIO(page.screenshot(animations="disabled")))
        picture.convert("RGB").quantize(256).save(folder / f"{name}.png", optimize=True)
        assert (PICTURES / f"{name}.png").exists(), "run: make pictures"

    yield save


@pytest.fixture(autouse=True)
def examples(site: Site) -> None:
    folders = [path for path in (ROOT / "examples").iterdir() if path.is_dir()]
    site.library.import_path(*folders)
    # Not every computer has the font of its title.
    for conversation in site.library.conversations(title="苔庭"):
        site.library.delete_conversation(conversation.id)
    site.library.index()


def test_search(open_page: OpenPage, take: Callable[[Any, str], None]) -> None:
    page = open_page(QUESTION)
    page.locator("main mark").first.wait_for()
    take(page, "search")


def test_conversation(open_page: OpenPage, site: Site, take: Callable[[Any, str], None]) -> None:
    hit = site.library.search("Event loop is closed").hits[0]
    page = open_page(f"/c/{hit.conversation_id}?m={hit.message_id}", dark=True)
    page.wait_for_load_state("networkidle")
    take(page, "conversation")


def test_activity(open_page: OpenPage, take: Callable[[Any, str], None]) -> None:
    take(open_page("/activity"), "activity")


def test_phone(open_page: OpenPage, take: Callable[[Any, str], None]) -> None:
    page = open_page(QUESTION, phone=True)
    page.locator("main mark").first.wait_for()
    take(page, "phone")
