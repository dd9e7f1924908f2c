"""Reading a conversation in a real browser: find, questions, tools, code, live updates."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sites import Server, Site, expect

import recollect
from recollect import Passage

OpenPage = Callable[..., Any]
START = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
PIXEL = "R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="
ANSWER = """Three steps:

- [x] measured
- [ ] deployed

| a | b | c | d | e | f |
|---|---|---|---|---|---|
| one | two_words_together | three | four_words_put_together | five | six_and_more_words |

```python
value = compute(%s)
```

With $p$ as the share: $$S = \\frac{1}{1 - p}$$ It costs $5 or $6.
"""


# Whether the page shows the first highlight with a name within a minute.
IS_SHOWN = """name => new Promise((resolve) => {
  const isShown = () => {
    const [match] = CSS.highlights.get(name) ?? [];
    if (!match) return false;
    const range = new Range();
    range.setStart(match.startContainer, match.startOffset);
    range.setEnd(match.endContainer, match.endOffset);
    const box = range.getBoundingClientRect();
    const element = document.elementFromPoint(box.x + 1, box.y + 1);
    return element !== null && element.contains(match.startContainer);
  };
  const check = () => {
    if (isShown() || performance.now() > 60_000) resolve(isShown());
    else requestAnimationFrame(check);
  };
  check();
})"""


def save(library: recollect.Library, id: str, passages: list[Passage]) -> None:
    document = recollect.Document("recollect", id, id.capitalize(), passages=tuple(passages))
    library._store.save([document])


def add_long(library: recollect.Library, count: int) -> None:
    passages = []
    for n in range(count):
        text = f"Question {n // 2} about trams" if n % 2 == 0 else f"Answer {n // 2}."
        if n % 1000 == 309:
            text += " The **silver** needle, and one more silver needle."
        parent = f"m{n - 1}" if n else None
        passages.append(Passage(f"m{n}", ("user", "assistant")[n % 2], text, parent=parent))
    save(library, "long", passages)


def add_session(library: recollect.Library) -> None:
    def at(seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    edit = "file_path: /src/tram.py\nold_string: speed = 1\nnew_string: speed = 2"
    passages = [
        Passage("q1", "user", "Make it faster", created_at=at(0)),
        Passage(
            "c1",
            "assistant",
            edit,
            "tool_call",
            tool="Edit",
            created_at=at(1),
            metadata={"tool_use_id": "1"},
        ),
        Passage(
            "c2",
            "assistant",
            "command: make test",
            "tool_call",
            tool="Bash",
            created_at=at(2),
            metadata={"tool_use_id": "2"},
        ),
        Passage(
            "r1",
            "tool",
            "Updated.",
            "tool_result",
            tool="Edit",
            created_at=at(3.5),
            metadata={"tool_use_id": "1"},
        ),
        Passage(
            "r2",
            "tool",
            "1 failed: the brake test",
            "tool_result",
            tool="Bash",
            created_at=at(14),
            metadata={"tool_use_id": "2", "is_error": True},
        ),
        Passage("a1", "assistant", ANSWER % ("'long', " * 40), created_at=at(20)),
        Passage(
            "q2",
            "user",
            "And the doors?",
            created_at=at(30),
            attachments=(
                {"name": "plan.gif", "media_type": "image/gif", "data": PIXEL},
                {"name": "lost.png", "media_type": "image/png", "width": 8, "height": 6},
            ),
        ),
        Passage("a2", "assistant", "They stay.", created_at=at(40)),
    ]
    save(library, "session", passages)


def open_find(page: Any, text: str) -> None:
    page.keyboard.press("Control+f")
    expect(page.locator("[data-find-text]")).to_be_focused()
    page.locator("[data-find-text]").fill(text)


@pytest.mark.full
def test_find_reaches_messages_that_are_not_in_the_page(site: Site, open_page: OpenPage) -> None:
    add_long(site.library, 1_320)
    page = open_page("/c/long")
    open_find(page, "silver needle")
    count = page.locator("[data-find-count]")
    expect(count).to_have_text("1 of 2 messages")
    expect(page.locator("[data-index='309']")).to_be_in_viewport()
    current = "[...CSS.highlights.get('find-current')].map(r => r.toString()).join()"
    page.wait_for_function(f"{current} === 'silver needle'")
    page.keyboard.press("Enter")  # the second match in the same message
    expect(count).to_have_text("1 of 2 messages")
    page.keyboard.press("Enter")
    expect(count).to_have_text("2 of 2 messages")
    expect(page.locator("[data-index='1309']")).to_be_in_viewport()
    page.get_by_role("button", name="Previous match").click()
    expect(count).to_have_text("1 of 2 messages")
    expect(page.locator("[data-index='309']")).to_be_in_viewport()
    page.locator("[data-find-text]").fill("no such words")
    expect(count).to_have_text("No matches")
    page.keyboard.press("Escape")
    expect(page.locator("[data-find]")).to_be_hidden()
    assert page.evaluate("CSS.highlights.get('find').size") == 0
    expect(page.locator("h1")).to_have_text("Long")


@pytest.mark.full
def test_questions_are_listed_and_reached_by_keys(site: Site, open_page: OpenPage) -> None:
    add_long(site.library, 300)
    page = open_page("/c/long")
    page.keyboard.press("n")
    expect(page.locator("[data-index='2']")).to_be_focused()
    page.keyboard.press("n")
    page.keyboard.press("p")
    expect(page.locator("[data-index='2']")).to_be_focused()
    page.keyboard.press("o")
    expect(page.locator("[data-question-count]")).to_have_text("150 questions")
    questions = page.locator("[data-question]")
    questions.filter(has_text=re.compile("^Question 120 ")).click()
    expect(page.locator("[data-index='240']")).to_be_in_viewport()
    expect(page.locator("[data-question][aria-current]")).to_have_text("Question 120 about trams")
    page.get_by_role("button", name="Next question").click()
    expect(page.locator("[data-index='242']")).to_be_focused()
    site.library.add_message("long", "user", "One more question?")
    expect(page.locator("[data-question-count]")).to_have_text("151 questions")
    page.get_by_role("button", name="Close the questions").click()
    expect(page.locator("[data-outline]")).to_be_hidden()


def test_a_session_shows_tools_diffs_code_formulas_and_pictures(
    site: Site, open_page: OpenPage
) -> None:
    add_session(site.library)
    page = open_page("/c/session")
    rows = page.locator(".tool-row")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("/src/tram.py")
    expect(rows.nth(0).locator(".duration")).to_have_text("2.5 s")
    expect(page.locator("[data-status='failed'] .duration")).to_have_text("12 s")
    rows.nth(0).locator("summary").click()
    expect(rows.nth(0).locator(".diff-lines .removed")).to_have_text("-speed = 1")
    expect(rows.nth(0).locator(".diff-lines .added")).to_have_text("+speed = 2")
    expect(rows.nth(0).locator(".tool-result")).to_contain_text("Updated.")
    open_find(page, "brake test")
    expect(page.locator("[data-find-count]")).to_have_text("1 of 1 message")
    expect(rows.nth(1)).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(page.locator(".task.complete")).to_have_text("☑")
    expect(page.locator("img[alt='plan.gif']")).to_have_js_property("naturalWidth", 1)
    expect(page.locator(".file.missing")).to_contain_text("lost.png · 8 × 6")
    expect(page.locator(".message time").first).to_have_text("1 Jan 2026, 09:30")
    code = page.locator(".code", has_text="compute").locator("pre")
    assert code.evaluate("e => e.scrollWidth > e.clientWidth")
    page.get_by_role("button", name="Wrap").last.click()
    assert code.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".code", has_text="compute").get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Code copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("value = compute('long'")


@pytest.mark.full
@pytest.mark.parametrize("paragraphs", [60, 700, 2_000], ids=["all", "cut", "plain"])
def test_a_hit_in_a_long_message_is_shown_at_the_match(
    site: Site, open_page: OpenPage, paragraphs: int
) -> None:
    text = (
        "A paragraph about nothing at all.\n\n" * paragraphs + "The needle.\n\n" + "Rest.\n\n" * 60
    )
    save(site.library, "c", [Passage("m", "assistant", text)])
    page = open_page("/c/c?m=m&q=needle")
    assert page.evaluate(IS_SHOWN, "query")
    page.locator("[data-scroller]").evaluate("scroller => (scroller.scrollTop = 0)")
    page.keyboard.press("Control+f")
    page.keyboard.type("needle")
    assert page.evaluate(IS_SHOWN, "find-current")


@pytest.mark.full
def test_formulas_are_drawn(site: Site, open_page: OpenPage) -> None:
    add_session(site.library)
    page = open_page("/c/session")
    expect(page.locator("math[display='block'] mfrac")).to_be_visible()
    expect(page.locator(".body", has_text="It costs $5 or $6.").locator("math")).to_have_count(2)


def test_a_running_session_is_followed(site: Site, open_page: OpenPage) -> None:
    library = site.library
    library.add_conversation("run", "Run", messages=[{"role": "user", "content": "go"}])
    page = open_page("/c/run")
    expect(page.locator("html")).to_have_attribute("data-live", "on")
    now = datetime.now(UTC)
    metadata = {"tool_use_id": "1"}
    library.add_message(
        "run",
        "assistant",
        "command: make",
        type="tool_call",
        tool="Bash",
        metadata=metadata,
        created_at=now,
    )
    expect(page.locator("[data-status='running']")).to_contain_text("running")
    page.locator(".tool-row summary").click()
    library.add_message(
        "run",
        "tool",
        "All green",
        type="tool_result",
        tool="Bash",
        metadata=metadata,
        created_at=now + timedelta(seconds=4),
    )
    expect(page.locator("[data-status='done'] .duration")).to_have_text("4.0 s")
    expect(page.locator(".tool-result")).to_contain_text("All green")
    expect(page.locator(".tool-row")).to_have_attribute("open", "")


@pytest.mark.full
@pytest.mark.browser_errors("ERR_", "Failed to load")
def test_the_page_says_that_the_server_is_gone_and_recovers(
    place: str, site: Site, open_page: OpenPage
) -> None:
    site.library.add_conversation("c", "C", messages=[{"role": "user", "content": "first"}])
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = Server(place, listener)
    page = open_page("/")
    page.goto(f"http://127.0.0.1:{port}/c/c")
    expect(page.locator("html")).to_have_attribute("data-live", "on")
    server.stop()
    expect(page.locator("[data-unreachable]")).to_be_visible()
    site.library.add_message("c", "assistant", "saved in the meantime")
    server = Server(place, socket.create_server(("127.0.0.1", port)))
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("[data-unreachable]")).to_be_hidden()
    expect(page.locator(".message").last).to_contain_text("saved in the meantime")
    server.stop()
