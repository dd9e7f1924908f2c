"""Notes, media, characters and prompts in a real browser.

RECOLLECT_SCREENSHOTS=1 saves a picture of every page in artifacts/screenshots.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sites import Site, expect

import recollect

# Other tests check the content of these pages on every store, without a browser.
pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)

OpenPage = Callable[..., Any]
NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>"
MOSS = """# Moss garden

Moss likes **shade**. See [[Rain barrel]] and [[Snow]].

| a | b |
|---|--:|
| 1 | 2 |
"""
CARD = {
    "name": "Fern",
    "description": "Fern is *an old gardener* who speaks slowly.",
    "personality": "Patient.",
    "first_mes": "*looks up* Oh. You came.",
    "alternate_greetings": ["Good morning!"],
    "creator": "Ann",
    "tags": ["garden"],
    "character_book": {
        "entries": [{"keys": ["door"], "content": "The greenhouse has four doors."}]
    },
}


def transcript(cues: int) -> str:
    """A cue every four seconds."""
    text = "WEBVTT\n\n"
    for n in range(cues):
        start, end = n * 4, n * 4 + 3
        clocks = (f"{t // 3600:02}:{t // 60 % 60:02}:{t % 60:02}.000" for t in (start, end))
        text += f"{' --> '.join(clocks)}\nSentence number {n} about moss and rain.\n\n"
    return text


def fill(library: recollect.Library) -> None:
    know = library.knowledge
    library.add_conversation(
        "pears",
        "On pears",
        messages=[{"id": "m", "role": "user", "content": "moss on a pear tree"}],
    )
    know.create(
        "notes",
        {
            "title": "Rain barrel",
            "content": "It feeds the [[Moss garden]].",
            "keywords": ["garden"],
        },
    )
    know.create("notes", {"title": "Moss garden", "content": MOSS, "keywords": ["garden", "green"]})
    know.create(
        "media",
        {
            "title": "A talk on moss",
            "media_type": "video",
            "transcript": transcript(60),
            "url": "https://www.youtube.com/watch?v=abc",
            "keywords": ["talk"],
        },
    )
    know.create("media", {"title": "On ferns", "media_type": "pdf", "content": "Ferns are old."})
    know.create("characters", {"card": CARD})
    know.create(
        "prompts",
        {
            "name": "Explain",
            "system_prompt": "You are a gardener.",
            "user_prompt": "Explain {{it}}.",
        },
    )


def id_of(library: recollect.Library, source: str, title: str) -> str:
    return next(s.id for s in library.knowledge.list(source)[0] if s.title == title)


# -- tabs and lists ---


@pytest.mark.full
def test_each_kind_has_a_tab_a_list_and_filters(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    page = open_page()
    rows = page.locator(".row")
    expect(rows).to_have_text([re.compile("On pears")])
    page.get_by_role("link", name="Media", exact=True).click()
    expect(page).to_have_url(re.compile("/knowledge/media$"))
    expect(page.locator("main h1")).to_have_text("Media")
    expect(rows).to_have_count(2)
    expect(page.locator("[data-list-total]")).to_have_text("2 media items")
    expect(page.locator("[data-tab][aria-current]")).to_have_text("Media")
    page.keyboard.press("f")
    page.get_by_label("Type", exact=True).select_option("pdf")
    expect(rows).to_have_text([re.compile("On ferns")])
    expect(page.locator(".recent .title")).to_have_text(["On ferns"])
    expect(page).to_have_url(re.compile("type=pdf"))
    page.reload()
    expect(rows).to_have_text([re.compile("On ferns")])
    page.keyboard.press("2")
    expect(page.locator("main h1")).to_have_text("Notes")
    expect(rows).to_have_count(2)
    expect(page).to_have_url(re.compile("/knowledge/notes$"))
    page.go_back()
    expect(page.locator("main h1")).to_have_text("Media")
    expect(rows).to_have_text([re.compile("On ferns")])
    page.go_forward()
    expect(page.locator("main h1")).to_have_text("Notes")
    expect(rows).to_have_count(2)
    page.locator(".filter-chips a", has_text="green").click()
    expect(rows).to_have_text([re.compile("Moss garden")])
    expect(page.locator(".filter-chips .on")).to_contain_text("green")
    page.locator(".filter-chips a", has_text="green").click()
    expect(rows).to_have_count(2)
    expect(page).to_have_url(re.compile("/knowledge/notes$"))
    page.keyboard.press("1")
    expect(page.locator("main h1")).to_have_text("What are you looking for?")
    expect(rows).to_have_text([re.compile("On pears")])


# -- reading ---


@pytest.mark.full
def test_links_open_other_notes_and_offer_to_create_missing_ones(
    site: Site, open_page: OpenPage
) -> None:
    fill(site.library)
    page = open_page(f"/knowledge/notes/{id_of(site.library, 'notes', 'Moss garden')}")
    expect(page.locator(".note-body strong")).to_have_text("shade")
    expect(page.locator(".note-body h1")).to_have_count(0)
    page.get_by_role("link", name="Rain barrel", exact=True).click()
    expect(page.locator("main h1")).to_have_text("Rain barrel")
    expect(page).to_have_url(re.compile(id_of(site.library, "notes", "Rain barrel") + "$"))
    page.go_back()
    expect(page.locator("main h1")).to_have_text("Moss garden")
    page.get_by_role("link", name="Snow", exact=True).click()
    expect(page.locator("main h1")).to_have_text("There is no note called Snow")
    page.get_by_role("link", name="Create it").click()
    expect(page.get_by_label("Title", exact=True)).to_have_value("Snow")
    page.get_by_label("Text", exact=True).fill("It is white.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note-body")).to_have_text("It is white.")
    page.go_back()


@pytest.mark.full
def test_a_time_in_the_url_scrolls_the_transcript(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    page = open_page(f"/knowledge/media/{id_of(site.library, 'media', 'A talk on moss')}#t=134")
    here = page.locator("[data-current]")
    expect(here).to_have_text("Sentence number 33 about moss and rain.")
    expect(here).to_be_in_viewport()
    clock = page.locator(".clock").nth(1)
    clock.click()
    second = int(clock.get_attribute("href").removeprefix("#t="))
    expect(page).to_have_url(re.compile(f"#t={second}$"))
    expect(here).to_have_text(f"Sentence number {second // 4} about moss and rain.")
    assert page.evaluate("document.documentElement.scrollTop + document.body.scrollTop") == 0
    expect(page.locator(".play").nth(1)).to_have_attribute(
        "href", f"https://www.youtube.com/watch?v=abc&t={second}s"
    )
    page.go_back()
    expect(here).to_have_text("Sentence number 33 about moss and rain.")


def test_hits_of_every_kind_open_at_the_match(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    page = open_page()
    page.locator("#q").fill("moss")
    expect(page.locator("main h1")).to_have_text("Results for moss")
    expect(page.locator(".hit")).to_have_count(4)
    page.locator(".hit", has_text="A talk on moss").locator(".hit-link").click()
    expect(page.locator("[data-current]")).to_be_visible()
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator("main h1")).to_have_text("Results for moss")
    page.locator("[data-facet='kind'] summary").click()
    page.get_by_role("button", name="Notes").click()
    expect(page.locator(".hit")).to_have_count(2)
    expect(page).to_have_url(re.compile("kind=notes"))
    page.reload()
    expect(page.locator(".hit")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("main .item-head")).to_be_visible()
    assert page.evaluate("CSS.highlights.get('query').size") > 0
    page.get_by_role("link", name=re.compile("All results")).click()
    expect(page.locator(".hit")).to_have_count(2)


# -- writing ---


@pytest.mark.full
def test_a_note_can_be_created_and_edited_with_the_keyboard(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page("/knowledge/notes")
    page.keyboard.press("c")
    expect(page.get_by_label("Title", exact=True)).to_be_focused()
    page.keyboard.type("Moss")
    page.keyboard.press("Tab")
    page.keyboard.type("It likes **shade**.\n\nc and # are letters here.")
    page.get_by_label("Tags", exact=True).fill("garden, green")
    page.locator("main h1").focus()  # the form is saved wherever the focus is
    page.keyboard.press("Control+Enter")
    expect(page.locator(".note-body strong")).to_have_text("shade")
    expect(page.locator(".facts .tag")).to_have_text(["garden", "green"])
    expect(page.locator(".row[aria-current]")).to_contain_text("Moss")
    page.keyboard.press("r")
    page.get_by_label("Text", exact=True).fill("It likes *rain*.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note-body em")).to_have_text("rain")
    (note,), _ = site.library.knowledge.list("notes")
    assert (note.title, note.version) == ("Moss", 2)


@pytest.mark.full
@pytest.mark.browser_errors("409")
def test_a_conflict_shows_the_differences_and_lets_the_person_decide(
    site: Site, open_page: OpenPage
) -> None:
    fill(site.library)
    id = id_of(site.library, "notes", "Rain barrel")
    page = open_page(f"/knowledge/notes/{id}?edit=true")
    page.get_by_label("Text", exact=True).fill("It feeds the moss. Mine.")
    site.library.knowledge.edit("notes", id, {"content": "It feeds the ferns. Theirs."})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "Someone else changed this note while you were editing it"
    )
    expect(page.locator(".diff .removed")).to_contain_text("Theirs.")
    expect(page.locator(".diff .added")).to_contain_text("Mine.")
    expect(page.get_by_label("Text", exact=True)).to_have_value("It feeds the moss. Mine.")
    page.get_by_role("button", name="Save my changes").click()
    expect(page.locator(".note-body")).to_have_text("It feeds the moss. Mine.")


@pytest.mark.full
def test_an_unsaved_draft_is_restored(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    page = open_page("/knowledge/notes?new=true")
    page.get_by_label("Text", exact=True).fill("half a thought")
    page.locator(".row").first.click()
    expect(page.locator("main .item-head")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_label("Text", exact=True)).to_have_value("half a thought")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("")


@pytest.mark.full
def test_an_item_can_be_deleted_and_restored(site: Site, open_page: OpenPage) -> None:
    fill(site.library)
    for source, title in (
        ("notes", "Moss garden"),
        ("media", "A talk on moss"),
        ("characters", "Fern"),
    ):
        before = site.library._store.document(id_of(site.library, source, title))
        page = open_page(f"/knowledge/{source}/{before.id}")
        page.keyboard.press("#")
        expect(page.locator(".toast")).to_contain_text(f"Deleted “{title}”")
        expect(page.locator("main h1")).not_to_have_text(title)
        assert title not in [s.title for s in site.library.knowledge.list(source)[0]]
        page.keyboard.press("u")
        expect(page.locator("main h1")).to_have_text(title)
        assert site.library._store.document(before.id) == before


# -- for everybody ---


def test_stored_text_runs_no_script_and_sends_no_requests(site: Site, open_page: OpenPage) -> None:
    know = site.library.knowledge
    know.create(
        "notes",
        {"title": NASTY, "content": f"{NASTY}\n\n![x](https://tracker.example/x.png) [[{NASTY}]]"},
    )
    know.create(
        "characters",
        {"card": {"name": NASTY, "description": f"![x](https://tracker.example/x.png) {NASTY}"}},
    )
    know.create("prompts", {"name": NASTY, "user_prompt": NASTY})
    for source in ("notes", "characters", "prompts"):
        page = open_page(f"/knowledge/{source}")
        urls: list[str] = []
        page.on("request", lambda request, urls=urls: urls.append(request.url))
        page.locator(".row").click()
        expect(page.locator("main .item-head h1")).to_have_text(NASTY)
        page.keyboard.press("r")
        expect(page.get_by_role("button", name="Save")).to_be_visible()
        assert all(address.startswith(site.url) for address in urls)
