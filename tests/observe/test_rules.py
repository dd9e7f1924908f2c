"""Observations by rules: what they contain, and that none of it is invented."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conversations import conversation, edit, exchange, message, tool_call
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.memory.observe import (
    MAKER,
    TYPES,
    as_document,
    conversation_text,
    from_passage,
    observe,
    parse_type,
)
from recollect.memory.observe.drafts import MAX_FACTS, TITLE_LENGTH
from recollect.memory.observe.exchanges import person_text, split_exchanges
from recollect.memory.observe.sentences import fold_spaces, strip_markdown
from recollect.memory.observe.work import collect_work
from recollect.model.observations import Observation

DERIVED = re.compile(
    r"(?:Created|Modified|Deleted) \S.*?(?: \(\+\d+ −\d+\))?|Modified \d+ files: .+"
    r"|Ran `.+?`(?:: (?:passed|failed)(?:, then (?:passed|failed))*)?"
    r"|Committed: .+|Renamed .+ to .+|Searched the web for: .+|[^:\n]{1,80}: .+",
    re.DOTALL,
)
"""What is derived from tool calls, or from who said it."""


def only(document: Document) -> Observation:
    (observation,) = observe(document)
    return observation


def assert_from_source(document: Document) -> None:
    """Every fact and sentence is in the source, or is derived from the structure."""
    sources = {p.id: p for e in split_exchanges(document) for p in e.quotable}
    for observation in observe(document):
        passages = [sources[id_] for id_ in observation.passages]
        source = fold_spaces("\n".join(strip_markdown(person_text(p)) for p in passages))
        raw = fold_spaces("\n".join(p.content for p in passages))
        for text in (*observation.facts, *filter(None, observation.narrative.split("\n"))):
            quote = text.removesuffix("…")
            if quote in source or quote in raw:
                continue
            assert DERIVED.fullmatch(text), text
            kind, _, rest = text.partition(": ")
            if kind not in ("Committed", "Searched the web for") and any(
                p.author == kind for p in passages
            ):
                assert rest in source


# -- conversations ---------------------------------------------------------------


def test_statements_about_oneself_are_facts_and_the_request_is_the_title() -> None:
    observation = only(
        exchange(
            (
                "user",
                "Can you recommend a few wing sauces for the party?"
                " By the way, I've got 1250 followers on Instagram now.",
            ),
            (
                "assistant",
                "Sure! Buffalo sauce made with Frank's RedHot is the classic choice for wings.",
            ),
        )
    )
    assert observation.title == "Recommend a few wing sauces for the party"
    assert "I've got 1250 followers on Instagram now." in observation.facts
    assert observation.maker == MAKER
    assert observation.type in TYPES


@pytest.mark.parametrize(
    "words", ["ok", "Thanks!", "continue", "Yes please", "hello", "weiter", "好的"]
)
def test_small_talk_gives_no_observation(words: str) -> None:
    answer = "You're welcome! Let me know if you need anything else."
    assert observe(exchange(("user", words), ("assistant", answer))) == []


@pytest.mark.parametrize(
    ("words", "type_"),
    [
        (
            "We decided to use PostgreSQL instead of MySQL because of row level security.",
            "decision",
        ),
        ("I prefer tabs over spaces in every Go project of mine.", "preference"),
        ("Our convention is that every module of the shop has one noun.", "pattern"),
        ("There is a SQL injection in the login form of the shop.", "security"),
        ("My sister Rachel moved to Lisbon in March.", "discovery"),
        ("What does the GIL of Python protect?", "learning"),
    ],
)
def test_cue_phrases_determine_the_type_of_a_conversation(words: str, type_: str) -> None:
    answer = "Understood, that is a clear statement."
    assert only(exchange(("user", words), ("assistant", answer))).type == type_


def test_facts_of_a_group_conversation_name_the_speaker() -> None:
    document = conversation(
        message("user", "What did you do last weekend, Caroline?", author="Melanie"),
        message(
            "user", "I joined a mentorship program for LGBTQ youth in Boston.", author="Caroline"
        ),
        message("user", "That is wonderful news about the mentorship!", author="Melanie"),
    )
    assert [len(e.passages) for e in split_exchanges(document)] == [2, 1]
    assert observe(document)[0].title.startswith("Caroline: I joined a mentorship program")
    assert_from_source(document)


def test_a_pasted_log_is_not_a_fact() -> None:
    log = "\n".join(f"2026-03-01T09:00:{n:02} │ GET /api/{n} => 200;" for n in range(60))
    observation = only(
        exchange(
            ("user", f"Why is the checkout so slow?\n\n{log}"),
            ("assistant", "The database has no index."),
        )
    )
    assert not any("GET /api" in fact for fact in observation.facts)
    assert observation.title == "Why is the checkout so slow?"


# -- work --------------------------------------------------------------------------


def fixing() -> Document:
    return conversation(
        message("user", "The login fails for expired tokens, please fix it"),
        *tool_call("Read", "file_path: /work/shop/auth.ts", "1→export function check() {}"),
        *tool_call(
            "Bash", "command: npm test", "TypeError: token is undefined\n1 failed", is_error=True
        ),
        message(
            "assistant", "The root cause is that check() never looks at the expiry of a token."
        ),
        *edit(
            "/work/shop/auth.ts",
            "return true",
            "return token.expiry > now\n// expired tokens are refused",
        ),
        *tool_call("Bash", "command: npm test", "12 passed"),
        message("assistant", "Expired tokens are refused now and all tests pass."),
    )


def test_work_is_described_by_its_tool_calls() -> None:
    observation = only(fixing())
    assert observation.type == "bugfix"
    assert observation.title == "Expired tokens are refused now and all tests pass"
    assert "Ran `npm test`: failed, then passed" in observation.facts
    assert "Modified auth.ts (+2 −1)" in observation.facts
    assert "TypeError: token is undefined" in observation.facts
    assert observation.files_modified == ("auth.ts",)
    assert observation.files_read == ()
    assert observation.subtitle == "The login fails for expired tokens, please fix it"
    assert_from_source(fixing())


@pytest.mark.parametrize(
    ("request_", "calls", "type_"),
    [
        (
            "Write a parser for dates",
            tool_call("Write", "file_path: dates.py\ncontent:\nA = 1\nB = 2"),
            "feature",
        ),
        ("More cases for dates", edit("tests/test_dates.py", "a", "b"), "test"),
        ("Use port 9000", edit("Dockerfile", "EXPOSE 80", "EXPOSE 9000"), "config"),
        ("Rename Shop to Store everywhere", edit("shop.py", "Shop", "Store"), "refactor"),
        ("Put the new logo there", edit("page.html", "a", "b"), "change"),
        (
            "Where is the session kept?",
            tool_call("Grep", "pattern: session", "auth.ts:3"),
            "discovery",
        ),
        (
            "Why is it slow?",
            tool_call("Bash", "command: make run", "fatal: no such target", is_error=True),
            "debug",
        ),
        (
            "Move it",
            tool_call(
                "Bash",
                'command: git mv a.py b.py && git commit -m "refactor: a is b now"',
                "1 file changed",
            ),
            "refactor",
        ),
        (
            "Patch it",
            tool_call("shell", "command: apply_patch\n*** Begin Patch\n*** Add File: new.py\n+a\n"),
            "feature",
        ),
    ],
)
def test_tool_calls_determine_the_type_of_work(
    request_: str, calls: tuple[Passage, Passage], type_: str
) -> None:
    document = conversation(
        message("user", request_),
        *calls,
        message("assistant", "That is how it stands in the project."),
    )
    assert observe(document)[0].type == type_
    assert_from_source(document)


def test_a_commit_ends_an_observation_and_names_it() -> None:
    commit = 'command: git add . && git commit -m "feat: carts can be shared"'
    document = conversation(
        message("user", "Build shared carts and then look at the checkout"),
        *edit("cart.py", "a", "b\nc"),
        *tool_call("Bash", commit, "[main 1234567] feat: carts can be shared"),
        message("assistant", "Now the checkout, which has a problem with rounding of prices."),
        *tool_call("Read", "file_path: checkout.py", "1→x"),
        message(
            "assistant", "The issue is that prices are floats, so 0.1 + 0.2 is rounded wrongly."
        ),
    )
    first, second = observe(document)
    assert first.title == "Feat: carts can be shared"
    assert first.type == "feature"
    assert not set(first.passages) & set(second.passages)
    assert second.files_read == ("checkout.py",)


def test_a_decision_made_during_work_is_a_separate_observation() -> None:
    document = conversation(
        message("user", "Let's go with SQLite for the cache. Add it to the store module."),
        *edit("store.py", "a", "b"),
        message("assistant", "Added a cache to the store."),
    )
    assert [o.type for o in observe(document)] == ["feature", "decision"]


def test_a_failed_edit_is_not_counted() -> None:
    passages = (
        message("user", "Change it"),
        Passage(
            "x",
            "assistant",
            "file_path: a.py\nold_string: b\nnew_string: c",
            type="tool_call",
            tool="Edit",
        ),
        Passage(
            "y",
            "tool",
            "String not found",
            type="tool_result",
            tool="Edit",
            metadata={"is_error": True},
        ),
    )
    assert collect_work(passages).files_modified == ()


def test_the_edits_of_one_call_are_counted_together() -> None:
    first = "old_string: a\nnew_string:\nb\nc\nreplace_all: false"
    content = f"file_path: a.py\nedits:\n{first}\nold_string:\nd\ne\nnew_string: f"
    (change,) = collect_work(tool_call("MultiEdit", content)).changes.values()
    assert (change.added, change.removed) == (3, 3)


# -- private messages, bounds and storage ------------------------------------------


def test_hidden_and_human_only_messages_are_never_observed() -> None:
    secret = "The launch code of the Zanzibar project is 4711."
    document = conversation(
        message("system", f"Remember: {secret}", type="context", visibility="hidden"),
        message("user", f"For people alone: {secret}", visibility="human_only"),
        message("user", f"I say it again: {secret}", metadata={"audience": "human"}),
        message("user", "I bought 20 pounds of organic scratch grains for my chickens."),
        message(
            "assistant",
            "Scratch grains are a treat, so ten percent of the feed is enough for chickens.",
        ),
    )
    observations = observe(document)
    assert len(observations) == 1
    assert "Zanzibar" not in json.dumps(as_document(document, observations).passages, default=str)
    assert "Zanzibar" not in "\n".join(conversation_text(document).lines)


@pytest.mark.parametrize("end", ["</private>", ""])
def test_a_private_span_is_not_observed(end: str) -> None:
    document = exchange(
        (
            "user",
            f"I bought a red boat in Lisbon. <private>My PIN is 4711, the boat's is 4712.{end}",
        )
    )
    assert only(document).title == "I bought a red boat in Lisbon"
    assert "4711" not in str(observe(document))


def test_observations_are_bounded_and_point_to_their_lines() -> None:
    document = fixing()
    observation = only(document)
    lines = conversation_text(document).lines
    first, last = observation.lines
    assert len(observation.title) <= TITLE_LENGTH
    assert len(observation.facts) <= MAX_FACTS
    assert lines[first - 1] == "**User:**"
    assert lines[first] == "The login fails for expired tokens, please fix it"
    assert lines[last - 1] == "Expired tokens are refused now and all tests pass."


def test_ids_are_stable_and_survive_new_messages() -> None:
    document = fixing()
    more = conversation(
        *document.passages, message("user", "I prefer short commit messages without a scope.")
    )
    assert observe(document) == observe(document)
    assert observe(more)[0].id == only(document).id
    assert len(observe(more)) == 2


def test_observations_are_stored_as_a_document_and_read_back() -> None:
    document = fixing()
    observations = observe(document)
    stored = as_document(document, observations)
    assert (stored.kind, stored.source, stored.source_id) == ("observation", "observations", "c1")
    assert {(p.type, p.visibility, p.role) for p in stored.passages} == {
        ("observation", "hidden", "bugfix")
    }
    assert json.loads(json.dumps(stored.passages[0].metadata)) == stored.passages[0].metadata
    assert [from_passage(p, stored.project) for p in stored.passages] == observations


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("bug-fix", "bugfix"),
        ("Bug_Fix", "bugfix"),
        ("fix", "bugfix"),
        ("refactoring", "refactor"),
        ("TEST", "test"),
        ("poem", None),
    ],
)
def test_types_have_aliases(name: str, type_: str | None) -> None:
    assert parse_type(name) == type_


WORDS = st.text(st.sampled_from("ab cdI'm 12.,:;-?!\n*`#>|_()[]<{é日。\u3000\ud800"), max_size=200)
ROLES = st.sampled_from(["user", "assistant"])
KINDS = st.sampled_from(["message", "message", "tool_call", "tool_result", "thinking", "context"])


@given(
    st.lists(
        st.tuples(ROLES, KINDS, WORDS, st.sampled_from([None, "Edit", "Bash", "apply_patch"])),
        max_size=8,
    )
)
def test_observations_of_any_conversation_come_from_the_source(
    parts: list[tuple[str, str, str, str | None]],
) -> None:
    document = conversation(
        *(message(role, words, type=kind, tool=tool) for role, kind, words, tool in parts)
    )
    assert_from_source(document)


def test_observations_of_sample_sessions_quote_the_source() -> None:
    from recollect.importers import entries as files
    from recollect.importers.chats import claude_code

    count = 0
    for folder in ("tests/samples/claude-code", "examples/claude-code"):
        for entry in files.entries(Path(__file__).parents[2] / folder):
            assert isinstance(entry, files.Entry)
            for document in claude_code.read(entry):
                if isinstance(document, Document):
                    assert_from_source(document)
                    count += len(observe(document))
    assert count >= 5


@pytest.mark.parametrize(
    "outcome",
    [
        "Request keys now live in `charge_requests`, unique per merchant, and purged after 72 h.",
        "Request keys now live in the table of charges, " + "which is purged every night, " * 5,
    ],
)
def test_a_title_is_no_cut_copy_and_repeats_no_fact(outcome: str) -> None:
    for question in ("Where do request keys live?", "No, don't use request keys in mails."):
        document = conversation(
            message("user", question), *edit("a.py", "a", "b"), message("assistant", outcome)
        )
        for observation in observe(document):
            title = observation.title.casefold()
            assert "…" not in title and not any(title in f.casefold() for f in observation.facts)
