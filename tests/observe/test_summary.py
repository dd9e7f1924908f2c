"""What a session was about as a whole."""

from __future__ import annotations

from conversations import called, conversation, edited, said, talk

from recollect.memory.observe import Digest, summary


def test_a_session_of_work_is_summed_up() -> None:
    document = conversation(
        said("user", "Make the cart faster. I prefer small commits."),
        *called("Read", "file_path: /work/shop/cart.py", "1→x"),
        said("assistant", "The root cause is that every item is loaded by itself."),
        *edited("/work/shop/cart.py", "a", "b"),
        *called(
            "TodoWrite",
            "todos:\ncontent: Load items at once\nstatus: completed\ncontent: Measure it\nstatus: pending",
        ),
        *called(
            "Bash", 'command: git commit -am "perf: items are loaded at once"', "1 file changed"
        ),
        said("assistant", "The cart loads its items at once now."),
    )
    found = summary(document)
    assert found.request == "Make the cart faster."
    assert found.learned == "The root cause is that every item is loaded by itself."
    assert found.completed == "Committed: perf: items are loaded at once"
    assert found.next_steps == "Measure it"
    assert found.notes == "I prefer small commits."


def test_next_steps_are_those_that_the_last_words_name() -> None:
    document = talk(
        ("user", "Plan the move to Lisbon"),
        ("assistant", "The flat is found.\n\n## Next steps\n- Sign the lease\n- Book the movers"),
    )
    assert summary(document).next_steps == "Sign the lease\nBook the movers"


def test_nothing_gives_nothing() -> None:
    assert summary(conversation()) == Digest()
