"""The summary of a session."""

from __future__ import annotations

from conversations import conversation, edit, exchange, message, tool_call

from recollect.memory.observe import Digest, summary


def test_a_work_session_is_summarized() -> None:
    document = conversation(
        message("user", "Make the cart faster. I prefer small commits."),
        *tool_call("Read", "file_path: /work/shop/cart.py", "1→x"),
        message("assistant", "The root cause is that every item is loaded by itself."),
        *edit("/work/shop/cart.py", "a", "b"),
        *tool_call(
            "TodoWrite",
            "todos:\n"
            "content: Load items at once\nstatus: completed\n"
            "content: Measure it\nstatus: pending",
        ),
        *tool_call(
            "Bash", 'command: git commit -am "perf: items are loaded at once"', "1 file changed"
        ),
        message("assistant", "The cart loads its items at once now."),
    )
    digest = summary(document)
    assert digest.request == "Make the cart faster."
    assert digest.learned == "The root cause is that every item is loaded by itself."
    assert digest.completed == "Committed: perf: items are loaded at once"
    assert digest.next_steps == "Measure it"
    assert digest.notes == "I prefer small commits."


def test_next_steps_come_from_the_last_answer() -> None:
    document = exchange(
        ("user", "Plan the move to Lisbon"),
        ("assistant", "The flat is found.\n\n## Next steps\n- Sign the lease\n- Book the movers"),
    )
    assert summary(document).next_steps == "Sign the lease\nBook the movers"


def test_an_empty_conversation_has_an_empty_summary() -> None:
    assert summary(conversation()) == Digest()
