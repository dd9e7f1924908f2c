"""The console in a real browser: everything that a person can do there.

RECOLLECT_SCREENSHOTS=1 saves a picture of every page in artifacts/screenshots.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from services import make_key
from sites import Site, expect

import recollect

OpenPage = Callable[..., Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


MARKDOWN = """Use **gather**:

```python
async def main() -> None:
    await asyncio.gather(one(), two())
```

| a | b |
|---|--:|
| 1 | 2 |

![a plan](https://example.org/plan.png)
"""


def add(library: recollect.Library, id: str, title: str, *contents: str, **more: Any) -> None:
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(contents)
    ]
    library.add_conversation(id, title, messages=messages, **more)


def add_many(library: recollect.Library, count: int, title: str = "Conversation {}") -> None:
    documents = []
    for n in range(count):
        when = START - timedelta(minutes=n)
        message = recollect.Passage(f"m{n}", "user", f"said in {n}", created_at=when)
        documents.append(
            recollect.Document(
                "recollect",
                f"c{n}",
                title.format(n),
                passages=(message,),
                created_at=when,
                updated_at=when,
            )
        )
    library._store.save(documents)


def add_long(library: recollect.Library, count: int = 5_000) -> None:
    passages = []
    for n in range(count):
        text = f"Message number {n}, of a certain length. " * (1 + n % 4) + (
            "The needle is here." if n == 2_309 else ""
        )
        passages.append(
            recollect.Passage(
                f"m{n}",
                ("user", "assistant")[n % 2],
                text,
                parent=f"m{n - 1}" if n else None,
                created_at=START + timedelta(minutes=n),
            )
        )
    long = recollect.Document(
        "recollect", "long", "A long one", passages=tuple(passages), updated_at=START
    )
    library._store.save([long])


# -- the list ---


def test_the_list_shows_conversations_and_opens_them(site: Site, open_page: OpenPage) -> None:
    add(
        site.library,
        "moss",
        "Moss in the rain",
        "How long does it take?",
        "A *year*.",
        project="garden",
    )
    add(site.library, "bread", "Bread", "And the oven?")
    page = open_page()
    rows = page.locator(".row")
    expect(rows).to_have_count(2)
    expect(page.locator("[data-list-total]")).to_have_text("2 conversations")
    rows.filter(has_text="Moss in the rain").click()
    expect(page.locator("h1")).to_have_text("Moss in the rain")
    expect(page).to_have_url(re.compile(r"/c/moss$"))
    expect(page).to_have_title("Moss in the rain · Recollect")
    expect(page.locator(".message .body em")).to_have_text("year")
    expect(page.locator(".row[aria-current]")).to_contain_text("garden")
    page.go_back()
    expect(page.locator("h1")).to_have_text("What are you looking for?")
    page.go_forward()
    page.reload()
    expect(page.locator("h1")).to_have_text("Moss in the rain")


@pytest.mark.full
def test_changes_by_another_process_appear_without_a_reload(
    site: Site, open_page: OpenPage
) -> None:
    add(site.library, "live", "Live", "first", "second")
    page = open_page("/c/live")
    expect(page.locator("html")).to_have_attribute("data-live", "on")
    script = (
        "import recollect, sys\n"
        "with recollect.open(sys.argv[1], background=False) as library:\n"
        "    library.add_message('live', 'assistant', 'third, from elsewhere')\n"
        "    messages = [{'role': 'user', 'content': 'hello'}]\n"
        "    library.add_conversation('new', 'A new one', messages=messages)\n"
    )
    subprocess.run([sys.executable, "-c", script, site.place], check=True)
    expect(page.locator(".message").last).to_contain_text("third, from elsewhere")
    expect(page.locator(".message")).to_have_count(3)
    expect(page.locator(".row").filter(has_text="A new one")).to_be_visible()
    expect(page.locator("[data-message-count]")).to_have_text("3 messages")
    site.library.update_conversation("live", "Renamed elsewhere")
    expect(page.locator("h1")).to_have_text("Renamed elsewhere")
    expect(page.locator(".row").filter(has_text="Renamed elsewhere")).to_be_visible()


# -- searching ---


@pytest.mark.full
def test_typing_in_the_search_box_shows_results(site: Site, open_page: OpenPage) -> None:
    add(site.library, "tea", "On tea", "How hot for sencha?", "Seventy degrees.")
    add(site.library, "pears", "Pears", "When do I prune a pear tree?", "In winter.")
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("senc")
    page.keyboard.type("ha")
    expect(page.locator(".hit")).to_have_count(1)
    expect(page.locator(".hit mark")).to_have_text("sencha")
    expect(page).to_have_url(re.compile(r"/\?q=sencha$"))
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("[data-match-count]")).to_have_text("1 message in 1 conversation")
    page.locator("#q").fill("pear")
    expect(page.locator(".hit .title")).to_have_text(["Pears"])
    expect(page.locator(".explanation")).to_contain_text("Contains “pear”")
    page.reload()
    expect(page.locator(".hit .title")).to_have_text(["Pears"])
    expect(page.locator("#q")).to_have_value("pear")
    page.locator("#q").fill("zeppelin")
    expect(page.locator("main h1")).to_have_text("No message mentions zeppelin")
    page.locator("#q").press("Escape")
    expect(page.locator("h1")).to_have_text("What are you looking for?")
    expect(page.locator("#q")).to_have_value("")


@pytest.mark.full
def test_a_hit_in_a_long_conversation_opens_at_the_message(site: Site, open_page: OpenPage) -> None:
    add_long(site.library)
    page = open_page()
    page.locator("#q").fill("needle")
    page.locator(".hit .hit-link").first.click()
    hit = page.locator("[data-target]")
    expect(hit).to_be_in_viewport()
    expect(hit).to_contain_text("The needle is here.")
    expect(hit).to_have_attribute("data-index", "2309")
    assert page.locator(".message").count() <= 200
    assert page.evaluate("CSS.highlights.get('query').size") == 1
    expect(page.locator("[data-position-text]")).to_have_text(
        re.compile(r"message 2,3\d\d of 5,000")
    )
    expect(page.locator("[data-match-number]")).to_have_text("1")

    scroller = page.locator("[data-scroller]")
    scroller.evaluate("s => s.scrollTop = 0")
    expect(page.locator("[data-index='2249']")).to_be_attached()
    numbers = page.evaluate(
        "[...document.querySelectorAll('.message')].map(m => Number(m.dataset.index))"
    )
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    expect(page.locator("[data-position-text]")).to_have_text(
        re.compile(r"message 2,2\d\d of 5,000")
    )

    page.get_by_role("button", name="Go to the end").click()
    expect(page.get_by_text("Message number 4999")).to_be_in_viewport()
    expect(page.locator("[data-position-text]")).to_have_text("message 5,000 of 5,000")
    page.get_by_role("button", name="Go to the start").click()
    expect(page.get_by_text("Message number 0,")).to_be_in_viewport()
    for _ in range(8):  # messages far above are unloaded again
        end = numbers_end(page)  # before scrolling: more messages may be loaded at once
        scroller.evaluate("s => s.scrollTop = s.scrollHeight")
        page.wait_for_function(
            "n => Number([...document.querySelectorAll('.message')].at(-1).dataset.index) > n",
            arg=end,
        )
    assert page.locator(".message").count() <= 240
    page.locator("[data-position]").fill("1000")
    expect(page.locator("[data-index='999']")).to_be_in_viewport()


def numbers_end(page: Any) -> int:
    return int(page.locator(".message").last.get_attribute("data-index"))


# -- reading ---


# -- changing ---


@pytest.mark.full
def test_tags_and_the_project_can_be_changed(site: Site, open_page: OpenPage) -> None:
    add(site.library, "c", "Tagged", "text", metadata={"tags": ["old"]})
    page = open_page("/c/c")
    page.keyboard.press("t")
    page.keyboard.type("new & <shiny>")
    page.keyboard.press("Enter")
    expect(page.locator(".tags .chip bdi")).to_have_text(["old", "new & <shiny>"])
    expect(page.locator(".row .tag")).to_have_text(["old", "new & <shiny>"])
    page.get_by_role("button", name="Remove tag old").click()
    expect(page.locator(".tags .chip bdi")).to_have_text(["new & <shiny>"])
    page.get_by_role("button", name="Remove tag new").click()
    expect(page.locator(".tags .chip")).to_have_count(0)
    expect(page.locator(".row .tag")).to_have_count(0)
    page.locator("[data-menu='project'] summary").click()
    page.get_by_label("Project", exact=True).last.fill("garden")
    page.get_by_role("button", name="Move").click()
    expect(page.locator(".row .project")).to_have_text("garden")
    assert site.library.conversation("c").project == "garden"


@pytest.mark.full
def test_a_conversation_can_be_exported(site: Site, open_page: OpenPage) -> None:
    add(site.library, "c", 'Tea / "hot": 70%', "How hot?", "Seventy.")
    page = open_page("/c/c")
    texts = {}
    for label, ending in (("Markdown", "md"), ("Plain text", "txt"), ("JSON (complete)", "json")):
        page.keyboard.press("e")
        with page.expect_download() as waiting:
            page.get_by_role("button", name=label).click()
        assert waiting.value.suggested_filename == f"Tea hot 70.{ending}"
        texts[ending] = waiting.value.path().read_text(encoding="utf-8")
    assert texts["md"].startswith('# Tea / "hot": 70%')
    assert "ASSISTANT: Seventy." in texts["txt"]
    assert [m["content"] for m in json.loads(texts["json"])["messages"]] == ["How hot?", "Seventy."]


@pytest.mark.full
def test_commands_texts_and_links_can_be_copied(
    site: Site, open_page: OpenPage, browser: Any
) -> None:
    id = "0c5f3b9e-6a50-4a0e-9c43-0a4f3c0f7d11"
    passages = (recollect.Passage("m", "user", "fix the *gate*"),)
    site.library._store.save([recollect.Document("codex", id, "The gate", passages=passages)])
    page = open_page("/?q=gate")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Open in Codex").click()
    expect(page.locator(".toast")).to_contain_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"codex resume {id}"
    page.locator(".hit .hit-link").click()
    page.locator(".message").hover()
    page.get_by_role("button", name="Copy text").click()
    page.wait_for_function("navigator.clipboard.readText().then(t => t === 'fix the *gate*')")


# -- importing ---

EXPORT = json.dumps(
    {
        "conversations": [
            {
                "id": "up1",
                "title": "Uploaded one",
                "messages": [{"id": "1", "role": "user", "content": "from a file"}],
            },
            {"id": "up2", "title": "Broken"},
        ]
    }
)

DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  for (const type of ["dragenter", "dragover", "drop"]) {
    const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data });
    document.querySelector("main").dispatchEvent(event);
    if (type === "dragover") window.wasShown = !document.querySelector(".drop-zone").hidden;
  }
}"""


@pytest.mark.full
def test_a_dropped_file_is_imported_with_a_receipt_and_can_be_undone(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page()
    expect(page.locator("h1")).to_have_text("Your library is empty")
    page.evaluate(DROP, ["conversations.json", EXPORT])
    assert page.evaluate("window.wasShown")
    card = page.locator(".upload")
    expect(card.locator("[data-text]")).to_have_text("Imported")
    expect(card.locator(".receipt")).to_contain_text("Conversations 1 new, 0 unchanged, 1 failed")
    expect(card.locator(".receipt")).to_contain_text("conversation without messages")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("h1")).to_have_text("What are you looking for?")
    card.get_by_role("button", name="Undo").click()
    expect(card.locator(".receipt")).to_contain_text("undone")
    expect(page.locator(".row")).to_have_count(0)
    assert site.library.conversation_page()[1] == 0
    card.get_by_role("button", name="Close").click()
    expect(page.locator(".upload-tray")).to_be_hidden()


# -- the rest ---


@pytest.mark.browser_errors("401")
def test_a_person_can_sign_in_with_an_api_key(site: Site, open_page: OpenPage) -> None:
    add(site.library, "c", "Behind a key", "text")
    key = make_key(site.service, ("read", "write"))
    page = open_page("/c/c?q=text", ready=False)
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("API key or token").fill("rk_000000000000_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("invalid")
    page.get_by_label("API key or token").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Behind a key")
    assert page.evaluate("document.cookie") == ""
    (cookie,) = [c for c in page.context.cookies() if c["name"] == "recollect_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    expect(page.locator("html")).to_have_attribute("data-live", "on")
    page.keyboard.press("r")
    page.get_by_label("New title").fill("Renamed with a key")
    page.keyboard.press("Enter")
    expect(page.locator(".row .title")).to_have_text("Renamed with a key")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")
    page.goto(site.url + "/c/c")
    expect(page.locator("h1")).to_have_text("Sign in")


@pytest.mark.full
def test_a_read_only_key_sees_no_write_actions(site: Site, open_page: OpenPage) -> None:
    add(site.library, "c", "Read me", "text", metadata={"tags": ["green"]})
    key = make_key(site.service, ("read",))
    page = open_page("/login?next=/c/c", ready=False)
    page.get_by_label("API key or token").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Read me")
    for name in ("Rename", "Delete", "Remove the tag green"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_label("Add a tag")).to_be_hidden()
    page.keyboard.press("r")
    expect(page.get_by_label("New title")).to_be_hidden()
    expect(page.locator("[data-menu='export'] summary")).to_be_visible()


def test_everything_works_with_the_keyboard(site: Site, open_page: OpenPage) -> None:
    add_many(site.library, 120)
    add(site.library, "tea", "On tea", "How hot for sencha?", "Sencha wants seventy.")
    page = open_page()
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_text("Skip to main content")).to_be_focused()
    keys.press("Enter")
    keys.press("j")
    expect(page.locator(".row:focus")).to_contain_text("On tea")
    keys.press("ArrowDown")
    expect(page.locator(".row:focus")).to_contain_text("Conversation 0")
    outline = page.locator(".row:focus").evaluate("row => getComputedStyle(row).outlineStyle")
    assert outline == "solid"
    keys.press("k")
    keys.press("Enter")
    expect(page.locator("h1")).to_have_text("On tea")
    keys.press("/")
    keys.type("sencha")
    expect(page.locator(".hit .snippet")).to_have_count(2)
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    expect(page.locator(".hit .line-link")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("[data-target]")).to_be_focused()
    expect(page.locator("[data-match-number]")).to_be_visible()
    expect(page.locator("[data-match-number]")).not_to_have_text("–")
    was = page.locator("[data-match-number]").inner_text()
    keys.press("n" if was == "1" else "p")
    expect(page.locator("[data-match-number]")).to_have_text("2" if was == "1" else "1")
    keys.press("Escape")
    expect(page.locator(".hit .snippet")).to_have_count(2)
    keys.press("Escape")
    expect(page.locator(".hit")).to_have_count(0)
    keys.press("?")
    expect(page.locator("#help")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


@pytest.mark.full
def test_on_a_phone_the_list_is_a_drawer(site: Site, open_page: OpenPage) -> None:
    add(site.library, "md", "A title that is rather long for such a small screen", "How?", MARKDOWN)
    page = open_page(phone=True)
    expect(page.locator(".sidebar")).not_to_be_in_viewport()
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.locator(".sidebar")).to_be_in_viewport()
    page.locator(".row").click()
    expect(page.locator("h1")).to_contain_text("A title that is rather long")
    expect(page.locator(".sidebar")).not_to_be_in_viewport()
    for path in ("/", "/c/md", "/?q=gather", "/activity", "/imports"):
        page.goto(site.url + path)
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(site.url + "/c/md")


class _Listener(BaseHTTPRequestHandler):
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    do_POST = do_HEAD = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_stored_text_runs_no_script_and_sends_no_requests(site: Site, open_page: OpenPage) -> None:
    paths: list[str] = []
    listener = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Listener", (_Listener,), {"paths": paths})
    )
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    beacon = f"http://127.0.0.1:{listener.server_port}/leak"
    nasty = (
        f"</mark><img src={beacon} onerror=alert(1)>"
        "<script>alert(2)</script><svg onload=alert(3)> zebra"
    )
    attacks = "\n\n".join(
        [
            nasty,
            f"![zebra]({beacon})",
            "[zebra](javascript:alert(4))",
            "[z](data:text/html,<script>alert(5)</script>)",
            f"<style>*{{background:url({beacon})}}</style>",
            f"<link rel=prefetch href={beacon}>",
            "&lt;script&gt;alert(6)",
            f"[ref]: {beacon}\n\n![x][ref]",
            f"```<img src={beacon}>\nzebra\n```",
            f"<iframe src={beacon}></iframe>",
        ]
    )
    message = {
        "id": nasty,
        "role": "assistant",
        "content": attacks,
        "author": nasty,
        "model": nasty,
        "tool": nasty,
        "attachments": [{"name": nasty}],
        "citations": [nasty],
    }
    site.library.add_conversation(
        f"id {nasty}",
        nasty,
        messages=[message, {**message, "id": "2", "type": "tool_call"}],
        project=nasty,
        metadata={"tags": [nasty]},
    )
    page = open_page()
    page.locator(".row").click()
    expect(page.locator("h1")).to_have_text(nasty)
    expect(page.locator(".message")).to_have_count(2)
    page.locator(".message summary").click()
    expect(page.locator(".message").first).to_contain_text("alert(2)")
    page.locator("#q").fill("zebra")
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".hit .title").first).to_have_text(nasty)
    page.locator(".hit .hit-link").first.click()
    expect(page.locator("[data-target]")).to_be_visible()
    page.goto(site.url + "/activity")
    expect(page.locator("figure").first).to_be_visible()
    page.goto(site.url + f"/?q={nasty.replace('#', '')}&tag=<b>x</b>")
    page.wait_for_selector("html[data-ready]")
    assert page.locator("main script, main img, main iframe, main style, main link").count() == 0
    listener.shutdown()
    listener.server_close()
    assert paths == []
