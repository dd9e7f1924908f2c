"""Titles name the outcome, facts are ordered by use, and a reply belongs to what it accepts."""

from __future__ import annotations

import pytest
from conversations import conversation, edit, exchange, message, tool_call

from recollect import Document
from recollect.memory.observe import observe
from recollect.memory.observe.cues import is_trivial
from recollect.memory.observe.sentences import split_pasted
from recollect.model.observations import Observation


def only(document: Document) -> Observation:
    (observation,) = observe(document)
    return observation


def accepted_offer(reply: str) -> Document:
    return conversation(
        message("user", "Where should the uploads of the gallery be stored?"),
        message(
            "assistant",
            "A bucket is cheaper than a disk: 23 dollars a month for 1 TB. I would take it.",
        ),
        message("user", reply),
        *edit("gallery/storage.py", "DiskStorage()", "BucketStorage()"),
        message("assistant", "Uploads go to the bucket `gallery-uploads` now."),
    )


# -- titles -------------------------------------------------------------------------


def test_the_title_of_work_is_its_outcome() -> None:
    document = conversation(
        message("user", "yes please"),
        *edit("index.html", "<head>", "<head><script>setTheme()</script>"),
        message("assistant", "The theme is set before the first paint, so nothing flashes."),
    )
    title = "The theme is set before the first paint, so nothing flashes"
    assert only(document).title == title


@pytest.mark.parametrize("text", ["sorry.", "Oops!", "my bad", "Désolé", "すみません", "对不起"])
def test_an_apology_says_nothing_about_the_work(text: str) -> None:
    assert is_trivial(text)
    assert not is_trivial(f"{text} push the branch")


def test_a_pasted_error_is_not_the_title() -> None:
    document = conversation(
        message("user", "E   ProgrammingError: function gen_random_uuid() does not exist"),
        *edit("compose.yml", "postgres:12", "postgres:16"),
        message("assistant", "The database of the tests is PostgreSQL 16 now, like production."),
    )
    assert only(document).title == "The database of the tests is PostgreSQL 16 now, like production"


def test_a_question_of_a_program_at_the_end_of_a_pasted_log_is_not_the_title() -> None:
    log = "\n".join(f"> step {n} && npm run check:{n} --all-the-workspaces" for n in range(60))
    document = exchange(
        (
            "user",
            "The build uses another branch than ours. This is its log:\n"
            f"{log}\nTip: Want to turn off tips and other hints?\na.ts ━━━━━\nFound 4 errors.",
        ),
        (
            "assistant",
            "The build checks out the main branch, because the workflow names no branch.",
        ),
    )
    assert only(document).title == "The build uses another branch than ours"


_STATUS_PAGE = """\
build-and-test (20.x)
failed 10 minutes ago in 43s
Search logs
1s
Current runner version: '2.328.0'
Getting Git version info
✔ Generated the client in 63ms
Tip: Need your database queries to be 1000x faster?
Process completed with exit code 1."""


def test_a_pasted_status_page_is_not_the_title() -> None:
    document = conversation(
        message("user", f"The pipeline takes another branch than ours. Its page:\n{_STATUS_PAGE}"),
        *tool_call("Read", "file_path: ci.yml", "on: pull_request"),
        message("assistant", "A pull request is merged into the main branch before it is tested."),
    )
    observation = only(document)
    assert observation.title == "The pipeline takes another branch than ours"
    texts = (observation.subtitle, *observation.facts, observation.narrative)
    assert not any(line in text for line in _STATUS_PAGE.split("\n") for text in texts)


@pytest.mark.parametrize(
    "line",
    [
        "failed 10 minutes ago in 43s",
        "Checked 85 files in 137ms. No fixes applied.",
        "Found 4 errors.",
        "Error 47697: the database is locked",
        "[CLIENT ERROR] Streaming stopped: no data arrived",
        "2026-03-01T10:00:00 the worker has lost its connection",
        "✗ keeps the tombstones of deleted rows",
        "app/lib/auth.ts:35:11 this variable has no type",
        "~/projects/shop main ⇡8 *1 ··········· 26s",
    ],
)
def test_a_line_of_output_is_neither_title_nor_statement(line: str) -> None:
    own, pasted = split_pasted(f"Please look at this\n{line}\nSince Monday nothing works.")
    assert (own, pasted) == ("Please look at this\n\nSince Monday nothing works.", line)


@pytest.mark.parametrize(
    "text",
    [
        "The page loads in 43s on my phone",
        "Failed builds should send a mail after 30 s, shouldn't they?",
        "3 errors a day is too much?",
        "I get a TypeError: x is undefined when I click on Save",
        "- failed: the login\n- passed: the search",
        "Info for you: we moved to Berlin",
        "> I would keep the table\nYes, keep it",
        "Run the tests again",
    ],
)
def test_sentences_of_people_are_their_own_words(text: str) -> None:
    assert split_pasted(text) == (text, "")


def test_the_title_of_a_test_run_is_how_it_ended() -> None:
    document = conversation(
        message("user", "Run the tests again"),
        *tool_call("Bash", "command: pytest -q", "1 failed, 3 passed", is_error=True),
        message("assistant", "I need to look at the test file and fix it."),
    )
    assert only(document).title == "Ran `pytest -q`: failed"


def test_advice_to_the_reader_is_not_the_title() -> None:
    document = conversation(
        message("user", "Please write an example of a decorator"),
        *edit("example.py", "pass", "print()"),
        message(
            "assistant",
            'The file has a decorator with parameters. When you run it, it prints "Hello, Ann!"'
            " three times.",
        ),
    )
    assert only(document).title == "The file has a decorator with parameters"


def test_the_request_is_the_subtitle_of_work() -> None:
    document = conversation(
        message("user", "Please cache the weather forecast"),
        *edit("weather.py", "ttl = 0", "ttl = 2700"),
        message("assistant", "Forecasts are reused for 45 minutes."),
    )
    observation = only(document)
    assert observation.title == "Forecasts are reused for 45 minutes"
    assert observation.subtitle == "Cache the weather forecast"


# -- replies ------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ["Do it", "yes please", "ok, go ahead", "the bucket then"])
def test_a_reply_is_joined_to_the_offer_that_it_accepts(reply: str) -> None:
    document = accepted_offer(reply)
    observation = only(document)
    assert observation.type == "decision"
    assert observation.title == "Uploads go to the bucket `gallery-uploads` now"
    assert any("23 dollars a month" in fact for fact in observation.facts)
    assert observation.files_modified == ("gallery/storage.py",)
    assert len(observation.passages) == len(document.passages)


@pytest.mark.parametrize(
    "reply",
    [
        "Thanks!",
        "Which of them is faster for small files?",
        "Which one do we take? Disks are dear.",
        "Now look at the login page",
    ],
)
def test_other_messages_are_not_joined(reply: str) -> None:
    document = accepted_offer(reply)
    assert all(len(each.passages) < len(document.passages) for each in observe(document))


def test_a_cause_that_is_accepted_stays_a_bugfix() -> None:
    document = conversation(
        message("user", "The store does not open after the power cut. Why?"),
        message("assistant", "The directory is never synced, so the manifest was lost."),
        message("user", "ouch. fix please"),
        *edit("manifest.rs", "rename(a, b)", "rename(a, b); sync_dir()"),
        message("assistant", "The directory is synced after the rename."),
    )
    observation = only(document)
    assert observation.type == "bugfix"
    assert observation.facts[0].startswith("The directory is never synced")


def test_a_short_directive_that_refers_to_the_answer_is_joined_to_it() -> None:
    document = conversation(
        message("user", "The revenue in the dashboard is 4 % lower than in the books."),
        message("assistant", "Orders of the Swiss shop have no currency and are dropped."),
        message("user", "default those to CHF"),
        *edit("orders.py", "inner", "left"),
        message("assistant", "Orders without a currency count as CHF."),
    )
    assert len(only(document).passages) == len(document.passages)


# -- facts --------------------------------------------------------------------------


def test_facts_are_ordered_by_use() -> None:
    document = conversation(
        message("user", "The nightly import crashes. Never delete the raw files while you look."),
        *tool_call("Bash", "command: pytest -q", "KeyError: 'currency'\n1 failed", is_error=True),
        message("assistant", "The root cause is that orders of the Swiss shop have no currency."),
        *edit("etl/orders.py", "inner", "left"),
        *tool_call("Bash", "command: pytest -q", "57 passed"),
        message("assistant", "All 18,233 orders are kept now and count as CHF."),
    )
    facts = observe(document)[0].facts
    starts = ("The root cause", "Never delete", "All 18,233", "KeyError", "Ran", "Modified")
    order = [start for fact in facts for start in starts if fact.startswith(start)]
    expected = [start for start in starts if start in order]
    assert order == expected
    assert {"The root cause", "KeyError", "Ran", "Modified"} <= set(order)


# -- everyday conversations -----------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "What can I cook with leeks and potatoes?",
            "A soup: sweat the leeks, add diced potatoes and stock, and simmer for 20 minutes.",
        ),
        (
            "Explain the offside rule like I'm five.",
            "You may not wait behind the last defender for the ball.",
        ),
        (
            "Comment enlever une tache de vin rouge ?",
            "Tamponnez sans frotter, puis eau gazeuse et un peu de bicarbonate.",
        ),
        ("周末去杭州有什么建议？", "第一天西湖和灵隐寺，第二天龙井村喝茶。"),
    ],
)
def test_everyday_questions_are_not_observed(question: str, answer: str) -> None:
    document = exchange(("user", question), ("assistant", answer), project="default")
    assert observe(document) == []


def test_what_people_say_about_themselves_is_observed_everywhere() -> None:
    document = exchange(
        ("user", "I moved to Lisbon in March with my sister Rachel. What should I see there?"),
        ("assistant", "The tram 28 and the tiles of Alfama."),
        project="default",
    )
    assert "Lisbon" in str(only(document))
